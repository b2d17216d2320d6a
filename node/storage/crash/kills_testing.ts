/**
 * Kills a child that writes, flushes and takes snapshots, again and again, and looks for every
 * acknowledged row.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { registryOf } from '#cluster/namespaces/namespaces.ts';
import { realEnv } from '#lib/env/real.ts';
import { closeDatabases, namespaceOf, openDatabase, readAll } from '../database_testing.ts';

const rowsOfWrite = 25;
const hourNanos = 3_600_000_000_000n;

/** Lets the child write until it has acknowledged this many writes, and kills it. */
async function writeUntilKilled(
  folder: string,
  first: number,
  nanos: bigint,
  count: number,
): Promise<number[]> {
  const child = spawn(
    process.execPath,
    [join(import.meta.dirname, 'crash_testing.ts'), folder, String(first), String(nanos)],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const parts: string[] = [];
  let lines = 0;
  child.stdout.setEncoding('latin1');
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  for await (const part of child.stdout) {
    parts.push(part);
    lines += part.split('\n').length - 1;
    if (lines >= count) child.kill('SIGKILL');
  }
  await ended;
  // A last line without its end may be cut.
  return parts.join('').split('\n').slice(0, -1).map(Number);
}

/**
 * @param counts how many writes the child acknowledges before each kill
 * @param told called after each kill with what is there
 */
export async function killAgainAndAgain(
  folder: string,
  counts: readonly number[],
  told: (kill: number, writes: number) => void,
): Promise<void> {
  const nanos = realEnv.clock.nowNanos();
  const acknowledged: number[] = [];
  let first = 0;
  for (const [kill, count] of counts.entries()) {
    const numbers = await writeUntilKilled(folder, first, nanos, count);
    assert.ok(numbers.length >= count, 'the child wrote until it was killed');
    for (const number of numbers) acknowledged.push(number);
    first = numbers.reduce((most, number) => Math.max(most, number), first) + 100;
    const { database, report } = await openDatabase(folder, {
      registry: registryOf([namespaceOf('metrics', { coldWritesEnabled: true })]),
    });
    assert.ok(report.replay.problems.every(({ kind }) => kind === 'torn tail'));
    assert.equal(report.replay.rowsWithoutSeries, 0);
    assert.deepEqual(report.corrupt, []);
    checkAll(await readAll(database), acknowledged, nanos);
    await closeDatabases();
    told(kill + 1, acknowledged.length);
  }
}

function checkAll(
  samples: ReadonlyMap<string, readonly [bigint, number][]>,
  acknowledged: readonly number[],
  nanos: bigint,
): void {
  const found = new Map([...samples].map(([name, rows]) => [name, new Map(rows)]));
  for (const number of acknowledged) {
    const late = number % 3 === 0 ? 5n * hourNanos : 0n;
    for (let row = 0; row < rowsOfWrite; row += 1) {
      const series = `__name__=crash,group=${number % 50},row=${row}`;
      const value = found.get(series)?.get(nanos - late + BigInt(number));
      assert.equal(value, number, `write ${number} of ${series} is missing`);
    }
  }
}
