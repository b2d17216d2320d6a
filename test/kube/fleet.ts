/**
 * Many clusters under one operator while people and machines do what they do: edits, deletions, kills,
 * drains, a Kubernetes that does not answer, another version of the operator in and back. Some clusters
 * nobody touches: nothing of them may change. At the end every cluster is as its resource asks for and
 * has every acknowledged sample.
 * `node test/kube/fleet.ts --minutes 30 --seed 1`
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { stringify } from 'yaml';
import { toolOptions } from '../command_line.ts';
import { SeededRandom } from '../seeded_random.ts';
import { exampleCluster, installByManifests, namespace, operatorNamespace } from './install.ts';
import {
  bringUp,
  collectLogs,
  condition,
  home,
  type Kube,
  say,
  seconds,
  versionDefault,
  waitFor,
} from './kube.ts';

import { killProcesses, processesOf } from './machines.ts';

const values = toolOptions(
  `node test/kube/fleet.ts [options]: many clusters under one operator
  --minutes N        of edits and faults; 30 when not given
  --seed N           of what happens; 1 when not given
  --small N          clusters of one node; 20 when not given
  --full N           clusters of three nodes; 3 when not given
  --other-tag TAG    of an image of the operator that is rolled in and back in the middle; none when not given
  --version X.Y.Z    of Kubernetes; ${versionDefault} when not given
  --keep             use a Kubernetes that is up, and leave it up`,
  {
    minutes: { type: 'string', default: '30' },
    seed: { type: 'string', default: '1' },
    small: { type: 'string', default: '20' },
    full: { type: 'string', default: '3' },
    'other-tag': { type: 'string', default: '' },
    version: { type: 'string', default: versionDefault },
    keep: { type: 'boolean', default: false },
  },
);
const metric = 'fleet_sample';
const source = new SeededRandom(Number(values.seed));
/** A whole number in [0, below). */
const random = (below: number): number => source.u32() % below;
const one = <T>(items: readonly T[]): T => items[random(items.length)]!;

interface Member {
  readonly name: string;
  readonly isFull: boolean;
  /** Nobody does anything to it. */
  readonly isLeftAlone: boolean;
  spec: any;
  /** Whether its resource is there. */
  isThere: boolean;
  /** Millisecond timestamps of acknowledged samples; the value is the place in the list. */
  readonly acknowledged: number[];
  readonly refused: string[];
}

const members: Member[] = [];
const history: string[] = [];
const did = (text: string): void => {
  history.push(text);
  say(`  ${text}`);
};

function smallSpec(): any {
  return {
    replicationFactor: 1,
    numberOfShards: 4,
    nodes: { replicasPerGroup: 1, replaceAfter: '2m', storage: { size: '1Gi' } },
    isolationGroups: [{ name: 'a' }],
    etcd: { replicas: 1, storage: { size: '1Gi' } },
    coordinator: { replicas: 1 },
    namespaces: [{ name: 'default', retentionTime: '48h' }],
    deletionPolicy: { data: 'Retain', metadata: 'Delete' },
  };
}

function fullSpec(): any {
  const { spec } = exampleCluster();
  return { ...spec, nodes: { ...spec['nodes'], replaceAfter: '2m', storage: { size: '1Gi' } } };
}

const resourceOf = ({ name, spec }: Member): string =>
  stringify({ apiVersion: 'tsdb.io/v1alpha1', kind: 'TSDBCluster', metadata: { name }, spec });

async function apply(kube: Kube, member: Member): Promise<void> {
  await kube.ok(['apply', '-n', namespace, '-f', '-'], resourceOf(member));
  member.isThere = true;
}

const stop = new AbortController();

/** One sample every two seconds, again and again until it is acknowledged. */
async function write(kube: Kube, member: Member): Promise<void> {
  let address = '';
  while (!stop.signal.aborted) {
    const millis = Date.now();
    const sample = {
      tags: { __name__: metric },
      timestamp: (millis / 1000).toFixed(3),
      value: member.acknowledged.length,
    };
    const retryUntil = Date.now() + 20_000;
    for (let isDone = false; !isDone && Date.now() < retryUntil && !stop.signal.aborted; ) {
      try {
        address = address === '' ? await addressOf(kube, member) : address;
        const response = await fetch(`http://${address}:7201/api/v1/json/write`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(sample),
          signal: AbortSignal.timeout(5_000),
        });
        const text = await response.text();
        isDone = response.ok;
        if (isDone) member.acknowledged.push(millis);
        else if (response.status < 500 && response.status !== 429) {
          member.refused.push(`${response.status} ${text.slice(0, 200)}`);
          isDone = true;
        }
      } catch {
        // A coordinator that is made again has another address.
        address = '';
      }
      if (!isDone) await delay(1_000);
    }
    await delay(2_000);
  }
}

async function addressOf(kube: Kube, { name }: Member): Promise<string> {
  const service = await kube.get('service', `${name}-coordinator`, namespace);
  if (service === null) throw new Error('no Service');
  return service.spec.clusterIP;
}

async function nothingIsMissing(kube: Kube, member: Member): Promise<string | null> {
  const address = await addressOf(kube, member);
  const query = new URLSearchParams({ query: `${metric}[6h]` });
  const response = await fetch(`http://${address}:7201/api/v1/query?${query}`, {
    signal: AbortSignal.timeout(20_000),
  });
  const text = await response.text();
  if (!response.ok) return `${member.name}: ${response.status} ${text.slice(0, 200)}`;
  const { data } = JSON.parse(text);
  const found = new Map<number, number>(
    (data.result[0]?.values ?? []).map(([at, value]: [number, string]) => [
      Math.round(at * 1000),
      Number(value),
    ]),
  );
  const missing = member.acknowledged.filter((millis, at) => found.get(millis) !== at);
  return missing.length === 0
    ? null
    : `${member.name}: ${missing.length} of ${member.acknowledged.length} acknowledged samples are missing or wrong, the first of ${new Date(missing[0]!).toISOString()}`;
}

async function patch(kube: Kube, member: Member, change: object, what: string): Promise<void> {
  const args = ['patch', 'tsdbcluster', member.name, '-n', namespace, '--type=merge'];
  const { code, output } = await kube.kubectl([...args, '-p', JSON.stringify({ spec: change })]);
  did(`${member.name}: ${what}${code === 0 ? '' : ` (refused: ${output.trim().slice(0, 120)})`}`);
}

async function someEdit(kube: Kube, member: Member): Promise<void> {
  const edits: (() => Promise<void>)[] = [
    () => {
      const cpu = one(['10m', '20m', '30m']);
      return patch(kube, member, { nodes: { resources: { requests: { cpu } } } }, `cpu ${cpu}`);
    },
    () => {
      const resources = { requests: { memory: '1Giga' } };
      return patch(kube, member, { coordinator: { resources } }, 'a bad quantity');
    },
    () => patch(kube, member, { coordinator: { resources: null } }, 'no quantities'),
    () =>
      patch(kube, member, { nodes: { image: 'localhost/none:1' } }, 'an image that is not there'),
    () => patch(kube, member, { nodes: { image: null } }, 'the image of before'),
    () => patch(kube, member, { paused: true }, 'paused'),
    () => patch(kube, member, { paused: false }, 'not paused'),
    () => patch(kube, member, { updatePolicy: one(['Gated', 'Automatic']) }, 'update policy'),
    () => patch(kube, member, { nodes: { storage: { size: one(['1Gi', '2Gi']) } } }, 'volumes'),
    () => patch(kube, member, { coordinator: { replicas: one([1, 2]) } }, 'coordinators'),
    () => patch(kube, member, { numberOfShards: 128 }, 'what cannot change'),
    () => {
      const namespaces = [...smallSpec().namespaces, { name: 'more', retentionTime: '24h' }];
      return patch(kube, member, { namespaces }, 'one more namespace');
    },
  ];
  if (member.isFull) {
    const replicas = one([1, 3, 5]);
    const replicasPerGroup = one([1, 2]);
    edits.push(
      () => patch(kube, member, { etcd: { replicas } }, `${replicas} members of etcd`),
      () => patch(kube, member, { nodes: { replicasPerGroup } }, `${replicasPerGroup} a group`),
    );
  }
  await one(edits)();
}

async function podsOf(kube: Kube, { name }: Member): Promise<any[]> {
  return kube.list('pods', namespace, `tsdb.io/cluster=${name}`);
}

async function someFault(kube: Kube, touched: readonly Member[]): Promise<void> {
  const member = one(touched);
  const dice = random(20);
  if (dice < 9) {
    if (member.isThere) await someEdit(kube, member);
  } else if (dice < 12) {
    const pods = await podsOf(kube, member);
    const running = pods.filter(({ status }) => status.phase === 'Running');
    if (running.length === 0) return;
    const pod: string = one(running).metadata.name;
    if (random(2) === 0) {
      did(`${pod} is killed`);
      if (processesOf(pod).length > 0) killProcesses(pod);
    } else {
      did(`${pod} is deleted`);
      await kube.kubectl(['delete', 'pod', pod, '-n', namespace, '--wait=false']);
    }
  } else if (dice < 14) {
    const kind = one(['service', 'statefulset', 'deployment', 'configmap', 'poddisruptionbudget']);
    const objects = await kube.list(
      kind,
      namespace,
      `tsdb.io/cluster=${member.name},tsdb.io/component!=record`,
    );
    if (objects.length === 0) return;
    const { name } = one(objects).metadata;
    did(`${kind} ${name} is deleted`);
    await kube.kubectl(['delete', kind, name, '-n', namespace, '--wait=false']);
  } else if (dice < 16) {
    if (member.isThere) {
      did(`${member.name} is deleted`);
      const args = ['delete', 'tsdbcluster', member.name, '-n', namespace, '--wait=false'];
      await kube.kubectl(args);
      member.isThere = false;
    } else {
      did(`${member.name} comes back`);
      await apply(kube, member);
    }
  } else if (dice < 17) {
    await drain(kube, touched);
  } else if (dice < 18) {
    const pods = await kube.list('pods', operatorNamespace, 'app.kubernetes.io/name=tsdb-operator');
    const pod: string = one(pods).metadata.name;
    did(`${pod} is killed`);
    if (processesOf(pod).length > 0) killProcesses(pod);
  } else await stopServer();
}

async function drain(kube: Kube, touched: readonly Member[]): Promise<void> {
  const machine = one(['node1', 'node2', 'node3', 'node4']);
  did(`${machine} is drained`);
  const args = ['drain', machine, '--ignore-daemonsets', '--delete-emptydir-data', '--timeout=20s'];
  const list = touched.map(({ name }) => name).join(', ');
  await kube.kubectl([...args, `--pod-selector=tsdb.io/cluster in (${list})`]);
  await kube.kubectl(['uncordon', machine]);
}

/** Kubernetes does not answer, and its watches hang. */
async function stopServer(): Promise<void> {
  const pid = Number(readFileSync(`${home}/run/apiserver.pid`, 'utf8'));
  const millis = 2_000 + random(13_000);
  did(`the API server is stopped for ${millis} ms`);
  process.kill(pid, 'SIGSTOP');
  await delay(millis);
  process.kill(pid, 'SIGCONT');
}

interface Sample {
  readonly pod: string;
  readonly residentMiB: number;
  readonly requests: number;
  readonly isLeader: boolean;
}

/** Of each process of the operator: its memory, and what it has asked Kubernetes. */
async function operatorSamples(kube: Kube): Promise<Sample[]> {
  const pods = await kube.list('pods', operatorNamespace, 'app.kubernetes.io/name=tsdb-operator');
  const samples: Sample[] = [];
  for (const { metadata, status } of pods) {
    try {
      const response = await fetch(`http://${status.podIP}:8080/metrics`, {
        signal: AbortSignal.timeout(5_000),
      });
      const text = await response.text();
      const sum = (name: string): number =>
        [...text.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? ([0-9.e+]+)$`, 'gm'))]
          .map(([, value]) => Number(value))
          .reduce((total, value) => total + value, 0);
      samples.push({
        pod: metadata.name,
        residentMiB: Math.round(sum('process_resident_memory_bytes') / 2 ** 20),
        requests: sum('tsdb_operator_kubernetes_requests_total'),
        isLeader: sum('tsdb_operator_leader') === 1,
      });
    } catch {
      // It starts.
    }
  }
  return samples;
}

async function watchOperator(kube: Kube): Promise<void> {
  let before = new Map<string, number>();
  while (!stop.signal.aborted) {
    await delay(60_000, null, { signal: stop.signal }).catch(() => {});
    const samples = await operatorSamples(kube).catch(() => []);
    for (const { pod, residentMiB, requests, isLeader } of samples) {
      const since = requests - (before.get(pod) ?? 0);
      say(`  ${pod}${isLeader ? ' (leads)' : ''}: ${residentMiB} MiB, ${since} requests a minute`);
    }
    before = new Map(samples.map(({ pod, requests }) => [pod, requests]));
  }
}

async function setOperatorTag(kube: Kube, tag: string): Promise<void> {
  did(`the operator is of the images ${tag}`);
  const image = `operator=localhost/tsdb-operator:${tag}`;
  await kube.kubectl(['set', 'image', 'deployment/tsdb-operator', image, '-n', operatorNamespace]);
}

/** Pods of the clusters that nobody touches, and versions of their placements. */
async function unchanged(kube: Kube, alone: readonly Member[]): Promise<string> {
  const lines: string[] = [];
  for (const member of alone) {
    const pods = await podsOf(kube, member);
    const { status } = await kube.get('tsdbcluster', member.name, namespace);
    const uids = pods.map(({ metadata }) => `${metadata.name} ${metadata.uid}`).sort();
    lines.push(`${member.name} placement ${status.placementVersion}`, ...uids);
  }
  return lines.join('\n');
}

async function allReady(kube: Kube, millisMax: number): Promise<void> {
  await waitFor(`${members.length} clusters ready`, millisMax, async () => {
    const clusters = await kube.list('tsdbclusters', namespace);
    const waiting = clusters.flatMap((cluster) => {
      const ready = condition(cluster, 'Ready');
      const isNew = cluster.status?.observedGeneration !== cluster.metadata.generation;
      if (ready?.status === 'True' && !isNew) return [];
      return [`${cluster.metadata.name}: ${isNew ? 'older generation; ' : ''}${ready?.message}`];
    });
    if (clusters.length < members.length) return `${clusters.length} clusters`;
    return waiting.length === 0 ? null : `${waiting.length} are not: ${waiting[0]}`;
  });
}

async function main(kube: Kube): Promise<void> {
  await installByManifests(kube);
  const count = Number(values.small) + Number(values.full);
  for (let at = 0; at < count; at++) {
    const isFull = at < Number(values.full);
    const spec = isFull ? fullSpec() : smallSpec();
    const name = `${isFull ? 'full' : 'small'}-${at}`;
    members.push({
      name,
      isFull,
      isLeftAlone: !isFull && at >= count - 4,
      spec,
      isThere: false,
      acknowledged: [],
      refused: [],
    });
  }
  const begun = Date.now();
  for (const member of members) await apply(kube, member);
  await allReady(kube, 900_000);
  say(`${count} clusters are ready after ${seconds(begun)}`);
  const writers = members.map((member) => write(kube, member));
  const watching = watchOperator(kube);
  await delay(10_000);
  const alone = members.filter(({ isLeftAlone }) => isLeftAlone);
  const touched = members.filter(({ isLeftAlone }) => !isLeftAlone);
  const before = await unchanged(kube, alone);
  const started = Date.now();
  const millis = Number(values.minutes) * 60_000;
  const other = values['other-tag'];
  const rolls =
    other === ''
      ? []
      : [
          { at: millis / 3, tag: other },
          { at: (millis * 2) / 3, tag: process.env['TSDB_IMAGE_TAG'] ?? 'test' },
        ];
  while (Date.now() - started < millis) {
    if (rolls.length > 0 && Date.now() - started > rolls[0]!.at) {
      await setOperatorTag(kube, rolls.shift()!.tag);
    }
    await someFault(kube, touched).catch((error: Error) => say(`  failed: ${error.message}`));
    await delay(1_000 + random(6_000));
  }
  say('all is well again');
  for (const { tag } of rolls) await setOperatorTag(kube, tag);
  for (const member of touched) {
    if (!member.isThere) await apply(kube, member);
    // Volumes that have grown cannot shrink.
    const storage = { ...member.spec.nodes.storage, size: '2Gi' };
    const spec = { ...member.spec, nodes: { ...member.spec.nodes, storage } };
    const patch = JSON.stringify([{ op: 'replace', path: '/spec', value: spec }]);
    const args = ['patch', 'tsdbcluster', member.name, '-n', namespace, '--type=json'];
    await kube.ok([...args, '-p', patch]);
  }
  await allReady(kube, 900_000);
  stop.abort();
  await Promise.all([...writers, watching]);
  const problems: string[] = [];
  if ((await unchanged(kube, alone)) !== before) {
    problems.push(
      `what nobody touched has changed:\n${before}\n---\n${await unchanged(kube, alone)}`,
    );
  }
  for (const member of members) {
    await waitFor(`samples of ${member.name}`, 60_000, async () => {
      const problem = await nothingIsMissing(kube, member);
      return problem?.includes('missing or wrong') === true ? null : problem;
    });
    const missing = await nothingIsMissing(kube, member);
    if (missing !== null) problems.push(missing);
    if (member.refused.length > 0) problems.push(`${member.name}: ${member.refused[0]}`);
  }
  const total = members.reduce((sum, { acknowledged }) => sum + acknowledged.length, 0);
  say(`${history.length} edits and faults, ${total} samples acknowledged`);
  assert.deepEqual(problems, []);
}

const kube = await bringUp(values.version, values.keep);
try {
  await main(kube);
  say('ok');
} catch (error) {
  say(`not ok: ${(error as Error).stack}`);
  await collectLogs(kube, '/tmp/tsdb-fleet');
  process.exitCode = 1;
} finally {
  stop.abort();
  if (!values.keep) await kube.down();
}
