/** Queries of all kinds over tags of all kinds, and what each has to find: a look at every series. */
import type { IndexQuery } from '#lib/index_query.ts';
import { sortTags, type Tags } from '#lib/tags.ts';
import type { SeededRandom } from '#test/seeded_random.ts';

export const queriedNames: readonly string[] = ['__name__', 'a', 'b', 'c', 'host', 'odd=name', 'ü'];
const patterns = [
  '.*',
  '.+',
  'v1',
  'v1|v2|v9',
  'v1.*',
  '.*2',
  '.*1.*',
  'v.+3',
  'v[0-9]',
  'v(1|2)[^3]*',
  '(v1|x.*|)',
  '.*"=.*',
  '[^v].*|v7',
  '',
  '(?i)V1.*',
];

function randomValue(random: SeededRandom): string {
  const kind = random.below(20);
  if (kind === 0) return Array.from('\ufeff"=\\,{}\n\x01é😀').slice(0, random.below(10)).join('');
  if (kind === 1) return 'long'.repeat(random.below(2000));
  return `v${random.below(kind < 12 ? 4 : 400)}`;
}

export function randomTags(random: SeededRandom): Tags {
  const tags: { name: string; value: string }[] = [];
  for (const name of queriedNames) {
    if (random.below(3) > 0) tags.push({ name, value: randomValue(random) });
  }
  return sortTags(tags);
}

export function randomQuery(random: SeededRandom, depth: number): IndexQuery {
  const kind = random.below(depth > 0 ? 10 : 6);
  const field = random.below(15) === 0 ? 'absent' : random.pick(queriedNames);
  const queries = () =>
    Array.from({ length: random.below(4) }, () => randomQuery(random, depth - 1));
  if (kind < 2) return { kind: 'term', field, term: randomValue(random) };
  if (kind < 4) return { kind: 'regexp', field, regexp: random.pick(patterns) };
  if (kind < 5) return { kind: 'field', field };
  if (kind < 6) return { kind: 'all' };
  if (kind < 8) return { kind: 'conjunction', queries: queries() };
  if (kind < 9) return { kind: 'disjunction', queries: queries() };
  return { kind: 'negation', query: randomQuery(random, depth - 1) };
}

export function matchesTags(tags: Tags, query: IndexQuery): boolean {
  const valueOf = (field: string) => tags.find(({ name }) => name === field)?.value;
  switch (query.kind) {
    case 'term':
      return valueOf(query.field) === query.term;
    case 'regexp': {
      const value = valueOf(query.field);
      const ignoresCase = query.regexp.startsWith('(?i)');
      const source = ignoresCase ? query.regexp.slice(4) : query.regexp;
      return (
        value !== undefined && new RegExp(`^(?:${source})$`, ignoresCase ? 'sui' : 'su').test(value)
      );
    }
    case 'field':
      return valueOf(query.field) !== undefined;
    case 'all':
      return true;
    case 'conjunction':
      return query.queries.length > 0 && query.queries.every((part) => matchesTags(tags, part));
    case 'disjunction':
      return query.queries.some((part) => matchesTags(tags, part));
    case 'negation':
      return !matchesTags(tags, query.query);
    default:
      return query satisfies never;
  }
}
