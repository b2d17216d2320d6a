/**
 * What is taken over from another database: parts that can be told apart, each with series and their rows. Readers of formats make
 * them; whoever writes them does not know where they come from.
 */
import type { Histogram } from '#engine/typed/histogram.ts';
import type { Tag } from '#lib/tags.ts';

/** Times to take over, Unix nanoseconds. */
export interface NanosRange {
  /** Inclusive. */
  readonly startNanos: bigint;
  /** Exclusive. */
  readonly endNanos: bigint;
}

/** All that there are, but for the very last nanosecond. */
export const allTimes: NanosRange = { startNanos: -(2n ** 63n), endNanos: 2n ** 63n - 1n };

/** Rows of a series, ascending and each time once. */
export interface ImportSeries {
  /** In any order, each name once. */
  readonly tags: readonly Tag[];
  /** Unix nanoseconds. */
  readonly timestampNanos: BigInt64Array;
  /** Bits are those of the source, those of a NaN too. */
  readonly values: Float64Array;
  /** Native histograms, beside the floats. */
  readonly histograms?: readonly ImportHistogram[];
}

export interface ImportHistogram {
  readonly timestampNanos: bigint;
  readonly histogram: Histogram;
}

/** A file, or files that belong together. */
export interface ImportPart {
  /** Tells it from all others of the source, and is the same when the source is read again. */
  readonly name: string;
  /** Times of its rows lie in it; inclusive. */
  readonly startNanos: bigint;
  /** Exclusive. */
  readonly endNanos: bigint;
  /** About how much of the source it is. */
  readonly bytes: number;
  /**
   * In the same order each time; series without rows are left out.
   * @param skip so many of the first ones are left out, too
   * @throws {TsdbError} BAD_REQUEST naming file and reason when it is damaged, NOT_FOUND when files were deleted since
   */
  series(skip: number): AsyncIterable<ImportSeries>;
}

export interface ImportSource {
  /**
   * In the order of their times.
   * @throws {TsdbError} BAD_REQUEST when there is nothing of the kind, NOT_FOUND when files were deleted meanwhile
   */
  parts(): Promise<readonly ImportPart[]>;
  /** What was passed over, for people: a line each. */
  readonly notes: readonly string[];
}

const nodeTag = /^__g(\d+)__$/;

/** The path of Carbon that tags `__g0__`, `__g1__` and so on are of; null when there are others, or one is missing. */
export function carbonPathOf(tags: readonly Tag[]): string | null {
  const nodes: string[] = [];
  for (const { name, value } of tags) {
    const [, index] = nodeTag.exec(name) ?? [];
    if (index === undefined) return null;
    nodes[Number(index)] = value;
  }
  const isWhole = nodes.length === tags.length && nodes.every((node) => node !== '');
  return isWhole && tags.length > 0 ? nodes.join('.') : null;
}

/** Those that are written: a tag without a value is none, as Prometheus has it. */
export function tagsWithValues(tags: readonly Tag[]): readonly Tag[] {
  return tags.some(({ value }) => value === '') ? tags.filter(({ value }) => value !== '') : tags;
}
