/**
 * Windows as samples: one column of theirs as chunks of floats, and of windows of histograms of typed rows, which every
 * function over samples reads.
 */
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import { readFloats } from '../store/chunk_merge.ts';
import { rowsInRange } from '../store/read/rows_in_range.ts';
import { eachTypedInOrder } from '../store/typed_chunks.ts';
import { allTimes } from '../store/workshop.ts';
import { decodeTypedRows, encodeTypedRows } from '../typed/codec.ts';
import {
  type HistogramWindow,
  histogramWindowLayout,
  histogramWindowOfValue,
  lastRowOf,
} from '../typed/histogram_window.ts';
import { valueKind } from '../typed/typed_value.ts';
import type { WindowColumn } from '../typed/window.ts';
import { isAbsent, setAbsent } from '../window_functions/row.ts';
import { WindowColumnsReader, type WindowRows } from './columns.ts';
import { CounterRows } from './counter_rows.ts';
import { WindowFold } from './fold.ts';

/**
 * What is read of windows: a column, of which stale markers are a part in `last` alone; `number`, the last values that are
 * numbers; or what a `counter` is read by (counter_rows.ts). `mean` is `sum` by `count`, of floats alone. `summed` is how many
 * rows `sum` is of: `count`, but for windows of histograms that have none.
 */
export type ReadColumn =
  | Exclude<WindowColumn, 'lastNumber' | 'first'>
  | 'number'
  | 'counter'
  | 'mean'
  | 'summed';

/**
 * What windows are, for who asks for their values and for no function over their rows: a column of them. Of windows of
 * histograms it is the last row whatever the column is, since there is no greatest histogram, and the series is there.
 */
export interface ValueColumn {
  readonly value: 'min' | 'max' | 'sum' | 'count' | 'mean';
  /** A stale marker where `last` is one, so that the series ends there; else windows without numbers are left out. */
  readonly ends: boolean;
}

interface Readers {
  readonly reader: WindowColumnsReader;
  readonly fold: WindowFold;
}

/** Made with the first request that needs them. */
let shared: Readers | null = null;

function sharedReaders(): Readers {
  return (shared ??= { reader: new WindowColumnsReader(), fold: new WindowFold() });
}

/**
 * @param chunks typed ones of a series, each by itself, of any replicas
 * @param resolutionNanos of the windows
 * @param range of the ends of windows
 * @throws {TsdbError} BAD_REQUEST when one is malformed, RESOURCE_EXHAUSTED when there are more than can be merged
 */
export function floatsOfWindows(
  chunks: readonly Uint8Array[],
  column: ReadColumn | ValueColumn,
  resolutionNanos: bigint,
  range: readonly [startNanos: bigint, endNanos: bigint] = allTimes,
): Uint8Array<ArrayBuffer>[] {
  return [...eachFloatsOfWindows(chunks, column, range, new CounterRows(resolutionNanos))];
}

/**
 * As `floatsOfWindows`, for who gives way between two chunks.
 * @param counter of the series, with what has been read of it before
 */
export function* eachFloatsOfWindows(
  chunks: readonly Uint8Array[],
  column: ReadColumn | ValueColumn,
  range: readonly [startNanos: bigint, endNanos: bigint],
  counter: CounterRows,
): Generator<Uint8Array<ArrayBuffer>> {
  const { reader, fold } = sharedReaders();
  for (const chunk of eachTypedInOrder(chunks, range)) {
    const { endNanos, values } =
      typeof column !== 'string'
        ? valuesOf(reader, chunk, column, range)
        : column === 'counter'
          ? counter.of(numbers(reader, chunk, ['min', 'resets', 'first'], range))
          : columnOf(reader, chunk, column, range);
    // Before somebody else has a turn, whose chunk it would be of.
    const { hasHistograms } = reader;
    if (endNanos.length > 0) yield fold.floats(endNanos, values);
    if (!hasHistograms) continue;
    const windows = histogramWindows(chunk, range);
    if (column === 'count') yield fold.floats(...countsOf(windows));
    else if (column === 'summed') {
      const summed = windows.filter(({ sum }) => sum !== null);
      if (summed.length > 0) yield fold.floats(...countsOf(summed));
    } else {
      const rows = windows.flatMap((window) => {
        const value = histogramOf(window, column);
        return value === null ? [] : [{ endNanos: window.endNanos, value }];
      });
      if (rows.length > 0) yield typedChunk(rows);
    }
  }
}

/**
 * Floats that somebody wrote in the place of windows, as rollups are: each is all of what a window of it would tell.
 * @param chunk one of floats
 */
export function floatsInPlaceOfWindows(
  chunk: Uint8Array,
  column: ReadColumn,
  range: readonly [startNanos: bigint, endNanos: bigint],
): Uint8Array {
  const inside = rowsInRange(chunk, range);
  if (column !== 'count' && column !== 'summed') return inside;
  const { timestampNanos, values } = readFloats([inside], allTimes);
  if (timestampNanos.length === 0) return inside;
  const { fold } = sharedReaders();
  return fold.floats(timestampNanos, new Float64Array(values.length).fill(1));
}

/** Every window of floats has a sum. */
const ofFloats = (column: WindowColumn | 'summed'): WindowColumn =>
  column === 'summed' ? 'count' : column;

interface HistogramWindowAt extends HistogramWindow {
  readonly endNanos: bigint;
}

function histogramWindows(
  chunk: Uint8Array,
  [startNanos, pastNanos]: readonly [bigint, bigint],
): HistogramWindowAt[] {
  const { timestampNanos, valueBytes, valueEnds } = decodeTypedRows(chunk);
  const windows: HistogramWindowAt[] = [];
  for (const [row, endNanos] of timestampNanos.entries()) {
    if (endNanos < startNanos || endNanos >= pastNanos) continue;
    const value = valueBytes.subarray(row === 0 ? 0 : valueEnds[row - 1]!, valueEnds[row]!);
    if (value[0] !== valueKind.window || value[1] !== histogramWindowLayout) continue;
    windows.push({ endNanos, ...histogramWindowOfValue(value) });
  }
  return windows;
}

/** Null where a window has none that is asked for: there is no smallest histogram. */
function histogramOf(window: HistogramWindow, column: ReadColumn | ValueColumn): Uint8Array | null {
  if (typeof column !== 'string') return column.ends ? lastRowOf(window) : window.last;
  switch (column) {
    case 'last':
      return lastRowOf(window);
    case 'number':
    case 'counter':
      return window.last;
    case 'sum':
      return window.sum;
    default:
      return null;
  }
}

function countsOf(windows: readonly HistogramWindowAt[]): [BigInt64Array, Float64Array] {
  return [
    BigInt64Array.from(windows, ({ endNanos }) => endNanos),
    Float64Array.from(windows, ({ rows, others }) => rows - others),
  ];
}

/** They have no more fields than their windows had. */
function typedChunk(
  rows: readonly { readonly endNanos: bigint; readonly value: Uint8Array }[],
): Uint8Array<ArrayBuffer> {
  let end = 0;
  return encodeTypedRows({
    timestampNanos: BigInt64Array.from(rows, ({ endNanos }) => endNanos),
    valueBytes: new Uint8Array(Buffer.concat(rows.map(({ value }) => value))),
    valueEnds: Uint32Array.from(rows, ({ value }) => (end += value.length)),
    rowVersions: Float64Array.from(rows, ({ endNanos }) =>
      Math.max(0, Number(versionAtNanos(endNanos))),
    ),
    startNanos: null,
  });
}

/** Columns of a chunk, of the windows that end in the range. */
function read(
  reader: WindowColumnsReader,
  chunk: Uint8Array,
  columns: readonly WindowColumn[],
  [startNanos, endNanos]: readonly [bigint, bigint],
): readonly WindowRows[] {
  const all = reader.read(chunk, columns);
  const ends = all[0]!.endNanos;
  let [first, past] = [0, ends.length];
  while (first < past && ends[first]! < startNanos) first++;
  while (past > first && ends[past - 1]! >= endNanos) past--;
  if (first === 0 && past === ends.length) return all;
  return all.map((rows) => ({
    endNanos: rows.endNanos.subarray(first, past),
    values: rows.values.subarray(first, past),
  }));
}

function columnOf(
  reader: WindowColumnsReader,
  chunk: Uint8Array,
  column: Exclude<ReadColumn, 'counter'>,
  range: readonly [bigint, bigint],
): WindowRows {
  switch (column) {
    case 'last':
      return read(reader, chunk, [column], range)[0]!;
    case 'number':
      return numbers(reader, chunk, [], range)[0]!;
    case 'mean':
      return means(reader, chunk, range);
    default:
      return rowsWithSamples(read(reader, chunk, [ofFloats(column), 'count'], range))[0]!;
  }
}

function valuesOf(
  reader: WindowColumnsReader,
  chunk: Uint8Array,
  { value, ends }: ValueColumn,
  range: readonly [bigint, bigint],
): WindowRows {
  if (!ends) return columnOf(reader, chunk, value, range);
  const columns = value === 'mean' ? (['sum', 'count'] as const) : [value];
  const [last, rows, counts] = read(reader, chunk, ['last', ...columns], range);
  const { values } = rows!;
  for (let i = 0; counts !== undefined && i < values.length; i++) values[i]! /= counts.values[i]!;
  const [lastWords, words] = [wordsOf(last!.values), wordsOf(values)];
  for (let i = 0; i < values.length; i++) if (isAbsent(lastWords, i)) setAbsent(words, i);
  return rows!;
}

/** The last numbers of windows, and other columns of theirs. */
function numbers(
  reader: WindowColumnsReader,
  chunk: Uint8Array,
  others: readonly WindowColumn[],
  range: readonly [bigint, bigint],
): readonly WindowRows[] {
  const columns = read(reader, chunk, ['last', ...others], range);
  const { endNanos, values } = columns[0]!;
  const words = wordsOf(values);
  let i = 0;
  while (i < values.length && !isAbsent(words, i)) i++;
  // Of few windows the last row is a stale marker, and of these alone more is asked.
  if (i === values.length) return columns;
  const [lastNumber, count] = read(reader, chunk, ['lastNumber', 'count'], range);
  for (; i < values.length; i++) if (isAbsent(words, i)) values[i] = lastNumber!.values[i]!;
  const kept = rowsWithSamples([{ endNanos, values }, count!, ...columns.slice(1)]);
  return [kept[0]!, ...kept.slice(2)];
}

function wordsOf({ buffer, byteOffset, length }: Float64Array): Uint32Array {
  return new Uint32Array(buffer, byteOffset, 2 * length);
}

/** Of the windows that have numbers. */
function means(
  reader: WindowColumnsReader,
  chunk: Uint8Array,
  range: readonly [bigint, bigint],
): WindowRows {
  const [sums, counts] = rowsWithSamples(read(reader, chunk, ['sum', 'count'], range));
  const { values } = sums!;
  for (let i = 0; i < values.length; i++) values[i]! /= counts!.values[i]!;
  return sums!;
}

/** Without the windows that have stale markers alone. @param columns `count` is the second one */
function rowsWithSamples(columns: readonly WindowRows[]): readonly WindowRows[] {
  const count = columns[1]!.values;
  if (!count.includes(0)) return columns;
  const kept = [...count.keys()].filter((i) => count[i] !== 0);
  const endNanos = BigInt64Array.from(kept, (i) => columns[0]!.endNanos[i]!);
  return columns.map(({ values }) => ({
    endNanos,
    values: Float64Array.from(kept, (i) => values[i]!),
  }));
}
