/**
 * A cluster of processes on this machine: etcd, coordinators and storage nodes in isolation groups,
 * what an operator does to its placement, and whether it is whole. Who ends without being told to is
 * started again, as systemd or Kubernetes would.
 */
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import {
  root,
  type Answer,
  call,
  eventually,
  namespaceReady,
  NodeServer,
  type Placement,
  Program,
  shardsAvailable,
} from '../integration/process.ts';
import { freePorts } from '../ports.ts';
import type { ProcessUsage } from './process_usage.ts';
import { coordinatorProgram, etcdProgram } from './etcd_and_coordinator.ts';
import { WatchedPrograms } from './watched_programs.ts';

export interface ClusterOptions {
  readonly folder: string;
  readonly etcdBinary: string;
  /** An isolation group for each node of the first placement. */
  readonly groups: readonly string[];
  readonly coordinators: number;
  readonly shards: number;
  readonly blockSeconds: number;
  readonly retentionSeconds: number;
  /** Setting `db.memoryMax` of each node. */
  readonly memoryMax: string;
  /** Sources of another release, which all processes run at first; null for these. */
  readonly release: string | null;
}

export const namespace = 'soak';
const replicas = 3;
const askTimeoutMillis = 10_000;
/** An administrative request waits for nodes and etcd. */
const changeTimeoutMillis = 60_000;
const startTimeoutMillis = 120_000;
const wholeEveryMillis = 500;
const movedClock = fileURLToPath(new URL('./moved_clock.mjs', import.meta.url));

/** A storage node as an instance of the placement. */
export interface Member {
  readonly id: string;
  readonly group: string;
  readonly server: NodeServer;
  /** Its data folder. */
  readonly data: string;
  /** What moves its clock. */
  readonly clockFile: string;
  state: 'runs' | 'stopped' | 'paused';
}

export class SoakCluster {
  readonly #options: ClusterOptions;
  readonly etcd: Program;
  readonly etcdFolder: string;
  readonly #etcdEndpoint: string;
  readonly coordinators: Program[] = [];
  /** Of the coordinators. */
  readonly urls: string[] = [];
  readonly members: Member[] = [];
  readonly #watched: WatchedPrograms;
  #lastNumber = 0;
  /** Sources that all run. */
  #checkout: string;

  private constructor(
    options: ClusterOptions,
    ports: readonly number[],
    report: (line: string) => void,
  ) {
    this.#options = options;
    this.#watched = new WatchedPrograms(() => this.#programs(), report);
    this.#checkout = options.release ?? root;
    const { folder } = options;
    const [client, peer, ...rest] = ports as [number, number, ...number[]];
    this.#etcdEndpoint = `127.0.0.1:${client}`;
    this.etcdFolder = join(folder, 'etcd');
    this.etcd = etcdProgram(folder, options.etcdBinary, [client, peer]);
    for (let i = 0; i < options.coordinators; i += 1) {
      const [port, metricsPort] = rest.slice(2 * i) as [number, number];
      const name = `coordinator-${i + 1}`;
      const etcdEndpoint = this.#etcdEndpoint;
      const checkout = this.#checkout;
      this.coordinators.push(
        coordinatorProgram({ name, folder, etcdEndpoint, port, metricsPort, checkout }),
      );
      this.urls.push(`http://127.0.0.1:${port}`);
    }
  }

  get usage(): ProcessUsage {
    return this.#watched.usage;
  }

  /** Processes that ended by themselves. */
  get surprises(): readonly string[] {
    return this.#watched.surprises;
  }

  static async create(
    options: ClusterOptions,
    report: (line: string) => void,
  ): Promise<SoakCluster> {
    const ports = await freePorts(2 + 2 * options.coordinators);
    mkdirSync(options.folder, { recursive: true });
    return new SoakCluster(options, ports, report);
  }

  /** Starts all, and makes the placement and the namespace. */
  async start(): Promise<void> {
    const { groups, shards } = this.#options;
    this.etcd.start();
    for (const coordinator of this.coordinators) coordinator.start();
    const first: Member[] = [];
    for (const group of groups) first.push(await this.#startedMember(group));
    this.#watched.watch();
    for (const url of this.urls) {
      await eventually('a coordinator answers', async () => (await fetch(`${url}/health`)).ok);
    }
    await this.#change('POST', '/api/v1/placement/init', {
      num_shards: shards,
      replication_factor: replicas,
      instances: first.map(instanceOf),
    });
    await shardsAvailable(this.urls[0]!, startTimeoutMillis);
    const { blockSeconds, retentionSeconds } = this.#options;
    const buffer = `${Math.floor(blockSeconds / 4)}s`;
    await this.#change('POST', '/api/v1/services/tsdb/namespace', {
      name: namespace,
      options: {
        bootstrapEnabled: true,
        flushEnabled: true,
        writesToCommitLog: true,
        cleanupEnabled: true,
        snapshotEnabled: true,
        repairEnabled: true,
        coldWritesEnabled: true,
        retentionOptions: {
          retentionPeriodDuration: `${retentionSeconds}s`,
          blockSizeDuration: `${blockSeconds}s`,
          bufferFutureDuration: buffer,
          bufferPastDuration: buffer,
        },
        indexOptions: { enabled: true, blockSizeDuration: `${blockSeconds}s` },
        aggregationOptions: { aggregations: [{ aggregated: false }] },
      },
    });
    await namespaceReady(this.urls[0]!, namespace);
    await this.whole(startTimeoutMillis);
  }

  async #startedMember(group: string): Promise<Member> {
    this.#lastNumber += 1;
    const id = `n${this.#lastNumber}`;
    const folder = join(this.#options.folder, id);
    const clockFile = join(folder, 'clock');
    const server = await NodeServer.create({
      folder,
      etcdEndpoint: this.#etcdEndpoint,
      hostId: id,
      coordinator: false,
      settings: ['commitlog: {sync: always}', `memoryMax: ${this.#options.memoryMax}`],
      checkout: this.#checkout,
      environment: { NODE_OPTIONS: `--import=${movedClock}`, TSDB_TEST_CLOCK_FILE: clockFile },
    });
    const data = join(folder, 'data');
    const member: Member = { id, group, server, data, clockFile, state: 'stopped' };
    this.members.push(member);
    this.begin(member);
    return member;
  }

  /** Starts a member's process; whether it is whole is another question. */
  begin(member: Member): void {
    this.beginProgram(member.server.program);
    member.state = 'runs';
  }

  async end(member: Member, signal: 'SIGKILL' | 'SIGTERM' = 'SIGKILL'): Promise<void> {
    member.state = 'stopped';
    await this.endProgram(member.server.program, signal);
  }

  endProgram(program: Program, signal: 'SIGKILL' | 'SIGTERM' = 'SIGKILL'): Promise<void> {
    return this.#watched.end(program, signal);
  }

  beginProgram(program: Program): void {
    this.#watched.begin(program);
  }

  /** Stops a process where it is, as a machine that hangs; `false` lets it go on. */
  pause(member: Member, isPaused: boolean): void {
    process.kill(member.server.program.pid, isPaused ? 'SIGSTOP' : 'SIGCONT');
    member.state = isPaused ? 'paused' : 'runs';
  }

  /** When all know that the key-value store was restored, what they knew stands again. */
  async approve(): Promise<void> {
    await eventually(
      'the placement is approved',
      async () => {
        const answer = await call('POST', `${this.urls[0]!}/api/v1/placement/approve`, {});
        if (answer.status !== 200) throw new Error(`${answer.status} ${answer.text}`);
        return true;
      },
      startTimeoutMillis,
    );
  }

  get hasRelease(): boolean {
    return this.#options.release !== null;
  }

  /** All processes, one after the other, are started with the other sources. @returns which these are */
  async roll(timeoutMillis: number): Promise<string> {
    const isBack = this.#checkout === root;
    this.#checkout = isBack ? this.#options.release! : root;
    const roll = async (program: Program, begin: () => void): Promise<void> => {
      await this.endProgram(program, 'SIGTERM');
      program.checkout = this.#checkout;
      begin();
      await this.whole(timeoutMillis);
    };
    const rollCoordinators = async (): Promise<void> => {
      for (const program of this.coordinators)
        await roll(program, () => this.beginProgram(program));
    };
    // Coordinators ask for what nodes of the release before cannot do.
    if (isBack) await rollCoordinators();
    for (const member of this.members) {
      member.state = 'stopped';
      await roll(member.server.program, () => this.begin(member));
    }
    if (!isBack) await rollCoordinators();
    return isBack ? 'back to the release' : 'to these sources';
  }

  /** Adds nodes of these groups to the placement. */
  async add(groups: readonly string[]): Promise<Member[]> {
    const added: Member[] = [];
    for (const group of groups) added.push(await this.#startedMember(group));
    await this.#answering(added);
    await this.#change('POST', '/api/v1/placement', { instances: added.map(instanceOf) });
    return added;
  }

  /** A new node takes the place of a member, which goes when its shards are handed over. */
  async replace(member: Member): Promise<Member> {
    const candidate = await this.#startedMember(member.group);
    await this.#answering([candidate]);
    await this.#change('POST', '/api/v1/placement/replace', {
      leavingInstanceIDs: [member.id],
      candidates: [instanceOf(candidate)],
    });
    return candidate;
  }

  async remove(member: Member): Promise<void> {
    await this.#change('POST', '/api/v1/placement/remove', { instance_ids: [member.id] });
  }

  /** Ends the process of a member that is in no placement any more, and removes its folder. */
  async retire(member: Member): Promise<void> {
    await this.end(member, 'SIGTERM');
    this.members.splice(this.members.indexOf(member), 1);
    rmSync(member.server.folder, { recursive: true, force: true });
  }

  async #answering(members: readonly Member[]): Promise<void> {
    for (const { id, server } of members) {
      await eventually(
        `${id} answers`,
        async () => (await ask(`http://127.0.0.1:${server.ports.httpNode}/health`)).status === 200,
        startTimeoutMillis,
      );
    }
  }

  /** What is refused while the cluster is busy is asked for again. */
  async #change(method: string, path: string, body: unknown): Promise<void> {
    await eventually(
      `${method} ${path}`,
      async () => {
        const { status, text } = await call(
          method,
          `${this.urls[0]!}${path}`,
          body,
          changeTimeoutMillis,
        );
        if (status >= 300) throw new Error(`${status} ${text.slice(0, 500)}`);
        return true;
      },
      changeTimeoutMillis,
    );
  }

  /**
   * Waits until every shard is AVAILABLE and handed over, every node whole and without doubt, and a
   * coordinator ready; resolves to the milliseconds that it took.
   *
   * @throws what is not whole when the time is over
   */
  async whole(timeoutMillis: number): Promise<number> {
    const begin = performance.now();
    for (;;) {
      const lacking = await this.#lacking();
      if (lacking === null) return performance.now() - begin;
      if (performance.now() - begin > timeoutMillis) {
        throw new Error(`not whole within ${timeoutMillis / 1000} s: ${lacking}; ${this.states()}`);
      }
      await delay(wholeEveryMillis);
    }
  }

  async #lacking(): Promise<string | null> {
    try {
      const { status, text, json } = await ask(`${this.urls[0]!}/api/v1/placement`);
      if (status !== 200) return `placement: ${status} ${text}`;
      const { instances } = json.placement as Placement;
      for (const { id, shards } of Object.values(instances)) {
        const moving = shards.filter(
          ({ state, sourceId }) => state !== 'AVAILABLE' || sourceId !== '',
        );
        if (moving.length > 0) return `${moving.length} shards of ${id} are ${moving[0]!.state}`;
      }
      for (const member of this.members) {
        if (instances[member.id] === undefined) continue;
        const problem = await this.problemOf(member);
        if (problem !== null) return problem;
      }
      for (const url of this.urls) {
        const ready = await ask(`${url}/ready`);
        if (ready.status !== 200) return `coordinator: ${ready.text.slice(0, 300)}`;
      }
      return null;
    } catch (error) {
      return String(error);
    }
  }

  /** Why the node does not serve as a whole one; null when it does. */
  async problemOf({ id, server }: Member): Promise<string | null> {
    const { httpNode, nodeMetrics } = server.ports;
    const bootstrapped = await ask(`http://127.0.0.1:${httpNode}/bootstrapped`);
    if (bootstrapped.status !== 200) return `${id}: ${bootstrapped.text.slice(0, 300)}`;
    const metrics = await ask(`http://127.0.0.1:${nodeMetrics}/metrics`);
    const inDoubt = /^tsdb_node_blocks_in_doubt (.*)$/m.exec(metrics.text)?.[1];
    // A release without the metric has no doubts.
    return (inDoubt ?? '0') === '0' ? null : `${id}: ${inDoubt} blocks in doubt`;
  }

  async metric(member: Member, name: string): Promise<number> {
    const { text } = await ask(`http://127.0.0.1:${member.server.ports.nodeMetrics}/metrics`);
    const value = new RegExp(`^tsdb_node_${name} (.*)$`, 'm').exec(text)?.[1];
    if (value === undefined) throw new Error(`no metric tsdb_node_${name}`);
    return Number(value);
  }

  /** Has what is in a node's memory written to filesets. */
  async flush(member: Member): Promise<void> {
    const url = `http://127.0.0.1:${member.server.ports.httpNode}/flush`;
    const { status, text } = await call('POST', url, undefined, changeTimeoutMillis);
    if (status !== 200) throw new Error(`flush: ${status} ${text}`);
  }

  /** In one line, for the record of a failure. */
  states(): string {
    return this.members.map(({ id, group, state }) => `${id}(${group}) ${state}`).join(', ');
  }

  #programs(): Program[] {
    return [this.etcd, ...this.coordinators, ...this.members.map(({ server }) => server.program)];
  }

  stop(): Promise<void> {
    return this.#watched.stop();
  }
}

function instanceOf({ id, group, server }: Member): object {
  return {
    id,
    isolation_group: group,
    zone: 'embedded',
    weight: 100,
    endpoint: `127.0.0.1:${server.ports.grpc}`,
    hostname: '127.0.0.1',
    port: server.ports.grpc,
  };
}

function ask(url: string): Promise<Answer> {
  return call('GET', url, undefined, askTimeoutMillis);
}
