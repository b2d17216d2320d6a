/** How a cluster goes, whatever is away, and how it comes back. */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { stringify } from 'yaml';
import {
  applyCluster,
  clusterName,
  clusterOfRelease,
  clusterReady,
  deleteDefinitions,
  exampleCluster,
  installByHelm,
  installByManifests,
  namespace,
  startLoad,
  stopLoad,
  uninstallManifests,
} from '../install.ts';
import { type Kube, waitFor } from '../kube.ts';
import { openCoordinatorProxy, operatorGoes } from '../operators.ts';
import {
  applySmall,
  childrenOf,
  claimsOf,
  type Ending,
  forbiddenOf,
  groups,
  nothingIsMissing,
  patchCluster,
  ready,
  removeCluster,
  removeSmall,
  says,
  type Scenario,
  scaleTo,
  smallCluster,
  smallName,
  smallReady,
  type Stage,
} from './scenario.ts';

const doomed = 'doomed';
/** Stays, with what a person may want to begin with, also when no snapshots are asked for any more. */
const snapshotsClaim = `${clusterName}-etcd-snapshots`;
const nodeClaims = groups.map((group) => `data-${clusterName}-${group}-0`);
const deletePolicy = { data: 'Delete', metadata: 'Delete' };

/** Asks for the end of a cluster, and waits until nothing but these claims is left. */
async function goes(
  kube: Kube,
  name: string,
  claimsLeft: readonly string[],
  flags: readonly string[] = [],
): Promise<void> {
  const what = ['delete', 'tsdbcluster', name, '-n', namespace, '--wait=false'];
  await kube.ok([...what, ...flags]);
  await waitFor(`${name} is gone`, 180_000, async () => {
    const left = await childrenOf(kube, name);
    if ((await kube.get('tsdbcluster', name, namespace)) !== null) left.push('the TSDBCluster');
    left.push(...(await claimsOf(kube, name)).filter((claim) => !claimsLeft.includes(claim)));
    return left.length === 0 ? null : left.join(' ');
  });
  assert.deepEqual(await claimsOf(kube, name), claimsLeft, 'volumes stay as the policy says');
}

async function retained(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  // Queries read the namespace of longest retention, which has nothing of before it was made.
  await stopLoad(kube);
  await startLoad(kube);
  await delay(10_000);
  const before = await claimsOf(kube, clusterName);
  const kept = [...nodeClaims, snapshotsClaim].filter((claim) => before.includes(claim));
  await goes(kube, clusterName, kept);
  // The writer goes on trying, and the checker knows what was acknowledged before.
  await applyCluster(kube);
  await clusterReady(kube, 1, 300_000);
  return { withoutChecksMillisMax: 300_000 };
}

/** What Kubernetes still takes away of the old one is already the new one's. */
async function replacedAtOnce(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  const { metadata } = await kube.get('tsdbcluster', clusterName, namespace);
  await kube.ok(['delete', 'tsdbcluster', clusterName, '-n', namespace, '--wait=false']);
  await applyCluster(kube);
  await clusterReady(kube, 1, 300_000);
  const now = await kube.get('tsdbcluster', clusterName, namespace);
  assert.notEqual(now.metadata.uid, metadata.uid);
  return { withoutChecksMillisMax: 300_000 };
}

async function coordinatorAway(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  const proxy = await openCoordinatorProxy(kube, smallName);
  try {
    await operatorGoes(kube, { coordinatorsOf: [smallName] });
    const endpoints = [0, 1, 2].map(
      (at) => `http://${clusterName}-etcd-${at}.${clusterName}-etcd.${namespace}.svc:2379`,
    );
    await applySmall(kube, { etcd: { external: { endpoints } } });
    await smallReady(kube);
    assert.ok((await keysOfSmall(kube)) > 0);
    proxy.on({ request: /./, effect: { kind: 'drop' } });
    await goes(kube, smallName, []);
    assert.equal(await keysOfSmall(kube), 0, 'its keys went with it, by etcd itself');
    proxy.clear();
    await applySmall(kube, { etcd: { external: { endpoints } } });
    await smallReady(kube);
    await goes(kube, smallName, []);
  } finally {
    await operatorGoes(kube, {});
    await proxy.close();
  }
  await removeSmall(kube);
  return {};
}

/** Keys of the small cluster in the etcd of the large one. */
async function keysOfSmall(kube: Kube): Promise<number> {
  const pod = `${clusterName}-etcd-0`;
  const command = ['etcdctl', 'get', '--prefix', '', '--keys-only'];
  const keys = await kube.ok(['exec', '-n', namespace, pod, '--', ...command]);
  return keys.split('\n').filter((key) => key.includes(`${namespace}_${smallName}`)).length;
}

async function namespaceDeleted(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  await kube.ok(['create', 'namespace', doomed]);
  const text = stringify(smallCluster({ deletionPolicy: deletePolicy }));
  await kube.ok(['apply', '-n', doomed, '-f', '-'], text);
  await waitFor('its cluster has pods', 60_000, async () => {
    const pods = await kube.list('pods', doomed, `tsdb.io/cluster=${smallName}`);
    return pods.length >= 2 ? null : `${pods.length} pods`;
  });
  await kube.ok(['delete', 'namespace', doomed, '--wait=false']);
  await waitFor('the namespace is gone', 180_000, async () => {
    const object = await kube.get('namespace', doomed, namespace);
    return object === null ? null : JSON.stringify(object.status);
  });
  for (const cascade of ['foreground', 'background']) {
    await applySmall(kube);
    await smallReady(kube);
    await goes(kube, smallName, [], [`--cascade=${cascade}`]);
  }
  return {};
}

async function deletedWhilePaused(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  await applySmall(kube);
  await smallReady(kube);
  await patchCluster(kube, { paused: true }, smallName);
  await says(kube, smallName, 'Paused', /^True/);
  await goes(kube, smallName, []);
  return {};
}

async function helm(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await stopLoad(kube);
  for (const name of [smallName, clusterName]) await removeCluster(kube, name);
  await uninstallManifests(kube);
  // A release that brings a cluster installs on a Kubernetes that has never heard of one.
  await deleteDefinitions(kube);
  const { spec } = exampleCluster();
  // No ClusterRole: only the release's namespace.
  const values = ['--set', `operator.watchNamespaces={${namespace}}`];
  const cluster = clusterOfRelease({ ...spec, deletionPolicy: deletePolicy });
  await installByHelm(kube, 'tsdb', [...values, ...cluster]);
  const roles = await kube.list('clusterroles', namespace, 'app.kubernetes.io/instance=tsdb');
  assert.deepEqual(
    roles.map(({ metadata }) => metadata.name),
    [],
    'no rights over all namespaces',
  );
  await clusterReady(kube, 1, 180_000);
  await startLoad(kube);
  await scaleTo(kube, 2);
  await clusterReady(kube, 2, 240_000);
  await nothingIsMissing(kube, 30_000);
  assert.deepEqual(forbiddenOf(stage), [], 'the rights of the chart suffice');
  await stopLoad(kube);
  await goes(kube, clusterName, []);
  await kube.helm(['uninstall', 'tsdb', '--namespace', namespace, '--wait', '--timeout', '60s']);
  const kinds = 'deployments,serviceaccounts,roles,rolebindings';
  const left = await kube.list(kinds, namespace, 'app.kubernetes.io/instance=tsdb');
  assert.deepEqual(left, [], 'nothing of the release is left');
  await installByManifests(kube);
  return { isUnready: true };
}

export const deletion: readonly Scenario[] = [
  {
    name: '32-deleted-without-coordinator',
    what: 'a cluster goes while its coordinator is away, its keys in an external etcd too; it comes again',
    millisMax: 700_000,
    run: coordinatorAway,
  },
  {
    name: '33-namespace-deleted',
    what: 'kubectl delete namespace, and foreground deletion: nothing is stuck',
    millisMax: 700_000,
    run: namespaceDeleted,
  },
  {
    name: '34-deleted-while-paused',
    what: 'a paused cluster goes too',
    millisMax: 500_000,
    run: deletedWhilePaused,
  },
  {
    name: '34-comes-back',
    what: 'the resource goes with all but what the policy keeps, and comes back with its data',
    millisMax: 700_000,
    run: retained,
  },
  {
    name: '34-replaced-at-once',
    what: 'the resource is deleted and applied again in one breath: nothing is lost',
    millisMax: 700_000,
    run: replacedAtOnce,
  },
];

/** Last: it takes the operator of the others away. */
export const byHelm: readonly Scenario[] = [
  {
    name: '30-rights-of-the-chart',
    what: 'a release for one namespace has no ClusterRole: create, scale, delete, and nothing is forbidden',
    millisMax: 900_000,
    run: helm,
  },
];
