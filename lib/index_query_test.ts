import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TsdbError } from './errors.ts';
import {
  checkQuerySize,
  type IndexQuery,
  queryDepthMax,
  queryFromJson,
  queryKey,
  queryToJson,
} from './index_query.ts';

const everyKind: IndexQuery = {
  kind: 'conjunction',
  queries: [
    { kind: 'term', field: 'a', term: '1' },
    { kind: 'regexp', field: 'b', regexp: '2.*' },
    { kind: 'negation', query: { kind: 'field', field: 'c' } },
    { kind: 'disjunction', queries: [{ kind: 'all' }] },
  ],
};

function refused(json: unknown): string {
  try {
    queryFromJson(json);
  } catch (error) {
    assert.ok(error instanceof TsdbError && error.code === 'BAD_REQUEST');
    return error.message;
  }
  return assert.fail(`taken: ${JSON.stringify(json)}`);
}

test('queryToJson() writes the wire form and queryFromJson() reads it back', () => {
  const json = queryToJson(everyKind);
  assert.deepEqual(json, {
    conjunction: {
      queries: [
        { term: { field: 'a', term: '1' } },
        { regexp: { field: 'b', regexp: '2.*' } },
        { negation: { query: { field: { field: 'c' } } } },
        { disjunction: { queries: [{ all: {} }] } },
      ],
    },
  });
  assert.deepEqual(queryFromJson(JSON.parse(JSON.stringify(json))), everyKind);
});

test('queryFromJson() takes an absent query as all and keys in any case', () => {
  assert.deepEqual(queryFromJson(undefined), { kind: 'all' });
  assert.deepEqual(queryFromJson(null), { kind: 'all' });
  assert.deepEqual(queryFromJson({ Term: { Field: 'a', TERM: 'b' }, regexp: null }), {
    kind: 'term',
    field: 'a',
    term: 'b',
  });
});

test('queryFromJson() says what is wrong and where', () => {
  assert.match(refused({}), /no query types specified/);
  assert.match(refused({ term: null }), /no query types specified/);
  assert.match(refused({ all: {}, field: { field: 'a' } }), /multiple query types specified/);
  assert.match(
    refused({ conjunction: { queries: [{ all: {} }, {}] } }),
    /query\.conjunction\.queries\[1\]: no query/,
  );
  assert.match(refused({ term: { field: 'a' } }), /query\.term\.term is not a string: nothing/);
  assert.match(refused({ term: { field: 1, term: '' } }), /query\.term\.field is not a string: 1/);
  assert.match(refused({ disjunction: { queries: {} } }), /queries is not a list/);
  assert.match(refused({ fuzzy: {} }), /unknown key: "fuzzy"/);
  assert.match(
    refused({ field: { field: 'a', term: 'b' } }),
    /query\.field has an unknown key: "term"/,
  );
  assert.match(refused('all'), /query is not an object: "all"/);
  assert.match(refused({ negation: {} }), /query\.negation\.query is not an object: nothing/);
});

test('queries nested too deep are refused, from JSON and from elsewhere', () => {
  let json: unknown = { all: {} };
  let query: IndexQuery = { kind: 'all' };
  for (let i = 0; i <= queryDepthMax; i++) {
    json = { negation: { query: json } };
    query = { kind: 'negation', query };
  }
  assert.match(refused(json), /nested more than/);
  assert.throws(() => checkQuerySize(query), /nested more than/);
});

test('queryKey() ignores order and repetition and tells different queries apart', () => {
  const a: IndexQuery = { kind: 'term', field: 'a', term: 'b' };
  const b: IndexQuery = { kind: 'regexp', field: 'a', regexp: 'b' };
  const both = (...queries: IndexQuery[]): IndexQuery => ({ kind: 'conjunction', queries });
  assert.equal(queryKey(both(a, b, a)), queryKey(both(b, a)));
  const others: IndexQuery[] = [
    a,
    b,
    both(a, b),
    { kind: 'disjunction', queries: [a, b] },
    { kind: 'negation', query: a },
    { kind: 'term', field: 'a"', term: 'b' },
    { kind: 'term', field: 'a', term: '"b' },
    { kind: 'all' },
    { kind: 'field', field: 'a' },
  ];
  assert.equal(new Set(others.map(queryKey)).size, others.length);
});
