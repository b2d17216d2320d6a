/**
 * Windows of aggregated namespaces as typed values of kind 3, layout 0 (docs/AGGREGATION.md): what the rows of one series
 * came to that have a time in (end - resolution, end]. The row of a window has the time `end`, and the version of that time
 * or of a row that has a later one, whoever made it, so that replicas with the same rows have the same bytes.
 *
 * Which of two of one time stays is said by the first three fields (`orderOfTypedRows`): whoever knows more rows than
 * another, or later ones at some times, has more in the first of them that differs.
 */
import { badRequest } from '#lib/errors.ts';
import { staleBits } from './histogram.ts';
import { doubleOf, TypedValueReader, TypedValueWriter, valueKind } from './typed_value.ts';

/** Numbers of its fields. */
export const windowField = {
  /** uint: version of the last deletion that its rows were without. */
  deletions: 1,
  /** uint: rows. */
  rows: 2,
  /** uint: by how much its rows were written later than at their times (lib/hybrid_clock.ts), added up, `windowLagsMax` at most. */
  lags: 3,
  /** uint: of the rows, those that are stale markers. */
  others: 4,
  /** double: value of the last row, the stale marker when that is one. */
  last: 5,
  /** double, NaN alone when there is nothing else; 0 without numbers. */
  min: 6,
  max: 7,
  /** double, added in the order of time. */
  sum: 8,
  /** double: of a counter that began again between two rows of the window, what it had come to before, once for each time. */
  resets: 9,
  /** double: value of the last row that is a number; only where `last` is a stale marker. */
  lastNumber: 10,
  /** double: value of the first row that is a number; only where `resets` is not 0: of other counters it is `min`. */
  first: 11,
} as const;

/** What is read of windows by columns; count: rows that are numbers. */
export type WindowColumn =
  | 'count'
  | 'last'
  | 'min'
  | 'max'
  | 'sum'
  | 'resets'
  | 'lastNumber'
  | 'first';

export const windowLagsMax: number = Number.MAX_SAFE_INTEGER;

export interface AggregatedWindow {
  readonly deletions: bigint;
  readonly rows: number;
  readonly lags: number;
  readonly others: number;
  readonly last: number;
  readonly min: number;
  readonly max: number;
  readonly sum: number;
  readonly resets: number;
  readonly lastNumber: number;
  readonly first: number;
}

/** Of no rows; the series ends with it. */
export const emptyWindow: AggregatedWindow = {
  deletions: 0n,
  rows: 0,
  lags: 0,
  others: 0,
  last: doubleOf(staleBits),
  min: 0,
  max: 0,
  sum: 0,
  resets: 0,
  lastNumber: 0,
  first: 0,
};

/** Rows that are numbers. */
export function countOf({ rows, others }: Pick<AggregatedWindow, 'rows' | 'others'>): number {
  return rows - others;
}

const writer = new TypedValueWriter();

export function valueOfWindow(window: AggregatedWindow): Uint8Array<ArrayBuffer> {
  writer.begin(valueKind.window, 0);
  if (window.deletions !== 0n) writer.uint(windowField.deletions, window.deletions);
  for (const name of ['rows', 'lags', 'others'] as const) {
    if (window[name] !== 0) writer.uint(windowField[name], BigInt(window[name]));
  }
  for (const name of ['last', 'min', 'max', 'sum', 'resets', 'lastNumber', 'first'] as const) {
    const value = window[name];
    // A field that is not there is zero, of which -0 is none.
    if (!Object.is(value, 0)) writer.double(windowField[name], value);
  }
  return writer.finish();
}

const reader = new TypedValueReader();

/** @throws {TsdbError} BAD_REQUEST when the value is no window of floats */
export function windowOfValue(bytes: Uint8Array): AggregatedWindow {
  reader.open(bytes);
  if (reader.kind !== valueKind.window || reader.layout !== 0) {
    throw badRequest('cannot read value: it is no window of floats');
  }
  const window = {
    deletions: 0n,
    rows: 0,
    lags: 0,
    others: 0,
    last: 0,
    min: 0,
    max: 0,
    sum: 0,
    resets: 0,
    lastNumber: 0,
    first: 0,
  };
  while (reader.next()) {
    if (reader.number === windowField.deletions) window.deletions = reader.integer;
    else if (reader.number === windowField.rows) window.rows = Number(reader.integer);
    else if (reader.number === windowField.lags) window.lags = Number(reader.integer);
    else if (reader.number === windowField.others) window.others = Number(reader.integer);
    else if (reader.number === windowField.last) window.last = reader.double;
    else if (reader.number === windowField.min) window.min = reader.double;
    else if (reader.number === windowField.max) window.max = reader.double;
    else if (reader.number === windowField.sum) window.sum = reader.double;
    else if (reader.number === windowField.resets) window.resets = reader.double;
    else if (reader.number === windowField.lastNumber) window.lastNumber = reader.double;
    else if (reader.number === windowField.first) window.first = reader.double;
  }
  return window;
}
