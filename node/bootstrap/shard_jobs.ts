/**
 * Brings the shards of every namespace to where their reads are whole, a few at a time, again and
 * again until they are: from peers where there are any, else as empty ones.
 */
import type { NodeService } from '#cluster/node/service.ts';
import type { Instance, Placement } from '#cluster/placement/placement.ts';
import { BrokenInvariant } from '#lib/assert.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { isSameAssignment } from '#cluster/placement/assignments.ts';
import type { DoubtLedger } from '../doubt/ledger.ts';
import type { OwnedShard } from '../storage/namespace/shards.ts';
import type { NamespaceRemoval } from '../storage/deletions/namespace_removal.ts';
import type { NamespaceState } from '../storage/namespace/namespace.ts';
import type { ParkedData } from '../storage/parking/parked_data.ts';
import type { RetentionClock } from '../clock/retention_clock.ts';
import { type DonorPlan, donorPlan } from './donors.ts';
import type { CorruptShard } from './local.ts';
import { bootstrapFromPeers, type PeersParts, type PeersReport, takeShard } from './peers.ts';
import { heldBlocks, type TakenBlocksParts, takenAsOf } from './taken_blocks.ts';

/** What shards are made whole of. */
export interface ShardJobsParts extends PeersParts, TakenBlocksParts {
  readonly log: Log;
  readonly instanceId: string;
  readonly retentionClock: RetentionClock;
  readonly doubts: DoubtLedger;
  readonly namespaces: ReadonlyMap<string, NamespaceState>;
  readonly removal: Pick<NamespaceRemoval, 'lost'>;
  readonly parked: Pick<ParkedData, 'has' | 'holds'>;
}

export interface ShardJobsOptions {
  readonly parts: ShardJobsParts;
  /** The service of another instance. */
  readonly nodeServiceOf: (instance: Instance) => NodeService;
  /** As `Announcement.sinceBoot`. */
  readonly sinceBoot: () => number;
  /** Called when a shard has become ready in a namespace. */
  readonly onReady: () => void;
}

/** Blocks of a shard; null for all that it has. */
type Blocks = ReadonlySet<bigint> | null;

const noBlocks: Blocks = new Set();

interface Job {
  readonly namespace: NamespaceState;
  readonly shard: number;
  /** What the shard was assigned as when the job began. */
  readonly assigned: OwnedShard;
  /** What the attempt that is under way fetches. */
  fetching: Blocks;
  /**
   * What is to be fetched after it: an attempt may have passed a block before that was damaged.
   */
  wanted: Blocks;
  /** Blocks of which damage was found since the job began. */
  readonly damaged: Set<bigint>;
  /** What others gave. */
  fetched: Blocks;
  /** That failed, one after the other. */
  attempts: number;
  /** Of these the last ones, which failed since the blocks are damaged at a peer too. */
  refusals: number;
  blocksAtOnce: number;
  readonly stop: AbortController;
}

interface Marking {
  readonly owned: OwnedShard;
  /** In all of them it was ready. */
  readonly namespaces: ReadonlySet<NamespaceState>;
}

const retryMillisFirst = 250;
const retryMillisMax = 10_000;
/** Shards that one node streams from its peers at a time. */
export const streamShardsAtOnce = 4;
/**
 * It begins with one, and for each so many blocks that came there is one more: a node that is killed
 * on the way fetches again a block, and a fiftieth of what it has.
 */
const blocksOfFurtherShard = 50;

/**
 * Blocks that an attempt fetches when some are lacking: what is done of many stays done. Half as
 * many after each refusal, so that one that nobody has all of is given up alone.
 */
const blocksAtOnceMax = 16;

/** A peer that does not say in this time that it is well is no donor now. */
const healthMillisMax = 4_000;
/** Attempts with the LEAVING source before the other replicas are asked. */
const sourceAttemptsMax = 5;
/**
 * Attempts that fail since blocks are damaged at peers too, before what these have of them has to
 * do.
 */
const damagedRefusalsMax = 5;
/** The same for a shard that comes from others as a whole: some ten minutes. */
const damagedRefusalsOfMoveMax = 60;

export class ShardJobs implements AsyncDisposable {
  readonly #options: ShardJobsOptions;
  /**
   * By namespace and shard. A namespace is told apart by its state: truncation changes its ordinal.
   */
  readonly #jobs = new Map<NamespaceState, Map<number, Job>>();
  readonly #waiting: Job[] = [];
  readonly #running = new Set<Promise<void>>();
  /** Waits of those that are queued again. */
  readonly #resting = new Set<Promise<void>>();
  readonly #stop = new AbortController();
  /** Blocks of whole shards that came, or were here. */
  #blocksTaken = 0;
  /** Attempts that failed: who waits for a peer in vain keeps no other shard from its own. */
  #failures = 0;
  /** By shard: the assignment for which it is made ready. */
  readonly #readyFor = new Map<number, OwnedShard>();
  /** By shard: how the placement was asked last to have it as AVAILABLE. */
  readonly #marked = new Map<number, Marking>();

  constructor(options: ShardJobsOptions) {
    this.#options = options;
  }

  /** Number of shards, counted in each namespace, that are not ready. */
  get pending(): number {
    let count = 0;
    for (const jobs of this.#jobs.values()) count += jobs.size;
    return count;
  }

  /** Starts what the placement asks for and ends what it asks for no more. */
  reconcile(): void {
    const { parts } = this.#options;
    const { doubts, shards, removal, parked } = parts;
    if (shards.placement !== null) {
      doubts.keepOnly(
        (name, shard) =>
          (parts.namespaces.has(name) && shards.isHere(shard)) ||
          removal.lost.has(name) ||
          parked.has(name, shard),
      );
    }
    for (const job of [...this.#jobs.values()].flatMap((jobs) => [...jobs.values()])) {
      const { namespace, shard } = job;
      const isHere = parts.namespaces.get(namespace.name) === namespace;
      const owned = isHere ? parts.shards.get(shard) : undefined;
      const isSame = owned !== undefined && isSameAssignment(owned, job.assigned);
      if (isSame && !this.#isOfLaterNamespace(job, owned)) continue;
      job.stop.abort(new TsdbError('CANCELLED', 'the shard is not to be bootstrapped any more'));
      this.#forget(job);
      if (owned === undefined || owned.state === 'INITIALIZING') continue;
      // The shard was taken over, and what was damaged since has to be fetched all the same.
      if (job.damaged.size > 0) this.#add(namespace, owned, job.damaged);
    }
    for (const owned of parts.shards.all()) {
      const { id, state } = owned;
      const begunAs = this.#readyFor.get(id);
      const isGoingOn = begunAs !== undefined && isSameAssignment(begunAs, owned);
      if (state === 'INITIALIZING' && !isGoingOn) {
        // Assigned anew, to be taken from somebody else, or given up: what others acknowledged since
        // may be missing.
        for (const namespace of parts.namespaces.values()) namespace.readyShards.delete(id);
        this.#readyFor.set(id, owned);
      }
      if (state !== 'INITIALIZING') this.#readyFor.delete(id);
      for (const namespace of parts.namespaces.values()) {
        // What is parked of it comes back first (bring_back.ts).
        const isParked = parked.holds(namespace.definition, shards.shardCount, id);
        if (isParked || namespace.readyShards.has(id)) continue;
        if (state === 'INITIALIZING') this.#add(namespace, owned, null);
        else if (this.#jobOf(namespace, id) === undefined) {
          const doubted = doubts.blocksOf(namespace.name, id);
          if (doubted.size > 0) this.#add(namespace, owned, doubted);
          // A shard that is this node's in full has nothing to fetch for a namespace that is new.
          else namespace.readyShards.add(id);
        }
      }
    }
    this.#startSome();
  }

  /**
   * Says that the placement is asked to have shards as AVAILABLE, as they are ready in all namespaces that there are: which it
   * does, or not.
   */
  noteMarking(ready: ReadonlyMap<number, OwnedShard>): void {
    const namespaces = new Set(this.#options.parts.namespaces.values());
    for (const [shard, owned] of ready) this.#marked.set(shard, { owned, namespaces });
  }

  /**
   * The namespace was made when this node had the whole shard already, though it had not heard so: nothing has to be fetched.
   * Owners of which each would fetch from the other ones would wait for ever.
   */
  #isOfLaterNamespace({ namespace, shard, assigned }: Job, owned: OwnedShard): boolean {
    if (assigned.state !== 'INITIALIZING' || owned.state !== 'AVAILABLE') return false;
    const marked = this.#marked.get(shard);
    if (marked === undefined || !isSameAssignment(marked.owned, owned)) return false;
    // Of one that was there, something is damaged since.
    return !marked.namespaces.has(namespace);
  }

  /** Fetches blocks again that were damaged on this disk, when others have them. */
  repair({ namespace, shard, blocks }: CorruptShard): void {
    const { parts } = this.#options;
    const owned = parts.shards.get(shard);
    const { placement } = parts.shards;
    if (owned === undefined || placement === null) return;
    const isOnItsWay =
      namespace.readyShards.has(shard) || this.#jobOf(namespace, shard) !== undefined;
    // `reconcile` fetches the whole shard.
    if (owned.state === 'INITIALIZING' && !isOnItsWay) return;
    const { instanceId } = parts;
    if (donorPlan(placement, instanceId, owned, false).candidates.length === 0) return;
    namespace.readyShards.lose(shard, blocks);
    this.#add(namespace, owned, blocks.union(parts.doubts.blocksOf(namespace.name, shard)));
    this.#startSome();
  }

  /** INITIALIZING shards that are ready in every namespace, with what they were assigned as. */
  readyShards(): ReadonlyMap<number, OwnedShard> {
    const { parts } = this.#options;
    const ready = new Map<number, OwnedShard>();
    for (const owned of parts.shards.all()) {
      const { id, state } = owned;
      const begunAs = this.#readyFor.get(id);
      if (state !== 'INITIALIZING' || begunAs === undefined) continue;
      const isReady = [...parts.namespaces.values()].every((namespace) =>
        namespace.readyShards.has(id),
      );
      if (isReady && isSameAssignment(begunAs, owned)) ready.set(id, owned);
    }
    return ready;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new TsdbError('CANCELLED', 'the node is stopping'));
    this.#waiting.length = 0;
    await Promise.all([...this.#running, ...this.#resting]);
  }

  #jobOf(namespace: NamespaceState, shard: number): Job | undefined {
    return this.#jobs.get(namespace)?.get(shard);
  }

  /** Begins a job, or has the one of the shard fetch these blocks too. */
  #add(namespace: NamespaceState, assigned: OwnedShard, blocks: Blocks): void {
    const shard = assigned.id;
    const known = this.#jobOf(namespace, shard);
    if (known !== undefined) {
      for (const block of blocks ?? []) known.damaged.add(block);
      // A whole shard is asked for again with each topology, and is fetched once.
      const isUnderWay = blocks === null && known.fetching === null;
      if (!isUnderWay) known.wanted = unionOf(known.wanted, blocks);
      return;
    }
    const stop = new AbortController();
    const damaged = new Set(blocks);
    const job: Job = {
      namespace,
      shard,
      assigned,
      fetching: noBlocks,
      wanted: blocks,
      damaged,
      fetched: noBlocks,
      attempts: 0,
      refusals: 0,
      blocksAtOnce: blocksAtOnceMax,
      stop,
    };
    let jobs = this.#jobs.get(namespace);
    if (jobs === undefined) this.#jobs.set(namespace, (jobs = new Map()));
    jobs.set(shard, job);
    this.#waiting.push(job);
  }

  #forget({ namespace, shard }: Job): void {
    const jobs = this.#jobs.get(namespace);
    jobs?.delete(shard);
    if (jobs?.size === 0) this.#jobs.delete(namespace);
  }

  #startSome(): void {
    while (this.#running.size < streamShardsAtOnce) {
      const [job] = this.#waiting;
      if (job === undefined) return;
      if (job.wanted === null && this.#running.size >= this.#wholeAtOnce()) return;
      this.#waiting.shift();
      if (job.stop.signal.aborted) continue;
      const running = this.#run(job).finally(() => {
        this.#running.delete(running);
        this.#startSome();
      });
      this.#running.add(running);
    }
  }

  #wholeAtOnce(): number {
    return 1 + this.#failures + Math.floor(this.#blocksTaken / blocksOfFurtherShard);
  }

  /** Queues a job again after a time in which others have its place. */
  #again(job: Job, delayMillis: number): void {
    const { clock } = this.#options.parts.env;
    const signal = this.#signalOf(job);
    const resting = clock
      .sleep(delayMillis, signal)
      .then(
        () => {
          this.#waiting.push(job);
          this.#startSome();
        },
        () => {},
      )
      .finally(() => this.#resting.delete(resting));
    this.#resting.add(resting);
  }

  #signalOf(job: Job): AbortSignal {
    return AbortSignal.any([job.stop.signal, this.#stop.signal]);
  }

  async #run(job: Job): Promise<void> {
    const { parts } = this.#options;
    const { log, env } = parts;
    const signal = this.#signalOf(job);
    const wanted = this.#withoutExpired(job);
    job.fetching = wanted === null ? null : new Set([...wanted].slice(0, job.blocksAtOnce));
    job.wanted = wanted === null ? noBlocks : wanted.difference(job.fetching!);
    try {
      const isFetched = job.fetching?.size !== 0 && (await this.#attempt(job, signal));
      // Who ended the job may have begun another one of the shard.
      if (signal.aborted) return;
      job.attempts = 0;
      job.refusals = 0;
      job.blocksAtOnce = Math.min(2 * job.blocksAtOnce, blocksAtOnceMax);
      if (isFetched) job.fetched = unionOf(job.fetched, job.fetching);
      this.#regain(job, isFetched);
    } catch (error) {
      // Nobody waits for this: as a rejection that nobody handles it ends the process.
      if (error instanceof BrokenInvariant) throw error;
      if (signal.aborted) return;
      const isRefusal = error instanceof TsdbError && error.code === 'CONFLICT';
      // What fails for another reason is not to keep the rest waiting.
      job.wanted = isRefusal
        ? unionOf(job.fetching, job.wanted)
        : unionOf(job.wanted, job.fetching);
      job.fetching = noBlocks;
      const { attempts } = job;
      const fields = { namespace: job.namespace.name, shard: job.shard, attempt: attempts };
      log.warn({ ...fields, error: messageOf(error) }, 'shard is not bootstrapped yet');
      const delay = Math.min(retryMillisMax, retryMillisFirst * 2 ** Math.min(attempts, 10));
      job.attempts += 1;
      this.#failures += 1;
      if (isRefusal) {
        job.refusals += 1;
        job.blocksAtOnce = Math.ceil(job.blocksAtOnce / 2);
      }
      this.#again(job, delay * (0.5 + env.random.fraction()));
      return;
    }
    if (job.wanted === null || job.wanted.size > 0) {
      // A disk that damages whatever is written to it keeps nobody busy.
      this.#again(job, retryMillisFirst);
      return;
    }
    job.namespace.readyShards.add(job.shard);
    parts.doubts.end(job.namespace.name, job.shard, null);
    this.#forget(job);
    job.namespace.noteRepaired(job.shard, job.fetched);
    this.#options.onReady();
  }

  /** The blocks of an attempt are here again, as far as they were not found damaged meanwhile. */
  #regain({ namespace, shard, fetching, wanted }: Job, isFetched: boolean): void {
    const { doubts, log } = this.#options.parts;
    const doubted = doubts.blocksOf(namespace.name, shard);
    const ended = fetching === null ? doubted : doubted.intersection(fetching);
    if (!isFetched && ended.size > 0) {
      doubts.counts.blocksLost += ended.size;
      const fields = { namespace: namespace.name, shard, blockStartsNanos: [...ended].join() };
      log.error(fields, 'nobody else has all rows of blocks that are in doubt: some may be lost');
    }
    if (fetching === null || wanted === null) return;
    const regained = fetching.difference(wanted);
    namespace.readyShards.regain(shard, regained);
    doubts.end(namespace.name, shard, regained);
  }

  /** What is past retention meanwhile is not to be fetched any more. */
  #withoutExpired({ namespace, wanted }: Job): Blocks {
    if (wanted === null) return null;
    const now = this.#options.parts.retentionClock.nowNanos();
    return new Set([...wanted].filter((start) => !namespace.isExpired(start, now)));
  }

  /**
   * @returns whether others gave all that was acknowledged; not so when nobody else has the shard
   */
  async #attempt(job: Job, signal: AbortSignal): Promise<boolean> {
    const { parts } = this.#options;
    const { placement } = parts.shards;
    if (placement === null) throw new TsdbError('UNAVAILABLE', 'there is no placement');
    const { plan, healthy } = await this.#donorsOf(job, placement, signal);
    if (plan.candidates.length === 0) return false;
    const donors = [...healthy.values()];
    if (donors.length < plan.needed) {
      const away = plan.candidates.flatMap(({ id }) => (healthy.has(id) ? [] : [id]));
      const wayOut = plan.areRemains ? 'replace them' : 'say so by placement reset';
      throw new TsdbError(
        'UNAVAILABLE',
        `${donors.length} peers of shard ${job.shard} can be reached, and ${plan.needed} are needed: not ${away.join(', ')} (if they are gone for good, ${wayOut})`,
      );
    }
    // When a block is damaged at too many replicas, what all of them have of it is all that there
    // is. Nobody knows how long a source that cannot be reached is away: a shard that moves waits
    // longer for what it alone may have.
    const refusalsMax =
      job.fetching !== null && plan.areAll ? damagedRefusalsMax : damagedRefusalsOfMoveMax;
    const isLastResort =
      plan.areRemains || (job.refusals >= refusalsMax && donors.length === plan.candidates.length);
    const isWhole = job.fetching === null && plan.areCovering && !isLastResort;
    const report = await (isWhole
      ? this.#takeWhole(job, donors, signal)
      : bootstrapFromPeers(
          parts,
          job.namespace,
          job.shard,
          donors,
          job.fetching,
          isLastResort,
          signal,
        ));
    if (report.blocks > 0) {
      parts.log.info(
        { namespace: job.namespace.name, shard: job.shard, peers: donors.length, ...report },
        'shard taken from peers',
      );
    }
    if (isLastResort && !plan.areRemains) {
      const fields = { namespace: job.namespace.name, shard: job.shard };
      parts.log.error(fields, 'blocks are damaged at too many replicas: rows may be lost');
    }
    if (!plan.areCovering) {
      const peers = [...healthy.keys()].join();
      const fields = { namespace: job.namespace.name, shard: job.shard, peers };
      const why = plan.areRemains
        ? 'no owner had all rows: what all have is joined, and some may be lost'
        : 'fewer replicas are left than have all rows: some may be lost';
      parts.log.error(fields, why);
      if (job.fetching === null) parts.doubts.counts.blocksLost += report.blocks;
    }
    return !isLastResort && plan.areCovering;
  }

  /** But for what was taken for the same assignment before. */
  async #takeWhole(
    { namespace, shard, assigned }: Job,
    donors: readonly NodeService[],
    signal: AbortSignal,
  ): Promise<PeersReport & { readonly held: number }> {
    const { parts, sinceBoot } = this.#options;
    const takenAs = takenAsOf(parts, namespace, assigned);
    const held =
      takenAs === null
        ? new Set<bigint>()
        : heldBlocks(parts, namespace, shard, takenAs, sinceBoot());
    const report = await takeShard(parts, namespace, shard, donors, { held, takenAs }, signal);
    this.#blocksTaken += held.size + report.blocks;
    return { ...report, held: held.size };
  }

  /**
   * A shard that moves comes from its source. When that has failed too often it takes turns with the other replicas, and has
   * none while it cannot be reached: one that comes back may have what the others cannot give.
   */
  async #donorsOf(
    { assigned, attempts }: Job,
    placement: Placement,
    signal: AbortSignal,
  ): Promise<{ readonly plan: DonorPlan; readonly healthy: Map<string, NodeService> }> {
    const { instanceId } = this.#options.parts;
    const more = attempts - sourceAttemptsMax;
    const plan = donorPlan(placement, instanceId, assigned, more >= 0 && more % 2 === 0);
    const healthy = await this.#healthyDonors(plan.candidates, signal);
    const isOfSource = plan.candidates[0]?.id === assigned.sourceId;
    if (more < 0 || !isOfSource || healthy.size > 0) return { plan, healthy };
    const ofOthers = donorPlan(placement, instanceId, assigned, true);
    return { plan: ofOthers, healthy: await this.#healthyDonors(ofOthers.candidates, signal) };
  }

  async #healthyDonors(
    candidates: readonly Instance[],
    signal: AbortSignal,
  ): Promise<Map<string, NodeService>> {
    const donors = new Map<string, NodeService>();
    for (const candidate of candidates) {
      const service = this.#options.nodeServiceOf(candidate);
      try {
        const { clock } = this.#options.parts.env;
        const { ok } = await service.health(clock.deadline(healthMillisMax, signal));
        if (ok) donors.set(candidate.id, service);
      } catch (error) {
        if (signal.aborted) throw error;
        const fields = { peer: candidate.id, error: messageOf(error) };
        this.#options.parts.log.warn(fields, 'peer cannot be reached');
      }
    }
    return donors;
  }
}

function unionOf(a: Blocks, b: Blocks): Blocks {
  return a === null || b === null ? null : a.union(b);
}
