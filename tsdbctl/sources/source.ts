/**
 * What is taken over from another database: parts that can be told apart, each with series and their rows. Readers of formats make
 * them; whoever writes them does not know where they come from.
 */
import type { Histogram } from '#engine/typed/histogram.ts';
import { TsdbError } from '#lib/errors.ts';
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
  /** From it on series of the part come again, with rows that are to win over those of before. */
  readonly comesAgain?: true;
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
   * What it has, by names that are also those of parts which the source makes of it: when it is gone, its rows are in parts
   * with all of these. Empty where what is gone is in others in any case.
   */
  readonly contents: readonly string[];
  /** What else it has the rows of: names of parts of which it was made, and contents that it has together with parts beside it. */
  readonly madeOf?: readonly string[];
  /** Parts of two shards have no series in common; those without one may have any. */
  readonly shard?: string;
  /** What it has may be other, or in another order, when it is read again: one that was begun is begun anew. It is never deleted. */
  readonly changes?: true;
  /**
   * In the same order each time, unless it changes; series without rows are left out.
   * @param skip so many of the first ones are left out, too
   * @throws {TsdbError} BAD_REQUEST naming file and reason when it is damaged, NOT_FOUND when files were deleted since
   */
  series(skip: number): AsyncIterable<ImportSeries>;
  /** Series that were left out when it was read, since their tags cannot be; none where it is not there. */
  readonly untagged?: () => number;
}

export interface ImportSource {
  /**
   * In the order of their times.
   * @throws {TsdbError} BAD_REQUEST when there is nothing of the kind, NOT_FOUND when files were deleted meanwhile
   */
  parts(): Promise<readonly ImportPart[]>;
  /** What was passed over, for people: a line each. */
  readonly notes: readonly string[];
  /** Of what would be parts, those that were not written to their ends when they were listed last: they are none yet. */
  readonly unfinished: number;
}

/** Whether it says that something of a source cannot be read. */
export function isDamage(error: unknown): error is TsdbError {
  return error instanceof TsdbError && error.code === 'BAD_REQUEST';
}

/** Whether it says that something of a source was deleted. */
export function isGone(error: unknown): error is TsdbError {
  return error instanceof TsdbError && error.code === 'NOT_FOUND';
}

/** Series of a part of which nothing can be read. */
// oxlint-disable-next-line require-yield -- there are none
export async function* failing(damage: Error): AsyncGenerator<never> {
  throw damage;
}

const nodeTag = /^__g(0|[1-9]\d*)__$/;

/** What a line of Carbon can have between two dots. */
// oxlint-disable-next-line no-control-regex -- they end paths
const carbonNode = /^[^\u0000-\u0020\u007f.;]+$/;

/**
 * The path of Carbon that tags `__g0__`, `__g1__` and so on are of.
 * @param tags those without a value, too: a node without one is none
 * @returns null when there are others, one is missing, or one is no node and would make another path
 */
export function carbonPathOf(tags: readonly Tag[]): string | null {
  const nodes: string[] = [];
  let count = 0;
  for (const { name, value } of tags) {
    const [, index] = nodeTag.exec(name) ?? [];
    if (index === undefined && value === '') continue;
    if (index === undefined || !carbonNode.test(value)) return null;
    nodes[Number(index)] = value;
    count += 1;
  }
  return count > 0 && nodes.length === count ? nodes.join('.') : null;
}

/** Those that are written: a tag without a value is none, as Prometheus has it. */
export function tagsWithValues(tags: readonly Tag[]): readonly Tag[] {
  return tags.some(({ value }) => value === '') ? tags.filter(({ value }) => value !== '') : tags;
}
