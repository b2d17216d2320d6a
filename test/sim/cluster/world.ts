/**
 * A whole cluster on one seed: storage nodes and coordinators of the production code, each a
 * process that can be killed at any moment, over a simulated network, disks, clocks and key-value
 * store.
 */
import { ClusterAdmin } from '#cluster/admin/admin.ts';
import { storedLineage } from '#cluster/kv/lineage.ts';
import { lookingFirst } from '#cluster/kv/looking_first.ts';
import {
  type ClusterName,
  environmentDefault,
  lineageKey,
  storageService,
  zoneDefault,
} from '#cluster/kv/keys.ts';
import { NodeConnections } from '#cluster/node/client.ts';
import { nodeMethods } from '#cluster/node/methods.ts';
import type { NodeService } from '#cluster/node/service.ts';
import type { Instance } from '#cluster/placement/placement.ts';
import { Session } from '#cluster/session/session.ts';
import { Topology } from '#cluster/topology/topology.ts';
import { BrokenInvariant } from '#lib/assert.ts';
import { messageOf } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { Metrics } from '#lib/metrics.ts';
import { murmur3 } from '#lib/hashing/hash.ts';
import { readKnownStore } from '#node/identity/known_store.ts';
import type { RepairOptions } from '#node/repair/options.ts';
import { NodeRuntime } from '#node/runtime.ts';
import { SeededRandom } from '#test/seeded_random.ts';
import { type DiskCopy, SimulatedDisk } from '../simulated_disk.ts';
import { SimulatedKv } from './key_value.ts';
import { KeyValueStore } from './key_value_store.ts';
import { SimulatedNetwork } from './network.ts';
import { type DiskWeather, SimulatedProcess } from './process.ts';
import { SimulatedTime } from './time.ts';
import { WrongClock } from './wrong_clock.ts';

export const clusterName: ClusterName = { environment: environmentDefault, zone: zoneDefault };

/** When every simulation begins. */
const startMillis = 1_700_000_000_000;
const memoryBytesMax = 24 << 20;
const port = 9000;
/** Blocks of a minute are compared every few seconds. */
const repairMillis = 5_000;
/** A process that has ended by itself, or was killed, is started again after so long at most. */
const restartMillisMax = 4_000;

/** What a disk does that nothing ails: the calls of a fast one take some tenths of a millisecond. */
export interface DiskState {
  /** Milliseconds that a call takes at most. */
  delayMillisMax: number;
  /** Calls of these paths never end; null for none. */
  hangs: RegExp | null;
  /** Of a thousand reads of these paths, how many fail with EIO; null for none. */
  readFailures: { readonly paths: RegExp; readonly perThousand: number } | null;
  /** Counts down with each call; the node is killed at 0. */
  killAfterCalls: number;
}

export const fairDisk: Readonly<DiskState> = {
  delayMillisMax: 0.4,
  hangs: null,
  readFailures: null,
  killAfterCalls: Number.POSITIVE_INFINITY,
};

/** A machine with its disk; the process on it comes and goes. */
export interface SimulatedNode {
  readonly id: string;
  /** What its process says that it is; another machine may say the same. */
  readonly instanceId: string;
  /** Whether connections to the instance come here before they go to one that listens already. */
  readonly isPreferred: boolean;
  readonly isolationGroup: string;
  disk: SimulatedDisk;
  readonly diskState: DiskState;
  readonly clockError: WrongClock;
  /** Nothing starts on it as long as this is set. */
  isOff: boolean;
  boots: number;
  process: SimulatedProcess | null;
  kv: SimulatedKv | null;
  topology: Topology | null;
  runtime: NodeRuntime | null;
}

export interface SimulatedCoordinator {
  readonly id: string;
  readonly clockError: WrongClock;
  boots: number;
  process: SimulatedProcess;
  kv: SimulatedKv;
  topology: Topology;
  session: Session;
  admin: ClusterAdmin;
  nodeOf: (instance: Instance) => NodeService;
}

export class World {
  readonly seed: number;
  /** Unix milliseconds when the simulation began. */
  readonly startMillis: number = startMillis;
  readonly time: SimulatedTime = new SimulatedTime();
  readonly network: SimulatedNetwork;
  readonly kvStore: KeyValueStore;
  readonly nodes: Map<string, SimulatedNode> = new Map();
  /** Machines beside them on copies of their folders. */
  readonly copies: Map<string, SimulatedNode> = new Map();
  readonly coordinators: SimulatedCoordinator[] = [];
  /** A hash of all that happened, so that two runs of one seed can be compared. */
  traceHash = 0;
  /** Told of what happens, in words. */
  onTrace: (line: string) => void = () => {};
  /** Called with each coordinator that has been started. */
  onCoordinator: (coordinator: SimulatedCoordinator) => void = () => {};
  /** What processes logged, by message. */
  readonly logged: Map<string, number> = new Map();
  readonly #random: SeededRandom;
  /** How often nodes look for what to compare with others. */
  repairMillis: number = repairMillis;

  constructor(seed: number) {
    this.seed = seed;
    this.#random = this.randomFor('world');
    this.network = new SimulatedNetwork(this.time, this.randomFor('network'));
    // What befalls one thing does not change the dice of another.
    const store = new SimulatedProcess('kv', this.#worldFor('kv'), new WrongClock(this.time), null);
    this.kvStore = new KeyValueStore(store.env.clock);
    this.network.onFatal = (process, error) => this.#onFatal(process, error);
    this.time.onEvent = () => {
      this.#mix(this.time.nowMillis);
    };
  }

  /** The key-value store has gone back, and nobody has approved it. */
  get awaitsApproval(): boolean {
    const item = this.kvStore.get(lineageKey(clusterName, storageService));
    return item !== null && storedLineage(item).awaitsApproval;
  }

  randomFor(name: string): SeededRandom {
    return new SeededRandom(murmur3(Buffer.from(name), this.seed));
  }

  trace(line: string): void {
    this.#mix(murmur3(Buffer.from(line)));
    this.onTrace(`${(this.time.nowMillis / 1000).toFixed(3).padStart(8)} ${line}`);
  }

  /** True Unix milliseconds. */
  get wallMillis(): number {
    return startMillis + this.time.nowMillis;
  }

  addNode(id: string, isolationGroup: string): SimulatedNode {
    const node = this.#machine(id, { instanceId: id, isPreferred: true, isolationGroup });
    this.nodes.set(id, node);
    this.#start(node);
    return node;
  }

  /**
   * Starts another process as the same instance, on a copy of the folder.
   * @param isPreferred whether connections to the instance come to the copy at once; else when the
   *   other one is not there
   */
  addCopy(of: SimulatedNode, disk: DiskCopy, isPreferred: boolean): SimulatedNode {
    const { id: instanceId, isolationGroup } = of;
    const id = `${instanceId}-copy${this.copies.size}`;
    const node = this.#machine(id, { instanceId, isPreferred, isolationGroup });
    node.disk.restore(disk);
    this.copies.set(id, node);
    this.#start(node);
    return node;
  }

  #machine(
    id: string,
    as: Pick<SimulatedNode, 'instanceId' | 'isPreferred' | 'isolationGroup'>,
  ): SimulatedNode {
    return {
      id,
      ...as,
      disk: this.#diskFor(id, 0),
      diskState: { ...fairDisk },
      clockError: new WrongClock(this.time),
      isOff: false,
      boots: 0,
      process: null,
      kv: null,
      topology: null,
      runtime: null,
    };
  }

  /** Ends the process of a node; it comes back on the same disk after a while. */
  killNode(node: SimulatedNode, why: string, losesPower: boolean): void {
    if (node.process === null) return;
    this.trace(`${node.id} ends: ${why}${losesPower ? ', power lost' : ''}`);
    const { process } = node;
    node.process = null;
    node.kv = null;
    node.topology = null;
    node.runtime = null;
    process.kill();
    if (losesPower) node.disk.crash();
    node.diskState.killAfterCalls = Number.POSITIVE_INFINITY;
    this.time.after(200 + this.#random.below(restartMillisMax), () => this.#start(node));
  }

  /** Ends the process of a node, which stays away until `turnOn`. */
  turnOff(node: SimulatedNode, losesPower: boolean): void {
    node.isOff = true;
    this.killNode(node, 'away', losesPower);
  }

  /** As `turnOff`, at the end of what its process does when it is asked to stop. */
  async stopNode(node: SimulatedNode): Promise<void> {
    const { process, runtime } = node;
    this.trace(`${node.id} is asked to stop`);
    node.isOff = true;
    await runtime?.[Symbol.asyncDispose]();
    if (node.process === process) this.killNode(node, 'stopped', false);
  }

  turnOn(node: SimulatedNode): void {
    node.isOff = false;
    this.#start(node);
  }

  /** The machine comes back with an empty disk. */
  wipe(node: SimulatedNode): void {
    this.killNode(node, 'its disk is lost', true);
    node.disk = this.#diskFor(node.id, node.boots);
  }

  addCoordinator(id: string): SimulatedCoordinator {
    const clockError = new WrongClock(this.time);
    const coordinator = { id, clockError, boots: 0, ...this.#coordinatorProcess(id, clockError) };
    this.coordinators.push(coordinator);
    this.onCoordinator(coordinator);
    return coordinator;
  }

  killCoordinator(coordinator: SimulatedCoordinator): void {
    this.trace(`${coordinator.id} ends`);
    coordinator.process.kill();
    coordinator.boots += 1;
    Object.assign(coordinator, this.#coordinatorProcess(coordinator.id, coordinator.clockError));
    this.onCoordinator(coordinator);
  }

  infoOf({ id, isolationGroup }: SimulatedNode): object {
    const endpoint = `${id}:${port}`;
    return { id, isolationGroup, zone: zoneDefault, weight: 1, endpoint, hostname: id, port };
  }

  #coordinatorProcess(
    id: string,
    clockError: WrongClock,
  ): Pick<SimulatedCoordinator, 'process' | 'kv' | 'topology' | 'session' | 'admin' | 'nodeOf'> {
    const process = new SimulatedProcess(id, this.#worldFor(id), clockError, null);
    const { env } = process;
    const log = this.logOf(id);
    const kv = new SimulatedKv(process, this.randomFor(`${id} kv`), this.kvStore);
    const cluster = clusterName;
    const topology = new Topology({ kv, cluster, env, log }).start();
    const connections = this.#connectionsOf(process, log).follow(topology);
    const session = new Session({
      topology,
      nodeOf: (instance) => connections.nodeOf(instance),
      env,
      log,
    });
    const nodeOf = (instance: Instance) => connections.nodeOf(instance);
    const looking = lookingFirst(kv, (signal) => topology.refresh(signal));
    const admin = new ClusterAdmin({ ...env, kv: looking, cluster, nodeOf });
    return { process, kv, topology, session, admin, nodeOf };
  }

  #connectionsOf(process: SimulatedProcess, log: Log): NodeConnections {
    const connect = (target: string) => this.network.connect(process, target);
    return new NodeConnections({ env: process.env, log, connect });
  }

  #start(node: SimulatedNode): void {
    if (node.isOff || node.process !== null) return;
    node.boots += 1;
    const { id, instanceId } = node;
    const name = `${id} boot ${node.boots}`;
    const process = new SimulatedProcess(id, this.#worldFor(name), node.clockError, {
      disk: node.disk,
      weather: this.#weatherOf(node),
    });
    node.process = process;
    this.trace(`${id} starts`);
    const log = this.logOf(id);
    const { env } = process;
    const kv = new SimulatedKv(process, this.randomFor(`${name} kv`), this.kvStore);
    const cluster = clusterName;
    const remembered = () => readKnownStore(env.disk, log, 'data');
    const topology = new Topology({ kv, cluster, env, log, remembered }).start();
    node.kv = kv;
    node.topology = topology;
    const connections = this.#connectionsOf(process, log).follow(topology);
    const started = NodeRuntime.start({
      env,
      log,
      metrics: new Metrics(),
      kv,
      cluster,
      topology,
      instanceId,
      dataFolder: 'data',
      pageBytesMax: 256 << 10,
      cachePolicy: 'lru',
      memoryBytesMax,
      commitlog: {
        sync: 'always',
        syncEveryMillis: 1000,
        syncBytesMax: 1 << 20,
        segmentBytesMax: 16 << 10,
      },
      limits: { outstandingWritesMax: 0, outstandingReadsMax: 0, newSeriesPerSecondMax: 0 },
      tickMillis: 10_000,
      repair: this.#repair,
      nodeServiceOf: (instance) => connections.nodeOf(instance),
      onFatal: (error) => this.#onFatal(process, error),
    });
    started.then(
      (runtime) => {
        node.runtime = runtime;
        const { network } = this;
        const methods = nodeMethods(runtime.database, process.env.clock);
        network.listen(`${instanceId}:${port}`, process, methods, node.isPreferred);
      },
      (error: unknown) => this.#onFatal(process, error),
    );
  }

  get #repair(): RepairOptions {
    const { repairMillis: millis } = this;
    return {
      enabled: true,
      type: 'default',
      strategy: 'full_sweep',
      throttleMillis: millis,
      checkIntervalMillis: millis,
    };
  }

  /** A process that cannot go on ends and is started again; a broken invariant is a defect. */
  #onFatal(process: SimulatedProcess, error: unknown): void {
    if (!process.isAlive) return;
    if (error instanceof BrokenInvariant || !isExpected(error)) {
      this.time.fail(new Error(`${process.name}: ${messageOf(error)}`, { cause: error }));
      return;
    }
    const node = this.nodes.get(process.name) ?? this.copies.get(process.name);
    if (node === undefined) throw new Error(`${process.name} is not a node`, { cause: error });
    // Whoever called this runs on until it waits.
    this.time.after(0, () => {
      if (node.process === process) this.killNode(node, messageOf(error), false);
    });
  }

  #weatherOf(node: SimulatedNode): DiskWeather {
    const random = this.randomFor(`${node.id} disk ${node.boots}`);
    const { diskState } = node;
    return {
      delayMillis: ({ path }) => {
        diskState.killAfterCalls -= 1;
        if (diskState.killAfterCalls <= 0) {
          const { process } = node;
          diskState.killAfterCalls = Number.POSITIVE_INFINITY;
          this.time.after(0, () => {
            if (node.process === process) this.killNode(node, 'killed at a call of its disk', true);
          });
        }
        if (diskState.hangs?.test(path) === true) return Number.POSITIVE_INFINITY;
        return random.fraction() * diskState.delayMillisMax;
      },
      errorOf: ({ name, path }) => {
        const { readFailures } = diskState;
        if (readFailures === null || !name.startsWith('read')) return null;
        if (!readFailures.paths.test(path)) return null;
        if (random.below(1000) >= readFailures.perThousand) return null;
        return Object.assign(new Error(`EIO: ${path}`), { code: 'EIO' });
      },
    };
  }

  #diskFor(id: string, boots: number): SimulatedDisk {
    return new SimulatedDisk(this.randomFor(`${id} sectors ${boots}`));
  }

  #worldFor(name: string): ConstructorParameters<typeof SimulatedProcess>[1] {
    return { time: this.time, random: this.randomFor(`${name} random`), startMillis };
  }

  /** Into the trace. */
  logOf(id: string): Log {
    const say =
      (level: string) =>
      (fields: object, message: string): void => {
        if (level !== 'debug') {
          this.logged.set(message, (this.logged.get(message) ?? 0) + 1);
          this.trace(`${id} ${level} ${message} ${JSON.stringify(fields, textOfBigint)}`);
        }
      };
    const log: Log = {
      debug: say('debug'),
      info: say('info'),
      warn: say('warn'),
      error: say('error'),
      child: () => log,
    };
    return log;
  }

  #mix(value: number): void {
    this.traceHash = Math.imul(this.traceHash ^ (value * 1000), 0x9e3779b1) >>> 0;
    this.traceHash = (this.traceHash ^ (this.traceHash >>> 15)) >>> 0;
  }
}

/** The errors of a disk end a process, as they do in production. */
function isExpected(error: unknown): boolean {
  const { code } = error as { code?: unknown };
  return typeof code === 'string';
}

function textOfBigint(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? `${value}` : value;
}
