/** What functions over samples read of windows (docs/AGGREGATION.md). */
import type { ReadColumn } from '#engine/aggregation/floats.ts';
import type { VectorMatching } from '../parse/ast.ts';

/** How a window function is evaluated over windows. */
export interface Reading {
  readonly column: ReadColumn;
  /** It tells of all samples, not of the last ones of windows alone. */
  readonly isExact: boolean;
  /** Its value grows with the range, so that of a wider range the part is meant that was asked for. */
  readonly scales: boolean;
  /**
   * It is of what stood at the edges of the range. Of windows that is known, as their ends lie close, so that nothing has
   * to be guessed between an edge and the next sample.
   */
  readonly isOfEdges: boolean;
}

const last: Reading = { column: 'last', isExact: true, scales: false, isOfEdges: false };
const counter: Reading = { ...last, column: 'counter', isOfEdges: true };

const readings: ReadonlyMap<string, Reading> = new Map([
  ['max_over_time', { ...last, column: 'max' }],
  ['min_over_time', { ...last, column: 'min' }],
  ['sum_over_time', { ...last, column: 'sum', scales: true }],
  ['count_over_time', { ...last, column: 'count', scales: true }],
  ['avg_over_time', { ...last, column: 'sum' }],
  ['rate', counter],
  ['increase', { ...counter, scales: true }],
  ['resets', counter],
  ['delta', { ...last, scales: true, isOfEdges: true }],
  ...['last_over_time', 'irate', 'idelta', 'deriv', 'predict_linear'].map(
    (name): [string, Reading] => [name, last],
  ),
  ...['present_over_time', 'absent_over_time', 'ts_of_last_over_time'].map(
    (name): [string, Reading] => [name, last],
  ),
]);

export function readingOf(name: string): Reading {
  return readings.get(name) ?? { ...last, isExact: false };
}

/** Of a vector and another one of the very same series. */
export const oneToOne: VectorMatching = {
  cardinality: 'one-to-one',
  on: false,
  labels: [],
  include: [],
  fillLeft: null,
  fillRight: null,
};
