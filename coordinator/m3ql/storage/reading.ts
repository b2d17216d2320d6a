/** What M3QL sees of storage: rows on the steps of the request, each with the newest sample of its time and some before. */
import { nanosPerMilli } from '#lib/time.ts';
import type { Window } from '../../graphite/calls/window.ts';
import type { GraphiteStorage, ReadGrid, Reading } from '../../graphite/storage/reader.ts';
import { within64Bits } from '../../select/namespace_source.ts';
import type { Matcher } from '../../select/storage.ts';
import { type AskedPart, partsThroughout } from '../../select/throughout_source.ts';
import { namedByTags } from '../series/tags.ts';
import { type OlderRows, rowsAtSteps } from './rows.ts';

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
    gridOf: (storage, window, matchers) =>
      gridOf(storage, window, matchers, stepSeconds, lookbackMillis),
  };
}

/** Rows behind `from`, a step after it the first. */
function gridOf(
  storage: GraphiteStorage,
  { fromSeconds, untilSeconds }: Window,
  matchers: readonly Matcher[],
  stepSeconds: number,
  lookbackMillis: number,
): ReadGrid {
  const startSeconds = fromSeconds + stepSeconds;
  const length = Math.max(1, Math.floor((untilSeconds - startSeconds) / stepSeconds) + 1);
  const steps = { startSeconds, stepSeconds, length };
  const endNanos = BigInt(startSeconds + stepSeconds * (length - 1)) * 1_000n * nanosPerMilli + 1n;
  const timeline = storage.timeline?.() ?? null;
  const askedBack = (millis: number) => {
    const startNanos = BigInt(startSeconds * 1_000 - millis) * nanosPerMilli + 1n;
    const range = { startNanos, endNanos };
    return { range, parts: partsThroughout(timeline, [matchers], within64Bits(range)) };
  };
  const near = askedBack(lookbackMillis);
  const coarsestMillis = Math.max(0, ...near.parts.map(({ of }) => of?.resolutionMillis ?? 0));
  const { range, parts } = coarsestMillis > lookbackMillis ? askedBack(coarsestMillis) : near;
  return {
    range,
    column: 'numericValue',
    units: (tagBytes) =>
      parts.reduce((sum, { restriction }) => sum + (restriction?.units(tagBytes) ?? 0), 0),
    gridOfSeries: ({ tagBytes }) => {
      const older = olderRows(tagBytes, parts, lookbackMillis);
      return { steps, rowsOf: (rows) => rowsAtSteps(rows, steps, lookbackMillis, older) };
    },
  };
}

/** Windows of a series that are longer than the look-back. */
function olderRows(
  tags: Uint8Array,
  parts: readonly AskedPart[],
  lookbackMillis: number,
): OlderRows[] {
  return parts.flatMap(({ of, range, restriction }) => {
    if (of === null || of.resolutionMillis <= lookbackMillis) return [];
    if (!(restriction?.takes(tags) ?? true)) return [];
    const { startNanos, endNanos } = range;
    return [
      {
        fromMillis: Number(startNanos / nanosPerMilli),
        beforeMillis: Number(endNanos / nanosPerMilli),
        lookbackMillis: of.resolutionMillis,
      },
    ];
  });
}
