/** What Graphite's language sees of storage: names of its own, and rows on whole steps. */
import { dividedRange } from '../../select/throughout_source.ts';
import type { SelectRange } from '../../select/storage.ts';
import type { Window } from '../calls/window.ts';
import type { GraphiteStorage, ReadGrid, Reading } from './reader.ts';
import { rowsBySteps, type Steps, stepsOf } from './rows.ts';
import { namedSeries } from './series_names.ts';

/** @param stepSeconds of samples */
export function graphiteReading(stepSeconds: number): Reading {
  return {
    named: namedSeries,
    takesEmpty: true,
    gridOf: (storage, window) => gridOf(storage, window, stepSeconds),
  };
}

/** Where samples do not have all of a window, its rows are as far apart as the windows that do. */
function gridOf(
  storage: GraphiteStorage,
  { fromSeconds, untilSeconds }: Window,
  stepSeconds: number,
): ReadGrid {
  const steps = stepsOf(fromSeconds, untilSeconds, stepSeconds);
  const range = rangeOf(steps);
  const divided = dividedRange(storage.timeline?.() ?? null, range);
  if (divided === null) {
    return { steps, range, rowsOf: (stored) => rowsBySteps(stored, steps, -Infinity, false) };
  }
  const coarse = Math.max(stepSeconds, Math.ceil(divided.of.resolutionMillis / 1000));
  const coarseSteps = stepsOf(fromSeconds, untilSeconds, coarse);
  const samplesFrom = divided.samples?.startNanos;
  const windowsBefore = samplesFrom === undefined ? Infinity : Number(samplesFrom / 1_000_000n);
  return {
    steps: coarseSteps,
    range: rangeOf(coarseSteps),
    rowsOf: (stored) => rowsBySteps(stored, coarseSteps, windowsBefore, true),
  };
}

/** Of all rows of the steps; a window that ends with the last one is among them. */
function rangeOf({ startSeconds, stepSeconds, length }: Steps): SelectRange {
  const endSeconds = startSeconds + stepSeconds * length;
  return {
    startNanos: BigInt(startSeconds) * 1_000_000_000n,
    endNanos: BigInt(endSeconds) * 1_000_000_000n,
  };
}
