/** Several operators, newer operators, and operators that stop and go on. */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { stringify } from 'yaml';
import {
  clusterName,
  clusterReady,
  image,
  installByHelm,
  namespace,
  operatorHome,
  operatorReady,
} from '../install.ts';
import { condition, type Kube, waitFor } from '../kube.ts';
import { killProcesses, processesOf, tagImage } from '../machines.ts';
import { anotherLeads, leadingPod, leadingProcess } from '../operators.ts';
import {
  type Ending,
  podUids,
  ready,
  type Scenario,
  scaleTo,
  smallCluster,
  smallName,
  type Stage,
} from './scenario.ts';

/** Of the lease and its renewal, and what a start takes. */
const takeoverMillisMax = 40_000;
const handoverMillisMax = 10_000;

async function leadersLost(stage: Stage): Promise<Ending> {
  const { kube, journal } = stage;
  await ready(stage);
  const killed = await leadingPod(kube);
  const identity = await leadingProcess(kube);
  killProcesses(killed);
  await waitFor('another process leads', takeoverMillisMax, async () => {
    const now = await leadingProcess(kube);
    return now !== '' && now !== identity ? null : now;
  });
  const stopped = await leadingPod(kube);
  const pids = processesOf(stopped);
  for (const pid of pids) process.kill(pid, 'SIGSTOP');
  await anotherLeads(kube, stopped, takeoverMillisMax);
  // Something to do, for the one that leads and for the one that believes it does.
  await scaleTo(kube, 2);
  await waitFor('the new one acts', 30_000, async () =>
    journal.actions(stage.sinceMillis).length > 0 ? null : 'not yet',
  );
  const resumedMillis = Date.now();
  for (const pid of pids) {
    try {
      process.kill(pid, 'SIGCONT');
    } catch {
      // Its liveness probe has ended it.
    }
  }
  await delay(5_000);
  const late = journal
    .writesSince(resumedMillis)
    .filter(({ pod, status, object }) => pod === stopped && status < 300 && !/events/.test(object));
  assert.deepEqual(late, [], 'who has lost the lease writes nothing');
  await clusterReady(kube, 2, 240_000);
  await operatorReady(kube, (await operatorHome(kube))!);
  const leader = await leadingPod(kube);
  const askedMillis = Date.now();
  await kube.ok(['delete', 'pod', leader, '-n', (await operatorHome(kube))!, '--wait=false']);
  await anotherLeads(kube, leader, handoverMillisMax);
  assert.ok(Date.now() - askedMillis < handoverMillisMax, 'a graceful end hands over');
  await operatorReady(kube, (await operatorHome(kube))!);
  return { calls: ['a', 'b', 'c'].map((zone) => `placement-add ${clusterName}-zone-${zone}-1`) };
}

async function setOperatorImage(kube: Kube, name: string): Promise<void> {
  const home = (await operatorHome(kube))!;
  await kube.ok(['set', 'image', 'deployment/tsdb-operator', `operator=${name}`, '-n', home]);
  await operatorReady(kube, home);
}

async function allPods(kube: Kube): Promise<object> {
  const uids = [];
  for (const component of ['node', 'etcd', 'coordinator'] as const) {
    uids.push(await podUids(kube, component));
  }
  return Object.assign({}, ...uids);
}

async function upgraded(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  const before = await allPods(kube);
  const other = image('operator').replace(/:[^:]*$/, ':other');
  await tagImage(image('operator'), other);
  await setOperatorImage(kube, other);
  await delay(15_000);
  assert.deepEqual(await allPods(kube), before, 'no pod is touched by a newer operator');
  await setOperatorImage(kube, image('operator'));
  await delay(15_000);
  assert.deepEqual(await allPods(kube), before, 'nor by the older one');
  await clusterReady(kube, 1, 60_000);
  const cluster = await kube.get('tsdbcluster', clusterName, namespace);
  assert.equal(cluster.metadata.generation, cluster.status.observedGeneration);
  return { calls: [] };
}

const otherNamespace = 'other';
const otherRelease = 'other-tsdb';

/** Writes to the small cluster and its children by pods of this release; without events. */
function writesToSmall({ journal, sinceMillis }: Stage, release: string): string[] {
  return journal
    .writesSince(sinceMillis)
    .filter(
      ({ pod, object }) => pod.startsWith(`${release}-operator`) && object.includes(smallName),
    )
    .filter(({ object }) => !object.startsWith('events/'))
    .map(({ verb, object }) => `${verb} ${object}`);
}

async function smallSettled(kube: Kube): Promise<void> {
  await waitFor('small in the other namespace is ready', 180_000, async () => {
    const cluster = await kube.get('tsdbcluster', smallName, otherNamespace);
    const one = condition(cluster, 'Ready');
    const isNew = cluster.status?.observedGeneration === cluster.metadata.generation;
    return one?.status === 'True' && isNew ? null : `${one?.reason}: ${one?.message}`;
  });
}

async function twoOperators(stage: Stage): Promise<Ending> {
  const { kube, journal } = stage;
  await ready(stage);
  const home = (await operatorHome(kube))!;
  await kube.ok(['create', 'namespace', otherNamespace]);
  const apply = (over: object) =>
    kube.ok(['apply', '-n', otherNamespace, '-f', '-'], stringify(smallCluster(over)));
  const annotate = (value: string) => [
    ...['annotate', 'tsdbcluster', smallName, '-n', otherNamespace, `tsdb.io/managed-by${value}`],
  ];
  try {
    const watch = ['--set', `operator.watchNamespaces={${otherNamespace}}`];
    const noUpgrade = ['--set', 'crds.upgrade=false', '--skip-crds'];
    await installByHelm(kube, otherRelease, [...watch, ...noUpgrade]);
    // The first one looks after all namespaces: of the two one is the first to see it.
    await apply({});
    await smallSettled(kube);
    const cluster = await kube.get('tsdbcluster', smallName, otherNamespace);
    const owner = cluster.metadata.annotations['tsdb.io/managed-by'];
    const [idle, busy] = owner.includes(otherRelease)
      ? ['tsdb', otherRelease]
      : [otherRelease, 'tsdb'];
    assert.ok(writesToSmall(stage, busy).length > 0);
    // Both may try to be the first, and one of them is refused.
    const others = writesToSmall(stage, idle).filter(
      (text) => !text.endsWith('tsdbclusters/small'),
    );
    assert.deepEqual(others, [], 'who is not the first touches nothing');
    const env = ['set', 'env', 'deployment/tsdb-operator', '-n', home];
    await kube.ok([...env, `WATCH_NAMESPACE=${namespace}`]);
    await operatorReady(kube, home);
    // Its lease is alive: a person says that it is not its cluster any more.
    await kube.ok(annotate('-'));
    stage.sinceMillis = Date.now();
    await apply({ coordinator: { replicas: 2 } });
    await smallSettled(kube);
    assert.ok(writesToSmall(stage, otherRelease).length > 0, 'the other one does it');
    assert.deepEqual(writesToSmall(stage, 'tsdb'), [], 'the first one looks elsewhere');
    const crossed = journal
      .writesSince(stage.sinceMillis)
      .filter(({ pod, object }) => pod.startsWith(otherRelease) && object.includes(clusterName));
    assert.deepEqual(crossed, [], 'the other one never touches what is not in its namespace');
    await kube.ok(['delete', 'tsdbcluster', smallName, '-n', otherNamespace, '--timeout=25s']);
  } finally {
    await kube.kubectl(['set', 'env', 'deployment/tsdb-operator', '-n', home, 'WATCH_NAMESPACE=']);
    // Helm may take its rights before its pods, and it would say so.
    const labels = ['-l', `app.kubernetes.io/instance=${otherRelease}`, '-n', namespace];
    await kube.kubectl(['scale', 'deployment', ...labels, '--replicas=0']);
    await kube.kubectl(['wait', 'pod', ...labels, '--for=delete', '--timeout=60s']);
    await kube.helm(['uninstall', otherRelease, '--namespace', namespace]);
    await kube.ok(['delete', 'namespace', otherNamespace, '--wait=false']);
  }
  await operatorReady(kube, home);
  return {};
}

export const manyOperators: readonly Scenario[] = [
  {
    name: '28-leaders-lost',
    what: 'the leader is killed; the next is stopped past its lease and goes on; the third hands over',
    millisMax: 600_000,
    run: leadersLost,
  },
  {
    name: '29-two-operators',
    what: 'two operators that see the same namespace, then each its own: one cluster has one operator',
    millisMax: 600_000,
    run: twoOperators,
  },
  {
    name: '39-operator-upgraded',
    what: 'another image of the operator and back: no pod of a cluster is touched',
    millisMax: 500_000,
    run: upgraded,
  },
];
