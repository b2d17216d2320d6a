/**
 * What the operator and the database under it must do on a real Kubernetes. Each scenario starts
 * from what the ones before it left, and makes what is missing when it runs alone.
 */
import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { stringify } from 'yaml';
import {
  applyCluster,
  ask,
  clusterName,
  clusterReady,
  condition,
  deleteDefinitions,
  exampleCluster,
  installByHelm,
  installByManifests,
  namespace,
  operatorHome,
  operatorNamespace,
  startLoad,
  stopLoad,
  uninstallManifests,
} from './install.ts';
import { killProcesses, type Kube, loseMachine, say, waitFor } from './kube.ts';
import { listenersOf } from './ports.ts';

export interface Scenario {
  readonly name: string;
  readonly what: string;
  readonly millisMax: number;
  readonly run: (kube: Kube) => Promise<void>;
}

const root = join(import.meta.dirname, '..', '..');
const ownLabel = `tsdb.io/cluster=${clusterName}`;
const groups = ['zone-a', 'zone-b', 'zone-c'];
const claimNames = (perGroup: number): string[] =>
  groups.flatMap((group) =>
    Array.from({ length: perGroup }, (_, ordinal) => `data-${clusterName}-${group}-${ordinal}`),
  );

/** A cluster that is Ready, with writer and checker on it; how many nodes each group has. */
async function ensureCluster(kube: Kube): Promise<number> {
  if ((await operatorHome(kube)) === null) await installByManifests(kube);
  if ((await kube.get('tsdbcluster', clusterName, namespace)) === null) await applyCluster(kube);
  const cluster = await kube.get('tsdbcluster', clusterName, namespace);
  const perGroup: number = cluster.spec.nodes.replicasPerGroup;
  await clusterReady(kube, perGroup, 180_000);
  if ((await kube.get('pod', 'checker', namespace)) === null) await startLoad(kube);
  return perGroup;
}

/**
 * No answer lacked an acknowledged sample while it ran, and none lacks one now, from the first on.
 */
async function nothingIsMissing(kube: Kube, withoutChecksMillisMax: number): Promise<void> {
  const report = await ask(kube, 'checker', 'report');
  const status = await ask(kube, 'writer', 'status');
  say(`  writer ${JSON.stringify(status)}`);
  say(`  checker ${JSON.stringify(report)}`);
  assert.deepEqual(report.missing, [], 'every answer has every acknowledged sample');
  assert.equal(status.refused, 0, `nothing that was written is wrong: ${status.lastProblem}`);
  assert.ok(
    report.longestWithoutCheckMillis < withoutChecksMillisMax,
    `queries were answered at least every ${withoutChecksMillisMax} ms: ${JSON.stringify(report)}`,
  );
  await waitFor('full check answered', 60_000, async () => {
    const full = await ask(kube, 'checker', 'full');
    say(`  all samples: ${JSON.stringify(full)}`);
    assert.equal(full.samplesMissing, 0, full.missing.join('\n'));
    return full.samples > 0 ? null : 'no samples';
  });
}

/** Versions of the cluster and its sets: a settled operator writes nothing. */
async function nothingIsWritten(kube: Kube, millis: number): Promise<void> {
  const versions = async (): Promise<string> =>
    JSON.stringify(
      [
        await kube.get('tsdbcluster', clusterName, namespace),
        ...(await kube.list('statefulsets,deployments,services,configmaps', namespace, ownLabel)),
      ].map(({ metadata }) => [metadata.name, metadata.resourceVersion]),
    );
  const before = await versions();
  await delay(millis);
  assert.equal(await versions(), before, 'an operator that has nothing to do writes nothing');
}

async function leaderOf(kube: Kube): Promise<string> {
  const lease = await kube.get('lease', 'tsdb-operator', (await operatorHome(kube))!);
  return String(lease?.spec?.holderIdentity ?? '');
}

async function registeredNamespaces(kube: Kube): Promise<string[]> {
  const service = `/api/v1/namespaces/${namespace}/services/${clusterName}-coordinator:http/proxy`;
  const text = await kube.ok(['get', '--raw', `${service}/api/v1/services/tsdb/namespace`]);
  return Object.keys(JSON.parse(text).registry.namespaces).sort();
}

async function schema(kube: Kube): Promise<void> {
  await installByManifests(kube);
  for (const file of globSync(join(root, 'manifests/examples/*.yaml'))) {
    await kube.ok(['apply', '--dry-run=server', '-n', namespace, '-f', file]);
  }
  const refused = async (what: string, change: (spec: any) => void, expected: RegExp) => {
    const cluster = exampleCluster();
    change(cluster.spec);
    const args = ['apply', '--dry-run=server', '-n', namespace, '-f', '-'];
    const { code, output } = await kube.kubectl(args, stringify(cluster));
    assert.notEqual(code, 0, `${what} is refused`);
    assert.match(output, expected, what);
  };
  await refused(
    'a group less than copies',
    (spec) => spec.isolationGroups.pop(),
    /at least as many/,
  );
  await refused('two etcd members', (spec) => (spec.etcd.replicas = 2), /Unsupported value: 2/);
  for (const name of ['etcd', 'coordinator', 'nodes']) {
    const rename = (spec: any) => (spec.isolationGroups[0].name = name);
    await refused(`a group named ${name}`, rename, /names of other parts/);
  }
  const twice = (spec: any) => (spec.isolationGroups[1].name = 'zone-a');
  await refused('a group twice', twice, /Duplicate value/);
  const badDuration = (spec: any) => (spec.namespaces[0].retentionTime = '2 days');
  await refused('a bad duration', badDuration, /retentionTime/);
  await refused(
    'no node',
    (spec) => (spec.nodes.replicasPerGroup = 0),
    /greater than or equal to 1/,
  );
}

async function create(kube: Kube): Promise<void> {
  await installByManifests(kube);
  await applyCluster(kube);
  await clusterReady(kube, 1, 180_000);
  const immutable = async (patch: object, expected: RegExp) => {
    const args = ['patch', 'tsdbcluster', clusterName, '-n', namespace, '--type=merge'];
    const { code, output } = await kube.kubectl([...args, '-p', JSON.stringify(patch)]);
    assert.notEqual(code, 0);
    assert.match(output, expected);
  };
  await immutable({ spec: { numberOfShards: 128 } }, /numberOfShards is immutable/);
  await nothingIsWritten(kube, 5_000);
  await startLoad(kube);
  await delay(5_000);
  await nothingIsMissing(kube, 15_000);
  const logs = await kube.ok([
    ...['logs', '-n', operatorNamespace, '-l', 'app.kubernetes.io/name=tsdb-operator'],
    '--tail=-1',
  ]);
  assert.equal(logs.split('"placement-init"').length - 1, 1, 'the placement is initialised once');
  assert.doesNotMatch(logs, /[Ff]orbidden/, 'the rights of the manifests suffice');
}

async function scale(kube: Kube): Promise<void> {
  await ensureCluster(kube);
  await kube.ok(['scale', 'tsdbcluster', clusterName, '-n', namespace, '--replicas=2']);
  await clusterReady(kube, 2, 240_000);
  await nothingIsMissing(kube, 15_000);
}

async function kill(kube: Kube): Promise<void> {
  const perGroup = await ensureCluster(kube);
  const name = `${clusterName}-zone-b-0`;
  const before = await kube.get('pod', name, namespace);
  const version = await placementVersion(kube);
  const leader = await leaderOf(kube);
  const leaderPod = leader.slice(0, leader.lastIndexOf('_'));
  killProcesses(name);
  killProcesses(leaderPod);
  await kube.ok([
    ...['delete', 'pod', name, '-n', namespace],
    ...['--grace-period=0', '--force', '--wait=false'],
  ]);
  await waitFor('the pod is made again', 60_000, async () => {
    const pod = await kube.get('pod', name, namespace);
    return pod !== null && pod.metadata.uid !== before.metadata.uid ? null : 'the old one is there';
  });
  await waitFor('another process leads', 60_000, async () => {
    const holder = await leaderOf(kube);
    return holder !== '' && holder !== leader ? null : `the lease is held by ${holder}`;
  });
  await clusterReady(kube, perGroup, 120_000);
  await nothingIsMissing(kube, 30_000);
  assert.equal(await placementVersion(kube), version, 'a restart is no reason to move shards');
}

async function placementVersion(kube: Kube): Promise<number> {
  return (await kube.get('tsdbcluster', clusterName, namespace)).status.placementVersion;
}

async function namespaces(kube: Kube): Promise<void> {
  await ensureCluster(kube);
  const apply = (name: string, spec: object) =>
    kube.ok(
      ['apply', '-n', namespace, '-f', '-'],
      stringify({
        apiVersion: 'tsdb.io/v1alpha1',
        kind: 'TSDBNamespace',
        metadata: { name },
        spec: { clusterRef: { name: clusterName }, ...spec },
      }),
    );
  const ready = (name: string, status: string, reason: string) =>
    waitFor(`TSDBNamespace ${name} ${reason}`, 60_000, async () => {
      const one = condition(await kube.get('tsdbnamespace', name, namespace), 'Ready');
      return one?.status === status && one.reason === reason
        ? null
        : `${one?.reason}: ${one?.message}`;
    });
  await apply('long-term', { retentionTime: '30d', reclaimPolicy: 'Retain' });
  await apply('experiments', { retentionTime: '12h', reclaimPolicy: 'Delete' });
  await ready('long-term', 'True', 'NamespaceReady');
  await ready('experiments', 'True', 'NamespaceReady');
  await apply('copy', { name: 'experiments', reclaimPolicy: 'Delete' });
  await ready('copy', 'False', 'NameConflict');
  const remove = (name: string) =>
    kube.ok(['delete', 'tsdbnamespace', name, '-n', namespace, '--timeout=20s']);
  await remove('copy');
  assert.deepEqual(await registeredNamespaces(kube), ['default', 'experiments', 'long-term']);
  const args = ['patch', 'tsdbnamespace', 'long-term', '-n', namespace, '--type=merge'];
  const blockSize = await kube.kubectl([...args, '-p', '{"spec":{"blockSize":"4h"}}']);
  assert.match(blockSize.output, /blockSize is immutable/);
  await remove('long-term');
  await remove('experiments');
  await waitFor('Delete takes the namespace away, Retain leaves it', 30_000, async () => {
    const left = (await registeredNamespaces(kube)).join(', ');
    return left === 'default, long-term' ? null : left;
  });
}

const patchCluster = (kube: Kube, spec: object) =>
  kube.ok([
    ...['patch', 'tsdbcluster', clusterName, '-n', namespace, '--type=merge'],
    ...['-p', JSON.stringify({ spec })],
  ]);

/** All members of etcd vote, and have the same keys. */
async function etcdMembersAre(kube: Kube, count: number): Promise<void> {
  await waitFor(`${count} members of etcd`, 180_000, async () => {
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
    const exec = ['exec', '-n', namespace, `${clusterName}-etcd-0`, '--', ...command];
    const hashes = JSON.parse(await kube.ok(exec)).map(({ HashKV }: any) => HashKV.hash);
    const isSame = hashes.length === count && new Set(hashes).size === 1;
    return isSame ? null : hashes.join(', ');
  });
}

async function nodeUids(kube: Kube): Promise<string[]> {
  const pods = await kube.list('pods', namespace, `${ownLabel},tsdb.io/component=node`);
  return pods.map(({ metadata }) => String(metadata.uid)).toSorted((a, b) => (a < b ? -1 : 1));
}

/** A volume and its pod are gone, as with the machine that had them. */
async function loseVolume(kube: Kube, pod: string): Promise<void> {
  await kube.ok(['delete', 'pvc', `data-${pod}`, '-n', namespace, '--wait=false']);
  const args = ['delete', 'pod', pod, '-n', namespace, '--grace-period=0', '--force'];
  await kube.ok([...args, '--wait=false', '--ignore-not-found']);
}

async function etcd(kube: Kube): Promise<void> {
  const perGroup = await ensureCluster(kube);
  const before = await nodeUids(kube);
  await etcdMembersAre(kube, 3);
  await patchCluster(kube, { etcd: { replicas: 5 } });
  await etcdMembersAre(kube, 5);
  await patchCluster(kube, { etcd: { replicas: 3 } });
  await etcdMembersAre(kube, 3);
  await waitFor('volumes of those that left are gone', 30_000, async () => {
    const left = (await claims(kube)).filter((name) => name.includes('-etcd-')).join(', ');
    return left === [0, 1, 2].map((at) => `data-${clusterName}-etcd-${at}`).join(', ')
      ? null
      : left;
  });
  const { members } = (await kube.get('tsdbcluster', clusterName, namespace)).status.etcd;
  const leader = members.find((member: any) => member.leader);
  await loseVolume(kube, leader.name);
  await waitFor('another member in its place', 120_000, async () => {
    const { status } = await kube.get('tsdbcluster', clusterName, namespace);
    const now = status.etcd.members.find(({ name }: any) => name === leader.name);
    return now !== undefined && now.id !== leader.id ? null : JSON.stringify(now ?? null);
  });
  await etcdMembersAre(kube, 3);
  await clusterReady(kube, perGroup, 120_000);
  assert.deepEqual(await nodeUids(kube), before, 'no node is replaced for it');
  await nothingIsMissing(kube, 30_000);
}

async function etcdLost(kube: Kube): Promise<void> {
  const perGroup = await ensureCluster(kube);
  const before = await nodeUids(kube);
  const version = await placementVersion(kube);
  for (const at of [0, 1, 2]) await loseVolume(kube, `${clusterName}-etcd-${at}`);
  await waitFor('it is said that etcd is lost', 120_000, async () => {
    const stalled = condition(await kube.get('tsdbcluster', clusterName, namespace), 'Stalled');
    return stalled?.reason === 'EtcdLost' ? null : JSON.stringify(stalled ?? null);
  });
  const annotate = ['annotate', 'tsdbcluster', clusterName, '-n', namespace];
  await kube.ok([...annotate, 'tsdb.io/restore-etcd=empty']);
  await clusterReady(kube, perGroup, 240_000);
  const { metadata } = await kube.get('tsdbcluster', clusterName, namespace);
  assert.equal(metadata.annotations['tsdb.io/restore-etcd'], undefined, 'it is good for one loss');
  await etcdMembersAre(kube, 3);
  assert.ok((await placementVersion(kube)) > version);
  assert.deepEqual(await nodeUids(kube), before, 'no node is replaced for it');
  await nothingIsMissing(kube, 60_000);
}

const throughCoordinator = `/api/v1/namespaces/${namespace}/services/${clusterName}-coordinator:http/proxy`;

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

async function etcdRestored(kube: Kube): Promise<void> {
  const perGroup = await ensureCluster(kube);
  const snapshots = { schedule: '* * * * *', keep: 2, storage: { size: '1Gi' } };
  await patchCluster(kube, { etcd: { snapshots } });
  // Of what nodes do not know.
  const limit = { key: 'tsdb.node.max-outstanding-read-requests', value: 123_456, commit: true };
  const kvstore = ['create', '--raw', `${throughCoordinator}/api/v1/kvstore`, '-f', '-'];
  await kube.ok(kvstore, JSON.stringify(limit));
  await snapshotAfter(kube, await snapshotAfter(kube, ''));
  await patchCluster(kube, { etcd: { snapshots: { ...snapshots, schedule: '0 0 1 1 *' } } });
  // Of what the snapshot does not know.
  const later = { name: 'later', retentionTime: '24h' };
  const { spec } = await kube.get('tsdbcluster', clusterName, namespace);
  await patchCluster(kube, { namespaces: [...(spec.namespaces ?? []), later] });
  await clusterReady(kube, perGroup, 60_000);
  const before = await nodeUids(kube);
  const version = await placementVersion(kube);
  for (const at of [0, 1, 2]) await loseVolume(kube, `${clusterName}-etcd-${at}`);
  await waitFor('it is said that etcd is lost', 120_000, async () => {
    const stalled = condition(await kube.get('tsdbcluster', clusterName, namespace), 'Stalled');
    return stalled?.reason === 'EtcdLost' ? null : JSON.stringify(stalled ?? null);
  });
  const annotate = ['annotate', 'tsdbcluster', clusterName, '-n', namespace];
  await kube.ok([...annotate, 'tsdb.io/restore-etcd=latest']);
  await waitFor('what stood before stands again', 300_000, async () => {
    const cluster = await kube.get('tsdbcluster', clusterName, namespace);
    return (cluster.status.placementVersion ?? 0) > version
      ? null
      : `${condition(cluster, 'Ready')?.message}`;
  });
  await clusterReady(kube, perGroup, 240_000);
  await etcdMembersAre(kube, 3);
  assert.deepEqual(await nodeUids(kube), before, 'no node is replaced for it');
  assert.deepEqual(await registeredNamespaces(kube), ['default', 'later']);
  const stored = await kube.ok(kvstore, JSON.stringify({ ...limit, commit: false }));
  assert.match(stored, /123456/, 'what only etcd knew came with the snapshot');
  await nothingIsMissing(kube, 60_000);
}

async function diskLost(kube: Kube): Promise<void> {
  const perGroup = await ensureCluster(kube);
  const pod = `${clusterName}-zone-c-0`;
  const before = await kube.get('pvc', `data-${pod}`, namespace);
  await loseVolume(kube, pod);
  await waitFor('another volume', 60_000, async () => {
    const claim = await kube.get('pvc', `data-${pod}`, namespace);
    return claim !== null && claim.metadata.uid !== before.metadata.uid ? null : 'the old claim';
  });
  await clusterReady(kube, perGroup, 180_000);
  await nothingIsMissing(kube, 30_000);
}

async function machineLost(kube: Kube): Promise<void> {
  const perGroup = await ensureCluster(kube);
  await patchCluster(kube, { nodes: { replaceAfter: '20s' } });
  await clusterReady(kube, perGroup, 60_000);
  const name = `${clusterName}-zone-b-0`;
  const pod = await kube.get('pod', name, namespace);
  const claim = await kube.get('pvc', `data-${name}`, namespace);
  const version = await placementVersion(kube);
  await loseMachine(kube, pod.spec.nodeName);
  await waitFor('its volume is given up', 240_000, async () => {
    const now = await kube.get('pvc', `data-${name}`, namespace);
    const cluster = await kube.get('tsdbcluster', clusterName, namespace);
    assert.notEqual(condition(cluster, 'Available')?.status, 'False', 'the data path goes on');
    return now !== null && now.metadata.uid !== claim.metadata.uid
      ? null
      : `${condition(cluster, 'Ready')?.message}`;
  });
  await clusterReady(kube, perGroup, 240_000);
  assert.ok((await placementVersion(kube)) > version, 'its shards were filled again');
  await nothingIsMissing(kube, 60_000);
}

async function ports(kube: Kube): Promise<void> {
  await ensureCluster(kube);
  const expected: Record<string, string[]> = {
    node: ['any:9000', 'any:9001', 'any:9002', 'any:9003', 'any:9005', 'loopback:9004'],
    coordinator: ['any:7201', 'any:7203'],
    etcd: ['any:2379', 'any:2380'],
  };
  for (const { metadata, status } of await kube.list('pods', namespace, ownLabel)) {
    if (status.phase === 'Succeeded') continue;
    const component: string = metadata.labels['tsdb.io/component'];
    const listeners = listenersOf(metadata.name);
    say(`  ${metadata.name}: ${listeners.join(' ')}`);
    assert.deepEqual(listeners, expected[component] ?? [], metadata.name);
  }
  for (const { metadata } of await kube.list(
    'pods',
    (await operatorHome(kube))!,
    'app.kubernetes.io/name=tsdb-operator',
  )) {
    assert.deepEqual(listenersOf(metadata.name), ['any:8080'], metadata.name);
  }
}

async function remaining(kube: Kube): Promise<string[]> {
  const kinds = 'statefulsets,deployments,pods,services,configmaps,poddisruptionbudgets';
  const objects = await kube.list(kinds, namespace, `${ownLabel},tsdb.io/component!=record`);
  return objects.map(({ kind, metadata }) => `${kind}/${metadata.name}`);
}

async function claims(kube: Kube): Promise<string[]> {
  const objects = await kube.list('persistentvolumeclaims', namespace, ownLabel);
  return objects.map(({ metadata }) => String(metadata.name)).sort();
}

async function removeCluster(kube: Kube, claimsLeft: readonly string[]): Promise<void> {
  await kube.ok(['delete', 'tsdbcluster', clusterName, '-n', namespace, '--wait=false']);
  await waitFor('cluster gone', 120_000, async () => {
    const cluster = await kube.get('tsdbcluster', clusterName, namespace);
    const left = [...(cluster === null ? [] : ['the TSDBCluster']), ...(await remaining(kube))];
    const kept = await claims(kube);
    const extra = kept.filter((name) => !claimsLeft.includes(name));
    return left.length + extra.length === 0 ? null : [...left, ...extra].join(' ');
  });
  assert.deepEqual(await claims(kube), claimsLeft, 'volumes stay as the policy says');
}

async function remove(kube: Kube): Promise<void> {
  const perGroup = await ensureCluster(kube);
  // Queries read the namespace of longest retention, which has nothing of before it was made.
  await stopLoad(kube);
  await startLoad(kube);
  await delay(10_000);
  await removeCluster(kube, claimNames(perGroup));
  // The writer goes on trying, and the checker knows what was acknowledged before.
  await applyCluster(kube);
  await clusterReady(kube, 1, 300_000);
  await nothingIsMissing(kube, 300_000);
  await stopLoad(kube);
  await removeCluster(kube, claimNames(1));
  await kube.ok(['delete', 'pvc,configmap', '-n', namespace, '-l', ownLabel, '--timeout=20s']);
}

async function helm(kube: Kube): Promise<void> {
  if ((await kube.get('tsdbcluster', clusterName, namespace)) !== null) await remove(kube);
  await uninstallManifests(kube);
  // A release that brings a cluster installs on a Kubernetes that has never heard of one.
  await deleteDefinitions(kube);
  const { spec } = exampleCluster();
  const deletionPolicy = { data: 'Delete', metadata: 'Delete' };
  await installByHelm(kube, { ...spec, deletionPolicy });
  await clusterReady(kube, 1, 180_000);
  await startLoad(kube);
  await scale(kube);
  await kill(kube);
  await namespaces(kube);
  await stopLoad(kube);
  await removeCluster(kube, []);
  await kube.helm(['uninstall', 'tsdb', '--namespace', namespace, '--wait', '--timeout', '60s']);
  const kinds = 'deployments,serviceaccounts,roles,rolebindings';
  const left = await kube.list(kinds, namespace, 'app.kubernetes.io/instance=tsdb');
  assert.deepEqual(left, [], 'nothing of the release is left');
}

export const scenarios: readonly Scenario[] = [
  { name: 'schema', what: 'bad resources are refused by name', millisMax: 90_000, run: schema },
  {
    name: 'create',
    what: 'one resource becomes a cluster that serves, and the operator rests',
    millisMax: 300_000,
    run: create,
  },
  {
    name: 'scale',
    what: 'kubectl scale 1 → 2 in each group, answers whole throughout',
    millisMax: 300_000,
    run: scale,
  },
  {
    name: 'kill',
    what: 'a storage pod and the leading operator die together, nothing acknowledged is lost',
    millisMax: 240_000,
    run: kill,
  },
  {
    name: 'etcd',
    what: 'members of etcd come and go, and one is replaced that has lost its volume',
    millisMax: 600_000,
    run: etcd,
  },
  {
    name: 'etcd-lost',
    what: 'etcd loses all its volumes, and gets back what the nodes know',
    millisMax: 600_000,
    run: etcdLost,
  },
  {
    name: 'etcd-restored',
    what: 'etcd loses all its volumes, and is made from its snapshot while the data path goes on',
    millisMax: 900_000,
    run: etcdRestored,
  },
  {
    name: 'disk-lost',
    what: 'a node loses its disk, and is filled again from the others',
    millisMax: 300_000,
    run: diskLost,
  },
  {
    name: 'machine-lost',
    what: 'a machine is gone for good, and what it had is made anew elsewhere',
    millisMax: 600_000,
    run: machineLost,
  },
  {
    name: 'ports',
    what: 'each process listens where the table of docs/OPERATOR.md says',
    millisMax: 300_000,
    run: ports,
  },
  {
    name: 'namespace',
    what: 'TSDBNamespace: ready, conflict, Retain and Delete',
    millisMax: 180_000,
    run: namespaces,
  },
  {
    name: 'delete',
    what: 'the resource goes with all but what the policy keeps, and comes back with its data',
    millisMax: 600_000,
    run: remove,
  },
  {
    name: 'helm',
    what: 'all again from the chart: create, scale, kill, namespaces, delete',
    millisMax: 600_000,
    run: helm,
  },
];

/** @throws when the scenario fails or does not end in its time */
export async function runScenario(scenario: Scenario, kube: Kube): Promise<void> {
  const timer = new AbortController();
  const late = delay(scenario.millisMax, null, { signal: timer.signal }).then(() => {
    throw new Error(`not done after ${scenario.millisMax / 1000} s`);
  });
  // Not waited for when the scenario ends first.
  late.catch(() => {});
  try {
    await Promise.race([scenario.run(kube), late]);
  } finally {
    timer.abort();
  }
}
