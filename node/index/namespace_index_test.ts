import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { IndexQuery } from '#lib/index_query.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { encodeTags } from '#lib/tags.ts';
import { bench } from './index_bench.ts';
import { NamespaceIndex } from './namespace_index.ts';
import { SeededRandom } from '#test/seeded_random.ts';

const { quoted } = idSchemeCode;
const noId = new Uint8Array(0);
const range = { startNanos: 0n, endNanos: 100n };
const noOptions = { limit: 0, shards: null };

function newIndex(): NamespaceIndex {
  return new NamespaceIndex({ random: new SeededRandom(7), blockSizeNanos: 100n });
}

function tagsOf(tags: Record<string, string>): Uint8Array {
  return encodeTags(Object.entries(tags).map(([name, value]) => ({ name, value })));
}

/** Index of three series, slots 0 to 2, live in the block at 0. */
function smallIndex(): NamespaceIndex {
  const index = newIndex();
  index.insert(0, tagsOf({ __name__: 'up', job: 'node', zone: 'a' }), quoted, noId, 1);
  index.insert(1, tagsOf({ __name__: 'up', job: 'api' }), quoted, noId, 2);
  index.insert(2, tagsOf({ __name__: 'down', job: 'node', zone: 'b' }), quoted, noId, 3);
  index.markLive([0, 1, 2], 0n);
  return index;
}

function found(index: NamespaceIndex, query: IndexQuery): number[] {
  return [...index.query(query, range, noOptions).slots];
}

const term = (field: string, value: string): IndexQuery => ({ kind: 'term', field, term: value });

test('a name of which no ID can be made is refused, whether its terms are known or not', () => {
  const index = smallIndex();
  // 'up' is known; the second name ends with a byte that is not UTF-8.
  const known = tagsOf({ __name__: 'up' });
  const odd = Uint8Array.of(3, 0, 0x61, 0x3d, 0xff, 1, 0, 0x62);
  const tags = new Uint8Array([...known, ...odd]);
  const refuse = () =>
    assert.throws(() => index.insert(3, tags, quoted, noId, 1), { code: 'BAD_REQUEST' });
  const { termCount } = index;
  refuse();
  assert.equal(index.termCount, termCount);
  assert.equal(index.seriesCount, 3);
  index.insert(4, tags, 0, Uint8Array.of(1), 1);
  refuse();
  index.remove(Uint32Array.of(4));
  refuse();
  assert.equal(index.termCount, termCount);
  assert.deepEqual(found(index, term('__name__', 'up')), [0, 1]);
});

test('query() answers each kind of query', () => {
  const index = smallIndex();
  assert.deepEqual(found(index, { kind: 'all' }), [0, 1, 2]);
  assert.deepEqual(found(index, term('job', 'node')), [0, 2]);
  assert.deepEqual(found(index, term('job', 'nod')), []);
  assert.deepEqual(found(index, { kind: 'field', field: 'zone' }), [0, 2]);
  assert.deepEqual(found(index, { kind: 'regexp', field: 'job', regexp: 'a.i|x' }), [1]);
  assert.deepEqual(found(index, { kind: 'regexp', field: 'job', regexp: 'a' }), []);
  assert.deepEqual(found(index, { kind: 'regexp', field: 'zone', regexp: '.*' }), [0, 2]);
  const and = (...queries: IndexQuery[]): IndexQuery => ({ kind: 'conjunction', queries });
  const not = (query: IndexQuery): IndexQuery => ({ kind: 'negation', query });
  assert.deepEqual(found(index, and(term('job', 'node'), term('__name__', 'up'))), [0]);
  assert.deepEqual(found(index, and(term('job', 'node'), not(term('zone', 'a')))), [2]);
  assert.deepEqual(found(index, not({ kind: 'field', field: 'zone' })), [1]);
  const either = [term('zone', 'b'), term('job', 'api')];
  assert.deepEqual(found(index, { kind: 'disjunction', queries: either }), [1, 2]);
});

test('query() refuses a bad regexp even when another part matches nothing', () => {
  const bad: IndexQuery = { kind: 'regexp', field: 'job', regexp: 'a(' };
  const query: IndexQuery = { kind: 'conjunction', queries: [term('job', 'none'), bad] };
  assert.throws(() => smallIndex().query(query, range, noOptions), { code: 'BAD_REQUEST' });
});

test('query() gives only series of the wanted shards, and says when its limit cut the answer', () => {
  const index = smallIndex();
  const all: IndexQuery = { kind: 'all' };
  const ofShards = index.query(all, range, { limit: 0, shards: Uint32Array.of(1, 3) });
  assert.deepEqual([...ofShards.slots], [0, 2]);
  const limited = index.query(all, range, { limit: 2, shards: null });
  assert.deepEqual([...limited.slots], [0, 1]);
  assert.equal(limited.exhaustive, false);
  assert.equal(index.query(all, range, { limit: 3, shards: null }).exhaustive, true);
});

test('a series is visible only in ranges that overlap a block in which it is live', () => {
  const index = smallIndex();
  index.markLive([1], 100n);
  const at = (startNanos: bigint, endNanos: bigint) => [
    ...index.query({ kind: 'all' }, { startNanos, endNanos }, noOptions).slots,
  ];
  assert.deepEqual(at(100n, 200n), [1]);
  assert.deepEqual(at(99n, 100n), [0, 1, 2]);
  assert.deepEqual(at(200n, 300n), []);
  assert.deepEqual(at(-10n, 0n), []);
  assert.deepEqual(at(50n, 50n), []);
  index.expireBlocks(100n);
  assert.deepEqual(at(0n, 200n), [1]);
  assert.deepEqual([...index.slotsWithoutBlock()], [0, 2]);
  assert.deepEqual(index.blockStarts, [100n]);
});

test('a series that was removed is gone and its slot can be used again', () => {
  const index = smallIndex();
  const tags = tagsOf({ __name__: 'down', job: 'node', zone: 'b' });
  index.remove(Uint32Array.of(2));
  assert.equal(index.find(tags, quoted, noId), -1);
  assert.deepEqual(found(index, term('job', 'node')), [0]);
  const options = { tagNames: [], namesOnly: false, limit: 0, shards: null };
  const { tags: left } = index.aggregate({ kind: 'all' }, range, options);
  assert.deepEqual(left, [
    { name: '__name__', values: ['up'] },
    { name: 'job', values: ['api', 'node'] },
    { name: 'zone', values: ['a'] },
  ]);
  index.insert(2, tagsOf({ other: 'x' }), quoted, noId, 0);
  assert.deepEqual(
    found(index, { kind: 'field', field: 'other' }),
    [],
    'not live before it is marked',
  );
  index.markLiveOne(2, 0n);
  assert.deepEqual(found(index, { kind: 'field', field: 'other' }), [2]);
  assert.equal(index.seriesCount, 3);
});

test('removeInSteps() takes series out step by step, and keeps their slots until it is done', () => {
  const index = smallIndex();
  const steps = index.removeInSteps(Uint32Array.of(0, 2), 1);
  steps.next();
  assert.deepEqual(found(index, { kind: 'all' }), [1, 2]);
  assert.equal(index.has(0), false);
  const tags = tagsOf({ __name__: 'up', job: 'node', zone: 'a' });
  assert.equal(index.find(tags, quoted, noId), -1);
  assert.throws(() => index.insert(0, tags, quoted, noId, 1), /when its removal is done/);
  index.insert(3, tags, quoted, noId, 1);
  index.markLiveOne(3, 0n);
  while (steps.next().done !== true) continue;
  assert.deepEqual(found(index, term('job', 'node')), [3]);
  assert.deepEqual(found(index, { kind: 'all' }), [1, 3]);
  index.insert(0, tagsOf({ zone: 'b' }), quoted, noId, 1);
  index.markLiveOne(0, 0n);
  assert.deepEqual(found(index, { kind: 'field', field: 'zone' }), [0, 3]);
});

test('a removal that is given up is done at once', () => {
  const index = smallIndex();
  for (const _ of index.removeInSteps(Uint32Array.of(0, 1, 2), 1)) break;
  assert.equal(index.seriesCount, 0);
  assert.equal(index.termCount, 0);
  index.insert(0, tagsOf({ job: 'new' }), quoted, noId, 0);
  assert.equal(index.seriesCount, 1);
});

test('a regexp forgets terms that are gone, also when others came and most were removed', () => {
  const index = newIndex();
  const query: IndexQuery = { kind: 'regexp', field: 'id', regexp: 'a.*' };
  const insert = (slot: number, id: string) => {
    index.insert(slot, tagsOf({ id }), quoted, noId, 0);
    index.markLiveOne(slot, 0n);
  };
  for (let i = 0; i < 300; i++) insert(i, `${'ab'[i % 2]}${i}`);
  assert.equal(found(index, query).length, 150);
  index.remove(Uint32Array.of(0, 1));
  insert(0, 'b-again');
  insert(1, 'a-again');
  assert.deepEqual(found(index, query).slice(0, 2), [1, 2]);
  assert.equal(found(index, query).length, 150);
  index.remove(Uint32Array.from({ length: 290 }, (_, i) => i));
  assert.deepEqual(found(index, query), [290, 292, 294, 296, 298]);
});

test('a regexp sees terms that appeared after its result was remembered', () => {
  const index = smallIndex();
  const query: IndexQuery = { kind: 'regexp', field: 'job', regexp: 'n[a-z]+' };
  assert.deepEqual(found(index, query), [0, 2]);
  index.insert(3, tagsOf({ job: 'new' }), quoted, noId, 0);
  index.markLive([3], 0n);
  assert.deepEqual(found(index, query), [0, 2, 3]);
  index.remove(Uint32Array.of(0, 2));
  assert.deepEqual(found(index, query), [3]);
});

test('find() tells series apart by tags, ID scheme and explicit ID', () => {
  const index = newIndex();
  const tags = tagsOf({ a: 'b' });
  index.insert(0, tags, quoted, noId, 0);
  index.insert(1, tags, idSchemeCode.legacy, noId, 0);
  index.insert(2, tags, idSchemeCode.explicit, Buffer.from('x'), 0);
  index.insert(3, tags, idSchemeCode.explicit, Buffer.from('y'), 0);
  index.insert(4, new Uint8Array(0), idSchemeCode.explicit, Buffer.from('y'), 0);
  assert.equal(index.find(tags, quoted, noId), 0);
  assert.equal(index.find(tags, idSchemeCode.legacy, noId), 1);
  assert.equal(index.find(tags, idSchemeCode.explicit, Buffer.from('y')), 3);
  assert.equal(index.find(new Uint8Array(0), idSchemeCode.explicit, Buffer.from('y')), 4);
  assert.equal(index.find(tags, idSchemeCode.prepend_meta, noId), -1);
  assert.equal(index.find(tagsOf({ a: 'c' }), quoted, noId), -1);
});

test('findById() finds series of every scheme', () => {
  const index = newIndex();
  const tags = tagsOf({ a: 'x"\\\n,}', b: '\u0001é' });
  index.insert(0, tags, quoted, noId, 0);
  index.insert(1, tags, idSchemeCode.prepend_meta, noId, 0);
  index.insert(2, tags, idSchemeCode.legacy, noId, 0);
  index.insert(3, tags, idSchemeCode.explicit, Buffer.from('{a="b"}'), 0);
  for (let slot = 0; slot < 4; slot++) {
    assert.equal(index.findById(index.id(slot)), slot);
  }
  for (const id of ['', '{', '{}', '{a="b"', '!', '1!', '99999,1!ab', '{a="b"}x']) {
    assert.equal(index.findById(Buffer.from(id)), -1, id);
  }
});

test('insert() refuses a malformed layout and then holds nothing of it', () => {
  const index = newIndex();
  const tags = tagsOf({ a: 'b', c: 'd' });
  for (let length = 1; length < tags.length; length++) {
    if (length === tagsOf({ a: 'b' }).length) continue;
    const cut = tags.subarray(0, length);
    assert.throws(() => index.insert(0, cut, quoted, noId, 0), { code: 'BAD_REQUEST' });
    assert.throws(() => index.find(cut, quoted, noId), { code: 'BAD_REQUEST' });
  }
  const { explicit } = idSchemeCode;
  assert.throws(() => index.insert(0, tags, explicit, noId, 0), { code: 'BAD_REQUEST' });
  assert.equal(index.termCount, 0);
  assert.equal(index.seriesCount, 0);
});

test('aggregate() gives names and values of the matching series, sorted and limited', () => {
  const index = smallIndex();
  const options = { tagNames: [], namesOnly: false, limit: 0, shards: null };
  assert.deepEqual(index.aggregate(term('job', 'node'), range, options), {
    tags: [
      { name: '__name__', values: ['down', 'up'] },
      { name: 'job', values: ['node'] },
      { name: 'zone', values: ['a', 'b'] },
    ],
    exhaustive: true,
  });
  assert.deepEqual(index.aggregate(term('job', 'api'), range, { ...options, namesOnly: true }), {
    tags: [
      { name: '__name__', values: [] },
      { name: 'job', values: [] },
    ],
    exhaustive: true,
  });
  const zone = { ...options, tagNames: ['zone', 'absent'] };
  assert.deepEqual(index.aggregate({ kind: 'all' }, range, zone).tags, [
    { name: 'zone', values: ['a', 'b'] },
  ]);
  assert.deepEqual(index.aggregate({ kind: 'all' }, range, { ...options, limit: 2 }), {
    tags: [{ name: '__name__', values: ['down'] }],
    exhaustive: false,
  });
});

test('memory comes back when a namespace is emptied series by series', () => {
  const index = newIndex();
  const count = 20_000;
  const fill = () => {
    for (let i = 0; i < count; i++) {
      index.insert(i, tagsOf({ id: `series-${i}-${'x'.repeat(200)}` }), quoted, noId, 0);
    }
  };
  fill();
  const full = index.memoryBytes;
  for (let round = 0; round < 3; round++) {
    index.remove(Uint32Array.from({ length: count }, (_, i) => i));
    assert.equal(index.seriesCount, 0);
    assert.equal(index.termCount, 0);
    assert.ok(index.textBytes < full / 10, `${index.textBytes} of ${full}`);
    fill();
  }
  assert.ok(index.memoryBytes < full * 1.3, `${index.memoryBytes} after, ${full} before`);
});

test('eleven labels cost less than 150 bytes a series beyond their text', async () => {
  const results = await bench('small');
  const memory = results.find(({ name }) => name.endsWith('memory without text'))!;
  // Empty tables and the scratch of one index weigh more among 2000 series than among a million.
  assert.ok(memory.value < 600, `${memory.value} bytes a series`);
  const index = newIndex();
  for (let i = 0; i < 50_000; i++) {
    const tags: Record<string, string> = { host: `host-${i >> 4}` };
    for (let k = 0; k < 10; k++) tags[`label_${k}`] = `value-${(i * (k + 3)) % (k + 2)}`;
    index.insert(i, tagsOf(tags), quoted, noId, 0);
  }
  const beyondText = (index.memoryBytes - index.textBytes) / 50_000;
  assert.ok(beyondText < 150, `${beyondText} bytes a series`);
});
