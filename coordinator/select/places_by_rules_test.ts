import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ruleSetsOf } from '#cluster/aggregation_rules/sets/sets_testing.ts';
import { encodeTags, sortTags } from '#lib/tags.ts';
import { inOneGo } from '#lib/turns/steps.ts';
import { PlacesByRules, type PlacedResolution } from './places_by_rules.ts';
import type { Matcher, SeriesPart } from './storage.ts';

const hour = 3_600_000;
const nanosPerMilli = 1_000_000n;

function resolution(namespace: string, minutes: number, hours: number, takesAll: boolean) {
  return {
    namespace,
    resolutionMillis: minutes * 60_000,
    fromMillis: 0,
    takesAll,
    policy: {
      resolutionNanos: BigInt(minutes) * 60_000_000_000n,
      retentionNanos: BigInt(hours * hour) * nanosPerMilli,
    },
  };
}

const some = resolution('some', 1, 100, false);
const fine = resolution('fine', 5, 100, true);
const coarse = resolution('coarse', 60, 1000, true);
const policy = (of: PlacedResolution) => ({
  resolution: `${of.resolutionMillis / 60_000}m`,
  retention: `${Number(of.policy.retentionNanos / nanosPerMilli) / hour}h`,
});

type Change = readonly [hours: number, file: object];

function placesOf(...changes: readonly Change[]): PlacesByRules {
  const sets = ruleSetsOf(
    ...changes.map(([hours, file]) => [BigInt(hours * hour) * nanosPerMilli, file] as const),
  );
  return new PlacesByRules(sets, [some, fine, coarse]);
}

const equal = (name: string, value: string): Matcher => ({ name, kind: '=', value });

/** Where each series is read from, of those that are asked. */
function told(parts: readonly SeriesPart[], series: Readonly<Record<string, object>>) {
  return Object.fromEntries(
    Object.entries(series).map(([name, values]) => {
      const tags = sortTags(
        Object.entries(values).map(([key, value]) => ({ name: key, value: String(value) })),
      );
      const bytes = encodeTags(tags);
      const taking = parts.filter(({ restriction }) => restriction?.takes(bytes) ?? true);
      return [name, taking.map(({ of }) => of?.namespace ?? 'samples').join()];
    }),
  );
}

/** Rows of a range in hours. */
const rows = (sources: readonly (PlacedResolution | null)[], after: number, until: number) =>
  sources.map((of) => ({ of, afterMillis: after * hour, untilMillis: until * hour }));

const asked = (parts: readonly SeriesPart[]): string =>
  parts.map(({ of }) => of?.namespace ?? 'samples').join();

test('each series is in one part: the finest that has it throughout', () => {
  const places = placesOf([
    0,
    {
      mappingRules: [
        { name: 'kept', filter: 'app:a', storagePolicies: [policy(some)] },
        { name: 'dropped', filter: 'app:{b,c}', drop: true },
        { name: 'coarse', filter: 'app:b', storagePolicies: [policy(coarse)] },
      ],
      rollupRules: [
        {
          name: 'all',
          filter: 'app:*',
          transforms: [{ rollup: { metricName: '{{ .MetricName }}_all', groupBy: ['zone'] } }],
          tags: [{ name: 'made', value: 'yes' }],
          storagePolicies: [policy(fine)],
        },
      ],
    },
  ]);
  const all = { __name__: 'x' };
  const series = {
    kept: { ...all, app: 'a' },
    coarse: { ...all, app: 'b' },
    nowhere: { ...all, app: 'c' },
    other: { ...all, app: 'd' },
    rollup: { __name__: 'x_all', __rollup__: 'true', made: 'yes', zone: 'z' },
    unexplained: { __name__: 'x_all', __rollup__: 'true', zone: 'z' },
  };
  const whole = places.parts([], rows([null, some, fine, coarse], 1, 2));
  assert.equal(asked(whole), 'samples,some,fine,coarse');
  assert.deepEqual(told(whole, series), {
    kept: 'samples',
    coarse: 'coarse',
    // Nobody has it; it is looked for where all are.
    nowhere: 'samples',
    other: 'samples',
    rollup: 'fine',
    unexplained: 'some',
  });
  assert.deepEqual(told(places.parts([], rows([some, fine, coarse], 1, 2)), series), {
    kept: 'some',
    coarse: 'coarse',
    nowhere: 'fine',
    other: 'fine',
    rollup: 'fine',
    unexplained: 'some',
  });
  // A single one is read as it is, whatever rules say of it.
  const [only] = places.parts([], rows([some], 1, 2));
  assert.deepEqual(only, { of: some, restriction: null });
});

test('who is named by no rule about what matchers take is not asked', () => {
  const places = placesOf([
    0,
    {
      mappingRules: [
        { name: 'dropped', filter: '__name__:debug_*', drop: true },
        { name: 'kept', filter: '__name__:debug_*', storagePolicies: [policy(coarse)] },
      ],
      rollupRules: [
        {
          name: 'all',
          filter: '__name__:http_*',
          transforms: [{ rollup: { metricName: 'http_all', groupBy: ['zone'] } }],
          storagePolicies: [policy(fine)],
        },
      ],
    },
  ]);
  const sources = [null, fine, coarse];
  const parts = (...matchers: Matcher[]): string =>
    asked(places.parts([matchers], rows(sources, 1, 2)));
  assert.equal(parts(equal('__name__', 'up')), 'samples');
  assert.equal(parts(equal('__name__', 'debug_x')), 'samples,coarse');
  assert.equal(parts(equal('__name__', 'http_all')), 'samples,fine');
  assert.equal(parts({ name: '__name__', kind: '=~', value: 'http.*' }), 'samples,fine,coarse');
  assert.equal(asked(places.parts([], rows(sources, 1, 2))), 'samples,fine,coarse');
  const [, second] = places.parts([[equal('__name__', 'debug_x')]], rows(sources, 1, 2));
  assert.deepEqual(second!.restriction!.within, {
    kind: 'disjunction',
    queries: [
      { kind: 'term', field: '__rollup__', term: 'true' },
      { kind: 'regexp', field: '__name__', regexp: 'debug_.*' },
    ],
  });
});

test('a query is cut at changes that are about its series, the last sixteen of them', () => {
  const drop = (app: string) => ({
    mappingRules: [{ name: 'x', filter: `app:${app}`, drop: true }],
  });
  const places = placesOf([10, drop('a')], [20, drop('b')], [30, drop('c')]);
  const changes = (from: number, to: number, ...matchers: Matcher[]): number[] =>
    places.changes([matchers], from * hour, to * hour).map((millis) => millis / hour);
  assert.deepEqual(changes(0, 100), [10, 20, 30]);
  assert.deepEqual(changes(10, 30), [20]);
  assert.deepEqual(changes(0, 100, equal('app', 'a')), [10, 20]);
  assert.deepEqual(changes(0, 100, equal('app', 'd')), []);
  const many = placesOf(
    ...Array.from({ length: 40 }, (_, i): Change => [i + 1, drop(i % 2 === 0 ? 'a' : 'b')]),
  );
  const last = many.changes([[]], 0, 100 * hour).map((millis) => millis / hour);
  assert.deepEqual(
    last,
    Array.from({ length: 16 }, (_, i) => i + 25),
  );
});

test('across a change a series is read from where it is at the end, of the rows that are asked of each', () => {
  const moved = placesOf([
    10,
    {
      mappingRules: [
        { name: 'dropped', filter: 'app:a', drop: true },
        { name: 'kept', filter: 'app:a', storagePolicies: [policy(some)] },
      ],
    },
  ]);
  const series = { a: { app: 'a' } };
  const of = (places: PlacesByRules, ...asked: Parameters<typeof rows>) =>
    told(places.parts([], rows(...asked)), series)['a'];
  const sources = [null, some];
  assert.equal(of(moved, sources, 1, 9), 'samples');
  // A row of the very time of the change is one of before.
  assert.equal(of(moved, sources, 9, 10), 'samples');
  assert.equal(of(moved, sources, 9, 11), 'some');
  assert.equal(of(moved, sources, 10, 12), 'some');

  // A drop that has ended matters to who looks back so far, and to no one else.
  const ended = placesOf(
    [10, { mappingRules: [{ name: 'dropped', filter: 'app:a', drop: true }] }],
    [20, { mappingRules: [] }],
  );
  const looking = (samplesAfter: number, coarseAfter: number) =>
    told(
      ended.parts(
        [],
        [...rows([null], samplesAfter, 22), ...rows([some, coarse], coarseAfter, 22)],
      ),
      series,
    )['a'];
  assert.equal(looking(21, 12), 'samples');
  assert.equal(looking(19, 12), 'samples');

  // What a rule has made that is there no more is where it was.
  const rollup = {
    name: 'all',
    filter: 'app:*',
    transforms: [{ rollup: { metricName: 'all', groupBy: ['zone'] } }],
    storagePolicies: [policy(some)],
  };
  const gone = placesOf([10, { rollupRules: [rollup] }], [20, { rollupRules: [] }]);
  const made = { a: { __name__: 'all', __rollup__: 'true', zone: 'z' } };
  const places = gone.parts([], rows([null, some], 15, 30));
  assert.equal(told(places, made)['a'], 'some');
});

test('restrictions that choose alike have one key', () => {
  const drop = (app: string) => ({
    mappingRules: [{ name: 'x', filter: `app:${app}`, drop: true }],
  });
  const places = placesOf([10, drop('a')], [20, drop('b')]);
  const keys = (...asked: Parameters<typeof rows>) =>
    places.parts([], rows(...asked)).map(({ restriction }) => restriction!.key);
  const sources = [null, some];
  const between = keys(sources, 11, 12);
  assert.equal(new Set(between).size, 2);
  assert.deepEqual(keys(sources, 12, 19), between);
  assert.notDeepEqual(keys(sources, 12, 21), between);
});

test('a path whose rule names all of its resolutions is read from these alone', () => {
  const places = placesOf([
    0,
    {
      mappingRules: [
        {
          name: 'paths',
          path: { pattern: '^servers\\.' },
          storagePolicies: [policy(coarse)],
          onlyNamed: true,
        },
        { name: 'read', path: { contains: 'cpu' }, aggregations: ['Sum'] },
      ],
    },
  ]);
  const series = {
    named: { __g0__: 'servers', __g1__: 'cpu' },
    other: { __g0__: 'disks', __g1__: 'cpu' },
  };
  const windows = places.parts([], rows([fine, coarse], 10, 20));
  assert.deepEqual(told(windows, series), { named: 'coarse', other: 'fine' });
  assert.deepEqual(windows[1]!.restriction!.within, {
    kind: 'disjunction',
    queries: [
      { kind: 'term', field: '__rollup__', term: 'true' },
      {
        kind: 'conjunction',
        queries: [
          { kind: 'term', field: '__g0__', term: 'servers' },
          { kind: 'field', field: '__g1__' },
        ],
      },
    ],
  });
  for (const others of [equal('__g0__', 'disks'), equal('__name__', 'up')]) {
    assert.equal(asked(places.parts([[others]], rows([fine, coarse], 10, 20))), 'fine');
  }
  const kept = places.kept(fine, { startNanos: 0n, endNanos: 1_000_000_000_000n })!;
  const tags = Object.entries(series.named).map(([name, value]) => ({ name, value }));
  assert.deepEqual(kept.of(encodeTags(tags)), []);
});

test('types of windows are asked of rules that may be about the series, the policy and the time alone', () => {
  const typed = (filter: string, aggregations: string[], of: PlacedResolution) => ({
    name: `${filter} ${of.namespace}`,
    filter,
    aggregations,
    storagePolicies: [policy(of)],
  });
  const places = placesOf(
    [
      10,
      {
        mappingRules: [
          typed('app:a', ['Max'], fine),
          typed('app:b', ['Sum'], fine),
          typed('app:c', ['Last'], coarse),
          typed('app:d', [], coarse),
        ],
      },
    ],
    [20, { mappingRules: [] }],
  );
  const range = (from: number, to: number) => ({
    startNanos: BigInt(from * hour) * nanosPerMilli + 1n,
    endNanos: BigInt(to * hour) * nanosPerMilli + 1n,
  });
  const types = (of: PlacedResolution, [from, to]: [number, number], ...matchers: Matcher[]) =>
    inOneGo(places.types(of, [matchers], range(from, to)));
  assert.notEqual(types(fine, [12, 18]), null);
  assert.notEqual(types(fine, [12, 18], equal('app', 'a')), null);
  for (const asked of [
    types(fine, [12, 18], equal('app', 'd')),
    types(coarse, [12, 18]),
    types(some, [12, 18]),
    types(fine, [2, 10]),
    types(fine, [21, 30]),
    types(resolution('gone', 5, 100, true), [12, 18]),
    inOneGo(
      placesOf([0, { mappingRules: [typed('app:a', ['Last'], fine)] }]).types(
        fine,
        [],
        range(1, 9),
      ),
    ),
  ]) {
    assert.equal(asked, null);
  }
  const tags = (app: string) => encodeTags([{ name: 'app', value: app }]);
  const told = (app: string): string[] =>
    inOneGo(types(fine, [5, 25])!.of(tags(app))).map(
      ({ startNanos, type }) => `${type} ${startNanos / (60_000n * nanosPerMilli)}`,
    );
  assert.deepEqual(told('a'), ['Last 300', 'Max 605', 'Last 1205']);
  assert.deepEqual(told('d'), ['Last 300']);
});

test('to try the paths of many rules on a series counts as the work that it is', () => {
  const unitsBy = (rulesCount: number, path: string): number => {
    const mappingRules = Array.from({ length: rulesCount }, (_, order) => ({
      path: { pattern: `\\.(count|sum)${order}$`, order },
      onlyNamed: true,
      storagePolicies: [policy(some)],
    }));
    const places = placesOf([0, { mappingRules }]);
    const tags = encodeTags([{ name: '__g0__', value: path }]);
    const parts = places.parts([], rows([null, some], 1, 10));
    const restriction = parts[1]!.restriction!;
    const endNanos = 10n * BigInt(hour) * nanosPerMilli;
    const kept = places.kept(fine, { startNanos: 0n, endNanos })!;
    assert.equal(restriction.takes(tags), false);
    assert.equal(kept.of(tags).length, 1);
    return restriction.units(tags.length) + kept.units(tags.length);
  };
  const few = unitsBy(1, 'a');
  assert.ok(unitsBy(1000, 'a') > 100 * few);
  assert.ok(unitsBy(1000, 'a'.repeat(1000)) > 1000 * few);
  // Longer paths are tried by none.
  assert.equal(unitsBy(1000, 'a'.repeat(2000)), unitsBy(1000, 'a'.repeat(4000)));
});
