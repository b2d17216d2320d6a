/** Several operators, newer operators, and operators that stop and go on. */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import {
  clusterName,
  clusterReady,
  image,
  namespace,
  operatorHome,
  operatorReady,
} from '../install.ts';
import { type Kube, waitFor } from '../kube.ts';
import { killProcesses, processesOf, tagImage } from '../machines.ts';
import { anotherLeads, leadingPod } from '../operators.ts';
import { type Ending, podUids, ready, type Scenario, scaleTo, type Stage } from './scenario.ts';

/** Of the lease and its renewal, and what a start takes. */
const takeoverMillisMax = 40_000;
const handoverMillisMax = 10_000;

async function leadersLost(stage: Stage): Promise<Ending> {
  const { kube, journal } = stage;
  await ready(stage);
  const killed = await leadingPod(kube);
  const holder = async (): Promise<string> =>
    (await kube.get('lease', 'tsdb-operator', (await operatorHome(kube))!)).spec.holderIdentity;
  const identity = await holder();
  killProcesses(killed);
  await waitFor('another process leads', takeoverMillisMax, async () => {
    const now = await holder();
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

export const manyOperators: readonly Scenario[] = [
  {
    name: '28-leaders-lost',
    what: 'the leader is killed; the next is stopped past its lease and goes on; the third hands over',
    millisMax: 600_000,
    run: leadersLost,
  },
  {
    name: '39-operator-upgraded',
    what: 'another image of the operator and back: no pod of a cluster is touched',
    millisMax: 500_000,
    run: upgraded,
  },
];
