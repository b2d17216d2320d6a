/** Blocks with as many typed values as are taken, or some more, over a stop. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { rowOutcome } from '#cluster/node/service.ts';
import { TypedValueWriter, valueKind } from '#engine/typed/typed_value.ts';
import { realEnv } from '#lib/env/real.ts';
import { chunkHeaders, kindsAll } from '#engine/codec/chunk.ts';
import type { Database } from '../storage/database.ts';
import { closeDatabases, never, openDatabase, writeRows } from '../storage/database_testing.ts';

/** With so much memory a block may have more than with that of the next start. */
const optionsBefore = { memoryBytesMax: 448 << 20 };
const options = { memoryBytesMax: 64 << 20 };

function wideValue(first: number): Uint8Array {
  const writer = new TypedValueWriter().begin(valueKind.histogram, 0);
  for (let number = 16; number < 4_016; number++) writer.uint(number, BigInt(first + number));
  return writer.finish();
}

async function rowCountOf(database: Database): Promise<number> {
  const { bundle } = await database.fetch(
    {
      ...{ namespace: 'metrics', placementVersion: 0, query: { kind: 'all' }, shards: null },
      ...{ seriesLimit: 0, fetchData: true, startNanos: 0n, endNanos: 2n ** 62n },
    },
    never,
  );
  const { chunkData } = bundle;
  return [...chunkHeaders(chunkData, 0, chunkData.length, kindsAll)].reduce(
    (sum, { rowCount }) => sum + rowCount,
    0,
  );
}

test('a node starts with all rows that it took, although a block has more values than are taken of one now', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-values-'));
  await using _ = {
    [Symbol.asyncDispose]: async () => {
      await closeDatabases();
      rmSync(folder, { recursive: true });
    },
  };
  const { database } = await openDatabase(folder, optionsBefore);
  const begin = realEnv.clock.nowNanos() - 2_000_000_000n;
  let taken = 0;
  let refused = 0;
  for (let at = 0; at < 10; at++) {
    // Batches that are on their way together count together.
    const batches = [0, 1, 2, 3].map((batch) =>
      writeRows(
        database,
        Array.from({ length: 20 }, (_, row) => ({
          series: { name: 'wide' },
          nanos: begin + BigInt(at * 80 + batch * 20 + row) * 1_000_000n,
          value: 0,
          isTyped: true,
          message: wideValue(row),
        })),
      ),
    );
    for (const { outcomes } of await Promise.all(batches)) {
      const refusals = [...outcomes].filter((outcome) => outcome !== rowOutcome.written);
      refused += refusals.length;
      taken += 20 - refusals.length;
    }
  }
  assert.ok(taken > 100 && refused > 0, `${taken} taken, ${refused} refused`);
  assert.equal(await rowCountOf(database), taken);
  await database.snapshot(1, never);
  await closeDatabases();
  const { database: again } = await openDatabase(folder, options);
  assert.equal(await rowCountOf(again), taken);
  await again.flush(null, never);
  assert.equal(await rowCountOf(again), taken);
});
