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

/** What several rows of a step come to. */
export type Reduction = 'last' | 'mean' | 'sum' | 'min' | 'max' | 'count';

/** Where rows are windows, whose times are their ends: they belong to the step in which they begin. */
export interface WindowRows {
  /** Windows end before that. */
  readonly beforeMillis: number;
  /** Samples begin there; those that have a window of theirs do not count once more. */
  readonly samplesFromMillis: number;
  readonly resolutionMillis: number;
}

/**
 * One row a step.
 * @param windows null where all rows are samples; of others they are what they come to, be it of how many rows
 */
export function rowsBySteps(
  { count, timestampMillis, values }: StoredRows,
  { startSeconds, stepSeconds, length }: Steps,
  windows: WindowRows | null,
  reduction: Reduction,
): Columns {
  const columns = newColumns(length);
  const startMillis = startSeconds * 1000;
  const stepMillis = stepSeconds * 1000;
  const isMean = reduction === 'mean';
  const windowsBeforeMillis = windows?.beforeMillis ?? Number.NEGATIVE_INFINITY;
  const { values: reduced, present } = columns;
  let place = -1;
  let inStep = 0;
  for (let row = 0; row < count; row++) {
    let value = values[row]!;
    // A stale marker, or a row that is none for Graphite.
    if (Number.isNaN(value)) continue;
    const millis = timestampMillis[row]!;
    const isWindow = millis < windowsBeforeMillis;
    if (isWindow && isOfWindow(millis, windows!)) continue;
    if (reduction === 'count' && !isWindow) value = 1;
    const at = isWindow ? millis - 1 : millis;
    // Mostly it is the next one, which needs no division.
    let step = place + 1;
    const after = at - startMillis - step * stepMillis;
    if (after < 0 || after >= stepMillis) step = Math.floor((at - startMillis) / stepMillis);
    if (step < 0 || step >= length) continue;
    if (step !== place) {
      if (isMean && inStep > 1) reduced[place]! /= inStep;
      place = step;
      inStep = 0;
    }
    inStep += 1;
    present[step] = 1;
    reduced[step] = inStep === 1 ? value : together(reduced[step]!, value, reduction);
  }
  if (isMean && inStep > 1) reduced[place]! /= inStep;
  return columns;
}

/** Whether a row before the end of windows is a sample of one of them. */
function isOfWindow(millis: number, { samplesFromMillis, resolutionMillis }: WindowRows): boolean {
  return millis >= samplesFromMillis && millis % resolutionMillis !== 0;
}

/** A mean is divided when all are there. */
function together(before: number, value: number, reduction: Reduction): number {
  switch (reduction) {
    case 'last':
      return value;
    case 'min':
      return value < before ? value : before;
    case 'max':
      return value > before ? value : before;
    default:
      return before + value;
  }
}
