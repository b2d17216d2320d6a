import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { IndexQuery } from '#lib/index_query.ts';
import { parseFilter } from './filter.ts';
import { queryOfFilter } from './filter_query.ts';

const queryOf = (filter: string): IndexQuery => queryOfFilter(parseFilter(filter, 'filter'));
const regexp = (field: string, text: string) => ({ kind: 'regexp', field, regexp: text });

test('series of a filter are looked for by values, by how they begin and end, or by tags', () => {
  assert.deepEqual(queryOf('app:{a,b}'), {
    kind: 'disjunction',
    queries: [
      { kind: 'term', field: 'app', term: 'a' },
      { kind: 'term', field: 'app', term: 'b' },
    ],
  });
  assert.deepEqual(queryOf('__name__:http_* app:*-eu zone:!a'), {
    kind: 'conjunction',
    queries: [
      regexp('__name__', 'http_.*'),
      regexp('app', '.*-eu'),
      { kind: 'field', field: 'zone' },
    ],
  });
});

test('what series without the tag may match too, and tags that no index has, ask for nothing', () => {
  for (const filter of ['__name__:*', '__name__:!up', '__name__:{,up}', '__m3_kind__:a']) {
    assert.deepEqual(queryOf(filter), { kind: 'all' }, filter);
  }
  assert.deepEqual(queryOf('__name__:* app:a'), { kind: 'term', field: 'app', term: 'a' });
});
