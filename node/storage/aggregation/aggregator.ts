/**
 * Makes the windows of aggregated namespaces from the raw rows of this node, slice by slice (docs/AGGREGATION.md): those
 * whose raw rows are in filesets, and once more when these are others.
 */
import { aggregationOf, isReady, isUnaggregated } from '#cluster/namespaces/namespaces.ts';
import { namespaceNumber } from '#cluster/namespaces/numbers.ts';
import { isOfSamples, samplesParts } from '#cluster/namespaces/samples.ts';
import { BrokenInvariant } from '#lib/assert.ts';
import { messageOf } from '#lib/errors.ts';
import { type FormatLevels, resolutionsFormatLevel } from '#lib/format_level.ts';
import type { Log } from '#lib/log.ts';
import type { UnixNanos } from '#lib/time.ts';
import type { BlockFile } from '../filesets/namespace_files.ts';
import { Pace } from '../flush/pace.ts';
import type { VolumeParts } from '../flush/volume.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import type { SliceKey, SliceNotes } from './notes.ts';
import { makeSlice } from './slice_job.ts';
import {
  filesOf,
  isSettled,
  rawRangeOf,
  remadeAfterNanos,
  type ShardSlice,
  type Slice,
  sliceNanosOf,
  slicesOf,
} from './slices.ts';

/** Share of the main loop's time. */
const aggregationShare = 0.2;
/** How often notes are saved while slices are made. */
const saveMillis = 60_000;
const nanosPerMilli = 1_000_000n;

export interface AggregatorParts extends VolumeParts {
  readonly log: Log;
  readonly formats: FormatLevels;
  readonly namespaces: ReadonlyMap<string, NamespaceState>;
}

/** A namespace of samples, as slices are made of it. */
interface Raw {
  readonly namespace: NamespaceState;
  readonly retentionNanos: bigint;
  readonly completeSinceNanos?: bigint;
  readonly blockSizeNanos: bigint;
  readonly bufferPastNanos: bigint;
  readonly expiredBeforeNanos: UnixNanos;
  readonly files: readonly BlockFile[];
  readonly inMemory: ReadonlySet<bigint>;
}

/** A namespace of windows. */
interface Target {
  readonly namespace: NamespaceState;
  readonly resolutionNanos: bigint;
  readonly sliceNanos: bigint;
}

/** What a slice is to be made of. */
interface Work {
  readonly target: Target;
  readonly slice: ShardSlice;
  readonly key: SliceKey;
  readonly raw: readonly { readonly namespace: NamespaceState; readonly file: BlockFile }[];
  readonly completeFromNanos: bigint;
  readonly madeOf: string;
}

export class Aggregator {
  readonly #parts: AggregatorParts;
  readonly #notes: SliceNotes;
  /** When slices were made last by this process, in monotonic milliseconds. */
  readonly #madeMillis = new Map<SliceKey, number>();
  #savedMillis = 0;
  /** Windows were lost that the stored notes may have. */
  #hasForgotten = false;
  /** Counts of this process, for metrics. */
  readonly counts: { slices: number; series: number; windows: number; failures: number } = {
    slices: 0,
    series: 0,
    windows: 0,
    failures: 0,
  };

  constructor(parts: AggregatorParts, notes: SliceNotes) {
    this.#parts = parts;
    this.#notes = notes;
  }

  /**
   * Makes what is due, one slice at a time; what fails is logged and tried again.
   * @throws the signal's reason, a broken invariant
   */
  async runDue(signal: AbortSignal): Promise<void> {
    const { env } = this.#parts;
    const pace = new Pace(env.clock, () => aggregationShare);
    // Before that there may be nodes that cannot read windows.
    const isUpgraded = this.#parts.formats.level() >= resolutionsFormatLevel;
    const targets = isUpgraded ? this.#targets() : [];
    try {
      await this.#makeDue(targets, pace, signal);
    } finally {
      if (isUpgraded) this.#forgetOthers(targets);
      await this.#notes.save();
    }
  }

  /** Windows of blocks are lost, or some of them: all are made once more, as far as their rows are there. */
  forget(namespace: NamespaceState, shard: number, blocks: ReadonlySet<bigint>): void {
    const start = `${namespaceNumber(namespace.definition)}/${shard}/`;
    const gone = this.#notes.retain((key) => {
      if (!key.startsWith(start)) return true;
      return !blocks.has(namespace.blockStartOf(BigInt(key.slice(start.length))));
    });
    for (const key of gone) this.#madeMillis.delete(key);
    this.#hasForgotten ||= gone.length > 0;
  }

  async #makeDue(targets: readonly Target[], pace: Pace, signal: AbortSignal): Promise<void> {
    const { log } = this.#parts;
    if (targets.length > 0) {
      const raws = this.#raws();
      for (const target of targets) {
        const slices = this.#slicesOf(target, raws);
        this.#forgetLost(target, slices);
        for (const slice of slices) {
          signal.throwIfAborted();
          const work = this.#workOf(target, slice, raws);
          if (work === null) continue;
          try {
            await this.#make(work, pace, signal);
          } catch (error) {
            signal.throwIfAborted();
            if (error instanceof BrokenInvariant) throw error;
            this.counts.failures += 1;
            this.#madeMillis.set(work.key, this.#parts.env.clock.monotonicMillis());
            const { shard, startNanos } = slice;
            const fields = { namespace: target.namespace.name, shard, slice: String(startNanos) };
            log.warn({ ...fields, error: messageOf(error) }, 'windows are not made yet');
          }
          await this.#saveNowAndThen();
          await pace.rest(signal);
        }
      }
    }
  }

  /** A first fill may take hours, and whatever ends it begins again at the last notes. */
  async #saveNowAndThen(): Promise<void> {
    const nowMillis = this.#parts.env.clock.monotonicMillis();
    if (nowMillis - this.#savedMillis < saveMillis) return;
    await this.#notes.save();
    this.#savedMillis = nowMillis;
  }

  async #make(work: Work, pace: Pace, signal: AbortSignal): Promise<void> {
    const { env } = this.#parts;
    const { target, slice, key, raw, madeOf } = work;
    const { namespace, resolutionNanos } = target;
    const { completeFromNanos } = work;
    if (this.#hasForgotten) {
      // Else the notes of the next start would say of a fileset that is made now that it has what is lost.
      this.#hasForgotten = false;
      await this.#notes.save();
    }
    const made = await namespace.files.write(slice.shard, async (dropped) => {
      if (raw.some(({ namespace: of, file }) => !isInUse(of, file))) return null;
      return makeSlice(
        this.#parts,
        {
          namespace,
          resolutionNanos,
          slice,
          raw,
          completeFromNanos,
          passesDamage: false,
          pace,
        },
        AbortSignal.any([signal, dropped]),
      );
    });
    if (made === null) return;
    this.#notes.set(key, { madeOf, hasWindows: made.windows > 0 });
    this.#madeMillis.set(key, env.clock.monotonicMillis());
    this.counts.slices += 1;
    this.counts.series += made.series;
    this.counts.windows += made.windows;
  }

  /** Of all slices that the raw filesets have rows of, those that are the namespace's to keep, the oldest first. */
  #slicesOf(
    { namespace, resolutionNanos, sliceNanos }: Target,
    raws: readonly Raw[],
  ): ShardSlice[] {
    const files = raws.flatMap((raw) => {
      return raw.files.filter(
        ({ shard }) => raw.namespace.readyShards.has(shard) && namespace.readyShards.has(shard),
      );
    });
    return slicesOf(files, resolutionNanos, sliceNanos).filter(
      ({ startNanos }) => startNanos >= namespace.expiredBeforeNanos,
    );
  }

  /** A fileset that is lost had the windows of all slices of its block. */
  #forgetLost({ namespace }: Target, slices: readonly ShardSlice[]): void {
    for (const slice of slices) {
      const key = keyOf(namespace, slice);
      const isThere =
        namespace.files.get(slice.shard, namespace.blockStartOf(slice.startNanos)) !== null;
      if (isThere || this.#notes.get(key)?.hasWindows !== true) continue;
      this.#notes.delete(key);
      this.#madeMillis.delete(key);
    }
  }

  /** Null when nothing is to be done of it now. */
  #workOf(target: Target, slice: ShardSlice, raws: readonly Raw[]): Work | null {
    const { env } = this.#parts;
    const { namespace, resolutionNanos } = target;
    const nowNanos = env.clock.nowNanos();
    const range = rawRangeOf(slice, resolutionNanos);
    const chosen = samplesParts(raws, range, nowNanos).map(({ namespace: raw }) => raw);
    const used = chosen.filter((raw) => raw.expiredBeforeNanos < range.endNanos);
    if (used.length === 0 || !used.every((raw) => isSettled(raw, range, nowNanos))) return null;
    const completeFromNanos = leastOf(used.map(hasAllFrom));
    const key = keyOf(namespace, slice);
    const note = this.#notes.get(key);
    // Some of what they were made of is gone: they stay as they are.
    if (note !== undefined && (note.isFrozen || range.startNanos < completeFromNanos)) {
      if (!note.isFrozen) this.#notes.set(key, { ...note, isFrozen: true });
      return null;
    }
    const raw = used.flatMap(({ namespace: of, files }) =>
      filesOf({ files }, slice.shard, range).map((file) => ({ namespace: of, file })),
    );
    const deletions = Math.max(
      0,
      ...used.map(({ namespace: of }) =>
        of.tombstones.versionOf(range.startNanos, range.endNanos - range.startNanos),
      ),
    );
    const madeOf = nameOf(raw, deletions, ownName);
    if (note !== undefined) {
      if (note.madeOf === madeOf) return null;
      if (note.madeOf === nameOf(raw, deletions, namesOfParts(range))) {
        // Brought together since: the rows are the same.
        this.#notes.set(key, { ...note, madeOf });
        return null;
      }
    }
    // Also of what failed: what it lacks comes from others, or never.
    if (!this.#isTimeToRemake(key, used)) return null;
    return { target, slice, key, raw, completeFromNanos, madeOf };
  }

  /** Rows that come late in small numbers are not worth the windows of a slice each time. */
  #isTimeToRemake(key: SliceKey, used: readonly Raw[]): boolean {
    const madeMillis = this.#madeMillis.get(key);
    if (madeMillis === undefined) return true;
    const after = used.reduce<bigint>((most, { retentionNanos }) => {
      const nanos = remadeAfterNanos(retentionNanos);
      return nanos > most ? nanos : most;
    }, 0n);
    const sinceMillis = this.#parts.env.clock.monotonicMillis() - madeMillis;
    return sinceMillis >= Number(after / nanosPerMilli);
  }

  #targets(): Target[] {
    return [...this.#parts.namespaces.values()].flatMap((namespace) => {
      const aggregation = aggregationOf(namespace.definition);
      if (aggregation?.downsampleAll !== true || isUnaggregated(namespace.definition)) return [];
      if (!namespace.options.flushEnabled) return [];
      const { resolutionNanos } = aggregation;
      const sliceNanos = sliceNanosOf(resolutionNanos, namespace.blockSizeNanos);
      return [{ namespace, resolutionNanos, sliceNanos }];
    });
  }

  /** In the order in which they were made ready, as reads have it. */
  #raws(): Raw[] {
    const { namespaces, store } = this.#parts;
    return [...namespaces.values()]
      .filter(({ definition }) => isReady(definition) && isOfSamples(definition))
      .map((namespace) => ({
        namespace,
        retentionNanos: namespace.retentionNanos,
        ...(namespace.definition.completeSinceNanos === undefined
          ? {}
          : { completeSinceNanos: namespace.definition.completeSinceNanos }),
        blockSizeNanos: namespace.blockSizeNanos,
        bufferPastNanos: namespace.options.retentionOptions.bufferPastNanos,
        expiredBeforeNanos: namespace.expiredBeforeNanos,
        files: namespace.files.all(null),
        inMemory: new Set(
          store.blocks(namespace.ordinal).map(({ blockStartNanos }) => blockStartNanos),
        ),
      }));
  }

  /** Notes of namespaces that are gone, of shards that left, and of slices past retention. */
  #forgetOthers(targets: readonly Target[]): void {
    const byNumber = new Map(
      targets.map(({ namespace }) => [namespaceNumber(namespace.definition), namespace]),
    );
    const isKept = (key: SliceKey): boolean => {
      const [number, shard, startNanos] = key.split('/') as [string, string, string];
      const namespace = byNumber.get(Number(number));
      return (
        namespace !== undefined &&
        this.#parts.shards.get(Number(shard)) !== undefined &&
        BigInt(startNanos) >= namespace.expiredBeforeNanos
      );
    };
    this.#notes.retain(isKept);
    for (const key of this.#madeMillis.keys()) if (!isKept(key)) this.#madeMillis.delete(key);
  }
}

/** From which time it has every row that it ever had; of a promise that is missing nothing is known. */
function hasAllFrom({ expiredBeforeNanos, completeSinceNanos = 0n }: Raw): bigint {
  return completeSinceNanos > expiredBeforeNanos ? completeSinceNanos : expiredBeforeNanos;
}

function leastOf(all: readonly bigint[]): bigint {
  return all.reduce((least, one) => (one < least ? one : least));
}

function keyOf({ definition }: NamespaceState, { shard, startNanos }: ShardSlice): SliceKey {
  return `${namespaceNumber(definition)}/${shard}/${startNanos}`;
}

function isInUse({ files, isDropped }: NamespaceState, file: BlockFile): boolean {
  return !isDropped && files.get(file.shard, file.blockStartNanos) === file;
}

type NamesOf = (namespace: NamespaceState, file: BlockFile) => readonly string[];

/** What a slice is made of, in a text that tells it from anything else. */
function nameOf(
  raw: readonly { readonly namespace: NamespaceState; readonly file: BlockFile }[],
  deletions: number,
  namesOf: NamesOf,
): string {
  const names = raw.flatMap(({ namespace, file }) => namesOf(namespace, file));
  return [...names.sort(), `deletions ${deletions}`].join(' ');
}

const ownName: NamesOf = ({ definition }, { blockStartNanos, info, volume }) => [
  `${namespaceNumber(definition)}:${blockStartNanos}+${info.blockSizeNanos}.${volume}`,
];

/** Those that a fileset has brought together, as far as they have rows of the range. */
function namesOfParts(range: Slice): NamesOf {
  const namesOf: NamesOf = (namespace, file) => {
    const parts = file.standsFor;
    if (parts === null) return ownName(namespace, file);
    return parts
      .filter((part) => part.blockStartNanos < range.endNanos && part.endNanos > range.startNanos)
      .flatMap((part) => namesOf(namespace, part));
  };
  return namesOf;
}
