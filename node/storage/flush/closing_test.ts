/** Closed filesets of windows: the same answers as of the index, from then on and after starts, late rows and deletions. */
import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { idOfTags } from '#lib/series_id/from_tags.ts';
import { sortTags } from '#lib/tags.ts';
import {
  aggregatorAt,
  day,
  hour,
  minute,
  sorted,
  World,
} from '../aggregation/aggregation_testing.ts';
import { never } from '../database_testing.ts';
import {
  closedOf,
  coarseOf,
  columnsPathsOf,
  old,
  openWorld,
  range,
  rawRetention,
  settle,
} from './closed_world_testing.ts';
import { isToBeClosed } from './closing.ts';

/** All that may be asked. */
async function answers(world: World): Promise<object> {
  const { database } = world;
  const asked = { namespace: 'coarse', placementVersion: 0, ...range } as const;
  const tags = async (query: object, more: object = {}): Promise<unknown> => {
    const whole = { tagNames: [], namesOnly: false, limit: 0, query: { kind: 'all' } as const };
    const answer = await database.aggregate({ ...asked, ...whole, ...query, ...more }, never);
    return answer.tags;
  };
  const matching = { kind: 'regexp', field: 'host', regexp: 'old-1.|young' } as const;
  const ids = ['old-3', 'always', 'nobody'].map((host) =>
    Buffer.from(
      idOfTags(
        sortTags([
          { name: '__name__', value: 'x' },
          { name: 'host', value: host },
        ]),
        'quoted',
      ),
    ),
  );
  const byId = await database.fetchById({ ...asked, ids }, never);
  const found = await database.fetch(
    {
      ...asked,
      query: matching,
      shards: null,
      seriesLimit: 0,
      fetchData: false,
    },
    never,
  );
  const limited = await database.fetch(
    {
      ...asked,
      query: { kind: 'all' },
      shards: null,
      seriesLimit: 7,
      fetchData: false,
    },
    never,
  );
  return {
    joined: await tags({}, { tagNames: ['__name__', 'host'], joined: true }),
    windows: sorted(await world.windows()),
    someWindows: sorted(await world.windows(old + hour, day + hour)),
    byId: [byId.bundle.seriesCount, byId.bundle.chunkData.length > 0],
    found: [found.bundle.seriesCount, found.exhaustive],
    limited: [limited.bundle.seriesCount, limited.exhaustive],
    all: await tags({}),
    some: await tags({ query: matching, tagNames: ['host'] }),
    names: await tags({ query: matching, namesOnly: true }),
    cut: await tags({ limit: 9 }),
  };
}

test('closed spans are asked by their columns, and their series leave the index', async () => {
  const world = await openWorld();
  const before = await answers(world);
  assert.deepEqual(sorted(await world.windows()), sorted(world.expected()));
  assert.equal(closedOf(world).length, 0);
  assert.equal(coarseOf(world).index.seriesCount, 42);
  await settle(world);
  assert.ok(closedOf(world).length > 0);
  assert.equal(coarseOf(world).index.seriesCount, 2);
  assert.deepEqual(await answers(world), before);

  // Rows that come late: the slice is made again, and stays closed.
  await world.write(
    [{ series: { __name__: 'x', host: 'old-3' }, nanos: old + 7n * minute + 1n, value: 1e6 }],
    'now',
  );
  await world.flush();
  // Slices are made again ten minutes later at the earliest.
  const later = { millis: realEnv.clock.monotonicMillis() + 700_000 };
  world.aggregator = await aggregatorAt(world, later);
  await world.run();
  await settle(world);
  assert.deepEqual(sorted(await world.windows()), sorted(world.expected()));
  assert.equal(coarseOf(world).index.seriesCount, 2);
  const late = await answers(world);

  await world.database[Symbol.asyncDispose]();
  await world.start();
  assert.ok(closedOf(world).length > 0);
  assert.deepEqual(await answers(world), late);
  await settle(world);
  assert.equal(coarseOf(world).index.seriesCount, 2);

  // Columns are made again of the index of the fileset.
  const files = columnsPathsOf(world);
  assert.equal(files.length, closedOf(world).length);
  await world.database[Symbol.asyncDispose]();
  await world.start();
  for (const [i, path] of files.entries()) {
    if (i % 2 === 0) rmSync(path);
    else writeFileSync(path, Buffer.alloc(500, 7));
  }
  assert.deepEqual(await answers(world), late);
});

test('deletions of closed spans count at once, and when their filesets are written anew', async () => {
  const world = await openWorld();
  await settle(world);
  await world.delete('old-7', {});
  const without = (host: string) => [...world.expected()].filter(([key]) => !key.includes(host));
  assert.deepEqual(sorted(await world.windows()), sorted(new Map(without('old-7'))));
  await world.clean();
  assert.deepEqual(sorted(await world.windows()), sorted(new Map(without('old-7'))));
  assert.ok(closedOf(world).length > 0);
  const { tags } = await world.database.aggregate(
    {
      namespace: 'coarse',
      placementVersion: 0,
      ...range,
      query: { kind: 'all' },
      tagNames: ['host'],
      namesOnly: false,
      limit: 0,
    },
    never,
  );
  assert.equal(tags[0]!.values.includes('old-7'), false);
  assert.equal(tags[0]!.values.length, 41);
});

test('a span is closed when two more have ended since, and samples never are', async () => {
  const world = await World.open(5n * minute, { rawRetention });
  const coarse = coarseOf(world);
  const spanNanos = 48n * hour;
  const file = { blockStartNanos: old, endNanos: old + spanNanos };
  const { bufferPastNanos } = coarse.options.retentionOptions;
  const dueNanos = file.endNanos + 2n * spanNanos + bufferPastNanos;
  assert.equal(isToBeClosed(coarse, file, dueNanos), true);
  assert.equal(isToBeClosed(coarse, file, dueNanos - 1n), false);
  // Nothing was beside it that would have made it longer.
  const short = { ...file, endNanos: old + spanNanos / 2n };
  assert.equal(isToBeClosed(coarse, short, dueNanos), false);
  assert.equal(isToBeClosed(coarse, short, dueNanos + 2n * spanNanos), true);
  const samples = world.database.namespaces.get('metrics')!;
  assert.equal(isToBeClosed(samples, file, dueNanos + 9n * spanNanos), false);
});
