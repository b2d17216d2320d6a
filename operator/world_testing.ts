/**
 * A model of all that is around the operator: the controllers of Kubernetes, storage nodes, the
 * coordinator.
 */
import { bootstrappedFrom } from '#cluster/placement/placement_testing.ts';
import { realEnv } from '#lib/env/real.ts';
import { AggregatorPlacement } from '#cluster/admin/aggregator_placement.ts';
import { ClusterAdmin } from '#cluster/admin/admin.ts';
import { plainRequest } from '#cluster/admin/placement_requests.ts';
import { type EtcdPod, FakeEtcd } from './etcd/fake_etcd_testing.ts';
import type { Kv, KeyValue, Operation } from '#cluster/kv/kv.ts';
import { finishedFormatsKey } from '#cluster/kv/keys.ts';
import { MemoryKvStore } from '#cluster/kv/memory.ts';
import { finishedLevelValue } from '#cluster/metadata/finished_formats.ts';
import { formatLevelNewest } from '#lib/format_level.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';
import { silentLog } from '#lib/log.ts';
import type { ClusterSpec } from './resource/tsdb_cluster.ts';
import { type KubeObject, resource, type StatefulSet } from './resource/kube_objects.ts';
import { type Failpoints, noFailpoints } from './action/failpoints.ts';
import { Controller, type ControllerOptions } from './controller.ts';
import { placementOf } from './coordinator/answers.ts';
import type {
  Coordinator,
  InstanceHealth,
  PlacementView,
} from './coordinator/coordinator_client.ts';
import type { ImageDefaults } from './desired/common.ts';
import { contentHash } from './resource/content_hash.ts';
import { FakeClock, fakeEnv } from './fake_clock_testing.ts';
import { FakeKube } from './kube/fake_kube_testing.ts';

type Json = any;

const forever = new AbortController().signal;
export const images = {
  node: 'node:1',
  coordinator: 'coordinator:1',
  aggregator: 'aggregator:1',
  etcd: 'etcd:1',
  operator: 'operator:1',
};

export function specOf(over: Partial<ClusterSpec> = {}): ClusterSpec {
  return {
    replicationFactor: 3,
    numberOfShards: 12,
    nodes: { replicasPerGroup: 1 },
    isolationGroups: [{ name: 'a' }, { name: 'a-b' }, { name: 'c' }],
    namespaces: [{ name: 'default', retentionTime: '48h' }],
    ...over,
  };
}

const databaseCluster = { environment: 'default_c', zone: 'embedded' };

export class World {
  readonly kube: FakeKube = new FakeKube();
  readonly clock: FakeClock = new FakeClock();
  readonly admin: ClusterAdmin;
  readonly etcd: FakeEtcd = new FakeEtcd();
  #controller: Controller;
  /** Calls that change something at the coordinator, in order. */
  readonly calls: string[] = [];
  beforeCall: (call: string) => void = (_call: string): void => {};
  /** Throws to lose the answer of a call that was carried out. */
  afterCall: (call: string) => void = (_call: string): void => {};
  coordinatorUp = true;
  coordinatorProblem = 'connection refused';
  externalEtcdProblem: string | null = null;
  /** Pods that never become ready, by name. */
  readonly broken: Set<string> = new Set();
  /** Images of containers beside ours that do not start; our process serves all the same. */
  readonly badSidecars: Set<string> = new Set();
  /** Nodes that answer and are not ready: they lack something, and serve the rest. */
  readonly lagging: Set<string> = new Set();
  onPass: NonNullable<ControllerOptions['onPass']> = () => {};
  /** Of the next process. */
  failpoints: Failpoints = noFailpoints;
  /** Whether volumes get the capacity that their claims ask for. */
  growsVolumes = true;
  images: ImageDefaults = { ...images };
  operatorId = 'tsdb-system/tsdb-operator';
  /** Pods whose machine is gone, with the volume (its uid) that only that has. */
  readonly #lostVolumes = new Set<string>();
  /** Volume with which a node was seen last. */
  readonly #folders = new Map<string, string>();
  /** Images with which no pod starts. */
  readonly badImages: Set<string> = new Set();
  /** Storage classes that make no volume. */
  readonly badClasses: Set<string> = new Set();
  /** Levels of formats that nodes of an image read, when it is not 1; and what they write. */
  readonly imageFormats: Map<string, number> = new Map();
  finishedLevel = 1;
  /** Shards of which a node lacks blocks, by its name. */
  readonly lacking: Map<string, readonly number[]> = new Map();
  /** Blocks that a node has filled from too few replicas, by its name. */
  readonly lost: Map<string, number> = new Map();
  /** Nodes that serve and do not say how they are. */
  readonly silent: Set<string> = new Set();
  /** Why the coordinator does not say how nodes are; `none` for one that cannot. */
  healthsProblem: Error | 'none' | null = null;
  /** Instances that know what etcd has lost. */
  knowing: readonly string[] = [];
  readonly #kv: Kv;
  readonly #aggregatorPlacement: AggregatorPlacement;
  #known: Operation[] | null = null;
  #knownVersion = 0;
  /** The key-value store has gone back, and nodes have seen it. */
  awaitsApproval = false;
  /** Nodes find nothing that they know and a restored store does not. */
  snapshotsLackNothing = false;
  #view: PlacementView | null = null;
  readonly #bootstrapped = new Set<string>();

  constructor() {
    this.kube.nowMillis = () => this.clock.nowMillis();
    const kv = new MemoryKvStore({ clock: this.clock }).client();
    this.#kv = kv;
    this.#aggregatorPlacement = new AggregatorPlacement(kv, databaseCluster, realEnv.random);
    this.admin = new ClusterAdmin({
      kv,
      cluster: databaseCluster,
      clock: this.clock,
      random: realEnv.random,
    });
    this.#controller = this.#newOperator();
  }

  /** The nodes write the newest formats, as those of a cluster that was made with this release. */
  async finishFormats(): Promise<void> {
    const key = finishedFormatsKey(databaseCluster);
    const value = finishedLevelValue(formatLevelNewest);
    await this.#kv.transact([], [{ kind: 'put', key, value }], forever);
  }

  /** What a person asks the coordinator for. */
  async changeAggregators(what: 'init' | 'replace', request: object): Promise<void> {
    await this.#aggregatorPlacement[what](request, plainRequest, forever);
  }

  /** Their placement; null when there is none. */
  async aggregators(): Promise<PlacementView | null> {
    try {
      const { placement, version } = await this.#aggregatorPlacement.get(null, forever);
      return placementOf(JSON.parse(JSON.stringify({ placement, version })));
    } catch (error) {
      if (error instanceof TsdbError && error.code === 'NOT_FOUND') return null;
      throw error;
    }
  }

  #newOperator(): Controller {
    return new Controller({
      api: this.failpoints.client(this.kube),
      env: fakeEnv(this.clock),
      log: silentLog,
      failpoints: this.failpoints,
      images: this.images,
      operatorId: this.operatorId,
      etcd: this.etcd,
      onPass: (key, figures) => this.onPass(key, figures),
      mayWrite: () => {},
      connect: () => this.#coordinator(),
      deleteKeys: async () => {
        this.calls.push('delete keys');
        if (this.externalEtcdProblem !== null) throw new Error(this.externalEtcdProblem);
        await this.admin.placementDelete(plainRequest, forever);
        await this.placement();
      },
    });
  }

  async #noteKnown(): Promise<void> {
    this.knowing = this.instanceIds();
    this.#knownVersion = this.#view?.version ?? 0;
    const { items } = await this.#kv.list('', forever);
    this.#known = items.map(({ key, value }) => ({ kind: 'put', key, value }));
  }

  /** What the nodes know of an etcd that is gone: all of it. */
  async loseEtcd(): Promise<void> {
    await this.#noteKnown();
    await this.#kv.transact([], [{ kind: 'deletePrefix', prefix: '' }], forever);
    this.etcd.forget();
    await this.placement();
  }

  /** Who runs knows what the store does not have. */
  get #isAwaited(): boolean {
    return this.awaitsApproval || (this.#known !== null && this.#view === null);
  }

  /** Waits, as the coordinator does, until all that the placement names have said what they knew. */
  async #approve(): Promise<void> {
    const ids = this.knowing;
    const silent = ids.filter((id) => !this.serves(id));
    if (this.#known === null || silent.length > 0) {
      throw new TsdbError(
        'CONFLICT',
        `instances have not said what they knew: ${silent.join(', ')}`,
      );
    }
    // Its version rises above what anybody knew.
    while (((await this.placement())?.version ?? 0) <= this.#knownVersion) {
      await this.#kv.transact([], this.#known, forever);
    }
    this.#known = null;
    this.awaitsApproval = false;
  }

  /** What the snapshots of etcd have, by name. */
  readonly snapshots: Map<string, readonly KeyValue[]> = new Map();

  /** The job of the schedule runs now. */
  async takeSnapshot(name: string): Promise<void> {
    const { items } = await this.#kv.list('', forever);
    this.snapshots.set(name, items);
    const message = JSON.stringify({ name, bytes: items.length });
    this.kube.store({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        name: `c-etcd-snapshots-${name.toLowerCase()}`,
        namespace: 'default',
        labels: { 'tsdb.io/cluster': 'c', 'tsdb.io/component': 'etcd-snapshots' },
      },
      spec: { containers: [] },
      status: {
        phase: 'Succeeded',
        containerStatuses: [{ ready: false, restartCount: 0, state: { terminated: { message } } }],
      },
    });
    const job = this.kube.find('CronJob', 'c-etcd-snapshots');
    const lastSuccessfulTime = new Date(this.clock.nowMillis()).toISOString();
    this.kube.store({ ...job, status: { lastSuccessfulTime } });
  }

  /** Somebody brought a snapshot back by hand, and nodes see it. */
  async loseEtcdTo(snapshot: string): Promise<void> {
    await this.#noteKnown();
    await this.#becomes(this.snapshots.get(snapshot)!);
  }

  async #becomes(content: readonly KeyValue[]): Promise<void> {
    await this.#kv.transact([], [{ kind: 'deletePrefix', prefix: '' }], forever);
    for (const { key, value, version } of content) {
      for (let i = 0; i < version; i++) {
        await this.#kv.transact([], [{ kind: 'put', key, value }], forever);
      }
    }
    this.awaitsApproval = this.#known !== null && !this.snapshotsLackNothing;
  }

  /** Jobs that restore a snapshot end as soon as they are there. */
  async #runJobs(): Promise<void> {
    for (const job of this.kube.ofKind('Job') as Json[]) {
      if (job.status !== undefined) continue;
      const [, wish] = job.spec.template.spec.initContainers[0].args.slice(1);
      const name = wish === 'latest' ? [...this.snapshots.keys()].at(-1) : wish;
      const content = this.snapshots.get(name ?? '');
      const [type, message] =
        content === undefined ? ['Failed', `no snapshot ${wish}`] : ['Complete', ''];
      this.kube.store({ ...job, status: { conditions: [{ type, status: 'True', message }] } });
      if (content === undefined) continue;
      const claim = this.kube.find('PersistentVolumeClaim', 'data-c-etcd-0');
      this.etcd.restore(claim.metadata.uid, 'http://c-etcd-0.c-etcd.default.svc:2380');
      await this.#becomes(content);
    }
  }

  /** A new process, which remembers nothing. */
  restartOperator(): void {
    this.#controller = this.#newOperator();
  }

  addCluster(spec: ClusterSpec): void {
    const metadata = { name: 'c', namespace: 'default' };
    this.kube.store({ apiVersion: 'tsdb.io/v1alpha1', kind: 'TSDBCluster', metadata, spec });
  }

  get cluster(): Json {
    return this.kube.find('TSDBCluster', 'c');
  }

  changeSpec(change: (spec: Json) => void): void {
    const cluster = structuredClone(this.cluster);
    change(cluster.spec);
    this.kube.store(cluster);
  }

  addClaim(name: string, spec: object, creationTimestamp = '2026-01-01T00:00:00Z'): void {
    const stored = this.kube.store({
      apiVersion: 'tsdb.io/v1alpha1',
      kind: 'TSDBNamespace',
      metadata: { name, namespace: 'default' },
      spec: { clusterRef: { name: 'c' }, ...spec },
    }) as Json;
    stored.metadata.creationTimestamp = creationTimestamp;
  }

  annotate(key: string, value: string): void {
    const cluster = structuredClone(this.cluster);
    cluster.metadata.annotations = { ...cluster.metadata.annotations, [key]: value };
    this.kube.store(cluster);
  }

  async addForeignInstance(id: string, isolationGroup: string): Promise<void> {
    const instance = {
      id,
      isolation_group: isolationGroup,
      zone: 'embedded',
      weight: 100,
      endpoint: `${id}:9000`,
      hostname: id,
      port: 9000,
    };
    await this.admin.placementAdd({ instances: [instance] }, plainRequest, forever);
  }

  /** Passes until the cluster is gone, or until one fails. */
  async deleteCluster(): Promise<void> {
    const { cluster } = this;
    const options = { uid: null, orphan: false };
    await this.kube.delete(resource.cluster, 'default', cluster.metadata.name, options);
    for (let pass = 0; pass < 5 && this.cluster !== undefined; pass++) {
      await this.reconcile();
      await this.advance();
    }
  }

  instanceIds(): string[] {
    return Object.keys(this.#view?.instances ?? {});
  }

  /** @param isOf whose shards */
  shardStates(isOf: (id: string) => boolean = () => true): string[] {
    const instances = Object.values(this.#view?.instances ?? {}).filter(({ id }) => isOf(id));
    return instances.flatMap(({ shards }) => shards.map(({ state }) => state));
  }

  /** It has never had a shard whole. */
  isEmptyInstance(id: string): boolean {
    const { shards } = this.#view!.instances[id]!;
    return shards.every(({ state }) => state === 'INITIALIZING');
  }

  /** Pods of storage nodes that are not ready, sorted. */
  unreadyNodes(): string[] {
    return this.unreadyPods('node');
  }

  unreadyPods(component: string): string[] {
    return this.kube
      .ofKind('Pod')
      .filter((pod: Json) => pod.metadata.labels['tsdb.io/component'] === component)
      .map(({ metadata }) => metadata.name)
      .filter((name) => !this.serves(name))
      .sort();
  }

  reconcile(cluster = 'c'): Promise<number | null> {
    return this.#controller.reconcile(`default/${cluster}`, forever);
  }

  condition(type: string): Json {
    return this.cluster.status?.conditions?.find((one: Json) => one.type === type);
  }

  #coordinator(): Coordinator {
    const { admin } = this;
    const reachable = () => {
      if (!this.coordinatorUp) throw new TsdbError('UNAVAILABLE', this.coordinatorProblem);
    };
    const call = async (text: string, carryOut: () => Promise<unknown>) => {
      reachable();
      this.beforeCall(text);
      this.calls.push(text);
      await carryOut();
      await this.placement();
      this.afterCall(text);
    };
    return {
      placement: async () => {
        reachable();
        return this.placement();
      },
      healths: async () => {
        reachable();
        return this.healths();
      },
      upgradeFinish: () =>
        call('upgrade finish', async () => {
          const said = [...this.healths()!.values()];
          this.finishedLevel = Math.min(
            ...said.map((one) => ('error' in one ? 1 : one.formatLevel)),
          );
        }),
      placementInit: (request) =>
        call('init', () => {
          if (this.#isAwaited) throw new TsdbError('CONFLICT', 'the store awaits approval');
          return admin.placementInit(request, plainRequest, forever);
        }),
      placementAdd: (instances) =>
        call(`add ${instances.map(({ id }) => id).join(' ')}`, () =>
          admin.placementAdd({ instances }, plainRequest, forever),
        ),
      placementRemove: (ids, force) =>
        call(`remove ${ids.join(' ')}`, () =>
          admin.placementRemove({ instance_ids: ids, force }, plainRequest, forever),
        ),
      placementApprove: () => call('approve', () => this.#approve()),
      placementDelete: () =>
        call('placement delete', () => admin.placementDelete(plainRequest, forever)),
      aggregators: async () => {
        reachable();
        return this.aggregators();
      },
      aggregatorsInit: (request) =>
        call(`aggregators init ${idsOf(request.instances)}`, () =>
          this.#aggregatorPlacement.init(request, plainRequest, forever),
        ),
      aggregatorsAdd: (instances) =>
        call(`aggregators add ${idsOf(instances)}`, () =>
          this.#aggregatorPlacement.add({ instances }, plainRequest, forever),
        ),
      aggregatorsRemove: (ids) =>
        call(`aggregators remove ${ids.join(' ')}`, () =>
          this.#aggregatorPlacement.remove({ instance_ids: ids }, plainRequest, forever),
        ),
      aggregatorsDelete: () =>
        call('aggregators delete', () => this.#aggregatorPlacement.delete(plainRequest, forever)),
      registry: async () => {
        reachable();
        const { registry } = await admin.namespaceGet(false, forever);
        const namespaces = new Map(
          Object.entries(registry.namespaces as Json).map(([name, options]: [string, Json]) => [
            name,
            {
              ready: options.stagingState.status === 'READY',
              retentionNanos: options.retentionOptions.retentionPeriodNanos,
              blockSizeNanos: options.retentionOptions.blockSizeNanos,
              bufferPastNanos: options.retentionOptions.bufferPastNanos,
              bufferFutureNanos: options.retentionOptions.bufferFutureNanos,
              coldWritesEnabled: options.coldWritesEnabled,
              resolutionNanos:
                options.aggregationOptions?.aggregations.find((one: Json) => one.aggregated)
                  ?.attributes.resolutionNanos ?? null,
              downsampleAll:
                options.aggregationOptions?.aggregations.find((one: Json) => one.aggregated)
                  ?.attributes.downsampleOptions?.all ?? true,
            },
          ]),
        );
        return { namespaces, awaitsApproval: this.#isAwaited };
      },
      namespaceAdd: (name, options) =>
        call(`namespace add ${name}`, () =>
          admin.namespaceAdd({ name, options }, plainRequest, forever),
        ),
      namespaceUpdate: (name, options) =>
        call(`namespace update ${name}`, () =>
          admin.namespaceUpdate({ name, options }, plainRequest, forever),
        ),
      namespaceReady: (name) =>
        call(`namespace ready ${name}`, () => {
          const prove = async () => {
            if (!this.#bootstrapped.has(name)) throw badRequest(`${name} is not bootstrapped`);
          };
          return admin.namespaceReady({ name }, plainRequest, prove, forever);
        }),
      namespaceDelete: (name) =>
        call(`namespace delete ${name}`, () => admin.namespaceDelete(name, plainRequest, forever)),
    };
  }

  healths(): ReadonlyMap<string, InstanceHealth> | null {
    if (this.healthsProblem instanceof Error) throw this.healthsProblem;
    if (this.#view === null || this.healthsProblem === 'none') return null;
    return new Map(
      this.instanceIds().map((id): [string, InstanceHealth] => {
        const answers = this.serves(id) || this.lagging.has(id);
        if (!answers || this.silent.has(id)) return [id, { error: 'connection refused' }];
        const shardsLacking = this.lacking.get(id) ?? [];
        const image: string = (this.kube.find('Pod', id) as Json).spec.containers[0].image;
        const formatLevel = this.imageFormats.get(image) ?? 1;
        const levels = { formatLevel, formatLevelWritten: this.finishedLevel };
        const blocksLost = this.lost.get(id) ?? 0;
        return [id, { blocksLacking: shardsLacking.length, shardsLacking, blocksLost, ...levels }];
      }),
    );
  }

  /** Other owners of shards of this node that lack blocks of these. */
  inDoubtBeside(id: string): string[] {
    const ownedBy = (owner: string) =>
      new Set(this.#view?.instances[owner]?.shards.map((shard) => shard.id));
    const own = ownedBy(id);
    return [...this.lacking]
      .filter(([other, shards]) => {
        const others = ownedBy(other);
        return other !== id && shards.some((shard) => own.has(shard) && others.has(shard));
      })
      .map(([other]) => other);
  }

  async placement(): Promise<PlacementView | null> {
    try {
      const { placement, version } = await this.admin.placementGet(null, forever);
      const { instances, numShards, replicaFactor } = placement as Json;
      const shape = { numberOfShards: numShards, replicationFactor: replicaFactor };
      this.#view = { instances, ...shape, version, awaitsApproval: this.awaitsApproval };
    } catch (error) {
      if (!(error instanceof TsdbError && error.code === 'NOT_FOUND')) throw error;
      this.#view = null;
    }
    return this.#view;
  }

  /** Everything around the operator moves on: sets, pods, shards, namespaces. */
  async advance(): Promise<void> {
    await this.#runJobs();
    this.#runEtcd();
    for (const set of this.kube.ofKind('StatefulSet') as StatefulSet[]) this.#runSet(set);
    for (const deployment of this.kube.ofKind('Deployment')) this.#runDeployment(deployment);
    for (const claim of this.kube.ofKind('PersistentVolumeClaim')) this.#runClaim(claim);
    await this.#resetEmptyNodes();
    const placement = await this.placement();
    for (const [id, { shards }] of Object.entries(placement?.instances ?? {})) {
      if (!this.serves(id) || shards.every(({ state }) => state !== 'INITIALIZING')) continue;
      const ready = new Map(
        shards
          .filter(({ state }) => state === 'INITIALIZING')
          .map((shard: Json) => [shard.id as number, (shard.sourceId ?? '') as string]),
      );
      await this.admin.markAvailable(id, bootstrappedFrom(ready), forever);
    }
    await this.placement();
    const { registry } = await this.admin.namespaceGet(false, forever);
    for (const name of Object.keys(registry.namespaces)) this.#bootstrapped.add(name);
  }

  /** A node that comes back with an empty folder gives up its shards before it serves anything. */
  async #resetEmptyNodes(): Promise<void> {
    for (const id of Object.keys((await this.placement())?.instances ?? {})) {
      const claim = this.kube.find('PersistentVolumeClaim', `data-${id}`);
      if (claim === undefined || !this.serves(id)) continue;
      const before = this.#folders.get(id);
      this.#folders.set(id, claim.metadata.uid);
      if (before === undefined || before === claim.metadata.uid) continue;
      const body = { instance_ids: [id], force: true };
      const isAnswering = () => Promise.resolve(true);
      await this.admin.placementReset(body, plainRequest, isAnswering, forever);
    }
  }

  #runSet(set: StatefulSet): void {
    const { name, namespace, generation } = set.metadata;
    const spec = set.spec as Json;
    const revision = contentHash(spec.template);
    const owners = ownedBy(set);
    for (const { metadata, ...pod } of this.#podsOf(set)) {
      this.kube.store({ ...pod, metadata: { ...metadata, ownerReferences: owners } });
    }
    for (const pod of this.#podsOf(set)) {
      const image: string = pod.spec.containers[0].image;
      if (ordinalOf(pod) >= spec.replicas) this.#removePod(pod, spec);
      else if (this.isMachineLost(pod.metadata.name)) this.#setUnschedulable(pod);
      else if (this.#isUnbound(pod)) this.#setUnschedulable(pod, 'unbound PersistentVolumeClaims');
      else if (this.badImages.has(image)) this.#setPod(pod, 'Pending', false, 'ImagePullBackOff');
      else if (pod.status.phase === 'Pending') this.#setPod(pod, 'Running', false);
      else if (this.#crashes(pod)) this.#crash(pod);
      else this.#setPod(pod, 'Running', this.#starts(pod));
    }
    const rolling = spec.updateStrategy?.type === 'RollingUpdate';
    for (let ordinal = 0; ordinal < spec.replicas; ordinal++) {
      const podName = `${name}-${ordinal}`;
      const live = this.kube.find('Pod', podName);
      const outdated = live?.metadata.labels['controller-revision-hash'] !== revision;
      if (live !== undefined && !(rolling && outdated)) continue;
      const labels = { ...spec.template.metadata.labels, 'controller-revision-hash': revision };
      this.kube.store({
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name: podName, namespace, labels, ownerReferences: ownedBy(set) },
        spec: spec.template.spec,
        status: { phase: 'Pending' },
      });
      const [claim] = spec.volumeClaimTemplates ?? [];
      if (claim === undefined) continue;
      const claimName = `data-${podName}`;
      if (this.kube.find('PersistentVolumeClaim', claimName) !== undefined) continue;
      this.kube.store({
        apiVersion: 'v1',
        kind: 'PersistentVolumeClaim',
        metadata: { name: claimName, namespace, labels: claim.metadata.labels },
        spec: claim.spec,
        status: { phase: this.badClasses.has(claim.spec.storageClassName) ? 'Pending' : 'Bound' },
      });
    }
    const now = this.#podsOf(set);
    this.kube.store({
      ...set,
      status: {
        observedGeneration: generation,
        replicas: now.length,
        readyReplicas: now.filter((pod) => this.isReady(pod.metadata.name)).length,
        updatedReplicas: now.filter(
          ({ metadata }) => metadata.labels['controller-revision-hash'] === revision,
        ).length,
        currentRevision: revision,
        updateRevision: revision,
      },
    });
  }

  /** A member of etcd that finds data, or a configuration, with which it cannot start. */
  #crashes({ metadata }: Json): boolean {
    const { name, labels } = metadata;
    if (labels['tsdb.io/component'] !== 'etcd' || this.broken.has(name)) return false;
    return !this.etcd.isRunning(name) && this.etcd.hasQuorum;
  }

  #crash(pod: Json): void {
    const restartCount = (pod.status.containerStatuses?.[0]?.restartCount ?? 0) + 1;
    const state = { waiting: { reason: 'CrashLoopBackOff' } };
    const conditions = [{ type: 'Ready', status: 'False' }];
    const containerStatuses = [{ ready: false, restartCount, state }];
    this.kube.store({ ...pod, status: { phase: 'Running', conditions, containerStatuses } });
  }

  #starts({ metadata }: Json): boolean {
    if (this.broken.has(metadata.name) || this.lagging.has(metadata.name)) return false;
    return metadata.labels['tsdb.io/component'] !== 'etcd' || this.etcd.isRunning(metadata.name);
  }

  /** Members of etcd start with what their volumes and their configuration say. */
  #runEtcd(): void {
    const { data } = this.kube.find('ConfigMap', 'c-etcd-members') ?? { data: {} };
    const peers = (data.ETCD_INITIAL_CLUSTER ?? '')
      .split(',')
      .map((text: string) => text.split('='));
    const pods = this.kube.ofKind('Pod').flatMap(({ metadata, status }: Json): EtcdPod[] => {
      const { name, labels } = metadata;
      const isUp = status.phase === 'Running' && !this.broken.has(name);
      if (labels['tsdb.io/component'] !== 'etcd' || !isUp) return [];
      const claim = this.kube.find('PersistentVolumeClaim', `data-${name}`);
      const claimUid: string = claim?.metadata.uid ?? '';
      const state = data.ETCD_INITIAL_CLUSTER_STATE ?? '';
      return [{ name, claimUid, peerUrls: new Map(peers), state }];
    });
    this.etcd.run(pods);
  }

  /** The machine of a pod is gone, with the disk that only it has. */
  loseMachine(name: string): void {
    this.#lostVolumes.add(this.kube.find('PersistentVolumeClaim', `data-${name}`).metadata.uid);
    this.kube.remove(this.kube.find('Pod', name));
    this.#runEtcd();
  }

  isMachineLost(pod: string): boolean {
    const claim = this.kube.find('PersistentVolumeClaim', `data-${pod}`);
    return this.#lostVolumes.has(claim?.metadata.uid ?? '');
  }

  #isUnbound({ metadata }: Json): boolean {
    const claim: Json = this.kube.find('PersistentVolumeClaim', `data-${metadata.name}`);
    return this.badClasses.has(claim?.spec.storageClassName);
  }

  #setUnschedulable(
    pod: Json,
    message = "0/3 nodes are available: 3 node(s) didn't match PersistentVolume's node affinity",
  ): void {
    if (pod.status.conditions?.[0]?.type === 'PodScheduled') return;
    const lastTransitionTime = new Date(this.clock.nowMillis()).toISOString();
    const condition = { type: 'PodScheduled', status: 'False', message, lastTransitionTime };
    this.kube.store({ ...pod, status: { phase: 'Pending', conditions: [condition] } });
  }

  /** The disk of a pod is gone, and the pod with it. */
  loseVolume(pod: string): void {
    for (const [kind, name] of [
      ['PersistentVolumeClaim', `data-${pod}`],
      ['Pod', pod],
    ] as const) {
      const object = this.kube.find(kind, name);
      if (object !== undefined) this.kube.remove(object);
    }
    this.#runEtcd();
  }

  #runClaim(claim: Json): void {
    const { storage } = claim.spec.resources.requests;
    const capacity = this.growsVolumes ? storage : (claim.status?.capacity?.storage ?? storage);
    const { phase } = claim.status ?? { phase: 'Bound' };
    this.kube.store({ ...claim, status: { phase, capacity: { storage: capacity } } });
  }

  #removePod(pod: Json, spec: Json): void {
    this.kube.remove(pod);
    const claim = this.kube.find('PersistentVolumeClaim', `data-${pod.metadata.name}`);
    const policy = spec.persistentVolumeClaimRetentionPolicy?.whenScaled;
    // It is made the pod's own, and stays when it is somebody else's too.
    const isShared = claim?.metadata.ownerReferences?.length > 0;
    if (policy === 'Delete' && claim !== undefined && !isShared) this.kube.remove(claim);
  }

  #podsOf(set: KubeObject): Json[] {
    return this.kube
      .ofKind('Pod')
      .filter((pod: Json) => pod.metadata.name.replace(/-\d+$/, '') === set.metadata.name);
  }

  #setPod(pod: Json, phase: string, ready: boolean, waitsFor?: string): void {
    const [own, ...sidecars] = pod.spec.containers;
    const others = sidecars.map(({ name, image }: Json) =>
      this.badSidecars.has(image)
        ? {
            name,
            ready: false,
            restartCount: 0,
            state: { waiting: { reason: 'ImagePullBackOff' } },
          }
        : { name, ready: true, restartCount: 0, state: { running: {} } },
    );
    const isReady = ready && others.every((one: Json) => one.ready);
    const status = isReady ? 'True' : 'False';
    const before = pod.status?.conditions?.[0];
    const lastTransitionTime =
      before?.status === status && before.lastTransitionTime !== undefined
        ? before.lastTransitionTime
        : new Date(this.clock.nowMillis()).toISOString();
    const reason = isReady ? {} : { reason: 'ContainersNotReady' };
    const conditions = [{ type: 'Ready', status, lastTransitionTime, ...reason }];
    const state = waitsFor === undefined ? { running: {} } : { waiting: { reason: waitsFor } };
    const containerStatuses = [{ name: own.name, ready, restartCount: 0, state }, ...others];
    this.kube.store({ ...pod, status: { phase, conditions, containerStatuses } });
  }

  /** Its own process, whatever its other containers do. */
  serves(name: string): boolean {
    const pod = this.kube.find('Pod', name);
    return pod?.status?.containerStatuses?.[0]?.ready ?? this.isReady(name);
  }

  isReady(name: string): boolean {
    const pod = this.kube.find('Pod', name);
    return (pod?.status?.conditions ?? []).some((one: Json) => one.status === 'True');
  }

  #runDeployment(deployment: Json): void {
    const { replicas, template } = deployment.spec;
    const { generation } = deployment.metadata;
    // The old ones stay as long as a new one does not come.
    const isBad = this.badImages.has(template.spec.containers[0].image);
    const status = {
      observedGeneration: generation,
      replicas: isBad ? replicas + 1 : replicas,
      availableReplicas: replicas,
      updatedReplicas: isBad ? 1 : replicas,
    };
    this.kube.store({ ...deployment, status });
  }

  /**
   * Passes of the operator and of the world until the operator rests. Errors of a pass are what the
   * queue would try again.
   * @returns the number of passes
   * @throws when it does not come to rest
   */
  async settle(passesMax = 120): Promise<number> {
    let last = '';
    for (let pass = 1; pass <= passesMax; pass++) {
      const writes = this.kube.writes.length + this.calls.length;
      let after: number | null = 0;
      try {
        after = await this.reconcile();
      } catch (error) {
        last = (error as Error).message;
      }
      if (after === 60_000 && this.kube.writes.length + this.calls.length === writes) return pass;
      await this.clock.pass(2_000);
      await this.advance();
    }
    const ready = JSON.stringify(this.condition('Ready'));
    throw new Error(`not settled after ${passesMax} passes: ${ready}; ${last}`);
  }
}

const ownedBy = ({ metadata, kind }: KubeObject): Json[] => [
  { apiVersion: 'apps/v1', kind, name: metadata.name, uid: metadata.uid, controller: true },
];

const ordinalOf = (pod: Json): number => Number(/-(\d+)$/.exec(pod.metadata.name)![1]);

/** A cluster that has come to rest; what was written until then is forgotten. */
export async function settledWorld(over: Partial<ClusterSpec> = {}): Promise<World> {
  const world = new World();
  world.addCluster(specOf(over));
  await world.settle();
  // Nodes run long enough that what they say of formats is written down.
  await world.clock.pass(60_000);
  await world.settle();
  await world.advance();
  world.kube.writes.length = 0;
  world.etcd.calls.length = 0;
  world.calls.length = 0;
  return world;
}

const idsOf = (instances: readonly { readonly id: string }[]): string =>
  instances.map(({ id }) => id).join(' ');
