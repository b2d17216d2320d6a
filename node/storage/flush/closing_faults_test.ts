/** Closed filesets when something goes wrong: lost columns, damage, IDs that two would have, rows that were deleted before. */
import assert from 'node:assert/strict';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { BatchBuilder } from '#engine/batch/batch.ts';
import { rowOutcome } from '#cluster/node/service.ts';
import { decodeTags, encodeTags, type Tags } from '#lib/tags.ts';
import { minute, sorted, type World } from '../aggregation/aggregation_testing.ts';
import { never, writeRows } from '../database_testing.ts';
import type { CachedFile } from '../filesets/file_cache.ts';
import {
  closedOf,
  coarseOf,
  columnsPathsOf,
  old,
  openWorld,
  range,
  settle,
} from './closed_world_testing.ts';
import { writeVolume } from './volume.ts';

const asked = { namespace: 'coarse', placementVersion: 0, ...range } as const;
const everything = { ...asked, query: { kind: 'all' }, shards: null } as const;

/** Writers may write to windows themselves, also late. */
function takeRows(world: World): void {
  const coarse = coarseOf(world);
  const { definition } = coarse;
  coarse.update({ ...definition, options: { ...definition.options, coldWritesEnabled: true } });
}

/** Writes a row by an ID that does not tell its tags. @returns what became of it */
async function writeById({ database }: World, tags: Tags, nanos: bigint): Promise<number> {
  const builder = new BatchBuilder();
  builder.begin(2);
  builder.addSeries(encodeTags(tags), 0, Buffer.from('device-7'));
  const [slots, times] = [Uint32Array.of(0), BigInt64Array.of(nanos)];
  builder.setRows(1, slots, new Uint32Array(1), times, 1, Float64Array.of(7));
  const { outcomes } = await database.write(
    {
      namespace: 'coarse',
      namespaceNumber: 0,
      namespacesRevision: 0,
      placementVersion: database.shards.version,
      referenceEpoch: '',
      batch: builder.finish(),
    },
    never,
  );
  return outcomes[0] ?? rowOutcome.written;
}

async function hostsOf({ database }: World): Promise<readonly string[]> {
  const whole = { tagNames: ['host'], namesOnly: false, limit: 0, query: { kind: 'all' } } as const;
  const { tags } = await database.aggregate({ ...asked, ...whole }, never);
  return tags.find(({ name }) => name === 'host')!.values;
}

test('an index that was saved does not stand for filesets whose columns are lost', async () => {
  const world = await openWorld();
  await settle(world);
  assert.equal(coarseOf(world).index.seriesCount, 2);
  await world.database.snapshot(1, never);
  const before = sorted(await world.windows());
  assert.equal(before.length, 42);
  const paths = columnsPathsOf(world);
  await world.database[Symbol.asyncDispose]();
  for (const path of paths) rmSync(path);
  await world.start();
  assert.deepEqual(sorted(await world.windows()), before);
  await settle(world);
  assert.ok(closedOf(world).length > 0);
  assert.deepEqual(sorted(await world.windows()), before);
});

test('a slice that comes to the same leaves nothing in the index', async () => {
  const world = await openWorld();
  await settle(world);
  const coarse = coarseOf(world);
  // As when the notes of what slices are made of are lost.
  for (const file of coarse.files.all(null)) {
    world.aggregator.forget(coarse, file.shard, new Set(coarse.files.blocksOf(file)));
  }
  await world.run();
  assert.ok(coarse.index.seriesCount > 2);
  await settle(world);
  assert.equal(coarse.index.seriesCount, 2);
});

test('a limit of series is one of what is read', async () => {
  const world = await openWorld();
  await settle(world);
  const { queries } = world.database;
  const add = queries.add.bind(queries);
  let [read, blocks] = [0, 0];
  queries.add = (kind, count) => {
    if (kind === 'diskRead') read += count;
    if (kind === 'seriesBlocks') blocks += count;
    add(kind, count);
  };
  const one = { ...everything, fetchData: true, seriesLimit: 3 };
  const { bundle, exhaustive } = await world.database.fetch(one, never);
  assert.deepEqual([bundle.seriesCount, exhaustive], [3, false]);
  assert.equal(blocks, read);
  // Of each series several filesets.
  const windows = closedOf(world).length;
  assert.ok(read <= 3 * windows, `${read} chunks were read of ${windows} filesets`);
});

test('a damaged series of a fileset that is replaced while it is read is one of all that are given', async () => {
  const world = await openWorld();
  await settle(world);
  const { database } = world;
  const coarse = coarseOf(world);
  const before = sorted(await world.windows());
  database.fileCache.limitPages(0);
  const read = database.fileCache.read.bind(database.fileCache);
  let isReplaced = false;
  database.fileCache.read = async (cached: CachedFile, start: number, end: number) => {
    const bytes = await read(cached, start, end);
    const file = closedOf(world).find((each) => each === cached);
    if (isReplaced || file === undefined) return bytes;
    isReplaced = true;
    const volume = {
      namespace: coarse,
      shard: file.shard,
      blockStartNanos: file.blockStartNanos,
      source: 'flush',
      onSafe: () => {},
      always: true,
    } as const;
    const nothing = { next: async () => null };
    await coarse.files.write(file.shard, (signal) =>
      writeVolume(database, volume, nothing, signal),
    );
    const damaged = bytes.slice();
    damaged[0]! ^= 1;
    return damaged;
  };
  assert.deepEqual(sorted(await world.windows()), before);
  assert.ok(isReplaced);
});

for (const how of [
  'missing',
  'of wrong bytes',
  'of wrong bytes, and not kept',
  'on a disk that takes nothing',
] as const) {
  test(`many reads at once find columns that are ${how}`, async (t) => {
    const world = await openWorld();
    await settle(world);
    const { database } = world;
    const paths = columnsPathsOf(world);
    if (how === 'on a disk that takes nothing') {
      const full = () => Promise.reject(new Error('ENOSPC: no space left on device'));
      t.mock.method(database.env.disk, 'writeFileAtomic', full);
    }
    if (how.endsWith('not kept')) {
      database.fileCache.limit({ openFilesMax: 8, directoryBytesMax: 0, pageBytesMax: 0 });
    }
    for (let round = 0; round < 5; round++) {
      for (const file of closedOf(world)) database.fileCache.forgetColumns(file);
      for (const path of paths) {
        if (!how.startsWith('of wrong bytes')) rmSync(path, { force: true });
        else writeFileSync(path, readFileSync(path).fill(9, 16, 150));
      }
      const answers = await Promise.all(
        Array.from({ length: 8 }, async (_, i) => {
          for (let turn = 0; turn < i; turn++)
            await new Promise((resolve) => setImmediate(resolve));
          return database.fetch({ ...everything, fetchData: true, seriesLimit: 0 }, never);
        }),
      );
      for (const { bundle } of answers) assert.equal(bundle.seriesCount, 42);
    }
  });
}

for (const isFirst of [false, true]) {
  test(`a row that was deleted in memory is not named when its span is closed ${isFirst ? 'before' : 'after'} that`, async () => {
    const world = await openWorld();
    takeRows(world);
    const row = { series: { __name__: 'x', host: 'ghost' }, nanos: old + 3n * minute, value: 1 };
    await writeRows(world.database, [row], { namespace: 'coarse', version: 1 });
    assert.ok((await hostsOf(world)).includes('ghost'));
    await world.delete('ghost', {});
    if (isFirst) await settle(world);
    await world.clean();
    for (let time = 0; time < 2; time++) await settle(world);
    assert.ok(closedOf(world).length > 0);
    assert.equal((await hostsOf(world)).includes('ghost'), false);
    assert.equal(coarseOf(world).index.seriesCount, 2);
  });
}

for (const what of ['of a fileset', 'of memory']) {
  test(`a series ${what} whose ID does not tell its tags goes when its rows are deleted`, async () => {
    const world = await openWorld();
    takeRows(world);
    if (what === 'of memory') await settle(world);
    assert.equal(
      await writeById(world, [{ name: 'host', value: 'ghost' }], old + 3n * minute),
      rowOutcome.written,
    );
    if (what === 'of a fileset') {
      await world.database.flusher.flushAll(['coarse'], never);
      await settle(world);
    }
    assert.ok(closedOf(world).length > 0);
    assert.ok((await hostsOf(world)).includes('ghost'));
    await world.delete('ghost', {});
    await world.clean();
    for (let time = 0; time < 2; time++) await settle(world);
    assert.equal((await hostsOf(world)).includes('ghost'), false);
    assert.equal(coarseOf(world).index.seriesCount, 2);
  });
}

test('an ID that does not tell its tags is of one series, also when its span is closed and after a start', async () => {
  const world = await openWorld();
  takeRows(world);
  const first = [{ name: 'a', value: '1' }];
  const other = [{ name: 'a', value: '2' }];
  const byId = async (): Promise<readonly Tags[]> => {
    const ids = [Buffer.from('device-7')];
    const { bundle } = await world.database.fetchById({ ...asked, ids }, never);
    return Array.from({ length: bundle.seriesCount }, (_, i) => {
      assert.ok(bundle.chunkOffset[i]! < bundle.chunkOffset[i + 1]!);
      return decodeTags(bundle.tagsData.subarray(bundle.tagsOffset[i], bundle.tagsOffset[i + 1]));
    });
  };
  assert.equal(await writeById(world, first, old + 3n * minute), rowOutcome.written);
  await world.database.flusher.flushAll(['coarse'], never);
  await settle(world);
  assert.ok(closedOf(world).length > 0);
  assert.deepEqual(await byId(), [first]);
  for (const isStarted of [false, true]) {
    if (isStarted) {
      await world.database[Symbol.asyncDispose]();
      await world.start();
      takeRows(world);
    }
    assert.equal(await writeById(world, [], old + 4n * minute), rowOutcome.written);
    assert.equal(await writeById(world, other, old + 5n * minute), rowOutcome.otherTags);
    await world.database.flusher.flushAll(['coarse'], never);
    await settle(world);
    assert.deepEqual(await byId(), [first]);
  }
});
