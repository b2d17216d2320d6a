import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLog } from '#lib/log.ts';
import { AppliedMemory } from '../kube/applied_memory.ts';
import type { Coordinator } from '../coordinator/coordinator_client.ts';
import type { EtcdAdmin } from '../etcd/etcd_admin.ts';
import { execute } from './execute.ts';
import { FakeClock, fakeEnv } from '../fake_clock_testing.ts';
import { FakeKube } from '../kube/fake_kube_testing.ts';
import { KubeError } from '../kube/kube_api.ts';
import type { Action } from './action.ts';
import { noFailpoints } from './failpoints.ts';

type Json = any;

const cluster: Json = {
  apiVersion: 'tsdb.io/v1alpha1',
  kind: 'TSDBCluster',
  metadata: { name: 'c', namespace: 'default' },
};
const pod = (uid: string): Json => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'c-a-0', namespace: 'default', uid },
});

function executorOf(kube: FakeKube, mayWrite: () => void = () => {}) {
  const calls: unknown[][] = [];
  const recording = <T extends object>(): T =>
    new Proxy({} as T, {
      get:
        (_, name) =>
        (...args: unknown[]) => {
          calls.push([name, ...args.slice(0, -1)]);
          return Promise.resolve();
        },
    });
  const coordinator = recording<Coordinator>();
  const env = fakeEnv(new FakeClock());
  const applied = new AppliedMemory();
  const etcd = recording<EtcdAdmin>();
  const around = { failpoints: noFailpoints, log: silentLog, mayWrite };
  const executor = { api: kube, coordinator, etcd, env, applied, ...around };
  return { calls, executor };
}

test('each action is one call', async () => {
  const kube = new FakeKube();
  const { uid } = kube.store(pod('')).metadata;
  const claim = kube.store({
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name: 'data-c-a-0', namespace: 'default' },
    spec: { resources: { requests: { storage: '1Gi' } } },
  });
  const set = kube.store({
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { name: 'c-a', namespace: 'default' },
    spec: { replicas: 1 },
  });
  const service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 's', namespace: 'default' },
  };
  const instances = [{ id: 'c-a-0' }] as Json;
  const actions: Action[] = [
    { kind: 'apply', object: service },
    { kind: 'expand-claim', claim, size: '2Gi' },
    { kind: 'evict-pod', pod: pod(uid!), reason: 'x', together: [] },
    { kind: 'scale-set', set, replicas: 2, whenScaled: 'Delete' },
    { kind: 'delete', object: service, orphan: true },
    { kind: 'etcd-add', pod: 'c-etcd-1', peerUrl: 'http://x:2380' },
    { kind: 'etcd-promote', pod: 'c-etcd-1', memberId: '7' },
    { kind: 'etcd-remove', pod: 'c-etcd-1', memberId: '7' },
    { kind: 'etcd-move-leader', pod: 'c-etcd-1', toMemberId: '8' },
    { kind: 'etcd-defragment', pod: 'c-etcd-1' },
    { kind: 'etcd-compact', revision: '17' },
    { kind: 'etcd-disarm', alarm: { memberId: '9', kind: 'NOSPACE' } },
    { kind: 'placement-init', numberOfShards: 4, replicationFactor: 3, instances },
    { kind: 'placement-add', instances },
    { kind: 'placement-remove', instanceIds: ['c-a-0'], force: false },
    { kind: 'placement-approve' },
    { kind: 'namespace-add', name: 'n', options: { a: 1 } },
    { kind: 'namespace-update', name: 'n', options: { a: 2 } },
    { kind: 'namespace-ready', name: 'n' },
    { kind: 'namespace-delete', name: 'n' },
  ];
  const { calls, executor } = executorOf(kube);
  for (const action of actions) {
    await execute(action, cluster, executor, new AbortController().signal);
  }
  assert.deepEqual(kube.writes, [
    'APPLY Service/s',
    'PATCH PersistentVolumeClaim/data-c-a-0',
    'EVICT Pod/c-a-0',
    'PATCH StatefulSet/c-a',
    'DELETE Service/s',
  ]);
  const grown = kube.find('PersistentVolumeClaim', 'data-c-a-0');
  assert.equal(grown.spec.resources.requests.storage, '2Gi');
  assert.deepEqual(calls, [
    ['addLearner', 'http://x:2380'],
    ['promote', '7'],
    ['remove', '7'],
    ['moveLeader', 'c-etcd-1', '8'],
    ['defragment', 'c-etcd-1'],
    ['compact', '17'],
    ['disarm', { memberId: '9', kind: 'NOSPACE' }],
    ['placementInit', { num_shards: 4, replication_factor: 3, instances }],
    ['placementAdd', instances],
    ['placementRemove', ['c-a-0'], false],
    ['placementApprove'],
    ['namespaceAdd', 'n', { a: 1 }],
    ['namespaceUpdate', 'n', { a: 2 }],
    ['namespaceReady', 'n'],
    ['namespaceDelete', 'n'],
  ]);
});

test('nothing is done by one that may not write any more, or that was stopped', async () => {
  const kube = new FakeKube();
  const lost = executorOf(kube, () => {
    throw new Error('the lease is lost');
  });
  const action: Action = { kind: 'namespace-ready', name: 'n' };
  const { signal } = new AbortController();
  await assert.rejects(execute(action, cluster, lost.executor, signal), /the lease is lost/);
  const stopped = executorOf(kube);
  const aborted = AbortSignal.abort(new Error('stopped'));
  await assert.rejects(execute(action, cluster, stopped.executor, aborted), /stopped/);
  assert.deepEqual([lost.calls, stopped.calls], [[], []]);
});

test('a pod of the same name that came meanwhile is not deleted for the one that was seen', async () => {
  const kube = new FakeKube();
  kube.store(pod(''));
  const { executor } = executorOf(kube);
  const action: Action = {
    kind: 'evict-pod',
    pod: pod('of the one before'),
    reason: 'x',
    together: [],
  };
  const { signal } = new AbortController();
  await assert.rejects(execute(action, cluster, executor, signal), { status: 409 });
  assert.ok(kube.find('Pod', 'c-a-0'));
});

test('an object that the server writes otherwise is not taken for a changed one', async () => {
  const kube = new FakeKube();
  const { executor } = executorOf(kube);
  const object: Json = {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'd', namespace: 'default' },
    spec: { cpu: '2000m' },
  };
  await execute({ kind: 'apply', object }, cluster, executor, new AbortController().signal);
  const live = kube.find('Deployment', 'd');
  assert.equal(live.spec.cpu, '2');
  const hash = executor.applied.hashOf(live);
  assert.notEqual(hash, null);
  const changed = kube.store({ ...live, spec: { cpu: '3' } });
  assert.equal(executor.applied.hashOf(changed), null, 'somebody else wrote it since');
});

test('lists that somebody has changed so that ours cannot be merged into them are replaced', async () => {
  const kube = new FakeKube();
  const { executor } = executorOf(kube);
  const service = (port: number): Json => ({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 's', namespace: 'default' },
    spec: { ports: [{ name: 'http', port }] },
  });
  kube.store(service(7299));
  kube.beforeWrite = (write) => {
    if (write !== 'APPLY Service/s') return;
    throw new KubeError(422, 'Invalid', 'spec.ports[1].name: Duplicate value: "http"');
  };
  const apply = (object: Json): Promise<void> =>
    execute({ kind: 'apply', object }, cluster, executor, new AbortController().signal);
  await apply(service(7201));
  assert.deepEqual(kube.find('Service', 's').spec.ports, [{ name: 'http', port: 7201 }]);
  // What is refused either way is said as the server says it of the whole object.
  kube.beforeWrite = (write) => {
    throw new KubeError(422, 'Invalid', write);
  };
  await assert.rejects(apply(service(0)), { message: 'APPLY Service/s' });
  kube.remove(kube.find('Service', 's'));
  await assert.rejects(apply(service(0)), { message: 'APPLY Service/s' });
});
