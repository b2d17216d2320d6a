import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { encodeTags } from '#lib/tags.ts';
import { NamespaceIndex } from '../../index/namespace_index.ts';
import { tagMatcher } from './tag_matcher.ts';

const series = [
  { job: 'a', host: 'h1' },
  { job: 'a', host: 'h2', zone: 'z' },
  { job: 'b', host: 'h1' },
  { job: 'ab' },
  { host: 'h1\nh2' },
  { other: 'x' },
].map((tags) =>
  encodeTags(Object.entries(tags).map(([name, value]) => ({ name, value: String(value) }))),
);

const leaves: readonly IndexQuery[] = [
  { kind: 'all' },
  { kind: 'term', field: 'job', term: 'a' },
  { kind: 'term', field: 'none', term: '' },
  { kind: 'field', field: 'zone' },
  { kind: 'regexp', field: 'job', regexp: 'a|b' },
  { kind: 'regexp', field: 'host', regexp: 'h.*' },
  { kind: 'conjunction', queries: [] },
  { kind: 'disjunction', queries: [] },
];

test('a series matches by itself exactly when the index finds it', () => {
  const index = new NamespaceIndex({ random: realEnv.random, blockSizeNanos: 100n });
  series.forEach((tags, i) => {
    index.insert(i, tags, idSchemeCode.quoted, new Uint8Array(0), 0);
    index.markLiveOne(i, 0n);
  });
  const pairs = leaves.flatMap((a) => leaves.map((b) => [a, b] as const));
  const queries = [
    ...leaves,
    ...leaves.map((query): IndexQuery => ({ kind: 'negation', query })),
    ...pairs.map((both): IndexQuery => ({ kind: 'conjunction', queries: both })),
    ...pairs.map((both): IndexQuery => ({ kind: 'disjunction', queries: both })),
    ...pairs.map(([a, query]): IndexQuery => {
      return { kind: 'conjunction', queries: [a, { kind: 'negation', query }] };
    }),
  ];
  const range = { startNanos: 0n, endNanos: 100n };
  for (const query of queries) {
    const { slots } = index.query(query, range, { limit: 0, shards: null });
    const matches = tagMatcher(query);
    const alone = series.flatMap((tags, i) => (matches(tags) ? [i] : []));
    assert.deepEqual(alone, [...slots], JSON.stringify(query));
  }
});

test('tags that are no text are compared as the index does, and what is cut off matches nothing', () => {
  const bytes = Uint8Array.of(1, 0, 255, 1, 0, 255);
  assert.equal(tagMatcher({ kind: 'negation', query: leaves[1]! })(bytes), true);
  assert.equal(tagMatcher(leaves[1]!)(bytes), false);
  assert.equal(tagMatcher({ kind: 'negation', query: leaves[1]! })(bytes.subarray(0, 5)), false);
});
