/** Several storage nodes in one process over one in-memory key-value store, for tests. */
import { tmpdir } from 'node:os';
import { type ClusterName, environmentDefault, zoneDefault } from '#cluster/kv/keys.ts';
import { MemoryKvStore } from '#cluster/kv/memory.ts';
import { DeletionLog } from '#cluster/metadata/deletion_log.ts';
import { Truncations } from '#cluster/metadata/truncations.ts';
import { deploySchema } from '#cluster/admin/schemas.ts';
import type { SchemaText } from '#cluster/namespaces/schemas.ts';
import { NamespaceStore } from '#cluster/namespaces/store.ts';
import { addNamespace, deleteNamespace } from '#cluster/namespaces/changes.ts';
import { type Namespace } from '#cluster/namespaces/namespaces.ts';
import type { NodeService } from '#cluster/node/service.ts';
import type { Instance, InstanceInfo, Placement } from '#cluster/placement/placement.ts';
import { PlacementStore } from '#cluster/placement/store.ts';
import { Topology, type TopologyView } from '#cluster/topology/topology.ts';
import type { Env } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { silentLog } from '#lib/log.ts';
import { Metrics } from '#lib/metrics.ts';
import { readKnownStore } from './identity/known_store.ts';
import type { RepairOptions } from './repair/options.ts';
import { NodeRuntime } from './runtime.ts';

const never = new AbortController().signal;
const cluster: ClusterName = { environment: environmentDefault, zone: zoneDefault };

export interface TestNode {
  readonly id: string;
  readonly runtime: NodeRuntime;
  readonly topology: Topology;
  readonly metrics: Metrics;
}

export class TestCluster implements AsyncDisposable {
  readonly folder: string = `${tmpdir()}/tsdb-cluster-${realEnv.random.bytes(6).toHex()}`;
  readonly kvStore: MemoryKvStore = new MemoryKvStore({ clock: realEnv.clock });
  readonly placements: PlacementStore = new PlacementStore(
    this.kvStore.client(),
    cluster,
    realEnv.random,
  );
  readonly namespaces: NamespaceStore = new NamespaceStore(this.kvStore.client(), cluster);
  readonly nodes: Map<string, TestNode> = new Map();
  readonly fatal: unknown[] = [];
  /** Whether and how nodes that start compare their rows. */
  repair: RepairOptions | null = null;
  /** Told of each call between nodes; what it throws is what the caller gets. */
  onCall: (id: string, method: keyof NodeService) => void = () => {};

  instance(id: string): InstanceInfo {
    return {
      id,
      isolationGroup: id,
      zone: 'embedded',
      weight: 1,
      endpoint: `${id}:9000`,
      hostname: id,
      port: 9000,
      shardSetId: 0,
      debugPort: 0,
    };
  }

  dataFolder(id: string): string {
    return `${this.folder}/${id}`;
  }

  async start(id: string, env: Env = realEnv): Promise<TestNode> {
    const kv = this.kvStore.client();
    const remembered = () => readKnownStore(env.disk, silentLog, this.dataFolder(id));
    const topology = new Topology({ kv, cluster, env, log: silentLog, remembered }).start();
    const metrics = new Metrics();
    const runtime = await NodeRuntime.start({
      env,
      log: silentLog,
      metrics,
      kv,
      cluster,
      topology,
      instanceId: id,
      dataFolder: this.dataFolder(id),
      pageBytesMax: 1024 * 1024,
      cachePolicy: 'lru',
      memoryBytesMax: 64 * 1024 * 1024,
      commitlog: {
        sync: 'always',
        syncEveryMillis: 1000,
        syncBytesMax: 1 << 20,
        segmentBytesMax: 1 << 20,
      },
      limits: { outstandingWritesMax: 0, outstandingReadsMax: 0, newSeriesPerSecondMax: 0 },
      tickMillis: 10_000,
      ...(this.repair === null ? {} : { repair: this.repair }),
      nodeServiceOf: (instance) => this.serviceOf(instance),
      onFatal: (error) => this.fatal.push(error),
    });
    const node = { id, runtime, topology, metrics };
    this.nodes.set(id, node);
    return node;
  }

  async stop(id: string): Promise<void> {
    const node = this.nodes.get(id);
    this.nodes.delete(id);
    await node?.runtime[Symbol.asyncDispose]();
    await node?.topology[Symbol.asyncDispose]();
  }

  /** The node's service, or one that cannot be reached when it is stopped. */
  serviceOf(instance: Pick<Instance, 'id'>): NodeService {
    return new Proxy({} as NodeService, {
      get: (_, name) => {
        const database = this.nodes.get(instance.id)?.runtime.database;
        if (database === undefined) {
          return () => {
            throw new TsdbError('UNAVAILABLE', `cannot reach ${instance.id}`);
          };
        }
        const method = name as keyof NodeService;
        return (...args: unknown[]) => {
          this.onCall(instance.id, method);
          return (database[method] as (...all: unknown[]) => unknown).apply(database, args);
        };
      },
    });
  }

  /** As of the listeners of a node. */
  truncations(id: string): Truncations {
    const { topology } = this.nodes.get(id)!;
    return new Truncations({
      log: new DeletionLog(this.kvStore.client(), cluster),
      clock: realEnv.clock,
      topology,
      nodeOf: (instance) => this.serviceOf(instance),
      checkClock: () => {},
      noteDeletion: () => {},
    });
  }

  async addNamespace(namespace: Namespace): Promise<void> {
    await this.namespaces.update((registry) => addNamespace(registry, namespace), never);
  }

  async deploySchema(name: string, text: SchemaText): Promise<void> {
    const namespaces = new NamespaceStore(this.kvStore.client(), cluster, realEnv.clock);
    const target = { namespaces, clock: realEnv.clock, random: realEnv.random };
    await deploySchema(target, name, text, { dryRun: false }, never);
  }

  async deleteNamespace(name: string): Promise<void> {
    await this.namespaces.update((registry) => deleteNamespace(registry, name, 0n), never);
  }

  /** Waits until the node sees a state of the cluster and its own data that the test wants. */
  async until(id: string, holds: (view: TopologyView, node: TestNode) => boolean): Promise<void> {
    const giveUp = realEnv.clock.deadline(10_000, never);
    for (;;) {
      const node = this.nodes.get(id)!;
      if (holds(node.topology.view, node)) return;
      await realEnv.clock.sleep(10, giveUp);
    }
  }

  /** All shards of the instance are AVAILABLE and whole on it. */
  async untilAvailable(id: string): Promise<void> {
    await this.until(id, ({ placement }, { runtime }) => {
      const shards = placement?.instances.find((instance) => instance.id === id)?.shards ?? [];
      return (
        runtime.database.isBootstrapped &&
        shards.length > 0 &&
        shards.every(({ state }) => state === 'AVAILABLE') &&
        runtime.database.shards.all().every(({ state }) => state === 'AVAILABLE')
      );
    });
  }

  async changePlacement(change: (current: Placement) => Placement): Promise<void> {
    await this.placements.update(change, never);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const id of [...this.nodes.keys()]) await this.stop(id);
    await realEnv.disk.removeTree(this.folder);
  }
}
