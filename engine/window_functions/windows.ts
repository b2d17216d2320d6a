/**
 * Window functions: from a series' rows to one row of a step grid. `WindowEvaluator` has two forms
 * that a fuzz holds equal: the fast one (kernel.ts: a kernel for the dear functions and for
 * decoding, functions.ts for the rest), and one from the definitions, for tests (windows_twin.ts).
 */
import type { SeriesBundle } from '../codec/series_bundle.ts';
import type { RowBuffer } from './row.ts';

export const windowFunctions = [
  /** The newest row unless it is a stale marker: an instant selector with its lookback. */
  'instant',
  /** Time of what `instant` gives, in seconds. */
  'instantTime',
  'rate',
  'increase',
  'delta',
  'irate',
  'idelta',
  'changes',
  'resets',
  'sum',
  'avg',
  'min',
  'max',
  'count',
  'last',
  'first',
  'present',
  'stddev',
  'stdvar',
  'deriv',
  /** parameters[0]: seconds ahead of the evaluation time. */
  'predictLinear',
  /** parameters[0]: the quantile. */
  'quantile',
  'mad',
  /** parameters: smoothing factor, trend factor. */
  'doubleExponential',
  'timeOfFirst',
  'timeOfLast',
  'timeOfMin',
  'timeOfMax',
] as const;

export type WindowFunction = (typeof windowFunctions)[number];

export interface WindowRequest {
  readonly function: WindowFunction;
  readonly stepCount: number;
  /**
   * The window of step j holds the rows in (reference - range, reference], reference = start + j *
   * step.
   */
  readonly referenceStartMillis: number;
  /** 0 when all steps look at the same window. */
  readonly referenceStepMillis: number;
  readonly rangeMillis: number;
  /** Evaluation times, for `predictLinear`: they differ from the reference under an offset. */
  readonly evaluationStartMillis: number;
  readonly evaluationStepMillis: number;
  /** Each with a value for every step. */
  readonly parameters: readonly Float64Array[];
}

/** What `evaluate` and `evaluateColumns` return when it would take more units than they may. */
export const tooDear = -1;

export interface WindowEvaluator {
  /**
   * Evaluates series `index` of the bundle into target[at .. at + stepCount); rows outside of
   * [startNanos, endNanos) are not looked at.
   * @param unitsMax looks at rows, of some nanoseconds each; without one as many as it takes
   * @returns rows that were decoded, or `tooDear`
   * @throws {TsdbError} BAD_REQUEST when a chunk is malformed
   */
  evaluate(
    request: WindowRequest,
    bundle: SeriesBundle,
    index: number,
    startNanos: bigint,
    endNanos: bigint,
    target: RowBuffer,
    at: number,
    unitsMax?: number,
  ): number;
  /**
   * The same over columns in ascending time that hold no stale markers: the rows of a subquery.
   * @returns `rowCount`, or `tooDear`
   */
  evaluateColumns(
    request: WindowRequest,
    timestampMillis: Float64Array,
    values: Float64Array,
    rowCount: number,
    target: RowBuffer,
    at: number,
    unitsMax?: number,
  ): number;
}

/** A series' rows and where the windows lie in them. */
export interface WindowColumns {
  /** Unix milliseconds, ascending. */
  readonly times: Float64Array;
  /** No stale markers. */
  readonly values: Float64Array;
  readonly rowCount: number;
  /** The window of step j is rows [starts[j], ends[j]). */
  readonly starts: Int32Array;
  readonly ends: Int32Array;
}

/** Writes the row of a grid to target[at .. at + stepCount). */
export type Evaluate = (
  columns: WindowColumns,
  request: WindowRequest,
  target: RowBuffer,
  at: number,
) => void;
