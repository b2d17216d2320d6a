import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from '#test/property_testing.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import { compileAnchored } from '#lib/regexp/regexp.ts';
import { QueryRegexps } from '#lib/regexp/regexps.ts';
import * as queries from './matcher_query.ts';
import type { Matcher } from './storage.ts';

type Series = Readonly<Record<string, string>>;

/** What the index answers: it sees only tags that are there. */
function indexTakes(query: IndexQuery, series: Series): boolean {
  switch (query.kind) {
    case 'all':
      return true;
    case 'term':
      return series[query.field] === query.term;
    case 'regexp': {
      const value = series[query.field];
      return value !== undefined && compileAnchored(query.regexp).test(value);
    }
    case 'field':
      return series[query.field] !== undefined;
    case 'conjunction':
      return query.queries.length > 0 && query.queries.every((one) => indexTakes(one, series));
    case 'disjunction':
      return query.queries.some((one) => indexTakes(one, series));
    case 'negation':
      return !indexTakes(query.query, series);
    default:
      return query satisfies never;
  }
}

/** What Prometheus defines: a tag that is not there is ''. */
function matcherTakes({ name, kind, value }: Matcher, series: Series): boolean {
  const text = series[name] ?? '';
  const pattern = new RegExp(`^(?:${value})$`);
  switch (kind) {
    case '=':
      return text === value;
    case '!=':
      return text !== value;
    case '=~':
      return pattern.test(text);
    case '!~':
      return !pattern.test(text);
    default:
      return kind satisfies never;
  }
}

const values = ['a', 'b', 'ab'];
const patterns = ['', 'a', 'a|b', 'a.*', '.*', '.+', 'a?', '(a|)', '[^a]+', 'b|ab'];

const matcher: fc.Arbitrary<Matcher> = fc
  .record({
    name: fc.constantFrom('x', 'y'),
    kind: fc.constantFrom('=', '!=', '=~', '!~'),
    literal: fc.constantFrom('', ...values),
    pattern: fc.constantFrom(...patterns),
  })
  .map(({ name, kind, literal, pattern }) => ({
    name,
    kind,
    value: kind === '=' || kind === '!=' ? literal : pattern,
  }));

const queryOfMatchers = (matchers: readonly Matcher[]): IndexQuery =>
  queries.queryOfMatchers(matchers, new QueryRegexps());
const queryOfMatcherLists = (lists: readonly (readonly Matcher[])[]): IndexQuery =>
  queries.queryOfMatcherLists(lists, new QueryRegexps());

const series: fc.Arbitrary<Series> = fc.dictionary(
  fc.constantFrom('x', 'y', 'z'),
  fc.constantFrom(...values),
);

test('queryOfMatchers() takes the series that Prometheus takes, missing tags being empty', () => {
  fc.assert(
    fc.property(fc.array(matcher, { maxLength: 3 }), series, (matchers, one) => {
      const expected = matchers.every((each) => matcherTakes(each, one));
      assert.equal(indexTakes(queryOfMatchers(matchers), one), expected);
    }),
    { numRuns: 3000 },
  );
});

test('queryOfMatcherLists() joins lists by OR, and takes everything without lists', () => {
  fc.assert(
    fc.property(
      fc.array(fc.array(matcher, { maxLength: 2 }), { maxLength: 3 }),
      series,
      (lists, one) => {
        const expected =
          lists.length === 0 ||
          lists.some((matchers) => matchers.every((each) => matcherTakes(each, one)));
        assert.equal(indexTakes(queryOfMatcherLists(lists), one), expected);
      },
    ),
    { numRuns: 1000 },
  );
});

test('queryOfMatchers() spares the index what has a shorter form', () => {
  const of = (kind: Matcher['kind'], value: string): IndexQuery =>
    queryOfMatchers([{ name: 'x', kind, value }]);
  assert.deepEqual(of('=~', '.*'), { kind: 'all' });
  assert.deepEqual(of('=~', '.+'), { kind: 'field', field: 'x' });
  assert.deepEqual(of('!=', ''), { kind: 'field', field: 'x' });
  assert.deepEqual(of('!~', '.*'), { kind: 'disjunction', queries: [] });
});

test('queryOfMatchers() refuses a regular expression that does not compile', () => {
  assert.throws(() => queryOfMatchers([{ name: 'x', kind: '=~', value: 'a(' }]), {
    code: 'BAD_REQUEST',
  });
});
