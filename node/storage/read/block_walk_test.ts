import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { readMixedRows } from '#engine/store/read/mixed_rows.ts';
import { realEnv } from '#lib/env/real.ts';
import { compareBytes } from '#lib/tags.ts';
import {
  closeDatabases,
  never,
  openDatabase,
  truncateByLog,
  writeRows,
} from '../database_testing.ts';
import { BlockWalk } from './block_walk.ts';

const folder = mkdtempSync(join(tmpdir(), 'tsdb-block-walk-'));
after(async () => {
  await closeDatabases();
  rmSync(folder, { recursive: true, force: true });
});

test('while series of memory are looked for, others have their turns, and rows that leave memory are not lost', async () => {
  for (const meanwhile of ['nothing', 'flush', 'truncate'] as const) {
    const { database } = await openDatabase(join(folder, meanwhile));
    const namespace = database.namespaces.get('metrics')!;
    const nanos = realEnv.clock.nowNanos();
    // More than are looked at in one stretch.
    await writeRows(
      database,
      Array.from({ length: 40_000 }, (_, i) => ({
        series: { __name__: 'up', instance: `${i}` },
        nanos,
        value: i,
      })),
    );
    const { index } = namespace;
    const { blockStartNanos } = database.store.blocks(namespace.ordinal)[0]!;
    const all = database.store.slotsOfBlock(namespace.ordinal, blockStartNanos);
    const shard = index.shard(all[0]!);
    const expected = [...all].filter((slot) => index.shard(slot) === shard).length;
    let rests = 0;
    const rest = async (): Promise<void> => {
      if (++rests !== 1) return;
      if (meanwhile === 'flush') await database.flush(null, never);
      if (meanwhile === 'truncate') await truncateByLog(database, 'metrics');
    };
    const parts = { store: database.store, disk: realEnv.disk };
    const options = { wants: () => true, rest };
    await using walk = new BlockWalk(parts, namespace, shard, blockStartNanos, options);
    const ids: Uint8Array[] = [];
    for (let series = await walk.next(); series !== null; series = await walk.next()) {
      ids.push(series.id);
      const { timestampNanos } = readMixedRows(series.chunks, [0n, 2n ** 62n]);
      assert.equal(timestampNanos.length, 1, meanwhile);
    }
    assert.equal(ids.length, meanwhile === 'truncate' ? 0 : expected, meanwhile);
    if (meanwhile !== 'truncate') assert.ok(rests >= 3, `${rests} rests`);
    assert.deepEqual(ids, ids.toSorted(compareBytes));
  }
});
