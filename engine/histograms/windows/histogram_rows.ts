/**
 * The native histograms of a series. Of rows that follow each other and have one form (schema, zero threshold, custom
 * bounds) the counts are one matrix with one layout: what is computed over many rows looks at numbers alone. The matrix
 * stands column by column, as chunks have it and as loops over all rows want it.
 */
import { assert } from '#lib/assert.ts';
import { badRequest } from '#lib/errors.ts';
import {
  type Buckets,
  boundsOf,
  bucketOfNumber,
  customSchema,
  histogramField,
  resetHint,
  schemaMax,
  schemaMin,
} from '../../typed/histogram.ts';
import { type FieldColumn, type TypedColumns, TypedColumnsReader } from '../../typed/columns.ts';
import { fieldType, valueKind } from '../../typed/typed_value.ts';
import { sameBounds } from '../bounds.ts';
import { isAbsent } from '../../window_functions/row.ts';
import { noBuckets, unionOf } from '../buckets.ts';
import { firstAbove } from './ascending.ts';
import { NumberRooms } from './number_rooms.ts';
import { type CounterHint, counterHint, FloatHistogram } from '../float_histogram.ts';

/** Most numbers of one matrix, and how many for each one that is not empty: rows that have few buckets in common are in several. */
const matrixCellsMax = 1 << 18;
const cellsPerValueMax = 16;
/** However empty it is. */
const matrixCellsFree = 4096;
/** Neighbours are joined when that makes no more numbers, times this. */
const joinedCellsFactorMax = 2;
/** Columns of a matrix before those of buckets. */
export const matrixColumn = { count: 0, sum: 1, zeroCount: 2, buckets: 3 } as const;

/** What has to be the same for two histograms to be subtracted number by number. */
export interface HistogramForm {
  readonly schema: number;
  readonly zeroThreshold: number;
  readonly customBounds: Float64Array;
}

export function hasSameForm(a: HistogramForm, b: HistogramForm): boolean {
  return (
    a.schema === b.schema &&
    a.zeroThreshold === b.zeroThreshold &&
    sameBounds(a.customBounds, b.customBounds)
  );
}

/** A form, and the buckets of both sides in the order of their columns. */
export interface HistogramLayout extends HistogramForm {
  readonly positive: Int32Array;
  readonly negative: Int32Array;
}

/** Rows of one form that follow each other. */
export interface HistogramRun extends HistogramLayout {
  /** Rows [first, past) of the series. */
  readonly first: number;
  readonly past: number;
  /** `width` columns of a number for each row: those of `matrixColumn`, the positive buckets, the negative ones. */
  readonly matrix: Float64Array;
  readonly width: number;
}

export interface HistogramRows {
  /** Unix nanoseconds, ascending, every time once. */
  readonly timestampNanos: BigInt64Array;
  /** From a row's time to its version, in 1/64 milliseconds. */
  readonly lags: BigInt64Array;
  /** Unix nanoseconds, 0 for none; null when no row has any. */
  readonly startNanos: BigInt64Array | null;
  /** 1 where the series ends, and the row has no counts. */
  readonly isStale: Uint8Array;
  readonly hints: Uint8Array;
  readonly runs: readonly HistogramRun[];
  /** Whether the first row lies before the range: it tells whether the next one is reset, and is none of it. */
  readonly hasRowBefore: boolean;
}

const noBounds = new Float64Array(0);
const reader = new TypedColumnsReader();

/**
 * @param chunks of typed rows, in ascending time (`typedInOrder`); values that are no histograms are passed over
 * @param range of the times of rows
 * @throws {TsdbError} BAD_REQUEST when one is malformed
 */
export function readHistogramRows(
  chunks: readonly Uint8Array[],
  range: readonly [startNanos: bigint, endNanos: bigint],
): HistogramRows {
  const rooms = new NumberRooms();
  return joinedParts(
    chunks.map((chunk) => readHistogramPart(chunk, range, false, rooms)),
    rooms,
  );
}

/**
 * As `readHistogramRows`, of one chunk: for who gives way between two of them.
 * @param wantsRowBefore also the last row before the range, when the chunk has it
 * @param rooms of which the numbers are
 */
export function readHistogramPart(
  chunk: Uint8Array,
  range: readonly [startNanos: bigint, endNanos: bigint],
  wantsRowBefore: boolean,
  rooms: NumberRooms,
): HistogramRows {
  return readPart(reader.read(chunk, null), range, wantsRowBefore, rooms);
}

/**
 * @param parts in ascending time
 * @param rooms of which the numbers are, where several parts become one
 */
export function joinedParts(parts: readonly HistogramRows[], rooms: NumberRooms): HistogramRows {
  const rowCount = parts.reduce((sum, part) => sum + part.timestampNanos.length, 0);
  const rows = {
    timestampNanos: new BigInt64Array(rowCount),
    lags: new BigInt64Array(rowCount),
    startNanos: parts.some((part) => part.startNanos !== null) ? new BigInt64Array(rowCount) : null,
    isStale: new Uint8Array(rowCount),
    hints: new Uint8Array(rowCount),
  };
  const runs: HistogramRun[] = [];
  let first = 0;
  for (const part of parts) {
    assert(
      first === 0 ||
        part.timestampNanos.length === 0 ||
        part.timestampNanos[0]! > rows.timestampNanos[first - 1]!,
      'chunks are in ascending time',
    );
    rows.timestampNanos.set(part.timestampNanos, first);
    rows.lags.set(part.lags, first);
    if (part.startNanos !== null) rows.startNanos!.set(part.startNanos, first);
    rows.isStale.set(part.isStale, first);
    rows.hints.set(part.hints, first);
    for (const run of part.runs) {
      runs.push({ ...run, first: run.first + first, past: run.past + first });
    }
    first += part.timestampNanos.length;
  }
  return { ...rows, runs: joined(runs, rooms), hasRowBefore: parts[0]?.hasRowBefore ?? false };
}

/** What the rows of one chunk say beside their counts. */
interface PlainColumns {
  readonly schemas: Float64Array;
  readonly thresholds: Float64Array;
  readonly bounds: Float64Array[];
  readonly hints: Uint8Array;
  readonly isStale: Uint8Array;
}

/** The counts of one chunk, row by row. */
interface Cells {
  /** Those of row i are [starts[i], starts[i + 1]). */
  readonly starts: Int32Array;
  /** Places in `columns`. */
  readonly column: Int32Array;
  readonly value: Float64Array;
  readonly columns: readonly CountColumn[];
  /** Of each column: its place in the matrix that is being made; -1 between two of them. */
  readonly targets: Int32Array;
}

/** Of one field that counts. */
interface CountColumn {
  /** One of `matrixColumn`; of a bucket `buckets`. */
  readonly place: number;
  readonly index: number;
  readonly isNegative: boolean;
}

function readPart(
  columns: TypedColumns,
  range: readonly [startNanos: bigint, endNanos: bigint],
  wantsRowBefore: boolean,
  rooms: NumberRooms,
): HistogramRows {
  const { timestampNanos, lags, startNanos, groups } = columns;
  const takenRows = rowsTaken(columns, range, wantsRowBefore);
  const { placeOf, count } = takenRows;
  const taken = (all: BigInt64Array): BigInt64Array =>
    count === all.length ? all.slice() : all.filter((_, row) => placeOf[row]! >= 0);
  const own = columns.columns.filter(
    ({ group, path }) => groups[group]!.kind === valueKind.histogram && path.length === 1,
  );
  const plain: PlainColumns = {
    schemas: new Float64Array(count),
    thresholds: new Float64Array(count),
    bounds: new Array<Float64Array>(count).fill(noBounds),
    hints: new Uint8Array(count),
    isStale: new Uint8Array(count),
  };
  for (const column of own) {
    if (column.path[0]! < histogramField.firstBucket) {
      readPlain(column, columns.bytes, placeOf, plain);
    }
  }
  const starts = startNanos === null ? null : taken(startNanos);
  const whole = wholeRun(takenRows, plain, own, rooms);
  return {
    timestampNanos: taken(timestampNanos),
    lags: taken(lags),
    startNanos: starts?.some((nanos) => nanos !== 0n) === true ? starts : null,
    isStale: plain.isStale,
    hints: plain.hints,
    runs: whole === null ? runsOf(count, plain, cellsOf(count, own, placeOf)) : [whole],
    hasRowBefore: takenRows.hasRowBefore,
  };
}

/** The rows of a chunk that are histograms and are asked for. */
interface TakenRows {
  /** Of each row of the chunk: its place among these; -1 for the others. */
  readonly placeOf: Int32Array;
  readonly count: number;
  readonly hasRowBefore: boolean;
}

function rowsTaken(
  { timestampNanos, groups }: TypedColumns,
  [rangeStart, rangeEnd]: readonly [startNanos: bigint, endNanos: bigint],
  wantsRowBefore: boolean,
): TakenRows {
  const placeOf = new Int32Array(timestampNanos.length).fill(-1);
  for (const { kind, rows } of groups) {
    if (kind !== valueKind.histogram) continue;
    for (let i = 0; i < rows.length; i++) placeOf[rows[i]!] = 0;
  }
  let rowBefore = -1;
  let first = 0;
  for (; first < placeOf.length && timestampNanos[first]! < rangeStart; first++) {
    if (placeOf[first] === 0) rowBefore = first;
    placeOf[first] = -1;
  }
  for (let row = placeOf.length - 1; row >= first && timestampNanos[row]! >= rangeEnd; row--) {
    placeOf[row] = -1;
  }
  const hasRowBefore = wantsRowBefore && rowBefore >= 0;
  if (hasRowBefore) placeOf[rowBefore] = 0;
  let count = 0;
  for (let row = 0; row < placeOf.length; row++) {
    if (placeOf[row] === 0) placeOf[row] = count++;
  }
  return { placeOf, count, hasRowBefore };
}

function readPlain(
  column: FieldColumn,
  bytes: Uint8Array,
  placeOf: Int32Array,
  { schemas, thresholds, bounds, hints, isStale }: PlainColumns,
): void {
  const { path, type, rows, values, places } = column;
  const [number] = path as readonly [number];
  const set = (target: Float64Array | Uint8Array, isGood: (value: number) => boolean): void => {
    for (let i = 0; i < rows.length; i++) {
      const place = placeOf[rows[i]!]!;
      if (place < 0) continue;
      const value = values[i]!;
      if (!isGood(value)) throw malformed(`field ${number} is ${value}`);
      target[place] = value;
    }
  };
  switch (number) {
    case histogramField.schema:
      return set(schemas, (schema) => schema === customSchema || isExponential(schema));
    case histogramField.hint:
      return set(hints, (hint) => hint === resetHint.reset || hint === resetHint.gauge);
    case histogramField.zeroThreshold:
      return set(thresholds, (threshold) => threshold >= 0 && threshold < Infinity);
    case histogramField.sum: {
      const words = new Uint32Array(values.buffer, values.byteOffset, 2 * values.length);
      for (let i = 0; i < rows.length; i++) {
        const place = placeOf[rows[i]!]!;
        if (place >= 0 && isAbsent(words, i)) isStale[place] = 1;
      }
      return;
    }
    case histogramField.customBounds: {
      if (type !== fieldType.bytes) throw malformed(`custom bounds are of type ${type}`);
      // Most rows have the very bounds of the row before.
      let [lastAt, last] = [-1, noBounds as Float64Array];
      for (const [i, row] of rows.entries()) {
        const at = places[2 * i]!;
        if (at !== lastAt) {
          const next = boundsOf(bytes, at, at + places[2 * i + 1]!);
          last = sameBounds(next, last) ? last : next;
          lastAt = at;
        }
        if (placeOf[row]! >= 0) bounds[placeOf[row]!] = last;
      }
    }
  }
}

function isExponential(schema: number): boolean {
  return Number.isInteger(schema) && schema >= schemaMin && schema <= schemaMax;
}

function malformed(reason: string): Error {
  return badRequest(`cannot read histograms: ${reason}`);
}

function cellsOf(count: number, columns: readonly FieldColumn[], placeOf: Int32Array): Cells {
  const counts: CountColumn[] = [];
  const fields: FieldColumn[] = [];
  const starts = new Int32Array(count + 1);
  for (const field of columns) {
    const column = countColumnOf(field.path[0]!);
    if (column === null) continue;
    if (field.type >= fieldType.bytes) {
      throw malformed(`field ${field.path[0]} is of type ${field.type}`);
    }
    counts.push(column);
    fields.push(field);
    for (const row of field.rows) if (placeOf[row]! >= 0) starts[placeOf[row]! + 1]! += 1;
  }
  for (let i = 0; i < count; i++) starts[i + 1]! += starts[i]!;
  const next = starts.slice();
  const column = new Int32Array(starts[count]!);
  const value = new Float64Array(starts[count]!);
  for (const [i, { rows, values }] of fields.entries()) {
    for (const [j, row] of rows.entries()) {
      if (placeOf[row]! < 0) continue;
      const at = next[placeOf[row]!]!;
      next[placeOf[row]!]! += 1;
      column[at] = i;
      value[at] = values[j]!;
    }
  }
  const targets = new Int32Array(counts.length).fill(-1);
  return { starts, column, value, columns: counts, targets };
}

/** Null for a field that does not count. */
function countColumnOf(number: number): CountColumn | null {
  const plain = { index: 0, isNegative: false };
  if (number === histogramField.count) return { place: matrixColumn.count, ...plain };
  if (number === histogramField.sum) return { place: matrixColumn.sum, ...plain };
  if (number === histogramField.zeroCount) return { place: matrixColumn.zeroCount, ...plain };
  if (number < histogramField.firstBucket) return null;
  const bucket = bucketOfNumber(number);
  if ((bucket.index | 0) !== bucket.index) {
    throw malformed(`bucket is beyond 32 bits: ${bucket.index}`);
  }
  return { place: matrixColumn.buckets, ...bucket };
}

function isOneForm(plain: PlainColumns, a: number, b: number): boolean {
  return (
    plain.schemas[a] === plain.schemas[b] &&
    plain.thresholds[a] === plain.thresholds[b] &&
    sameBounds(plain.bounds[a]!, plain.bounds[b]!)
  );
}

/** All rows as one run, straight from the columns; null when they are of several forms, or few buckets are not empty. */
function wholeRun(
  { placeOf, count }: TakenRows,
  plain: PlainColumns,
  fields: readonly FieldColumn[],
  rooms: NumberRooms,
): HistogramRun | null {
  if (count === 0) return null;
  const { isStale } = plain;
  // A marker, which has no counts, takes the form of what is around it.
  const formOf = Math.max(isStale.indexOf(0), 0);
  for (let row = formOf + 1; row < count; row++) {
    if (isStale[row] === 0 && !isOneForm(plain, formOf, row)) return null;
  }
  const isEachTaken = count === placeOf.length;
  const counting: { readonly field: FieldColumn; readonly column: CountColumn }[] = [];
  const sides: { readonly positive: number[]; readonly negative: number[] } = {
    positive: [],
    negative: [],
  };
  let valueCount = 0;
  for (const field of fields) {
    const column = countColumnOf(field.path[0]!);
    if (column === null) continue;
    if (field.type >= fieldType.bytes) {
      throw malformed(`field ${field.path[0]} is of type ${field.type}`);
    }
    const taken = isEachTaken ? field.count : takenOf(field, placeOf);
    if (taken === 0) continue;
    valueCount += taken;
    counting.push({ field, column });
    const { place, index, isNegative } = column;
    if (place === matrixColumn.buckets) sides[isNegative ? 'negative' : 'positive'].push(index);
  }
  const positive = layoutOf(sides.positive);
  const negative = layoutOf(sides.negative);
  const width = matrixColumn.buckets + positive.length + negative.length;
  const cells = count * width;
  if (count > 1 && cells > matrixCellsFree) {
    if (cells > Math.min(matrixCellsMax, cellsPerValueMax * valueCount)) return null;
  }
  const matrix = rooms.take(cells);
  for (const { field, column } of counting) {
    const { place, index, isNegative } = column;
    const isBucket = place === matrixColumn.buckets;
    const target = isBucket ? columnOf(index, isNegative, positive, negative) : place;
    copyColumn(field, matrix, target * count, isEachTaken ? null : placeOf);
  }
  const form = {
    schema: plain.schemas[formOf]!,
    zeroThreshold: plain.thresholds[formOf]!,
    customBounds: plain.bounds[formOf]!,
  };
  return { ...form, first: 0, past: count, positive, negative, matrix, width };
}

function takenOf({ heap, rowsAt, count }: FieldColumn, placeOf: Int32Array): number {
  let taken = 0;
  for (let i = rowsAt; i < rowsAt + count; i++) if (placeOf[heap.rows[i]!]! >= 0) taken++;
  return taken;
}

/** @param placeOf null when all rows are taken */
function copyColumn(
  { heap: { rows, values }, rowsAt, valuesAt, count }: FieldColumn,
  matrix: Float64Array,
  target: number,
  placeOf: Int32Array | null,
): void {
  for (let i = 0; i < count; i++) {
    const row = rows[rowsAt + i]!;
    const place = placeOf === null ? row : placeOf[row]!;
    if (place >= 0) matrix[target + place] = values[valuesAt + i]!;
  }
}

/** Whole counts and those of floats have columns of their own: of both, one bucket. */
function layoutOf(indexes: readonly number[]): Int32Array {
  const sorted = new Int32Array(indexes).sort();
  let length = 0;
  for (let i = 0; i < sorted.length; i++) {
    if (i === 0 || sorted[i] !== sorted[i - 1]) sorted[length++] = sorted[i]!;
  }
  return length === sorted.length ? sorted : sorted.slice(0, length);
}

function runsOf(count: number, plain: PlainColumns, cells: Cells): HistogramRun[] {
  const runs: HistogramRun[] = [];
  const add = (first: number, past: number, form: HistogramForm): void => {
    const run = runOf(first, past, form, cells);
    if (run !== null) {
      runs.push(run);
      return;
    }
    const middle = (first + past) >> 1;
    add(first, middle, form);
    add(middle, past, form);
  };
  const { isStale } = plain;
  for (let first = 0, past = 0; first < count; first = past) {
    // A marker, which has no counts, takes the form of what is around it.
    let formOf = isStale[first] === 1 ? -1 : first;
    for (past = first + 1; past < count; past++) {
      if (isStale[past] === 1) continue;
      if (formOf >= 0 && !isOneForm(plain, formOf, past)) break;
      if (formOf < 0) formOf = past;
    }
    const row = Math.max(formOf, first);
    add(first, past, {
      schema: plain.schemas[row]!,
      zeroThreshold: plain.thresholds[row]!,
      customBounds: plain.bounds[row]!,
    });
  }
  return runs;
}

/** @returns null when the matrix of several rows would be too large */
function runOf(
  first: number,
  past: number,
  form: HistogramForm,
  { starts, column, value, columns, targets }: Cells,
): HistogramRun | null {
  const [from, to] = [starts[first]!, starts[past]!];
  const seen: number[] = [];
  for (let i = from; i < to; i++) {
    const id = column[i]!;
    if (targets[id]! >= 0) continue;
    targets[id] = 0;
    seen.push(id);
  }
  for (const id of seen) targets[id] = -1;
  const layout = (wanted: boolean): Int32Array => {
    const buckets = seen
      .map((id) => columns[id]!)
      .filter(({ place }) => place === matrixColumn.buckets);
    const indexes = buckets.filter(({ isNegative }) => isNegative === wanted);
    return layoutOf(indexes.map(({ index }) => index));
  };
  const [positive, negative] = [layout(false), layout(true)];
  const width = matrixColumn.buckets + positive.length + negative.length;
  const cellCount = (past - first) * width;
  if (past - first > 1 && cellCount > matrixCellsFree) {
    if (cellCount > Math.min(matrixCellsMax, cellsPerValueMax * (to - from))) return null;
  }
  const matrix = new Float64Array(cellCount);
  for (const id of seen) {
    const { place, index, isNegative } = columns[id]!;
    const isBucket = place === matrixColumn.buckets;
    targets[id] = isBucket ? columnOf(index, isNegative, positive, negative) : place;
  }
  const height = past - first;
  for (let row = first; row < past; row++) {
    for (let i = starts[row]!; i < starts[row + 1]!; i++) {
      matrix[targets[column[i]!]! * height + row - first] = value[i]!;
    }
  }
  for (const id of seen) targets[id] = -1;
  return { ...form, first, past, positive, negative, matrix, width };
}

/** The column of a bucket that is in the layout of its side. */
function columnOf(
  index: number,
  isNegative: boolean,
  positive: Int32Array,
  negative: Int32Array,
): number {
  if (isNegative) return matrixColumn.buckets + positive.length + firstAbove(negative, index - 1);
  return matrixColumn.buckets + firstAbove(positive, index - 1);
}

/** Neighbours of one form become one, as long as their matrix is not too large. */
function joined(runs: readonly HistogramRun[], rooms: NumberRooms): HistogramRun[] {
  const all: HistogramRun[] = [];
  for (let at = 0; at < runs.length; ) {
    const first = runs[at]!;
    let { positive, negative } = first;
    let apart = first.matrix.length;
    let next = at + 1;
    for (; next < runs.length; next++) {
      const run = runs[next]!;
      if (!hasSameForm(run, first)) break;
      const wider = [unionOf(positive, run.positive), unionOf(negative, run.negative)] as const;
      const width = matrixColumn.buckets + wider[0].length + wider[1].length;
      const cells = (run.past - first.first) * width;
      apart += run.matrix.length;
      if (cells > matrixCellsMax || cells > joinedCellsFactorMax * apart + matrixCellsFree) break;
      [positive, negative] = wider;
    }
    all.push(next === at + 1 ? first : joinedTo(runs.slice(at, next), positive, negative, rooms));
    at = next;
  }
  return all;
}

function joinedTo(
  runs: readonly HistogramRun[],
  positive: Int32Array,
  negative: Int32Array,
  rooms: NumberRooms,
): HistogramRun {
  const { first } = runs[0]!;
  const { past } = runs.at(-1)!;
  const width = matrixColumn.buckets + positive.length + negative.length;
  const matrix = rooms.take((past - first) * width);
  for (const run of runs) {
    const to = [
      ...[matrixColumn.count, matrixColumn.sum, matrixColumn.zeroCount],
      ...Array.from(run.positive, (index) => columnOf(index, false, positive, negative)),
      ...Array.from(run.negative, (index) => columnOf(index, true, positive, negative)),
    ];
    const height = run.past - run.first;
    for (const [column, place] of to.entries()) {
      const source = column * height;
      const target = place * (past - first) + run.first - first;
      for (let row = 0; row < height; row++) matrix[target + row] = run.matrix[source + row]!;
    }
  }
  return { ...runs[0]!, past, positive, negative, matrix, width };
}

/** The numbers of a row, in the order of columns. */
export function numbersOf(run: HistogramRun, row: number): Float64Array {
  assert(row >= run.first && row < run.past, 'the row is of the run');
  const { matrix, width } = run;
  const height = run.past - run.first;
  const numbers = new Float64Array(width);
  for (let i = 0, at = row - run.first; i < width; i++, at += height) numbers[i] = matrix[at]!;
  return numbers;
}

/** A row as a histogram of its own. */
export function histogramAt(rows: HistogramRows, run: HistogramRun, row: number): FloatHistogram {
  return histogramOfNumbers(run, numbersOf(run, row), 0, rows.hints[row] as CounterHint);
}

/** @param numbers which has those of a row at a place, in the order of columns; borrowed */
export function histogramOfNumbers(
  layout: HistogramLayout,
  numbers: Float64Array,
  at: number,
  hint: CounterHint = counterHint.unknown,
): FloatHistogram {
  const { schema, zeroThreshold, customBounds, positive, negative } = layout;
  const first = at + matrixColumn.buckets;
  const past = first + positive.length;
  const sideOf = (indexes: Int32Array, from: number, to: number): Buckets =>
    indexes.length === 0 ? noBuckets : { indexes, counts: numbers.subarray(from, to) };
  return FloatHistogram.loose({
    hint,
    schema,
    zeroThreshold,
    zeroCount: numbers[at + matrixColumn.zeroCount]!,
    count: numbers[at + matrixColumn.count]!,
    sum: numbers[at + matrixColumn.sum]!,
    customBounds,
    positive: sideOf(positive, first, past),
    negative: sideOf(negative, past, past + negative.length),
  });
}
