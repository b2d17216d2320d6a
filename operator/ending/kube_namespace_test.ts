/** A namespace is deleted with the clusters in it, and perhaps with the operator. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLog } from '#lib/log.ts';
import { afterLastDuty } from './kube_namespace.ts';
import { FakeClock, fakeEnv } from '../fake_clock_testing.ts';
import { FakeKube } from '../kube/fake_kube_testing.ts';
import { KubeError } from '../kube/kube_api.ts';
import { resource } from '../resource/kube_objects.ts';
import { specOf, World } from '../world_testing.ts';

const ending = {
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name: 'default', deletionTimestamp: '2026-01-01T00:00:01Z' },
};

test('a cluster in a namespace that is deleted does not wait for its pods to go', async () => {
  const world = new World();
  const endpoints = ['http://etcd:2379'];
  const deletionPolicy = { data: 'Delete' } as const;
  world.addCluster(specOf({ deletionPolicy, etcd: { external: { endpoints } } }));
  await world.settle();
  world.externalEtcdProblem = 'connection refused';
  world.kube.store(ending);
  await world.kube.delete(resource.cluster, 'default', 'c', { uid: null, orphan: false });
  assert.notEqual(world.cluster, undefined, 'it has a finalizer');
  await world.reconcile();
  assert.equal(world.cluster, undefined);
});

class Life {
  readonly clock = new FakeClock();
  readonly kube = new FakeKube();
  readonly #stop = new AbortController();
  readonly stopped: AbortSignal;

  constructor(api: Pick<FakeKube, 'get' | 'list'> | null = null) {
    this.stopped = afterLastDuty(this.#stop.signal, {
      api: api ?? this.kube,
      env: fakeEnv(this.clock),
      log: silentLog,
      namespace: 'default',
    });
  }

  cluster(finalizers: string[]): void {
    this.kube.store({
      apiVersion: 'tsdb.io/v1alpha1',
      kind: 'TSDBCluster',
      metadata: { name: 'c', namespace: 'default', finalizers },
      spec: specOf(),
    });
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.clock.pass(1);
  }
}

test('an operator that is told to stop stops', async () => {
  const life = new Life();
  life.cluster(['tsdb.io/cleanup']);
  await life.stop();
  assert.equal(life.stopped.aborted, true);
});

test('one whose namespace is deleted lets its clusters go first, and does not wait for ever', async () => {
  for (const isLetGo of [true, false]) {
    const life = new Life();
    life.kube.store(ending);
    life.cluster(['tsdb.io/cleanup']);
    await life.stop();
    await life.clock.pass(5_000);
    assert.equal(life.stopped.aborted, false);
    if (isLetGo) life.cluster([]);
    await life.clock.pass(1_000);
    assert.equal(life.stopped.aborted, isLetGo);
    await life.clock.pass(20_000);
    assert.equal(life.stopped.aborted, true);
  }
});

test('one that may not ask any more stops', async () => {
  const refuse = () => Promise.reject(new KubeError(401, 'Unauthorized', 'no such account'));
  const life = new Life({ get: refuse, list: refuse });
  await life.stop();
  assert.equal(life.stopped.aborted, true);
});
