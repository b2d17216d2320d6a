/**
 * Many clusters under one operator while people and machines do what they do: edits, deletions, kills,
 * drains, a Kubernetes that does not answer, another version of the operator in and back. Some clusters
 * nobody touches: nothing of them may change. At the end every cluster is as its resource asks for and
 * has every acknowledged sample.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { stringify } from 'yaml';
import { SeededRandom } from '../../seeded_random.ts';
import { exampleCluster, installByManifests, namespace, operatorNamespace } from '../install.ts';
import { condition, home, type Kube, say, seconds, waitFor } from '../kube.ts';
import { killProcesses, processesOf } from '../machines.ts';
import { type Ending, removeCluster, type Scenario, type Stage } from './scenario.ts';

const minutes = Number(process.env['TSDB_SOAK_MINUTES'] ?? '30');
const seed = Number(process.env['TSDB_SOAK_SEED'] ?? '1');
/** Clusters of one node. */
const smallCount = Number(process.env['TSDB_SOAK_SMALL'] ?? '20');
/** Clusters of three nodes. */
const fullCount = Number(process.env['TSDB_SOAK_FULL'] ?? '3');
/** Of an image of the operator that is rolled in and back in the middle; '' for none. */
const otherTag = process.env['TSDB_SOAK_OTHER_TAG'] ?? '';
const leftAloneCount = 4;
const metric = 'soak_sample';
/** Of the leading operator at its end, against a quarter of the time in. */
const memoryGrowthMax = 1.5;

interface Member {
  readonly name: string;
  readonly isFull: boolean;
  /** Nobody does anything to it. */
  readonly isLeftAlone: boolean;
  readonly spec: any;
  /** Whether its resource is there. */
  isThere: boolean;
  /** Millisecond timestamps of acknowledged samples; the value is the place in the list. */
  readonly acknowledged: number[];
  readonly refused: string[];
}

function memberOf(at: number): Member {
  const isFull = at < fullCount;
  return {
    name: `${isFull ? 'full' : 'small'}-${at}`,
    isFull,
    isLeftAlone: !isFull && at >= fullCount + smallCount - leftAloneCount,
    spec: isFull ? fullSpec() : smallSpec(),
    isThere: false,
    acknowledged: [],
    refused: [],
  };
}

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

class Fleet {
  readonly #kube: Kube;
  readonly #members = Array.from({ length: fullCount + smallCount }, (_, at) => memberOf(at));
  readonly #source = new SeededRandom(seed);
  readonly #stop = new AbortController();
  /** Edits and faults. */
  #steps = 0;
  /** Resident memory of the operator that leads, a minute apart. */
  readonly #memoriesMiB: number[] = [];

  constructor(kube: Kube) {
    this.#kube = kube;
  }

  get #touched(): readonly Member[] {
    return this.#members.filter(({ isLeftAlone }) => !isLeftAlone);
  }

  /** A whole number in [0, below). */
  #random(below: number): number {
    return this.#source.u32() % below;
  }

  #one<T>(items: readonly T[]): T {
    return items[this.#random(items.length)]!;
  }

  #did(text: string): void {
    this.#steps++;
    say(`  ${text}`);
  }

  async run(): Promise<void> {
    const begun = Date.now();
    for (const member of this.#members) await this.#apply(member);
    await this.#allReady();
    say(`${this.#members.length} clusters are ready after ${seconds(begun)}`);
    const writing = this.#members.map((member) => this.#write(member));
    const watching = this.#watchOperator();
    try {
      await delay(10_000);
      const before = await this.#leftAlone();
      await this.#disturb();
      say(`all is well again, after ${this.#steps} edits and faults`);
      for (const member of this.#touched) await this.#mend(member);
      await this.#allReady();
      this.#stop.abort();
      await Promise.all([...writing, watching]);
      assert.equal(await this.#leftAlone(), before, 'what nobody touched stays as it is');
      await this.#nothingIsMissing();
    } finally {
      this.#stop.abort();
    }
    this.#memoryStays();
    for (const { name } of this.#members) await removeCluster(this.#kube, name);
  }

  async #apply(member: Member): Promise<void> {
    const { name, spec } = member;
    const resource = {
      apiVersion: 'tsdb.io/v1alpha1',
      kind: 'TSDBCluster',
      metadata: { name },
      spec,
    };
    await this.#kube.ok(['apply', '-n', namespace, '-f', '-'], stringify(resource));
    member.isThere = true;
  }

  async #allReady(): Promise<void> {
    await waitFor(`${this.#members.length} clusters ready`, 1_200_000, async () => {
      const clusters = await this.#kube.list('tsdbclusters', namespace);
      const waiting = clusters.flatMap((cluster) => {
        const ready = condition(cluster, 'Ready');
        const isNew = cluster.status?.observedGeneration !== cluster.metadata.generation;
        if (ready?.status === 'True' && !isNew) return [];
        return [`${cluster.metadata.name}: ${isNew ? 'older generation; ' : ''}${ready?.message}`];
      });
      if (clusters.length < this.#members.length) return `${clusters.length} clusters`;
      return waiting.length === 0 ? null : `${waiting.length} are not: ${waiting[0]}`;
    });
  }

  /** One sample every two seconds, each again and again until it is acknowledged, for 20 s at most. */
  async #write(member: Member): Promise<void> {
    const { signal } = this.#stop;
    let address = '';
    while (!signal.aborted) {
      const millis = Date.now();
      const sample = {
        tags: { __name__: metric },
        timestamp: (millis / 1000).toFixed(3),
        value: member.acknowledged.length,
      };
      const retryUntil = Date.now() + 20_000;
      for (let isDone = false; !isDone && Date.now() < retryUntil && !signal.aborted; ) {
        try {
          if (address === '') address = await this.#addressOf(member);
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

  async #addressOf({ name }: Member): Promise<string> {
    const service = await this.#kube.get('service', `${name}-coordinator`, namespace);
    if (service === null) throw new Error(`${name} has no Service`);
    return service.spec.clusterIP;
  }

  async #nothingIsMissing(): Promise<void> {
    const problems: string[] = [];
    for (const member of this.#members) {
      let missing: string | null = '';
      await waitFor(`samples of ${member.name}`, 60_000, async () => {
        missing = await this.#missingOf(member);
        return null;
      });
      if (missing !== null) problems.push(missing);
      if (member.refused.length > 0) problems.push(`${member.name}: ${member.refused[0]}`);
    }
    const total = this.#members.reduce((sum, { acknowledged }) => sum + acknowledged.length, 0);
    say(`${total} samples were acknowledged`);
    assert.deepEqual(problems, []);
  }

  /** @throws when the query is not answered */
  async #missingOf(member: Member): Promise<string | null> {
    const query = new URLSearchParams({ query: `${metric}[6h]` });
    const address = await this.#addressOf(member);
    const response = await fetch(`http://${address}:7201/api/v1/query?${query}`, {
      signal: AbortSignal.timeout(20_000),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${response.status} ${text.slice(0, 200)}`);
    const found = new Map<number, number>(
      (JSON.parse(text).data.result[0]?.values ?? []).map(([at, value]: [number, string]) => [
        Math.round(at * 1000),
        Number(value),
      ]),
    );
    const { name, acknowledged } = member;
    const missing = acknowledged.filter((millis, at) => found.get(millis) !== at);
    if (missing.length === 0) return null;
    return `${name}: ${missing.length} of ${acknowledged.length} acknowledged samples are missing or wrong, the first of ${new Date(missing[0]!).toISOString()}`;
  }

  async #disturb(): Promise<void> {
    const started = Date.now();
    const millis = minutes * 60_000;
    const own = process.env['TSDB_IMAGE_TAG'] ?? 'test';
    const rolls =
      otherTag === ''
        ? []
        : [
            { at: millis / 3, tag: otherTag },
            { at: (millis * 2) / 3, tag: own },
          ];
    while (Date.now() - started < millis) {
      if (rolls.length > 0 && Date.now() - started > rolls[0]!.at) {
        await this.#setOperator(rolls.shift()!.tag);
      }
      await this.#someStep().catch((error: Error) => say(`  failed: ${error.message}`));
      await delay(1_000 + this.#random(6_000));
    }
    for (const { tag } of rolls) await this.#setOperator(tag);
  }

  async #someStep(): Promise<void> {
    const member = this.#one(this.#touched);
    const dice = this.#random(20);
    if (dice < 9) {
      if (member.isThere) await this.#edit(member);
    } else if (dice < 12) await this.#endPod(member);
    else if (dice < 14) await this.#deleteChild(member);
    else if (dice < 16) await this.#comeOrGo(member);
    else if (dice < 17) await this.#drain();
    else if (dice < 18) await this.#killOperator();
    else await this.#stopServer();
  }

  async #edit(member: Member): Promise<void> {
    const cpu = this.#one(['10m', '20m', '30m']);
    const updatePolicy = this.#one(['Gated', 'Automatic']);
    const size = this.#one(['1Gi', '2Gi']);
    const namespaces = [...smallSpec().namespaces, { name: 'more', retentionTime: '24h' }];
    const edits: [string, object][] = [
      [`cpu ${cpu}`, { nodes: { resources: { requests: { cpu } } } }],
      ['a bad quantity', { coordinator: { resources: { requests: { memory: '1Giga' } } } }],
      ['no quantities', { coordinator: { resources: null } }],
      ['an image that is not there', { nodes: { image: 'localhost/none:1' } }],
      ['the image of before', { nodes: { image: null } }],
      ['paused', { paused: true }],
      ['not paused', { paused: false }],
      [updatePolicy, { updatePolicy }],
      [`volumes of ${size}`, { nodes: { storage: { size } } }],
      ['coordinators', { coordinator: { replicas: this.#one([1, 2]) } }],
      ['what cannot change', { numberOfShards: 128 }],
      ['one more namespace', { namespaces }],
    ];
    if (member.isFull) {
      const replicas = this.#one([1, 3, 5]);
      const replicasPerGroup = this.#one([1, 2]);
      edits.push(
        [`${replicas} members of etcd`, { etcd: { replicas } }],
        [`${replicasPerGroup} a group`, { nodes: { replicasPerGroup } }],
      );
    }
    const [what, spec] = this.#one(edits);
    const args = ['patch', 'tsdbcluster', member.name, '-n', namespace, '--type=merge'];
    const { code, output } = await this.#kube.kubectl([...args, '-p', JSON.stringify({ spec })]);
    const answer = code === 0 ? '' : ` (refused: ${output.trim().slice(0, 120)})`;
    this.#did(`${member.name}: ${what}${answer}`);
  }

  async #endPod(member: Member): Promise<void> {
    const pods = await this.#podsOf(member);
    const running = pods.filter(({ status }) => status.phase === 'Running');
    if (running.length === 0) return;
    const pod: string = this.#one(running).metadata.name;
    if (this.#random(2) === 0) {
      this.#did(`${pod} is killed`);
      if (processesOf(pod).length > 0) killProcesses(pod);
    } else {
      this.#did(`${pod} is deleted`);
      await this.#kube.kubectl(['delete', 'pod', pod, '-n', namespace, '--wait=false']);
    }
  }

  async #podsOf({ name }: Member): Promise<any[]> {
    return this.#kube.list('pods', namespace, `tsdb.io/cluster=${name}`);
  }

  async #deleteChild({ name: cluster }: Member): Promise<void> {
    const kinds = ['service', 'statefulset', 'deployment', 'configmap', 'poddisruptionbudget'];
    const kind = this.#one(kinds);
    const selector = `tsdb.io/cluster=${cluster},tsdb.io/component!=record`;
    const objects = await this.#kube.list(kind, namespace, selector);
    if (objects.length === 0) return;
    const { name } = this.#one(objects).metadata;
    this.#did(`${kind} ${name} is deleted`);
    await this.#kube.kubectl(['delete', kind, name, '-n', namespace, '--wait=false']);
  }

  async #comeOrGo(member: Member): Promise<void> {
    if (!member.isThere) {
      this.#did(`${member.name} comes back`);
      await this.#apply(member);
      return;
    }
    this.#did(`${member.name} is deleted`);
    const args = ['delete', 'tsdbcluster', member.name, '-n', namespace, '--wait=false'];
    await this.#kube.kubectl(args);
    member.isThere = false;
  }

  /** Of the pods of clusters that are touched. */
  async #drain(): Promise<void> {
    const machine = this.#one(['node1', 'node2', 'node3', 'node4']);
    this.#did(`${machine} is drained`);
    const list = this.#touched.map(({ name }) => name).join(', ');
    const args = ['drain', machine, '--ignore-daemonsets', '--delete-emptydir-data'];
    const limits = ['--timeout=20s', `--pod-selector=tsdb.io/cluster in (${list})`];
    await this.#kube.kubectl([...args, ...limits]);
    await this.#kube.kubectl(['uncordon', machine]);
  }

  async #killOperator(): Promise<void> {
    const pods = await this.#operatorPods();
    const pod: string = this.#one(pods).metadata.name;
    this.#did(`${pod} is killed`);
    if (processesOf(pod).length > 0) killProcesses(pod);
  }

  #operatorPods(): Promise<any[]> {
    return this.#kube.list('pods', operatorNamespace, 'app.kubernetes.io/name=tsdb-operator');
  }

  /** Kubernetes does not answer, and its watches hang. */
  async #stopServer(): Promise<void> {
    const pid = Number(readFileSync(`${home}/run/apiserver.pid`, 'utf8'));
    const millis = 2_000 + this.#random(13_000);
    this.#did(`the API server is stopped for ${millis} ms`);
    process.kill(pid, 'SIGSTOP');
    try {
      await delay(millis);
    } finally {
      process.kill(pid, 'SIGCONT');
    }
  }

  async #setOperator(tag: string): Promise<void> {
    this.#did(`the operator is of the images ${tag}`);
    const image = `operator=localhost/tsdb-operator:${tag}`;
    const args = ['set', 'image', 'deployment/tsdb-operator', image, '-n', operatorNamespace];
    await this.#kube.ok(args);
  }

  /** As its resource asked for at first, with volumes as they may have grown. */
  async #mend(member: Member): Promise<void> {
    if (!member.isThere) await this.#apply(member);
    const storage = { ...member.spec.nodes.storage, size: '2Gi' };
    const spec = { ...member.spec, nodes: { ...member.spec.nodes, storage } };
    const patch = JSON.stringify([{ op: 'replace', path: '/spec', value: spec }]);
    const args = ['patch', 'tsdbcluster', member.name, '-n', namespace, '--type=json'];
    await this.#kube.ok([...args, '-p', patch]);
  }

  /** Pods of the clusters that nobody touches, and versions of their placements. */
  async #leftAlone(): Promise<string> {
    const lines: string[] = [];
    for (const member of this.#members.filter(({ isLeftAlone }) => isLeftAlone)) {
      const pods = await this.#podsOf(member);
      const { status } = await this.#kube.get('tsdbcluster', member.name, namespace);
      const uids = pods.map(({ metadata }) => `${metadata.name} ${metadata.uid}`).sort();
      lines.push(`${member.name} placement ${status.placementVersion}`, ...uids);
    }
    return lines.join('\n');
  }

  /** Memory of each process of the operator, and what it asks of Kubernetes, every minute. */
  async #watchOperator(): Promise<void> {
    const { signal } = this.#stop;
    let before = new Map<string, number>();
    while (!signal.aborted) {
      await delay(60_000, null, { signal }).catch(() => {});
      const now = new Map<string, number>();
      for (const { metadata, status } of await this.#operatorPods().catch(() => [])) {
        const text = await metricsOf(status.podIP).catch(() => null);
        if (text === null) continue;
        const memoryMiB = Math.round(sumOf(text, 'process_resident_memory_bytes') / 2 ** 20);
        const requests = sumOf(text, 'tsdb_operator_kubernetes_requests_total');
        const leads = sumOf(text, 'tsdb_operator_leader') === 1;
        const since = requests - (before.get(metadata.name) ?? 0);
        now.set(metadata.name, requests);
        if (leads) this.#memoriesMiB.push(memoryMiB);
        const what = `${metadata.name}${leads ? ' (leads)' : ''}`;
        say(`  ${what}: ${memoryMiB} MiB, ${since} requests in a minute`);
      }
      before = now;
    }
  }

  #memoryStays(): void {
    const memories = this.#memoriesMiB;
    say(`  memory of the leading operator in MiB: ${memories.join(' ')}`);
    const quarter = memories[Math.floor(memories.length / 4)];
    if (quarter === undefined) return;
    assert.ok(memories.at(-1)! < quarter * memoryGrowthMax, 'the memory of the operator stays');
  }
}

async function metricsOf(address: string): Promise<string> {
  const response = await fetch(`http://${address}:8080/metrics`, {
    signal: AbortSignal.timeout(5_000),
  });
  return response.text();
}

const sumOf = (text: string, name: string): number =>
  [...text.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? ([0-9.e+]+)$`, 'gm'))]
    .map(([, value]) => Number(value))
    .reduce((total, value) => total + value, 0);

async function soak({ kube }: Stage): Promise<Ending> {
  await installByManifests(kube);
  await new Fleet(kube).run();
  return { isUnready: true };
}

export const soaks: readonly Scenario[] = [
  {
    name: '42-soak',
    what: `${smallCount + fullCount} clusters, ${minutes} minutes of edits, deletions, kills, drains, faults of Kubernetes (TSDB_SOAK_MINUTES, _SEED, _SMALL, _FULL, _OTHER_TAG)`,
    millisMax: (minutes + 60) * 60_000,
    run: soak,
  },
];
