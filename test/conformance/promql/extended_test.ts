/** `anchored` and `smoothed`, where Prometheus' own scripts do not reach. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PromqlEngine, type QueryOptions } from '#coordinator/promql/engine.ts';
import { allFeatures } from '#coordinator/promql/parse/features.ts';
import type { QueryStorage } from '#coordinator/select/storage.ts';
import { assertNotHeld, turnsOf } from '#engine/aside/turning_testing.ts';
import { FloatHistogram } from '#engine/histograms/float_histogram.ts';
import { doubleOf } from '#engine/typed/typed_value.ts';
import { realEnv } from '#lib/env/real.ts';
import { MemoryStorage } from './memory_storage.ts';
import { runScript } from './run_script.ts';

const options: QueryOptions = {
  lookbackMillis: 300_000,
  samplesMax: 50_000_000,
  limits: { seriesMax: 0, requireExhaustive: true },
};
const { signal } = new AbortController();

const engineOver = (storage: QueryStorage): PromqlEngine =>
  new PromqlEngine(storage, { clock: realEnv.clock, features: allFeatures });

const scripts: Readonly<Record<string, string>> = {
  'rows and resets on the edges of a window': `
load 1m
  c_total 0 10 20 30 5 15 25

eval instant at 2m increase(c_total[2m] anchored)
  {} 20

eval instant at 3m increase(c_total[2m] smoothed)
  {} 20

eval instant at 6m increase(c_total[2m] anchored)
  {} 20

eval instant at 6m increase(c_total[2m] smoothed)
  {} 20

eval instant at 4m increase(c_total[1m] anchored)
  {} 5

eval instant at 4m increase(c_total[1m] smoothed)
  {} 5

eval instant at 4m30s increase(c_total[1m] smoothed)
  {} 7.5

eval instant at 4m30s increase(c_total[1m] anchored)
  {} 5

eval instant at 4m30s delta(c_total[1m] smoothed)
  {} -7.5

eval instant at 4m30s rate(c_total[1m] smoothed)
  {} 0.125

eval instant at 3m30s increase(c_total[10s] smoothed)
  {} 0.8333333333333333

eval instant at 4m resets(c_total[1m] anchored)
  {} 1

eval instant at 5m resets(c_total[1m] anchored)
  {} 0

eval instant at 5m changes(c_total[2m] anchored)
  {} 2
`,
  'a window without rows, and with one': `
load 1m
  late_total _ _ 7

eval instant at 1m30s increase(late_total[1m] smoothed)

eval instant at 1m30s late_total smoothed

eval instant at 2m increase(late_total[1m] smoothed)
  {} 0

eval instant at 2m30s rate(late_total[1m] smoothed)
  {} 0

eval instant at 2m30s rate(late_total[1m] anchored)
  {} 0

eval instant at 2m30s changes(late_total[1m] anchored)
  {} 0

eval instant at 3m rate(late_total[1m] anchored)

eval instant at 3m rate(late_total[1m] smoothed)

eval instant at 3m resets(late_total[1m] anchored)

eval instant at 6m59s late_total smoothed
  late_total 7

eval instant at 7m late_total smoothed

eval instant at 7m resets(nothing[1m] anchored)
`,
  'an anchor is looked for as far as a sample is': `
load 1m
  sparse_total 1 _ _ _ _ _ 7

eval instant at 6m increase(sparse_total[59s] anchored)
  {} 0

eval instant at 6m increase(sparse_total[61s] anchored)
  {} 6

eval instant at 2m increase(sparse_total[1m] smoothed)
  {} 1

eval instant at 1m sparse_total smoothed
  sparse_total 2

eval instant at 50s sparse_total smoothed
  sparse_total 1
`,
  'a marker that the series ends is passed over': `
load 1m
  s_total 1 stale 3 stale

eval instant at 1m s_total smoothed
  s_total 2

eval instant at 3m s_total smoothed
  s_total 3

eval instant at 3m s_total anchored

eval instant at 1m increase(s_total[30s] smoothed)
  {} 0.5

eval instant at 3m increase(s_total[3m] anchored)
  {} 2

eval instant at 3m changes(s_total[3m] anchored)
  {} 1

load 1m
  h_total {{schema:0 sum:1 count:2 buckets:[2]}} stale {{schema:0 sum:5 count:6 buckets:[6]}}

eval instant at 1m h_total smoothed
  h_total {{schema:0 sum:3 count:4 buckets:[4]}}
`,
  'ranges of many steps, offsets and fixed times': `
load 1m
  c_total 0 10 20 30 5 15 25

eval range from 0 to 7m step 30s c_total smoothed
  c_total 0 5 10 15 20 25 30 17.5 5 10 15 20 25 25 25

eval range from 0 to 7m step 30s increase(c_total[1m] anchored)
  {} 0 0 10 10 10 10 10 10 5 5 10 10 10 10

eval range from 0 to 7m step 30s increase(c_total[1m] smoothed)
  {} 0 5 10 10 10 10 10 7.5 5 7.5 10 10 10 5

eval range from 1m to 3m step 1m increase(c_total[1m] offset 30s smoothed)
  {} 5 10 10

eval range from 1m to 3m step 1m increase(c_total[1m] smoothed offset -90s)
  {} 10 7.5 7.5

eval range from 0 to 2m step 1m increase(c_total[1m] anchored @ 240)
  {} 5 5 5

eval range from 0 to 2m step 1m c_total @ end() smoothed offset -150s
  c_total 10 10 10

eval range from 0 to 4m step 1m max_over_time(increase(c_total[1m] smoothed)[2m:30s])
  {} 0 10 10 10 10

eval range from 0 to 4m step 2m sum_over_time((c_total smoothed)[1m:30s])
  {} 0 35 22.5
`,
  'floats and histograms in one window, or around it': `
load 1m
  both_total 1 2 {{schema:0 sum:3 count:3 buckets:[3]}} {{schema:0 sum:4 count:4 buckets:[4]}} 5 _ _ _ _ _ 6

eval instant at 2m increase(both_total[30s] anchored)
  expect warn msg: PromQL warning: encountered a mix of histograms and floats for metric name "both_total" (1:10)

eval instant at 10m increase(both_total[30s] smoothed)
  {} 0

eval instant at 8m rate(both_total[30s] smoothed)
  expect warn msg: PromQL warning: encountered a mix of histograms and floats for metric name "both_total" (1:6)

eval instant at 10m both_total smoothed
  both_total 6

eval instant at 4m changes(both_total[2m] anchored)
  {} 2

eval instant at 4m resets(both_total[3m] anchored)
  {} 2

eval instant at 4m resets(both_total[3m1ms] anchored)
  {} 2

eval instant at 4m resets(both_total[4m] anchored)
  {} 2
`,
  histograms: `
load 1m
  h_total {{schema:0 sum:0 count:0}} {{schema:0 sum:10 count:4 buckets:[1 3]}} {{schema:0 sum:20 count:8 buckets:[2 6]}} {{schema:0 sum:1 count:2 buckets:[2]}} {{schema:0 sum:3 count:6 buckets:[6]}}
  g {{schema:0 sum:1 count:4 buckets:[4] counter_reset_hint:gauge}} {{schema:0 sum:3 count:2 buckets:[2] counter_reset_hint:gauge}}
  coarser_total {{schema:1 sum:1 count:4 buckets:[1 1 1 1]}} {{schema:0 sum:2 count:8 buckets:[2 4 2]}} {{schema:0 sum:3 count:9 buckets:[2 4 3]}}
  bounds_total {{schema:-53 sum:1 count:2 custom_values:[1 2] buckets:[1 1]}} {{schema:-53 sum:2 count:4 custom_values:[1 3] buckets:[2 2]}}

eval range from 0 to 4m step 30s h_total smoothed
  h_total {{schema:0 sum:0 count:0}} {{schema:0 sum:5 count:2 buckets:[0.5 1.5]}} {{schema:0 sum:10 count:4 buckets:[1 3]}} {{schema:0 sum:15 count:6 buckets:[1.5 4.5]}} {{schema:0 sum:20 count:8 buckets:[2 6]}} {{schema:0 sum:0.5 count:1 buckets:[1]}} {{schema:0 sum:1 count:2 buckets:[2]}} {{schema:0 sum:2 count:4 buckets:[4]}} {{schema:0 sum:3 count:6 buckets:[6]}}

eval instant at 3m30s increase(h_total[1m] smoothed)
  {} {{schema:0 sum:1.5 count:3 buckets:[3] counter_reset_hint:gauge}}

eval instant at 3m increase(h_total[2m] anchored)
  {} {{schema:0 sum:11 count:6 buckets:[3 3] counter_reset_hint:gauge}}

eval instant at 4m increase(h_total[1m] anchored)
  {} {{schema:0 sum:2 count:4 buckets:[4] counter_reset_hint:gauge}}

eval instant at 3m resets(h_total[1m] anchored)
  {} 1

eval instant at 4m resets(h_total[1m] anchored)
  {} 0

eval instant at 30s g smoothed
  g {{schema:0 sum:2 count:3 buckets:[3] counter_reset_hint:gauge}}

eval instant at 45s delta(g[30s] smoothed)
  {} {{schema:0 sum:1 count:-1 buckets:[-1] counter_reset_hint:gauge}}

eval instant at 2m increase(coarser_total[2m] anchored)
  {} {{schema:0 sum:2 count:5 buckets:[1 2 2] counter_reset_hint:gauge}}

eval instant at 30s bounds_total smoothed
  expect info msg: PromQL info: mismatched custom buckets were reconciled during addition (1:1)
  expect info msg: PromQL info: mismatched custom buckets were reconciled during subtraction (1:1)
  bounds_total {{schema:-53 sum:1.5 count:3 custom_values:[1] buckets:[1.5 1.5]}}

eval instant at 1m increase(bounds_total[1m] anchored)
  expect info msg: PromQL info: mismatched custom buckets were reconciled during subtraction (1:10)
  {} {{schema:-53 sum:1 count:2 custom_values:[1] buckets:[1 1] counter_reset_hint:gauge}}
`,
  'functions that know nothing of it': `
eval instant at 1m quantile_over_time(0.5, foo[3m] anchored)
  expect fail msg: anchored modifier can only be used with: changes, delta, increase, rate, resets - not with quantile_over_time

eval instant at 1m sum(absent_over_time((foo[3m] smoothed)))
  expect fail msg: smoothed modifier can only be used with: delta, increase, rate - not with absent_over_time

eval range from 0 to 1m step 30s max_over_time(irate(foo[3m] @ end() anchored)[1m:10s])
  expect fail msg: anchored modifier can only be used with: changes, delta, increase, rate, resets - not with irate
`,
};

for (const [name, script] of Object.entries(scripts)) {
  test(`anchored and smoothed: ${name}`, async () => {
    const storage = new MemoryStorage();
    const outcome = await runScript(script, storage, engineOver(storage));
    assert.deepEqual(outcome.failures, []);
  });
}

const bitsOf = (value: number): bigint => new BigUint64Array(Float64Array.of(value).buffer)[0]!;

/** Of one series `m`. */
function storageOf(samples: readonly (readonly [seconds: number, value: number])[]): MemoryStorage {
  const storage = new MemoryStorage();
  const tags = [{ name: '__name__', value: 'm' }];
  for (const [seconds, value] of samples) storage.add(tags, seconds * 1000, bitsOf(value));
  return storage;
}

async function samplesOf(
  engine: PromqlEngine,
  query: string,
  seconds: number,
): Promise<(readonly [seconds: number, value: unknown])[]> {
  const result = await engine.instantQuery(query, seconds * 1000, options, signal);
  return result
    .series()
    .flatMap(({ points }) => points.map((p) => [p.timeMillis / 1000, p.value] as const));
}

test('a range by itself has samples at its edges', async () => {
  const samples = [20, 40, 60, 80].map((seconds) => [seconds, seconds * 10] as const);
  const engine = engineOver(storageOf(samples));
  const of = (query: string, seconds: number) => samplesOf(engine, query, seconds);
  assert.deepEqual(await of('m[30s] anchored', 70), [
    [40, 400],
    [60, 600],
    [70, 600],
  ]);
  assert.deepEqual(await of('m[30s] smoothed', 70), [
    [40, 400],
    [60, 600],
    [70, 700],
  ]);
  assert.deepEqual(await of('m[25s] smoothed offset 5s', 75), [
    [45, 450],
    [60, 600],
    [70, 700],
  ]);
  assert.deepEqual(await of('m[30s] anchored', 15), []);
  // The first sample stands for what was before it.
  assert.deepEqual(await of('m[30s] smoothed', 15), [
    [-15, 200],
    [15, 200],
  ]);
  assert.deepEqual(await of('m[30s] anchored', 110), []);
  assert.deepEqual(await of('m[30s] smoothed', 109), [
    [79, 790],
    [80, 800],
    [109, 800],
  ]);
});

test('a range of histograms by itself is refused', async () => {
  const storage = storageOf([[0, 1]]);
  const histogram = new FloatHistogram({ schema: 0, count: 0, sum: 0 });
  storage.add([{ name: '__name__', value: 'h' }], 0, histogram);
  const engine = engineOver(storage);
  for (const extension of ['anchored', 'smoothed']) {
    await assert.rejects(
      engine.instantQuery(`{__name__=~".+"}[1m] ${extension}`, 0, options, signal),
      { kind: 'execution', message: `${extension} modifier is not supported with histograms` },
    );
  }
});

test('times of samples are those of rows, and an anchored selector without a range is a plain one', async () => {
  const engine = engineOver(
    storageOf([
      [0, 1],
      [60, 3],
    ]),
  );
  assert.deepEqual(await samplesOf(engine, 'timestamp(m smoothed)', 30), [[30, 0]]);
  assert.deepEqual(await samplesOf(engine, 'm smoothed', 30), [[30, 2]]);
  assert.deepEqual(await samplesOf(engine, 'm anchored', 30), [[30, 1]]);
});

test('a NaN among the rows is a value', async () => {
  const nan = doubleOf(0x7ff8000000000001n);
  const engine = engineOver(
    storageOf([
      [0, 1],
      [10, nan],
      [20, 3],
    ]),
  );
  assert.deepEqual(await samplesOf(engine, 'm smoothed', 15), [[15, Number.NaN]]);
  assert.deepEqual(await samplesOf(engine, 'increase(m[20s] anchored)', 20), [[20, 2]]);
  assert.deepEqual(await samplesOf(engine, 'changes(m[20s] anchored)', 20), [[20, 2]]);
});

test('what is around windows is read with them', async () => {
  const inner = storageOf([[0, 1]]);
  const ranges: bigint[][] = [];
  const storage: QueryStorage = {
    select: (matchers, range) => {
      ranges.push([range.startNanos, range.endNanos].map((nanos) => nanos / 1_000_000n));
      return inner.select(matchers, range);
    },
    labelNames: () => inner.labelNames(),
    labelValues: () => inner.labelValues(),
    series: () => inner.series(),
  };
  for (const [query, start, end] of [
    ['m smoothed', 300_001n, 960_001n],
    ['m anchored', 300_001n, 660_001n],
    ['rate(m[1m] anchored)', 240_001n, 660_001n],
    ['rate(m[1m] smoothed)', 240_001n, 960_001n],
    ['rate(m[1m] smoothed offset 1m)', 180_001n, 900_001n],
  ] as const) {
    ranges.length = 0;
    await engineOver(storage).rangeQuery(query, 600_000, 660_000, 60_000, options, signal);
    assert.deepEqual(ranges, [[start, end]], query);
  }
});

test('a subquery that is evaluated in parts is smoothed across them', async () => {
  const steps = 300_000;
  const every = 1000;
  const samples = Array.from({ length: steps / every + 1 }, (_, i) => [i * every, i] as const);
  const engine = engineOver(storageOf(samples));
  const wide = { ...options, lookbackMillis: 2 * every * 1000 };
  for (const [query, expected] of [
    [`sum_over_time((m smoothed)[${steps}s:1s])`, (steps * (steps + 1)) / 2 / every],
    [`sum_over_time(increase(m[250s] smoothed)[${steps}s:1s])`, 0.25 * (steps - 250) + 31.375],
  ] as const) {
    const result = await engine.instantQuery(query, steps * 1000, wide, signal);
    const value = result.series()[0]!.points[0]!.value as number;
    assert.ok(Math.abs(value - expected) < 1e-6, `${query}: ${value} ${expected}`);
  }
});

test('the loop goes on while many windows are looked at', async () => {
  const samples = Array.from({ length: 20_000 }, (_, i) => [i * 10, i] as const);
  const engine = engineOver(storageOf(samples));
  const running = engine.rangeQuery(
    'increase(m[12h] anchored)',
    0,
    200_000_000,
    40_000,
    options,
    signal,
  );
  const seen = await turnsOf(running);
  assert.equal(seen.answer.series()[0]!.points.at(-1)!.value, 4319);
  assert.ok(seen.turns >= 4, `${seen.turns}`);
  assertNotHeld(seen);
});
