/**
 * Which blocks of memory are flushed now: decided of what is known at one moment, without looking
 * at anything else. Closed ones go at once, late rows when no more of them come, whatever frees
 * most when memory is short.
 */
import type { UnixNanos } from '#lib/time.ts';

/** A closed block is flushed when no row came for this time: a backfill may be writing it. */
export const closedQuietMillis = 10_000;
/** Late rows are flushed when no more came for this time, or at the latest after `BlockInMemory.waitMillisMax`. */
export const coldQuietMillis = 60_000;

/** What is known of rows that wait in memory. */
export interface WaitingRows {
  readonly rowCount: number;
  readonly sinceMillis: number;
  readonly changedAtMillis: number;
}

/** A block with rows in memory. */
export interface BlockInMemory {
  /** From then on rows of it are late. */
  readonly closesNanos: UnixNanos;
  /** A fileset in use has the block. */
  readonly hasFileset: boolean;
  readonly bytes: number;
  readonly waiting: WaitingRows;
  /** So long rows wait at most once the block is closed, whoever writes more of them all the time. */
  readonly waitMillisMax: number;
}

/** When it is asked. */
export interface FlushMoment {
  readonly nowNanos: UnixNanos;
  /** Of the clock that `WaitingRows` are counted by. */
  readonly nowMillis: number;
  readonly memoryIsShort: boolean;
}

/** Most urgent first. */
const reasons = ['closed', 'late rows', 'memory is short'] as const;

export type WhyDue = (typeof reasons)[number];

export interface DueBlock<B> {
  readonly block: B;
  readonly why: WhyDue;
}

/** @param before what was known of the block's rows when it was last looked at */
export function waitingRows(
  before: WaitingRows | undefined,
  rowCount: number,
  nowMillis: number,
): WaitingRows {
  if (before === undefined) return { rowCount, sinceMillis: nowMillis, changedAtMillis: nowMillis };
  if (before.rowCount === rowCount) return before;
  return { rowCount, sinceMillis: before.sinceMillis, changedAtMillis: nowMillis };
}

/** What is to be flushed, the most urgent first, and of these what frees most. */
export function dueBlocks<B extends BlockInMemory>(
  blocks: readonly B[],
  moment: FlushMoment,
): DueBlock<B>[] {
  const due: DueBlock<B>[] = [];
  for (const block of blocks) {
    const why = whyDue(block, moment);
    if (why !== null) due.push({ block, why });
  }
  return due.sort(
    (a, b) => reasons.indexOf(a.why) - reasons.indexOf(b.why) || b.block.bytes - a.block.bytes,
  );
}

function whyDue(block: BlockInMemory, moment: FlushMoment): WhyDue | null {
  const { closesNanos, hasFileset, waiting, waitMillisMax } = block;
  const { nowNanos, nowMillis, memoryIsShort } = moment;
  const quietMillis = hasFileset ? coldQuietMillis : closedQuietMillis;
  const isQuiet =
    nowMillis - waiting.changedAtMillis >= quietMillis ||
    nowMillis - waiting.sinceMillis >= waitMillisMax;
  if (closesNanos <= nowNanos && isQuiet) return hasFileset ? 'late rows' : 'closed';
  return memoryIsShort ? 'memory is short' : null;
}
