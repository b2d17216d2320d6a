/**
 * Every function of the query language: a row says what a function takes and gives, and what
 * carries it out. Adding one begins here, and the kind of its row says what else there is to write:
 *
 *     values      all of it is the row: the function that maps one number to another
 *     times       likewise, from Unix seconds
 *     overRange   the engine evaluates it: its name in #engine/window_functions/windows.ts, its code in
 *                 functions.ts beside that, its definition for the fuzz in windows_twin.ts
 *     call        evaluate/calls.ts has its code under the same name; `info` is planned for itself
 *
 * Its tests are test/conformance/promql.
 */
import type { WindowFunction } from '#engine/window_functions/windows.ts';
import * as calendar from './calendar.ts';

export type ValueType = 'scalar' | 'string' | 'vector' | 'matrix';

/** Maps the value of a sample. */
export type OfValue = (value: number) => number;

export interface FunctionRow {
  readonly args: readonly ValueType[];
  /** How many of the last arguments may be left out; -1: the last may also repeat. */
  readonly optional: number;
  /** How many arguments there may be, when the last may repeat; null: any number. */
  readonly most: number | null;
  readonly result: ValueType;
  /** Needs `experimentalFunctions` of the engine, as it needs a feature flag in Prometheus. */
  readonly experimental: boolean;
  /** Its value depends on the time of evaluation even when all its arguments are pinned by `@`. */
  readonly dependsOnTime: boolean;
  /** Of `values` and `times`; else null. */
  readonly ofValue: OfValue | null;
  /** Of `overRange`; else null. */
  readonly window: WindowFunction | null;
  /** Of `overRange`: gives series back as they are, so the metric name stays. */
  readonly keepsName: boolean;
  /** Of `overRange`: a metric that is not named like a counter is told of in the answer. */
  readonly wantsCounter: boolean;
}

const call = (
  args: readonly ValueType[],
  result: ValueType,
  rest: Partial<FunctionRow> = {},
): FunctionRow => ({
  args,
  optional: 0,
  most: null,
  result,
  experimental: false,
  dependsOnTime: false,
  ofValue: null,
  window: null,
  keepsName: false,
  wantsCounter: false,
  ...rest,
});

const values = (ofValue: OfValue): FunctionRow => call(['vector'], 'vector', { ofValue });

/** Without an argument it takes the time of evaluation. */
const times = (ofValue: OfValue): FunctionRow =>
  call(['vector'], 'vector', { optional: 1, dependsOnTime: true, ofValue });

/** @param rest `args` when there are others than the range */
const overRange = (window: WindowFunction, rest: Partial<FunctionRow> = {}): FunctionRow =>
  call(['matrix'], 'vector', { window, ...rest });

const experimental = { experimental: true } as const;

/** A number that the planner knows. */
const ofQuery = call([], 'scalar', experimental);

const table: Readonly<Record<string, FunctionRow>> = {
  abs: values(Math.abs),
  absent: call(['vector'], 'vector'),
  // Of what `present` says of the range.
  absent_over_time: overRange('present'),
  acos: values(Math.acos),
  acosh: values(Math.acosh),
  asin: values(Math.asin),
  asinh: values(Math.asinh),
  atan: values(Math.atan),
  atanh: values(Math.atanh),
  avg_over_time: overRange('avg'),
  ceil: values(Math.ceil),
  changes: overRange('changes'),
  clamp: call(['vector', 'scalar', 'scalar'], 'vector'),
  clamp_max: call(['vector', 'scalar'], 'vector'),
  clamp_min: call(['vector', 'scalar'], 'vector'),
  cos: values(Math.cos),
  cosh: values(Math.cosh),
  count_over_time: overRange('count'),
  day_of_month: times(calendar.dayOfMonth),
  day_of_week: times(calendar.dayOfWeek),
  day_of_year: times(calendar.dayOfYear),
  days_in_month: times(calendar.daysInMonth),
  deg: values((value) => (value * 180) / Math.PI),
  delta: overRange('delta'),
  deriv: overRange('deriv'),
  double_exponential_smoothing: overRange('doubleExponential', {
    args: ['matrix', 'scalar', 'scalar'],
    ...experimental,
  }),
  end: ofQuery,
  exp: values(Math.exp),
  first_over_time: overRange('first', { keepsName: true }),
  floor: values(Math.floor),
  histogram_avg: call(['vector'], 'vector'),
  histogram_count: call(['vector'], 'vector'),
  histogram_fraction: call(['scalar', 'scalar', 'vector'], 'vector'),
  histogram_quantile: call(['scalar', 'vector'], 'vector'),
  histogram_quantiles: call(['vector', 'string', 'scalar', 'scalar'], 'vector', {
    optional: -1,
    most: 12,
    ...experimental,
  }),
  histogram_stddev: call(['vector'], 'vector'),
  histogram_stdvar: call(['vector'], 'vector'),
  histogram_sum: call(['vector'], 'vector'),
  hour: times(calendar.hour),
  idelta: overRange('idelta'),
  increase: overRange('increase', { wantsCounter: true }),
  info: call(['vector', 'vector'], 'vector', { optional: 1, ...experimental }),
  irate: overRange('irate'),
  label_join: call(['vector', 'string', 'string', 'string'], 'vector', { optional: -1 }),
  label_replace: call(['vector', 'string', 'string', 'string', 'string'], 'vector'),
  last_over_time: overRange('last', { keepsName: true }),
  ln: values(Math.log),
  log10: values(Math.log10),
  log2: values(Math.log2),
  mad_over_time: overRange('mad', experimental),
  max_of: call(['scalar', 'scalar'], 'scalar', experimental),
  max_over_time: overRange('max'),
  min_of: call(['scalar', 'scalar'], 'scalar', experimental),
  min_over_time: overRange('min'),
  minute: times(calendar.minute),
  month: times(calendar.month),
  pi: call([], 'scalar'),
  predict_linear: overRange('predictLinear', { args: ['matrix', 'scalar'], dependsOnTime: true }),
  present_over_time: overRange('present'),
  quantile_over_time: overRange('quantile', { args: ['scalar', 'matrix'] }),
  rad: values((value) => (value * Math.PI) / 180),
  range: ofQuery,
  rate: overRange('rate', { wantsCounter: true }),
  resets: overRange('resets'),
  round: call(['vector', 'scalar'], 'vector', { optional: 1 }),
  scalar: call(['vector'], 'scalar'),
  sgn: values((value) => (value < 0 ? -1 : value > 0 ? 1 : value)),
  sin: values(Math.sin),
  sinh: values(Math.sinh),
  sort: call(['vector'], 'vector'),
  sort_by_label: call(['vector', 'string'], 'vector', { optional: -1, ...experimental }),
  sort_by_label_desc: call(['vector', 'string'], 'vector', { optional: -1, ...experimental }),
  sort_desc: call(['vector'], 'vector'),
  sqrt: values(Math.sqrt),
  start: ofQuery,
  start_timestamp: call(['vector'], 'vector', { dependsOnTime: true, ...experimental }),
  stddev_over_time: overRange('stddev'),
  stdvar_over_time: overRange('stdvar'),
  step: ofQuery,
  sum_over_time: overRange('sum'),
  tan: values(Math.tan),
  tanh: values(Math.tanh),
  time: call([], 'scalar', { dependsOnTime: true }),
  timestamp: call(['vector'], 'vector', { dependsOnTime: true }),
  ts_of_first_over_time: overRange('timeOfFirst', experimental),
  ts_of_last_over_time: overRange('timeOfLast', experimental),
  ts_of_max_over_time: overRange('timeOfMax', experimental),
  ts_of_min_over_time: overRange('timeOfMin', experimental),
  vector: call(['scalar'], 'vector'),
  year: times(calendar.year),
};

export const functions: ReadonlyMap<string, FunctionRow> = new Map(Object.entries(table));
