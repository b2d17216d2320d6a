/** Pods, disks and machines that go, and drains that take them away for a while. */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { clusterName, clusterReady, namespace } from '../install.ts';
import { condition, type Kube, run, waitFor } from '../kube.ts';
import {
  bringMachineBack,
  killAll,
  killProcesses,
  loseMachine,
  processesOf,
  resumeKubelet,
  silenceKubelet,
} from '../machines.ts';
import { leadingPod, leadingProcess } from '../operators.ts';
import {
  acts,
  anotherClaim,
  claimUid,
  deletePod,
  type Ending,
  groups,
  loseVolume,
  ownLabel,
  patchCluster,
  placementVersion,
  podUids,
  ready,
  says,
  type Scenario,
  scaleTo,
  type Stage,
} from './scenario.ts';

const drainMillisMax = 180_000;

async function machineOf(kube: Kube, pod: string): Promise<string> {
  return (await kube.get('pod', pod, namespace)).spec.nodeName;
}

/** As a person does it, with an end. */
async function drain(kube: Kube, machine: string, seconds: number): Promise<string> {
  const flags = ['--ignore-daemonsets', '--delete-emptydir-data', `--timeout=${seconds}s`];
  // Pods of the test that no controller makes again are not what is drained.
  const pods = ['--pod-selector=app.kubernetes.io/managed-by=tsdb-operator'];
  const args = ['drain', machine, ...flags, ...pods];
  const { output } = await run(`${kube.bin}/kubectl`, args, {
    millisMax: drainMillisMax,
    environment: kube.environment,
  });
  return output;
}

async function podKilled(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  const name = `${clusterName}-zone-b-0`;
  const before = await kube.get('pod', name, namespace);
  const version = await placementVersion(kube);
  const leader = await leadingProcess(kube);
  const leading = await leadingPod(kube);
  const pids = processesOf(name);
  assert.ok(pids.length > 0);
  // In this order: its kubelet would start the container again before it hears that the pod is gone, and two processes
  // would be one instance on one volume (which both notice; one of them takes its shards anew).
  await deletePod(kube, name);
  killAll(pids);
  killProcesses(leading);
  await waitFor('the pod is made again', 60_000, async () => {
    const pod = await kube.get('pod', name, namespace);
    return pod !== null && pod.metadata.uid !== before.metadata.uid ? null : 'the old one is there';
  });
  await waitFor('another process leads', 60_000, async () => {
    const now = await leadingProcess(kube);
    return now !== '' && now !== leader ? null : `the lease is held by ${now}`;
  });
  await clusterReady(kube, 1, 120_000);
  assert.equal(await placementVersion(kube), version, 'a restart is no reason to move shards');
  return { calls: [] };
}

async function deletedWhileItFills(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  await scaleTo(kube, 2);
  await acts(stage, /^placement-add metrics-zone-a-1/);
  const name = `${clusterName}-zone-a-1`;
  const claim = await kube.get('pvc', `data-${name}`, namespace);
  await deletePod(kube, name);
  await clusterReady(kube, 2, 300_000);
  const now = await kube.get('pvc', `data-${name}`, namespace);
  assert.equal(now.metadata.uid, claim.metadata.uid, 'it keeps its volume');
  return { calls: groups.map((group) => `placement-add ${clusterName}-${group}-1`) };
}

async function diskLost(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  const pod = `${clusterName}-zone-c-0`;
  const before = await claimUid(kube, pod);
  await loseVolume(kube, pod);
  await anotherClaim(kube, pod, before);
  await clusterReady(kube, 1, 180_000);
  return { calls: [] };
}

async function replacementLost(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  const pod = `${clusterName}-zone-b-0`;
  const first = await claimUid(kube, pod);
  await loseVolume(kube, pod);
  const second = await anotherClaim(kube, pod, first);
  await waitFor('the replacement runs', 60_000, async () => {
    const { status } = (await kube.get('pod', pod, namespace)) ?? { status: {} };
    return status.phase === 'Running' ? null : String(status.phase);
  });
  await loseVolume(kube, pod);
  await anotherClaim(kube, pod, second);
  await clusterReady(kube, 1, 240_000);
  return { calls: [] };
}

async function replacedByAnnotation(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  for (const pod of [`${clusterName}-zone-a-0`, `${clusterName}-etcd-1`]) {
    const before = await claimUid(kube, pod);
    await kube.ok(['annotate', 'pod', pod, '-n', namespace, 'tsdb.io/replace=true']);
    await anotherClaim(kube, pod, before);
    await clusterReady(kube, 1, 240_000);
  }
  return {};
}

async function machineLost(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  await patchCluster(kube, { nodes: { replaceAfter: '20s' } });
  await clusterReady(kube, 1, 60_000);
  const name = `${clusterName}-zone-b-0`;
  const claim = await claimUid(kube, name);
  const version = await placementVersion(kube);
  const machine = await machineOf(kube, name);
  await loseMachine(kube, machine);
  try {
    await waitFor('its volume is given up', 240_000, async () => {
      const now = await kube.get('pvc', `data-${name}`, namespace);
      const cluster = await kube.get('tsdbcluster', clusterName, namespace);
      assert.notEqual(condition(cluster, 'Available')?.status, 'False', 'the data path goes on');
      return now !== null && now.metadata.uid !== claim
        ? null
        : `${condition(cluster, 'Ready')?.message}`;
    });
    await clusterReady(kube, 1, 240_000);
    assert.ok((await placementVersion(kube)) > version, 'its shards were filled again');
  } finally {
    await bringMachineBack(kube, machine);
  }
  await patchCluster(kube, { nodes: { replaceAfter: null } });
  await clusterReady(kube, 1, 60_000);
  return { withoutChecksMillisMax: 60_000 };
}

async function drained(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  const version = await placementVersion(kube);
  const machine = await machineOf(kube, `${clusterName}-zone-a-0`);
  try {
    const output = await drain(kube, machine, 120);
    assert.match(output, /drained/, output);
    const cluster = await kube.get('tsdbcluster', clusterName, namespace);
    assert.notEqual(condition(cluster, 'Available')?.status, 'False', 'a quorum stays');
  } finally {
    await kube.ok(['uncordon', machine]);
  }
  await clusterReady(kube, 1, 180_000);
  assert.equal(await placementVersion(kube), version, 'no shard moves');
  return { calls: [] };
}

/** The processes of a pod stop, and go on when asked to. */
function suspend(pod: string): () => void {
  const pids = processesOf(pod);
  assert.ok(pids.length > 0, pod);
  for (const pid of pids) process.kill(pid, 'SIGSTOP');
  return () => {
    for (const pid of pids) process.kill(pid, 'SIGCONT');
  };
}

async function evict(kube: Kube, pod: string): Promise<string> {
  const body = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name: pod, namespace } };
  const path = `/api/v1/namespaces/${namespace}/pods/${pod}/eviction`;
  const { output } = await kube.kubectl(['create', '--raw', path, '-f', '-'], JSON.stringify(body));
  return output;
}

async function drainedWhileUnhealthy(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  const [sick, sound] = [`${clusterName}-zone-a-0`, `${clusterName}-zone-b-0`];
  const before = await podUids(kube, 'node');
  const goOn = suspend(sick);
  try {
    await says(kube, clusterName, 'Ready', /^False NodesNotReady/);
    await waitFor('the budget has seen it', 30_000, async () => {
      const { status } = await kube.get('pdb', `${clusterName}-nodes`, namespace);
      return status.disruptionsAllowed === 0 ? null : `${status.disruptionsAllowed} allowed`;
    });
    assert.match(await evict(kube, sound), /disruption budget/, 'no second one');
    const now = await podUids(kube, 'node');
    assert.equal(now[sound], before[sound], 'it stays');
    assert.doesNotMatch(await evict(kube, sick), /disruption budget/, 'the sick one may go');
  } finally {
    // A process that is stopped does not end when it is asked to.
    goOn();
  }
  await clusterReady(kube, 1, 180_000);
  const now = await podUids(kube, 'node');
  assert.notEqual(now[sick], before[sick]);
  assert.equal(now[sound], before[sound]);
  return { calls: [] };
}

async function kubeletSilent(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  const name = `${clusterName}-zone-a-0`;
  const machine = await machineOf(kube, name);
  const before = await podUids(kube, 'node');
  await silenceKubelet(kube, machine);
  try {
    await says(kube, clusterName, 'Ready', /^False/);
    await waitFor('its pod is told to end', 120_000, async () => {
      const pod = await kube.get('pod', name, namespace);
      return pod?.metadata.deletionTimestamp === undefined ? 'not yet' : null;
    });
    await delay(10_000);
    const cluster = await kube.get('tsdbcluster', clusterName, namespace);
    assert.notEqual(condition(cluster, 'Available')?.status, 'False');
    const pods = await kube.list(
      'pods',
      namespace,
      `${ownLabel(clusterName)},tsdb.io/component=node`,
    );
    assert.deepEqual(
      pods.map(({ metadata }) => String(metadata.name)).sort(),
      Object.keys(before).sort(),
      'there is no second pod beside one that may still run',
    );
  } finally {
    await resumeKubelet(kube, machine);
  }
  await clusterReady(kube, 1, 180_000);
  return { calls: [], withoutChecksMillisMax: 60_000 };
}

export const losses: readonly Scenario[] = [
  {
    name: '12-kill',
    what: 'a storage pod and the leading operator die together, nothing acknowledged is lost',
    millisMax: 400_000,
    run: podKilled,
  },
  {
    name: '12-deleted-while-it-fills',
    what: 'a new node is deleted while it takes its shards: it comes back under its name and goes on',
    millisMax: 500_000,
    run: deletedWhileItFills,
  },
  {
    name: '13-disk-lost',
    what: 'a node loses its disk, and is filled again from the others',
    millisMax: 400_000,
    run: diskLost,
  },
  {
    name: '13-replaced-by-annotation',
    what: 'a node and a member of etcd get empty disks because a person asks for it',
    millisMax: 600_000,
    run: replacedByAnnotation,
  },
  {
    name: '14-replacement-lost',
    what: 'a node loses its disk, and its replacement too while it is filled',
    millisMax: 500_000,
    run: replacementLost,
  },
  {
    name: '14-machine-lost',
    what: 'a machine is gone for good, and what it had is made anew elsewhere',
    millisMax: 700_000,
    run: machineLost,
  },
  {
    name: '15-drain',
    what: 'kubectl drain ends, a quorum stays, and no shard moves',
    millisMax: 500_000,
    run: drained,
  },
  {
    name: '16-drain-while-unhealthy',
    what: 'while a node is sick no other one is evicted, and the sick one may be',
    millisMax: 400_000,
    run: drainedWhileUnhealthy,
  },
  {
    name: '17-kubelet-silent',
    what: 'a machine says nothing past the time of eviction, and comes back',
    millisMax: 500_000,
    run: kubeletSilent,
  },
];
