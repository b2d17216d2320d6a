/**
 * Compares the closed blocks of this node with those of the other replicas, again and again, and
 * takes what is missing (docs/REPAIR.md): one block at a time, the newest first, since what a node
 * missed while it was away is in the newest ones.
 */
import type { NodeService } from '#cluster/node/service.ts';
import type { Instance, Placement } from '#cluster/placement/placement.ts';
import { BrokenInvariant } from '#lib/assert.ts';
import { ChildSignal } from '#lib/env/wait.ts';
import { badRequest, messageOf, TsdbError } from '#lib/errors.ts';
import { readOwners } from '../bootstrap/donors.ts';
import type { RetentionClock } from '../clock/retention_clock.ts';
import type { NamespaceState } from '../storage/namespace/namespace.ts';
import { isRead } from '../storage/namespace/shards.ts';
import {
  BlockRepair,
  type BlockRepairParts,
  type ComparingNode,
  type Outcome,
  type RepairCounts,
} from './block_repair.ts';
import { type ComparedBlock, differed, dueBlocks } from './due_blocks.ts';
import type { RepairOptions } from './options.ts';

/** Blocks of a shard that are compared in one message: then it is another shard's turn. */
const blocksAtOnce = 8;
/** Blocks of a namespace that are looked at; older ones are not compared. */
const blocksMax = 4096;
/** The first round, after the data of the disk are loaded. */
const firstMillisMax = 5_000;
/**
 * A block that has rows in memory is flushed soon, and is compared then: while late rows come, others
 * are on their way to other replicas. One that is written to all the time waits no longer than this.
 */
const heldMillisMax = 900_000;
const peerRestMillisFirst = 1_000;
const peerRestMillisMax = 60_000;
/** A peer of a release that cannot compare is asked again after so long. */
const formerReleaseMillis = 600_000;
const nanosPerMilli = 1_000_000n;

export interface RepairsParts extends BlockRepairParts {
  readonly instanceId: string;
  readonly namespaces: ReadonlyMap<string, NamespaceState>;
  readonly retentionClock: RetentionClock;
}

export interface RepairsOptions {
  readonly parts: RepairsParts;
  readonly options: RepairOptions;
  /** The service of another instance. */
  readonly nodeServiceOf: (instance: Instance) => NodeService;
  /** Told why something was not compared or not taken. */
  readonly onFailure: (reason: string) => void;
}

/** Blocks of a shard as they were compared with one peer. */
interface Pair {
  readonly compared: Map<bigint, ComparedBlock>;
  /** Since when blocks wait for a flush. */
  readonly heldSince: Map<bigint, number>;
  /** Blocks of which this node has had all that the peer has. */
  readonly taken: Set<bigint>;
}

interface PeerRest {
  failures: number;
  notBeforeMillis: number;
}

/** A shard of this node with another owner of it, and what is to be compared. */
interface Work {
  readonly namespace: NamespaceState;
  readonly shard: number;
  readonly peer: Instance;
  readonly pair: Pair;
  readonly isAsked: boolean;
  readonly due: bigint[];
}

export class Repairs implements AsyncDisposable {
  readonly #options: RepairsOptions;
  readonly #blocks: BlockRepair;
  /** By namespace, then by shard and peer. */
  readonly #pairs = new Map<NamespaceState, Map<string, Pair>>();
  /** Peers that failed, by instance. */
  readonly #rests = new Map<string, PeerRest>();
  readonly #stop = new AbortController();
  #running: Promise<void> = Promise.resolve();
  /** A round was asked for, and has not begun. */
  #isAsked = false;
  #wake: () => void = () => {};
  /** Counts of this process, for metrics. */
  readonly counts: RepairCounts & { rounds: number; seconds: number } = {
    rounds: 0,
    seconds: 0,
    blocksCompared: 0,
    blocksDiffered: 0,
    seriesFetched: 0,
    bytesFetched: 0,
    filesets: 0,
  };
  /** After the last round: pairs of a block and a peer that were never compared. */
  waiting = 0;

  constructor(options: RepairsOptions) {
    this.#options = options;
    this.#blocks = new BlockRepair(options.parts, this.counts, options.onFailure);
  }

  /** Begins when the data of the disk are loaded. @param onFatal told of a broken invariant */
  begin(onFatal: (error: unknown) => void): void {
    if (!this.#options.options.enabled) return;
    this.#running = this.#run().catch((error: unknown) => {
      if (!this.#stop.signal.aborted) onFatal(error);
    });
  }

  /**
   * Begins a round over all blocks now, or after the one that is under way.
   * @throws {TsdbError} BAD_REQUEST when this node does not compare
   */
  demand(): void {
    if (!this.#options.options.enabled) {
      throw badRequest('cannot repair: db.repair.enabled is false');
    }
    this.#isAsked = true;
    this.#wake();
  }

  /** Pairs of a block and a peer that differed when they were last compared. */
  get differing(): number {
    let count = 0;
    for (const { isEqual } of this.#all()) if (!isEqual) count += 1;
    return count;
  }

  /** Whether this node has had all that the other owners have of a block, as far as they are compared at all. */
  hasTaken(namespace: NamespaceState, shard: number, startNanos: bigint): boolean {
    const { options, parts } = this.#options;
    const { placement } = parts.shards;
    if (!options.enabled || !namespace.options.repairEnabled) return true;
    if (placement === null) return false;
    const pairs = this.#pairs.get(namespace);
    return this.#peersOf(placement, shard).every(
      ({ id }) => pairs?.get(keyOf(shard, id))?.taken.has(startNanos) === true,
    );
  }

  /** Seconds since the comparison that is longest ago; 0 without any. */
  get oldestSeconds(): number {
    const now = this.#nowMillis();
    let oldest = now;
    for (const { atMillis } of this.#all()) oldest = Math.min(oldest, atMillis);
    return (now - oldest) / 1000;
  }

  *#all(): Generator<ComparedBlock, void, undefined> {
    for (const pairs of this.#pairs.values()) {
      for (const { compared } of pairs.values()) yield* compared.values();
    }
  }

  async #run(): Promise<void> {
    const { checkIntervalMillis } = this.#options.options;
    await this.#pause(Math.min(checkIntervalMillis, firstMillisMax));
    for (;;) {
      const isAsked = this.#isAsked;
      this.#isAsked = false;
      await this.#round(isAsked);
      await this.#pause(checkIntervalMillis);
    }
  }

  /** Ends early when a round is asked for. */
  async #pause(millis: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    if (this.#isAsked) resolve();
    const either = new ChildSignal(this.#stop.signal);
    const { clock } = this.#options.parts.env;
    await Promise.race([promise, clock.sleep(millis, either.signal).catch(() => {})]);
    either.end();
    this.#stop.signal.throwIfAborted();
  }

  async #round(isAsked: boolean): Promise<void> {
    const started = this.#nowMillis();
    const { namespaces } = this.#options.parts;
    for (const namespace of this.#pairs.keys()) {
      if (namespaces.get(namespace.name) !== namespace) this.#pairs.delete(namespace);
    }
    if (isAsked) this.#rests.clear();
    this.waiting = 0;
    for (const namespace of [...namespaces.values()]) {
      if (namespace.options.repairEnabled) await this.#compareAll(namespace, isAsked);
      else this.#pairs.delete(namespace);
    }
    this.counts.rounds += 1;
    this.counts.seconds += (this.#nowMillis() - started) / 1000;
  }

  async #compareAll(namespace: NamespaceState, isAsked: boolean): Promise<void> {
    const { env } = this.#options.parts;
    const works = this.#worksOf(namespace, isAsked);
    for (let i = works.length - 1; i > 0; i -= 1) {
      const j = Math.floor(env.random.fraction() * (i + 1));
      [works[i], works[j]] = [works[j]!, works[i]!];
    }
    // The newest blocks of all shards, then the next ones.
    for (let open = works; open.length > 0; open = open.filter(({ due }) => due.length > 0)) {
      for (const work of open) {
        const some = work.due.splice(0, blocksAtOnce);
        if (some.length > 0) await this.#compare(work, some);
      }
    }
    const starts = works.length === 0 ? 0 : this.#startsOf(namespace).length;
    for (const { pair } of works) this.waiting += Math.max(starts - pair.compared.size, 0);
  }

  /**
   * Shards that this node has, each with every other owner that is read. One that is LEAVING may be for as long as rows are
   * kept, and have some that only it and an owner that is away have.
   */
  #worksOf(namespace: NamespaceState, isAsked: boolean): Work[] {
    const { shards } = this.#options.parts;
    const { strategy } = this.#options.options;
    const { placement } = shards;
    if (placement === null) return [];
    const startsNanos = this.#startsOf(namespace);
    const known = this.#pairs.get(namespace) ?? new Map<string, Pair>();
    const pairs = new Map<string, Pair>();
    const isWanted = new Set(startsNanos);
    const works: Work[] = [];
    for (const owned of shards.all()) {
      const shard = owned.id;
      if (!isRead(owned) || !namespace.readyShards.isHere(shard)) continue;
      for (const peer of this.#peersOf(placement, shard)) {
        const key = keyOf(shard, peer.id);
        const fresh = { compared: new Map(), heldSince: new Map(), taken: new Set<bigint>() };
        const pair = known.get(key) ?? fresh;
        for (const blocks of [pair.compared, pair.heldSince, pair.taken]) {
          for (const start of blocks.keys()) if (!isWanted.has(start)) blocks.delete(start);
        }
        pairs.set(key, pair);
        const fileOf = (start: bigint): object | null => namespace.files.get(shard, start);
        const due = isAsked
          ? [...startsNanos]
          : dueBlocks(startsNanos, pair.compared, {
              strategy,
              nowMillis: this.#nowMillis(),
              fileOf,
            });
        works.push({ namespace, shard, peer, pair, isAsked, due });
      }
    }
    this.#pairs.set(namespace, pairs);
    return works;
  }

  #peersOf(placement: Placement, shard: number): Instance[] {
    const { instanceId } = this.#options.parts;
    return readOwners(placement, shard).filter(({ id }) => id !== instanceId);
  }

  /** Starts of the blocks that are closed and do not expire soon, the newest first. */
  #startsOf(namespace: NamespaceState): bigint[] {
    const { env, retentionClock } = this.#options.parts;
    const { blockSizeNanos } = namespace;
    const { bufferPastNanos } = namespace.options.retentionOptions;
    const closedNanos = env.clock.nowNanos() - bufferPastNanos - blockSizeNanos;
    const intervalMillis = Math.ceil(this.#options.options.checkIntervalMillis);
    const expiryNanos = retentionClock.nowNanos() + BigInt(intervalMillis) * nanosPerMilli;
    const starts: bigint[] = [];
    let start = namespace.blockStartOf(closedNanos);
    while (starts.length < blocksMax && !namespace.isExpired(start, expiryNanos)) {
      starts.push(start);
      start -= blockSizeNanos;
    }
    return starts;
  }

  async #compare(work: Work, startsNanos: readonly bigint[]): Promise<void> {
    const { namespace, shard, peer, pair } = work;
    const { parts, options, nodeServiceOf, onFailure } = this.#options;
    const { signal } = this.#stop;
    signal.throwIfAborted();
    if (namespace.isDropped) return;
    const rest = this.#rests.get(peer.id);
    if (rest !== undefined && this.#nowMillis() < rest.notBeforeMillis) return;
    const starts = startsNanos.filter((start) => !this.#isHeld(work, start));
    if (starts.length === 0) return;
    const onOutcome = (start: bigint, outcome: Outcome): void => {
      if (outcome !== 'skipped' && outcome !== 'failed') pair.taken.add(start);
      if (outcome === 'skipped' || outcome === 'expired') return;
      const { compared } = pair;
      pair.heldSince.delete(start);
      const file = namespace.files.get(shard, start);
      const now = { file, atMillis: this.#nowMillis(), hasChanged: outcome === 'changed' };
      compared.set(
        start,
        outcome === 'equal'
          ? { ...now, isEqual: true, differences: 0, notBeforeMillis: 0 }
          : differed(compared.get(start), now, options.throttleMillis),
      );
    };
    try {
      const service = nodeServiceOf(peer);
      if (!compares(service)) {
        throw new TsdbError('UNIMPLEMENTED', 'the peer does not compare rows');
      }
      const comparison = {
        namespace,
        shard,
        peerId: peer.id,
        peer: service,
        onlyCompare: options.type === 'only_compare',
      };
      await this.#blocks.run(comparison, starts, onOutcome, signal);
      this.#rests.delete(peer.id);
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof BrokenInvariant) throw error;
      const code = error instanceof TsdbError ? error.code : 'INTERNAL';
      onFailure(code);
      const failures = (rest?.failures ?? 0) + 1;
      const millis =
        code === 'UNIMPLEMENTED'
          ? formerReleaseMillis
          : Math.min(peerRestMillisMax, peerRestMillisFirst * 2 ** Math.min(failures - 1, 10));
      this.#rests.set(peer.id, { failures, notBeforeMillis: this.#nowMillis() + millis });
      const fields = { namespace: namespace.name, shard, peer: peer.id };
      parts.log.warn({ ...fields, error: messageOf(error) }, 'replicas are not compared now');
    }
  }

  /** Whether a block waits for the flush of its rows. */
  #isHeld({ namespace, shard, pair, isAsked }: Work, start: bigint): boolean {
    const { digests } = this.#options.parts;
    const isFlushedSoon =
      namespace.options.flushEnabled && digests.hasMemoryRows(namespace, shard, start);
    if (isAsked || !isFlushedSoon) return false;
    const now = this.#nowMillis();
    const since = pair.heldSince.get(start) ?? now;
    pair.heldSince.set(start, since);
    return now - since < heldMillisMax;
  }

  #nowMillis(): number {
    return this.#options.parts.env.clock.monotonicMillis();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new TsdbError('CANCELLED', 'the node is stopping'));
    await this.#running;
  }
}

const keyOf = (shard: number, peerId: string): string => `${shard}/${peerId}`;

function compares(service: NodeService): service is NodeService & ComparingNode {
  return service.compareRows !== undefined && service.streamDifferent !== undefined;
}
