import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ruleSetsOf } from '../sets/sets_testing.ts';
import { bitsOfDouble, doubleOf } from '#engine/typed/typed_value.ts';
import { staleBits } from '#engine/typed/histogram.ts';
import { realEnv } from '#lib/env/real.ts';
import { encodeTags, sortTags } from '#lib/tags.ts';
import type { RuleSetsOverTime } from '../sets/over_time.ts';
import { lookBackNanos, RollupMap, type WindowsRange } from './map.ts';
import { RollupReduce } from './reduce.ts';
import { addValue, emptyPart } from './accumulators.ts';
import { Outputs } from './outputs.ts';
import { SeriesRoutes } from './series_routes.ts';
import { rollupTwin, textOf, type TwinSeries } from './rollup_twin.ts';

const second = 1_000_000_000n;
const minute = 60n * second;
const start = (1_700_000_000n / 600n) * 600n * second;
const storagePolicies = [{ resolution: '1m', retention: '40h' }];
const policy = { resolutionNanos: minute, retentionNanos: 2_400n * minute };

const setsOf = (...changes: readonly (readonly [number, readonly object[]])[]): RuleSetsOverTime =>
  ruleSetsOf(
    ...changes.map(
      ([minutes, rollupRules]) => [start + BigInt(minutes) * minute, { rollupRules }] as const,
    ),
  );

const rule = (name: string, filter: string, ...transforms: readonly object[]): object => ({
  name,
  filter,
  transforms,
  storagePolicies,
});
const rollup = (
  metricName: string,
  groupBy: readonly string[],
  ...aggregations: readonly string[]
): object => ({ rollup: { metricName, groupBy, aggregations } });
const transform = (type: string): object => ({ transform: { type } });

/**
 * What maps of disjoint series, and of one stretch of windows after the other, come to.
 * @param parts that series are divided into
 */
function reduced(
  series: readonly TwinSeries[],
  sets: RuleSetsOverTime,
  windows: number,
  parts: number,
  windowsAtOnce: number,
): Map<string, number> {
  const known = new SeriesRoutes(policy, realEnv.random);
  const reduce = new RollupReduce(minute);
  const found = new Map<string, number>();
  for (let first = 0; first < windows; first += windowsAtOnce) {
    const range: WindowsRange = {
      resolutionNanos: minute,
      firstEndNanos: start + BigInt(first + 1) * minute,
      windowCount: Math.min(windowsAtOnce, windows - first),
    };
    const maps = Array.from({ length: parts }, () => new RollupMap(sets, range, known));
    const fromNanos = range.firstEndNanos - minute - lookBackNanos(minute);
    for (const [i, { tags, rows }] of series.entries()) {
      const map = maps[i % parts]!;
      const routes = map.routesOf(encodeTags(tags));
      if (routes === null) continue;
      const some = rows.filter(({ nanos }) => nanos > fromNanos);
      const values = Float64Array.from(some, ({ value }) => value);
      map.add(
        routes,
        BigInt64Array.from(some, ({ nanos }) => nanos),
        values,
      );
    }
    for (let window = 0; window < range.windowCount; window++) {
      const all = maps.flatMap((map) => [...map.partsOf(window)]);
      const endNanos = range.firstEndNanos + BigInt(window) * minute;
      for (const { tags, nanos, value } of reduce.window(endNanos, all)) {
        const key = `${textOf(tags)} ${nanos}`;
        assert.ok(!found.has(key), `twice: ${key}`);
        found.set(key, value);
      }
    }
  }
  return found;
}

/** Quantiles are told to within a hundredth. */
const isOfQuantile = (key: string): boolean => /agg=\.(median|p\d+)/.test(key);

function assertAlike(got: ReadonlyMap<string, number>, wanted: ReadonlyMap<string, number>): void {
  assert.deepEqual([...got.keys()].sort(), [...wanted.keys()].sort());
  for (const [key, value] of wanted) {
    const of = got.get(key)!;
    const off = isOfQuantile(key) ? 0.011 * Math.abs(value) : 1e-9 * Math.max(1, Math.abs(value));
    const isClose = Math.abs(of - value) <= off;
    assert.ok(isClose || Object.is(of, value), `${key}: ${of}, not ${value}`);
  }
}

let seed = 5;
const random = (n: number): number => (seed = (seed * 48_271) % 2_147_483_647) % n;

function someSeries(minutes: number): TwinSeries[] {
  const series: TwinSeries[] = [];
  for (const app of ['a', 'b']) {
    for (const zone of ['x', 'y', null]) {
      for (const pod of ['1', '2', '3']) {
        const tags = [
          { name: '__name__', value: 'requests' },
          { name: 'app', value: app },
          { name: 'pod', value: pod },
        ];
        if (zone !== null) tags.push({ name: 'zone', value: zone });
        const rows: { nanos: bigint; value: number }[] = [];
        let value = random(100);
        let nanos = start - 20n * minute + BigInt(random(60_000)) * 1_000_000n;
        while (nanos <= start + BigInt(minutes) * minute) {
          value = random(20) === 0 ? random(10) : value + random(10);
          rows.push({ nanos, value: random(40) === 0 ? NaN : value });
          const gap = random(30) === 0 ? 60_000 * (1 + random(9)) : 15_000;
          // Rows at the very end of windows among them.
          nanos += BigInt(gap) * 1_000_000n;
          if (random(5) === 0) nanos = (nanos / minute + 1n) * minute;
        }
        series.push({ tags: sortTags(tags), rows });
      }
    }
  }
  return series;
}

const rules: readonly object[] = [
  rule('sums', 'app:a', rollup('sum_{{ .MetricName }}', ['app'], 'Sum')),
  rule(
    'all types',
    'app:*',
    rollup('all', ['zone'], 'Last', 'Min', 'Max', 'Mean', 'Count', 'Sum', 'SumSq', 'Stdev'),
  ),
  rule('quantiles', 'app:*', rollup('quantiles', ['app'], 'Median', 'P10', 'P99', 'P9999')),
  rule('last', 'app:*', { aggregate: { type: 'Last' } }, rollup('last', ['app'], 'Sum')),
  rule(
    'counter',
    'app:*',
    transform('Increase'),
    rollup('total', ['app', 'zone'], 'Sum'),
    transform('Add'),
  ),
  rule('rate', 'app:b', transform('PerSecond'), rollup('rate', ['pod'], 'Sum')),
  rule(
    'mean change',
    'app:b',
    { aggregate: { type: 'Max' } },
    transform('Increase'),
    rollup('max_change', [], 'Max'),
  ),
  rule(
    'twice',
    'app:*',
    transform('Increase'),
    rollup('by_both', ['app', 'zone'], 'Sum'),
    rollup('by_app', ['app'], 'Max', 'Sum'),
  ),
  rule('after', 'app:*', rollup('after', ['app'], 'Last'), transform('PerSecond')),
  rule(
    'reset',
    'app:a',
    transform('Increase'),
    rollup('reset', ['app'], 'Sum'),
    transform('Reset'),
  ),
  {
    ...rule('others', 'app:*', {
      rollup: { metricName: 'without', excludeBy: ['pod'], aggregations: ['Count'] },
    }),
    tags: [{ name: 'made', value: 'yes' }],
  },
];

test('parts of any division come to what all rows come to, window by window', () => {
  const sets = setsOf([-1_000, rules]);
  const series = someSeries(40);
  const ends = Array.from({ length: 40 }, (_, i) => start + BigInt(i + 1) * minute);
  const wanted = rollupTwin(series, sets, policy, ends);
  assert.ok(wanted.size > 1_000, `${wanted.size} values`);
  assertAlike(reduced(series, sets, 40, 1, 40), wanted);
  assertAlike(reduced(series, sets, 40, 5, 40), wanted);
});

test('windows are of the rules of when they begin, each of its own', () => {
  const sets = setsOf([-1_000, rules.slice(0, 4)], [7, rules.slice(2)], [20, []], [30, rules]);
  const series = someSeries(40);
  const ends = Array.from({ length: 40 }, (_, i) => start + BigInt(i + 1) * minute);
  assertAlike(reduced(series, sets, 40, 3, 40), rollupTwin(series, sets, policy, ends));
});

test('a window at a time comes to the same as many, but for changes over gaps that reach further back', () => {
  const sets = setsOf([-1_000, rules.slice(0, 3)]);
  const series = someSeries(40);
  const ends = Array.from({ length: 40 }, (_, i) => start + BigInt(i + 1) * minute);
  assertAlike(reduced(series, sets, 40, 2, 1), rollupTwin(series, sets, policy, ends));
  assertAlike(
    reduced(series, setsOf([-1_000, rules]), 40, 2, 1),
    reduced(series, setsOf([-1_000, rules]), 40, 2, 7),
  );
});

test('a series goes into what rules make of it once, whichever of them ask for that, and each row as often as they do', () => {
  const overlapping = (...transforms: readonly object[]): RuleSetsOverTime =>
    setsOf([
      -1_000,
      ['app:*', 'zone:*'].map((filter, at) => rule(`rule ${at}`, filter, ...transforms)),
    ]);
  const single = (...transforms: readonly object[]): RuleSetsOverTime =>
    setsOf([-1_000, [rule('alone', 'zone:*', ...transforms)]]);
  const series = someSeries(20);
  const ends = Array.from({ length: 20 }, (_, i) => start + BigInt(i + 1) * minute);
  const counter = [transform('Increase'), rollup('total', ['zone'], 'Sum'), transform('Add')];
  const once = reduced(series, single(...counter), 20, 1, 20);
  assert.ok(once.size > 20);
  assertAlike(reduced(series, overlapping(...counter), 20, 3, 20), once);
  assertAlike(once, rollupTwin(series, overlapping(...counter), policy, ends));
  const rows = [rollup('rows', ['zone'], 'Count')];
  const twice = new Map(
    [...reduced(series, single(...rows), 20, 1, 20)].map(([key, count]) => [key, 2 * count]),
  );
  assertAlike(reduced(series, overlapping(...rows), 20, 3, 20), twice);
  assertAlike(twice, rollupTwin(series, overlapping(...rows), policy, ends));
});

test('of rules that nobody told apart and that make one series in different ways one makes it', () => {
  const literal = rule('literal', 'app:*', rollup('requests_by_app', ['app'], 'Sum'));
  const named = '{{ .MetricName }}_by_app';
  const template = rule('template', 'app:*', rollup(named, ['app'], 'Max'), transform('Increase'));
  const excluding = rule('excluding', 'app:*', {
    rollup: { metricName: named, excludeBy: ['pod', 'zone'], aggregations: ['Count'] },
  });
  const typed = {
    ...rule('typed', 'app:a', rollup(named, ['app'], 'Min')),
    tags: [{ name: 'agg', value: '.upper' }],
  };
  const several = rule('several', 'app:a', rollup('requests_by_app', ['app'], 'Max', 'Last'));
  const series = someSeries(20);
  for (const rivals of [
    [literal, template],
    [template, excluding],
    [typed, several],
  ]) {
    const sets = setsOf([-1_000, rivals]);
    const [a, b] = rivals.map((one) => reduced(series, setsOf([-1_000, [one]]), 20, 1, 20));
    // `reduced` refuses two values of one series and time.
    const got = reduced(series, sets, 20, 1, 20);
    assert.ok(got.size >= 15, `${got.size} values`);
    const isOf = (wanted: ReadonlyMap<string, number>): boolean =>
      [...got].every(([key, value]) => Object.is(wanted.get(key), value));
    assert.equal([a!, b!].filter(isOf).length, 1);
    assertAlike(reduced(series, sets, 20, 5, 7), reduced(series, sets, 20, 1, 7));
  }
});

test('stale markers count for nothing, and other policies are others', () => {
  const sets = setsOf([-1_000, [rule('sums', 'app:a', rollup('sums', ['app'], 'Count'))]]);
  const range = { resolutionNanos: minute, firstEndNanos: start + minute, windowCount: 1 };
  const map = new RollupMap(sets, range, new SeriesRoutes(policy, realEnv.random));
  const tags = [{ name: 'app', value: 'a' }];
  const routes = map.routesOf(encodeTags(tags))!;
  const times = BigInt64Array.of(start, start + 1n, start + second, start + minute);
  const values = Float64Array.of(1, 2, doubleOf(staleBits), 3);
  assert.equal(bitsOfDouble(values[2]!), staleBits);
  map.add(routes, times, values);
  const [part, ...others] = [...map.partsOf(0)];
  assert.equal(others.length, 0);
  assert.equal(part![1].numbers[0], 2, 'a row of the beginning is of the window before');
  assert.equal(map.routesOf(encodeTags([{ name: 'app', value: 'b' }])), null);
  const longer = { ...policy, retentionNanos: 1n };
  assert.equal(
    new RollupMap(sets, range, new SeriesRoutes(longer, realEnv.random)).routesOf(encodeTags(tags)),
    null,
  );
});

test('a sum that is forgotten begins again with nothing, not with what it had come to when it was read', () => {
  const tags = Buffer.from(encodeTags([{ name: 'app', value: 'a' }])).toString('latin1');
  const output = new Outputs().ofKey(JSON.stringify([tags, ['Sum'], ['Add'], null]));
  const hour = 60n * minute;
  let reduce = new RollupReduce(minute);
  reduce.beginSums(() => 1_000);
  const at = (hours: number, value: number | null): number | undefined => {
    reduce = reduce.copy();
    const part = emptyPart(['Sum']);
    if (value !== null) addValue(part, 0, value);
    return reduce.window(start + BigInt(hours) * hour, [[output, part]])[0]?.value;
  };
  assert.equal(at(0, 5), 1_005);
  assert.equal(at(20, 4_000), 5_005);
  for (let hours = 21; hours < 40; hours++) assert.equal(at(hours, null), undefined);
  assert.equal(at(40, 1), 5_006);
  for (let hours = 41; hours < 100; hours++) at(hours, null);
  assert.equal(at(100, 1), 1);
});

test('what windows of a day and more come to depends on those before, also over a gap', () => {
  const day = 1_440n * minute;
  for (const days of [1n, 7n]) {
    const resolution = days * day;
    const tags = Buffer.from(encodeTags([{ name: 'app', value: 'a' }])).toString('latin1');
    const outputs = new Outputs();
    const values = (name: string, transforms: readonly string[]): (number | undefined)[] => {
      const output = outputs.ofKey(JSON.stringify([tags, ['Sum'], transforms, null]));
      const reduce = new RollupReduce(resolution);
      reduce.beginSums(() => 1_000);
      // Nothing is in the third.
      return [10, 30, null, 70, 75].map((value, at) => {
        const part = emptyPart(['Sum']);
        if (value !== null) addValue(part, 0, value);
        const end = (start / resolution + BigInt(at)) * resolution;
        const [row] = reduce.window(end, [[output, part]]);
        assert.ok(row === undefined || row.nanos === end, name);
        return row?.value;
      });
    };
    const seconds = Number(resolution / second);
    assert.deepEqual(values('sum', ['Add']), [1_010, 1_040, undefined, 1_110, 1_185]);
    assert.deepEqual(values('increase', ['Increase']), [undefined, 20, undefined, 40, 5]);
    assert.deepEqual(values('rate', ['PerSecond']), [
      undefined,
      20 / seconds,
      undefined,
      40 / (2 * seconds),
      5 / seconds,
    ]);
  }
});
