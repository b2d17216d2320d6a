/**
 * Many rules and the series that they are about: what the index finds is what a reading of all rules
 * finds, whose patterns are regular expressions.
 */
import assert from 'node:assert/strict';
import { metricNameTag } from '#lib/tags.ts';
import { SeededRandom } from '#test/seeded_random.ts';
import { count } from '#test/sim/counts.ts';
import { RuleMatcher } from './match.ts';
import { rulesOfFile } from './sets/file.ts';

const tagNames = [metricNameTag, 'app', 'env', 'zone', 'pod'];
const letters = ['a', 'b', 'c', 'ab', 'bc', 'é', '😀'];
const storagePolicies = [{ resolution: '1m', retention: '30d' }];

/** @param size rules */
export async function fuzz(seed: number, size: number): Promise<void> {
  const random = new SeededRandom(seed);
  const filters = Array.from({ length: Math.max(1, size) }, () => randomFilter(random));
  const textOf = (filter: Filter): string =>
    [...filter].map(([name, pattern]) => `${name}:${pattern}`).join(' ');
  const matcher = new RuleMatcher(
    rulesOfFile(
      { mappingRules: filters.map((filter) => ({ filter: textOf(filter), storagePolicies })) },
      '',
    ),
  );
  for (let left = 50; left > 0; left -= 1) {
    const values = new Map<string, string>();
    for (const name of tagNames) if (random.below(3) > 0) values.set(name, randomText(random, 4));
    const expected = filters.flatMap((filter, at) =>
      expectedMatch(filter, values) ? [`mappingRules[${at}]`] : [],
    );
    const tags = [...values].map(([name, value]) => ({ name, value }));
    const found = matcher.match(tags).mappings.map(({ name }) => name);
    assert.deepEqual(
      found,
      expected,
      `${JSON.stringify(tags)} by ${filters.map(textOf).join('; ')}`,
    );
    count('rules that match', found.length);
    count('rules that do not', filters.length - found.length);
  }
}

type Filter = ReadonlyMap<string, string>;

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
