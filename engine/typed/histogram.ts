/**
 * Native histograms as typed values: their canonical form (docs/TYPED_ROWS.md), and back. Counts are absolute, buckets by
 * their index.
 */
import { badRequest } from '#lib/errors.ts';
import {
  bitsOfDouble,
  doubleOf,
  fieldType,
  valueKind,
  TypedValueReader,
  TypedValueWriter,
} from './typed_value.ts';

export const resetHint = { unknown: 0, reset: 1, gauge: 3 } as const;
export type ResetHint = (typeof resetHint)[keyof typeof resetHint];

/** Schema of histograms whose bounds are given one by one. */
export const customSchema = -53;
export const schemaMin = -4;
export const schemaMax = 8;

/** The bits of a NaN by which Prometheus ends a series. */
export const staleBits = 0x7ff0000000000002n;

/** One side of a histogram: buckets that are not empty. */
export interface Buckets {
  /** Ascending. */
  readonly indexes: Int32Array;
  /** Of whole histograms whole numbers below 2^64; exact below 2^53. */
  readonly counts: Float64Array;
}

export interface Histogram {
  /** Counts are floats: what a rule made, or a scaled one. */
  readonly isFloat: boolean;
  readonly schema: number;
  readonly hint: ResetHint;
  readonly zeroThreshold: number;
  readonly count: number;
  readonly zeroCount: number;
  /** As bits, since it may be a stale marker. */
  readonly sumBits: bigint;
  /** Upper bounds, ascending, of the custom schema alone; the last bucket has none. */
  readonly customBounds: Float64Array;
  readonly positive: Buckets;
  readonly negative: Buckets;
}

const layout = { whole: 0, float: 1 } as const;
/** Numbers of the fields of a histogram. */
export const histogramField = {
  schema: 1,
  hint: 2,
  zeroThreshold: 3,
  count: 4,
  zeroCount: 5,
  sum: 6,
  customBounds: 7,
  firstBucket: 16,
} as const;

const field = histogramField;

/** Numbers of the buckets of both sides are mixed, by their distance from 1. */
export function bucketNumber(index: number, isNegative: boolean): number {
  const zigzag = index >= 0 ? 2 * index : -2 * index - 1;
  return field.firstBucket + 2 * zigzag + (isNegative ? 1 : 0);
}

/** Of a field of a bucket. */
export function bucketOfNumber(number: number): {
  readonly index: number;
  readonly isNegative: boolean;
} {
  const place = number - field.firstBucket;
  const zigzag = Math.floor(place / 2);
  const index = zigzag % 2 === 0 ? zigzag / 2 : -(zigzag + 1) / 2;
  return { index, isNegative: place % 2 === 1 };
}

const writer = new TypedValueWriter();

/** The only value of a stale marker. */
export const staleHistogram: Uint8Array = new TypedValueWriter()
  .begin(valueKind.histogram, layout.whole)
  .doubleBits(field.sum, staleBits)
  .finish();

export function isStaleHistogram(value: Uint8Array): boolean {
  return value.length === staleHistogram.length && Buffer.compare(value, staleHistogram) === 0;
}

/**
 * The value of a histogram; empty buckets are left out.
 * @throws {TsdbError} BAD_REQUEST when it cannot be one
 */
export function valueOfHistogram(histogram: Histogram): Uint8Array<ArrayBuffer> {
  checkHistogram(histogram);
  const { isFloat, schema, hint, zeroThreshold, count, zeroCount, sumBits } = histogram;
  writer.begin(valueKind.histogram, isFloat ? layout.float : layout.whole);
  const countField = (number: number, value: number): void => {
    if (bitsOfDouble(value) === 0n) return;
    if (isFloat) writer.double(number, value);
    else writer.uint(number, BigInt(value));
  };
  if (schema !== 0) writer.int(field.schema, BigInt(schema));
  if (hint !== resetHint.unknown) writer.uint(field.hint, BigInt(hint));
  if (zeroThreshold !== 0) writer.double(field.zeroThreshold, zeroThreshold);
  countField(field.count, count);
  countField(field.zeroCount, zeroCount);
  if (sumBits !== 0n) writer.doubleBits(field.sum, sumBits);
  const { customBounds, positive, negative } = histogram;
  if (customBounds.length > 0) writer.bytes(field.customBounds, bytesOf(customBounds));
  for (const [number, value] of bucketsByNumber(positive, negative)) countField(number, value);
  return writer.finish();
}

function bytesOf(values: Float64Array): Uint8Array {
  const bytes = new Uint8Array(8 * values.length);
  const view = new DataView(bytes.buffer);
  for (const [i, value] of values.entries()) view.setFloat64(8 * i, value, true);
  return bytes;
}

function bucketsByNumber(positive: Buckets, negative: Buckets): [number, number][] {
  const buckets: [number, number][] = [];
  for (const [i, index] of positive.indexes.entries()) {
    buckets.push([bucketNumber(index, false), positive.counts[i]!]);
  }
  for (const [i, index] of negative.indexes.entries()) {
    buckets.push([bucketNumber(index, true), negative.counts[i]!]);
  }
  return buckets.sort(([a], [b]) => a - b);
}

function checkHistogram(histogram: Histogram): void {
  const { isFloat, schema, count, zeroCount, zeroThreshold, customBounds, positive, negative } =
    histogram;
  const isCustom = schema === customSchema;
  if (!isCustom && (!Number.isInteger(schema) || schema < schemaMin || schema > schemaMax)) {
    throw badHistogram(
      `schema is not one of ${schemaMin} to ${schemaMax} or ${customSchema}: ${schema}`,
    );
  }
  if (!(zeroThreshold >= 0 && zeroThreshold < Infinity)) {
    throw badHistogram(`zero threshold is no number from 0: ${zeroThreshold}`);
  }
  if (isCustom) checkCustom(histogram);
  else if (customBounds.length > 0) throw badHistogram(`has custom bounds with schema ${schema}`);
  for (const { indexes, counts } of [positive, negative]) {
    for (const [i, index] of indexes.entries()) {
      if (i > 0 && index <= indexes[i - 1]!) throw badHistogram('has buckets that do not ascend');
      checkCount(counts[i]!, isFloat, `bucket ${index}`);
    }
  }
  checkCount(count, isFloat, 'count');
  checkCount(zeroCount, isFloat, 'zero count');
}

function checkCustom(histogram: Histogram): void {
  const { customBounds, zeroCount, positive, negative } = histogram;
  if (negative.indexes.length > 0) throw badHistogram('has custom bounds and negative buckets');
  if (zeroCount !== 0 || histogram.zeroThreshold !== 0) {
    throw badHistogram('has custom bounds and a zero bucket');
  }
  for (const [i, bound] of customBounds.entries()) {
    if (Number.isNaN(bound)) throw badHistogram(`custom bound ${i} is NaN`);
    if (i > 0 && bound <= customBounds[i - 1]!) {
      throw badHistogram(`custom bounds do not ascend: ${bound} after ${customBounds[i - 1]}`);
    }
  }
  const { indexes } = positive;
  const last = indexes.at(-1) ?? 0;
  if ((indexes[0] ?? 0) < 0 || last > customBounds.length) {
    throw badHistogram(`has buckets beyond its ${customBounds.length} custom bounds`);
  }
}

function checkCount(value: number, isFloat: boolean, name: string): void {
  if (isFloat) {
    // NaN is what Prometheus makes of a division by zero, and keeps.
    if (value < 0) throw badHistogram(`${name} is negative: ${value}`);
    return;
  }
  if (!Number.isInteger(value) || value < 0 || Object.is(value, -0) || value >= 2 ** 64) {
    throw badHistogram(`${name} is no whole number below 2^64: ${value}`);
  }
}

function badHistogram(reason: string): Error {
  return badRequest(`cannot use histogram: ${reason}`);
}

/**
 * The histogram of a typed value. A stale marker has no counts, and its bits in `sumBits`.
 * @throws {TsdbError} BAD_REQUEST when it is no histogram, or not in its canonical form
 */
export function histogramOfValue(
  value: Uint8Array,
  at: number = 0,
  past: number = value.length,
): Histogram {
  const reader = new TypedValueReader().open(value, at, past);
  if (reader.kind !== valueKind.histogram)
    throw badHistogram(`is a typed value of kind ${reader.kind}`);
  if (reader.layout > layout.float) throw badHistogram(`layout is not known: ${reader.layout}`);
  const isFloat = reader.layout === layout.float;
  let [schema, zeroThreshold, count, zeroCount] = [0, 0, 0, 0];
  let hint: number = resetHint.unknown;
  let sumBits = 0n;
  let customBounds = new Float64Array(0);
  const positive: [number, number][] = [];
  const negative: [number, number][] = [];
  const countOf = (): number => {
    expectType(reader, isFloat ? fieldType.double : fieldType.uint);
    const value = isFloat ? reader.double : Number(reader.integer);
    if (isFloat ? reader.bits === 0n : reader.integer === 0n) throw defaultField(reader);
    return value;
  };
  while (reader.next()) {
    switch (reader.number) {
      case field.schema:
        expectType(reader, fieldType.int);
        if (reader.integer === 0n) throw defaultField(reader);
        schema = Number(reader.integer);
        break;
      case field.hint:
        expectType(reader, fieldType.uint);
        hint = Number(reader.integer);
        if (hint !== resetHint.reset && hint !== resetHint.gauge) {
          throw badHistogram(`hint is not one that is kept: ${hint}`);
        }
        break;
      case field.zeroThreshold:
        expectType(reader, fieldType.double);
        if (reader.double === 0) throw defaultField(reader);
        zeroThreshold = reader.double;
        break;
      case field.count:
        count = countOf();
        break;
      case field.zeroCount:
        zeroCount = countOf();
        break;
      case field.sum:
        expectType(reader, fieldType.double);
        if (reader.bits === 0n) throw defaultField(reader);
        sumBits = reader.bits;
        break;
      case field.customBounds:
        expectType(reader, fieldType.bytes);
        customBounds = boundsOf(value, reader.start, reader.end);
        break;
      default: {
        if (reader.number < field.firstBucket) {
          throw badHistogram(`field is not known: ${reader.number}`);
        }
        const { index, isNegative } = bucketOfNumber(reader.number);
        if (index > 2 ** 31 - 1 || index < -(2 ** 31)) {
          throw badHistogram(`bucket is beyond 32 bits: ${index}`);
        }
        (isNegative ? negative : positive).push([index, countOf()]);
      }
    }
  }
  const histogram: Histogram = {
    isFloat,
    schema,
    hint: hint as ResetHint,
    zeroThreshold,
    count,
    zeroCount,
    sumBits,
    customBounds,
    positive: bucketsOf(positive),
    negative: bucketsOf(negative),
  };
  if (sumBits === staleBits && !isStaleHistogram(value.subarray(at, past))) {
    throw badHistogram('is a stale marker with more than that');
  }
  checkHistogram(histogram);
  return histogram;
}

/** Custom bounds of a field; @throws {TsdbError} BAD_REQUEST */
export function boundsOf(value: Uint8Array, start: number, end: number): Float64Array<ArrayBuffer> {
  if (start === end || (end - start) % 8 !== 0) {
    throw badHistogram(`custom bounds take ${end - start} bytes`);
  }
  const view = new DataView(value.buffer, value.byteOffset + start, end - start);
  const bounds = new Float64Array((end - start) / 8);
  for (let i = 0; i < bounds.length; i++) bounds[i] = view.getFloat64(8 * i, true);
  return bounds;
}

function bucketsOf(buckets: [number, number][]): Buckets {
  buckets.sort(([a], [b]) => a - b);
  return {
    indexes: Int32Array.from(buckets, ([index]) => index),
    counts: Float64Array.from(buckets, ([, count]) => count),
  };
}

function expectType(reader: TypedValueReader, type: number): void {
  if (reader.type !== type) {
    throw badHistogram(`field ${reader.number} is of type ${reader.type}, not ${type}`);
  }
}

function defaultField(reader: TypedValueReader): Error {
  return badHistogram(`field ${reader.number} stands although it is zero`);
}

/** The sum, which for a stale marker is a NaN. */
export function sumOf({ sumBits }: Histogram): number {
  return doubleOf(sumBits);
}
