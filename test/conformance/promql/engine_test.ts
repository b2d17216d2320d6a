/**
 * The engine over a storage in memory: own scripts in promqltest's form, and what surrounds a
 * query.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PromqlEngine, PromqlError, writeResultJson } from '#coordinator/promql/engine.ts';
import type { QueryResult } from '#coordinator/promql/engine.ts';
import type { QueryStorage } from '#coordinator/select/storage.ts';
import { WindowsTwin } from '#engine/window_functions/windows_twin.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { MemoryStorage } from './memory_storage.ts';
import { runScript } from './run_script.ts';

const options = {
  lookbackMillis: 300_000,
  samplesMax: 1_000_000,
  limits: { seriesMax: 0, requireExhaustive: true },
};
const signal = new AbortController().signal;

async function jsonOf(result: QueryResult): Promise<unknown> {
  const pieces: Uint8Array[] = [];
  for await (const piece of writeResultJson(result)) pieces.push(piece);
  return JSON.parse(Buffer.concat(pieces).toString());
}

const scripts: Readonly<Record<string, string>> = {
  'instant selectors look back, and a stale marker ends a series': `
load 1m
  temperature{room="a"} 20 21 stale 23 _ _ _ _ _ _
  temperature{room="b"} 1 _ _ _ _ _ _ _ _ _

eval range from 0 to 9m step 1m temperature
  temperature{room="a"} 20 21 _ 23 23 23 23 23 _ _
  temperature{room="b"} 1 1 1 1 1

eval instant at 3m temperature offset 2m
  temperature{room="a"} 21
  temperature{room="b"} 1

eval range from 2m to 4m step 1m temperature{room="a"} @ start()

eval range from 0 to 3m step 1m temperature{room="a"} @ end()
  temperature{room="a"} 23 23 23 23
`,
  'range functions see windows that are open on the left': `
load 1m
  requests_total{code="200"} 0 60 120 180 0 60 120
  level 5 1 4 NaN 3 9 2

eval instant at 3m rate(requests_total[3m])
  {code="200"} 1

eval instant at 6m increase(requests_total[6m])
  {code="200"} 288

eval instant at 6m resets(requests_total[10m])
  {code="200"} 1

eval instant at 6m irate(requests_total[2m])
  {code="200"} 1

eval range from 0 to 6m step 2m count_over_time(level[2m])
  {} 1 2 2 2

eval instant at 2m sum_over_time(level[2m])
  {} 5

eval range from 1m to 6m step 1m max_over_time(level[2m])
  {} 5 4 4 3 9 9

eval instant at 2m quantile_over_time(0.5, level[1h])
  {} 4

eval instant at 2m stdvar_over_time(level[1h])
  {} 2.888888888888889

eval instant at 6m last_over_time(level[1m])
  level 2

eval instant at 6m deriv(requests_total[1m])

eval instant at 6m deriv(requests_total[150s])
  {code="200"} 1

eval instant at 6m predict_linear(requests_total[150s], 60)
  {code="200"} 180

eval instant at 6m max_over_time(rate(requests_total[2m])[6m:1m])
  {code="200"} 1

eval instant at 30m absent_over_time(level{room="x"}[5m])
  {room="x"} 1
`,
  'aggregations group by and without labels': `
load 1m
  power{site="n", unit="1"} 10 20
  power{site="n", unit="2"} 30 NaN
  power{site="s", unit="1"} 5 7

eval range from 0 to 1m step 1m sum by (site) (power)
  {site="n"} 40 NaN
  {site="s"} 5 7

eval range from 0 to 1m step 1m max without (unit) (power)
  {site="n"} 30 20
  {site="s"} 5 7

eval instant at 0 topk by (site) (1, power)
  power{site="n", unit="2"} 30
  power{site="s", unit="1"} 5

eval instant at 0 quantile(0.5, power)
  {} 10

eval instant at 0 count_values("watts", power)
  {watts="10"} 1
  {watts="30"} 1
  {watts="5"} 1

eval instant at 0 stddev(power)
  {} 10.801234497346433

eval instant at 0 group(power) + count(power)
  {} 4
`,
  'operators match series by labels': `
load 1m
  free{host="a", disk="x"} 20
  free{host="a", disk="y"} 30
  size{host="a", disk="x"} 100
  size{host="a", disk="y"} 60
  owner{host="a", team="ops"} 1

eval instant at 0 free / size
  {host="a", disk="x"} 0.2
  {host="a", disk="y"} 0.5

eval instant at 0 free * on (host) group_left (team) owner
  {host="a", disk="x", team="ops"} 20
  {host="a", disk="y", team="ops"} 30

eval instant at 0 owner * on (host) group_right (team) free
  {host="a", disk="x", team="ops"} 20
  {host="a", disk="y", team="ops"} 30

eval instant at 0 free / on (host) owner
  expect fail msg: multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)

eval instant at 0 free > 25 or size{disk="x"}
  free{host="a", disk="y"} 30
  size{host="a", disk="x"} 100

eval instant at 0 free unless on (disk) size{disk="y"}
  free{host="a", disk="x"} 20

eval instant at 0 1 - -2 ^ 2
  5

eval instant at 0 (free > bool 25) * 10
  {host="a", disk="x"} 0
  {host="a", disk="y"} 10
`,
  'functions change values and labels': `
load 1m
  x{a="k-1"} 3.7
  x{a="k-2"} -2.2
  h_bucket{le="1"} 2
  h_bucket{le="2"} 6
  h_bucket{le="+Inf"} 8

eval instant at 0 clamp(round(x), -1, 3)
  {a="k-1"} 3
  {a="k-2"} -1

eval instant at 0 label_replace(x, "n", "$1", "a", "k-(.*)")
  x{a="k-1", n="1"} 3.7
  x{a="k-2", n="2"} -2.2

eval instant at 0 label_join(x, "b", "/", "a", "a")
  x{a="k-1", b="k-1/k-1"} 3.7
  x{a="k-2", b="k-2/k-2"} -2.2

eval_ordered instant at 0 sort(x)
  x{a="k-2"} -2.2
  x{a="k-1"} 3.7

eval instant at 0 histogram_quantile(0.5, h_bucket)
  {} 1.5

eval instant at 0 histogram_fraction(1, 2, h_bucket)
  {} 0.5

eval instant at 0 scalar(x{a="k-1"}) + time()
  3.7

eval instant at 100d year(vector(time())) + day_of_year() / 1000
  {} 1970.101

eval instant at 0 absent(y{a="1", b!="2"})
  {a="1"} 1
`,
  'durations that come to less than a millisecond are no step, and a range without rows': `
load 1m
  x 1 2 3 4 5 6

eval instant at 5m max_over_time(x[3m:(0.0002*1)])
  {} 6

eval instant at 5m count_over_time(x[3m:(0.0002*1)])
  {} 3

eval range from 0 to 5m step 1m sum_over_time(x[2m:step()/1e6])
  {} 1 3 5 7 9 11

eval instant at 5m rate(x[0.0002*1])

eval instant at 5m count_over_time(x[0.0002*1])

eval range from 0 to 5m step 1m count_over_time(x[0.0002*1])

eval instant at 5m absent_over_time(x[0.0002*1])
  {} 1

eval instant at 5m sum_over_time(x[(0.0002*1):1m])
`,
  'bounds of buckets are numbers': `
load 1m
  h_bucket{le="1"} 2
  h_bucket{le="1e400"} 5
  h_bucket{le="+Inf"} 8

eval instant at 0 histogram_fraction(0, 1, h_bucket)
  expect warn msg: PromQL warning: bucket label "le" is missing or has a malformed value of "1e400" (1:26)
  {} 0.25

eval instant at 0 histogram_quantile(0.1, h_bucket)
  expect warn msg: PromQL warning: bucket label "le" is missing or has a malformed value of "1e400" (1:25)
  {} 0.4

eval instant at 0 histogram_fraction(0, 1, h_bucket{le!="1e400"})
  expect no_warn
  {} 0.25

eval instant at 0 histogram_quantile(0.1, h_bucket{le!="1e400"})
  expect no_warn
  {} 0.4
`,
  'matches of several groups may not have the same labels at one step': `
load 1m
  a{x="1"} 1
  b{x="1"} 2
  one{y="2"} 3

eval instant at 0 {__name__=~"a|b"} * on () group_left () one
  expect fail msg: multiple matches for labels: grouping labels must ensure unique matches

eval instant at 0 {__name__=~"a|b"} * on (__name__) group_left () label_replace(one, "__name__", "a", "", "")
  {x="1"} 3

eval instant at 0 {__name__=~"a|b"} * on (__name__) group_left () {__name__=~"a|b"}
  expect fail msg: vector cannot contain metrics with the same labelset

eval instant at 0 {__name__=~"a|b"} > bool on (__name__) group_left () {__name__=~"a|b"}
  expect fail msg: vector cannot contain metrics with the same labelset
`,
};

for (const [name, script] of Object.entries(scripts)) {
  for (const form of ['kernel', 'twin'] as const) {
    test(`${name} (${form})`, async () => {
      const storage = new MemoryStorage();
      const engine = new PromqlEngine(storage, {
        clock: realEnv.clock,
        ...(form === 'twin' ? { windows: new WindowsTwin() } : {}),
      });
      const outcome = await runScript(script, storage, engine);
      assert.deepEqual(outcome.failures, []);
      assert.ok(outcome.passed >= 4);
    });
  }
}

function storageWithSeries(count: number): MemoryStorage {
  const storage = new MemoryStorage();
  const bits = new BigUint64Array(1);
  const value = new Float64Array(bits.buffer);
  for (let series = 0; series < count; series++) {
    for (let i = 0; i < 10; i++) {
      value[0] = series + i / 4;
      const tags = [
        { name: '__name__', value: 'm' },
        { name: 'i', value: String(series) },
      ];
      storage.add(tags, i * 60_000 + 500, bits[0]!);
    }
  }
  return storage;
}

function engineOver(storage: QueryStorage): PromqlEngine {
  return new PromqlEngine(storage, { clock: realEnv.clock });
}

test('a range query prints as a matrix in the form of the Prometheus API', async () => {
  const engine = engineOver(storageWithSeries(2));
  const result = await engine.rangeQuery('m / 3', 500, 120_500, 60_000, options, signal);
  assert.deepEqual(await jsonOf(result), {
    status: 'success',
    data: {
      resultType: 'matrix',
      result: [
        {
          metric: { i: '0' },
          values: [
            [0.5, '0'],
            [60.5, '0.08333333333333333'],
            [120.5, '0.16666666666666666'],
          ],
        },
        {
          metric: { i: '1' },
          values: [
            [0.5, '0.3333333333333333'],
            [60.5, '0.4166666666666667'],
            [120.5, '0.5'],
          ],
        },
      ],
    },
  });
});

test('instant queries print vectors, scalars, strings and range vectors', async () => {
  const engine = engineOver(storageWithSeries(1));
  const dataOf = async (query: string) => {
    const result = await engine.instantQuery(query, 60_500, options, signal);
    return ((await jsonOf(result)) as { data: unknown }).data;
  };
  assert.deepEqual(await dataOf('m'), {
    resultType: 'vector',
    result: [{ metric: { __name__: 'm', i: '0' }, value: [60.5, '0.25'] }],
  });
  assert.deepEqual(await dataOf('1 / 0'), { resultType: 'scalar', result: [60.5, '+Inf'] });
  assert.deepEqual(await dataOf('"a\\"b"'), { resultType: 'string', result: [60.5, 'a"b'] });
  assert.deepEqual(await dataOf('m[2m]'), {
    resultType: 'matrix',
    result: [
      {
        metric: { __name__: 'm', i: '0' },
        values: [
          [0.5, '0'],
          [60.5, '0.25'],
        ],
      },
    ],
  });
  assert.deepEqual(await dataOf('none'), { resultType: 'vector', result: [] });
});

test('a query over its sample limit is refused as an execution error', async () => {
  const engine = engineOver(storageWithSeries(50));
  const tight = { ...options, samplesMax: 400 };
  await assert.rejects(
    engine.rangeQuery('m', 0, 600_000, 60_000, tight, signal),
    (error: unknown) =>
      error instanceof PromqlError &&
      error.kind === 'execution' &&
      error.message.includes('too many samples'),
  );
  const sum = await engine.rangeQuery('sum(m)', 0, 540_500, 60_000, tight, signal);
  assert.equal(sum.series()[0]!.points.length, 9);
  await assert.rejects(
    engine.instantQuery('sum_over_time(m[100y:1ms])', 0, tight, signal),
    /too many samples/,
  );
});

test('a query ends when its signal aborts or its time is over', async () => {
  const engine = engineOver(storageWithSeries(3000));
  const query = 'sum(quantile_over_time(0.5, m[10m:1s]))';
  const stop = new AbortController();
  const running = engine.rangeQuery(
    query,
    0,
    600_000,
    1000,
    { ...options, samplesMax: 50_000_000 },
    stop.signal,
  );
  setImmediate(() => stop.abort(new TsdbError('CANCELLED', 'the client went away')));
  await assert.rejects(running, { code: 'CANCELLED' });
  await assert.rejects(
    engine.rangeQuery(
      query,
      0,
      600_000,
      1000,
      { ...options, samplesMax: 50_000_000, timeoutMillis: 5 },
      signal,
    ),
    { code: 'DEADLINE_EXCEEDED' },
  );
});

test('what storage warns about and cuts off is passed on', async () => {
  const inner = storageWithSeries(1);
  const storage: QueryStorage = {
    select: async (matchers, range) => ({
      ...(await inner.select(matchers, range)),
      exhaustive: false,
      warnings: ['one replica did not answer'],
    }),
    labelNames: () => inner.labelNames(),
    labelValues: () => inner.labelValues(),
    series: () => inner.series(),
  };
  const result = await engineOver(storage).instantQuery('m + m', 0, options, signal);
  assert.equal(result.exhaustive, false);
  assert.deepEqual(result.warnings, ['one replica did not answer']);
});

test('equal selectors of a query are read once, with the range that they need', async () => {
  const inner = storageWithSeries(1);
  const ranges: [bigint, bigint][] = [];
  const storage: QueryStorage = {
    select: (matchers, range) => {
      ranges.push([range.startNanos, range.endNanos]);
      return inner.select(matchers, range);
    },
    labelNames: () => inner.labelNames(),
    labelValues: () => inner.labelValues(),
    series: () => inner.series(),
  };
  const query = 'm / on () sum(m) + on () rate(m[1m] offset 30s)';
  await engineOver(storage).rangeQuery(query, 600_000, 660_000, 60_000, options, signal);
  const millis = (count: number) => BigInt(count) * 1_000_000n;
  assert.deepEqual(ranges, [
    [millis(300_001), millis(660_001)],
    [millis(510_001), millis(630_001)],
  ]);
});

test('bad parameters are refused before anything is read', async () => {
  const engine = engineOver(storageWithSeries(1));
  await assert.rejects(engine.rangeQuery('m', 0, 60, 0, options, signal), /resolution step/);
  await assert.rejects(engine.rangeQuery('m', 60, 0, 1, options, signal), /end timestamp/);
  await assert.rejects(
    engine.rangeQuery('m[5m]', 0, 60, 1, options, signal),
    /invalid expression type "range vector" for range query/,
  );
});

test('a rate of something that is not named like a counter gives an info', async () => {
  const engine = engineOver(storageWithSeries(1));
  const result = await engine.instantQuery('rate(m[5m])', 300_000, options, signal);
  assert.deepEqual(result.infos, [
    'PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: "m" (1:6)',
  ]);
});

test('with labels of types it is the type that tells a counter', async () => {
  const storage = new MemoryStorage();
  const bits = (value: number): bigint => new BigUint64Array(Float64Array.of(value).buffer)[0]!;
  for (const type of ['counter', 'gauge']) {
    const tags = { __name__: `${type}s`, __type__: type };
    for (const minute of [0, 1, 2]) {
      const list = Object.entries(tags).map(([name, value]) => ({ name, value }));
      storage.add(list, 60_000 * minute, bits(minute));
    }
  }
  const features = { typeAndUnitLabels: true };
  const engine = new PromqlEngine(storage, { clock: realEnv.clock, features });
  const infosOf = async (query: string): Promise<readonly string[]> =>
    (await engine.instantQuery(query, 120_000, options, signal)).infos;
  assert.deepEqual(await infosOf('rate(counters[5m])'), []);
  assert.deepEqual(await infosOf('rate(gauges[5m])'), [
    'PromQL info: metric might not be a counter, __type__ label is not set to "counter" or "histogram", got "gauge": "gauges" (1:6)',
  ]);
});

test('statistics of histograms keep types and units, which other functions take with the name', async () => {
  const storage = new MemoryStorage();
  const features = { typeAndUnitLabels: true };
  const engine = new PromqlEngine(storage, { clock: realEnv.clock, features });
  const labels = '__type__="histogram", __unit__="seconds"';
  const script = `
load 1m
  h{${labels}} {{schema:0 count:2 sum:4 buckets:[2]}}
  g{${labels}} {{schema:0 count:2 sum:4 buckets:[2]}}
  f{${labels}} 3

eval instant at 0 histogram_count(h)
  {${labels}} 2

eval instant at 0 histogram_sum(h)
  {${labels}} 4

eval instant at 0 histogram_avg(h)
  {${labels}} 2

eval instant at 0 histogram_stddev(h)
  {${labels}} 1.2928932188134525

eval instant at 0 histogram_fraction(0, 1, h)
  {} 1

eval instant at 0 abs(f)
  {} 3

eval instant at 0 histogram_count({__name__=~"h|g"})
  expect fail msg: vector cannot contain metrics with the same labelset
`;
  assert.deepEqual((await runScript(script, storage, engine)).failures, []);
});

test('a match whose types alone differ has the same labels as another one', async () => {
  const storage = new MemoryStorage();
  const features = { typeAndUnitLabels: true };
  const engine = new PromqlEngine(storage, { clock: realEnv.clock, features });
  const script = `
load 1m
  f{__type__="gauge"} 3
  f{__type__="counter"} 4

eval instant at 0 f * f
  expect fail msg: vector cannot contain metrics with the same labelset

eval instant at 0 f == f
  f{__type__="gauge"} 3
  f{__type__="counter"} 4
`;
  assert.deepEqual((await runScript(script, storage, engine)).failures, []);
});

test('a subquery that is the query takes names away at its end, where they stay until then', async () => {
  const storage = new MemoryStorage();
  const features = { delayedNameRemoval: true };
  const engine = new PromqlEngine(storage, { clock: realEnv.clock, features });
  const script = `
load 1m
  z1 1 2 3 4
  z2 5 6 7 8
  x1 1 2 stale _
  x2 _ _ 3 4

eval instant at 3m (-z1)[2m:1m]
  expect range vector from 2m to 3m step 1m
  {} -3 -4

eval instant at 3m avg_over_time(z1[1m])[2m:1m]
  expect range vector from 2m to 3m step 1m
  {} 3 4

eval instant at 3m (-{__name__=~"x1|x2"})[4m:1m]
  expect range vector from 0 to 3m step 1m
  {} -1 -2 -3 -4

eval instant at 3m (-{__name__=~"z1|z2"})[2m:1m]
  expect fail msg: vector cannot contain metrics with the same labelset

eval instant at 3m last_over_time({__name__=~"z1|z2"}[2m])[2m:1m]
  expect range vector from 2m to 3m step 1m
  z1 3 4
  z2 7 8
`;
  assert.deepEqual((await runScript(script, storage, engine)).failures, []);
});

test('sort warns wherever it is of a time from a start to another end', async () => {
  const engine = engineOver(storageWithSeries(2));
  const ineffective = /sort is ineffective for range queries/;
  const warningsAt = async (query: string, end: number): Promise<string> => {
    const result =
      end === 0
        ? await engine.instantQuery(query, 90_000, options, signal)
        : await engine.rangeQuery(query, 60_000, end, 60_000, options, signal);
    return result.warnings.join();
  };
  assert.match(await warningsAt('sort(m)', 180_000), ineffective);
  assert.match(await warningsAt('sort_desc(m)', 90_000), ineffective, 'one step, another end');
  assert.equal(await warningsAt('sort(m)', 60_000), '');
  assert.equal(await warningsAt('sort(m)', 0), '');
  assert.equal(await warningsAt('sort(m @ 60)', 180_000), '');
  assert.match(await warningsAt('last_over_time(sort(m)[1m:1m])', 0), ineffective);
  assert.equal(
    await warningsAt('last_over_time(sort(m)[30s:1m] offset 30s)', 0),
    '',
    'at 1m alone',
  );
});

test('histogram_quantiles() of minus zero is that of zero', async () => {
  const storage = new MemoryStorage();
  const engine = new PromqlEngine(storage, {
    clock: realEnv.clock,
    features: { experimentalFunctions: true },
  });
  const script = `
load 1m
  h {{schema:0 count:3 sum:4 buckets:[1 2]}}x1

eval instant at 1m histogram_quantiles(h, "q", -0)
  {q="0.0"} 0.5
`;
  assert.deepEqual((await runScript(script, storage, engine)).failures, []);
});
