import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nowSeconds, type TestAnswer, TestCoordinator } from '../coordinator_testing.ts';

const form = (parameters: Record<string, string | number>): string =>
  new URLSearchParams(
    Object.entries(parameters).map(([name, value]) => [name, `${value}`]),
  ).toString();

test("Grafana's data source finds its health check, its explorer and its panels answered", async () => {
  await using coordinator = await TestCoordinator.openReady();
  const now = nowSeconds();
  const tags = { __name__: 'http_requests_total', job: 'api', instance: 'a:1' };
  const rows = [60, 45, 30, 15, 0].map((ago, index) => ({
    tags,
    timestamp: now - ago,
    value: index * 30,
  }));
  assert.equal((await coordinator.post('/api/v1/json/write', rows)).status, 200);
  const range = { start: now - 60, end: now };
  const ok = (answer: TestAnswer): any => {
    assert.equal(answer.status, 200, answer.text);
    assert.match(String(answer.headers['content-type']), /^application\/json/);
    assert.equal(answer.json.status, 'success');
    return answer.json.data;
  };

  // "Save & test", and what decides on the features that are offered.
  assert.deepEqual(
    ok(await coordinator.post('/api/v1/query', form({ query: '1+1', time: now }))).result,
    [now, '2'],
  );
  assert.match(ok(await coordinator.get('/api/v1/status/buildinfo')).version, /^3\./);
  // The explorer: metrics, labels, values, help, and rules beside them.
  const matching = form({ ...range, 'match[]': '{job="api"}', limit: 40_000 });
  assert.deepEqual(ok(await coordinator.get(`/api/v1/label/__name__/values?${matching}`)), [
    'http_requests_total',
  ]);
  assert.deepEqual(ok(await coordinator.post('/api/v1/labels', matching)), [
    '__name__',
    'instance',
    'job',
  ]);
  assert.deepEqual(ok(await coordinator.post('/api/v1/series', matching)), [tags]);
  assert.deepEqual(ok(await coordinator.get('/api/v1/metadata?limit=5000')), {});
  assert.deepEqual(ok(await coordinator.get('/api/v1/rules')), { groups: [] });
  assert.deepEqual(ok(await coordinator.get('/api/v1/alerts')), { alerts: [] });
  // A panel with its exemplars; Grafana sends fractions of seconds, and steps without a unit.
  const query = 'rate(http_requests_total{job="api"}[1m])';
  const panel = form({ query, start: `${now - 30}.000`, end: `${now}.000`, step: 15 });
  const matrix = ok(await coordinator.post('/api/v1/query_range', panel));
  assert.equal(matrix.resultType, 'matrix');
  assert.deepEqual(
    matrix.result[0].values.map(([time]: [number]) => time),
    [now - 30, now - 15, now],
  );
  const exemplars = form({ query, ...range });
  assert.deepEqual(ok(await coordinator.get(`/api/v1/query_exemplars?${exemplars}`)), []);
  assert.deepEqual(ok(await coordinator.post('/api/v1/query_exemplars', exemplars)), []);
  assert.equal(
    ok(await coordinator.post('/api/v1/format_query', form({ query: 'sum(a)by(b)' }))),
    'sum by (b) (a)',
  );
});

test('what is not there is answered as by a Prometheus that has none', async () => {
  await using coordinator = await TestCoordinator.open();
  const answers = {
    '/api/v1/status/tsdb/blocks': { blocks: [] },
    '/api/v1/status/walreplay': { min: 0, max: 0, current: 0 },
    '/api/v1/notifications': [],
    '/api/v1/scrape_pools': { scrapePools: [] },
    '/api/v1/targets?state=active': {
      activeTargets: [],
      droppedTargets: [],
      droppedTargetCounts: {},
    },
    '/api/v1/targets/metadata': [],
    '/api/v1/alertmanagers': { activeAlertmanagers: [], droppedAlertmanagers: [] },
    '/prometheus/api/v1/rules?type=alert': { groups: [] },
  };
  for (const [path, data] of Object.entries(answers)) {
    const answer = await coordinator.get(path);
    assert.equal(answer.status, 200, path);
    assert.deepEqual(answer.json, { status: 'success', data }, path);
  }
});

test('these endpoints refuse what Prometheus refuses', async () => {
  await using coordinator = await TestCoordinator.open();
  const refused = [
    ['/api/v1/query_exemplars', /no expression found in input/],
    ['/api/v1/query_exemplars?query=sum(', /parse error/],
    ['/api/v1/query_exemplars?query=up&start=5&end=1', /end timestamp must not be before/],
    ['/api/v1/format_query', /missing required parameter: query/],
    ['/api/v1/format_query?query=)', /parse error/],
    ['/api/v1/metadata?limit=many', /^limit must be a number$/],
    ['/api/v1/rules?type=both', /type: not one of alert, record: both/],
    ['/api/v1/scrape_pools/config', /missing required parameter: scrapePool/],
    ['/api/v1/targets/relabel_steps?scrapePool=a', /scrapePool: there is no such scrape pool: a/],
    ['/api/v1/rules?group_limit=x', /group_limit: not a whole number: x/],
    ['/api/v1/rules?exclude_alerts=x', /exclude_alerts: neither true nor false: x/],
    ['/api/v1/targets/metadata?limit=x', /^limit must be a number$/],
    ['/api/v1/targets?state=lost', /state: not one of/],
  ] as const;
  for (const [path, reason] of refused) {
    const answer = await coordinator.get(path);
    assert.equal(answer.status, 400, path);
    assert.equal(answer.json.errorType, 'bad_data', path);
    assert.match(answer.json.error, reason, path);
  }
  assert.equal((await coordinator.post('/api/v1/rules', {})).status, 405);
});

test('a server says of itself what clients of Prometheus read', async () => {
  const settings = `{tagOptions: {nameValidation: utf8}, lookbackDuration: 90s,
    query: {timeout: 1m, prometheus: {features: [promql-experimental-functions], maxSamplesPerQuery: 1000}}}`;
  await using coordinator = await TestCoordinator.open(settings);
  const dataOf = async (path: string): Promise<any> => {
    const answer = await coordinator.get(path);
    assert.equal(answer.status, 200, path);
    return answer.json.data;
  };
  assert.equal(
    (await dataOf('/api/v1/status/config')).yaml,
    'global:\n  metric_name_validation_scheme: utf8\n',
  );
  const flags = await dataOf('/prometheus/api/v1/status/flags');
  assert.equal(flags['query.lookback-delta'], '1m30s');
  assert.equal(flags['query.timeout'], '1m');
  assert.equal(flags['query.max-samples'], '1000');
  assert.equal(flags['enable-feature'], 'promql-experimental-functions');
  assert.ok(Object.values(flags).every((value) => typeof value === 'string'));
  const runtime = await dataOf('/api/v1/status/runtimeinfo');
  assert.ok(Math.abs(Date.parse(runtime.serverTime) - Date.now()) < 60_000);
  assert.ok(Date.parse(runtime.startTime) <= Date.parse(runtime.serverTime));
  assert.equal(runtime.storageRetention, '');
  const features = await dataOf('/api/v1/features');
  assert.equal(features.promql_functions.limitk, undefined);
  assert.equal(features.promql_operators.limitk, true);
  assert.equal(features.promql.fill, false);

  await using ready = await TestCoordinator.openReady();
  const yaml = (await ready.get('/api/v1/status/config')).json.data.yaml;
  assert.match(yaml, /retention:\n {6}time: 12h\n$/);
  assert.equal((await ready.get('/api/v1/status/runtimeinfo')).json.data.storageRetention, '12h');
});
