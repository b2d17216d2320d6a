import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aggregatorService, placementKey } from '#cluster/kv/keys.ts';
import { testCluster, TestCoordinator } from '../coordinator_testing.ts';

const path = '/api/v1/services/m3aggregator/placement';

const instance = (id: string, isolation_group: string, more: object = {}): object => ({
  id,
  isolation_group,
  zone: 'embedded',
  weight: 1,
  endpoint: `${id}:6000`,
  hostname: id,
  port: 6000,
  ...more,
});

type Instances = Record<string, { shardSetId: number; shards: unknown[] }>;

const setsOf = (instances: Instances): string =>
  Object.entries(instances)
    .map(([id, { shardSetId, shards }]) => `${id}:${shardSetId}/${shards.length}`)
    .join(' ');

test('a placement of aggregators is made, changed and deleted over HTTP', async () => {
  await using test = await TestCoordinator.open();
  assert.equal((await test.get(path)).status, 404);
  const body = {
    num_shards: 8,
    replication_factor: 2,
    instances: [instance('a1', 'a'), instance('b1', 'b'), instance('a2', 'a'), instance('b2', 'b')],
  };
  const { replication_factor: _, ...short } = body;
  const refused = await test.post(`${path}/init`, short);
  assert.equal(refused.status, 400);
  assert.match(refused.json.error, /replication_factor must be between 1 and 7: 0/);
  const dry = await test.post(`${path}/init`, body, { 'Dry-Run': 'true' });
  assert.equal(dry.status, 200, dry.text);
  const init = await test.post(`${path}/init`, body);
  assert.deepEqual([init.status, init.json.version], [200, 0], init.text);
  assert.equal(setsOf(init.json.placement.instances), 'a1:1/4 a2:2/4 b1:1/4 b2:2/4');
  assert.ok(init.json.placement.isMirrored);
  assert.equal(init.json.placement.instances.a1.shards[0].state, 'AVAILABLE');
  assert.equal((await test.post(`${path}/init`, body)).status, 409);
  assert.equal((await test.get('/api/v1/placement')).status, 404, 'storage has none');

  const instances = [instance('c1', 'c'), instance('d1', 'd')];
  const add = await test.post(path, { instances });
  assert.deepEqual([add.status, add.json.version], [200, 2], add.text);
  assert.match(setsOf(add.json.placement.instances), /c1:3\/[23] d1:3/);
  const one = await test.post(`${path}/remove`, { instance_ids: ['c1'] });
  assert.equal(one.status, 400);
  assert.match(one.json.error, /shard set 3 leaves as a whole, and d1 is not named/);
  const remove = await test.post(`${path}/remove`, { instance_ids: ['c1', 'd1'] });
  assert.equal(setsOf(remove.json.placement.instances), 'a1:1/4 a2:2/4 b1:1/4 b2:2/4');
  const replace = await test.post(`${path}/replace`, {
    leavingInstanceIDs: ['b2'],
    candidates: [instance('b3', 'b')],
  });
  assert.equal(setsOf(replace.json.placement.instances), 'a1:1/4 a2:2/4 b1:1/4 b3:2/4');
  assert.equal((await test.send('DELETE', `${path}/b3`, undefined)).status, 400);

  const current = await test.get(path);
  assert.equal(current.json.version, 4);
  const { placement } = current.json;
  const set = { placement, version: 4, confirm: true };
  placement.instances.a1.shards.pop();
  const wrong = await test.post(`${path}/set`, set);
  assert.deepEqual(
    [wrong.status, wrong.json.error],
    [400, 'placement: shard 7 has 1 replicas instead of 2'],
  );
  placement.instances.b1.shards.pop();
  placement.instances.a2.shards.push({ ...placement.instances.a2.shards[0], id: 7 });
  placement.instances.b3.shards.push({ ...placement.instances.a2.shards[0], id: 7 });
  const moved = await test.post(`${path}/set`, set);
  assert.deepEqual([moved.status, moved.json.version], [200, 5], moved.text);
  assert.equal((await test.get(`${path}?version=4`)).json.version, 4);
  assert.deepEqual((await test.send('DELETE', path, undefined)).json, { deleted: true });
  assert.equal((await test.get(path)).status, 404);
});

test('a placement of aggregators that cannot be read can be deleted', async () => {
  await using test = await TestCoordinator.open();
  const key = placementKey(testCluster, aggregatorService);
  const damaged = { kind: 'put', key, value: Buffer.from('{}}') } as const;
  await test.kv.transact([], [damaged], new AbortController().signal);
  assert.equal((await test.get(path)).status, 500);
  assert.deepEqual((await test.send('DELETE', path, undefined)).json, { deleted: true });
  assert.equal((await test.get(path)).status, 404);
});
