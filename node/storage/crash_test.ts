import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { closeDatabases, openDatabase, readAll } from './database_testing.ts';

const folder = mkdtempSync(join(tmpdir(), 'tsdb-crash-'));
after(async () => {
  await closeDatabases();
  rmSync(folder, { recursive: true, force: true });
});

const rowsOfWrite = 25;

/** Lets the child write until it has acknowledged this many writes, and kills it. */
async function writeUntilKilled(first: number, nanos: bigint, count: number): Promise<number[]> {
  const child = spawn(
    process.execPath,
    [join(import.meta.dirname, 'crash_testing.ts'), folder, String(first), String(nanos)],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  let text = '';
  child.stdout.setEncoding('latin1');
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  for await (const part of child.stdout) {
    text += part;
    if (text.split('\n').length > count) child.kill('SIGKILL');
  }
  await ended;
  // A last line without its end may be cut.
  return text.split('\n').slice(0, -1).map(Number);
}

test('kill -9 in the middle of writes loses nothing that was acknowledged', async () => {
  const nanos = realEnv.clock.nowNanos();
  const acknowledged: number[] = [];
  for (const count of [30, 200, 90]) {
    const first = acknowledged.length === 0 ? 0 : Math.max(...acknowledged) + 100;
    const numbers = await writeUntilKilled(first, nanos, count);
    assert.ok(numbers.length >= count, 'the child wrote until it was killed');
    acknowledged.push(...numbers);
    const { database, report } = await openDatabase(folder);
    assert.ok(report.replay.problems.every(({ kind }) => kind === 'torn tail'));
    assert.equal(report.replay.rowsWithoutSeries, 0);
    const samples = await readAll(database);
    for (const number of acknowledged) {
      for (let row = 0; row < rowsOfWrite; row += 1) {
        const series = `__name__=crash,group=${number % 50},row=${row}`;
        const found = samples
          .get(series)
          ?.some(([at, value]) => at === nanos + BigInt(number) && value === number);
        assert.ok(found, `write ${number} of ${series} is missing`);
      }
    }
    await closeDatabases();
  }
});
