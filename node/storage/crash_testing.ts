/**
 * The child of crash_test.ts: writes to a database as fast as it can, several writes at a time, and prints
 * the number of each one when it is acknowledged, until it is killed.
 *
 *     node crash_testing.ts <data folder> <first number> <first nanosecond>
 */
import { openDatabase, writeRows } from './database_testing.ts';

const [dataFolder, firstText, nanosText] = process.argv.slice(2);
const writesAtOnce = 4;
const rowsOfWrite = 25;

const { database } = await openDatabase(dataFolder!, { segmentBytesMax: 64 * 1024 });
let next = Number(firstText);
const nanos = BigInt(nanosText!);

async function writeOn(): Promise<never> {
  for (;;) {
    const number = next;
    next += 1;
    await writeRows(
      database,
      Array.from({ length: rowsOfWrite }, (_, i) => ({
        series: { __name__: 'crash', row: `${i}`, group: `${number % 50}` },
        nanos: nanos + BigInt(number),
        value: number,
      })),
    );
    process.stdout.write(`${number}\n`);
  }
}

await Promise.all(Array.from({ length: writesAtOnce }, writeOn));
