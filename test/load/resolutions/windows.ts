/** Exact windows of rows, as docs/AGGREGATION.md describes them, and their columns as rows of time and value. */
import type { LoadSeries } from './data.ts';

/** Rows in ascending time. */
export interface Points {
  readonly timesMillis: readonly number[];
  readonly values: readonly number[];
}

/** Points of which some end the series. */
export interface MarkedPoints extends Points {
  readonly isStale: readonly boolean[];
}

export interface Columns {
  /** Stale markers and all. */
  readonly last: MarkedPoints;
  /** Of the others: the windows that have a number. */
  readonly number: Points;
  readonly min: Points;
  readonly max: Points;
  readonly sum: Points;
  readonly count: Points;
  /** `number`, and before that where a counter began again what it had come to and 0, and its first row where that tells more. */
  readonly counter: Points;
  readonly windowCount: number;
}

/** A window goes on from one that is so many before it. */
const goesOnWindows = 2;
/** Of so many rows, one may be lower than the one before in what counts as a counter. */
const rowsAFall = 8;

interface Window {
  readonly endMillis: number;
  readonly values: number[];
  endsStale: boolean;
  resets: number;
  falls: number;
}

export function columnsOf(series: LoadSeries, resolutionMillis: number): Columns {
  const windows = windowsOf(series, resolutionMillis);
  const some = windows.filter(({ values }) => values.length > 0);
  const timesMillis = some.map(({ endMillis }) => endMillis);
  const column = (of: (window: Window) => number): Points => ({
    timesMillis,
    values: some.map(of),
  });
  const lastOf = ({ values }: Window): number => values.at(-1) ?? 0;
  return {
    last: {
      timesMillis: windows.map(({ endMillis }) => endMillis),
      values: windows.map(lastOf),
      isStale: windows.map(({ endsStale }) => endsStale),
    },
    number: column(lastOf),
    min: column(({ values }) => Math.min(...values)),
    max: column(({ values }) => Math.max(...values)),
    sum: column(({ values }) => values.reduce((sum, value) => sum + value)),
    count: column(({ values }) => values.length),
    counter: counterOf(some, resolutionMillis),
    windowCount: windows.length,
  };
}

function windowsOf(series: LoadSeries, resolutionMillis: number): Window[] {
  const windows: Window[] = [];
  for (const [i, at] of series.timesMillis.entries()) {
    const endMillis = Math.ceil(at / resolutionMillis) * resolutionMillis;
    let window = windows.at(-1);
    if (window?.endMillis !== endMillis) {
      window = { endMillis, values: [], endsStale: false, resets: 0, falls: 0 };
      windows.push(window);
    }
    window.endsStale = series.isStale[i]!;
    if (window.endsStale) continue;
    const value = series.values[i]!;
    const before = window.values.at(-1);
    if (before !== undefined && value < before) {
      window.resets += before;
      window.falls += 1;
    }
    window.values.push(value);
  }
  return windows;
}

function counterOf(windows: readonly Window[], resolutionMillis: number): Points {
  const timesMillis: number[] = [];
  const values: number[] = [];
  for (const [i, window] of windows.entries()) {
    const last = window.values.at(-1)!;
    const resets = resetsOf(window);
    const [began, next] =
      resets === 0 ? [Math.min(...window.values), last] : [window.values[0]!, resets];
    const one = windows[i - 1];
    const isNear =
      one !== undefined && window.endMillis - one.endMillis <= goesOnWindows * resolutionMillis;
    const before = isNear ? one.values.at(-1)! : null;
    const isSaid = before === null || (began < before && next >= before);
    if (began >= 0 && began < next && isSaid) {
      timesMillis.push(window.endMillis - (resets === 0 ? 1 : 3));
      values.push(began);
    }
    if (resets !== 0) {
      timesMillis.push(window.endMillis - 2, window.endMillis - 1);
      values.push(resets, 0);
    }
    timesMillis.push(window.endMillis);
    values.push(last);
  }
  return { timesMillis, values };
}

/** 0 of a gauge. */
function resetsOf({ values, resets, falls }: Window): number {
  const fallsMax = Math.max(1, Math.floor(values.length / rowsAFall));
  return falls > fallsMax || Math.min(...values) < 0 ? 0 : resets;
}
