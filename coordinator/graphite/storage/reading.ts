/** What Graphite's language sees of storage: names of its own, and rows on whole steps. */
import { nanosPerMilli } from '#lib/time.ts';
import { within64Bits } from '../../select/namespace_source.ts';
import { lesser } from '../../select/recent_windows.ts';
import type { Matcher, SelectRange } from '../../select/storage.ts';
import { type AskedPart, partsThroughout } from '../../select/throughout_source.ts';
import type { Window } from '../calls/window.ts';
import type { PathReadings } from './path_readings.ts';
import type { FoundSeries, GraphiteStorage, ReadGrid, Reading, SeriesGrid } from './reader.ts';
import { rowsBySteps, type Steps, stepsOf, type WindowRows } from './rows.ts';
import { namedSeries } from './series_names.ts';
import type { StoredTagName } from './tag_matchers.ts';

/** What is asked of storage. */
interface Asked {
  readonly range: SelectRange;
  readonly parts: readonly AskedPart[];
}

/** @param readings by which steps, and as what, series are read */
export function graphiteReading(readings: PathReadings, storedTag: StoredTagName): Reading {
  return {
    named: namedSeries,
    storedTag,
    takesEmpty: true,
    gridOf: (storage, window, matchers) => gridOf(storage, window, matchers, readings),
  };
}

function gridOf(
  storage: GraphiteStorage,
  window: Window,
  matchers: readonly Matcher[],
  readings: PathReadings,
): ReadGrid {
  const asked = askedOf(storage, window, matchers, readings);
  return {
    range: asked.range,
    column: readings,
    units: (tagBytes) =>
      asked.parts.reduce(
        (sum, { restriction }) => sum + (restriction?.units(tagBytes) ?? 0),
        readings.units(tagBytes),
      ),
    gridOfSeries: (series) => seriesGrid(series, window, asked, readings),
  };
}

/** Where samples do not have all of a window, rows are as far apart as the windows that do: of each series those that it has. */
function askedOf(
  storage: GraphiteStorage,
  { fromSeconds, untilSeconds }: Window,
  matchers: readonly Matcher[],
  { stepsSeconds }: PathReadings,
): Asked {
  const timeline = storage.timeline?.() ?? null;
  const askedAt = (seconds: readonly number[]): Asked => {
    const range = rangeOf(seconds.map((step) => stepsOf(fromSeconds, untilSeconds, step)));
    return { range, parts: partsThroughout(timeline, [matchers], within64Bits(range)) };
  };
  const fine = askedAt(stepsSeconds);
  const coarse = fine.parts.flatMap(({ of }) =>
    of === null ? [] : [Math.ceil(of.resolutionMillis / 1000)],
  );
  return coarse.length === 0 ? fine : askedAt([...stepsSeconds, ...coarse]);
}

function seriesGrid(
  { name, isPath, tagBytes }: FoundSeries,
  { fromSeconds, untilSeconds }: Window,
  asked: Asked,
  readings: PathReadings,
): SeriesGrid {
  const windows = windowsOf(tagBytes, asked);
  const reading = readings.ofPath(isPath ? name : null);
  const coarsest = Math.ceil((windows?.coarsestMillis ?? 0) / 1000);
  const steps = stepsOf(fromSeconds, untilSeconds, Math.max(reading.stepSeconds, coarsest));
  const reduction = reading.reduction ?? (windows === null ? 'last' : 'mean');
  return { steps, rowsOf: (stored) => rowsBySteps(stored, steps, windows, reduction) };
}

/** Where rows of a series are windows, and how far apart at most; null where none are. */
function windowsOf(
  tags: Uint8Array,
  { range, parts }: Asked,
): (WindowRows & { readonly coarsestMillis: number }) | null {
  if (parts.every(({ of }) => of === null)) return null;
  const own = parts.filter(({ restriction }) => restriction?.takes(tags) ?? true);
  const windows = own.filter(({ of }) => of !== null);
  if (windows.length === 0) return null;
  const samples = own.filter(({ of }) => of === null);
  const last = windows.reduce((a, b) => (b.range.endNanos > a.range.endNanos ? b : a));
  const samplesFrom = samples.map((part) => part.range.startNanos).reduce(lesser, range.endNanos);
  return {
    coarsestMillis: Math.max(...windows.map(({ of }) => of!.resolutionMillis)),
    resolutionMillis: last.of!.resolutionMillis,
    beforeMillis: samples.length === 0 ? Infinity : millisFrom(last.range.endNanos),
    samplesFromMillis: samples.length === 0 ? Infinity : millisFrom(samplesFrom),
  };
}

/** The first millisecond that is not before it. */
function millisFrom(nanos: bigint): number {
  return Number((nanos + nanosPerMilli - 1n) / nanosPerMilli);
}

/** Of all rows of these steps; a window that ends with the last one is among them. */
function rangeOf(all: readonly Steps[]): SelectRange {
  const starts = all.map(({ startSeconds }) => startSeconds);
  const ends = all.map(
    ({ startSeconds, stepSeconds, length }) => startSeconds + stepSeconds * length,
  );
  return {
    startNanos: BigInt(Math.min(...starts)) * 1_000_000_000n,
    endNanos: BigInt(Math.max(...ends)) * 1_000_000_000n + 1n,
  };
}
