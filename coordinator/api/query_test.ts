import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TsdbError } from '#lib/errors.ts';
import { nowSeconds, type TestAnswer, TestCoordinator } from '../coordinator_testing.ts';

/** Ten points of two hosts, every 10 s, values 0..9 and 100..109; returns the time of the first. */
async function filled(test: TestCoordinator): Promise<number> {
  const start = nowSeconds() - 100;
  const rows = Array.from({ length: 10 }, (_, i) => [
    { tags: { __name__: 'cpu', host: 'a' }, timestamp: start + i * 10, value: i },
    { tags: { __name__: 'cpu', host: 'b' }, timestamp: start + i * 10, value: 100 + i },
  ]).flat();
  const answer = await test.post('/api/v1/json/write', rows);
  assert.equal(answer.status, 200, answer.text);
  return start;
}

test('query_range answers GET and POST, with URL and form parameters, alike at all paths', async () => {
  await using test = await TestCoordinator.openReady();
  const start = await filled(test);
  const parameters = new URLSearchParams({
    query: 'cpu{host="a"} > 6',
    start: String(start),
    end: new Date((start + 90) * 1000).toISOString(),
    step: '10s',
  }).toString();
  const expected = {
    status: 'success',
    data: {
      resultType: 'matrix',
      result: [
        {
          metric: { __name__: 'cpu', host: 'a' },
          values: [7, 8, 9].map((i) => [start + i * 10, String(i)]),
        },
      ],
    },
  };
  for (const path of ['/api/v1/query_range', '/prometheus/api/v1/query_range']) {
    const byGet = await test.get(`${path}?${parameters}`);
    assert.deepEqual([byGet.status, byGet.json], [200, expected]);
    assert.equal(byGet.headers['content-type'], 'application/json');
    assert.deepEqual((await test.post(path, parameters)).json, expected);
    assert.deepEqual((await test.send('POST', `${path}?${parameters}`, '')).json, expected);
  }
});

test('query answers vectors, scalars and range vectors at one time', async () => {
  await using test = await TestCoordinator.openReady();
  const start = await filled(test);
  const at = async (query: string): Promise<any> => {
    const parameters = new URLSearchParams({ query, time: String(start + 25) });
    return (await test.get(`/api/v1/query?${parameters}`)).json.data;
  };
  assert.deepEqual(await at('sum(cpu)'), {
    resultType: 'vector',
    result: [{ metric: {}, value: [start + 25, '104'] }],
  });
  assert.deepEqual(await at('1 + 1'), { resultType: 'scalar', result: [start + 25, '2'] });
  assert.deepEqual((await at('cpu{host="b"}[20s]')).result[0].values, [
    [start + 10, '101'],
    [start + 20, '102'],
  ]);
});

test('a range or a step that comes to less than a millisecond is no failure', async () => {
  await using test = await TestCoordinator.openReady();
  const start = await filled(test);
  const resultOf = async (query: string): Promise<any> => {
    const parameters = new URLSearchParams({ query, time: String(start + 90) });
    const answer = await test.get(`/api/v1/query?${parameters}`);
    assert.equal(answer.status, 200, answer.text);
    return answer.json.data.result;
  };
  const [most] = await resultOf('max_over_time(cpu{host="a"}[2m:(0.0002*1)])');
  assert.ok(Number(most.value[1]) >= 3, most.value[1]);
  assert.deepEqual(await resultOf('rate(cpu[0.0002*1])'), []);
  assert.deepEqual(await resultOf('cpu[0.0002*1]'), []);
});

test('query takes now when no time is given', async () => {
  await using test = await TestCoordinator.openReady();
  await filled(test);
  const answer = await test.post('/api/v1/query', 'query=count(cpu)');
  assert.equal(answer.json.data.result[0].value[1], '2');
});

test('answers echo engine, timeout and number of series under both names', async () => {
  await using test = await TestCoordinator.openReady();
  await filled(test);
  const answer = await test.get('/api/v1/query?query=cpu&engine=nonsense&timeout=7s');
  for (const prefix of ['tsdb', 'm3']) {
    assert.equal(answer.headers[`${prefix}-engine`], 'prometheus');
    assert.equal(answer.headers[`${prefix}-timeout`], '7s');
    assert.equal(answer.headers[`${prefix}-series-count`], '2');
    assert.equal(answer.headers[`${prefix}-results-limited`], undefined);
  }
});

test('a limit on series refuses the query, or cuts and flags its answer', async () => {
  await using test = await TestCoordinator.openReady();
  await filled(test);
  const refused = await test.get('/api/v1/query?query=cpu&limit=1');
  assert.equal(refused.status, 400);
  assert.match(refused.json.error, /limit/);
  for (const answer of [
    await test.get('/api/v1/query?query=cpu&limit=1&requireExhaustive=false'),
    await test.get('/api/v1/query?query=cpu', {
      'M3-Limit-Max-Series': '1',
      'M3-Limit-Require-Exhaustive': 'false',
    }),
    await test.get('/api/v1/query?query=cpu', {
      'TSDB-Limit-Max-Series': '1',
      'TSDB-Limit-Require-Exhaustive': 'false',
    }),
  ]) {
    assert.equal(answer.status, 200, answer.text);
    assert.equal(answer.json.data.result.length, 1);
    assert.match(answer.json.warnings.join(), /partial/);
    assert.match(String(answer.headers['tsdb-results-limited']), /^max_fetch_series_limit_applied/);
    assert.equal(answer.headers['m3-results-limited'], answer.headers['tsdb-results-limited']);
  }
});

test('a request cannot lift the configured limit on series', async () => {
  await using test = await TestCoordinator.openReady('{limits: {perQuery: {maxFetchedSeries: 1}}}');
  await filled(test);
  assert.equal((await test.get('/api/v1/query?query=cpu&limit=1000')).status, 400);
  assert.equal((await test.get('/api/v1/query?query=cpu&limit=0')).status, 400);
});

test('a range over the limit is refused with both lengths', async () => {
  await using test = await TestCoordinator.openReady('{limits: {perQuery: {maxFetchedRange: 1h}}}');
  const answer = await test.get('/api/v1/query_range?query=cpu&start=0&end=7200&step=60');
  assert.equal(answer.status, 400);
  assert.match(answer.json.error, /range of 2h0m0s is longer than 1h0m0s/);
  const asked = 'query=cpu&start=0&end=1800&step=60&rangeLimit=10m';
  for (const tighter of [
    await test.get(`/api/v1/query_range?${asked}`),
    await test.post('/api/v1/query_range', asked),
  ]) {
    assert.equal(tighter.status, 400);
    assert.match(tighter.json.error, /range of 30m0s is longer than 10m0s/);
  }
  const read = await test.get('/api/v1/query?query=cpu[2h]');
  assert.equal(read.status, 400);
  assert.match(read.json.error, /a selector reads 2h0m0s, with what it looks back, .* 1h0m0s/);
});

test('a range query has at most 11000 steps between its ends, so that one request cannot take the process down', async () => {
  await using test = await TestCoordinator.openReady();
  const ask = (end: number): Promise<TestAnswer> =>
    test.get(`/api/v1/query_range?query=vector(1)&start=0&end=${end}&step=1`);
  const most = await ask(11_000);
  assert.equal(most.json.data.result[0].values.length, 11_001);
  const more = await ask(11_001);
  assert.equal(more.status, 400);
  assert.equal(more.json.errorType, 'bad_data');
  assert.match(more.json.error, /maximum resolution of 11000 points .*: 11002 points/);
});

test('a subquery has a bound of its own, since all of its values are held', async () => {
  await using test = await TestCoordinator.openReady();
  const query = 'count_over_time(vector(1)[10000001s:1s])';
  const answer = await test.post('/api/v1/query', new URLSearchParams({ query }).toString());
  assert.equal(answer.status, 422);
  assert.equal(answer.json.errorType, 'execution');
  assert.match(answer.json.error, /a subquery has 10000001 steps/);
});

test('lookback decides how old a sample an instant selector takes', async () => {
  await using test = await TestCoordinator.openReady();
  const start = await filled(test);
  const count = async (lookback: string): Promise<number> => {
    const at = start + 90 + 30;
    const answer = await test.get(`/api/v1/query?query=cpu&time=${at}&lookback=${lookback}`);
    return answer.json.data.result.length;
  };
  assert.equal(await count('31s'), 2);
  assert.equal(await count('29s'), 0);
});

test('each answer has the times of its own grid, whichever came before it', async () => {
  await using test = await TestCoordinator.openReady();
  const timesOf = async (start: number, step: number, steps: number): Promise<number[]> => {
    const end = start + step * (steps - 1);
    const path = `/api/v1/query_range?query=vector(1)&start=${start}&end=${end}&step=${step}`;
    const { json } = await test.get(path);
    return json.data.result[0].values.map(([time]: [number]) => time);
  };
  const grids = [
    [1000, 10, 5],
    [1000, 10, 6],
    [1000, 20, 5],
    [1001, 10, 5],
    [1000, 10, 5],
    [1000, 0.5, 5_000],
    [1000, 10, 5],
  ] as const;
  for (const [start, step, steps] of grids) {
    const expected = Array.from({ length: steps }, (_, i) => start + i * step);
    assert.deepEqual(await timesOf(start, step, steps), expected);
  }
});

test('bad parameters are named in the error shape', async () => {
  await using test = await TestCoordinator.openReady();
  const cases: [string, RegExp][] = [
    ['query_range?start=1&end=2&step=1', /missing required parameter: query/],
    ['query_range?query=up&end=2&step=1', /missing required parameter: start/],
    ['query_range?query=up&start=1&step=1', /missing required parameter: end/],
    ['query_range?query=up&start=1&end=2', /missing required parameter: step/],
    ['query_range?query=up&start=x&end=2&step=1', /start: .*"x"/],
    ['query_range?query=up&start=3&end=2&step=1', /end timestamp must not be before start/],
    ['query_range?query=up&start=1&end=2&step=0', /step: zero or negative/],
    ['query_range?query=up&start=1&end=2&step=0.0001', /step: finer than a millisecond: 0.0001/],
    ['query_range?query=up&start=1&end=2&step=abc', /step: .*"abc"/],
    ['query_range?query=up&start=2026-02-30T00:00:00Z&end=2&step=1', /start: not a date that/],
    ['query?query=up&requireExhaustive=maybe', /requireExhaustive: neither true nor false: maybe/],
    ['query?query=up&timeout=1x', /timeout: .*"1x"/],
    ['query?query=up&timeout=11m', /timeout: more than 600s: 11m/],
    ['query?query=up&limit=-1', /limit: not a whole number: -1/],
    ['query?query=sum(', /^invalid parameter "query": 1:5: parse error/],
  ];
  for (const [path, reason] of cases) {
    const answer = await test.get(`/api/v1/${path}`);
    assert.equal(answer.status, 400, path);
    assert.deepEqual([answer.json.status, answer.json.errorType], ['error', 'bad_data'], path);
    assert.match(answer.json.error, reason);
  }
});

test('failures of storage keep their status: 503 without quorum, 504 over the deadline', async () => {
  await using test = await TestCoordinator.openReady(
    '{clusters: [{client: {fetchTimeout: 200ms}}]}',
  );
  test.node.failure = new TsdbError('UNAVAILABLE', 'node is gone');
  const down = await test.get('/api/v1/query?query=cpu');
  assert.equal(down.status, 503);
  assert.equal(down.json.errorType, 'unavailable');
  test.node.failure = null;
  test.node.gate = (signal) =>
    new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason as Error));
    });
  const slow = await test.get('/api/v1/query?query=cpu&timeout=50ms');
  assert.equal(slow.status, 504, slow.text);
  assert.equal(slow.json.errorType, 'timeout');
});

test('durations are cut to milliseconds, and a look-back or a timeout without one is refused', async () => {
  await using test = await TestCoordinator.openReady();
  const start = await filled(test);
  const query = `/api/v1/query?query=cpu%7Bhost="a"%7D&time=${start}`;
  for (const given of ['1500us', '1.0005', '5m0.4us']) {
    const answer = await test.get(`${query}&lookback=${given}&timeout=30.0005`);
    assert.equal(answer.status, 200, `${given}: ${answer.text}`);
    assert.equal(answer.json.data.result.length, 1);
    assert.equal(answer.headers['tsdb-timeout'], '30s');
  }
  for (const given of ['0.5ms', '0.0009', '0']) {
    for (const name of ['lookback', 'timeout']) {
      const answer = await test.get(`${query}&${name}=${given}`);
      assert.equal(answer.status, 400, answer.text);
      assert.equal(answer.json.error, `${name}: must be at least 1ms: ${given}`);
    }
  }
});

test('parts of PromQL that are not asked for in the configuration are refused, everywhere', async () => {
  const paths = ['query?query=', 'format_query?query=', 'query_exemplars?query='];
  const query = encodeURIComponent('mad_over_time(x[5m])');
  await using plain = await TestCoordinator.openReady();
  await using asked = await TestCoordinator.openReady(
    '{query: {prometheus: {features: [promql-experimental-functions]}}}',
  );
  for (const path of paths) {
    const refused = await plain.get(`/api/v1/${path}${query}`);
    assert.equal(refused.status, 400);
    assert.match(refused.json.error, /function "mad_over_time" is not enabled$/);
    assert.equal((await asked.get(`/api/v1/${path}${query}`)).status, 200, path);
  }
});

test('bytes that are no UTF-8 are replaced where an answer has them', async () => {
  await using test = await TestCoordinator.openReady();
  const text = await test.get(`/api/v1/query?query=${encodeURIComponent('"\\xff"')}`);
  assert.equal(text.json.data.result[1], '\u{fffd}');
  const query = 'label_replace(vector(1), "\\xff", "", "a", "")';
  const refused = await test.get(`/api/v1/query?query=${encodeURIComponent(query)}`);
  assert.equal(refused.status, 422);
  assert.equal(refused.json.error, 'invalid destination label name in label_replace(): \u{fffd}');
});

test('stats tells of times and samples, of steps with the feature for that alone', async () => {
  const feature = '{query: {prometheus: {features: [promql-per-step-stats]}}}';
  for (const settings of [feature, '{}']) {
    await using test = await TestCoordinator.openReady(settings);
    const start = await filled(test);
    const range = `start=${start}&end=${start + 90}&step=45&query=sum(count_over_time(cpu[30s]))`;
    const statsOf = async (stats: string) => {
      const { json } = await test.get(`/api/v1/query_range?${range}&stats=${stats}`);
      const found = json.data.stats;
      for (const time of Object.values<number>(found.timings)) assert.ok(time >= 0 && time < 60);
      const { execTotalTime, queryPreparationTime, innerEvalTime } = found.timings;
      assert.ok(execTotalTime >= queryPreparationTime + innerEvalTime);
      return { samples: found.samples, warnings: json.warnings };
    };
    // Windows of one row, of three, and of three; two series.
    const sums = { totalQueryableSamples: 14, samplesRead: 14 };
    const { samples, warnings } = await statsOf('all');
    const { peakSamples, ...counts } = samples;
    assert.ok(peakSamples > 0);
    assert.equal(warnings, undefined);
    const times = [start, start + 45, start + 90];
    const steps = [2, 6, 6].map((count, step) => [times[step], count]);
    assert.deepEqual(
      counts,
      settings === '{}'
        ? sums
        : { totalQueryableSamplesPerStep: steps, samplesReadPerStep: steps, ...sums },
    );
    const { samples: other, warnings: told } = await statsOf('yes');
    assert.equal(other.totalQueryableSamples, 14);
    assert.equal(other.samplesReadPerStep, undefined);
    assert.match(told[0], /^value "yes" for parameter "stats" is deprecated/);
    assert.equal((await test.get(`/api/v1/query_range?${range}`)).json.data.stats, undefined);
  }
});
