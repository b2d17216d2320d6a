/**
 * Makes the windows of aggregated namespaces from the raw rows of this node, slice by slice (docs/AGGREGATION.md): those
 * whose raw rows are in filesets, and once more when these are others.
 */
import type { KnownRules } from '#cluster/aggregation_rules/sets/follower.ts';
import type { RuleSetsOverTime } from '#cluster/aggregation_rules/sets/over_time.ts';
import { isReady } from '#cluster/namespaces/namespaces.ts';
import { namespaceNumber } from '#cluster/namespaces/numbers.ts';
import { hasAllFrom, samplesParts, windowsWaitNanosMax } from '#cluster/namespaces/samples.ts';
import { BrokenInvariant } from '#lib/assert.ts';
import { blockOverlaps } from '#lib/block_time.ts';
import { messageOf } from '#lib/errors.ts';
import { type FormatLevels, resolutionsFormatLevel } from '#lib/format_level.ts';
import type { Log } from '#lib/log.ts';
import { retentionHoldMillis } from '../../clock/retention_clock.ts';
import type { BlockFile } from '../filesets/block_file.ts';
import { Pace } from '../flush/pace.ts';
import type { VolumeParts } from '../flush/volume.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import { KeptWindows, rulesDigestOf } from '#cluster/aggregation_rules/sets/kept_windows.ts';
import { knownSlices } from './known_slices.ts';
import { isMadeOf, type MadeOf, madeOf, type Source, stillMadeOf } from './made_of.ts';
import {
  type ShardKey,
  type SliceKey,
  sliceKey,
  type SliceNote,
  type SliceNotes,
} from './notes.ts';
import { makeSlice } from './slice_job.ts';
import {
  blocksIn,
  filesOf,
  isClosed,
  isInMemory,
  rawRangeOf,
  type ShardSlice,
  type Slice,
} from './slices.ts';
import {
  completeFrom,
  droppedOf,
  expiredBy,
  type Raw,
  rawsOf,
  type Target,
  targetsOf,
} from './state.ts';
import { pauseMillisOf, Waits } from './waits.ts';

/** Share of the main loop's time. */
const aggregationShare = 0.2;
/** How often notes are saved while slices are made. */
const saveMillis = 60_000;
/** How often it is looked for what is due while no file and no deletion has come or gone: time alone passes. */
const lookMillis = 60_000;
/** Slices that are looked at in one stretch of the main loop. */
const slicesAtOnce = 64;
/** Quarters of the retention of samples for which slices wait for rules that may have come to hold since, at most. */
const newRulesWaitQuarters = 1n;
/** The same where no rules have been read since the start: what is made then may be other windows than the rules say. */
const anyRulesWaitQuarters = 3n;
const nanosPerMilli = 1_000_000n;
/** The retention's clock waits for twice as long, and then rows are gone. */
const ownersWaitMillisMax = retentionHoldMillis / 2;
const pauseMillisMax = Number(windowsWaitNanosMax / nanosPerMilli);

export interface AggregatorParts extends VolumeParts {
  readonly log: Log;
  readonly formats: FormatLevels;
  readonly namespaces: ReadonlyMap<string, NamespaceState>;
}

/** What windows are made of. */
interface Rows {
  readonly raws: readonly Raw[];
  /** Rows that are in none of them. */
  readonly dropped: Raw | null;
}

/** What a slice is to be made of. */
interface Work extends Source {
  readonly target: Target;
  readonly slice: ShardSlice;
  readonly key: SliceKey;
  readonly completeFromNanos: bigint;
  readonly isPastElsewhere: boolean;
  readonly dropped: { readonly of: NamespaceState; readonly fromNanos: bigint } | null;
  readonly madeOf: MadeOf;
  readonly deletions: number;
  readonly sets: RuleSetsOverTime;
  /** Of these. */
  readonly rules: string;
}

export class Aggregator {
  readonly #parts: AggregatorParts;
  readonly #notes: SliceNotes;
  readonly #rules: { readonly known: KnownRules };
  /** When slices were made last by this process, in monotonic milliseconds, in the order of these. */
  readonly #madeMillis = new Map<SliceKey, number>();
  /** For rows to leave memory. */
  readonly #flushWaits = new Waits();
  /** For what other owners have. */
  readonly #ownerWaits = new Waits();
  /** Whether all that other owners have of a block has come. */
  hasTaken: (namespace: NamespaceState, shard: number, blockStartNanos: bigint) => boolean = () =>
    true;
  /** For filesets to be without what is deleted. */
  readonly #cutWaits = new Waits();
  #savedMillis = 0;
  /** What there was to be looked at the last time, and when that was. */
  #looked: { readonly state: string; readonly millis: number } | null = null;
  /** Windows were lost that the stored notes may have. */
  #hasForgotten = false;
  /** Counts of this process, for metrics. */
  readonly counts: { slices: number; series: number; windows: number; failures: number } = {
    slices: 0,
    series: 0,
    windows: 0,
    failures: 0,
  };

  constructor(parts: AggregatorParts, notes: SliceNotes, rules: { readonly known: KnownRules }) {
    this.#parts = parts;
    this.#notes = notes;
    this.#rules = rules;
  }

  /**
   * Makes what is due, one slice at a time; what fails is logged and tried again.
   * @throws the signal's reason, a broken invariant
   */
  async runDue(signal: AbortSignal): Promise<void> {
    const { env } = this.#parts;
    const pace = new Pace(env.clock, () => aggregationShare);
    // Before that there may be nodes that cannot read windows.
    if (this.#parts.formats.level() < resolutionsFormatLevel) return;
    const targets = targetsOf(this.#parts);
    const state = this.#stateOf(targets);
    const millis = env.clock.monotonicMillis();
    const looked = this.#looked;
    if (looked !== null && looked.state === state && millis - looked.millis < lookMillis) return;
    try {
      const raws = targets.length > 0 ? rawsOf(this.#parts) : [];
      await this.#makeDue(targets, { raws, dropped: droppedOf(this.#parts) }, pace, signal);
      await this.#forgetOthers(targets, raws, pace, signal);
      this.#looked = { state, millis };
    } finally {
      await this.#save();
    }
  }

  /** At once, but for the turns of others. */
  #save(): Promise<void> {
    return this.#notes.save(new Pace(this.#parts.env.clock, () => 1));
  }

  /** Changes with all that may make something due, but for time and for rows that leave memory. */
  #stateOf(targets: readonly Target[]): string {
    if (targets.length === 0) return '';
    return [...this.#parts.namespaces.values()]
      .map(({ definition, files, tombstones, readyShards, expiredBeforeNanos }) => {
        const { completeSinceNanos, goneBeforeNanos } = definition;
        const since = `${completeSinceNanos} ${goneBeforeNanos} ${expiredBeforeNanos}`;
        const options = `${isReady(definition)} ${since}`;
        return `${namespaceNumber(definition)} ${options} ${files.changes} ${tombstones.revision} ${readyShards.size}`;
      })
      .join();
  }

  /** Windows of blocks are lost, or some of them: all are made once more, as far as their rows are there. */
  forget(namespace: NamespaceState, shard: number, blocks: ReadonlySet<bigint>): void {
    for (const note of this.#notes.of(shardKey(namespace, shard))) {
      if (!blocks.has(namespace.blockStartOf(note.startNanos))) continue;
      this.#forgetNote(namespace, shard, note);
      this.#hasForgotten = true;
    }
    this.#looked = null;
  }

  #forgetNote(namespace: NamespaceState, shard: number, note: SliceNote): void {
    const key = shardKey(namespace, shard);
    this.#notes.delete(key, note);
    this.#madeMillis.delete(sliceKey(key, note));
  }

  async #makeDue(
    targets: readonly Target[],
    rows: Rows,
    pace: Pace,
    signal: AbortSignal,
  ): Promise<void> {
    for (const target of targets) {
      const slices = await this.#slicesOf(target, rows, pace, signal);
      for (const [i, slice] of slices.entries()) {
        signal.throwIfAborted();
        if (i % slicesAtOnce === 0) await pace.rest(signal);
        // Of a block that is lost meanwhile.
        this.#forgetLost(target, slice);
        const work = this.#workOf(target, slice, rows);
        if (work === null) continue;
        await this.#tryToMake(work, pace, signal);
        await this.#saveNowAndThen();
        await pace.rest(signal);
      }
    }
  }

  async #tryToMake(work: Work, pace: Pace, signal: AbortSignal): Promise<void> {
    try {
      await this.#make(work, pace, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof BrokenInvariant) throw error;
      this.counts.failures += 1;
      this.#noteTime(work.key);
      const { target, slice } = work;
      const { shard, startNanos } = slice;
      const fields = { namespace: target.namespace.name, shard, slice: String(startNanos) };
      this.#parts.log.warn({ ...fields, error: messageOf(error) }, 'windows are not made yet');
    }
  }

  #noteTime(key: SliceKey): void {
    this.#madeMillis.delete(key);
    this.#madeMillis.set(key, this.#parts.env.clock.monotonicMillis());
  }

  /** A first fill may take hours, and whatever ends it begins again at the last notes. */
  async #saveNowAndThen(): Promise<void> {
    const nowMillis = this.#parts.env.clock.monotonicMillis();
    if (nowMillis - this.#savedMillis < saveMillis) return;
    await this.#save();
    this.#savedMillis = nowMillis;
  }

  /** Else the notes of the next start would say of a fileset that is made now that it has what is lost. */
  async #saveForgotten(): Promise<void> {
    // It may have begun with what is forgotten meanwhile.
    while (this.#hasForgotten) {
      this.#hasForgotten = false;
      try {
        await this.#save();
      } catch (error) {
        this.#hasForgotten = true;
        throw error;
      }
    }
  }

  async #make(work: Work, pace: Pace, signal: AbortSignal): Promise<void> {
    const { target, slice, key, of, raw } = work;
    const { namespace, resolutionNanos } = target;
    const { completeFromNanos, isPastElsewhere: onlyMissing } = work;
    await this.#saveForgotten();
    const made = await namespace.files.write(slice.shard, async (dropped) => {
      if (raw.some(({ namespace: its, file }) => !isInUse(its, file))) return null;
      return makeSlice(
        this.#parts,
        {
          namespace,
          resolutionNanos,
          slice,
          of,
          raw,
          completeFromNanos,
          onlyMissing,
          dropped: work.dropped,
          kept: new KeptWindows(work.sets, target, slice),
          pace,
        },
        AbortSignal.any([signal, dropped]),
      );
    });
    if (made === null) return;
    const { shard, startNanos, endNanos } = slice;
    const { deletions, rules } = work;
    const noted = { madeOf: work.madeOf, deletions, rules, hasWindows: made.windows > 0 };
    this.#notes.set(shardKey(namespace, shard), { startNanos, endNanos, ...noted });
    this.#noteTime(key);
    this.counts.slices += 1;
    this.counts.series += made.series;
    this.counts.windows += made.windows;
    const fields = { namespace: namespace.name, shard, slice: String(startNanos), ...made };
    this.#parts.log.debug({ ...fields, filesets: raw.length }, 'windows are made');
  }

  /** All slices of the namespace that may be to be made, the oldest first. */
  async #slicesOf(
    target: Target,
    { raws, dropped }: Rows,
    pace: Pace,
    signal: AbortSignal,
  ): Promise<ShardSlice[]> {
    const { namespace } = target;
    const all = dropped === null || raws.length === 0 ? raws : [...raws, dropped];
    const byTheirStart = new Map<bigint, ShardSlice[]>();
    for (const shard of [...namespace.readyShards].sort((a, b) => a - b)) {
      const key = shardKey(namespace, shard);
      this.#bringUpToDate(target, shard, { raws, dropped });
      const files = all.flatMap((raw) => {
        return raw.namespace.readyShards.has(shard) ? (raw.files.get(shard) ?? []) : [];
      });
      const { slices, outdated } = knownSlices(target, this.#notes.of(key), files);
      for (const note of outdated) this.#notes.delete(key, note);
      for (const slice of slices) {
        if (slice.startNanos < namespace.expiredBeforeNanos) continue;
        const others = byTheirStart.get(slice.startNanos);
        if (others === undefined) byTheirStart.set(slice.startNanos, [{ ...slice, shard }]);
        else others.push({ ...slice, shard });
      }
      await pace.rest(signal);
    }
    // Starts are few, and slices may be a hundred thousand.
    return [...byTheirStart].sort(([a], [b]) => (a < b ? -1 : 1)).flatMap(([, slices]) => slices);
  }

  /** The notes of a shard: of what is lost none stays, and what has lost some of its rows is frozen. */
  #bringUpToDate(target: Target, shard: number, { raws, dropped }: Rows): void {
    const { namespace, resolutionNanos } = target;
    const key = shardKey(namespace, shard);
    const completeFromNanos = completeFrom(raws);
    for (const note of this.#notes.of(key)) {
      if (this.#isLost(target, shard, note)) {
        this.#forgetNote(namespace, shard, note);
        continue;
      }
      const { startNanos } = rawRangeOf(note, resolutionNanos);
      const hasLostSamples = completeFromNanos !== null && startNanos < completeFromNanos;
      const hasLostDropped =
        dropped !== null &&
        startNanos < completeFrom([dropped])! &&
        isMadeOf(note.madeOf, dropped.namespace);
      if (note.isFrozen !== true && (hasLostSamples || hasLostDropped)) {
        this.#notes.set(key, { ...note, isFrozen: true });
      }
    }
  }

  #forgetLost(target: Target, slice: ShardSlice): void {
    const { namespace } = target;
    const note = this.#notes.get(shardKey(namespace, slice.shard), slice);
    if (note === undefined || !this.#isLost(target, slice.shard, note)) return;
    this.#forgetNote(namespace, slice.shard, note);
  }

  /** A fileset that is lost had the windows of all slices of its block. */
  #isLost({ namespace }: Target, shard: number, { hasWindows, startNanos }: SliceNote): boolean {
    return hasWindows && namespace.files.get(shard, namespace.blockStartOf(startNanos)) === null;
  }

  /** Null when nothing is to be done of it now. */
  #workOf(target: Target, slice: ShardSlice, { raws, dropped }: Rows): Work | null {
    const { env } = this.#parts;
    const { namespace, resolutionNanos } = target;
    const nowNanos = env.clock.nowNanos();
    const range = rawRangeOf(slice, resolutionNanos);
    // All of a slice's rows may be gone with their namespace.
    if (raws.length === 0) return null;
    const samples = samplesParts(raws, range, nowNanos)
      .map(({ namespace: raw }) => raw)
      .filter((raw) => raw.expiredBeforeNanos < range.endNanos);
    const beside = dropped !== null && hasRowsOf(dropped, slice.shard, range) ? [dropped] : [];
    const used = [...samples, ...beside];
    if (samples.length === 0 || !used.every((raw) => isClosed(raw, range, nowNanos))) return null;
    if (!used.every((raw) => raw.namespace.readyShards.has(slice.shard))) return null;
    const completeFromNanos = completeFrom(raws)!;
    if (range.endNanos <= completeFromNanos) return null;
    const { sets, knownNanos } = this.#rules.known;
    const areKnown = knownNanos !== null && knownNanos >= slice.endNanos;
    if (!areKnown && isToWaitForRules(slice, knownNanos, used, nowNanos)) return null;
    const ofShard = shardKey(namespace, slice.shard);
    const key = sliceKey(ofShard, slice);
    const nowMillis = env.clock.monotonicMillis();
    const pauseMillis = pauseMillisOf(used);
    const note = this.#notes.get(ofShard, slice);
    const isPastElsewhere = [raws, beside].some((some) => isPastByNow(some, range, nowNanos));
    if (isPastElsewhere && note !== undefined) return null;
    const lacksSome = isPastElsewhere && !this.#hasTakenAll(target, slice, used);
    if (this.#ownerWaits.isToWait(key, lacksSome, nowMillis, ownersWaitMillisMax)) return null;
    const isFlushedSoon = used.some((raw) => isInMemory(raw, range));
    if (this.#flushWaits.isToWait(key, isFlushedSoon, nowMillis, pauseMillis)) return null;
    const chosen = sourceOf(used, slice.shard, range);
    const others = this.#othersWith(raws, samples, beside, slice.shard, range);
    // Of a window whose time was deleted, rows may be left which are not.
    const deletions = deletionsOf(namespace, slice);
    const rules = rulesDigestOf(sets, target, slice);
    if (note !== undefined) {
      const still = stillMadeOf(note.madeOf, chosen, others, range);
      // Rules that are not known are no others.
      const isOfRules = rules === note.rules || !areKnown;
      if (still !== null && deletions <= note.deletions && isOfRules) {
        if (still !== note.madeOf) this.#notes.set(ofShard, { ...note, madeOf: still });
        return null;
      }
      // A fileset that has deleted rows is written anew soon, and the slice would be made again for that.
      const isCutSoon = isToBeCut(chosen, range);
      if (this.#cutWaits.isToWait(key, isCutSoon, nowMillis, pauseMillis)) return null;
    }
    // Also of what failed: what it lacks comes from others, or never.
    const madeMillis = this.#madeMillis.get(key);
    // Rows that come late in small numbers are not worth the windows of a slice each time.
    if (madeMillis !== undefined && nowMillis - madeMillis < pauseMillis) return null;
    const [aside] = beside;
    return {
      ...chosen,
      target,
      slice,
      key,
      completeFromNanos,
      isPastElsewhere,
      dropped:
        aside === undefined ? null : { of: aside.namespace, fromNanos: completeFrom([aside])! },
      deletions,
      sets,
      rules,
      madeOf: madeOf([chosen, ...others]),
    };
  }

  /** Of the block of a slice, and of those of its rows. */
  #hasTakenAll(
    { namespace, resolutionNanos }: Target,
    { shard, ...slice }: ShardSlice,
    used: readonly Raw[],
  ): boolean {
    const range = rawRangeOf(slice, resolutionNanos);
    return (
      this.hasTaken(namespace, shard, namespace.blockStartOf(slice.startNanos)) &&
      used.every((raw) =>
        blocksIn(raw, range).every((start) => this.hasTaken(raw.namespace, shard, start)),
      )
    );
  }

  /** Namespaces beside the one that is used of which each has all rows of a range, for good as far as anybody can tell. */
  #othersWith(
    raws: readonly Raw[],
    samples: readonly Raw[],
    beside: readonly Raw[],
    shard: number,
    range: Slice,
  ): Source[] {
    const used = [...samples, ...beside];
    if (raws.length === 1 || used.some((raw) => isInMemory(raw, range))) return [];
    const nowNanos = this.#parts.env.clock.nowNanos();
    return raws
      .filter((raw) => {
        if (samples.length === 1 && raw === samples[0]) return false;
        const allFrom = hasAllFrom(raw, nowNanos);
        if (allFrom === null || allFrom > range.startNanos) return false;
        if (!raw.namespace.readyShards.has(shard)) return false;
        return isClosed(raw, range, nowNanos) && !isInMemory(raw, range);
      })
      .map((raw) => sourceOf([raw, ...beside], shard, range))
      .filter((source) => !isToBeCut(source, range));
  }

  /** Notes of namespaces that are gone, of shards that left, and of slices past retention or of which no raw row is left. */
  async #forgetOthers(
    targets: readonly Target[],
    raws: readonly Raw[],
    pace: Pace,
    signal: AbortSignal,
  ): Promise<void> {
    const rawFromNanos = completeFrom(raws);
    const byNumber = new Map(
      targets.map((target) => [namespaceNumber(target.namespace.definition), target]),
    );
    for (const key of this.#notes.shards()) {
      const [number, shard] = key.split('/').map(Number) as [number, number];
      const target = byNumber.get(number);
      const isHere = this.#parts.shards.get(shard) !== undefined;
      for (const note of this.#notes.of(key)) {
        const isKept = isHere && target !== undefined && !isPast(note, target, rawFromNanos);
        if (!isKept) this.#notes.delete(key, note);
      }
      await pace.rest(signal);
    }
    const nowMillis = this.#parts.env.clock.monotonicMillis();
    for (const [key, millis] of this.#madeMillis) {
      // The later ones are behind it.
      if (nowMillis - millis < pauseMillisMax) break;
      this.#madeMillis.delete(key);
    }
    this.#flushWaits.endRound();
    this.#ownerWaits.endRound();
    this.#cutWaits.endRound();
  }
}

/** Whether a slice is past retention, or all of its raw rows are. */
function isPast(
  slice: Slice,
  { namespace, resolutionNanos }: Target,
  rawFromNanos: bigint | null,
): boolean {
  if (slice.startNanos < namespace.expiredBeforeNanos) return true;
  return rawFromNanos !== null && rawRangeOf(slice, resolutionNanos).endNanos <= rawFromNanos;
}

/**
 * Whether rows of a range are here alone because the retention's clock waits, as after a node was away for long: who was there
 * has let them go, and has windows of rows that this node may lack.
 */
function isPastByNow(raws: readonly Raw[], { startNanos }: Slice, nowNanos: bigint): boolean {
  const atNow = raws.map((raw) => expiredBy(raw, nowNanos));
  if (atNow.every((raw, i) => raw === raws[i])) return false;
  const byNow = completeFrom(atNow);
  return byNow !== null && startNanos < byNow && byNow > completeFrom(raws)!;
}

/**
 * Whether a slice whose rules are not all known waits for them: all that hold before its end were written before that. Where
 * the key-value store is away for too long those that are known do, before its rows go.
 */
function isToWaitForRules(
  slice: Slice,
  knownNanos: bigint | null,
  used: readonly Raw[],
  nowNanos: bigint,
): boolean {
  const quarters = knownNanos === null ? anyRulesWaitQuarters : newRulesWaitQuarters;
  const waitNanos = used.map(({ retentionNanos }) => (retentionNanos / 4n) * quarters);
  return waitNanos.every((wait) => nowNanos - slice.endNanos < wait);
}

/** Version of the last deletion that cuts windows of a slice. */
function deletionsOf({ tombstones }: NamespaceState, slice: Slice): number {
  return tombstones.versionOf(slice.startNanos, nanosOf(slice));
}

function shardKey({ definition }: NamespaceState, shard: number): ShardKey {
  return `${namespaceNumber(definition)}/${shard}`;
}

function isInUse({ files, isDropped }: NamespaceState, file: BlockFile): boolean {
  return !isDropped && files.get(file.shard, file.blockStartNanos) === file;
}

function sourceOf(raws: readonly Raw[], shard: number, range: Slice): Source {
  const raw = raws.flatMap(({ namespace, files }) =>
    filesOf(files.get(shard) ?? [], range).map((file) => ({ namespace, file })),
  );
  return { of: raws.map(({ namespace }) => namespace), raw };
}

/** Whether it may have rows of a range. */
function hasRowsOf(raw: Raw, shard: number, range: Slice): boolean {
  if (raw.expiredBeforeNanos >= range.endNanos) return false;
  return isInMemory(raw, range) || filesOf(raw.files.get(shard) ?? [], range).length > 0;
}

/** Whether a deletion concerns rows of a range that one of the filesets may have. */
function isToBeCut({ raw }: Source, range: Slice): boolean {
  return raw.some(({ namespace, file }) =>
    namespace.tombstones
      .pendingOf(file)
      .some(({ deletion }) => blockOverlaps(range.startNanos, nanosOf(range), deletion)),
  );
}

const nanosOf = ({ startNanos, endNanos }: Slice): bigint => endNanos - startNanos;
