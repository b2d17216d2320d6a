/** What M3QL sees of storage: rows on the steps of the request, each with the newest sample of its time and some before. */
import type { Window } from '../../graphite/calls/window.ts';
import type { GraphiteStorage, ReadGrid, Reading } from '../../graphite/storage/reader.ts';
import type { SelectRange } from '../../select/storage.ts';
import { dividedRange } from '../../select/throughout_source.ts';
import { namedByTags } from '../series/tags.ts';
import { type OlderRows, rowsAtSteps } from './rows.ts';

const nanosOfMilli = 1_000_000n;

/**
 * @param stepSeconds whole, of the request
 * @param lookbackMillis how old the sample of a row may be; windows may be as old as they are long
 */
export function scriptReading(stepSeconds: number, lookbackMillis: number): Reading {
  return {
    named: namedByTags,
    storedTag: (tag) => tag,
    // An index knows series by blocks of time: which of those without rows it tells is by chance.
    takesEmpty: false,
    gridOf: (storage, window) => gridOf(storage, window, stepSeconds, lookbackMillis),
  };
}

/** Rows behind `from`, a step after it the first. */
function gridOf(
  storage: GraphiteStorage,
  { fromSeconds, untilSeconds }: Window,
  stepSeconds: number,
  lookbackMillis: number,
): ReadGrid {
  const startSeconds = fromSeconds + stepSeconds;
  const length = Math.max(1, Math.floor((untilSeconds - startSeconds) / stepSeconds) + 1);
  const steps = { startSeconds, stepSeconds, length };
  const endNanos = BigInt(startSeconds + stepSeconds * (length - 1)) * 1_000n * nanosOfMilli + 1n;
  const rangeBack = (millis: number) => ({
    startNanos: BigInt(startSeconds * 1_000 - millis) * nanosOfMilli + 1n,
    endNanos,
  });
  const range = rangeBack(lookbackMillis);
  const divided = dividedRange(storage.timeline?.() ?? null, range);
  const samples = { beforeMillis: -Infinity, lookbackMillis };
  const gridOver = (read: SelectRange, older: OlderRows): ReadGrid => ({
    range: read,
    column: 'numericValue',
    units: () => 0,
    gridOfSeries: () => ({
      steps,
      rowsOf: (rows) => rowsAtSteps(rows, steps, lookbackMillis, older),
    }),
  });
  if (divided === null) return gridOver(range, samples);
  const windows = {
    beforeMillis:
      divided.samples === null ? Infinity : Number(divided.samples.startNanos / nanosOfMilli),
    lookbackMillis: Math.max(lookbackMillis, divided.of.resolutionMillis),
  };
  return gridOver(rangeBack(windows.lookbackMillis), windows);
}
