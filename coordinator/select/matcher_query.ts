/**
 * Matchers as a query on the index. A tag that a series does not have has the value '' for a
 * matcher, while the index knows only tags that are there, so a matcher that '' satisfies also
 * takes the series without the tag.
 */
import type { IndexQuery } from '#lib/index_query.ts';
import { compileAnchored } from '#lib/regexp/regexp.ts';
import type { Matcher } from './storage.ts';

/**
 * All matchers at once.
 * @throws {TsdbError} BAD_REQUEST when a regular expression does not compile
 */
export function queryOfMatchers(matchers: readonly Matcher[]): IndexQuery {
  const queries = matchers.map(queryOfMatcher).filter((query) => query.kind !== 'all');
  if (queries.length === 0) return { kind: 'all' };
  return queries.length === 1 ? queries[0]! : { kind: 'conjunction', queries };
}

/** Series that at least one of the lists takes; no list means all series. */
export function queryOfMatcherLists(lists: readonly (readonly Matcher[])[]): IndexQuery {
  if (lists.length === 0) return { kind: 'all' };
  const queries = lists.map(queryOfMatchers);
  if (queries.some((query) => query.kind === 'all')) return { kind: 'all' };
  return queries.length === 1 ? queries[0]! : { kind: 'disjunction', queries };
}

function queryOfMatcher({ name, kind, value }: Matcher): IndexQuery {
  const exists: IndexQuery = { kind: 'field', field: name };
  switch (kind) {
    case '=':
      return value === '' ? not(exists) : { kind: 'term', field: name, term: value };
    case '!=':
      return value === '' ? exists : not({ kind: 'term', field: name, term: value });
    case '=~': {
      const matching = queryOfRegexp(name, value);
      return matching.empty ? union(not(exists), matching.query) : matching.query;
    }
    case '!~': {
      const matching = queryOfRegexp(name, value);
      return matching.empty ? intersection(exists, not(matching.query)) : not(matching.query);
    }
    default:
      return kind satisfies never;
  }
}

/** `query` finds the series whose tag is there and matches; `empty` tells whether '' matches. */
function queryOfRegexp(field: string, pattern: string): { query: IndexQuery; empty: boolean } {
  const regexp = compileAnchored(pattern);
  if (regexp.matches !== 'some') {
    return { query: { kind: 'field', field }, empty: regexp.matches === 'everything' };
  }
  return { query: { kind: 'regexp', field, regexp: pattern }, empty: regexp.test('') };
}

function not(query: IndexQuery): IndexQuery {
  return query.kind === 'negation' ? query.query : { kind: 'negation', query };
}

function union(a: IndexQuery, b: IndexQuery): IndexQuery {
  if (isNegationOf(a, b)) return { kind: 'all' };
  return { kind: 'disjunction', queries: [a, b] };
}

function intersection(a: IndexQuery, b: IndexQuery): IndexQuery {
  // No series at all: an empty disjunction matches nothing.
  if (isNegationOf(b, a)) return { kind: 'disjunction', queries: [] };
  return { kind: 'conjunction', queries: [a, b] };
}

/** Whether `a` is "not b" for a query about the existence of one field. */
function isNegationOf(a: IndexQuery, b: IndexQuery): boolean {
  return (
    a.kind === 'negation' &&
    a.query.kind === 'field' &&
    b.kind === 'field' &&
    a.query.field === b.field
  );
}
