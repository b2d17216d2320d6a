/**
 * Makes the windows of one slice: raw rows of its filesets, series by series, become windows in a volume of the aggregated
 * namespace. Neither memory nor log sees them; what is half-done when the process ends, the next start removes.
 */
import { withRests } from '#lib/turns/steps.ts';
import { SeriesFold } from '#engine/aggregation/series_fold.ts';
import { apart, readTyped } from '#engine/store/typed_chunks.ts';
import { allTimes } from '#engine/store/workshop.ts';
import { assert } from '#lib/assert.ts';
import { blockStartOf } from '#lib/block_time.ts';
import { TsdbError } from '#lib/errors.ts';
import type { SeriesName } from '#lib/series_id/series_name.ts';
import { FilesetCorrupt } from '../../persist/fileset/format.ts';
import { MergedWalk, type WalkedFile, type WalkedSeries } from '../filesets/merged_walk.ts';
import type { BlockFile } from '../filesets/block_file.ts';
import type { Pace } from '../flush/pace.ts';
import {
  type VolumeParts,
  type VolumeSeries,
  type VolumeSource,
  writeVolume,
} from '../flush/volume.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import type { Tombstone } from '../tombstones/tombstones.ts';
import { DeletedWindows, knowsDeletions } from './deleted_windows.ts';
import type { KeptWindows } from '#cluster/aggregation_rules/sets/kept_windows.ts';
import { rawRangeOf, type ShardSlice, type Slice } from './slices.ts';

/** Series that are folded at once, at most: the volume takes them in one go. */
const seriesAtOnce = 16;
/** Rows of a series that are decoded at once are of so much time at most: what goes on in the next time is decoded twice. */
const decodedNanos = 12n * 3_600_000_000_000n;

export interface SliceOptions {
  /** The aggregated one. */
  readonly namespace: NamespaceState;
  readonly resolutionNanos: bigint;
  readonly slice: ShardSlice;
  /** Whose rows they are. */
  readonly of: readonly NamespaceState[];
  /** What these are in. */
  readonly raw: readonly { readonly namespace: NamespaceState; readonly file: BlockFile }[];
  /** Rows before this are not all there: windows that would need them are not made. */
  readonly completeFromNanos: bigint;
  /** Windows that are there stay as they are. */
  readonly onlyMissing: boolean;
  /** The same of rows that rules drop, and whose these are; null where there are none. */
  readonly dropped: { readonly of: NamespaceState; readonly fromNanos: bigint } | null;
  readonly kept: KeptWindows;
  readonly pace: Pace;
}

export interface SliceReport {
  readonly series: number;
  readonly windows: number;
}

/**
 * As the aggregated shard's only writer of files.
 * @param signal of `NamespaceFiles.write`
 * @throws {TsdbError} as `writeVolume`, and UNAVAILABLE when raw rows are damaged
 */
export async function makeSlice(
  parts: VolumeParts,
  options: SliceOptions,
  signal: AbortSignal,
): Promise<SliceReport> {
  const { namespace, slice, raw, pace, resolutionNanos } = options;
  // Windows of another block would be read from that, and deletions of its time cut them there.
  const blockStartNanos = namespace.blockStartOf(slice.startNanos);
  const lastNanos = slice.endNanos - resolutionNanos;
  assert(namespace.blockStartOf(lastNanos) === blockStartNanos, 'a slice lies inside its block');
  for (const { namespace: of, file } of raw) of.files.pin(file);
  const source = new SliceSource(parts, options, signal);
  try {
    await writeVolume(
      parts,
      {
        namespace,
        shard: slice.shard,
        blockStartNanos,
        source: 'flush',
        pace,
        onSafe: () => {},
      },
      source,
      signal,
    );
    return { series: source.series, windows: source.windows };
  } catch (error) {
    if (error instanceof FilesetCorrupt) {
      const damaged = raw.find(({ file }) => file.isOf(error.path));
      if (damaged?.file.retired === null)
        damaged.namespace.files.setAside(damaged.file, error.message);
    }
    throw error;
  } finally {
    await source[Symbol.asyncDispose]();
    for (const { namespace: of, file } of raw) of.files.unpin(file);
  }
}

function truncatedMeanwhile(namespace: NamespaceState): TsdbError {
  return new TsdbError('UNAVAILABLE', `namespace was truncated meanwhile: ${namespace.name}`);
}

/** As many as slices were made at once: each has its own, for others may make some in between. */
const idleFolds: SeriesFold[] = [];

/** Some of a slice's time, and which of its raw filesets have rows of it. */
interface Stretch {
  readonly range: readonly [startNanos: bigint, endNanos: bigint];
  readonly places: readonly number[];
}

/** In the order of time; those of which there are no rows are left out. */
function stretchesOf({ startNanos, endNanos }: Slice, files: readonly BlockFile[]): Stretch[] {
  const places = new Map<bigint, number[]>();
  for (const [place, file] of files.entries()) {
    const from = file.blockStartNanos > startNanos ? file.blockStartNanos : startNanos;
    const to = file.endNanos < endNanos ? file.endNanos : endNanos;
    for (let at = blockStartOf(from, decodedNanos); at < to; at += decodedNanos) {
      const some = places.get(at);
      if (some === undefined) places.set(at, [place]);
      else some.push(place);
    }
  }
  return [...places]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([at, some]) => {
      const past = at + decodedNanos;
      const range = [at > startNanos ? at : startNanos, past < endNanos ? past : endNanos] as const;
      return { range, places: some };
    });
}

/** The end of the first window of a slice of which all rows may be there. */
function firstWhole(slice: Slice, resolutionNanos: bigint, completeFromNanos: bigint): bigint {
  let { startNanos } = slice;
  while (rawRangeOf({ ...slice, startNanos }, resolutionNanos).startNanos < completeFromNanos) {
    startNanos += resolutionNanos;
  }
  return startNanos;
}

/** Of slices, what has none of the windows of these chunks. */
function withoutWindows(
  slices: readonly Slice[],
  chunks: readonly Uint8Array[],
  resolutionNanos: bigint,
): Slice[] {
  const { timestampNanos } = readTyped(apart(chunks).typed, allTimes);
  return slices.flatMap((slice) => {
    const rest: Slice[] = [];
    let { startNanos } = slice;
    for (const endNanos of timestampNanos) {
      const isInside = endNanos >= startNanos && endNanos < slice.endNanos;
      // What somebody wrote by hand may be at any time.
      if (!isInside || endNanos % resolutionNanos !== 0n) continue;
      rest.push({ startNanos, endNanos });
      startNanos = endNanos + resolutionNanos;
    }
    rest.push({ startNanos, endNanos: slice.endNanos });
    return rest.filter((some) => some.startNanos < some.endNanos);
  });
}

/** The series of a slice with their windows. */
class SliceSource implements VolumeSource, AsyncDisposable {
  series = 0;
  windows = 0;
  readonly #truncations: number;
  readonly #parts: VolumeParts;
  readonly #options: SliceOptions;
  readonly #signal: AbortSignal;
  /** Of the slice, windows of which all rows are there. */
  readonly #wholeSlice: Slice;
  /** The first end of a window of which all rows are there that rules drop. */
  readonly #droppedStartNanos: bigint;
  /** Of the rows that windows are made of. */
  readonly #range: Slice;
  readonly #windowsMax: number;
  readonly #stretches: readonly Stretch[];
  /** Of the series that it is at: what each raw fileset has of it. */
  readonly #rawParts: (Uint8Array | undefined)[];
  readonly #fold: SeriesFold = idleFolds.pop() ?? new SeriesFold();
  #walk: MergedWalk | null = null;
  /** Deletions of the raw rows that the walk leaves out, by ascending version. */
  #tombstones: readonly Tombstone[] = [];
  #deleted: DeletedWindows | null = null;

  constructor(parts: VolumeParts, options: SliceOptions, signal: AbortSignal) {
    this.#parts = parts;
    this.#options = options;
    this.#signal = signal;
    const { namespace, slice, resolutionNanos, completeFromNanos, dropped } = options;
    this.#truncations = namespace.truncations;
    const startNanos = firstWhole(slice, resolutionNanos, completeFromNanos);
    this.#droppedStartNanos =
      dropped === null ? startNanos : firstWhole(slice, resolutionNanos, dropped.fromNanos);
    this.#wholeSlice = { ...slice, startNanos };
    this.#range = rawRangeOf(this.#wholeSlice, resolutionNanos);
    const files = options.raw.map(({ file }) => file);
    this.#stretches = stretchesOf(this.#range, files);
    this.#rawParts = new Array<Uint8Array | undefined>(files.length);
    this.#windowsMax = Number((slice.endNanos - slice.startNanos) / resolutionNanos) + 1;
  }

  async next(): Promise<readonly VolumeSeries[] | null> {
    const { pace } = this.#options;
    // Not before: it leaves out what is deleted by now, and the volume knows of no more than that.
    this.#walk ??= await this.#open();
    const made: VolumeSeries[] = [];
    await pace.rest(this.#signal);
    while (made.length < seriesAtOnce) {
      // The volume merges them in the same stretch.
      if (made.length > 0 && pace.isDue) break;
      await pace.rest(this.#signal);
      const series = await this.#walk.next();
      if (series === null) return made.length > 0 ? made : null;
      const chunks = await this.#windowsOf(series);
      if (chunks.length === 0) continue;
      const { id, name } = series;
      this.#noteInIndex(name);
      made.push({ id, name, chunks });
    }
    this.#signal.throwIfAborted();
    return made;
  }

  /** The raw filesets, and behind them that of the aggregated block. */
  #open(): Promise<MergedWalk> {
    const { namespace, slice, of, raw } = this.#options;
    const { startNanos, endNanos } = this.#range;
    this.#tombstones = of
      .flatMap(({ tombstones }) => tombstones.overlapping(startNanos, endNanos))
      .sort((a, b) => a.deletion.version - b.deletion.version);
    const files: WalkedFile[] = raw.map((one) => ({
      files: one.namespace.files,
      file: one.file,
    }));
    const own = namespace.files.get(slice.shard, namespace.blockStartOf(slice.startNanos));
    // What it has lost is made again here.
    if (own !== null) files.push({ files: namespace.files, file: own, passesDamage: true });
    return MergedWalk.open(this.#parts.env.disk, files);
  }

  async #windowsOf({ name, parts, places }: WalkedSeries): Promise<Uint8Array> {
    const { raw, resolutionNanos, onlyMissing } = this.#options;
    let before = parts.filter((_, i) => places[i]! >= raw.length);
    this.#rawParts.fill(undefined);
    for (const [i, place] of places.entries()) {
      if (place < raw.length) this.#rawParts[place] = parts[i];
    }
    let kept = this.#wholeOf(await this.#keptOf(name.tags));
    if (onlyMissing) {
      kept = withoutWindows(kept, before, resolutionNanos);
      before = [];
    }
    // Those that were made before stay: they are not to be had back when rules say so again.
    if (kept.length === 0 && before.length === 0) return noBytes;
    await this.#foldParts(kept);
    const fold = this.#fold;
    const windows = fold.end();
    this.windows += windows;
    const deletions = this.#tombstones.filter(({ matches }) => matches(name.tags));
    if (deletions.length > 0 || (windows > 0 && knowsDeletions(before))) {
      this.#deleted ??= new DeletedWindows(this.#wholeSlice, resolutionNanos);
      const ranges = deletions.map(({ deletion }) => deletion);
      return this.#deleted.chunks(fold, before, ranges, resolutionNanos);
    }
    return windows === 0 ? noBytes : fold.chunks();
  }

  async #keptOf(tags: Uint8Array): Promise<readonly Slice[]> {
    const { kept, pace } = this.#options;
    return withRests(kept.steps(tags), () => pace.rest(this.#signal));
  }

  /** Of a series that has dropped rows, without windows of which some of these are gone. */
  #wholeOf(kept: readonly Slice[]): readonly Slice[] {
    const { raw, dropped } = this.#options;
    const start = this.#droppedStartNanos;
    if (dropped === null || start <= this.#wholeSlice.startNanos) return kept;
    const hasDropped = this.#rawParts.some(
      (part, place) => part !== undefined && raw[place]!.namespace === dropped.of,
    );
    if (!hasDropped) return kept;
    return kept
      .filter(({ endNanos }) => endNanos > start)
      .map(({ startNanos, endNanos }) => ({
        startNanos: startNanos > start ? startNanos : start,
        endNanos,
      }));
  }

  /** Of each stretch the filesets that have it alone: a long window has rows in hundreds. */
  async #foldParts(kept: readonly Slice[]): Promise<void> {
    const { resolutionNanos, pace } = this.#options;
    this.#fold.begin(resolutionNanos, this.#windowsMax);
    const rows = kept.map((slice) => rawRangeOf(slice, resolutionNanos));
    for (const { range, places } of this.#stretches) {
      const parts = places.flatMap((place) => this.#rawParts[place] ?? []);
      if (parts.length === 0) continue;
      for (const { startNanos, endNanos } of rows) {
        const from = startNanos > range[0] ? startNanos : range[0];
        const to = endNanos < range[1] ? endNanos : range[1];
        if (from < to) this.#fold.add(parts, [from, to]);
      }
      if (pace.isDue) await pace.rest(this.#signal);
    }
  }

  /**
   * Each series is in the index of the block before its fileset counts: what stays in no index would be missing from whole
   * answers. Where the fileset comes to nothing, the index names series that have no windows there.
   */
  #noteInIndex(name: SeriesName): void {
    const { namespace, slice } = this.#options;
    if (namespace.truncations !== this.#truncations) throw truncatedMeanwhile(namespace);
    const slot = namespace.resolveHere(name);
    if (slot >= 0) namespace.index.markLiveOne(slot, namespace.blockStartOf(slice.startNanos));
    this.series += 1;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    idleFolds.push(this.#fold);
    await this.#walk?.[Symbol.asyncDispose]();
  }
}

const noBytes = new Uint8Array(0);
