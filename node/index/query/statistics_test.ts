import assert from 'node:assert/strict';
import { test } from 'node:test';
import { distinctCount, mergedSketch } from '#lib/hashing/distinct_sketch.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { encodeTags } from '#lib/tags.ts';
import { NamespaceIndex } from '../namespace_index.ts';
import { SeededRandom } from '#test/seeded_random.ts';

const noId = new Uint8Array(0);
const metricName = '__name__';

function newIndex(): NamespaceIndex {
  return new NamespaceIndex({ random: new SeededRandom(7), blockSizeNanos: 100n });
}

function insert(index: NamespaceIndex, slot: number, tags: Record<string, string>): void {
  const layout = encodeTags(Object.entries(tags).map(([name, value]) => ({ name, value })));
  index.insert(slot, layout, idSchemeCode.quoted, noId, 0);
}

test('statistics() counts series by metric, name and pair, and values by name', () => {
  const index = newIndex();
  insert(index, 0, { __name__: 'up', host: 'a' });
  insert(index, 1, { __name__: 'up', host: 'b' });
  insert(index, 2, { __name__: 'up', host: 'c' });
  insert(index, 3, { __name__: 'down', host: 'a', zone: 'x' });
  insert(index, 4, { zone: 'x' });
  const { bytesByName, ...rest } = index.statistics({ limit: 10, metricName });
  assert.deepEqual(rest, {
    seriesCount: 5,
    nameCount: 3,
    pairCount: 6,
    valuesByName: [
      { name: 'host', count: 3 },
      { name: '__name__', count: 2 },
      { name: 'zone', count: 1 },
    ],
    seriesByName: [
      { name: '__name__', count: 4 },
      { name: 'host', count: 4 },
      { name: 'zone', count: 2 },
    ],
    seriesByPair: [
      { name: '__name__', value: 'up', count: 3 },
      { name: 'host', value: 'a', count: 2 },
      { name: 'zone', value: 'x', count: 2 },
      { name: '__name__', value: 'down', count: 1 },
      { name: 'host', value: 'b', count: 1 },
      { name: 'host', value: 'c', count: 1 },
    ],
    seriesByMetric: [
      { name: 'up', count: 3 },
      { name: 'down', count: 1 },
    ],
  });
  assert.deepEqual(bytesByName.map(({ name }) => name).sort(), ['__name__', 'host', 'zone']);
});

test('statistics() gives the largest rows when there are more than its limit', () => {
  const index = newIndex();
  const many = 20_000;
  for (let i = 0; i < many; i++) insert(index, i, { id: `${i}`, group: `g${i % 3}` });
  for (let i = 0; i < 50; i++) insert(index, many + i, { id: '777', other: `${i}` });
  const { seriesByPair, valuesByName, pairCount } = index.statistics({ limit: 4, metricName });
  assert.deepEqual(seriesByPair, [
    { name: 'group', value: 'g0', count: 6667 },
    { name: 'group', value: 'g1', count: 6667 },
    { name: 'group', value: 'g2', count: 6666 },
    { name: 'id', value: '777', count: 51 },
  ]);
  assert.deepEqual(valuesByName[0], { name: 'id', count: many });
  assert.equal(pairCount, many + 3 + 50);
  assert.deepEqual(index.statistics({ limit: 0, metricName }).seriesByPair, []);
});

test('bytes by name add up to most of the memory of the index', () => {
  const index = newIndex();
  for (let i = 0; i < 50_000; i++) insert(index, i, { id: `${i}`, group: `g${i % 300}` });
  const { bytesByName } = index.statistics({ limit: 10, metricName });
  const total = bytesByName.reduce((sum, { count }) => sum + count, 0);
  assert.ok(total > index.memoryBytes * 0.4, `${total} of ${index.memoryBytes}`);
  assert.ok(total < index.memoryBytes, `${total} of ${index.memoryBytes}`);
  assert.deepEqual(
    bytesByName.map(({ name }) => name),
    ['id', 'group'],
  );
});

test('churn() counts series that come and go, in all and in the last hour', () => {
  const index = newIndex();
  const minute = 60_000;
  insert(index, 0, { a: '1' });
  index.recordChurn(0);
  assert.deepEqual(index.churn(1000), {
    created: 1,
    removed: 0,
    createdLastHour: 0,
    removedLastHour: 0,
  });
  insert(index, 1, { a: '2' });
  index.remove(Uint32Array.of(0));
  for (let i = 1; i <= 30; i++) index.recordChurn(i * minute);
  insert(index, 0, { a: '1' });
  for (let i = 31; i <= 59; i++) index.recordChurn(i * minute);
  assert.deepEqual(index.churn(60 * minute), {
    created: 3,
    removed: 1,
    createdLastHour: 2,
    removedLastHour: 1,
  });
  const later = index.churn(90 * minute);
  assert.deepEqual([later.createdLastHour, later.removedLastHour], [1, 0]);
  assert.equal(index.churn(200 * minute).createdLastHour, 0);
});

test('statistics() of some shards count their series alone, and sketches join into those of all', () => {
  const index = newIndex();
  const one = newIndex();
  for (let i = 0; i < 900; i++) {
    const tags = { __name__: `m${i % 7}`, host: `h${i}`, ...(i % 4 === 0 ? { zone: 'x' } : {}) };
    insert(one, i, tags);
    const layout = encodeTags(Object.entries(tags).map(([name, value]) => ({ name, value })));
    index.insert(i, layout, idSchemeCode.quoted, noId, i % 4);
  }
  const options = { limit: 10, metricName, withSketches: true };
  const even = index.statistics({ ...options, shards: Uint32Array.of(0, 2) });
  const odd = index.statistics({ ...options, shards: Uint32Array.of(1, 3) });
  assert.equal(even.seriesCount, 450);
  assert.equal(even.pairCount, 450 + 7 + 1);
  assert.deepEqual(even.seriesByName, [
    { name: '__name__', count: 450 },
    { name: 'host', count: 450 },
    { name: 'zone', count: 225 },
  ]);
  // Of the shards 1 and 3 no series has a zone.
  assert.deepEqual(
    odd.seriesByName.map(({ name }) => name),
    ['__name__', 'host'],
  );
  assert.equal(odd.nameCount, 2);
  assert.ok(odd.seriesByPair.every(({ count }) => count <= 65));
  const all = index.statistics({ ...options, shards: Uint32Array.of(0, 1, 2, 3) });
  const { sketches, ...whole } = one.statistics(options);
  assert.deepEqual({ ...all, sketches: undefined }, { ...whole, sketches: undefined });
  const both = [even.sketches!, odd.sketches!];
  assert.deepEqual(mergedSketch(both.map(({ pairs }) => pairs)), sketches!.pairs);
  assert.deepEqual(mergedSketch(both.map(({ names }) => names)), sketches!.names);
  const hosts = mergedSketch(both.map(({ values }) => values.get('host')!));
  assert.deepEqual(hosts, sketches!.values.get('host'));
  assert.ok(Math.abs(distinctCount(hosts) - 900) < 100);
});
