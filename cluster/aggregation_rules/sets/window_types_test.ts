import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeTags, sortTags, type Tags } from '#lib/tags.ts';
import { inOneGo } from '#lib/turns/steps.ts';
import { valueTypeOf } from '../match.ts';
import type { MappingRule } from '../rules.ts';
import { RulesOverTime, RuleSetsOverTime } from './over_time.ts';
import { type RulesChange, ruleSetOf, ruleSetsOf } from './sets_testing.ts';
import type { EndsRange } from './kept_windows.ts';
import { TypesOfWindows, type WindowsOfType } from './window_types.ts';

const minute = 60_000_000_000n;
const hour = 60n * minute;
const policy = { resolutionNanos: 5n * minute, retentionNanos: 720n * hour };
const storagePolicies = [{ resolution: '5m', retention: '720h' }];
const rule = (name: string, filter: string, ...aggregations: string[]) => ({
  name,
  filter,
  aggregations,
  storagePolicies,
});

const tagsOf = (tags: Readonly<Record<string, string>>): Tags =>
  sortTags(Object.entries(tags).map(([name, value]) => ({ name, value })));

const tenHours = { startNanos: hour, endNanos: 11n * hour };
const ofAll = (): boolean => true;

function typesIn(
  sets: RuleSetsOverTime,
  range: EndsRange,
  isAbout: (rule: MappingRule) => boolean = ofAll,
): (tags: Tags) => readonly WindowsOfType[] {
  const types = inOneGo(TypesOfWindows.inSteps(sets, policy, range, isAbout));
  if (types === null) return () => [{ ...range, type: 'Last' }];
  return (tags) => inOneGo(types.of(encodeTags(tags)));
}

/** Ends of windows in minutes, and the types between them, of windows of the first ten hours. */
function typesOf(sets: RuleSetsOverTime, tags: Readonly<Record<string, string>>): string {
  return typesIn(
    sets,
    tenHours,
  )(tagsOf(tags))
    .map(({ startNanos, endNanos, type }) => `${startNanos / minute}-${endNanos / minute} ${type}`)
    .join(', ');
}

const changesOf = (...changes: readonly (readonly [nanos: bigint, ...rules: object[]])[]) =>
  changes.map(([nanos, ...mappingRules]): RulesChange => [nanos, { mappingRules }]);

test('a window is read by the rules of its begin, when these came, changed and went', () => {
  const max = rule('a', 'app:web', 'Max');
  const sets = ruleSetsOf(
    ...changesOf([3n * hour, max], [5n * hour, rule('a', 'app:web', 'Sum')], [7n * hour]),
  );
  const web = '60-185 Last, 185-305 Max, 305-425 Sum, 425-660 Last';
  assert.equal(typesOf(sets, { app: 'web' }), web);
  assert.equal(typesOf(sets, { app: 'db' }), '60-660 Last');
  // Within a window it is that of the begin all the same.
  const within = ruleSetsOf(...changesOf([3n * hour + minute, max]));
  assert.equal(typesOf(within, { app: 'web' }), '60-190 Last, 190-660 Max');
  // In between, for less than a window.
  const short = ruleSetsOf(...changesOf([3n * hour + minute, max], [3n * hour + 2n * minute]));
  assert.equal(typesOf(short, { app: 'web' }), '60-660 Last');
});

test("rules of other series, policies and sets are in nobody's way", () => {
  const max = rule('a', 'app:web', 'Max');
  const other = (name: string, retention: string) => ({
    ...rule(name, 'app:web', 'Sum'),
    storagePolicies: [{ resolution: '5m', retention }],
  });
  const sets = ruleSetsOf(
    ...changesOf(
      [2n * hour, max],
      [3n * hour, max, rule('b', 'app:db', 'Sum')],
      [4n * hour, max, other('c', '24h')],
      [5n * hour, max, { name: 'd', filter: 'app:*', storagePolicies }],
    ),
  );
  assert.equal(typesOf(sets, { app: 'web' }), '60-125 Last, 125-660 Max');
  assert.equal(typesOf(sets, { app: 'db' }), '60-185 Last, 185-245 Sum, 245-660 Last');
  const [before, after] = ['default', 'other'].map(
    (name) => new RulesOverTime(ruleSetOf(...changesOf([2n * hour, rule(name, 'app:*', 'Min')]))),
  );
  const both = new RuleSetsOverTime(new Map([['other', after!]]));
  assert.equal(typesOf(both, { app: 'web' }), '60-660 Last');
  const ofSet = { app: 'web', __m3_namespace__: 'other' };
  assert.equal(typesOf(both, ofSet), '60-125 Last, 125-660 Min');
  assert.equal(
    typesOf(new RuleSetsOverTime(new Map([['default', before!]])), ofSet),
    '60-660 Last',
  );
});

test('a rule with a path that comes before one with a type is in its way', () => {
  const path = (name: string, pattern: string, order: number, ...aggregations: string[]) => ({
    name,
    path: { pattern, order },
    aggregations,
    storagePolicies,
  });
  const max = path('max', 'cpu', 2, 'Max');
  const sets = ruleSetsOf(
    ...changesOf([2n * hour, max], [4n * hour, max, path('first', '^web', 1)], [6n * hour, max]),
  );
  const of = (...nodes: string[]): string =>
    typesOf(sets, Object.fromEntries(nodes.map((node, at) => [`__g${at}__`, node])));
  assert.equal(of('web', 'cpu'), '60-125 Last, 125-245 Max, 245-365 Last, 365-660 Max');
  assert.equal(of('db', 'cpu'), '60-125 Last, 125-660 Max');
});

test('which of several rules counts is told by their names, whichever was there first', () => {
  const general = rule('sum', 'app:*', 'Sum');
  const special = rule('nginx', 'app:nginx', 'Max');
  const later = ruleSetsOf(...changesOf([2n * hour, general], [4n * hour, special, general]));
  assert.equal(typesOf(later, { app: 'nginx' }), '60-125 Last, 125-245 Sum, 245-660 Max');
  const atOnce = ruleSetsOf(...changesOf([2n * hour, general, special]));
  assert.equal(typesOf(atOnce, { app: 'nginx' }), '60-125 Last, 125-660 Max');
  const again = ruleSetsOf(
    ...changesOf(
      [2n * hour, special, general],
      [4n * hour, general],
      [6n * hour, general, special],
    ),
  );
  assert.equal(
    typesOf(again, { app: 'nginx' }),
    '60-125 Last, 125-245 Max, 245-365 Sum, 365-660 Max',
  );
  // Those without a name are called by their places, of which there may be more than ten.
  const unnamed = Array.from({ length: 12 }, (_, at) => ({
    filter: 'app:nginx',
    aggregations: [at === 2 ? 'Min' : 'Sum'],
    storagePolicies: at < 2 ? [{ resolution: '1h', retention: '720h' }] : storagePolicies,
  }));
  const places = ruleSetsOf(...changesOf([2n * hour, ...unnamed]));
  assert.equal(typesOf(places, { app: 'nginx' }), '60-125 Last, 125-660 Min');
});

test('to ask rules costs nothing where none of them has another type than the last value', () => {
  const stepsOf = (isAbout: (rule: MappingRule) => boolean, ...rules: object[]) =>
    inOneGo(
      TypesOfWindows.inSteps(ruleSetsOf(...changesOf([hour, ...rules])), policy, tenHours, isAbout),
    );
  assert.equal(stepsOf(ofAll, rule('a', 'app:*'), rule('b', 'app:*', 'Last')), null);
  const max = rule('a', 'app:*', 'Max');
  assert.notEqual(stepsOf(ofAll, max), null);
  assert.equal(
    stepsOf(() => false, max),
    null,
  );
});

test('rules are asked once for each time at which those changed that may be about what is asked', () => {
  const max = rule('a', 'app:web', 'Max');
  const others = Array.from({ length: 30 }, (_, day) => rule('b', `app:db${day}`, 'Sum'));
  const sets = ruleSetsOf(
    ...changesOf(
      [hour, max, others[0]!],
      ...others
        .slice(1)
        .map((other, day) => [hour + BigInt(day + 1) * 10n * minute, max, other] as const),
    ),
  );
  const range = { startNanos: 2n * hour, endNanos: 11n * hour };
  const asks = (isAbout: (rule: MappingRule) => boolean): number => {
    const types = inOneGo(TypesOfWindows.inSteps(sets, policy, range, isAbout))!;
    // The first step finds the set.
    return [...types.of(encodeTags(tagsOf({ app: 'web' })))].length - 1;
  };
  assert.equal(
    asks(({ name }) => name === 'a'),
    1,
  );
  assert.ok(asks(ofAll) > 20);
});

test('types of windows are those of asking the rules of each window', () => {
  let seed = 11;
  const random = (n: number): number => (seed = (seed * 48_271) % 2_147_483_647) % n;
  const types = ['Last', 'Min', 'Max', 'Mean', 'Sum', 'Count', 'P99'];
  const randomRule = (name: string): object => {
    const all = Array.from({ length: random(3) }, () => types[random(types.length)]!);
    const policies = random(4) === 0 ? [{ resolution: '1h', retention: '720h' }] : storagePolicies;
    const letters = 'abc'.slice(0, 1 + random(3)).split('');
    const kept = { name, aggregations: [...new Set(all)], storagePolicies: policies };
    const dropping = { name, drop: random(2) === 0 ? true : 'must' };
    const path = { pattern: `^[${letters.join('')}]`, order: random(3), continue: random(2) === 0 };
    const of = random(3) === 0 ? { path } : { filter: `__g0__:{${letters.join(',')}}` };
    return random(5) === 0 ? { ...dropping, ...of } : { ...kept, ...of };
  };
  for (let round = 0; round < 60; round++) {
    const changes = Array.from({ length: 1 + random(6) }, (_, i): RulesChange => {
      const names = ['one', 'two', 'three', 'four'].filter(() => random(3) > 0);
      const cutover = BigInt(60 * 2 + 47 * i + random(7)) * minute;
      return [cutover, { mappingRules: names.map(randomRule) }];
    });
    const rules = new RulesOverTime(ruleSetOf(...changes));
    const sets = new RuleSetsOverTime(new Map([['default', rules]]));
    const start = hour + BigInt(random(9)) * minute;
    const range = { startNanos: start, endNanos: start + BigInt(random(700)) * minute + 1n };
    for (const node of ['a', 'b', 'c', 'd']) {
      const tags = tagsOf({ __g0__: node });
      // Who asks for this series alone leaves out rules that are about others.
      const isAbout = (each: MappingRule): boolean =>
        each.filterText === '' || each.filterText.includes(node);
      const parts = typesIn(sets, range, random(2) === 0 ? ofAll : isAbout)(tags);
      const { resolutionNanos } = policy;
      const first = ((start + resolutionNanos - 1n) / resolutionNanos) * resolutionNanos;
      for (let end = first; end < range.endNanos; end += resolutionNanos) {
        const type = valueTypeOf(rules.at(end - resolutionNanos).match(tags), policy);
        const found = parts.filter(
          ({ startNanos, endNanos }) => end >= startNanos && end < endNanos,
        );
        assert.deepEqual(
          found.map((part) => part.type),
          [type],
          `${round} ${node} ${end / minute}`,
        );
      }
      for (const [at, part] of parts.entries()) {
        assert.notEqual(part.type, parts[at - 1]?.type, 'parts that touch are of two types');
      }
    }
  }
});
