/**
 * Requests that M3's documentation shows, page by page, with its names and values: who follows a page gets what it says, or
 * is told what is in its place.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nowSeconds, type TestAnswer, TestCoordinator } from '../coordinator_testing.ts';

const hostOf = (number: number) => ({
  id: `m3db00${number}`,
  isolationGroup: `us-east1-${'abc'[number - 1]}`,
  zone: 'embedded',
  weight: 100,
  address: `10.142.0.${number}`,
  port: 9000,
});

const instanceOf = (number: number) => ({
  id: `node-${number}`,
  isolation_group: `group-${number}`,
  zone: 'embedded',
  weight: 100,
  endpoint: `host-${number}:9000`,
  hostname: `host-${number}`,
  port: 9000,
});

function expect(answer: TestAnswer, status: number, reason = /./): void {
  assert.equal(answer.status, status, answer.text);
  assert.match(answer.text === '' ? 'nothing' : answer.text, reason);
}

const namespaceOptions = (retention: string, aggregations: readonly object[]) => ({
  bootstrapEnabled: true,
  flushEnabled: true,
  writesToCommitLog: true,
  cleanupEnabled: true,
  snapshotEnabled: true,
  repairEnabled: false,
  retentionOptions: {
    retentionPeriodDuration: retention,
    blockSizeDuration: '2h',
    bufferFutureDuration: '10m',
    bufferPastDuration: '10m',
    blockDataExpiry: true,
    blockDataExpiryAfterNotAccessedPeriodDuration: '5m',
  },
  indexOptions: { enabled: true, blockSizeDuration: '2h' },
  aggregationOptions: { aggregations },
});

test('quickstart: a database, its namespace, rows and queries', async () => {
  await using test = await TestCoordinator.open();
  const create = { type: 'local', namespaceName: 'default', retentionTime: '12h' };
  expect(await test.post('/api/v1/database/create', create), 200, /"default"/);
  await test.markAvailable();
  const ready = { name: 'default' };
  expect(await test.post('/api/v1/services/m3db/namespace/ready', ready), 200, /"ready":true/);
  await test.topology.until(
    ({ namespaces }) => namespaces.get('default')?.options.stagingStatus === 'READY',
    new AbortController().signal,
  );
  expect(await test.get('/api/v1/services/m3db/placement'), 200, /"m3db_local"|"tsdb_local"/);
  expect(await test.get('/api/v1/services/m3db/namespace'), 200, /"READY"/);
  const now = nowSeconds();
  for (const [i, value] of [3347.26, 5347.26, 7347.26].entries()) {
    const tags = { __name__: 'third_avenue', city: 'new_york', checkout: '1' };
    const row = { tags, timestamp: String(now - 2 + i), value };
    expect(await test.post('/api/v1/json/write', row), 200);
  }
  const range = async (query: string): Promise<unknown[]> => {
    const parameters = new URLSearchParams({
      query,
      start: String(now - 45),
      end: String(now),
      step: '5s',
    });
    // As `curl -X POST -G` sends it.
    const answer = await test.send('POST', `/api/v1/query_range?${parameters}`, undefined);
    expect(answer, 200);
    return answer.json.data.result.flatMap(({ values }: any) => values);
  };
  assert.deepEqual((await range('third_avenue')).at(-1), [now, '7347.26']);
  assert.equal((await range('third_avenue > 6000')).length, 1);
  expect(
    await test.get(
      '/api/v1/query_range?query=abs(http_requests_total)&start=1530220860&end=1530220900&step=15s',
    ),
    200,
  );
  const line = `weather,location=us-midwest temperature=82,wind=42 ${now}000000000`;
  expect(await test.post('/api/v1/influxdb/write', Buffer.from(line)), 204);
  const target = encodeURIComponent('transformNull(foo.*.baz)');
  expect(await test.get(`/api/v1/graphite/render?target=${target}&from=${now - 300}`), 200);
});

test('namespaces: made by their options, made ready, deleted', async () => {
  await using test = await TestCoordinator.openReady();
  const aggregated = [{ aggregated: true, attributes: { resolutionDuration: '10s' } }];
  expect(
    await test.post('/api/v1/services/m3db/namespace', {
      name: 'metrics_10s_48h',
      options: namespaceOptions('48h', aggregated),
    }),
    200,
    /metrics_10s_48h/,
  );
  expect(
    await test.post('/api/v1/services/m3db/namespace', {
      name: 'default_unaggregated',
      options: namespaceOptions('2d', [{ aggregated: false }]),
    }),
    200,
    /"retentionPeriodNanos":"172800000000000"/,
  );
  expect(
    await test.send('DELETE', '/api/v1/services/m3db/namespace/metrics_10s_48h', undefined),
    200,
  );
  const create = { namespaceName: '1week_namespace', retentionTime: '24h' };
  expect(await test.post('/api/v1/database/namespace/create', create), 200, /1week_namespace/);
  const ready = { name: '1week_namespace' };
  expect(await test.post('/api/v1/services/m3db/namespace/ready', ready), 200, /"ready":true/);
});

test('clusters: a database over three hosts', async () => {
  await using test = await TestCoordinator.open();
  const create = {
    type: 'cluster',
    namespaceName: 'default',
    retentionTime: '48h',
    numShards: '1024',
    replicationFactor: '3',
    hosts: [1, 2, 3].map(hostOf),
  };
  expect(await test.post('/api/v1/database/create', create), 200, /"m3db003"/);
  const { placement } = (await test.get('/api/v1/services/m3db/placement')).json;
  assert.equal(placement.numShards, 1024);
  assert.equal(placement.replicaFactor, 3);
});

/** Of a placement of three whose shards are all available. */
async function placed(): Promise<TestCoordinator> {
  const test = await TestCoordinator.open();
  const init = { num_shards: 64, replication_factor: 3, instances: [1, 2, 3].map(instanceOf) };
  expect(await test.post('/api/v1/services/m3db/placement/init', init), 200, /"node-3"/);
  await test.markAvailable();
  return test;
}

test('placements: made, and instances added, replaced, removed and set', async () => {
  const path = '/api/v1/services/m3db/placement';
  {
    await using test = await placed();
    // In the other spelling of its fields.
    const { isolation_group: isolationGroup, ...fourth } = instanceOf(4);
    expect(await test.post(path, { instances: [{ ...fourth, isolationGroup }] }), 200, /"node-4"/);
  }
  {
    await using test = await placed();
    const replace = {
      leavingInstanceIDs: ['node-1'],
      candidates: [{ ...instanceOf(5), isolation_group: 'group-1' }],
    };
    expect(await test.post(`${path}/replace`, replace), 200, /"node-5"/);
  }
  await using test = await placed();
  const { placement, version } = (await test.get(path)).json;
  const set = { placement, version, confirm: false };
  expect(await test.post(`${path}/set`, set), 200, /"dryRun":true/);
  // Of three replicas on three none can go; the page has more.
  expect(await test.send('DELETE', `${path}/node-3`, undefined), 400, /replica/);
});

test('limits of queries by key, and what topics and placements of coordinators are told', async () => {
  await using test = await TestCoordinator.openReady();
  const none = { limit: 0, lookbackSeconds: 15, forceExceeded: false };
  const value = {
    maxRecentlyQueriedSeriesDiskBytesRead: none,
    maxRecentlyQueriedSeriesBlocks: none,
    maxRecentlyQueriedSeriesDiskRead: none,
    maxRecentlyQueriedMetadataRead: none,
  };
  for (const limits of [value, {}]) {
    const body = { key: 'm3db.query.limits', value: limits, commit: true };
    expect(await test.post('/api/v1/kvstore', body), 200, /"m3db.query.limits"/);
  }
  const aggregator = (number: number) => ({
    id: `m3aggregator0${number}:6000`,
    isolation_group: `availability-zone-${'ab'[number - 1]}`,
    zone: 'embedded',
    weight: 100,
    endpoint: `m3aggregator0${number}:6000`,
    hostname: `m3aggregator0${number}`,
    port: 6000,
  });
  const aggregators = { num_shards: 64, replication_factor: 2, instances: [1, 2].map(aggregator) };
  expect(await test.post('/api/v1/services/m3aggregator/placement/init', aggregators), 200);
  const topic = { 'Topic-Name': 'aggregator_ingest' };
  expect(await test.post('/api/v1/topic/init', { numberOfShards: 64 }, topic), 400, /topic/);
  const coordinators = { instances: [{ id: 'm3coordinator01', zone: 'embedded', port: 7507 }] };
  expect(await test.post('/api/v1/services/m3coordinator/placement/init', coordinators), 400);
});
