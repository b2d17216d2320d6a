/**
 * Matchers as a query on the index. A tag that a series does not have has the value '' for a
 * matcher, while the index knows only tags that are there, so a matcher that '' satisfies also
 * takes the series without the tag.
 */
import type { IndexQuery } from '#lib/index_query.ts';
import type { QueryRegexps } from '#lib/regexp/regexps.ts';
import type { Matcher } from './storage.ts';

/**
 * All matchers at once.
 * @throws {TsdbError} BAD_REQUEST when a regular expression does not compile; {NeedsRegexps}
 */
export function queryOfMatchers(matchers: readonly Matcher[], regexps: QueryRegexps): IndexQuery {
  const query = queryOf(matchers, regexps);
  regexps.checkFound();
  return query;
}

function queryOf(matchers: readonly Matcher[], regexps: QueryRegexps): IndexQuery {
  const queries = matchers
    .map((matcher) => queryOfMatcher(matcher, regexps))
    .filter((query) => query.kind !== 'all');
  if (queries.length === 0) return { kind: 'all' };
  return queries.length === 1 ? queries[0]! : { kind: 'conjunction', queries };
}

/**
 * Series that at least one of the lists takes; no list means all series.
 * @throws as `queryOfMatchers`
 */
export function queryOfMatcherLists(
  lists: readonly (readonly Matcher[])[],
  regexps: QueryRegexps,
): IndexQuery {
  if (lists.length === 0) return { kind: 'all' };
  const queries = lists.map((matchers) => queryOf(matchers, regexps));
  regexps.checkFound();
  if (queries.some((query) => query.kind === 'all')) return { kind: 'all' };
  return queries.length === 1 ? queries[0]! : { kind: 'disjunction', queries };
}

function queryOfMatcher({ name, kind, value }: Matcher, regexps: QueryRegexps): IndexQuery {
  const exists: IndexQuery = { kind: 'field', field: name };
  switch (kind) {
    case '=':
      return value === '' ? not(exists) : { kind: 'term', field: name, term: value };
    case '!=':
      return value === '' ? exists : not({ kind: 'term', field: name, term: value });
    case '=~': {
      const matching = queryOfRegexp(name, value, regexps);
      return matching.empty ? union(not(exists), matching.query) : matching.query;
    }
    case '!~': {
      const matching = queryOfRegexp(name, value, regexps);
      return matching.empty ? intersection(exists, not(matching.query)) : not(matching.query);
    }
    default:
      return kind satisfies never;
  }
}

/**
 * `query` finds the series whose tag is there and matches; `empty` tells whether '' matches. Anything when the
 * regexp is not found.
 */
function queryOfRegexp(
  field: string,
  pattern: string,
  regexps: QueryRegexps,
): { query: IndexQuery; empty: boolean } {
  const regexp = regexps.find(pattern);
  const query: IndexQuery = { kind: 'regexp', field, regexp: pattern };
  if (regexp === null) return { query, empty: false };
  if (regexp.matches === 'some') return { query, empty: regexp.matchesEmpty };
  return { query: { kind: 'field', field }, empty: regexp.matches === 'everything' };
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
