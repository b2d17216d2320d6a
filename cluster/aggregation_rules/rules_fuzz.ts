/**
 * Many rules and the series that they are about: what the index finds is what a reading of all rules
 * finds, whose patterns are regular expressions.
 */
import assert from 'node:assert/strict';
import type { IndexQuery } from '#lib/index_query.ts';
import { compileAnchored } from '#lib/regexp/regexp.ts';
import { metricNameTag } from '#lib/tags.ts';
import { SeededRandom } from '#test/seeded_random.ts';
import { count } from '#test/sim/counts.ts';
import { filterMatches, parseFilter } from './filter.ts';
import { queryOfFilter } from './filter_query.ts';
import { RuleMatcher } from './match.ts';
import { rulesOfFile } from './sets/file.ts';

const tagNames = [metricNameTag, 'app', 'env', 'zone', 'pod', '__g0__'];
const letters = ['a', 'b', 'c', 'ab', 'bc', 'é', '😀'];
const storagePolicies = [{ resolution: '1m', retention: '30d' }];

/** @param size rules */
export async function fuzz(seed: number, size: number): Promise<void> {
  const random = new SeededRandom(seed);
  const rules = Array.from({ length: Math.max(1, size) }, (_, at) => randomRule(random, at));
  const mappingRules = rules.map(({ filter, path, saysWhere, aggregation }) => ({
    filter: [...filter].map(([name, pattern]) => `${name}:${pattern}`).join(' '),
    ...(path === null ? {} : { path }),
    ...(saysWhere ? { storagePolicies } : {}),
    aggregations: [aggregation],
  }));
  const matcher = new RuleMatcher(rulesOfFile({ mappingRules }, ''));
  for (let left = 50; left > 0; left -= 1) {
    const values = random.below(2) === 0 ? nodesOf(randomPath(random)) : randomValues(random);
    // A tag beside the nodes makes a series without a path of it.
    if (random.below(8) === 0) values.set('app', 'a');
    const isPath = values.size > 0 && [...values.keys()].every((name) => name.startsWith('__g'));
    const path = isPath ? [...values.values()].join('.') : null;
    const { names, aggregation } = expectedOf(rules, values, path);
    const tags = [...values].map(([name, value]) => ({ name, value }));
    const found = matcher.match(tags).mappings.map(({ name }) => name);
    const what = `${JSON.stringify(tags)} by ${JSON.stringify(mappingRules)}`;
    assert.deepEqual(found, names, what);
    assert.equal(matcher.pathReading(tags).aggregation, aggregation, what);
    checkQueries(
      mappingRules.map(({ filter }) => filter),
      values,
    );
    count('rules that match', found.length);
    count('rules that do not', rules.length - found.length);
    if (path !== null) count('paths that rules say how to read', aggregation === null ? 0 : 1);
  }
}

/** By the query of a filter all series are found that it matches. */
function checkQueries(filters: readonly string[], values: ReadonlyMap<string, string>): void {
  for (const text of filters) {
    const filter = parseFilter(text, 'filter');
    const query = queryOfFilter(filter);
    const isFound = isFoundBy(query, values);
    if (filterMatches(filter, values))
      assert.ok(isFound, `${text}, ${JSON.stringify([...values])}`);
    else if (query.kind !== 'all') count(isFound ? 'others that are found' : 'others', 1);
  }
}

function isFoundBy(query: IndexQuery, values: ReadonlyMap<string, string>): boolean {
  switch (query.kind) {
    case 'term':
      return values.get(query.field) === query.term;
    case 'regexp':
      return (
        values.has(query.field) && compileAnchored(query.regexp).test(values.get(query.field)!)
      );
    case 'field':
      return values.has(query.field);
    case 'conjunction':
      return query.queries.every((each) => isFoundBy(each, values));
    case 'disjunction':
      return query.queries.some((each) => isFoundBy(each, values));
    default:
      return query.kind === 'all';
  }
}

type Filter = ReadonlyMap<string, string>;

interface RandomRule {
  readonly name: string;
  readonly filter: Filter;
  readonly path: RandomPathCondition | null;
  readonly saysWhere: boolean;
  readonly aggregation: string;
}

interface RandomPathCondition {
  readonly pattern?: string;
  readonly contains?: string;
  readonly order: number;
  readonly continue: boolean;
}

function randomRule(random: SeededRandom, at: number): RandomRule {
  const path = random.below(2) === 0 ? randomPathCondition(random, at) : null;
  return {
    name: `mappingRules[${at}]`,
    filter: path === null || random.below(4) === 0 ? randomFilter(random) : new Map(),
    path,
    saysWhere: path === null || random.below(3) > 0,
    aggregation: random.pick(['Last', 'Max', 'Sum']),
  };
}

/** No two of one order. */
function randomPathCondition(random: SeededRandom, at: number): RandomPathCondition {
  const order = 1000 * random.below(3) + at;
  const shared = { order, continue: random.below(3) === 0 };
  if (random.below(4) === 0) return { contains: randomText(random, 2), ...shared };
  const begin = random.below(2) === 0 ? '^' : '';
  const pieces = Array.from({ length: 1 + random.below(4) }, () => randomRegexpPiece(random));
  return { pattern: `${begin}${pieces.join('')}${random.below(4) === 0 ? '$' : ''}`, ...shared };
}

function randomRegexpPiece(random: SeededRandom): string {
  const text = randomText(random, 2);
  return random.pick([
    text,
    `${text}\\.`,
    '\\.',
    '.',
    '[ab]',
    '[(|]',
    '[]b]?',
    'a*',
    'b?',
    'c+',
    'a{0,2}',
    `(${text}|b)`,
    '|',
  ]);
}

function randomPath(random: SeededRandom): string {
  return Array.from({ length: 1 + random.below(3) }, () => randomText(random, 3)).join('.');
}

function nodesOf(path: string): Map<string, string> {
  return new Map(path.split('.').map((node, i) => [`__g${i}__`, node]));
}

function randomValues(random: SeededRandom): Map<string, string> {
  const values = new Map<string, string>();
  for (const name of tagNames) if (random.below(3) > 0) values.set(name, randomText(random, 4));
  return values;
}

/** By reading all rules: those without paths, and of those with paths the first of each list. */
function expectedOf(
  rules: readonly RandomRule[],
  values: ReadonlyMap<string, string>,
  path: string | null,
): { readonly names: readonly string[]; readonly aggregation: string | null } {
  const matching = rules.filter(
    (rule) =>
      expectedMatch(rule.filter, values) &&
      (rule.path === null || (path !== null && expectedPath(rule.path, path))),
  );
  const firsts = (saysWhere: boolean): RandomRule[] => {
    const ordered = matching
      .filter((rule) => rule.path !== null && rule.saysWhere === saysWhere)
      .sort((a, b) => a.path!.order - b.path!.order);
    const last = ordered.findIndex((rule) => !rule.path!.continue);
    return last < 0 ? ordered : ordered.slice(0, last + 1);
  };
  const places = firsts(true);
  const plain = matching.filter((rule) => rule.path === null);
  return {
    names: [...plain, ...places].map(({ name }) => name),
    aggregation: [...firsts(false), ...places][0]?.aggregation ?? null,
  };
}

function expectedPath({ pattern, contains }: RandomPathCondition, path: string): boolean {
  if (pattern === undefined) return path.includes(contains!);
  // What JavaScript has no other way to write.
  return new RegExp(pattern.replaceAll('[]b]', '[\\]b]'), 'su').test(path);
}

function randomFilter(random: SeededRandom): Filter {
  const filter = new Map<string, string>();
  for (let left = random.below(4); left > 0; left -= 1) {
    filter.set(random.pick(tagNames), randomPattern(random));
  }
  return filter;
}

function randomText(random: SeededRandom, lengthMax: number): string {
  return Array.from({ length: 1 + random.below(lengthMax) }, () => random.pick(letters)).join('');
}

function randomPattern(random: SeededRandom): string {
  const sign = random.below(5) === 0 ? '!' : '';
  switch (random.below(5)) {
    case 0:
      return `${sign}*`;
    case 1:
      return `${sign}*${randomText(random, 2)}*`;
    case 2:
      return `${sign}${randomPieces(random)}*${random.below(2) === 0 ? '' : randomPieces(random)}`;
    default:
      return `${sign}${randomPieces(random)}`;
  }
}

function randomPieces(random: SeededRandom): string {
  const piece = (): string => {
    const texts = [randomText(random, 2), randomText(random, 2)];
    return random.pick([texts[0]!, '?', `{${texts.join()}}`, '[ab]', '[!a-b]', '[a-bx-z]']);
  };
  return Array.from({ length: 1 + random.below(3) }, piece).join('');
}

function expectedMatch(filter: Filter, values: ReadonlyMap<string, string>): boolean {
  return [...filter].every(([name, pattern]) => {
    const value = values.get(name) ?? (name === metricNameTag ? '' : undefined);
    if (value === undefined) return false;
    const positive = pattern.startsWith('!') ? pattern.slice(1) : pattern;
    return regExpOf(positive).test(value) === (positive === pattern);
  });
}

function regExpOf(pattern: string): RegExp {
  const source = pattern
    .replaceAll('[!', '[^')
    .replaceAll('?', '.')
    .replaceAll('*', '.*')
    .replace(/\{([^}]*)\}/g, (_, texts: string) => `(?:${texts.replaceAll(',', '|')})`);
  return new RegExp(`^(?:${source})$`, 'su');
}
