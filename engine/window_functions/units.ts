/**
 * What window functions cost: looks at rows, of some nanoseconds each, over all windows of a series. It
 * is counted before the work is begun, so that what would hold up others is done elsewhere.
 */
import type { WindowFunction, WindowRequest } from './windows.ts';

/** Looks at each row of a window; 0 for functions that look at a few, or at each row once. */
const looksPerRow: Readonly<Record<WindowFunction, number>> = {
  instant: 0,
  instantTime: 0,
  rate: 1,
  increase: 1,
  delta: 0,
  irate: 0,
  idelta: 0,
  changes: 0,
  resets: 0,
  sum: 1,
  avg: 1,
  min: 1,
  max: 1,
  count: 0,
  last: 0,
  first: 0,
  present: 0,
  stddev: 4,
  stdvar: 4,
  deriv: 4,
  predictLinear: 4,
  quantile: 8,
  mad: 16,
  doubleExponential: 3,
  timeOfFirst: 0,
  timeOfLast: 0,
  timeOfMin: 1,
  timeOfMax: 1,
};

/** Rows of all windows together. */
export function rowsOfWindows(starts: Int32Array, ends: Int32Array, stepCount: number): number {
  let rows = 0;
  for (let step = 0; step < stepCount; step++) rows += Math.max(0, ends[step]! - starts[step]!);
  return rows;
}

/**
 * Whether the functions of functions.ts would need more.
 * @param starts with `ends`, of the windows in the rows
 */
export function isTooDear(
  { function: name, stepCount }: WindowRequest,
  rowCount: number,
  starts: Int32Array,
  ends: Int32Array,
  unitsMax: number,
): boolean {
  const looks = looksPerRow[name];
  if (rowCount + stepCount > unitsMax) return true;
  // No window has more than all rows.
  if (looks * stepCount * rowCount <= unitsMax) return false;
  return looks * rowsOfWindows(starts, ends, stepCount) > unitsMax;
}
