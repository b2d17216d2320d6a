/**
 * The part that some series have in rollups of one storage policy, window by window: rules of the time say what each series
 * goes into, and its rows are added up there. Parts of disjoint series add up to the whole (accumulators.ts, reduce.ts).
 */
import { assert } from '#lib/assert.ts';
import type { AggregationType } from '../aggregation_types.ts';
import type { RuleMatcher } from '../match.ts';
import type { TransformType } from '../rules.ts';
import type { RulesOverTime, RuleSetsOverTime } from '../sets/over_time.ts';
import {
  accumulatorFields,
  addRow,
  addValue,
  emptyPart,
  isEmpty,
  isQuantile,
  valueOfPart,
  type WindowPart,
} from './accumulators.ts';
import type { Output, Route } from './outputs.ts';
import { QuantileSketch } from './quantile_sketch.ts';
import type { KnownRoutes, SeriesRoutes } from './series_routes.ts';

/** Windows that follow one another. */
export interface WindowsRange {
  readonly resolutionNanos: bigint;
  /** A multiple of the resolution. */
  readonly firstEndNanos: bigint;
  readonly windowCount: number;
}

/** A window before that is further away than both says nothing of what has changed since. */
const changeNanosMax = 300_000_000_000n;
const changeWindowsMax = 2n;

/** How far before the first window rows count, for what has changed since. */
export function lookBackNanos(resolutionNanos: bigint): bigint {
  const windows = changeWindowsMax * resolutionNanos;
  return windows > changeNanosMax ? windows : changeNanosMax;
}

/** Windows of which the same rules hold. */
interface Era {
  readonly matcher: RuleMatcher;
  readonly from: number;
  readonly past: number;
}

/** What a series goes into in some of the windows. */
interface RoutesOfEra {
  readonly routes: readonly Route[];
  readonly from: number;
  readonly past: number;
}

export type RoutesOfSeries = readonly RoutesOfEra[];

/** What an output has come to, an accumulator for each window, and a sketch where a type is a quantile. */
interface PartOfOutput {
  readonly numbers: Float64Array;
  readonly sketches: QuantileSketch[] | null;
}

/** Of so many what is known of a series tells what it goes into. */
const erasKnown = 2;

const staleHigh = 0x7ff00000;
const staleLow = 2;

export class RollupMap {
  readonly #known: SeriesRoutes;
  readonly #range: WindowsRange;
  readonly #eras = new Map<RulesOverTime, readonly Era[]>();
  readonly #routes = new Map<KnownRoutes, RoutesOfSeries | null>();
  readonly #parts = new Map<Output, PartOfOutput>();
  /** Beginning of the first window. */
  readonly #baseNanos: bigint;
  readonly #resolution: number;
  readonly #reach: number;
  /** Windows before the first one that rows may be in. */
  readonly #windowsBefore: number;
  /** Of the series that is added. */
  #rows: Rows = roomFor(64);

  /** @param known shared by maps of one policy, whose outputs are the same objects then */
  constructor(sets: RuleSetsOverTime, range: WindowsRange, known: SeriesRoutes) {
    const { resolutionNanos, firstEndNanos } = range;
    assert(firstEndNanos % resolutionNanos === 0n, 'windows end at multiples of the resolution');
    known.begin(sets);
    this.#known = known;
    this.#range = range;
    this.#baseNanos = firstEndNanos - resolutionNanos;
    this.#resolution = Number(resolutionNanos);
    this.#reach = Number(lookBackNanos(resolutionNanos));
    this.#windowsBefore = Math.ceil(this.#reach / this.#resolution);
  }

  /**
   * What a series goes into; null when that is nothing, and its rows are not needed.
   * @param tags canonical
   */
  routesOf(tags: Uint8Array): RoutesOfSeries | null {
    const known = this.#known.of(tags);
    const made = this.#routes.get(known);
    if (made !== undefined) return made;
    if (known.rules === null) return null;
    const eras = this.#erasOf(known.rules);
    const all: RoutesOfEra[] = [];
    for (const { matcher, from, past } of eras) {
      const routes = this.#known.by(matcher, tags);
      if (routes.length > 0) all.push({ routes, from, past });
    }
    const routes = all.length === 0 ? null : all;
    if (eras.length <= erasKnown) this.#routes.set(this.#known.last, routes);
    return routes;
  }

  /**
   * Rows of a series.
   * @param timestampNanos ascending, from `lookBackNanos` before the first window on
   */
  add(series: RoutesOfSeries, timestampNanos: BigInt64Array, values: Float64Array): void {
    const rows = this.#rowsOf(timestampNanos, values);
    let byWindow: Map<string, Float64Array> | null = null;
    for (const { routes, from, past } of series) {
      for (const { type, transforms, output } of routes) {
        const part = this.#partOf(output);
        if (type === null) addRows(part, rows, from, past);
        else {
          const key = `${type} ${transforms.join()}`;
          byWindow ??= new Map();
          let made = byWindow.get(key);
          if (made === undefined) byWindow.set(key, (made = this.#windows(rows, type, transforms)));
          for (let window = from; window < past; window++) {
            const value = made[this.#windowsBefore + window]!;
            const time = (window + 1) * this.#resolution;
            if (!Number.isNaN(value)) addTo(part, window, time, value);
          }
        }
      }
    }
  }

  /** Outputs that any row of a window went into. @param window its place */
  *partsOf(window: number): Iterable<readonly [Output, WindowPart]> {
    const at = window * accumulatorFields;
    for (const [output, { numbers, sketches }] of this.#parts) {
      if (isEmpty(numbers, at)) continue;
      const part = {
        numbers: numbers.subarray(at, at + accumulatorFields),
        sketch: sketches?.[window] ?? null,
      };
      yield [output, part];
    }
  }

  #partOf(output: Output): PartOfOutput {
    let part = this.#parts.get(output);
    if (part === undefined) {
      const { windowCount } = this.#range;
      const hasQuantiles = output.types.some(isQuantile);
      part = {
        numbers: new Float64Array(windowCount * accumulatorFields),
        sketches: hasQuantiles
          ? Array.from({ length: windowCount }, () => new QuantileSketch())
          : null,
      };
      this.#parts.set(output, part);
    }
    return part;
  }

  #erasOf(rules: RulesOverTime): readonly Era[] {
    let eras = this.#eras.get(rules);
    if (eras === undefined) {
      const { resolutionNanos, windowCount } = this.#range;
      const lastBegin = this.#baseNanos + BigInt(windowCount - 1) * resolutionNanos;
      // A window is of the rules of its begin.
      const windowAt = (nanos: bigint): number =>
        Number((nanos - this.#baseNanos + resolutionNanos - 1n) / resolutionNanos);
      eras = rules
        .between(this.#baseNanos, lastBegin + 1n)
        .map(({ matcher, startNanos, endNanos }) => ({
          matcher,
          from: windowAt(startNanos),
          past: windowAt(endNanos),
        }))
        .filter(({ from, past }) => from < past);
      this.#eras.set(rules, eras);
    }
    return eras;
  }

  /** Without stale markers, with the window that each is in: below 0 before the first one. */
  #rowsOf(timestampNanos: BigInt64Array, values: Float64Array): Rows {
    const count = timestampNanos.length;
    const times = new Int32Array(timestampNanos.buffer, timestampNanos.byteOffset, 2 * count);
    const bits = new Uint32Array(values.buffer, values.byteOffset, 2 * count);
    const high = Number(this.#baseNanos >> 32n);
    const low = Number(this.#baseNanos & 0xffff_ffffn);
    if (this.#rows.times.length < count) this.#rows = roomFor(2 * count);
    const rows = this.#rows;
    rows.count = 0;
    for (let i = 0; i < count; i++) {
      if (bits[2 * i + 1] === staleHigh && bits[2 * i] === staleLow) continue;
      // Exact, as a range is below a hundred days.
      const time = (times[2 * i + 1]! - high) * 2 ** 32 + ((times[2 * i]! >>> 0) - low);
      const window = Math.ceil(time / this.#resolution) - 1;
      if (window < -this.#windowsBefore || window >= this.#range.windowCount) continue;
      const at = rows.count++;
      rows.times[at] = time;
      rows.windows[at] = window;
      rows.values[at] = values[i]!;
    }
    return rows;
  }

  /** A value for each window, those before the first among them; NaN where there is none. */
  #windows(rows: Rows, type: AggregationType, transforms: readonly TransformType[]): Float64Array {
    const isOfChanges = transforms[0] === 'Increase' || transforms[0] === 'PerSecond';
    // Of a counter each change counts, also those that its last values do not tell of.
    let made =
      type === 'Last' && isOfChanges
        ? this.#changesOfRows(rows, transforms[0] === 'PerSecond')
        : this.#valuesOf(rows, type);
    const rest = type === 'Last' && isOfChanges ? transforms.slice(1) : transforms;
    for (const transform of rest) made = this.#transformed(made, transform);
    return made;
  }

  #valuesOf({ count, times, windows, values }: Rows, type: AggregationType): Float64Array {
    const before = this.#windowsBefore;
    const made = this.#nothing();
    for (let i = 0; i < count; ) {
      const one = emptyPart([type]);
      const window = windows[i]!;
      for (; i < count && windows[i] === window; i++) addValue(one, times[i]!, values[i]!);
      made[before + window] = valueOfPart(one, type);
    }
    return made;
  }

  #changesOfRows({ count, times, windows, values }: Rows, isPerSecond: boolean): Float64Array {
    const before = this.#windowsBefore;
    const made = this.#nothing();
    const seconds = isPerSecond ? new Float64Array(made.length) : null;
    let last = -1;
    for (let i = 0; i < count; i++) {
      const value = values[i]!;
      if (Number.isNaN(value)) continue;
      const gap = last < 0 ? Number.POSITIVE_INFINITY : times[i]! - times[last]!;
      if (gap <= this.#reach) {
        const at = before + windows[i]!;
        const change = changeOf(values[last]!, value);
        made[at] = Number.isNaN(made[at]!) ? change : made[at]! + change;
        if (seconds !== null) seconds[at]! += gap / 1e9;
      }
      last = i;
    }
    if (seconds !== null) for (let i = 0; i < made.length; i++) made[i]! /= seconds[i]!;
    return made;
  }

  #transformed(values: Float64Array, transform: TransformType): Float64Array {
    if (transform === 'Absolute') return values.map(Math.abs);
    assert(
      transform === 'Increase' || transform === 'PerSecond',
      'sums and resets are of what a rollup makes',
    );
    const made = this.#nothing();
    let last = -1;
    for (let i = 0; i < values.length; i++) {
      const value = values[i]!;
      if (Number.isNaN(value)) continue;
      const gap = last < 0 ? Number.POSITIVE_INFINITY : (i - last) * this.#resolution;
      if (gap <= this.#reach) {
        const change = changeOf(values[last]!, value);
        made[i] = transform === 'Increase' ? change : change / (gap / 1e9);
      }
      last = i;
    }
    return made;
  }

  #nothing(): Float64Array {
    return new Float64Array(this.#windowsBefore + this.#range.windowCount).fill(Number.NaN);
  }
}

/** Of a counter: what falls has begun again. */
export function changeOf(before: number, value: number): number {
  return value >= before ? value - before : value;
}

interface Rows {
  count: number;
  /** Nanoseconds since the first window began. */
  readonly times: Float64Array;
  readonly windows: Int32Array;
  readonly values: Float64Array;
}

function roomFor(count: number): Rows {
  return {
    count: 0,
    times: new Float64Array(count),
    windows: new Int32Array(count),
    values: new Float64Array(count),
  };
}

function addTo(
  { numbers, sketches }: PartOfOutput,
  window: number,
  time: number,
  value: number,
): void {
  addRow(numbers, window * accumulatorFields, time, value);
  if (sketches !== null && !Number.isNaN(value)) sketches[window]!.add(value);
}

function addRows(part: PartOfOutput, rows: Rows, from: number, past: number): void {
  const { count, times, windows, values } = rows;
  for (let i = 0; i < count; i++) {
    const window = windows[i]!;
    if (window < from || window >= past) continue;
    addTo(part, window, times[i]!, values[i]!);
  }
}
