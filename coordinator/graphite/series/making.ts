/**
 * Rows that functions make. Memory for them is taken before they are there, from what is known of their number, and series of
 * millions of rows are gone through some thousand rows at a time, so that others have their turns meanwhile.
 */
import { withRests } from '#lib/turns/steps.ts';
import type { Work } from '#lib/turns/turns.ts';
import { type Columns, newColumns } from './series.ts';

/**
 * Rows of one series that a function makes, or brings together to one value: a year of ten seconds has three millions. What has to
 * go through all values of a series in one go, as a sum, takes some milliseconds for so many.
 */
export const madeRowsMax = 4_194_304;

/** Rows that are gone through in one go: some tenths of a millisecond. */
export const rowsAtOnce = 16_384;

/** About what it takes to go through a row, in units of work (lib/turns/turns.ts). */
const rowUnits = 4;

export interface RowMaker {
  readonly work: Work;
  /**
   * Waits for memory of so many rows of one series.
   * @throws {TsdbError} BAD_REQUEST when they are above a limit; what the memory of reads throws
   */
  reserve(rows: number): Promise<void>;
  /** Gives back memory of rows that are needed no more. What is left goes when the call of the function ends. */
  release(rows: number): void;
}

/** Columns of so many rows, none of which has a value. */
export async function madeColumns(length: number, maker: RowMaker): Promise<Columns> {
  await maker.reserve(length);
  return newColumns(length);
}

/** Columns in which every row has this value. */
export async function constantColumns(
  length: number,
  value: number,
  maker: RowMaker,
): Promise<Columns> {
  const { values, present } = await madeColumns(length, maker);
  await inParts(length, maker.work, (first, past) => {
    values.fill(value, first, past);
    present.fill(1, first, past);
  });
  return { values, present };
}

/** Columns of their own with the same rows, from the row `first` on. */
export async function copiedColumns(
  { values, present }: Columns,
  maker: RowMaker,
  firstRow = 0,
): Promise<Columns> {
  const copied = await madeColumns(Math.max(0, values.length - firstRow), maker);
  await inParts(copied.values.length, maker.work, (first, past) => {
    copied.values.set(values.subarray(firstRow + first, firstRow + past), first);
    copied.present.set(present.subarray(firstRow + first, firstRow + past), first);
  });
  return copied;
}

/**
 * Goes through the rows [0, length) in their order, a part at a time. What is short is done at once, and counted by who goes
 * through many series.
 * @param part of the rows [first, past)
 */
export async function inParts(
  length: number,
  work: Work,
  part: (first: number, past: number) => void,
): Promise<void> {
  for (let first = 0; first < length; first += rowsAtOnce) {
    const past = Math.min(length, first + rowsAtOnce);
    part(first, past);
    if (length > rowsAtOnce && work.spend(rowUnits * (past - first))) await work.pause();
  }
}

/** @param steps of about `rowsAtOnce` rows each */
export function inSteps<Made>(steps: Generator<unknown, Made>, work: Work): Promise<Made> {
  return withRests(steps, async () => {
    if (work.spend(rowUnits * rowsAtOnce)) await work.pause();
  });
}
