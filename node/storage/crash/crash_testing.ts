/**
 * The child of crash_test.ts and of test/load/kills.ts: writes to a database as fast as it can,
 * several writes at a time, flushes, takes snapshots and expires now and then, and prints the
 * number of each write when it is acknowledged, until it is killed.
 *
 *     node crash_testing.ts <data folder> <first number> <first nanosecond>
 */
import { registryOf } from '#cluster/namespaces/namespaces.ts';
import { realEnv } from '#lib/env/real.ts';
import { namespaceOf, never, openDatabase, writeRows } from '../database_testing.ts';
import { tick } from '../retention/tick.ts';

const [dataFolder, firstText, nanosText] = process.argv.slice(2);
const writesAtOnce = 4;
const rowsOfWrite = 25;
const hourNanos = 3_600_000_000_000n;

const { database } = await openDatabase(dataFolder!, {
  segmentBytesMax: 64 * 1024,
  registry: registryOf([namespaceOf('metrics', { coldWritesEnabled: true })]),
});
let next = Number(firstText);
const nanos = BigInt(nanosText!);

async function writeOn(): Promise<never> {
  for (;;) {
    const number = next;
    next += 1;
    // Every third write goes to a block that is closed, so that volumes are merged.
    const late = number % 3 === 0 ? 5n * hourNanos : 0n;
    await writeRows(
      database,
      Array.from({ length: rowsOfWrite }, (_, i) => ({
        series: { __name__: 'crash', row: `${i}`, group: `${number % 50}` },
        nanos: nanos - late + BigInt(number),
        value: number,
      })),
    );
    process.stdout.write(`${number}\n`);
  }
}

async function keepHouse(): Promise<never> {
  for (let round = 0; ; round += 1) {
    await realEnv.clock.sleep(20 + 80 * realEnv.random.fraction(), never);
    if (round % 4 === 0) await database.snapshot(1, never);
    else if (round % 4 === 1) await database.flusher.flushAll(null, never);
    else if (round % 4 === 2) await database.flush(null, never);
    else await tick(database);
  }
}

await Promise.all([keepHouse(), ...Array.from({ length: writesAtOnce }, writeOn)]);
