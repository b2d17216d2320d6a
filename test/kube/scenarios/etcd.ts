/** Members of etcd that come, go, die, stop, and lose everything. */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { clusterName, clusterReady, namespace } from '../install.ts';
import { condition, type Kube, waitFor } from '../kube.ts';
import { killProcesses, processesOf } from '../machines.ts';
import { operatorGoes } from '../operators.ts';
import {
  anotherClaim,
  callsOf,
  claimUid,
  claimsOf,
  coordinator,
  type Ending,
  loseVolume,
  patchCluster,
  placementVersion,
  podUids,
  ready,
  says,
  type Scenario,
  type Stage,
} from './scenario.ts';

const quorumAwayMillis = 40_000;
const memberPod = (ordinal: number): string => `${clusterName}-etcd-${ordinal}`;

/** All members of etcd vote, and have the same keys. */
async function membersAre(kube: Kube, count: number): Promise<void> {
  await waitFor(`${count} members of etcd`, 240_000, async () => {
    const { status } = await kube.get('tsdbcluster', clusterName, namespace);
    const { members = [] } = status.etcd;
    const text = members
      .map(({ name, learner, version }: any) => `${name} ${learner ? 'learns' : version}`)
      .join(', ');
    const isThere = members.length === count && !/learns|(metrics-etcd-\d ,)/.test(text);
    return isThere ? null : text || (condition({ status }, 'Ready')?.message ?? 'none');
  });
  await waitFor('members have the same keys', 30_000, async () => {
    const command = ['etcdctl', 'endpoint', 'hashkv', '--cluster', '-w', 'json'];
    const exec = ['exec', '-n', namespace, memberPod(0), '--', ...command];
    const hashes = JSON.parse(await kube.ok(exec)).map(({ HashKV }: any) => HashKV.hash);
    const isSame = hashes.length === count && new Set(hashes).size === 1;
    return isSame ? null : hashes.join(', ');
  });
}

async function leader(kube: Kube): Promise<{ name: string; id: string }> {
  const { members } = (await kube.get('tsdbcluster', clusterName, namespace)).status.etcd;
  return members.find((member: any) => member.leader);
}

async function membersChange(stage: Stage): Promise<Ending> {
  const { kube, journal } = stage;
  await ready(stage);
  const before = await podUids(kube, 'node');
  await membersAre(kube, 3);
  killProcesses((await leader(kube)).name);
  await clusterReady(kube, 1, 120_000);
  await operatorGoes(kube, { failpoints: `etcd-add/${memberPod(3)}:after=exit` });
  await patchCluster(kube, { etcd: { replicas: 5 } });
  await membersAre(kube, 5);
  assert.equal(journal.saying(/^failpoint /, stage.sinceMillis).length, 1);
  await patchCluster(kube, { etcd: { replicas: 3 } });
  await membersAre(kube, 3);
  await waitFor('volumes of those that left are gone', 30_000, async () => {
    const left = (await claimsOf(kube, clusterName)).filter((name) => name.includes('-etcd-'));
    return left.join() === [0, 1, 2].map((at) => `data-${memberPod(at)}`).join()
      ? null
      : left.join(' ');
  });
  const calls = callsOf(stage);
  for (const at of [3, 4]) {
    for (const kind of ['etcd-add', 'etcd-remove']) {
      const made = calls.filter((call) => call === `${kind} ${memberPod(at)}`).length;
      assert.equal(made, 1, `${kind} ${at} once: ${calls.join(', ')}`);
    }
  }
  const lost = await leader(kube);
  await loseVolume(kube, lost.name);
  await waitFor('another member in its place', 180_000, async () => {
    const { status } = await kube.get('tsdbcluster', clusterName, namespace);
    const now = status.etcd.members.find(({ name }: any) => name === lost.name);
    return now !== undefined && now.id !== lost.id ? null : JSON.stringify(now ?? null);
  });
  await membersAre(kube, 3);
  await clusterReady(kube, 1, 120_000);
  assert.deepEqual(await podUids(kube, 'node'), before, 'no node is replaced for it');
  await operatorGoes(kube, {});
  return {};
}

async function etcdLost(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  const before = await podUids(kube, 'node');
  const version = await placementVersion(kube);
  for (const at of [0, 1, 2]) await loseVolume(kube, memberPod(at));
  await says(kube, clusterName, 'Stalled', /^True EtcdLost/, 120_000);
  const annotate = ['annotate', 'tsdbcluster', clusterName, '-n', namespace];
  await kube.ok([...annotate, 'tsdb.io/restore-etcd=empty']);
  await clusterReady(kube, 1, 240_000);
  const { metadata } = await kube.get('tsdbcluster', clusterName, namespace);
  assert.equal(metadata.annotations['tsdb.io/restore-etcd'], undefined, 'it is good for one loss');
  await membersAre(kube, 3);
  assert.ok((await placementVersion(kube)) > version);
  assert.deepEqual(await podUids(kube, 'node'), before, 'no node is replaced for it');
  return { withoutChecksMillisMax: 60_000 };
}

/** The name of the last snapshot that the status knows, once it is another one than this. */
async function snapshotAfter(kube: Kube, before: string): Promise<string> {
  let name = before;
  await waitFor('a snapshot of etcd', 150_000, async () => {
    const { status } = await kube.get('tsdbcluster', clusterName, namespace);
    name = status.etcd.snapshots?.name ?? '';
    return name !== '' && name !== before ? null : JSON.stringify(status.etcd.snapshots ?? null);
  });
  return name;
}

const throughCoordinator = `/api/v1/namespaces/${namespace}/services/${clusterName}-coordinator:http/proxy`;

/** Etcd loses everything, and is made from its last snapshot. */
async function losesAndRestores(kube: Kube): Promise<void> {
  const version = await placementVersion(kube);
  for (const at of [0, 1, 2]) await loseVolume(kube, memberPod(at));
  await says(kube, clusterName, 'Stalled', /^True EtcdLost/, 120_000);
  const annotate = ['annotate', 'tsdbcluster', clusterName, '-n', namespace];
  await kube.ok([...annotate, 'tsdb.io/restore-etcd=latest']);
  await waitFor('what stood before stands again', 300_000, async () => {
    const cluster = await kube.get('tsdbcluster', clusterName, namespace);
    return (cluster.status.placementVersion ?? 0) > version
      ? null
      : `${condition(cluster, 'Ready')?.message}`;
  });
  await clusterReady(kube, 1, 240_000);
  await membersAre(kube, 3);
}

async function etcdRestored(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  const { spec } = await kube.get('tsdbcluster', clusterName, namespace);
  const snapshots = { schedule: '* * * * *', keep: 2, storage: { size: '1Gi' } };
  await patchCluster(kube, { etcd: { snapshots } });
  // Of what nodes do not know.
  const limit = { key: 'tsdb.node.max-outstanding-read-requests', value: 123_456, commit: true };
  const kvstore = ['create', '--raw', `${throughCoordinator}/api/v1/kvstore`, '-f', '-'];
  await kube.ok(kvstore, JSON.stringify(limit));
  await snapshotAfter(kube, await snapshotAfter(kube, ''));
  await patchCluster(kube, { etcd: { snapshots: { ...snapshots, schedule: '0 0 1 1 *' } } });
  // Of what the snapshot does not know: with what is there already nothing would be lost.
  const later = { name: 'later', retentionTime: '24h' };
  const { registry: known } = await coordinator(kube, clusterName, 'namespace');
  assert.ok(
    !Object.hasOwn(known.namespaces, later.name),
    'a namespace that nobody has made before',
  );
  await patchCluster(kube, { namespaces: [...(spec.namespaces ?? []), later] });
  await clusterReady(kube, 1, 60_000);
  const before = await podUids(kube, 'node');
  await losesAndRestores(kube);
  assert.deepEqual(await podUids(kube, 'node'), before, 'no node is replaced for it');
  const { registry } = await coordinator(kube, clusterName, 'namespace');
  for (const name of [...Object.keys(known.namespaces), later.name]) {
    assert.ok(Object.hasOwn(registry.namespaces, name), name);
  }
  const stored = await kube.ok(kvstore, JSON.stringify({ ...limit, commit: false }));
  assert.match(stored, /123456/, 'what only etcd knew came with the snapshot');
  await patchCluster(kube, { etcd: { snapshots: null }, namespaces: spec.namespaces });
  await clusterReady(kube, 1, 60_000);
  return { withoutChecksMillisMax: 60_000 };
}

/**
 * The snapshot names former disks of all nodes: each node finds itself announced as another one, and
 * what it knows is of a placement that the snapshot does not have.
 */
async function etcdRestoredOlder(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  const snapshots = { schedule: '* * * * *', keep: 2, storage: { size: '1Gi' } };
  await patchCluster(kube, { etcd: { snapshots } });
  await snapshotAfter(kube, await snapshotAfter(kube, ''));
  await patchCluster(kube, { etcd: { snapshots: { ...snapshots, schedule: '0 0 1 1 *' } } });
  await clusterReady(kube, 1, 60_000);
  for (const pod of Object.keys(await podUids(kube, 'node')).sort()) {
    const claim = await claimUid(kube, pod);
    await kube.ok(['annotate', 'pod', pod, '-n', namespace, 'tsdb.io/replace=true']);
    await anotherClaim(kube, pod, claim);
    await clusterReady(kube, 1, 240_000);
  }
  const before = await claimUids(kube);
  await losesAndRestores(kube);
  assert.deepEqual(await claimUids(kube), before, 'no node gets another disk for it');
  await patchCluster(kube, { etcd: { snapshots: null } });
  await clusterReady(kube, 1, 60_000);
  return { withoutChecksMillisMax: 60_000 };
}

/** Of the volumes of nodes, by pod. */
async function claimUids(kube: Kube): Promise<Record<string, string>> {
  const pods = Object.keys(await podUids(kube, 'node')).sort();
  const uids = await Promise.all(pods.map(async (pod) => [pod, await claimUid(kube, pod)]));
  return Object.fromEntries(uids);
}

/** Containers that have started so often, of all pods of the cluster but etcd's. */
async function restarts(kube: Kube): Promise<number> {
  const pods = await kube.list(
    'pods',
    namespace,
    `tsdb.io/cluster=${clusterName},tsdb.io/component!=etcd`,
  );
  return pods
    .flatMap(({ status }) => status.containerStatuses ?? [])
    .reduce((sum: number, { restartCount }: any) => sum + restartCount, 0);
}

async function quorumAway(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  const version = await placementVersion(kube);
  const before = await restarts(kube);
  const pods = [...Object.keys(await podUids(kube, 'node'))].length;
  const stopped = [1, 2].flatMap((at) => processesOf(memberPod(at)));
  for (const pid of stopped) process.kill(pid, 'SIGSTOP');
  try {
    await says(kube, clusterName, 'EtcdReady', /^False/);
    await delay(quorumAwayMillis);
    const cluster = await kube.get('tsdbcluster', clusterName, namespace);
    assert.equal(condition(cluster, 'Stalled')?.status ?? 'False', 'False', 'nobody is asked');
  } finally {
    for (const pid of stopped) {
      try {
        process.kill(pid, 'SIGCONT');
      } catch {
        // Its probe has ended it.
      }
    }
  }
  await clusterReady(kube, 1, 180_000);
  assert.equal(await placementVersion(kube), version);
  assert.equal(await restarts(kube), before, 'nothing else starts anew for it');
  assert.equal(Object.keys(await podUids(kube, 'node')).length, pods);
  return { calls: [], withoutChecksMillisMax: 15_000 };
}

/** Of one key of a stranger; a request to etcd has at most 1.5 MiB. */
const junkBytes = 1_400_000;
const junkAtOnce = 4;
/** Twice what there is room for. */
const junkValuesMax = 3_000;
/** As etcd sends it: the address of the pod, past all services. */
type AskEtcd = (path: string, body: object) => Promise<{ status: number; text: string }>;

async function askingEtcd(kube: Kube): Promise<AskEtcd> {
  const { status } = await kube.get('pod', memberPod(0), namespace);
  return async (path, body) => {
    const answer = await fetch(`http://${status.podIP}:2379/v3/${path}`, {
      method: 'POST',
      body: JSON.stringify(body),
    });
    return { status: answer.status, text: await answer.text() };
  };
}

/**
 * A stranger writes one key until etcd takes no more: two gigabytes of former values, which each member
 * also has in memory, as entries of its log.
 */
async function fillEtcd(ask: AskEtcd): Promise<void> {
  const key = Buffer.from('junk').toString('base64');
  const value = Buffer.alloc(junkBytes, 'junk').toString('base64');
  let left = junkValuesMax;
  let refusal = '';
  const put = async (): Promise<void> => {
    while (refusal === '' && (left -= 1) >= 0) {
      const { status, text } = await ask('kv/put', { key, value });
      if (status !== 200) refusal = text;
    }
  };
  await Promise.all(Array.from({ length: junkAtOnce }, put));
  assert.match(refusal, /database space exceeded/);
}

async function etcdFull(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  const before = await podUids(kube, 'node');
  const ask = await askingEtcd(kube);
  await fillEtcd(ask);
  await waitFor('etcd takes writes again', 300_000, async () => {
    const { status, text } = await ask('maintenance/alarm', { action: 'GET' });
    return status !== 200 || text.includes('NOSPACE') ? text : null;
  });
  await clusterReady(kube, 1, 120_000);
  const events = await kube.list('events', namespace);
  const asked = events.filter(({ reason }) => reason === 'EtcdAlarm');
  assert.deepEqual(asked, [], 'nobody is asked for what goes by itself');
  await membersAre(kube, 3);
  const later = { name: 'when-full', retentionTime: '24h' };
  const { spec } = await kube.get('tsdbcluster', clusterName, namespace);
  await patchCluster(kube, { namespaces: [...(spec.namespaces ?? []), later] });
  await clusterReady(kube, 1, 60_000);
  await patchCluster(kube, { namespaces: spec.namespaces });
  assert.deepEqual(await podUids(kube, 'node'), before, 'no node is replaced for it');
  return { withoutChecksMillisMax: 60_000 };
}

export const etcd: readonly Scenario[] = [
  {
    name: '37-etcd-members',
    what: 'the leader is killed, 3 → 5 → 3 with an operator that ends in between, a volume is lost',
    millisMax: 900_000,
    run: membersChange,
  },
  {
    name: '37-etcd-full',
    what: 'somebody fills etcd with former values: they go, and it takes writes again',
    millisMax: 1_200_000,
    run: etcdFull,
  },
  {
    name: '38-etcd-quorum-away',
    what: 'two of three members stop and go on: data are written and read all the time',
    millisMax: 500_000,
    run: quorumAway,
  },
  {
    name: '38-etcd-lost',
    what: 'etcd loses all its volumes, and gets back what the nodes know',
    millisMax: 700_000,
    run: etcdLost,
  },
  {
    name: '38-etcd-restored',
    what: 'etcd loses all its volumes, and is made from its snapshot while the data path goes on',
    millisMax: 1_000_000,
    run: etcdRestored,
  },
  {
    name: '38-etcd-restored-older',
    what: 'etcd is made from a snapshot of before all nodes got other disks',
    millisMax: 1_000_000,
    run: etcdRestoredOlder,
  },
];
