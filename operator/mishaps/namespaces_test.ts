/** What a TSDBNamespace that is gone has last asked for. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { plainRequest } from '#cluster/admin/placement_requests.ts';
import { namespaceOptions } from '../desired/namespaces.ts';
import { TsdbError } from '#lib/errors.ts';
import { resource } from '../resource/kube_objects.ts';
import { settledWorld, specOf, type World } from '../world_testing.ts';
import { forever } from './mishaps_testing.ts';

async function passes(world: World, count: number): Promise<void> {
  for (let pass = 0; pass < count; pass++) {
    await world.reconcile().catch(() => {});
    await world.clock.pass(2_000);
    await world.advance();
  }
}

async function withNamespace(over: Parameters<typeof settledWorld>[0] = {}): Promise<World> {
  const world = await settledWorld(over);
  world.addClaim('prod', { reclaimPolicy: 'Delete', retentionTime: '48h' });
  await world.settle();
  world.calls.length = 0;
  return world;
}

async function retainThenDelete(world: World): Promise<void> {
  const claim = structuredClone(world.kube.find('TSDBNamespace', 'prod'));
  claim.spec.reclaimPolicy = 'Retain';
  world.kube.store(claim);
  await passes(world, 3);
  await deleteNamespace(world);
  await passes(world, 3);
}

const deleteNamespace = (world: World): Promise<void> =>
  world.kube.delete(resource.namespace, 'default', 'prod', { uid: null, orphan: false });

test('Retain holds that was set while the cluster is paused', async () => {
  const world = await withNamespace();
  world.changeSpec((spec) => (spec.paused = true));
  await passes(world, 3);
  await retainThenDelete(world);
  world.changeSpec((spec) => delete spec.paused);
  await passes(world, 10);
  assert.deepEqual(world.calls, []);
});

test('Retain holds that was set while the coordinators are away', async () => {
  const world = await withNamespace();
  world.coordinatorUp = false;
  await passes(world, 3);
  await retainThenDelete(world);
  world.coordinatorUp = true;
  await passes(world, 10);
  assert.deepEqual(world.calls, []);
});

test('a cluster that comes back before its namespaces keeps their data', async () => {
  const over = { etcd: { external: { endpoints: ['etcd:2379'] } } };
  const world = await withNamespace(over);
  await world.deleteCluster();
  await deleteNamespace(world);
  world.addCluster(specOf(over));
  await passes(world, 30);
  assert.deepEqual(world.calls, []);
  // Its resource decides again when it is there.
  world.addClaim('prod', { reclaimPolicy: 'Delete', retentionTime: '48h' });
  await passes(world, 10);
  await deleteNamespace(world);
  await passes(world, 10);
  assert.deepEqual(world.calls, ['namespace delete prod']);
});

for (const name of ['prod', 'constructor', 'toString', '__proto__', 'hasOwnProperty']) {
  test(`a namespace that somebody else made is not taken over, called ${name}`, async () => {
    const world = await settledWorld();
    const options = namespaceOptions({ retentionTime: '30d', blockSize: '12h' });
    await world.admin.namespaceAdd({ name, options }, plainRequest, forever);
    world.addClaim('taker', { name, retentionTime: '2d', reclaimPolicy: 'Delete' });
    await passes(world, 10);
    assert.deepEqual(world.calls, []);
    const { conditions } = world.kube.find('TSDBNamespace', 'taker').status;
    const stalled = conditions.find(({ type }: { type: string }) => type === 'Stalled');
    assert.equal(stalled?.reason, 'NotOwned');
  });

  test(`a namespace is made and goes with its resource, called ${name}`, async () => {
    const world = await settledWorld();
    world.addClaim('own', { name, retentionTime: '2d', reclaimPolicy: 'Delete' });
    await passes(world, 10);
    assert.deepEqual(world.calls, [`namespace add ${name}`, `namespace ready ${name}`]);
    await world.kube.delete(resource.namespace, 'default', 'own', { uid: null, orphan: false });
    await passes(world, 10);
    assert.deepEqual(world.calls.slice(2), [`namespace delete ${name}`]);
  });
}

// Its TSDBNamespace is gone and cannot say it: that data are still there which were to go was in no
// condition, and the cluster Ready.
test('a deletion that the database refuses is said, with a way out', async () => {
  const world = await withNamespace();
  world.beforeCall = (call) => {
    if (call.startsWith('namespace delete'))
      throw new TsdbError('BAD_REQUEST', 'it has its reasons');
  };
  await deleteNamespace(world);
  await passes(world, 10);
  const { status, reason, message } = world.condition('Stalled');
  assert.deepEqual([status, reason], ['True', 'NamespaceDeletionRefused']);
  assert.match(message, /namespace prod.* cannot be deleted: it has its reasons/);
  assert.equal(world.condition('Ready').status, 'False');
  world.addClaim('prod', { reclaimPolicy: 'Retain', retentionTime: '48h' });
  await passes(world, 3);
  await deleteNamespace(world);
  await passes(world, 3);
  assert.equal(world.condition('Ready').status, 'True', world.condition('Ready').message);
});
