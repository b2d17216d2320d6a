/** Rows of a series as one a step: what Graphite calls its points. */
import { type Columns, newColumns } from '../series/series.ts';

/** Steps of a window of Graphite's: rows behind `from` up to `until`, each at the begin of its step. */
export interface Steps {
  /** Unix seconds of the first row. */
  readonly startSeconds: number;
  readonly stepSeconds: number;
  readonly length: number;
}

/** As whisper has it: a window within one step has the row behind it. */
export function stepsOf(fromSeconds: number, untilSeconds: number, stepSeconds: number): Steps {
  const startSeconds = Math.floor(fromSeconds / stepSeconds) * stepSeconds + stepSeconds;
  const last = Math.floor(untilSeconds / stepSeconds) * stepSeconds;
  const length = Math.max(1, (last - startSeconds) / stepSeconds + 1);
  return { startSeconds, stepSeconds, length };
}

/** Rows of storage, in ascending time. */
export interface StoredRows {
  readonly count: number;
  readonly timestampMillis: Float64Array;
  readonly values: Float64Array;
}

/**
 * One row a step: of samples in a step the last one, or their mean.
 * @param windowsBeforeMillis rows before that are windows, whose times are their ends; they belong to the step in which they begin
 */
export function rowsBySteps(
  { count, timestampMillis, values }: StoredRows,
  { startSeconds, stepSeconds, length }: Steps,
  windowsBeforeMillis: number,
  isMean: boolean,
): Columns {
  const columns = newColumns(length);
  const startMillis = startSeconds * 1000;
  const stepMillis = stepSeconds * 1000;
  let place = -1;
  let inStep = 0;
  for (let row = 0; row < count; row++) {
    const value = values[row]!;
    // A stale marker, or a row that is none for Graphite.
    if (Number.isNaN(value)) continue;
    const millis = timestampMillis[row]!;
    const at = millis < windowsBeforeMillis ? millis - 1 : millis;
    const step = Math.floor((at - startMillis) / stepMillis);
    if (step < 0 || step >= length) continue;
    if (step !== place) {
      if (isMean && inStep > 1) columns.values[place]! /= inStep;
      place = step;
      inStep = 0;
    }
    inStep += 1;
    columns.present[step] = 1;
    if (isMean && inStep > 1) columns.values[step]! += value;
    else columns.values[step] = value;
  }
  if (isMean && inStep > 1) columns.values[place]! /= inStep;
  return columns;
}
