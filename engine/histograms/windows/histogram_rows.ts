/**
 * The native histograms of a series, row by row. Of rows that follow each other and have one form (schema, zero threshold,
 * custom bounds) the counts are one matrix with one layout: what is computed over many rows looks at numbers alone.
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

/** Rows of one form that follow each other. */
export interface HistogramRun extends HistogramForm {
  /** Rows [first, past) of the series. */
  readonly first: number;
  readonly past: number;
  /** Layouts of both sides. */
  readonly positive: Int32Array;
  readonly negative: Int32Array;
  /** Row by row `width` numbers: those of `matrixColumn`, the positive buckets, the negative ones. */
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
  return joinedParts(chunks.map((chunk) => readHistogramPart(chunk, range, false)));
}

/**
 * As `readHistogramRows`, of one chunk: for who gives way between two of them.
 * @param wantsRowBefore also the last row before the range, when the chunk has it
 */
export function readHistogramPart(
  chunk: Uint8Array,
  range: readonly [startNanos: bigint, endNanos: bigint],
  wantsRowBefore: boolean,
): HistogramRows {
  return readPart(reader.read(chunk, null), range, wantsRowBefore);
}

/** @param parts in ascending time */
export function joinedParts(parts: readonly HistogramRows[]): HistogramRows {
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
  return { ...rows, runs: joined(runs), hasRowBefore: parts[0]?.hasRowBefore ?? false };
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
  [rangeStart, rangeEnd]: readonly [startNanos: bigint, endNanos: bigint],
  wantsRowBefore: boolean,
): HistogramRows {
  const { timestampNanos, lags, startNanos, groups } = columns;
  const isTaken = new Uint8Array(timestampNanos.length);
  for (const { kind, rows } of groups) {
    if (kind === valueKind.histogram) for (const row of rows) isTaken[row] = 1;
  }
  let rowBefore = -1;
  let first = 0;
  for (; first < isTaken.length && timestampNanos[first]! < rangeStart; first++) {
    if (isTaken[first] === 1) rowBefore = first;
    isTaken[first] = 0;
  }
  for (let row = isTaken.length - 1; row >= first && timestampNanos[row]! >= rangeEnd; row--) {
    isTaken[row] = 0;
  }
  const hasRowBefore = wantsRowBefore && rowBefore >= 0;
  if (hasRowBefore) isTaken[rowBefore] = 1;
  // Places of the rows that are histograms, among those alone.
  const placeOf = new Int32Array(timestampNanos.length);
  let count = 0;
  for (let row = 0; row < isTaken.length; row++) {
    placeOf[row] = isTaken[row] === 1 ? count++ : -1;
  }
  const taken = (all: BigInt64Array): BigInt64Array =>
    count === all.length ? all.slice() : all.filter((_, row) => isTaken[row] === 1);
  const own = columns.columns.filter(
    ({ group, path }) => groups[group]!.kind === valueKind.histogram && path.length === 1,
  );
  const plain: PlainColumns = {
    schemas: new Float64Array(count),
    thresholds: new Float64Array(count),
    bounds: Array.from({ length: count }, () => noBounds),
    hints: new Uint8Array(count),
    isStale: new Uint8Array(count),
  };
  for (const column of own) readPlain(column, columns.bytes, placeOf, plain);
  const starts = startNanos === null ? null : taken(startNanos);
  const whole = wholeRun(count, plain, own, placeOf);
  return {
    timestampNanos: taken(timestampNanos),
    lags: taken(lags),
    startNanos: starts?.some((nanos) => nanos !== 0n) === true ? starts : null,
    isStale: plain.isStale,
    hints: plain.hints,
    runs: whole === null ? runsOf(count, plain, cellsOf(count, own, placeOf)) : [whole],
    hasRowBefore,
  };
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
  count: number,
  plain: PlainColumns,
  fields: readonly FieldColumn[],
  placeOf: Int32Array,
): HistogramRun | null {
  if (count === 0) return null;
  const { isStale } = plain;
  // A marker, which has no counts, takes the form of what is around it.
  const formOf = Math.max(isStale.indexOf(0), 0);
  for (let row = formOf + 1; row < count; row++) {
    if (isStale[row] === 0 && !isOneForm(plain, formOf, row)) return null;
  }
  const counting: { readonly field: FieldColumn; readonly column: CountColumn }[] = [];
  const sides = { positive: new Set<number>(), negative: new Set<number>() };
  let valueCount = 0;
  for (const field of fields) {
    const column = countColumnOf(field.path[0]!);
    if (column === null) continue;
    if (field.type >= fieldType.bytes) {
      throw malformed(`field ${field.path[0]} is of type ${field.type}`);
    }
    const { rows } = field;
    let taken = 0;
    for (let i = 0; i < rows.length; i++) if (placeOf[rows[i]!]! >= 0) taken++;
    if (taken === 0) continue;
    valueCount += taken;
    counting.push({ field, column });
    const { place, index, isNegative } = column;
    if (place === matrixColumn.buckets) sides[isNegative ? 'negative' : 'positive'].add(index);
  }
  const positive = Int32Array.from(sides.positive).sort();
  const negative = Int32Array.from(sides.negative).sort();
  const width = matrixColumn.buckets + positive.length + negative.length;
  const cells = count * width;
  if (count > 1 && cells > matrixCellsFree) {
    if (cells > Math.min(matrixCellsMax, cellsPerValueMax * valueCount)) return null;
  }
  const matrix = new Float64Array(cells);
  const places = {
    positive: placesIn(positive, matrixColumn.buckets),
    negative: placesIn(negative, matrixColumn.buckets + positive.length),
  };
  for (const { field, column } of counting) {
    const { place, index, isNegative } = column;
    const isBucket = place === matrixColumn.buckets;
    const target = isBucket ? places[isNegative ? 'negative' : 'positive'].get(index)! : place;
    const { rows, values } = field;
    for (let i = 0; i < rows.length; i++) {
      const row = placeOf[rows[i]!]!;
      if (row >= 0) matrix[row * width + target] = values[i]!;
    }
  }
  const form = {
    schema: plain.schemas[formOf]!,
    zeroThreshold: plain.thresholds[formOf]!,
    customBounds: plain.bounds[formOf]!,
  };
  return { ...form, first: 0, past: count, positive, negative, matrix, width };
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
    // Whole counts and those of floats have columns of their own.
    return Int32Array.from(new Set(indexes.map(({ index }) => index))).sort();
  };
  const [positive, negative] = [layout(false), layout(true)];
  const width = matrixColumn.buckets + positive.length + negative.length;
  const cellCount = (past - first) * width;
  if (past - first > 1 && cellCount > matrixCellsFree) {
    if (cellCount > Math.min(matrixCellsMax, cellsPerValueMax * (to - from))) return null;
  }
  const matrix = new Float64Array(cellCount);
  const places = {
    positive: placesIn(positive, matrixColumn.buckets),
    negative: placesIn(negative, matrixColumn.buckets + positive.length),
  };
  for (const id of seen) {
    const { place, index, isNegative } = columns[id]!;
    const isBucket = place === matrixColumn.buckets;
    targets[id] = isBucket ? (isNegative ? places.negative : places.positive).get(index)! : place;
  }
  for (let row = first; row < past; row++) {
    const at = (row - first) * width;
    for (let i = starts[row]!; i < starts[row + 1]!; i++) {
      matrix[at + targets[column[i]!]!] = value[i]!;
    }
  }
  for (const id of seen) targets[id] = -1;
  return { ...form, first, past, positive, negative, matrix, width };
}

function placesIn(indexes: Int32Array, first: number): Map<number, number> {
  return new Map(Array.from(indexes, (index, i) => [index, first + i]));
}

/** Neighbours of one form become one, as long as their matrix is not too large. */
function joined(runs: readonly HistogramRun[]): HistogramRun[] {
  const all: HistogramRun[] = [];
  for (let at = 0; at < runs.length; ) {
    const first = runs[at]!;
    let { positive, negative } = first;
    let apart = first.matrix.length;
    let next = at + 1;
    for (; next < runs.length; next++) {
      const run = runs[next]!;
      const isOne =
        run.schema === first.schema &&
        run.zeroThreshold === first.zeroThreshold &&
        sameBounds(run.customBounds, first.customBounds);
      if (!isOne) break;
      const wider = [unionOf(positive, run.positive), unionOf(negative, run.negative)] as const;
      const width = matrixColumn.buckets + wider[0].length + wider[1].length;
      const cells = (run.past - first.first) * width;
      apart += run.matrix.length;
      if (cells > matrixCellsMax || cells > joinedCellsFactorMax * apart + matrixCellsFree) break;
      [positive, negative] = wider;
    }
    all.push(next === at + 1 ? first : joinedTo(runs.slice(at, next), positive, negative));
    at = next;
  }
  return all;
}

function joinedTo(
  runs: readonly HistogramRun[],
  positive: Int32Array,
  negative: Int32Array,
): HistogramRun {
  const { first } = runs[0]!;
  const { past } = runs.at(-1)!;
  const width = matrixColumn.buckets + positive.length + negative.length;
  const matrix = new Float64Array((past - first) * width);
  const places = [
    placesIn(positive, matrixColumn.buckets),
    placesIn(negative, matrixColumn.buckets + positive.length),
  ] as const;
  for (const run of runs) {
    const from = [
      ...[matrixColumn.count, matrixColumn.sum, matrixColumn.zeroCount],
      ...Array.from(run.positive, (index) => places[0].get(index)!),
      ...Array.from(run.negative, (index) => places[1].get(index)!),
    ];
    for (let row = run.first; row < run.past; row++) {
      const source = (row - run.first) * run.width;
      const target = (row - first) * width;
      for (let i = 0; i < from.length; i++) matrix[target + from[i]!] = run.matrix[source + i]!;
    }
  }
  return { ...runs[0]!, past, positive, negative, matrix, width };
}

/** The numbers of a row in its matrix. */
export function numbersOf(run: HistogramRun, row: number): Float64Array {
  assert(row >= run.first && row < run.past, 'the row is of the run');
  const at = (row - run.first) * run.width;
  return run.matrix.subarray(at, at + run.width);
}

/** A row as a histogram of its own. */
export function histogramAt(rows: HistogramRows, run: HistogramRun, row: number): FloatHistogram {
  // Who keeps it does not keep all rows.
  return histogramOfNumbers(run, numbersOf(run, row).slice(), 0, rows.hints[row] as CounterHint);
}

/** @param numbers which has those of a row of the run's matrix at a place; borrowed */
export function histogramOfNumbers(
  run: HistogramRun,
  numbers: Float64Array,
  at: number,
  hint: CounterHint = counterHint.unknown,
): FloatHistogram {
  const { schema, zeroThreshold, customBounds, positive, negative, width } = run;
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
    negative: sideOf(negative, past, at + width),
  });
}
