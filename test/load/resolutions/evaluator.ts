/**
 * A plain evaluator: functions over samples as Prometheus defines them, functions over windows as docs/AGGREGATION.md does,
 * and which of them a step is read from.
 */
import { hourMillis, type LoadSeries, minuteMillis } from './data.ts';
import { type Columns, columnsOf, type Points } from './windows.ts';

export const functions = [
  'sum_over_time',
  'count_over_time',
  'avg_over_time',
  'min_over_time',
  'max_over_time',
  'last_over_time',
  'quantile_over_time',
  'stddev_over_time',
  'present_over_time',
  'changes',
  'delta',
  'rate',
  'increase',
  'resets',
] as const;
export type RangeFunction = (typeof functions)[number];
export type EvaluatedFunction = RangeFunction | 'instant';

/** Of counters alone, here. */
export const counterFunctions: ReadonlySet<EvaluatedFunction> = new Set([
  'rate',
  'increase',
  'resets',
]);
/** Over windows they are of what stood at the edges of the range. */
const edgeFunctions: ReadonlySet<EvaluatedFunction> = new Set([
  'rate',
  'increase',
  'resets',
  'delta',
]);
/** Their values grow with the range. */
const growingFunctions: ReadonlySet<EvaluatedFunction> = new Set([
  'increase',
  'delta',
  'sum_over_time',
  'count_over_time',
  'resets',
  'changes',
]);
/** Between two windows they do not look. */
export const inexactFunctions: ReadonlySet<EvaluatedFunction> = new Set([
  'changes',
  'quantile_over_time',
  'stddev_over_time',
]);

export const quantile = 0.9;
const lookbackMillis = 5 * minuteMillis;
const windowsOfRange = 4;
const windowsOfLook = 2;

export type SourceName = 'samples' | '5m' | '1h';
export const sourceNames: readonly SourceName[] = ['samples', '5m', '1h'];
/** Of samples none. */
export const resolutionsMillis: Readonly<Record<SourceName, number>> = {
  samples: 0,
  '5m': 5 * minuteMillis,
  '1h': hourMillis,
};

/** Since when each source has everything. */
export type Floors = Readonly<Record<SourceName, number>>;

/** What is asked of a series at a time; instant selectors have no range. */
export interface Asked {
  readonly name: EvaluatedFunction;
  readonly rangeMillis: number;
}

/** The range that is looked at in a source; of an instant selector how far it looks back. */
export function lookedAtMillis({ name, rangeMillis }: Asked, source: SourceName): number {
  const resolutionMillis = resolutionsMillis[source];
  if (name === 'instant') return lookBackMillis(source);
  return Math.max(rangeMillis, windowsOfRange * resolutionMillis);
}

function lookBackMillis(source: SourceName): number {
  return Math.max(lookbackMillis, windowsOfLook * resolutionsMillis[source]);
}

/** How far a step has to be from the beginning of a source that is to have all that it looks at. */
export function neededMillis(asked: Asked, source: SourceName): number {
  const looksBefore = source !== 'samples' && edgeFunctions.has(asked.name);
  return lookedAtMillis(asked, source) + (looksBefore ? lookBackMillis(source) : 0);
}

/** The finest source that has all that a step looks at, else the one that goes back furthest. */
export function sourceAt(asked: Asked, atMillis: number, floors: Floors): SourceName {
  return (
    sourceNames.find((source) => atMillis - neededMillis(asked, source) >= floors[source]) ?? '1h'
  );
}

export function isWidened({ name, rangeMillis }: Asked, source: SourceName): boolean {
  return name !== 'instant' && lookedAtMillis({ name, rangeMillis }, source) > rangeMillis;
}

/** Whether a value over a source is without rounding, as far as the rows are whole. */
export function isExactOfWhole(asked: Asked, source: SourceName): boolean {
  switch (asked.name) {
    case 'rate':
    case 'avg_over_time':
    case 'stddev_over_time':
    case 'quantile_over_time':
      return false;
    case 'increase':
    case 'delta':
      return source !== 'samples' && !isWidened(asked, source);
    default:
      return !(growingFunctions.has(asked.name) && isWidened(asked, source));
  }
}

/** Values that are those of rows, or counts, whatever decimals rows have. */
export function isExactOfAny(asked: Asked, source: SourceName): boolean {
  const isSum = ['sum_over_time', 'increase', 'delta'].includes(asked.name);
  return !isSum && isExactOfWhole(asked, source);
}

/** One series, with its windows once they are asked for. */
export class EvaluatedSeries {
  readonly series: LoadSeries;
  readonly #numbers: Points;
  readonly #columns = new Map<SourceName, Columns>();

  constructor(series: LoadSeries) {
    this.series = series;
    const { timesMillis, values, isStale } = series;
    const kept = [...timesMillis.keys()].filter((i) => !isStale[i]!);
    this.#numbers = {
      timesMillis: kept.map((i) => timesMillis[i]!),
      values: kept.map((i) => values[i]!),
    };
  }

  columns(source: SourceName): Columns {
    let columns = this.#columns.get(source);
    if (columns === undefined) {
      columns = columnsOf(this.series, resolutionsMillis[source]);
      this.#columns.set(source, columns);
    }
    return columns;
  }

  /** Null for none. */
  at(asked: Asked, atMillis: number, source: SourceName): number | null {
    const lookedAt = lookedAtMillis(asked, source);
    if (asked.name === 'instant') {
      const { timesMillis, values, isStale } =
        source === 'samples' ? this.series : this.columns(source).last;
      const newest = countUpTo(timesMillis, atMillis) - 1;
      if (newest < 0 || timesMillis[newest]! <= atMillis - lookedAt || isStale[newest]!)
        return null;
      return values[newest]!;
    }
    if (source === 'samples') {
      return overSamples(asked.name, inside(this.#numbers, atMillis, lookedAt), atMillis, lookedAt);
    }
    const value = this.#overWindows(asked.name, atMillis, lookedAt, source);
    const isScaled = value !== null && growingFunctions.has(asked.name);
    return isScaled && isWidened(asked, source) ? value * (asked.rangeMillis / lookedAt) : value;
  }

  #overWindows(
    name: RangeFunction,
    atMillis: number,
    rangeMillis: number,
    source: SourceName,
  ): number | null {
    const columns = this.columns(source);
    const values = (of: Points): readonly number[] => inside(of, atMillis, rangeMillis).values;
    const plain = (of: Points): number | null =>
      overSamples(name, inside(of, atMillis, rangeMillis), atMillis, rangeMillis);
    switch (name) {
      case 'sum_over_time':
        return plain(columns.sum);
      case 'count_over_time':
        return values(columns.count).length === 0 ? null : sumOf(values(columns.count));
      case 'avg_over_time': {
        const counts = values(columns.count);
        return counts.length === 0 ? null : sumOf(values(columns.sum)) / sumOf(counts);
      }
      case 'min_over_time':
        return plain(columns.min);
      case 'max_over_time':
        return plain(columns.max);
      case 'rate':
      case 'increase':
      case 'resets':
      case 'delta': {
        const of = name === 'delta' ? columns.number : columns.counter;
        const row = anchored(of, atMillis, rangeMillis, lookBackMillis(source));
        if (row === null) return null;
        if (name === 'resets') return fallsIn(row).length;
        const change = changeOf(row, name !== 'delta');
        return name === 'rate' ? change / (rangeMillis / 1000) : change;
      }
      default:
        return plain(columns.number);
    }
  }
}

/** How many times are at or before this one. */
export function countUpTo(timesMillis: readonly number[], atMillis: number): number {
  let [low, high] = [0, timesMillis.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (timesMillis[middle]! <= atMillis) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Points in (at - range, at]. */
function inside({ timesMillis, values }: Points, atMillis: number, rangeMillis: number): Points {
  const from = countUpTo(timesMillis, atMillis - rangeMillis);
  const past = countUpTo(timesMillis, atMillis);
  return { timesMillis: timesMillis.slice(from, past), values: values.slice(from, past) };
}

/** Values in the range, after the last one before it that the look-back reaches; null without one in the range. */
function anchored(
  of: Points,
  atMillis: number,
  rangeMillis: number,
  beforeMillis: number,
): readonly number[] | null {
  const { timesMillis } = of;
  const openingMillis = atMillis - rangeMillis;
  const from = countUpTo(timesMillis, openingMillis);
  const past = countUpTo(timesMillis, atMillis);
  if (from === past) return null;
  const isAnchor = from > 0 && timesMillis[from - 1]! > openingMillis - beforeMillis;
  return of.values.slice(isAnchor ? from - 1 : from, past);
}

/** What stood before each fall. */
function fallsIn(values: readonly number[]): number[] {
  return values.slice(0, -1).filter((value, i) => values[i + 1]! < value);
}

/** From the first to the last, with what a counter lost. */
function changeOf(values: readonly number[], isCounter: boolean): number {
  const change = values.at(-1)! - values[0]!;
  return isCounter ? fallsIn(values).reduce((sum, value) => sum + value, change) : change;
}

function overSamples(
  name: RangeFunction,
  points: Points,
  atMillis: number,
  rangeMillis: number,
): number | null {
  const { values } = points;
  if (values.length === 0) return null;
  switch (name) {
    case 'sum_over_time':
      return sumOf(values);
    case 'count_over_time':
      return values.length;
    case 'avg_over_time':
      return sumOf(values) / values.length;
    case 'min_over_time':
      return values.reduce((a, b) => Math.min(a, b));
    case 'max_over_time':
      return values.reduce((a, b) => Math.max(a, b));
    case 'last_over_time':
      return values.at(-1)!;
    case 'present_over_time':
      return 1;
    case 'quantile_over_time':
      return quantileOf(values);
    case 'stddev_over_time': {
      const mean = sumOf(values) / values.length;
      return Math.sqrt(sumOf(values.map((value) => (value - mean) ** 2)) / values.length);
    }
    case 'changes':
      return values.filter((value, i) => i > 0 && value !== values[i - 1]).length;
    case 'resets':
      return fallsIn(values).length;
    case 'rate':
    case 'increase':
    case 'delta':
      return extrapolated(name, points, atMillis, rangeMillis);
  }
}

/** With what rounding took from it (Neumaier). */
function sumOf(values: readonly number[]): number {
  let [sum, lost] = [0, 0];
  for (const value of values) {
    const next = sum + value;
    lost += Math.abs(sum) >= Math.abs(value) ? sum - next + value : value - next + sum;
    sum = next;
  }
  return sum + lost;
}

function quantileOf(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const rank = quantile * (sorted.length - 1);
  const lower = Math.floor(rank);
  const weight = rank - lower;
  const upper = sorted[Math.min(lower + 1, sorted.length - 1)]!;
  return sorted[lower]! * (1 - weight) + upper * weight;
}

/** Prometheus' `extrapolatedRate`. */
function extrapolated(
  name: 'rate' | 'increase' | 'delta',
  { timesMillis, values }: Points,
  atMillis: number,
  rangeMillis: number,
): number | null {
  if (values.length < 2) return null;
  const isCounter = name !== 'delta';
  const change = changeOf(values, isCounter);
  const seconds = (timesMillis.at(-1)! - timesMillis[0]!) / 1000;
  const meanSeconds = seconds / (values.length - 1);
  const reached = (edgeSeconds: number): number =>
    edgeSeconds >= 1.1 * meanSeconds ? meanSeconds / 2 : edgeSeconds;
  let toStart = reached((timesMillis[0]! - (atMillis - rangeMillis)) / 1000);
  if (isCounter && change > 0 && values[0]! >= 0) {
    // Not beyond where it would have been 0.
    toStart = Math.min(toStart, seconds * (values[0]! / change));
  }
  const toEnd = reached((atMillis - timesMillis.at(-1)!) / 1000);
  const factor = (seconds + toStart + toEnd) / seconds;
  return change * (name === 'rate' ? factor / (rangeMillis / 1000) : factor);
}
