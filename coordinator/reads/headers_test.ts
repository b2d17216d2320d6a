/** M3's headers of reads through the API, and what answers say by them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TsdbError } from '#lib/errors.ts';
import { nowSeconds, type TestAnswer, TestCoordinator } from '../coordinator_testing.ts';
import { readRequest } from '../remote/requests_testing.ts';

async function opened(settings?: string): Promise<TestCoordinator> {
  const test = await TestCoordinator.openReady(settings);
  const timestamp = nowSeconds();
  const rows = ['a', 'b', 'c'].flatMap((host) =>
    [-20, -10, 0].map((before) => ({
      tags: { __name__: 'cpu', host },
      timestamp: timestamp + before,
      value: 1,
    })),
  );
  assert.equal((await test.post('/api/v1/json/write', rows)).status, 200);
  return test;
}

const told = (answer: TestAnswer, name: string): unknown => {
  const values = ['tsdb', 'm3'].map((prefix) => answer.headers[`${prefix}-${name}`]);
  assert.equal(values[0], values[1]);
  return values[0];
};

test('limits on what is returned leave whole series out, and say so', async () => {
  await using test = await opened();
  const now = nowSeconds();
  const query = async (headers: Record<string, string>, more = '') => {
    const path = `/api/v1/query_range?query=cpu&start=${now - 20}&end=${now}&step=10&lookback=5s${more}`;
    const answer = await test.get(path, headers);
    assert.equal(answer.status, 200, answer.text);
    const limited = told(answer, 'returned-data-limited') as string | undefined;
    return {
      hosts: answer.json.data.result.map((one: any) => one.metric.host),
      warnings: answer.json.warnings,
      limited: limited === undefined ? null : JSON.parse(limited),
    };
  };
  const warnings = ['results truncated due to limit'];
  assert.deepEqual(await query({}), { hosts: ['a', 'b', 'c'], warnings: undefined, limited: null });
  assert.deepEqual(await query({ 'M3-Limit-Max-Returned-Series': '2' }), {
    hosts: ['a', 'b'],
    warnings,
    limited: { Series: 2, Datapoints: 6, TotalSeries: 3, Limited: true },
  });
  assert.deepEqual(await query({ 'TSDB-Limit-Max-Returned-Datapoints': '5' }), {
    hosts: ['a'],
    warnings,
    limited: { Series: 1, Datapoints: 3, TotalSeries: 3, Limited: true },
  });
  assert.deepEqual(await query({}, '&returnedSeriesLimit=3&returnedDatapointsLimit=9'), {
    hosts: ['a', 'b', 'c'],
    warnings: undefined,
    limited: { Series: 3, Datapoints: 9, TotalSeries: 3, Limited: false },
  });
  const ofNames = { 'M3-Limit-Max-Returned-SeriesMetadata': '2' };
  for (const path of ['label/host/values', 'series?match[]=cpu']) {
    const answer = await test.get(`/api/v1/${path}`, ofNames);
    assert.equal(answer.json.data.length, 2);
    assert.deepEqual(JSON.parse(told(answer, 'returned-metadata-limited') as string), {
      Results: 2,
      TotalResults: 3,
      Limited: true,
    });
  }
  const script = await test.get('/m3ql/api/v1/query?query=fetch+name:cpu', {
    'M3-Limit-Max-Returned-Series': '1',
  });
  assert.equal(script.json.data.result.length, 1);
});

test('a level of consistency holds for the one request that names it', async () => {
  await using test = await opened();
  const paths = [
    '/api/v1/query?query=cpu',
    '/api/v1/labels',
    '/api/v1/label/host/values',
    '/api/v1/series?match[]=cpu',
    '/api/v1/export?match[]=cpu',
    '/federate?match[]=cpu',
    '/render?format=json&target=seriesByTag("name=cpu")',
    '/tags/findSeries?expr=name=cpu',
    '/m3ql/api/v1/query?query=fetch+name:cpu',
  ];
  const header = 'M3-Read-Consistency-Level';
  for (const path of paths) {
    assert.equal((await test.get(path, { [header]: 'all' })).status, 200, path);
    assert.equal((await test.get(path, { [header]: 'some' })).status, 400, path);
  }
  test.node.failure = new TsdbError('UNAVAILABLE', 'away');
  for (const path of paths) {
    assert.equal((await test.get(path, { [header]: 'one' })).status, 503, path);
    assert.equal((await test.get(path, { [header]: 'none' })).status, 200, path);
  }
});

test('answers say what was fetched for them', async () => {
  await using test = await opened();
  const answer = await test.get('/api/v1/query?query=cpu');
  assert.equal(told(answer, 'fetched-responses'), '1');
  assert.ok(Number(told(answer, 'fetched-bytes-estimate')) > 100);
  assert.equal(told(answer, 'series-with-samples-count'), '3');
  assert.equal(told(answer, 'series-with-no-samples-count'), '0');
  assert.equal(told(answer, 'metadata-count'), '3');
  assert.equal(told(answer, 'waited'), undefined);
  const values = await test.get('/api/v1/label/host/values');
  assert.equal(told(values, 'metadata-count'), '4');
});

test('the longest range is that of each read, with what it looks back, wherever something is read', async () => {
  await using test = await opened();
  const now = nowSeconds();
  const minutes = (count: number): number => now - 60 * count;
  const posted = (path: string, body: object | Uint8Array) => (headers: Record<string, string>) =>
    test.post(path, body, headers);
  const got = (path: string) => (headers: Record<string, string>) =>
    test.get(`/${path.replaceAll('+', '%2B').replaceAll(' ', '+')}`, headers);
  const matchers = [[0, '__name__', 'cpu']] as const;
  const asked = { startMillis: minutes(61) * 1000, endMillis: now * 1000, matchers };
  const target = 'seriesByTag("name=cpu")';
  const steps = `end=${now}&step=60`;
  for (const [what, ask] of [
    ['range of a selector', got('api/v1/query?query=cpu[61m]')],
    ['range in a function', got('api/v1/query?query=rate(cpu[61m])')],
    ['subquery', got('api/v1/query?query=max_over_time(rate(cpu[2m])[59m:1m])')],
    ['look-back', got('api/v1/query?query=cpu&lookback=61m')],
    ['second selector', got('api/v1/query?query=cpu or cpu offset 1d or sum(rate(cpu[2h]))')],
    ['range query', got(`api/v1/query_range?query=cpu&start=${minutes(56)}&${steps}`)],
    ['range of its selector', got(`api/v1/query_range?query=rate(cpu[2h])&start=${now}&${steps}`)],
    ['M3QL', got('m3ql/api/v1/query?query=fetch name:cpu&lookback=61m')],
    ['M3QL that looks back', got('m3ql/api/v1/query?query=fetch name:cpu | moving 2h avg')],
    ['render', got(`render?format=json&target=${target}&from=-61min`)],
    [
      'render that looks back',
      got(`render?format=json&target=movingAverage(${target},"2h")&from=-1min`),
    ],
    ['find', got('metrics/find?query=*&from=-61min')],
    ['federation', got('federate?match[]=cpu&lookback=61m')],
    ['exemplars', got(`api/v1/query_exemplars?query=cpu&start=${minutes(61)}`)],
    ['search', got(`api/v1/search?query=host:.*&start=${minutes(61)}`)],
    ['search for series', posted('/search', { matchers: [], start: minutes(61) })],
    ['read', posted('/api/v1/read', readRequest([asked], []))],
    ['read of chunks', posted('/api/v1/read', readRequest([asked], [1]))],
    ['read as JSON', posted('/api/v1/read?format=json', readRequest([asked], []))],
    ['read by GET', got(`api/v1/read?query=cpu&start=${minutes(61)}&end=${now}`)],
    ['read of a range', got(`api/v1/read?query=cpu[2h]&start=${now}&end=${now}&format=json`)],
    ['labels', got(`api/v1/labels?start=${minutes(61)}`)],
    ['export', got(`api/v1/export?match[]=cpu&start=${minutes(61)}`)],
  ] as const) {
    const whole = await ask({});
    assert.equal(whole.status, 200, `${what}: ${whole.text}`);
    for (const name of ['M3-Limit-Max-Range', 'TSDB-Limit-Max-Range']) {
      const refused = await ask({ [name]: '1h' });
      assert.equal(refused.status, 400, `${what}: ${refused.text}`);
      assert.match(refused.json.error, /^query exceeded limit: .* longer than 1h0m0s$/, what);
    }
    assert.equal((await ask({ 'M3-Limit-Max-Range': '3h' })).status, 200, what);
  }
  for (const path of [
    'api/v1/query?query=cpu or rate(cpu[1h])',
    `api/v1/query_range?query=cpu&start=${minutes(55)}&${steps}`,
    `render?format=json&target=${target}&from=-1h`,
    'metrics/find?query=*&from=-1h',
    `api/v1/query_exemplars?query=cpu&start=${minutes(60)}&end=${now}`,
    'api/v1/query_exemplars?query=cpu',
    'api/v1/search?query=host:.*',
    'metrics/find?query=*',
    'api/v1/labels',
  ]) {
    const answer = await got(path)({ 'M3-Limit-Max-Range': '1h' });
    assert.equal(answer.status, 200, `${path}: ${answer.text}`);
  }
});

test('a read that would wait for memory waits, and tells; one that may not is refused', async () => {
  await using test = await opened('{limits: {maxReadBytesInFlight: 1MiB}}');
  const held = Promise.withResolvers<void>();
  test.node.gate = () => held.promise;
  // Each takes its first 64 KiB, until there is no room.
  const path = '/api/v1/query?query=cpu';
  const first = Array.from({ length: 40 }, () => test.get(path));
  const refused = await test.get(path, { 'M3-Limit-Require-No-Wait': 'true' });
  assert.equal(refused.status, 429);
  assert.match(refused.json.error, /asks not to wait/);
  assert.ok(refused.headers['retry-after'] !== undefined);
  held.resolve();
  const answers = await Promise.all(first);
  assert.ok(answers.every(({ status }) => status === 200));
  assert.ok(answers.some((answer) => told(answer, 'waited') === '1'));
});
