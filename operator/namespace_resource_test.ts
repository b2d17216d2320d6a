/** TSDBNamespace: what becomes of the namespaces that resources ask for. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { plainRequest } from '#cluster/admin/placement_requests.ts';
import { changedRuleSet } from '#cluster/aggregation_rules/sets/sets_testing.ts';
import { RuleSetStore } from '#cluster/aggregation_rules/sets/store.ts';
import { resource } from './resource/kube_objects.ts';
import { namespaceOptions } from './desired/namespaces.ts';
import { specOf, World, settledWorld } from './world_testing.ts';

type Json = any;

const readyOf = (world: World, name: string): Json =>
  world.kube
    .find('TSDBNamespace', name)
    .status.conditions.find((one: Json) => one.type === 'Ready');

const remove = (world: World, name: string): Promise<void> =>
  world.kube.delete(resource.namespace, 'default', name, { uid: null, orphan: false });

const registered = async (world: World): Promise<string[]> => {
  const { registry } = await world.admin.namespaceGet(false, new AbortController().signal);
  return Object.keys(registry.namespaces).sort();
};

test('a namespace that comes before its cluster waits for it and becomes ready', async () => {
  const world = new World();
  world.addClaim('long', { retentionTime: '30d' });
  await world.reconcile();
  assert.equal(readyOf(world, 'long').reason, 'ClusterNotFound');
  world.addCluster(specOf());
  await world.settle();
  assert.deepEqual(
    [readyOf(world, 'long').status, readyOf(world, 'long').reason],
    ['True', 'NamespaceReady'],
  );
  assert.deepEqual(await registered(world), ['default', 'long']);
});

test('a namespace is not ready before its nodes have bootstrapped it', async () => {
  const world = await settledWorld();
  world.addClaim('long', {});
  for (let pass = 0; pass < 2; pass++) {
    await world.reconcile();
    assert.equal(readyOf(world, 'long').reason, 'Pending', 'first it is written down whose it is');
  }
  await world.reconcile();
  assert.equal(readyOf(world, 'long').reason, 'Bootstrapping');
  assert.equal(world.condition('NamespacesReady').status, 'False');
  await world.settle();
  assert.equal(readyOf(world, 'long').status, 'True');
});

test('without Delete the data stays when the resource goes', async () => {
  const world = await settledWorld();
  world.addClaim('long', { reclaimPolicy: 'Retain' });
  await world.settle();
  await remove(world, 'long');
  await world.settle();
  assert.equal(world.kube.find('TSDBNamespace', 'long'), undefined);
  assert.deepEqual(await registered(world), ['default', 'long']);
});

test('with Delete the namespace goes when the resource has gone', async () => {
  const world = await settledWorld();
  world.addClaim('short', { reclaimPolicy: 'Delete' });
  await world.settle();
  await remove(world, 'short');
  assert.equal(world.kube.find('TSDBNamespace', 'short'), undefined, 'nothing holds it');
  world.coordinatorUp = false;
  await world.reconcile();
  assert.deepEqual(await registered(world), ['default', 'short']);
  world.restartOperator();
  world.coordinatorUp = true;
  await world.settle();
  assert.deepEqual(await registered(world), ['default']);
  const { data } = world.kube.find('ConfigMap', 'c-record');
  assert.deepEqual(Object.keys(JSON.parse(data['record.json']).namespaces), ['default']);
});

test('a namespace that stays claimed by another resource is not deleted with one of them', async () => {
  const world = await settledWorld();
  world.addClaim('first', { name: 'shared', reclaimPolicy: 'Delete' }, '2026-01-01T00:00:01Z');
  world.addClaim('second', { name: 'shared', reclaimPolicy: 'Delete' }, '2026-01-01T00:00:02Z');
  await world.settle();
  const conflict = readyOf(world, 'second');
  assert.deepEqual([conflict.status, conflict.reason], ['False', 'NameConflict']);
  assert.match(conflict.message, /TSDBNamespace first/);
  await remove(world, 'first');
  await world.settle();
  assert.deepEqual(await registered(world), ['default', 'shared']);
  assert.equal(readyOf(world, 'second').status, 'True');
});

test('the list of the cluster wins over resources', async () => {
  const world = await settledWorld();
  world.addClaim('default', { reclaimPolicy: 'Delete' });
  await world.settle();
  assert.match(readyOf(world, 'default').message, /TSDBCluster c/);
  await remove(world, 'default');
  await world.settle();
  assert.deepEqual(await registered(world), ['default']);
});

test('namespaces that no resource made are left alone', async () => {
  const world = await settledWorld();
  const { signal } = new AbortController();
  const options = namespaceOptions({ retentionTime: '12h' });
  await world.admin.namespaceAdd({ name: 'by-hand', options }, plainRequest, signal);
  world.addClaim('long', {});
  await world.settle();
  await remove(world, 'long');
  world.changeSpec((spec) => (spec.namespaces = []));
  await world.settle();
  assert.deepEqual(await registered(world), ['by-hand', 'default', 'long']);
});

test('a namespace with a resolution has windows, in blocks of whole ones', async () => {
  const world = await settledWorld();
  await world.finishFormats();
  world.addClaim('coarse', { resolution: '7m', retentionTime: '60d' });
  world.addClaim('daily', { resolution: '1d', retentionTime: '2w' });
  await world.settle();
  const { registry } = await world.admin.namespaceGet(false, new AbortController().signal);
  const optionsOf = (name: string): any => (registry.namespaces as any)[name];
  assert.deepEqual(optionsOf('coarse').aggregationOptions.aggregations, [
    {
      aggregated: true,
      attributes: { resolutionNanos: '420000000000', downsampleOptions: { all: true } },
    },
  ]);
  const minuteNanos = 60_000_000_000;
  const blockMinutesOf = (name: string) =>
    Number(optionsOf(name).retentionOptions.blockSizeNanos) / minuteNanos;
  assert.deepEqual(['coarse', 'daily'].map(blockMinutesOf), [206 * 7, 12 * 60]);
});

test('a namespace with a resolution may have the windows alone that rules name', async () => {
  const world = await settledWorld();
  await world.finishFormats();
  world.addClaim('named', { resolution: '5m', retentionTime: '60d', downsampleAll: false });
  await world.settle();
  assert.equal(readyOf(world, 'named').status, 'True');
  const { registry } = await world.admin.namespaceGet(false, new AbortController().signal);
  const { aggregations } = (registry.namespaces as Json).named.aggregationOptions;
  assert.deepEqual(aggregations[0].attributes.downsampleOptions, { all: false });
  // A server without the definition's rules would let it pass.
  const claim = structuredClone(world.kube.find('TSDBNamespace', 'named'));
  claim.spec.downsampleAll = true;
  world.kube.store(claim);
  await world.settle();
  const { reason, message } = readyOf(world, 'named');
  assert.equal(reason, 'ImmutableChange');
  assert.match(message, /downsampleAll is false and cannot become true/);
});

test('what has samples cannot have windows, nor the other way round', async () => {
  const world = await settledWorld();
  await world.finishFormats();
  world.addClaim('prod', { retentionTime: '30d' });
  world.addClaim('coarse', { resolution: '5m', retentionTime: '60d' });
  await world.settle();
  const changes = { prod: { resolution: '5m' }, coarse: { resolution: undefined } };
  for (const [name, change] of Object.entries(changes)) {
    const claim = structuredClone(world.kube.find('TSDBNamespace', name));
    Object.assign(claim.spec, change);
    world.kube.store(claim);
  }
  await world.settle();
  assert.match(readyOf(world, 'prod').message, /it has samples and cannot have windows of 5m/);
  assert.match(readyOf(world, 'coarse').message, /it has windows of 5m0s and cannot have samples/);
});

test('windows that the database refuses are told by their resource, and leave the cluster ready', async () => {
  const world = await settledWorld();
  await world.finishFormats();
  world.addClaim('huge', { resolution: '60d', retentionTime: '300d' });
  for (let pass = 0; pass < 10; pass++) {
    await world.reconcile();
    await world.clock.pass(2_000);
    await world.advance();
  }
  const { reason, message } = readyOf(world, 'huge');
  assert.equal(reason, 'Refused');
  assert.match(message, /samples are not kept for as long as it takes to make a window/);
  assert.equal(world.condition('Ready').status, 'True');
  // The way out for what was never ready.
  const claim = structuredClone(world.kube.find('TSDBNamespace', 'huge'));
  Object.assign(claim.spec, { resolution: '1h', reclaimPolicy: 'Delete' });
  world.kube.store(claim);
  await world.settle();
  assert.match(readyOf(world, 'huge').message, /never ready: with reclaimPolicy: Delete it goes/);
  await remove(world, 'huge');
  await world.settle();
  world.addClaim('huge', { resolution: '1h', retentionTime: '300d' });
  await world.settle();
  assert.equal(readyOf(world, 'huge').status, 'True');
});

test('a retention by which rules name a namespace stays, and its resource says why', async () => {
  const world = await settledWorld();
  await world.finishFormats();
  world.addClaim('coarse', { resolution: '5m', retentionTime: '60d' });
  await world.settle();
  const storagePolicies = [{ resolution: '5m', retention: '60d' }];
  const file = { mappingRules: [{ name: 'web', filter: 'app:web', storagePolicies }] };
  const { signal } = new AbortController();
  const { namespaces, cluster } = world.admin;
  await new RuleSetStore(namespaces.kv, cluster).update(
    'default',
    (set) => changedRuleSet(set, [1n, file], () => '1'),
    signal,
  );
  const claim = structuredClone(world.kube.find('TSDBNamespace', 'coarse'));
  claim.spec.retentionTime = '90d';
  world.kube.store(claim);
  for (let pass = 0; pass < 10; pass++) {
    await world.reconcile();
    await world.clock.pass(2_000);
    await world.advance();
  }
  const { reason, message } = readyOf(world, 'coarse');
  assert.equal(reason, 'Refused');
  assert.match(
    message,
    /from 1440h0m0s to 2160h0m0s: .*mapping rule "web" of set default; add another namespace of 5m0s:2160h0m0s/,
  );
  assert.equal(world.condition('Ready').status, 'True');
  const options = { retentionOptions: { retentionPeriodDuration: '90d' } };
  await world.admin.namespaceUpdate(
    { name: 'coarse', options },
    { ...plainRequest, force: true },
    signal,
  );
  await world.settle();
  assert.equal(readyOf(world, 'coarse').status, 'True');
});

test('windows wait for samples, and it is told that none are taken', async () => {
  const world = await settledWorld({ namespaces: [] });
  await world.finishFormats();
  const { reason, message } = world.condition('NamespacesReady');
  assert.equal(reason, 'NoneTakesSamples');
  assert.match(message, /none is asked for; none takes samples/);
  world.addClaim('coarse', { resolution: '5m', retentionTime: '60d' });
  await world.settle();
  assert.equal(readyOf(world, 'coarse').reason, 'NoneTakesSamples');
  assert.equal(world.condition('Ready').status, 'True');
  world.addClaim('raw', { retentionTime: '2d' });
  await world.settle();
  assert.equal(readyOf(world, 'coarse').status, 'True');
  assert.equal(world.condition('NamespacesReady').reason, 'AllReady');
});

test('a longer retention is taken over', async () => {
  const world = await settledWorld();
  world.addClaim('long', { retentionTime: '24h' });
  await world.settle();
  const claim = structuredClone(world.kube.find('TSDBNamespace', 'long'));
  claim.spec.retentionTime = '48h';
  world.kube.store(claim);
  world.calls.length = 0;
  await world.settle();
  assert.deepEqual(world.calls, ['namespace update long']);
});

test('a namespace that no node could have stalls itself, and the cluster goes on', async () => {
  const world = await settledWorld();
  world.addClaim('bad', { retentionTime: '999999d' });
  world.addClaim('good', {});
  world.changeSpec((spec) => (spec.nodes.replicasPerGroup = 2));
  await world.settle();
  const { reason, message } = readyOf(world, 'bad');
  assert.equal(reason, 'InvalidSpec');
  assert.match(message, /retentionTime.*999999d/);
  assert.equal(readyOf(world, 'good').status, 'True');
  assert.deepEqual(await registered(world), ['default', 'good']);
  assert.equal(world.instanceIds().length, 6);
  assert.equal(world.condition('NamespacesReady').status, 'True', 'the resource says it itself');
});

test('with the cluster the claims of its namespaces can go', async () => {
  const world = await settledWorld();
  world.addClaim('short', { reclaimPolicy: 'Delete' });
  await world.settle();
  await world.deleteCluster();
  await remove(world, 'short');
  await world.reconcile();
  assert.equal(world.kube.find('TSDBNamespace', 'short'), undefined);
});
