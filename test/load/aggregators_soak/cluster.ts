/**
 * A cluster of processes on this machine: etcd, three storage nodes, a coordinator and pairs of aggregators, with what an
 * operator does to the placement of these. Logs of all are in one folder.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openEtcdKv } from '#cluster/kv/etcd.ts';
import type { Kv } from '#cluster/kv/kv.ts';
import { RollupMarks } from '#cluster/rollups/marks.ts';
import { realEnv } from '#lib/env/real.ts';
import { silentLog } from '#lib/log.ts';
import { serverEnvironment, serverFlags } from '#lib/process/server_process.mjs';
import {
  call,
  eventually,
  namespaceReady,
  NodeServer,
  Program,
  shardsAvailable,
} from '../../integration/process.ts';
import { freePorts } from '../../ports.ts';
import { coordinatorProgram, discoveryOf, etcdProgram } from '../etcd_and_coordinator.ts';
import type { ProcessUsage } from '../process_usage.ts';
import { WatchedPrograms } from '../watched_programs.ts';
import { bufferFutureMillis, bufferPastMillis, policy, rules, windowMillis } from './data.ts';

const cluster = { environment: 'test', zone: 'embedded' };
const groups = ['a', 'b', 'c'];
const storageShards = 12;
const aggregatorShards = 16;
const pairs = 3;
const placementPath = '/api/v1/services/m3aggregator/placement';
const changeTimeoutMillis = 60_000;
/** Of eleven processes at once, where others use the machine, too. */
const startTimeoutMillis = 180_000;
const statusTimeoutMillis = 2_000;

/** An aggregator, in the placement or not. */
export interface Aggregator {
  readonly id: string;
  readonly group: string;
  readonly program: Program;
  /** gRPC. */
  readonly port: number;
  /** Of its status. */
  readonly httpPort: number;
  readonly metricsPort: number;
}

/** As it is answered. */
export interface AggregatorPlacement {
  readonly numShards: number;
  readonly instances: Readonly<
    Record<string, { readonly id: string; readonly shardSetId: number }>
  >;
}

export class SoakCluster {
  readonly #folder: string;
  readonly #etcdEndpoint: string;
  readonly #etcd: Program;
  readonly #coordinator: Program;
  readonly #nodes: readonly NodeServer[];
  readonly #kv: Kv;
  /** Of the coordinator. */
  readonly url: string;
  readonly aggregators: Aggregator[] = [];
  readonly #watched: WatchedPrograms;

  private constructor(
    folder: string,
    etcd: readonly [program: Program, endpoint: string],
    coordinator: readonly [program: Program, url: string],
    nodes: readonly NodeServer[],
    report: (line: string) => void,
  ) {
    this.#folder = folder;
    [this.#etcd, this.#etcdEndpoint] = etcd;
    [this.#coordinator, this.url] = coordinator;
    this.#nodes = nodes;
    this.#watched = new WatchedPrograms(() => this.#programs(), report);
    this.#kv = openEtcdKv({ endpoints: [this.#etcdEndpoint], env: realEnv, log: silentLog });
  }

  get usage(): ProcessUsage {
    return this.#watched.usage;
  }

  /** Processes that ended by themselves. */
  get surprises(): readonly string[] {
    return this.#watched.surprises;
  }

  static async create(
    folder: string,
    etcdBinary: string,
    report: (line: string) => void,
  ): Promise<SoakCluster> {
    mkdirSync(folder, { recursive: true });
    const ports = await freePorts(4);
    const [client, peer, port, metricsPort] = ports as [number, number, number, number];
    const etcd = etcdProgram(folder, etcdBinary, [client, peer]);
    const etcdEndpoint = `127.0.0.1:${client}`;
    const name = 'coordinator';
    const coordinator = coordinatorProgram({ name, folder, etcdEndpoint, port, metricsPort });
    const nodes: NodeServer[] = [];
    for (const group of groups) {
      const hostId = `node-${group}`;
      nodes.push(
        await NodeServer.create({
          folder: join(folder, hostId),
          etcdEndpoint,
          hostId,
          coordinator: false,
        }),
      );
    }
    const url = `http://127.0.0.1:${port}`;
    return new SoakCluster(folder, [etcd, etcdEndpoint], [coordinator, url], nodes, report);
  }

  /** Starts all, and makes placements and namespaces; rules come later. */
  async start(): Promise<void> {
    this.#watched.begin(this.#etcd);
    for (const { program } of this.#nodes) this.#watched.begin(program);
    this.#watched.begin(this.#coordinator);
    for (let pair = 1; pair <= pairs; pair++) {
      await this.startAggregator(`agg-a${pair}`, 'a');
      await this.startAggregator(`agg-b${pair}`, 'b');
    }
    this.#watched.watch();
    await this.#answers('coordinator', `${this.url}/health`);
    for (const { program, ports } of this.#nodes) {
      await this.#answers(program.name, `http://127.0.0.1:${ports.httpNode}/health`);
    }
    await this.#change('POST', '/api/v1/placement/init', {
      num_shards: storageShards,
      replication_factor: groups.length,
      instances: this.#nodes.map(({ program, ports }, i) =>
        instanceOf(program.name, groups[i]!, ports.grpc),
      ),
    });
    await shardsAvailable(this.url, startTimeoutMillis);
    await this.#makeNamespaces();
    const first = this.aggregators;
    for (const aggregator of first) await this.ready(aggregator);
    await this.#change('POST', `${placementPath}/init`, {
      num_shards: aggregatorShards,
      replication_factor: 2,
      instances: first.map(({ id, group, port }) => instanceOf(id, group, port)),
    });
  }

  async #makeNamespaces(): Promise<void> {
    const plain = {
      bootstrapEnabled: true,
      flushEnabled: true,
      writesToCommitLog: true,
      cleanupEnabled: true,
      snapshotEnabled: true,
      repairEnabled: true,
      // What comes later than the buffer is taken, and in no window: the ledger tells of it.
      coldWritesEnabled: true,
    };
    await this.#change('POST', '/api/v1/services/tsdb/namespace', {
      name: 'samples',
      options: {
        ...plain,
        retentionOptions: {
          retentionPeriodDuration: '24h',
          blockSizeDuration: '2h',
          bufferPastDuration: `${bufferPastMillis}ms`,
          bufferFutureDuration: `${bufferFutureMillis}ms`,
        },
        indexOptions: { enabled: true, blockSizeDuration: '2h' },
        aggregationOptions: { aggregations: [{ aggregated: false }] },
      },
    });
    await namespaceReady(this.url, 'samples');
    await this.#change('POST', '/api/v1/services/tsdb/upgrade/finish', {});
    const attributes = {
      resolutionDuration: `${windowMillis}ms`,
      // What rules make alone.
      downsampleOptions: { all: false },
    };
    await this.#change('POST', '/api/v1/services/tsdb/namespace', {
      name: 'windows',
      options: {
        ...plain,
        retentionOptions: {
          retentionPeriodDuration: `${policy.retentionNanos}ns`,
          blockSizeDuration: '2h',
        },
        indexOptions: { enabled: true, blockSizeDuration: '2h' },
        aggregationOptions: { aggregations: [{ aggregated: true, attributes }] },
      },
    });
    await namespaceReady(this.url, 'windows');
  }

  /** @returns from when on they hold, in Unix milliseconds */
  async applyRules(): Promise<number> {
    const answer = await this.#change('PUT', '/r2/v1/namespaces/default/ruleset', rules);
    return (answer as { readonly cutoverMillis: number }).cutoverMillis;
  }

  /** Starts the process of an aggregator, which is in no placement by that. */
  async startAggregator(id: string, group: string): Promise<Aggregator> {
    const ports = await freePorts(3);
    const [port, httpPort, metricsPort] = ports as [number, number, number];
    const file = join(this.#folder, `${id}.yml`);
    writeFileSync(
      file,
      `aggregator:
  listenAddress: 127.0.0.1:${port}
  httpListenAddress: 127.0.0.1:${httpPort}
  metrics: {prometheus: {listenAddress: "127.0.0.1:${metricsPort}"}}
  hostID: {resolver: config, value: ${id}}
  discovery: ${discoveryOf(this.#etcdEndpoint)}
`,
    );
    const args = [...serverFlags, 'aggregator/main.ts', '-f', file];
    const program = new Program(id, this.#folder, process.execPath, args, serverEnvironment);
    const aggregator = { id, group, program, port, httpPort, metricsPort };
    this.aggregators.push(aggregator);
    this.#watched.begin(program);
    return aggregator;
  }

  /** Waits until it has read what it goes by. */
  ready({ id, httpPort }: Aggregator): Promise<void> {
    return this.#answers(id, `http://127.0.0.1:${httpPort}/ready`);
  }

  async kill({ program }: Aggregator): Promise<void> {
    await this.#watched.end(program, 'SIGKILL');
  }

  begin({ program }: Aggregator): void {
    this.#watched.begin(program);
  }

  /** Ends the process of one that is in no placement any more. */
  async retire(aggregator: Aggregator): Promise<void> {
    await this.#watched.end(aggregator.program, 'SIGTERM');
    this.aggregators.splice(this.aggregators.indexOf(aggregator), 1);
  }

  /** Stops the key-value store where it is, as a machine that hangs; `false` lets it go on. */
  hangStore(hangs: boolean): void {
    process.kill(this.#etcd.pid, hangs ? 'SIGSTOP' : 'SIGCONT');
  }

  /** Those that say that they lead. */
  async leaders(): Promise<Aggregator[]> {
    const leads = await Promise.all(
      this.aggregators.map(async ({ httpPort }) => {
        try {
          const url = `http://127.0.0.1:${httpPort}/status`;
          const { json } = await call('GET', url, undefined, statusTimeoutMillis);
          return json.status.flushStatus.electionState === 'leader';
        } catch {
          return false;
        }
      }),
    );
    return this.aggregators.filter((_, i) => leads[i]);
  }

  async placement(): Promise<AggregatorPlacement> {
    const { status, text, json } = await call('GET', `${this.url}${placementPath}`);
    if (status !== 200) throw new Error(`placement of aggregators: ${status} ${text}`);
    return json.placement;
  }

  /** How many leaders there are to be. */
  async shardSets(): Promise<number> {
    const { instances } = await this.placement();
    return new Set(Object.values(instances).map(({ shardSetId }) => shardSetId)).size;
  }

  async replace(leaving: Aggregator, { id, group, port }: Aggregator): Promise<void> {
    await this.#change('POST', `${placementPath}/replace`, {
      leavingInstanceIDs: [leaving.id],
      candidates: [instanceOf(id, group, port)],
    });
  }

  async remove(pair: readonly Aggregator[]): Promise<void> {
    const ids = pair.map(({ id }) => id);
    await this.#change('POST', `${placementPath}/remove`, { instance_ids: ids });
  }

  async add(pair: readonly Aggregator[]): Promise<void> {
    const instances = pair.map(({ id, group, port }) => instanceOf(id, group, port));
    await this.#change('POST', placementPath, { instances });
  }

  /** Up to where windows of all outputs are made for good, in Unix milliseconds; 0 before the first ones. */
  async finalEndMillis(): Promise<number> {
    const { numShards } = await this.placement();
    const share = {
      leaderKey: '',
      markSuffix: '',
      numShards,
      shards: Array.from({ length: numShards }, (_, shard) => shard),
      holds: { key: '', target: 'modRevision', equals: 0 },
      placement: null,
    } as const;
    const signal = AbortSignal.timeout(changeTimeoutMillis);
    const end = await new RollupMarks(this.#kv, cluster).read(policy, share, signal);
    return Number((end ?? 0n) / 1_000_000n);
  }

  /** Rows that were written once more, because others had come late: of the processes that run now, since they do. */
  async corrections(): Promise<number> {
    const counts = await Promise.all(
      this.aggregators.map(async ({ metricsPort }) => {
        const { text } = await call('GET', `http://127.0.0.1:${metricsPort}/metrics`);
        return Number(/^tsdb_rollup_corrections_total (\d+)/m.exec(text)?.[1] ?? 0);
      }),
    );
    return counts.reduce((sum, count) => sum + count, 0);
  }

  async #answers(name: string, url: string): Promise<void> {
    await eventually(`${name} answers`, async () => (await fetch(url)).ok, startTimeoutMillis);
  }

  /** What is refused while processes are on their way is asked for again. */
  async #change(method: string, path: string, body: unknown): Promise<unknown> {
    return eventually(
      `${method} ${path}`,
      async () => {
        const url = `${this.url}${path}`;
        const { status, text, json } = await call(method, url, body, changeTimeoutMillis);
        if (status >= 300) throw new Error(`${status} ${text.slice(0, 500)}`);
        return json ?? text;
      },
      changeTimeoutMillis,
    );
  }

  #programs(): Program[] {
    return [
      this.#etcd,
      this.#coordinator,
      ...this.#nodes.map(({ program }) => program),
      ...this.aggregators.map(({ program }) => program),
    ];
  }

  async stop(): Promise<void> {
    await this.#watched.stop();
    await this.#kv[Symbol.asyncDispose]();
  }
}

function instanceOf(id: string, group: string, port: number): object {
  return {
    id,
    isolation_group: group,
    zone: cluster.zone,
    weight: 1,
    endpoint: `127.0.0.1:${port}`,
    hostname: '127.0.0.1',
    port,
  };
}
