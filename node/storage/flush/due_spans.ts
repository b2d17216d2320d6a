/**
 * Which filesets of short blocks are brought together to a long one now, and how long that is:
 * decided of what a namespace has at one moment.
 */
import { aggregationOf, isUnaggregated, type Namespace } from '#cluster/namespaces/namespaces.ts';
import { blockStartOf } from '#lib/block_time.ts';
import type { UnixNanos } from '#lib/time.ts';

/**
 * Of the time that a namespace keeps its data, and at most: what is past retention stays on disk
 * that much longer.
 */
const spanPartOfRetention = 4n;
const samplesSpanNanosMax = 12n * 3_600_000_000_000n;
/** A series has few bytes of windows in a block of some hours. */
const windowsOfSpan = 720n;
/**
 * Filesets with more bytes of data a series gain little by being brought together: their rows
 * outweigh the rest.
 */
export const bytesOfSeriesMax = 512;

/** Blocks of one shard that are to be one fileset. */
export interface Span<F> {
  readonly shard: number;
  readonly startNanos: bigint;
  readonly files: readonly F[];
}

/** A fileset in use. */
export interface SpannedFile {
  readonly shard: number;
  readonly isClosed: boolean;
  readonly blockStartNanos: bigint;
  readonly dataBytes: number;
  readonly seriesCount: number;
}

/** What a namespace has. */
export interface SpanState<F extends SpannedFile> {
  readonly blockSizeNanos: bigint;
  readonly retentionNanos: bigint;
  /** As of `spanNanosMaxOf`. */
  readonly spanNanosMax: bigint;
  /** Blocks are filled in any order: a span is brought together once it has all of them. */
  readonly waitsForAllBlocks: boolean;
  readonly bufferPastNanos: bigint;
  /** What is before this is past retention. */
  readonly expiredBeforeNanos: UnixNanos;
  /** Filesets in use, by ascending block. */
  readonly files: readonly F[];
  /** Shards of which all rows are here. */
  readonly readyShards: ReadonlySet<number>;
  /**
   * Whether a fileset has neither damage nor deleted rows: who mends and who deletes goes first.
   */
  readonly isClean: (file: F) => boolean;
  /** Starts of the blocks with rows in memory; asked only where files may be brought together. */
  readonly blocksInMemory: () => readonly bigint[];
}

/** How long a fileset of a namespace may be at most. */
export function spanNanosMaxOf(definition: Namespace): bigint {
  if (isUnaggregated(definition)) return samplesSpanNanosMax;
  const ofWindows = windowsOfSpan * (aggregationOf(definition)?.resolutionNanos ?? 0n);
  return ofWindows > samplesSpanNanosMax ? ofWindows : samplesSpanNanosMax;
}

/**
 * Nanoseconds of a long fileset: the block size times a power of two, so that spans of different
 * sizes never overlap by half. The block size itself where blocks are long enough.
 */
export function spanNanosOf({
  blockSizeNanos,
  retentionNanos,
  spanNanosMax,
}: Pick<SpanState<SpannedFile>, 'blockSizeNanos' | 'retentionNanos' | 'spanNanosMax'>): bigint {
  const ofRetention = retentionNanos / spanPartOfRetention;
  const most = ofRetention < spanNanosMax ? ofRetention : spanNanosMax;
  let span = blockSizeNanos;
  while (2n * span <= most) span *= 2n;
  return span;
}

/** Spans that can be brought together now: all blocks closed, flushed, and small. */
export function dueSpans<F extends SpannedFile>(
  state: SpanState<F>,
  nowNanos: UnixNanos,
): Span<F>[] {
  const { blockSizeNanos, isClean, readyShards } = state;
  const spanNanos = spanNanosOf(state);
  if (spanNanos === blockSizeNanos) return [];
  // A block more than the write window: late rows of its last block have had their time.
  const closedNanos = nowNanos - state.bufferPastNanos - blockSizeNanos;
  const spans = new Map<string, { shard: number; startNanos: bigint; files: F[] }>();
  for (const file of state.files) {
    const startNanos = blockStartOf(file.blockStartNanos, spanNanos);
    if (startNanos + spanNanos > closedNanos) continue;
    // What expires soon is not worth it.
    if (startNanos < state.expiredBeforeNanos + spanNanos) continue;
    const key = `${file.shard}/${startNanos}`;
    const span = spans.get(key);
    if (span === undefined) spans.set(key, { shard: file.shard, startNanos, files: [file] });
    else span.files.push(file);
  }
  const small = [...spans.values()].filter(({ shard, files }) => {
    const sum = (of: (file: F) => number) => files.reduce((n, file) => n + of(file), 0);
    return (
      files.length > 1 &&
      (!state.waitsForAllBlocks || files.length === Number(spanNanos / state.blockSizeNanos)) &&
      // Some are closed, and the others will be.
      files.every(({ isClosed }) => isClosed === files[0]!.isClosed) &&
      readyShards.has(shard) &&
      sum(({ dataBytes }) => dataBytes) <= bytesOfSeriesMax * sum((file) => file.seriesCount) &&
      files.every(isClean)
    );
  });
  if (small.length === 0) return [];
  // Rows that wait for their flush would have it written again at once.
  const inMemory = new Set(state.blocksInMemory().map((start) => blockStartOf(start, spanNanos)));
  return small.filter(({ startNanos }) => !inMemory.has(startNanos));
}
