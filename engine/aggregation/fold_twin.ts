/** Rows to windows, one after the other: what kernel/aggregation.kernel.ts does fast. */
import { windowEndOf } from './window_end.ts';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import { type AggregatedWindow, windowLagsMax } from '../typed/window.ts';
import { doubleOf } from '../typed/typed_value.ts';
import { staleBits } from '../typed/histogram.ts';

/** Of so many rows, one may be lower than the one before in what counts as a counter. */
const rowsAFall = 8;

export interface FoldRow {
  readonly nanos: bigint;
  readonly bits: bigint;
  /** By how much its version is later than that of its time. */
  readonly lag?: bigint;
}

export type FoldedWindow = Omit<AggregatedWindow, 'deletions' | 'last'> & {
  readonly endNanos: bigint;
  readonly lastBits: bigint;
  /** By how much the version of the window is later than that of its end. */
  readonly lag: bigint;
};

/** @param rows in strictly ascending time */
export function foldTwin(rows: readonly FoldRow[], resolutionNanos: bigint): FoldedWindow[] {
  const windows: FoldedWindow[] = [];
  const byEnd = Map.groupBy(rows, ({ nanos }) => windowEndOf(nanos, resolutionNanos));
  for (const [endNanos, within] of byEnd) {
    const values = within
      .filter(({ bits }) => bits !== staleBits)
      .map(({ bits }) => doubleOf(bits));
    const numbers = values.filter((value) => !Number.isNaN(value));
    let sum = 0;
    let resets = 0;
    let falls = 0;
    for (const [i, value] of values.entries()) {
      sum = i === 0 ? value : sum + value;
      const before = values[i - 1];
      if (before === undefined || !(value < before)) continue;
      resets += before;
      falls += 1;
    }
    const isEmpty = values.length === 0;
    const extreme = (of: (...all: number[]) => number): number => {
      // Of equal ones, as 0 and -0 are, the first; NaN when there is nothing else.
      const found = numbers.length === 0 ? Number.NaN : of(...numbers);
      return isEmpty ? 0 : (numbers.find((value) => value === found) ?? Number.NaN);
    };
    const min = extreme(Math.min);
    if (falls > Math.max(1, Math.floor(values.length / rowsAFall)) || min < 0) resets = 0;
    const late = within.filter(({ lag = 0n }) => lag > 0n);
    const lags = late.reduce((sum, { lag }) => sum + Number(lag), 0);
    const versions = late.map(({ nanos, lag }) => versionAtNanos(nanos) + lag!);
    const lag = versions.reduce((a, b) => (b > a ? b : a), 0n) - versionAtNanos(endNanos);
    windows.push({
      endNanos,
      lag: lag > 0n ? lag : 0n,
      rows: within.length,
      lags: Math.min(lags, windowLagsMax),
      others: within.length - values.length,
      lastBits: within.at(-1)!.bits,
      min,
      max: extreme(Math.max),
      sum,
      resets,
      lastNumber: within.at(-1)!.bits === staleBits ? (values.at(-1) ?? 0) : 0,
      first: resets === 0 ? 0 : values[0]!,
    });
  }
  return windows;
}
