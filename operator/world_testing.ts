/** A model of all that is around the operator: the controllers of Kubernetes, storage nodes, the coordinator. */
import { ClusterAdmin, plainRequest } from '#cluster/admin.ts';
import { MemoryKvStore } from '#cluster/kv_memory.ts';
import { realEnv } from '#lib/env/real.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';
import { silentLog } from '#lib/log.ts';
import type { ClusterSpec, KubeObject, StatefulSet } from './api.ts';
import { Controller } from './controller.ts';
import type { Coordinator, PlacementView } from './coordinator_client.ts';
import { contentHash } from './desired/common.ts';
import { FakeKube } from './fake_kube_testing.ts';

type Json = any;

const forever = new AbortController().signal;
export const images = { node: 'node:1', coordinator: 'coordinator:1', etcd: 'etcd:1' };

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

export class World {
  readonly kube: FakeKube = new FakeKube();
  readonly admin: ClusterAdmin;
  readonly controller: Controller;
  /** Calls that change something at the coordinator, in order. */
  readonly calls: string[] = [];
  beforeCall: (call: string) => void = (_call: string): void => {};
  coordinatorUp = true;
  /** Pods that never become ready, by name. */
  readonly broken: Set<string> = new Set();
  private readonly bootstrapped = new Set<string>();

  constructor() {
    const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
    this.admin = new ClusterAdmin({ kv, cluster: { environment: 'default/c', zone: 'embedded' } });
    this.controller = new Controller({
      api: this.kube,
      env: realEnv,
      log: silentLog,
      images,
      mayWrite: () => {},
      connect: () => this.coordinator(),
    });
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

  reconcile(): Promise<number | null> {
    return this.controller.reconcile('default/c', forever);
  }

  condition(type: string): Json {
    return this.cluster.status?.conditions?.find((one: Json) => one.type === type);
  }

  private coordinator(): Coordinator {
    const { admin } = this;
    const reachable = () => {
      if (!this.coordinatorUp) throw new TsdbError('UNAVAILABLE', 'connection refused');
    };
    const call = (text: string) => {
      reachable();
      this.beforeCall(text);
      this.calls.push(text);
    };
    return {
      placement: async () => {
        reachable();
        return this.placement();
      },
      placementInit: async (request) => {
        call('init');
        await admin.placementInit(request, plainRequest, forever);
      },
      placementAdd: async (instances) => {
        call(`add ${instances.map(({ id }) => id).join(' ')}`);
        await admin.placementAdd({ instances }, plainRequest, forever);
      },
      placementRemove: async (ids) => {
        call(`remove ${ids.join(' ')}`);
        await admin.placementRemove({ instance_ids: ids }, plainRequest, forever);
      },
      placementDelete: async () => {
        call('placement delete');
        await admin.placementDelete(plainRequest, forever);
      },
      namespaces: async () => {
        reachable();
        const { registry } = await admin.namespaceGet(false, forever);
        return new Map(
          Object.entries(registry.namespaces as Json).map(([name, options]: [string, Json]) => [
            name,
            {
              ready: options.stagingState.status === 'READY',
              retentionNanos: options.retentionOptions.retentionPeriodNanos,
            },
          ]),
        );
      },
      namespaceAdd: async (name, options) => {
        call(`namespace add ${name}`);
        await admin.namespaceAdd({ name, options }, plainRequest, forever);
      },
      namespaceUpdate: async (name, options) => {
        call(`namespace update ${name}`);
        await admin.namespaceUpdate({ name, options }, plainRequest, forever);
      },
      namespaceReady: async (name) => {
        call(`namespace ready ${name}`);
        const prove = async () => {
          if (!this.bootstrapped.has(name)) throw badRequest(`${name} is not bootstrapped`);
        };
        await admin.namespaceReady({ name }, plainRequest, prove, forever);
      },
      namespaceDelete: async (name) => {
        call(`namespace delete ${name}`);
        await admin.namespaceDelete(name, plainRequest, forever);
      },
    };
  }

  async placement(): Promise<PlacementView | null> {
    try {
      const { placement, version } = await this.admin.placementGet(null, forever);
      return { instances: placement.instances as Json, version };
    } catch (error) {
      if (error instanceof TsdbError && error.code === 'NOT_FOUND') return null;
      throw error;
    }
  }

  /** Everything around the operator moves on: sets, pods, shards, namespaces. */
  async advance(): Promise<void> {
    for (const set of this.kube.ofKind('StatefulSet') as StatefulSet[]) this.runSet(set);
    for (const deployment of this.kube.ofKind('Deployment')) this.runDeployment(deployment);
    const placement = await this.placement();
    for (const [id, { shards }] of Object.entries(placement?.instances ?? {})) {
      if (!this.isReady(id) || shards.every(({ state }) => state !== 'INITIALIZING')) continue;
      const ready = new Map(
        shards
          .filter(({ state }) => state === 'INITIALIZING')
          .map((shard: Json) => [shard.id as number, (shard.sourceId ?? '') as string]),
      );
      await this.admin.markAvailable(id, ready, forever);
    }
    const { registry } = await this.admin.namespaceGet(false, forever);
    for (const name of Object.keys(registry.namespaces)) this.bootstrapped.add(name);
  }

  private runSet(set: StatefulSet): void {
    const { name, namespace, generation } = set.metadata;
    const spec = set.spec as Json;
    const revision = contentHash(spec.template);
    const pods = this.podsOf(set);
    for (const pod of pods) {
      if (ordinalOf(pod) >= spec.replicas) this.kube.remove(pod);
      else if (pod.status.phase === 'Pending') this.setPod(pod, 'Running', false);
      else this.setPod(pod, 'Running', !this.broken.has(pod.metadata.name));
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
        metadata: { name: podName, namespace, labels },
        spec: spec.template.spec,
        status: { phase: 'Pending' },
      });
      const [claim] = spec.volumeClaimTemplates;
      const claimName = `data-${podName}`;
      if (this.kube.find('PersistentVolumeClaim', claimName) !== undefined) continue;
      this.kube.store({
        apiVersion: 'v1',
        kind: 'PersistentVolumeClaim',
        metadata: { name: claimName, namespace, labels: claim.metadata.labels },
        spec: claim.spec,
      });
    }
    const now = this.podsOf(set);
    this.kube.store({
      ...set,
      status: {
        observedGeneration: generation,
        replicas: now.length,
        readyReplicas: now.filter((pod) => this.isReady(pod.metadata.name)).length,
        currentRevision: revision,
        updateRevision: revision,
      },
    });
  }

  private podsOf(set: KubeObject): Json[] {
    return this.kube
      .ofKind('Pod')
      .filter((pod: Json) => pod.metadata.name.replace(/-\d+$/, '') === set.metadata.name);
  }

  setPod(pod: Json, phase: string, ready: boolean): void {
    const conditions = [{ type: 'Ready', status: ready ? 'True' : 'False' }];
    this.kube.store({ ...pod, status: { phase, conditions } });
  }

  isReady(name: string): boolean {
    const pod = this.kube.find('Pod', name);
    return (pod?.status?.conditions ?? []).some((one: Json) => one.status === 'True');
  }

  private runDeployment(deployment: Json): void {
    const { replicas } = deployment.spec;
    const { generation } = deployment.metadata;
    const status = {
      observedGeneration: generation,
      replicas,
      availableReplicas: replicas,
      updatedReplicas: replicas,
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
      await this.advance();
    }
    const ready = JSON.stringify(this.condition('Ready'));
    throw new Error(`not settled after ${passesMax} passes: ${ready}; ${last}`);
  }
}

const ordinalOf = (pod: Json): number => Number(/-(\d+)$/.exec(pod.metadata.name)![1]);
