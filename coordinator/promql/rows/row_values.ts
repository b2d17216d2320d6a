/** Functions over the values of rows. */
import { isAbsent } from '#engine/window_functions/row.ts';
import { type Cells, dropHistograms, makeCells } from './cells.ts';
import { Labels } from './labels.ts';
import type { Grid } from '../plan/plan.ts';
import { Matrix } from './rows.ts';
import type { Rows } from './rows.ts';

export function timesInSeconds(grid: Grid): Float64Array {
  const times = new Float64Array(grid.stepCount);
  for (let step = 0; step < grid.stepCount; step++) {
    times[step] = (grid.startMillis + step * grid.stepMillis) / 1000;
  }
  return times;
}

/** Applies the function to every number of a row that starts at 0; histograms are dropped. */
export function mapPresent(row: Cells, map: (value: number, step: number) => number): void {
  dropHistograms(row);
  const { values, words } = row;
  for (let step = 0; step < values.length; step++) {
    const value = values[step]!;
    if (value !== value && isAbsent(words, step)) continue;
    values[step] = map(value, step);
  }
}

/** Changes the sign of all that a row that starts at 0 has. */
export function negate(row: Cells): void {
  const { values, words, histograms } = row;
  for (let step = 0; step < values.length; step++) {
    const value = values[step]!;
    if (value !== value && isAbsent(words, step)) continue;
    values[step] = -value;
  }
  if (histograms === null) return;
  row.histograms = histograms.map((histogram) => histogram?.copy().scale(-1));
}

/** One series without labels whose value at every step is given. */
export function rowsOfScalar(values: Float64Array): Rows {
  const buffer = makeCells(values.length);
  buffer.values.set(values);
  return new Matrix([Labels.empty], values.length, buffer);
}
