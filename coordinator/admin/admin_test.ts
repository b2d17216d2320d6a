import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TsdbError } from '#lib/errors.ts';
import { TestCoordinator } from '../coordinator_testing.ts';

const nanos = (hours: number): string => String(BigInt(hours * 3600) * 1_000_000_000n);

test('the quick start of a single node works by HTTP alone', async () => {
  await using test = await TestCoordinator.open();
  const created = await test.post('/api/v1/database/create', {
    type: 'local',
    namespaceName: 'default',
    retentionTime: '12h',
  });
  assert.equal(created.status, 200);
  assert.equal(created.headers['content-type'], 'application/json');
  const { namespace, placement } = created.json;
  const options = namespace.registry.namespaces.default;
  assert.equal(options.retentionOptions.retentionPeriodNanos, nanos(12));
  assert.equal(options.retentionOptions.blockSizeNanos, nanos(0.5));
  assert.equal(placement.version, 0);
  assert.equal(placement.placement.instances.tsdb_local.shards.length, 64);
  assert.equal(placement.placement.instances.tsdb_local.shards[0].state, 'INITIALIZING');

  const early = await test.post('/api/v1/services/tsdb/namespace/ready', { name: 'default' });
  assert.equal(early.status, 503, 'no shard can be read yet');
  assert.equal(early.headers['retry-after'], '5');

  await test.markAvailable();
  const ready = await test.post('/api/v1/services/tsdb/namespace/ready', { name: 'default' });
  assert.deepEqual([ready.status, ready.json], [200, { ready: true }]);
});

test('placement and namespace are served alike at all their paths', async () => {
  await using test = await TestCoordinator.open();
  const instance = {
    id: 'h1',
    isolation_group: 'r1',
    zone: 'embedded',
    weight: 1,
    endpoint: 'h1:9000',
    hostname: 'h1',
    port: 9000,
  };
  const body = { num_shards: 4, replication_factor: 1, instances: [instance] };
  assert.equal((await test.get('/api/v1/placement')).status, 404);
  const init = await test.post('/api/v1/placement/init', body);
  assert.deepEqual([init.status, init.json.version], [200, 0]);
  assert.equal((await test.post('/api/v1/services/tsdb/placement/init', body)).status, 409);
  const paths = ['/api/v1/placement', '/api/v1/services/tsdb/placement'];
  const [short, long] = await Promise.all(paths.map((path) => test.get(path)));
  assert.equal(short!.text, long!.text);
  assert.equal(short!.json.version, 1);

  const forced = await test.post(
    '/api/v1/placement',
    { instances: [{ ...instance, id: 'h2', endpoint: 'h2:9000' }] },
    { Force: 'true', 'Dry-Run': 'true' },
  );
  assert.equal(forced.status, 200, forced.text);
  assert.deepEqual(Object.keys(forced.json.placement.instances), ['h1', 'h2']);
  assert.equal((await test.get('/api/v1/placement')).json.version, 1, 'a dry run writes nothing');

  const options = {
    retentionOptions: { retentionPeriodDuration: '48h', blockSizeDuration: '2h' },
    indexOptions: { enabled: true, blockSizeDuration: '2h' },
  };
  const add = await test.post('/api/v1/namespace', { name: 'a', options });
  assert.equal(add.status, 200, add.text);
  assert.equal(
    (await test.post('/api/v1/services/tsdb/namespace', { name: 'a', options })).status,
    409,
  );
  const debug = await test.get('/api/v1/namespace?debug=1');
  assert.equal(
    debug.json.registry.namespaces.a.retentionOptions.retentionPeriodDuration,
    '48h0m0s',
  );
  const removed = await test.send('DELETE', '/api/v1/services/tsdb/namespace/a', undefined);
  assert.deepEqual(removed.json, { deleted: true });
  assert.equal((await test.send('DELETE', '/api/v1/namespace/a', undefined)).status, 404);
});

test('the cluster headers name another environment and zone', async () => {
  await using test = await TestCoordinator.open();
  const other = { 'Cluster-Environment-Name': 'other_env', 'Cluster-Zone-Name': 'z2' };
  const options = {
    retentionOptions: { retentionPeriodDuration: '2h', blockSizeDuration: '1h' },
    indexOptions: { enabled: true, blockSizeDuration: '1h' },
  };
  await test.post('/api/v1/namespace', { name: 'there', options }, other);
  assert.deepEqual((await test.get('/api/v1/namespace')).json, { registry: { namespaces: {} } });
  const there = await test.get('/api/v1/namespace', other);
  assert.deepEqual(Object.keys(there.json.registry.namespaces), ['there']);
});

test('headers of admin requests may have a prefix as all others, and say yes or no', async () => {
  await using test = await TestCoordinator.open();
  const path = '/api/v1/services/tsdb/namespace';
  const body = {
    name: 'there',
    options: {
      retentionOptions: { retentionPeriodDuration: '2h', blockSizeDuration: '1h' },
      indexOptions: { enabled: true, blockSizeDuration: '1h' },
    },
  };
  const namesOf = async (headers: Readonly<Record<string, string>> = {}): Promise<string[]> =>
    Object.keys((await test.get(path, headers)).json.registry.namespaces);
  for (const prefix of ['', 'TSDB-', 'M3-']) {
    const dry = await test.post(path, body, { [`${prefix}Dry-Run`]: 'true' });
    assert.equal(dry.status, 200, dry.text);
    assert.deepEqual(await namesOf(), [], `${prefix}Dry-Run writes nothing`);
    const other = {
      [`${prefix}Cluster-Environment-Name`]: `other${prefix.length}`,
      [`${prefix}Cluster-Zone-Name`]: 'z2',
    };
    assert.equal((await test.post(path, body, other)).status, 200);
    assert.deepEqual([await namesOf(), await namesOf(other)], [[], ['there']]);
    const reset = JSON.stringify({ name: 'there' });
    const forced = await test.send('DELETE', '/api/v1/services/tsdb/schema', reset, {
      ...other,
      'Content-Length': String(reset.length),
      [`${prefix}Force`]: 'true',
    });
    assert.equal(forced.status, 200, forced.text);
  }
  const unclear = await test.post(path, body, { 'TSDB-Dry-Run': 'yes' });
  assert.deepEqual(
    [unclear.status, unclear.json.error],
    [400, 'header TSDB-Dry-Run: neither true nor false: yes'],
  );
  const both = await test.post(path, body, { 'Dry-Run': 'false', 'M3-Dry-Run': 'true' });
  assert.equal(both.status, 400);
  assert.match(both.json.error, /header M3-Dry-Run: other than Dry-Run: true and false/);
  assert.deepEqual(await namesOf(), []);
});

test('a namespace that the nodes do not have is readied only by force', async () => {
  await using test = await TestCoordinator.openReady();
  const options = {
    retentionOptions: { retentionPeriodDuration: '2h', blockSizeDuration: '1h' },
    indexOptions: { enabled: true, blockSizeDuration: '1h' },
  };
  await test.post('/api/v1/namespace', { name: 'next', options });
  test.node.failure = new TsdbError('UNAVAILABLE', 'namespace is not bootstrapped');
  const refused = await test.post('/api/v1/namespace/ready', { name: 'next' });
  assert.equal(refused.status, 503);
  const forced = await test.post('/api/v1/namespace/ready', { name: 'next', force: true });
  assert.deepEqual([forced.status, forced.json], [200, { ready: true }]);
});

test('instances that run are reset only by force', async () => {
  await using test = await TestCoordinator.openReady();
  const path = '/api/v1/services/tsdb/placement';
  const { instances } = (await test.get(path)).json.placement;
  const [id] = Object.keys(instances);
  const refused = await test.post(`${path}/reset`, { instance_ids: [id] });
  assert.equal(refused.status, 409, refused.text);
  assert.match(refused.json.error, /instance runs.*force/);
  test.node.health = () => Promise.reject(new TsdbError('UNAVAILABLE', 'nobody is there'));
  const alone = await test.post(`${path}/reset`, { instance_ids: [id] });
  assert.equal(alone.status, 400, alone.text);
  assert.match(alone.json.error, /nobody else has all data of \d+ shards/);
  assert.equal((await test.post(`${path}/reset`, { instance_ids: ['no'] })).status, 404);
  const empty = await test.post(`${path}/reset`, { instance_ids: [] });
  assert.match(empty.json.error, /missing required field: instance_ids/);
  const forced = await test.post(`${path}/reset`, { instance_ids: [id], force: true });
  assert.equal(forced.status, 200, forced.text);
  const { shards } = forced.json.placement.instances[id!];
  assert.ok(shards.every(({ state }: { state: string }) => state === 'INITIALIZING'));
});

test('errors of admin requests name field, reason and value in the error shape', async () => {
  await using test = await TestCoordinator.open();
  const cases: [object | Uint8Array, RegExp][] = [
    [{}, /namespaceName/],
    [{ namespaceName: 'a', type: 'loca' }, /type/],
    [{ namespaceName: 'a', type: 'local', retentionTime: 'long' }, /retentionTime.*long/],
    [{ namespaceName: 'a', type: 'local', colour: 1 }, /colour/],
    [new TextEncoder().encode('{'), /not JSON/],
    [new Uint8Array(0), /empty/],
  ];
  for (const [body, reason] of cases) {
    const answer = await test.post('/api/v1/database/create', body);
    assert.equal(answer.status, 400);
    const { status, errorType, error } = answer.json;
    assert.deepEqual([status, errorType], ['error', 'bad_data']);
    assert.match(error, reason);
  }
});
