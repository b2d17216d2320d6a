import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { Env } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { encodeTags } from '#lib/tags.ts';
import { listFilesets, shardFolder } from '../persist/fileset_format.ts';
import { FilesetWriter } from '../persist/fileset_writer.ts';
import { closeDatabases, openDatabase, readAll, writeRows } from './database_testing.ts';
import { tick } from './tick.ts';

const folder = mkdtempSync(join(tmpdir(), 'tsdb-tick-'));
after(async () => {
  await closeDatabases();
  rmSync(folder, { recursive: true, force: true });
});

const hourNanos = 3_600_000_000_000n;

/** A clock that can be put forward. */
function movedEnv(): { env: Env; moved: { nanos: bigint } } {
  const moved = { nanos: 0n };
  const clock = {
    ...realEnv.clock,
    nowNanos: () => realEnv.clock.nowNanos() + moved.nanos,
    nowMillis: () => realEnv.clock.nowMillis() + Number(moved.nanos / 1_000_000n),
  };
  return { env: { ...realEnv, clock }, moved };
}

test('a tick forgets series, segments and filesets that are past retention, and no others', async () => {
  const { env, moved } = movedEnv();
  const { database } = await openDatabase(folder, { env, segmentBytesMax: 100 });
  const old = { __name__: 'old' };
  const kept = { __name__: 'kept' };
  await writeRows(database, [{ series: old, nanos: env.clock.nowNanos(), value: 1 }]);
  const shards = shardFolder(folder, 'metrics', 0);
  const blockStart = database.namespaces.get('metrics')!.blockStartOf(env.clock.nowNanos());
  {
    await using writer = await FilesetWriter.open(env.disk, shards, {
      namespace: 'metrics',
      namespaceRevision: 0,
      shard: 0,
      shardCount: 4,
      blockStartNanos: blockStart,
      blockSizeNanos: 2n * hourNanos,
      volume: 0,
      createdNanos: 0n,
      source: 'peers',
    });
    const tags = encodeTags([{ name: 'x', value: 'y' }]);
    const name = { idScheme: 1, tags, explicitId: new Uint8Array(0) };
    await writer.add(new Uint8Array([1]), name, new Uint8Array(3));
    await writer.finish();
  }
  moved.nanos = 47n * hourNanos;
  await writeRows(database, [{ series: kept, nanos: env.clock.nowNanos(), value: 2 }]);
  await writeRows(database, [{ series: kept, nanos: env.clock.nowNanos() + 1n, value: 3 }]);
  assert.deepEqual(await tick(database), {
    seriesExpired: 0,
    segmentsDeleted: 0,
    filesetsDeleted: 0,
  });
  assert.equal((await readAll(database)).size, 2);
  moved.nanos = 53n * hourNanos;
  const reports = [await tick(database), await tick(database)];
  const sum = (of: (report: (typeof reports)[number]) => number) =>
    reports.reduce((total, report) => total + of(report), 0);
  assert.equal(
    sum(({ seriesExpired }) => seriesExpired),
    1,
  );
  assert.equal(
    sum(({ segmentsDeleted }) => segmentsDeleted),
    1,
  );
  assert.equal(
    sum(({ filesetsDeleted }) => filesetsDeleted),
    1,
  );
  assert.deepEqual(await listFilesets(env.disk, shards), []);
  assert.deepEqual([...(await readAll(database)).keys()], ['__name__=kept']);
});
