/**
 * Deletions of series and ranges on this node (docs/STORAGE.md): each is noted in the log, takes
 * its rows out of memory, and is kept as a tombstone for the filesets that are older than it.
 */
import { deletesAll, type Deletion } from '#cluster/metadata/deletions.ts';
import type { Turning } from '#engine/aside/aside.ts';
import { appendChunks } from '#engine/store/read/chunk_contents.ts';
import { blockOverlaps } from '#lib/block_time.ts';
import { TsdbError } from '#lib/errors.ts';
import type { UnixNanos } from '#lib/time.ts';
import { Turns } from '#lib/turns/turns.ts';
import type { QueryAttempts } from '../../index/query/attempts.ts';
import type { Commitlog } from '../../persist/commitlog/commitlog.ts';
import {
  type AppliedDeletion,
  appliedToJson,
  readTombstones,
  writeTombstones,
} from '../../persist/tombstone_file.ts';
import { placementWaitMillisMax } from '../admission/admission.ts';
import { Pace } from '../flush/pace.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import { type Cut, cutChunks } from '../tombstones/chunk_cut.ts';
import { NamespaceTombstones, type Tombstone } from '../tombstones/tombstones.ts';
import type { RetentionClock } from '../../clock/retention_clock.ts';
import type { Sequencer } from '../write/sequencer.ts';
import { rewriteFiles, type RewriteParts } from './deletion_rewrite.ts';

/** Series that are swept in one stretch of the main loop. */
const seriesAtOnce = 128;
/** Files are rewritten when no deletion came for this time, or at the latest after that. */
const rewriteQuietMillis = 30_000;
const rewriteDelayMillisMax = 600_000;
/** Share of the main loop's time for rewriting that nobody waits for. */
const backgroundShare = 0.2;

/** What it takes to apply deletions. */
export interface DeletionsParts extends RewriteParts {
  readonly commitlog: Commitlog;
  readonly sequencer: Sequencer;
  readonly namespaces: ReadonlyMap<string, NamespaceState>;
  /** Whether what is on this disk is in memory. */
  readonly isLoaded: () => boolean;
  readonly retentionClock: RetentionClock;
  /** Those that are not in the registry any more, and are here until they are parked. */
  readonly lost: ReadonlyMap<string, NamespaceState>;
  /** As `ParkedData`: filesets that may come back into use. */
  readonly parked: { createdNanosOf(name: string): UnixNanos | null };
}

/** What decides whether files are rewritten now; times of a clock that never runs backwards. */
export interface RewriteState {
  /** When the last deletion came, and the first one of those for which files may be rewritten. */
  readonly lastAtMillis: number;
  readonly sinceMillis: number;
  /** Somebody asked for it. */
  readonly isUrgent: boolean;
}

export function isRewriteDue(state: RewriteState, nowMillis: number): boolean {
  return (
    state.isUrgent ||
    nowMillis - state.lastAtMillis >= rewriteQuietMillis ||
    nowMillis - state.sinceMillis >= rewriteDelayMillisMax
  );
}

/** What a deletion takes rows of out of memory. */
interface SweptSeries {
  readonly slots: Uint32Array;
  readonly generations: Uint32Array;
  /** Of the namespace, when they were found. */
  readonly truncations: number;
}

export class Deletions {
  readonly #parts: DeletionsParts;
  readonly #byNamespace = new Map<string, NamespaceTombstones>();
  /** All deletions up to this sequence are applied. */
  appliedSequence = 0;
  /** Files of all deletions up to this one are to be rewritten at once. */
  cleanSequence = 0;
  /** The deletion that is applied now, or that failed and is to be applied again. */
  applying: Deletion | null = null;
  /** Memory may hold rows of a deletion whose record stands in the log. */
  isSweeping = false;
  /** When the deletion that is being applied has its record and is swept, or has failed. */
  #sweep: Promise<void> = Promise.resolve();
  #waiters: { sequence: number; resolve: () => void }[] = [];
  /** Versions of those that delete nothing here, since they cannot be understood. */
  readonly #notUnderstood = new Set<number>();
  /** Versions of those whose records the log had when it was replayed. */
  readonly #replayed = new Set<number>();
  /** Series of which a replay has taken everything in a block out of memory. */
  readonly #emptiedInReplay: {
    readonly namespace: NamespaceState;
    readonly slots: readonly number[];
    readonly start: bigint;
  }[] = [];
  /** Of the last deletion of everything in a namespace: its files are to leave the disk at once. */
  #allSequence = 0;
  #lastAtMillis = 0;
  /**
   * When the oldest deletion came for which files may have to be rewritten; null when there is
   * none.
   */
  #dueSinceMillis: number | null = null;
  /** Counts of this process, for metrics. */
  readonly counts: { applied: number; filesets: number; failures: number } = {
    applied: 0,
    filesets: 0,
    failures: 0,
  };

  constructor(parts: DeletionsParts) {
    this.#parts = parts;
  }

  /** Deletions of the namespace with this name, whether it is there or not. */
  of(name: string): NamespaceTombstones {
    let tombstones = this.#byNamespace.get(name);
    if (tombstones === undefined)
      this.#byNamespace.set(name, (tombstones = new NamespaceTombstones()));
    return tombstones;
  }

  /** Of the last deletion that this node has applied, or applies now. */
  get knownSequence(): number {
    return Math.max(this.appliedSequence, this.applying?.sequence ?? 0);
  }

  /** Number of deletions that are known. */
  get size(): number {
    let size = 0;
    for (const { all } of this.#byNamespace.values()) size += all.length;
    return size;
  }

  /** Reads what was applied before; without it all deletions are applied again. */
  async load(): Promise<void> {
    const { env, dataFolder, log } = this.#parts;
    const state = await readTombstones(env.disk, dataFolder);
    if (state === null) return;
    if (typeof state === 'string') {
      log.error({ reason: state }, 'tombstones.bin is damaged: all deletions are applied again');
      return;
    }
    for (const { deletion, atNanos } of state.tombstones) this.#add(deletion, atNanos);
    this.appliedSequence = state.applied;
  }

  #add(deletion: Deletion, atNanos: UnixNanos): Tombstone | null {
    const tombstones = this.of(deletion.namespace);
    if (tombstones.has(deletion.version)) return null;
    const millis = this.#parts.env.clock.monotonicMillis();
    this.#lastAtMillis = millis;
    this.#dueSinceMillis ??= millis;
    if (deletesAll(deletion)) this.#allSequence = Math.max(this.#allSequence, deletion.sequence);
    try {
      return tombstones.add(deletion, atNanos);
    } catch (error) {
      if (!(error instanceof TsdbError && error.code === 'BAD_REQUEST')) throw error;
      const { sequence } = deletion;
      this.#notUnderstood.add(deletion.version);
      this.#parts.log.error({ sequence, error: error.message }, 'deletion cannot be understood');
      return null;
    }
  }

  /** The segment is needed as long as older ones may have rows that its deletion takes away. */
  noteSegment(segment: number, name: string, { deletion, atNanos }: AppliedDeletion): void {
    const { namespaces, commitlog } = this.#parts;
    const future = namespaces.get(name)?.options.retentionOptions.bufferFutureNanos ?? 0n;
    // Rows may be of later times than the deletion, by the future that is taken.
    const lastNanos = deletion.createdNanos > atNanos ? deletion.createdNanos : atNanos;
    commitlog.noteNeeded(segment, name, Number((lastNanos + future) / 1_000_000n));
  }

  /**
   * The record of a deletion in the log: what was replayed so far is swept, as it was when it was
   * written.
   */
  replay(namespace: NamespaceState, { deletion, atNanos }: AppliedDeletion): void {
    this.#add(deletion, atNanos);
    this.#replayed.add(deletion.version);
    this.#sweepAtOnce(namespace, deletion);
  }

  /**
   * Sweeps for deletions of which no record came: it may have been lost with a part of the log. Or
   * it is older than the log, so what may have been written again since stays.
   */
  replayLost(): void {
    for (const [name, { all }] of this.#byNamespace) {
      const namespace = this.#parts.namespaces.get(name);
      if (namespace === undefined) continue;
      for (const { deletion } of all) {
        if (this.#replayed.has(deletion.version)) continue;
        this.#sweepAtOnce(namespace, { ...deletion, keepsNewerChunks: true });
      }
    }
  }

  /**
   * Applies the deletion that follows; one that is applied already changes nothing. One at a time.
   * @throws {TsdbError} UNAVAILABLE when log or disk fail; to be called again then
   */
  async apply(deletion: Deletion): Promise<void> {
    const { log } = this.#parts;
    const { sequence, namespace: name, version } = deletion;
    const tombstones = this.of(name);
    const { unswept } = tombstones;
    const isKnown = tombstones.has(version) || this.#notUnderstood.has(version);
    // A number alone says nothing: a store that was restored may have given it again.
    if (sequence <= this.appliedSequence && isKnown && unswept?.deletion.version !== version)
      return;
    // One that failed is ended before another one of its namespace begins: only one is known not to be swept.
    if (unswept !== null && unswept.deletion.version !== version)
      await this.apply(unswept.deletion);
    this.applying = deletion;
    if (!tombstones.has(version) || unswept?.deletion.version === version) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#sweep = promise;
      try {
        await this.#recordAndSweep(deletion);
      } finally {
        this.isSweeping = false;
        resolve();
      }
    }
    await this.#save(Math.max(sequence, this.appliedSequence));
    this.applying = null;
    this.counts.applied += 1;
    log.info({ sequence, namespace: name, selectors: deletion.selectors.join() }, 'series deleted');
    for (const waiter of this.#waiters) if (waiter.sequence <= sequence) waiter.resolve();
  }

  async #recordAndSweep(deletion: Deletion): Promise<void> {
    const { sequencer, env } = this.#parts;
    await sequencer.exclusive(() => this.#record(deletion));
    const namespace = this.#hereOf(deletion);
    const never = new AbortController().signal;
    if (namespace !== undefined) {
      // Those that come while it is looked for them have newer rows only.
      const found = await namespace.index.inTurns(this.#turning(never), (attempts) =>
        this.#foundOf(namespace, deletion, attempts),
      );
      for (const _ of this.#sweepSteps(namespace, deletion, found)) await env.clock.sleep(0, never);
    }
    this.of(deletion.namespace).unswept = null;
  }

  #turning(signal: AbortSignal): Turning {
    const { env, aside } = this.#parts;
    return { work: Turns.of(env.clock).begin(signal), aside };
  }

  #sweepAtOnce(namespace: NamespaceState, deletion: Deletion & Cut): void {
    const found = this.#foundOf(namespace, deletion, null);
    for (const _ of this.#sweepSteps(namespace, deletion, found)) continue;
  }

  #foundOf(
    namespace: NamespaceState,
    deletion: Deletion,
    attempts: QueryAttempts | null,
  ): SweptSeries {
    const { generation } = this.#parts.store;
    const limits = { limit: 0, shards: null };
    const { slots } = namespace.index.query(deletion.query, deletion, limits, attempts);
    return {
      slots,
      generations: slots.map((slot) => generation[slot]!),
      truncations: namespace.truncations,
    };
  }

  /** What has rows in memory that it may be about. */
  #hereOf({ namespace: name }: Deletion): NamespaceState | undefined {
    return this.#parts.namespaces.get(name) ?? this.#parts.lost.get(name);
  }

  /**
   * A step of the sequencer: from its begin on rows that come too late are refused, and no fileset
   * is made of its blocks until memory is swept. That stays so when the log fails, for a record
   * that failed may be there after a power loss.
   */
  async #record(deletion: Deletion): Promise<void> {
    const { commitlog } = this.#parts;
    const tombstones = this.of(deletion.namespace);
    const { unswept } = tombstones;
    const before = unswept?.deletion.version === deletion.version ? unswept : null;
    const atNanos = before?.atNanos ?? this.#timeOf(deletion);
    tombstones.unswept = before ?? this.#add(deletion, atNanos);
    const json = JSON.stringify(appliedToJson({ deletion, atNanos }));
    // Synced in any case: tombstones.bin, which is durable, must not be ahead of the log.
    await commitlog.write((buffer) => {
      buffer.addDelete(buffer.namespaceOrdinal(deletion.namespace, 0), json);
      this.noteSegment(buffer.segment, deletion.namespace, { deletion, atNanos });
    }, true);
    this.isSweeping = this.#hereOf(deletion) !== undefined;
  }

  /**
   * Not before any fileset, whatever the clock did; those that are begun later have a later time.
   */
  #timeOf(deletion: Deletion): UnixNanos {
    const { env, parked } = this.#parts;
    const namespace = this.#hereOf(deletion);
    const now = env.clock.nowNanos();
    let atNanos = namespace?.filesetTime(now) ?? now;
    const parkedNanos = parked.createdNanosOf(deletion.namespace);
    if (parkedNanos !== null && parkedNanos > atNanos) atNanos = parkedNanos;
    for (const { info } of namespace?.files.all(null) ?? []) {
      if (info.createdNanos > atNanos) atNanos = info.createdNanos;
    }
    return atNanos;
  }

  /** Takes the rows out of memory, some series at a time. */
  *#sweepSteps(
    namespace: NamespaceState,
    deletion: Deletion & Cut,
    { slots, generations, truncations }: SweptSeries,
  ): Generator<void, void, void> {
    const { store } = this.#parts;
    const { blockSizeNanos } = namespace;
    // It may be dropped since they were found, and its number in the store another one's.
    if (namespace.truncations !== truncations) return;
    const starts = store
      .blocks(namespace.ordinal)
      .map(({ blockStartNanos }) => blockStartNanos)
      .filter((start) => blockOverlaps(start, blockSizeNanos, deletion));
    if (starts.length === 0) return;
    for (let first = 0; first < slots.length; first += seriesAtOnce) {
      if (namespace.truncations !== truncations) return;
      const { generation } = store;
      const unchanged = slots
        .subarray(first, first + seriesAtOnce)
        .filter((slot, i) => generation[slot] === generations[first + i]);
      for (const start of starts) this.#sweepBlock(namespace, unchanged, start, deletion);
      yield;
    }
  }

  #sweepBlock(namespace: NamespaceState, slots: Uint32Array, start: bigint, deletion: Cut): void {
    const { store } = this.#parts;
    const end = start + namespace.blockSizeNanos;
    const { chunkData, chunkOffset } = store.read(slots, start, end);
    const emptied: number[] = [];
    for (let i = 0; i < slots.length; i += 1) {
      const slot = slots[i]!;
      const chunks = chunkData.subarray(chunkOffset[i]!, chunkOffset[i + 1]!);
      const kept = cutChunks(chunks, [deletion]);
      if (kept === chunks) continue;
      store.dropBlock(Uint32Array.of(slot), start);
      if (kept.length > 0) this.#putBack(slot, kept);
      else emptied.push(slot);
    }
    if (!this.#parts.isLoaded()) this.#emptiedInReplay.push({ namespace, slots: emptied, start });
    else unmarkWithoutFile(namespace, emptied, start);
  }

  /**
   * Called when filesets and memory are loaded: only now it is known which blocks have neither of a
   * series.
   */
  noteLoaded(): void {
    const { store } = this.#parts;
    for (const { namespace, slots, start } of this.#emptiedInReplay.splice(0)) {
      const gone = slots.filter(
        (slot) => namespace.index.has(slot) && !store.blockStarts(slot).includes(start),
      );
      unmarkWithoutFile(namespace, gone, start);
    }
  }

  #putBack(slot: number, chunks: Uint8Array): void {
    const { store } = this.#parts;
    try {
      store.insertChunks(slot, chunks);
    } catch (error) {
      if (!(error instanceof TsdbError && error.code === 'RESOURCE_EXHAUSTED')) throw error;
      appendChunks(store, slot, chunks);
    }
  }

  /**
   * Those that are applied, and whose rows may not all have expired, but for those before one of
   * everything.
   */
  applied(): Deletion[] {
    const now = this.#parts.retentionClock.nowNanos();
    return [...this.#byNamespace.values()].flatMap(({ all, unswept, versionOfAll }) =>
      all
        .filter((tombstone) => tombstone !== unswept && tombstone.deletion.expiresNanos > now)
        .map(({ deletion }) => deletion)
        .filter(({ version }) => version >= versionOfAll),
    );
  }

  /** Versions of those of a namespace that are applied, and of which rows may be left anywhere. */
  versionsOf(name: string): number[] {
    const now = this.#parts.retentionClock.nowNanos();
    const { all, versionOfAll } = this.of(name);
    return all.flatMap(({ deletion: { version, expiresNanos } }) =>
      expiresNanos > now && version >= versionOfAll ? [version] : [],
    );
  }

  /** Whether all of these are applied, or a later one of everything in the namespace. */
  hasAll(name: string, versions: readonly number[]): boolean {
    const tombstones = this.of(name);
    return versions.every(
      (version) => version < tombstones.versionOfAll || tombstones.has(version),
    );
  }

  /** Waits until no deletion is being applied. */
  async swept(): Promise<void> {
    await this.#sweep;
  }

  /** Runs a step when no sweep is under way, and again when it says null since one has begun. */
  async whenSwept<T>(step: () => Promise<T | null>): Promise<T> {
    for (;;) {
      await this.#sweep;
      const done = await step();
      if (done !== null) return done;
    }
  }

  /** @throws what the disk rejects with */
  async #save(applied: number): Promise<void> {
    const { env, dataFolder } = this.#parts;
    // Without the one that is not swept: the next start applies it anew, unless the log has its
    // record.
    const tombstones = [...this.#byNamespace.values()].flatMap(({ all, unswept }) =>
      all.filter((tombstone) => tombstone !== unswept),
    );
    try {
      await writeTombstones(env.disk, dataFolder, { applied, tombstones });
    } catch (error) {
      throw new TsdbError('UNAVAILABLE', 'cannot write tombstones.bin', { cause: error });
    }
    this.appliedSequence = applied;
  }

  /**
   * Forgets deletions that were retired and have expired.
   * @param standing versions of those in the key-value store
   */
  async keep(standing: ReadonlySet<number>): Promise<void> {
    const now = this.#parts.retentionClock.nowNanos();
    let changed = false;
    if (this.applying !== null && !standing.has(this.applying.version)) this.applying = null;
    for (const [name, tombstones] of this.#byNamespace) {
      const { unswept } = tombstones;
      // Nobody goes on with one that is neither swept nor standing.
      // What is parked was not cleaned of anything.
      const isParked = this.#parts.parked.createdNanosOf(name) !== null;
      const isWanted = (tombstone: Tombstone): boolean =>
        standing.has(tombstone.deletion.version) ||
        ((tombstone.deletion.expiresNanos > now || isParked) && tombstone !== unswept);
      if (tombstones.keepOnly(isWanted)) changed = true;
      const { namespaces, lost } = this.#parts;
      if (tombstones.all.length === 0 && !namespaces.has(name) && !lost.has(name)) {
        this.#byNamespace.delete(name);
      }
    }
    if (changed) await this.#save(this.appliedSequence);
  }

  /**
   * Waits until this node has applied a deletion that the caller has applied.
   * @throws {TsdbError} UNAVAILABLE when it takes too long
   */
  async whenApplied(sequence: number, signal: AbortSignal): Promise<void> {
    if (sequence <= this.appliedSequence) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiter = { sequence, resolve };
    this.#waiters.push(waiter);
    const stop = new AbortController();
    const either = AbortSignal.any([signal, stop.signal]);
    const timeout = this.#parts.env.clock.sleep(placementWaitMillisMax, either);
    try {
      await Promise.race([promise, timeout.catch(() => {})]);
    } finally {
      stop.abort();
      this.#waiters = this.#waiters.filter((other) => other !== waiter);
    }
    signal.throwIfAborted();
    if (sequence > this.appliedSequence) {
      throw new TsdbError('UNAVAILABLE', `deletion ${sequence} is not applied here yet`);
    }
  }

  /** All deletions up to this sequence have nothing left in files. */
  get cleanedSequence(): number {
    let cleaned = this.appliedSequence;
    for (const { files, tombstones } of this.#parts.namespaces.values()) {
      if (tombstones.all.length === 0) continue;
      for (const file of files.all(null)) {
        for (const { deletion } of tombstones.pendingOf(file)) {
          cleaned = Math.min(cleaned, deletion.sequence - 1);
        }
      }
    }
    return cleaned;
  }

  /** Filesets have come into use that deletions of before may concern. */
  noteFiles(): void {
    if (this.size > 0) this.#dueSinceMillis ??= this.#parts.env.clock.monotonicMillis();
  }

  /** Rewrites files when it is time; what fails is logged and tried again. */
  async rewriteDue(signal: AbortSignal): Promise<void> {
    if (this.#dueSinceMillis === null) return;
    const { env, log, namespaces } = this.#parts;
    const isUrgent = Math.max(this.cleanSequence, this.#allSequence) > this.cleanedSequence;
    const state = { lastAtMillis: this.#lastAtMillis, sinceMillis: this.#dueSinceMillis, isUrgent };
    if (!isRewriteDue(state, env.clock.monotonicMillis())) return;
    const pace = new Pace(env.clock, () => (isUrgent ? 1 : backgroundShare));
    const lastAtMillis = this.#lastAtMillis;
    let failures = 0;
    for (const namespace of namespaces.values()) {
      if (namespace.tombstones.all.length === 0) continue;
      const report = await rewriteFiles(this.#parts, namespace, pace, signal);
      this.counts.filesets += report.filesets;
      failures += report.failures;
      if (report.filesets > 0) log.info({ namespace: namespace.name, ...report }, 'files cleaned');
    }
    this.counts.failures += failures;
    if (failures === 0 && this.#lastAtMillis === lastAtMillis) this.#dueSinceMillis = null;
  }
}

/**
 * Takes series out of the index of a block; where there is a fileset, whoever rewrites it does
 * that.
 */
function unmarkWithoutFile(
  namespace: NamespaceState,
  slots: readonly number[],
  start: bigint,
): void {
  const { index, files } = namespace;
  const without = slots.filter((slot) => {
    const file = files.get(index.shard(slot), start);
    // A closed one says itself what it has.
    return file === null || (file.isClosed && index.tellsItsTags(slot));
  });
  if (without.length > 0) index.unmarkLive(without, start);
}
