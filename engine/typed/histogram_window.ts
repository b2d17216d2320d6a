/**
 * Windows of native histograms as typed values of kind 3, layout 1 (docs/AGGREGATION.md): the first three fields are those of
 * windows of floats, by which the order of two windows of one time is decided, whatever their layouts are.
 */
import { badRequest } from '#lib/errors.ts';
import { staleHistogram } from './histogram.ts';
import { fieldType, TypedValueReader, TypedValueWriter, valueKind } from './typed_value.ts';
import { windowField } from './window.ts';

/** Of kind 3. */
export const histogramWindowLayout = 1;

/** Numbers of the fields that windows of floats have not. */
export const histogramWindowField = {
  /** message: fields of the last histogram. */
  last: 16,
  /** message: fields of the sum of all, bucket by bucket; not there where it would have more than a value may have. */
  sum: 17,
  /** uint: bits of `flag`. */
  flags: 18,
} as const;

/** What the messages do not say. */
const flag = { lastIsFloat: 1, sumIsFloat: 2, endsStale: 4 } as const;

export interface HistogramWindow {
  readonly deletions: bigint;
  readonly rows: number;
  readonly lags: number;
  /** Of the rows, those that are no histograms. */
  readonly others: number;
  /** Its last row is a stale marker. */
  readonly endsStale: boolean;
  /** Typed values of kind 1; no stale markers. */
  readonly last: Uint8Array;
  readonly sum: Uint8Array | null;
}

const writer = new TypedValueWriter();
/** Kind and layout of a histogram take a byte each. */
const headBytes = 2;

/** @param value of kind 1 */
const isFloat = (value: Uint8Array): boolean => value[1] === 1;

export function valueOfHistogramWindow(window: HistogramWindow): Uint8Array<ArrayBuffer> {
  const { deletions, last, sum, endsStale } = window;
  writer.begin(valueKind.window, histogramWindowLayout);
  if (deletions !== 0n) writer.uint(windowField.deletions, deletions);
  for (const name of ['rows', 'lags', 'others'] as const) {
    if (window[name] !== 0) writer.uint(windowField[name], BigInt(window[name]));
  }
  writer.message(histogramWindowField.last, last.subarray(headBytes));
  if (sum !== null) writer.message(histogramWindowField.sum, sum.subarray(headBytes));
  const flags =
    (isFloat(last) ? flag.lastIsFloat : 0) +
    (sum !== null && isFloat(sum) ? flag.sumIsFloat : 0) +
    (endsStale ? flag.endsStale : 0);
  if (flags !== 0) writer.uint(histogramWindowField.flags, BigInt(flags));
  return writer.finish();
}

/** @throws {TsdbError} BAD_REQUEST when the value is no window of histograms */
export function histogramWindowOfValue(value: Uint8Array): HistogramWindow {
  const reader = new TypedValueReader().open(value);
  if (reader.kind !== valueKind.window || reader.layout !== histogramWindowLayout) {
    throw badRequest('cannot read value: it is no window of histograms');
  }
  const counts = { deletions: 0n, rows: 0n, lags: 0n, others: 0n };
  let last: Uint8Array | null = null;
  let sum: Uint8Array | null = null;
  let flags = 0;
  while (reader.next()) {
    const { number, type } = reader;
    if (type === fieldType.message) {
      const fields = value.subarray(reader.start, reader.end);
      if (number === histogramWindowField.last) last = fields;
      else if (number === histogramWindowField.sum) sum = fields;
    } else if (number === windowField.deletions) counts.deletions = reader.integer;
    else if (number === windowField.rows) counts.rows = reader.integer;
    else if (number === windowField.lags) counts.lags = reader.integer;
    else if (number === windowField.others) counts.others = reader.integer;
    else if (number === histogramWindowField.flags) flags = Number(reader.integer);
  }
  if (last === null) throw badRequest('cannot read value: a window of histograms without one');
  return {
    deletions: counts.deletions,
    rows: Number(counts.rows),
    lags: Number(counts.lags),
    others: Number(counts.others),
    endsStale: (flags & flag.endsStale) !== 0,
    last: histogramValue(last, (flags & flag.lastIsFloat) !== 0),
    sum: sum === null ? null : histogramValue(sum, (flags & flag.sumIsFloat) !== 0),
  };
}

function histogramValue(fields: Uint8Array, isOfFloats: boolean): Uint8Array {
  const value = new Uint8Array(headBytes + fields.length);
  value[0] = valueKind.histogram;
  value[1] = isOfFloats ? 1 : 0;
  value.set(fields, headBytes);
  return value;
}

/** The last row of a window as an instant selector finds it. */
export function lastRowOf({ last, endsStale }: HistogramWindow): Uint8Array {
  return endsStale ? staleHistogram : last;
}
