/** What Thanos, Mimir and Cortex say of their blocks, which of those are taken, and what others are made of. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nanosPerMilli } from '#lib/time.ts';
import { allTimes } from '../source.ts';
import { diskOf } from './block_testing.ts';
import { prometheusSource } from './prometheus_source.ts';

const ulids = ['0', '1', '2', '3', '4'].map((digit) => `01HZZZZZZZZZZZZZZZZZZZZZZ${digit}`);

interface Said {
  readonly parents?: readonly string[];
  readonly sources?: readonly string[];
  readonly labels?: object;
  readonly extensions?: object;
  /** Of windows, milliseconds. */
  readonly resolution?: number;
  /** Milliseconds. */
  readonly times?: readonly [start: number, end: number];
}

type MetaFile = readonly [path: string, bytes: Uint8Array];

/** A block that has no rows, but says what it is. */
function metaOf(place: number, said: Said = {}): MetaFile {
  const { parents = [], sources = [], labels = {}, extensions, resolution = 0, times } = said;
  const [minTime, maxTime] = times ?? [0, 1];
  const compaction = { parents: parents.map((ulid) => ({ ulid })), sources };
  const thanos = { labels, downsample: { resolution }, extensions };
  const meta = { ulid: ulids[place], minTime, maxTime, version: 1, compaction, thanos };
  return [`data/${ulids[place]}/meta.json`, new TextEncoder().encode(JSON.stringify(meta))];
}

const sourceOf = (metas: readonly MetaFile[], range = allTimes) =>
  prometheusSource('data', diskOf(new Map(metas)), range);
const partsOf = async (...metas: readonly MetaFile[]) =>
  (await sourceOf(metas).parts()).map(({ name }) => name);
const contentsOf = async (...metas: readonly MetaFile[]) =>
  (await sourceOf(metas).parts()).map(({ contents, madeOf }) => [contents, madeOf]);

const [first, second, third, fourth, fifth] = ulids as [string, string, string, string, string];
const replica = { replica: 'a' };

test('blocks of labels that are not in their series are refused where these differ', async () => {
  await assert.rejects(
    partsOf(metaOf(0, { labels: replica }), metaOf(1, { labels: { replica: 'b' } })),
    {
      code: 'BAD_REQUEST',
      message: `blocks of different labels, which are not in their series: ${first} {replica="a"}, ${second} {replica="b"}: take each kind from a folder of its own, with --label`,
    },
  );
  // Others are in the way where they are asked for alone.
  const late = metaOf(2, { labels: { replica: 'b' }, times: [5, 6] });
  const early = { startNanos: 0n, endNanos: 1n };
  const source = sourceOf([metaOf(0, { labels: replica }), late], early);
  assert.deepEqual(
    (await source.parts()).map(({ name }) => name),
    [first],
  );
  assert.match(source.notes.join(), /blocks have labels .*: replica="a"/);
});

test('who wrote a block of Mimir or Cortex is no label of its series, and whose it is keeps tenants apart', async () => {
  const of = (tenant: string, ingester: string) => ({
    labels: { __org_id__: tenant, __ingester_id__: ingester, __shard_id__: '7' },
  });
  const blocks = [metaOf(0, of('a', 'ingester-0')), metaOf(1, of('a', 'ingester-1')), metaOf(2)];
  const source = sourceOf(blocks);
  assert.equal((await source.parts()).length, 3);
  assert.deepEqual(source.notes, []);
  await assert.rejects(partsOf(...blocks, metaOf(3, of('b', 'ingester-0'))), {
    code: 'BAD_REQUEST',
    message: `blocks of different tenants: ${first} of a, ${fourth} of b: take each from a folder of its own`,
  });
});

test('a parent is passed over for the block that was made of it, and not for a share', async () => {
  const parents = [first];
  const merged = metaOf(1, { parents, labels: replica });
  assert.deepEqual(await partsOf(metaOf(0, { labels: replica }), merged), [second]);
  const mimir = (place: number, text: string) =>
    metaOf(place, { parents, sources: parents, labels: { __compactor_shard_id__: text } });
  const cortex = (place: number, id: number, count = 2) =>
    metaOf(place, {
      parents,
      sources: parents,
      extensions: { partition_info: { partition_id: id, partition_count: count } },
    });
  for (const [share, sister] of [
    [mimir(1, '1_of_2'), mimir(2, '2_of_2')],
    [cortex(1, 0), cortex(2, 1)],
  ] as const) {
    assert.deepEqual(await partsOf(metaOf(0), share), [first, second]);
    // A share is not there with its sister, and what they were made of is there with both.
    assert.deepEqual(await contentsOf(share), [[[`${first} 1 of 2`], [second]]]);
    assert.deepEqual(await contentsOf(share, sister), [
      [[`${first} 1 of 2`], [second, first]],
      [[`${first} 2 of 2`], [third, first]],
    ]);
  }
  assert.deepEqual(await partsOf(metaOf(0), cortex(1, 0, 1)), [second], 'it has all of it');
  // As a cleaning of tombstones makes it: of itself, out of another one.
  assert.deepEqual(await contentsOf(metaOf(1, { parents, sources: [second] })), [
    [[second], [second, first]],
  ]);
});

test('windows of samples that are there are passed over, and are no children of theirs', async () => {
  const windows = (sources: readonly string[], more: Said = {}) =>
    metaOf(4, { sources, resolution: 300_000, ...more });
  assert.deepEqual(await partsOf(metaOf(0), windows([first])), [first]);
  assert.deepEqual(await partsOf(windows([first])), [fifth]);
  // They have the parents of the samples that they were made of, which are not there.
  assert.deepEqual(await partsOf(metaOf(0), windows([first], { parents: [first] })), [first]);
  const unknown = windows([first, '01GGGGGGGGGGGGGGGGGGGGGGG0'], { parents: [first] });
  assert.deepEqual(await partsOf(metaOf(0), unknown), [first, fifth]);
  // They begin before the range, and the samples of that time are there, too.
  const blocks = [
    metaOf(0, { times: [0, 5] }),
    metaOf(1, { times: [5, 10] }),
    windows([first, second], { times: [0, 10] }),
  ];
  const range = { ...allTimes, startNanos: 5n * nanosPerMilli };
  const source = sourceOf(blocks, range);
  assert.deepEqual(
    (await source.parts()).map(({ name }) => name),
    [second],
  );
  assert.deepEqual(source.notes, [
    `passed over block ${fifth}: windows of 300000 ms of samples that are there`,
  ]);
});
