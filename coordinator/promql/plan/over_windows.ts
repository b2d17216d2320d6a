/** Functions over samples as plans over windows (docs/AGGREGATION.md). */
import type { ReadColumn } from '#engine/aggregation/floats.ts';
import type { WindowExtension } from '#engine/histograms/windows/extended_windows.ts';
import type { WindowFunction } from '#engine/window_functions/windows.ts';
import type { Resolution, SelectWindows } from '../../select/storage.ts';
import type { Call, VectorMatching } from '../parse/ast.ts';
import type { Span } from '../words/position.ts';
import type { Grid, Plan } from './plan.ts';
import { lookbackOverWindows, rangeOverWindows } from './stretches.ts';

/** How a window function is evaluated over windows. */
interface Reading {
  readonly column: ReadColumn;
  /** It tells of all samples, not of the last ones of windows alone. */
  readonly isExact: boolean;
  /** Its value grows with the range, so that of a wider range the part is meant that was asked for. */
  readonly scales: boolean;
  /**
   * It is of what stood at the edges of the range. Of windows that is known, as their ends lie close, so that nothing has
   * to be guessed between an edge and the next sample.
   */
  readonly isOfEdges: boolean;
}

/** A stale marker ends a series for instant selectors; in a range what came before it counts, as it does among samples. */
const last: Reading = { column: 'number', isExact: true, scales: false, isOfEdges: false };
const counter: Reading = { ...last, column: 'counter', isOfEdges: true };

const readings: ReadonlyMap<string, Reading> = new Map([
  ['max_over_time', { ...last, column: 'max' }],
  ['min_over_time', { ...last, column: 'min' }],
  ['sum_over_time', { ...last, column: 'sum', scales: true }],
  ['count_over_time', { ...last, column: 'count', scales: true }],
  ['avg_over_time', { ...last, column: 'sum' }],
  ['rate', counter],
  ['increase', { ...counter, scales: true }],
  ['resets', { ...counter, scales: true }],
  ['changes', { ...last, isExact: false, scales: true }],
  ['delta', { ...last, scales: true, isOfEdges: true }],
  ...['present_over_time', 'absent_over_time'].map((name): [string, Reading] => [
    name,
    { ...last, column: 'count' },
  ]),
  ...['last_over_time', 'irate', 'idelta', 'deriv', 'predict_linear', 'ts_of_last_over_time'].map(
    (name): [string, Reading] => [name, last],
  ),
]);

/** Whether a function over windows looks for a row before its range. */
export function isOfEdges(name: string): boolean {
  return readingOf(name).isOfEdges;
}

function readingOf(name: string): Reading {
  return readings.get(name) ?? { ...last, isExact: false };
}

/** Of a vector and another one of the very same series. */
const oneToOne: VectorMatching = {
  cardinality: 'one-to-one',
  on: false,
  labels: [],
  include: [],
  fillLeft: null,
  fillRight: null,
};

/** A range that is read from windows in the place of samples. */
export interface WindowsRead extends SelectWindows {
  readonly rangeMillis: number;
  /** How far around the range an extension of it goes. */
  readonly lookbackMillis: number;
  /** Where the selector has none. */
  readonly extension: WindowExtension | null;
}

interface AskedOverWindows {
  readonly call: Call;
  readonly windowFunction: WindowFunction;
  /** That was asked for. */
  readonly rangeMillis: number;
  readonly grid: Grid;
  readonly of: Resolution;
}

interface PlanningOverWindows {
  readonly lookbackMillis: number;
  readonly warnings: Map<string, Span>;
  readonly infos: Map<string, Span>;
  /** The call with another function, over rows of one column. */
  readonly over: (windowFunction: WindowFunction, windows: WindowsRead) => Plan;
}

/** A window function over windows of a resolution. */
export function planOverWindows(
  { call, windowFunction, rangeMillis: askedMillis, grid, of }: AskedOverWindows,
  { lookbackMillis: askedLookbackMillis, warnings, infos, over: overRows }: PlanningOverWindows,
): Plan {
  const { name, span } = call;
  const { namespace, resolutionMillis } = of;
  const rangeMillis = rangeOverWindows(askedMillis, of);
  const reading = readingOf(name);
  const { column, isExact, scales } = reading;
  const lookbackMillis = lookbackOverWindows(askedLookbackMillis, of);
  const extension = reading.isOfEdges
    ? ({ kind: 'anchored', beforeMillis: lookbackMillis, afterMillis: 0 } as const)
    : null;
  const over = (function_: WindowFunction, read: ReadColumn): Plan =>
    overRows(function_, {
      namespace,
      resolutionMillis,
      column: read,
      rangeMillis,
      lookbackMillis,
      extension,
    });
  const number = (value: number): Plan => ({ kind: 'number', grid, span, value });
  const binary = (operator: '/' | '*', left: Plan, right: Plan): Plan => ({
    kind: 'binary',
    grid,
    span,
    operator,
    left,
    right,
    leftIsScalar: false,
    rightIsScalar: right.kind === 'number',
    returnBool: false,
    matching: right.kind === 'number' ? null : oneToOne,
  });
  const isWidened = rangeMillis > askedMillis;
  if (!isExact) {
    warnings.set(
      `${name} is of the last samples of windows of ${resolutionMillis / 1000} s, where no others are kept`,
      span,
    );
  }
  if (isWidened) {
    const part = scales
      ? `: the value is theirs times ${askedMillis / 1000}/${rangeMillis / 1000}`
      : '';
    infos.set(
      `the range of ${name} is shorter than four windows of ${resolutionMillis / 1000} s, and four are looked at${part}`,
      span,
    );
  }
  if (name === 'avg_over_time') return binary('/', over('sum', 'sum'), over('sum', 'summed'));
  const counted = name === 'count_over_time' ? 'sum' : windowFunction;
  const plan = over(counted, column);
  return isWidened && scales ? binary('*', plan, number(askedMillis / rangeMillis)) : plan;
}
