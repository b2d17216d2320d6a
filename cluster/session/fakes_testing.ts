/**
 * For tests: a cluster of nodes that keep samples in maps, a clock that does not wait, a series
 * table.
 */
import { bootstrappedFrom } from '../placement/placement_testing.ts';
import { readBatch } from '#engine/batch/batch.ts';
import { emptyBundle, type SeriesBundle } from '#engine/codec/series_bundle.ts';
import type { Env } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { formatLevelNewest } from '#lib/format_level.ts';
import { murmur3 } from '#lib/hashing/hash.ts';
import { silentLog } from '#lib/log.ts';
import { idOfTags } from '#lib/series_id/from_tags.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { decodeTags, encodeTags } from '#lib/tags.ts';
import { ClusterAdmin } from '../admin/admin.ts';
import { plainRequest } from '../admin/placement_requests.ts';
import { type MemoryKv, MemoryKvStore } from '../kv/memory.ts';
import {
  type AggregateRequest,
  type AggregateResponse,
  type ColumnsWriteRequest,
  type FetchByIdRequest,
  type FetchRequest,
  type FetchResponse,
  type NodeHealth,
  type NodeService,
  rowOutcome,
  type StreamShardPage,
  type WriteRequest,
  type WriteResponse,
} from '../node/service.ts';
import type { Placement } from '../placement/placement.ts';
import { Session, type SeriesTable, type SessionOptions, type SessionRows } from './session.ts';
import { Topology, type TopologySource, type TopologyView } from '../topology/topology.ts';

export interface TestEnv extends Env {
  /** What was slept, in order. */
  readonly sleptMillis: number[];
  /** How far the wall clock is ahead. */
  wallAheadMillis: number;
  /** Ends every deadline that is running. */
  expire(): void;
}

/** Sleeps end at once, deadlines only when told. */
export function testEnv(): TestEnv {
  const sleptMillis: number[] = [];
  const deadlines = new Set<AbortController>();
  let aheadMillis = 0;
  const env: TestEnv = {
    ...realEnv,
    sleptMillis,
    wallAheadMillis: 0,
    expire() {
      aheadMillis += 3_600_000;
      for (const deadline of deadlines) {
        deadline.abort(new TsdbError('DEADLINE_EXCEEDED', 'deadline of the test exceeded'));
      }
    },
    clock: {
      ...realEnv.clock,
      nowMillis: () => realEnv.clock.nowMillis() + env.wallAheadMillis,
      monotonicMillis: () => realEnv.clock.monotonicMillis() + aheadMillis,
      async sleep(millis, signal) {
        signal.throwIfAborted();
        sleptMillis.push(millis);
        await new Promise((resolve) => setImmediate(resolve));
        signal.throwIfAborted();
      },
      deadline(_, parent) {
        const deadline = new AbortController();
        deadlines.add(deadline);
        parent.addEventListener('abort', () => deadlines.delete(deadline), { once: true });
        return AbortSignal.any([parent, deadline.signal]);
      },
    },
  };
  return env;
}

interface FakeSeries {
  readonly generation: number;
  readonly key: string;
  readonly tags: Uint8Array;
  readonly shard: number;
}

/** ID of the node that takes columns. */
const localNode = 'a1';

/** A node as the contract has it, with switches for what can go wrong. */
export class FakeNode implements NodeService {
  readonly id: string;
  /** By series key: timestamp → value. */
  readonly samples: Map<string, Map<bigint, number>> = new Map();
  readonly writes: {
    rowCount: number;
    seriesCount: number;
    version: number;
    derivesVersions: boolean;
  }[] = [];
  epoch = 'boot1';
  mode: 'up' | 'down' | 'hung' = 'up';
  /** Fails that many requests before it works. */
  failures = 0;
  /** What it answers as the highest version that it has accepted. */
  highestVersion = 0;
  /** What it answers as the highest version of a deletion. */
  deletionVersion = 0;
  /** Turns of the event loop before it answers. */
  turnsBefore = 1;
  /** What it answers as the level of formats that it writes. */
  formatLevelWritten = 1;
  /** Series keys with other values: rows that derive their versions are superseded. */
  readonly supersedes: Set<string> = new Set();
  /** The number that it knows the namespace by: rows for an earlier one are stale. */
  namespaceNumber = 0;
  /** Batches of a higher version are refused: their writer's clock is ahead. */
  versionMax: number = Number.POSITIVE_INFINITY;
  /** Outcome for the rows of a series key. */
  readonly refuses: Map<string, number> = new Map();
  /** Shards that it has not bootstrapped, whatever the placement says. */
  readonly notBootstrapped: Set<number> = new Set();
  readonly fetches: FetchRequest[] = [];
  /** The one node that is in the session's process. */
  readonly writeColumns?: NonNullable<NodeService['writeColumns']>;
  #series: FakeSeries[] = [];
  readonly #placementOf: () => { placement: Placement; version: number };

  constructor(id: string, placementOf: () => { placement: Placement; version: number }) {
    this.id = id;
    this.#placementOf = placementOf;
    if (id !== localNode) return;
    this.writeColumns = async (request, signal) => {
      const { slots, generations } = request.batch;
      try {
        return await this.write(request, signal);
      } finally {
        // The columns are the node's to overwrite until it has answered.
        slots.fill(0xdead_beef);
        generations.fill(0xdead_beef);
      }
    };
  }

  /** A new process: references are void, samples are kept. */
  restart(): void {
    this.epoch = `boot${Number(this.epoch.slice(4)) + 1}`;
    this.#series = [];
  }

  /** Forgets one reference, as an eviction does. */
  evict(key: string): void {
    this.#series = this.#series.map((each) =>
      each.key === key ? { ...each, key: '', generation: each.generation + 1 } : each,
    );
  }

  /** Takes over what a peer has of a shard. */
  takeShard(shard: number, peer: FakeNode): void {
    for (const [key, points] of peer.samples) {
      if (this.#shardOfKey(key) !== shard) continue;
      this.samples.set(key, new Map([...(this.samples.get(key) ?? []), ...points]));
    }
  }

  /** Drops the samples of all other shards. */
  keepShards(shards: ReadonlySet<number>): void {
    for (const key of this.samples.keys()) {
      if (!shards.has(this.#shardOfKey(key))) this.samples.delete(key);
    }
  }

  async write(
    request: WriteRequest | ColumnsWriteRequest,
    signal: AbortSignal,
  ): Promise<WriteResponse> {
    await this.#answering(signal);
    const { placement, version } = this.#placementOf();
    const shards = new Map(
      placement.instances.find(({ id }) => id === this.id)?.shards.map((s) => [s.id, s.state]),
    );
    const batch = request.batch instanceof Uint8Array ? readBatch(request.batch) : request.batch;
    if (batch.version > this.versionMax) {
      throw new TsdbError('FAILED_PRECONDITION', 'the version of the batch is ahead');
    }
    const isKnownEpoch = request.referenceEpoch === this.epoch;
    const references = new Uint32Array(2 * batch.seriesCount);
    const entries: number[] = [];
    for (let i = 0; i < batch.seriesCount; i++) {
      const slot = this.#slotOf(batch.seriesTags(i), placement.numShards);
      entries.push(slot);
      references.set([slot, this.#series[slot]!.generation], 2 * i);
    }
    const outcomes = new Uint8Array(batch.rowCount);
    for (let row = 0; row < batch.rowCount; row++) {
      const isEntry = batch.generations[row] === 0;
      const series = this.#series[isEntry ? entries[batch.slots[row]!]! : batch.slots[row]!];
      const isKnown = isEntry || (isKnownEpoch && series?.generation === batch.generations[row]);
      if (!isKnown || series === undefined) {
        outcomes[row] = rowOutcome.unknownReference;
        continue;
      }
      const state = shards.get(series.shard);
      if (state === undefined) outcomes[row] = rowOutcome.shardNotOwned;
      else if (
        (request.namespaceNumber ?? 0) < this.namespaceNumber ||
        (state !== 'AVAILABLE' && request.placementVersion < version)
      ) {
        outcomes[row] = rowOutcome.stalePlacement;
      } else if (batch.derivesVersions && this.supersedes.has(series.key)) {
        outcomes[row] = rowOutcome.superseded;
      } else outcomes[row] = this.refuses.get(series.key) ?? rowOutcome.written;
      if (outcomes[row] !== rowOutcome.written) continue;
      const points = this.samples.get(series.key) ?? new Map<bigint, number>();
      points.set(batch.timestamps[row]! * BigInt(batch.timeUnitNanos), batch.values[row]!);
      this.samples.set(series.key, points);
    }
    const { rowCount, seriesCount, version: batchVersion, derivesVersions } = batch;
    this.writes.push({ rowCount, seriesCount, version: batchVersion, derivesVersions });
    const allWritten = outcomes.every((outcome) => outcome === rowOutcome.written);
    return {
      referenceEpoch: this.epoch,
      outcomes: allWritten ? new Uint8Array(0) : outcomes,
      references,
      highestVersion: this.highestVersion,
      deletionVersion: this.deletionVersion,
      formatLevelWritten: this.formatLevelWritten,
    };
  }

  async fetch(request: FetchRequest, signal: AbortSignal): Promise<FetchResponse> {
    this.fetches.push(request);
    await this.#answering(signal);
    const asked = request.shards === null ? null : new Set(request.shards);
    const keys = [...this.samples.keys()].filter((key) => {
      return asked === null || asked.has(this.#shardOfKey(key));
    });
    const cut = request.seriesLimit > 0 && keys.length > request.seriesLimit;
    const bundle = this.#bundleOf(cut ? keys.slice(0, request.seriesLimit) : keys);
    return { bundle, exhaustive: !cut, shards: this.#wholeShards() };
  }

  async fetchById(request: FetchByIdRequest, signal: AbortSignal): Promise<FetchResponse> {
    await this.#answering(signal);
    const ids = new Set(request.ids.map((id) => Buffer.from(id).toString()));
    const keys = [...this.samples.keys()].filter((key) => ids.has(key));
    return { bundle: this.#bundleOf(keys), exhaustive: true, shards: this.#wholeShards() };
  }

  async aggregate(request: AggregateRequest, signal: AbortSignal): Promise<AggregateResponse> {
    await this.#answering(signal);
    const values = [...this.samples.keys()].map((key) => /job="([^"]*)"/.exec(key)![1]!);
    const tags = [{ name: 'job', values: request.namesOnly ? [] : values.sort() }];
    return { tags, exhaustive: true, shards: this.#wholeShards() };
  }

  truncate(): Promise<number> {
    return Promise.reject(new TsdbError('INTERNAL', 'sessions do not truncate'));
  }

  async *streamShard(_: unknown, signal: AbortSignal): AsyncIterable<StreamShardPage> {
    await this.#answering(signal);
    yield { bundle: emptyBundle };
  }

  async health(signal: AbortSignal): Promise<NodeHealth> {
    await this.#answering(signal);
    return {
      ok: true,
      status: 'up',
      bootstrapped: true,
      writesRefused: '',
      instanceId: this.id,
      incarnation: 'a',
      bootCount: 1,
      placementVersion: this.#placementOf().version,
      unixNanos: realEnv.clock.nowNanos(),
      retires: true,
      formatLevel: formatLevelNewest,
      formatLevelWritten: formatLevelNewest,
      formatLevelOfReaders: formatLevelNewest,
      blocksLacking: 0,
      blocksLost: 0,
      shardsLacking: [],
    };
  }

  async #answering(signal: AbortSignal): Promise<void> {
    for (let turns = 0; turns < this.turnsBefore; turns++) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    if (this.mode === 'hung') {
      await new Promise((_, reject) => {
        const onAbort = () => reject(signal.reason as Error);
        if (signal.aborted) onAbort();
        else signal.addEventListener('abort', onAbort, { once: true });
      });
    }
    if (this.mode === 'down' || this.failures > 0) {
      this.failures--;
      throw new TsdbError('UNAVAILABLE', 'connection refused');
    }
  }

  #slotOf(tags: Uint8Array, numShards: number): number {
    const key = idOfTags(decodeTags(tags), 'quoted');
    let slot = this.#series.findIndex((series) => series.key === key);
    if (slot < 0) {
      slot = this.#series.length;
      const shard = murmur3(Buffer.from(key)) % numShards;
      this.#series.push({ generation: slot + 7, key, tags: new Uint8Array(tags), shard });
    }
    return slot;
  }

  #shardOfKey(key: string): number {
    return murmur3(Buffer.from(key)) % this.#placementOf().placement.numShards;
  }

  #wholeShards(): Uint32Array {
    const mine = this.#placementOf().placement.instances.find(({ id }) => id === this.id);
    const whole = (mine?.shards ?? []).filter(
      ({ id, state }) => state !== 'INITIALIZING' && !this.notBootstrapped.has(id),
    );
    return Uint32Array.from(whole, ({ id }) => id);
  }

  /** The samples of a series as text in place of chunks: joining never looks into equal ranges. */
  #bundleOf(keys: readonly string[]): SeriesBundle {
    return bundleOfSeries(
      keys.map((key) => {
        const job = /job="([^"]*)"/.exec(key)![1]!;
        const points = [...this.samples.get(key)!].sort(([a], [b]) => (a < b ? -1 : 1));
        return { job, chunks: Buffer.from(points.map(([t, v]) => `${t}=${v};`).join('')) };
      }),
    );
  }
}

/** A bundle of series up{job="…"}. */
export function bundleOfSeries(
  series: readonly { readonly job: string; readonly chunks: Uint8Array }[],
): SeriesBundle {
  const offsets = (parts: readonly Uint8Array[]) => {
    let at = 0;
    return Uint32Array.from([0, ...parts.map((part) => (at += part.length))]);
  };
  const tags = series.map(({ job }) => tagsOfJob(job));
  const chunks = series.map((each) => each.chunks);
  return {
    seriesCount: series.length,
    tagsData: new Uint8Array(Buffer.concat(tags)),
    tagsOffset: offsets(tags),
    idScheme: new Uint8Array(series.length).fill(idSchemeCode.quoted),
    idData: new Uint8Array(0),
    idOffset: new Uint32Array(series.length + 1),
    chunkData: new Uint8Array(Buffer.concat(chunks)),
    chunkOffset: offsets(chunks),
  };
}

/** Text of each series' chunks by the value of its tag job. */
export function textsOf(bundle: SeriesBundle): Record<string, string> {
  const texts: Record<string, string> = {};
  for (let i = 0; i < bundle.seriesCount; i++) {
    const tags = decodeTags(
      bundle.tagsData.subarray(bundle.tagsOffset[i], bundle.tagsOffset[i + 1]),
    );
    const job = tags.find(({ name }) => name === 'job')!.value;
    const chunk = bundle.chunkData.subarray(bundle.chunkOffset[i], bundle.chunkOffset[i + 1]);
    texts[job] = Buffer.from(chunk).toString();
  }
  return texts;
}

function tagsOfJob(job: string): Uint8Array {
  return encodeTags([
    { name: '__name__', value: 'up' },
    { name: 'job', value: job },
  ]);
}

export function keyOfJob(job: string): string {
  return `{__name__="up",job="${job}"}`;
}

/** A decoder's table of series up{job="…"}: slots by job, from 1. */
export class FakeTable implements SeriesTable {
  idHash: Uint32Array = new Uint32Array(1024);
  generation: Uint32Array = new Uint32Array(1024);
  refused: Uint8Array = new Uint8Array(1024);
  readonly #jobs: string[] = [''];

  slotOf(job: string): number {
    const found = this.#jobs.indexOf(job);
    if (found > 0) return found;
    return this.assign(this.#jobs.length, job);
  }

  /** Gives a slot to another series. */
  assign(slot: number, job: string): number {
    this.#jobs[slot] = job;
    this.idHash[slot] = murmur3(Buffer.from(keyOfJob(job)));
    this.generation[slot]!++;
    return slot;
  }

  rows(points: readonly (readonly [job: string, seconds: number, value: number])[]): SessionRows {
    const slots = Uint32Array.from(points, ([job]) => this.slotOf(job));
    return {
      rowCount: points.length,
      slots,
      generations: slots.map((slot) => this.generation[slot]!),
      mayBeRefused: true,
      timestamps: BigInt64Array.from(points, ([, seconds]) => BigInt(seconds)),
      timeUnitNanos: 1_000_000_000,
      values: Float64Array.from(points, ([, , value]) => value),
    };
  }

  problem(): string {
    return 'refused by the test';
  }

  tags(slot: number): Uint8Array {
    return tagsOfJob(this.#jobs[slot]!);
  }

  idScheme(): number {
    return idSchemeCode.quoted;
  }

  explicitId(): Uint8Array {
    return new Uint8Array(0);
  }
}

/** A cluster with a namespace 'ns': key-value store, placement, nodes and a session. */
export class FakeCluster implements AsyncDisposable {
  readonly env: TestEnv = testEnv();
  readonly kv: MemoryKv;
  readonly admin: ClusterAdmin;
  readonly topology: Topology;
  readonly nodes: Map<string, FakeNode> = new Map();
  readonly table: FakeTable = new FakeTable();
  readonly session: Session;
  readonly signal: AbortSignal = new AbortController().signal;
  /** What the session takes for the topology until it refreshes; null for the true one. */
  held: TopologyView | null = null;
  /** What nodes have adopted. */
  adopted: { placement: Placement; version: number } | null = null;

  private constructor(options: Partial<SessionOptions>) {
    this.kv = new MemoryKvStore({ clock: realEnv.clock }).client();
    const cluster = { environment: 'default_env', zone: 'embedded' };
    this.admin = new ClusterAdmin({
      kv: this.kv,
      cluster,
      clock: realEnv.clock,
      random: realEnv.random,
    });
    this.topology = new Topology({ kv: this.kv, cluster, env: this.env, log: silentLog }).start();
    this.session = new Session({
      topology: this.#heldTopology(),
      nodeOf: ({ id }) => this.node(id),
      env: this.env,
      log: silentLog,
      ...options,
    });
  }

  /** @param ids 'a1' is an instance of the group 'a' */
  static async start(
    ids: readonly string[],
    shape: { replicaFactor: number; numShards: number },
    options: Partial<SessionOptions> = {},
  ): Promise<FakeCluster> {
    const cluster = new FakeCluster(options);
    const { admin, signal } = cluster;
    const { numShards, replicaFactor } = shape;
    const body = { numShards, replicationFactor: replicaFactor, instances: ids.map(instanceOf) };
    await admin.placementInit(body, plainRequest, signal);
    await cluster.addNamespace();
    await cluster.markAll();
    await cluster.topology.until(({ namespaces }) => namespaces.size > 0, signal);
    return cluster;
  }

  node(id: string): FakeNode {
    let node = this.nodes.get(id);
    if (node === undefined) {
      node = new FakeNode(id, () => this.adopted!);
      this.nodes.set(id, node);
    }
    return node;
  }

  async add(id: string): Promise<void> {
    const body = { instances: [instanceOf(id)] };
    await this.admin.placementAdd(body, plainRequest, this.signal);
    await this.adopt();
  }

  /** All instances mark all their shards. */
  async markAll(): Promise<void> {
    const { value } = await this.admin.placements.require(this.signal);
    for (const { id, shards } of value.instances) {
      const ready = new Map(shards.map((shard) => [shard.id, shard.sourceId]));
      await this.admin.markAvailable(id, bootstrappedFrom(ready), this.signal);
    }
    await this.adopt();
  }

  /** Nodes take the placement of the store; the session's topology follows by its own watch. */
  async adopt(): Promise<void> {
    const { value, version } = await this.admin.placements.require(this.signal);
    this.adopted = { placement: value, version };
  }

  /** Until the session sees what the store has. */
  async seen(): Promise<void> {
    const { version } = await this.admin.placements.get(this.signal);
    await this.topology.until((view) => view.placementVersion === version, this.signal);
  }

  write(
    points: readonly (readonly [job: string, seconds: number, value: number])[],
    signal: AbortSignal = this.signal,
  ): ReturnType<Session['write']> {
    return this.session.write('ns', this.table.rows(points), this.table, signal);
  }

  fetch(
    more: Partial<Parameters<Session['fetch']>[0]> = {},
    signal: AbortSignal = this.signal,
  ): ReturnType<Session['fetch']> {
    const options = {
      namespace: 'ns',
      query: { kind: 'all' },
      startNanos: 0n,
      endNanos: 1_000_000_000_000n,
      seriesLimit: 0,
      requireExhaustive: false,
      fetchData: true,
    } as const;
    return this.session.fetch({ ...options, ...more }, signal);
  }

  /** What each node has of a series, as "seconds=value" texts. */
  stored(job: string): Record<string, string> {
    const texts: Record<string, string> = {};
    for (const { id, samples } of this.nodes.values()) {
      const points = samples.get(keyOfJob(job));
      if (points === undefined) continue;
      texts[id] = [...points].map(([t, v]) => `${t / 1_000_000_000n}=${v}`).join(' ');
    }
    return texts;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.topology[Symbol.asyncDispose]();
  }

  #heldTopology(): TopologySource {
    const view = () => this.held ?? this.topology.view;
    const refresh = (signal: AbortSignal) => {
      this.held = null;
      return this.topology.refresh(signal);
    };
    return {
      get view() {
        return view();
      },
      refresh,
    };
  }

  /** The one that its writes go to. */
  async addNamespace(): Promise<void> {
    const minutes = (count: number) => `${count}m`;
    const options = {
      retentionOptions: {
        retentionPeriodDuration: '48h',
        blockSizeDuration: '2h',
        bufferFutureDuration: minutes(10),
        bufferPastDuration: minutes(10),
      },
    };
    await this.admin.namespaceAdd({ name: 'ns', options }, plainRequest, this.signal);
  }
}

function instanceOf(id: string): object {
  return { id, isolationGroup: id[0], endpoint: `${id}:9000`, hostname: id, port: 9000 };
}
