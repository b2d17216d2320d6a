/** What Argo CD and Flux take from the status of a cluster at each stage of its life. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { LuaFactory } from 'wasmoon';
import { parseAllDocuments } from 'yaml';
import { specOf, World } from '#operator/world_testing.ts';

const root = join(import.meta.dirname, '../..');
const [settings] = parseAllDocuments(
  readFileSync(join(root, 'manifests/gitops/argocd.yaml'), 'utf8'),
).map((document) => document.toJS());
const lua = await new LuaFactory().createEngine();
after(() => lua.global.close());

async function argoHealth(object: any): Promise<string> {
  lua.global.set('text', JSON.stringify(object));
  lua.global.set('parse', (text: string) => JSON.parse(text));
  // Argo CD gives the object as a global of this name.
  lua.global.set('obj', object);
  const script = settings.data[`resource.customizations.health.tsdb.io_${object.kind}`];
  const { status, message } = await lua.doString(script);
  assert.equal(typeof message, 'string');
  return status;
}

/** As kstatus computes it, for resources that it does not know: Flux, Helm and kubectl use it. */
function kstatus({ metadata, status }: any): string {
  if (metadata.deletionTimestamp !== undefined) return 'Terminating';
  const observed = status?.observedGeneration;
  if (observed !== undefined && observed !== metadata.generation) return 'InProgress';
  const isTrue = (type: string): boolean =>
    (status?.conditions ?? []).some((one: any) => one.type === type && one.status === 'True');
  if (isTrue('Stalled')) return 'Failed';
  if (isTrue('Reconciling')) return 'InProgress';
  const ready = (status?.conditions ?? []).find((one: any) => one.type === 'Ready');
  return ready === undefined || ready.status === 'True' ? 'Current' : 'InProgress';
}

const health = async (object: any): Promise<string> =>
  `${await argoHealth(object)} ${kstatus(object)}`;

test('a cluster is healthy when it is ready, and a person is told when one is needed', async () => {
  const world = new World();
  world.addCluster(specOf());
  await world.reconcile();
  assert.equal(await health(world.cluster), 'Progressing InProgress');
  await world.settle();
  assert.equal(await health(world.cluster), 'Healthy Current');

  world.changeSpec((spec) => (spec.nodes.replicasPerGroup = 2));
  assert.equal(await health(world.cluster), 'Progressing InProgress', 'not acted upon yet');
  await world.reconcile();
  assert.equal(await health(world.cluster), 'Progressing InProgress');
  await world.settle();
  assert.equal(await health(world.cluster), 'Healthy Current');

  world.changeSpec((spec) => (spec.paused = true));
  await world.reconcile();
  assert.match(await health(world.cluster), /^Suspended /);
  world.changeSpec((spec) => {
    spec.paused = false;
    spec.nodes.image = 'node:2';
    spec.updatePolicy = 'Gated';
  });
  await world.reconcile();
  assert.equal(
    await health(world.cluster),
    'Healthy Current',
    'what waits for approval is no fault',
  );

  for (const name of ['c-a-0', 'c-a-b-0']) world.broken.add(name);
  await world.advance();
  await world.reconcile();
  assert.equal(await health(world.cluster), 'Degraded InProgress');
  world.broken.clear();
  await world.advance();

  await world.addForeignInstance('stranger', 'a');
  await world.reconcile();
  assert.equal(await health(world.cluster), 'Degraded Failed');
});

test('a namespace is healthy when it takes writes', async () => {
  const world = new World();
  world.addCluster(specOf());
  world.addClaim('first', { retentionTime: '24h' });
  const claim = (name: string) => world.kube.find('TSDBNamespace', name);
  assert.equal(await argoHealth(claim('first')), 'Progressing');
  await world.settle();
  assert.equal(await health(claim('first')), 'Healthy Current');
  world.addClaim('second', { name: 'first' }, '2026-01-02T00:00:00Z');
  await world.reconcile();
  assert.equal(await health(claim('second')), 'Degraded Failed');
});
