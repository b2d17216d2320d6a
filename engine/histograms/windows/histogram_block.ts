/**
 * Histograms of one form at many steps, column by column: what rates of a series come to, made and added up without an
 * object for each step. The same one by one is `HistogramChanges.over`.
 */
import { counterHint, type FloatHistogram } from '../float_histogram.ts';
import {
  histogramOfNumbers,
  type HistogramLayout,
  type HistogramRun,
  matrixColumn,
} from './histogram_rows.ts';

/** Numbers that are looked at for a block: about a millisecond's work, and not much more where it is taken apart. */
export const blockNumbersMax: number = 1 << 17;

/** All of them are gauges. Borrowed: its numbers are there until the next row is made. */
export interface HistogramBlock extends HistogramLayout {
  /** Which steps have a histogram, ascending. */
  readonly steps: Int32Array;
  /** Columns as of a run, each of as many numbers as there are steps. */
  readonly numbers: Float64Array;
}

/** Windows of one run's rows: from row `firsts[i]` to row `lasts[i]` of the run. */
export interface RunWindows {
  readonly firsts: Int32Array;
  readonly lasts: Int32Array;
  /** Rows that are added to windows, because the one after them is reset: `row` to that at a place. */
  readonly added: readonly { readonly window: number; readonly row: number }[];
  /** Windows whose first row is of no account, because the second one is reset. */
  readonly fromNothing: readonly number[];
}

/**
 * How much each column changes over each window, multiplied by what its count says.
 * @param columnCount of the run, those that are asked for
 * @param factorOf of the window at a place, whose count has changed so much
 * @param numbers what is written to: `columnCount` columns of a number for each window
 * @returns whether that came to something: false where a factor is not finite
 */
export function changesOver(
  { matrix, first, past }: HistogramRun,
  columnCount: number,
  windows: RunWindows,
  factorOf: (window: number, countChange: number) => number,
  numbers: Float64Array,
): boolean {
  const height = past - first;
  const count = windows.firsts.length;
  changeOver(matrix, matrixColumn.count * height, windows, numbers, 0);
  const factors = new Float64Array(count);
  for (let i = 0; i < count; i++) {
    const factor = factorOf(i, numbers[i]!);
    if (!Number.isFinite(factor)) return false;
    factors[i] = factor;
  }
  for (let column = 0; column < columnCount; column++) {
    const at = column * count;
    if (column !== matrixColumn.count) {
      changeOver(matrix, column * height, windows, numbers, at);
    }
    for (let i = 0; i < count; i++) numbers[at + i] = numbers[at + i]! * factors[i]!;
  }
  return true;
}

function changeOver(
  matrix: Float64Array,
  column: number,
  { firsts, lasts, added, fromNothing }: RunWindows,
  numbers: Float64Array,
  at: number,
): void {
  for (let i = 0; i < firsts.length; i++) {
    numbers[at + i] = matrix[column + lasts[i]!]! - matrix[column + firsts[i]!]!;
  }
  for (const window of fromNothing) numbers[at + window] = matrix[column + lasts[window]!]!;
  for (const { window, row } of added) {
    numbers[at + window] = numbers[at + window]! + matrix[column + row]!;
  }
}

/** Takes a block apart. @param put is given the step of each histogram */
export function histogramsOf(
  block: HistogramBlock,
  put: (step: number, histogram: FloatHistogram) => void,
): void {
  const { steps, positive, negative, numbers } = block;
  const width = matrixColumn.buckets + positive.length + negative.length;
  const count = steps.length;
  const all = new Float64Array(count * width);
  for (let column = 0; column < width; column++) {
    const from = column * count;
    for (let i = 0, at = column; i < count; i++, at += width) all[at] = numbers[from + i]!;
  }
  for (let i = 0; i < count; i++) {
    put(steps[i]!, histogramOfNumbers(block, all, i * width, counterHint.gauge));
  }
}
