/** Native histograms as messages of remote read, the form in which remote write has them, too. */
import { customSchema, type Histogram } from '../typed/histogram.ts';
import { MessageWriter } from './message_writer.ts';

/** Numbers of the fields; those of floats follow those of whole counts. */
const field = {
  count: 1,
  sum: 3,
  schema: 4,
  zeroThreshold: 5,
  zeroCount: 6,
  negativeSpans: 8,
  negativeDeltas: 9,
  negativeCounts: 10,
  positiveSpans: 11,
  positiveDeltas: 12,
  positiveCounts: 13,
  resetHint: 14,
  timestamp: 15,
  customBounds: 16,
} as const;

/** A message of its own, at a time in Unix milliseconds. Borrowed until the next call. */
export class HistogramMessages {
  readonly #message = new MessageWriter(1 << 10);
  readonly #part = new MessageWriter(1 << 9);

  of(histogram: Histogram, millis: number): Uint8Array {
    const message = this.#message;
    const { isFloat, schema, zeroThreshold, count, zeroCount, sumBits, customBounds } = histogram;
    message.clear();
    this.#count(field.count, count, isFloat);
    this.#double(field.sum, sumBits);
    if (schema !== 0) message.int64Field(field.schema, zigzag(schema));
    if (zeroThreshold !== 0) this.#double(field.zeroThreshold, bitsOf(zeroThreshold));
    this.#count(field.zeroCount, zeroCount, isFloat);
    this.#side(field.negativeSpans, histogram.negative, isFloat);
    this.#side(field.positiveSpans, histogram.positive, isFloat);
    if (histogram.hint !== 0) message.int64Field(field.resetHint, histogram.hint);
    if (millis !== 0) message.int64Field(field.timestamp, millis);
    if (schema === customSchema && customBounds.length > 0) {
      message.bytesField(field.customBounds, doublesOf(customBounds));
    }
    return message.finish();
  }

  #double(number: number, bits: bigint): void {
    this.#message.doubleField(number, Number(bits & 0xffff_ffffn), Number(bits >> 32n));
  }

  /** One of two fields, also when it is 0: it says of which kind the counts are. */
  #count(number: number, count: number, isFloat: boolean): void {
    if (isFloat) this.#double(number + 1, bitsOf(count));
    else this.#message.uvarintField(number, BigInt(count));
  }

  /** @param first number of the field of its spans */
  #side(first: number, { indexes, counts }: Histogram['positive'], isFloat: boolean): void {
    const part = this.#part;
    for (const { offset, length } of spansOf(indexes)) {
      part.clear();
      if (offset !== 0) part.int64Field(1, zigzag(offset));
      part.int64Field(2, length);
      this.#message.bytesField(first, part.finish());
    }
    if (counts.length === 0) return;
    if (isFloat) {
      this.#message.bytesField(first + 2, doublesOf(counts));
      return;
    }
    part.clear();
    let before = 0n;
    for (const count of counts) {
      const whole = BigInt(count);
      const delta = whole - before;
      part.uvarintBig(delta >= 0n ? 2n * delta : -2n * delta - 1n);
      before = whole;
    }
    this.#message.bytesField(first + 1, part.finish());
  }
}

const bitsOf = (value: number): bigint => new BigUint64Array(Float64Array.of(value).buffer)[0]!;

const zigzag = (value: number): number => (value >= 0 ? 2 * value : -2 * value - 1);

function doublesOf(values: Float64Array): Uint8Array {
  return new Uint8Array(values.slice().buffer);
}

/** Buckets that follow each other: how many, and how far from the end of those before. */
export function spansOf(indexes: Int32Array): { offset: number; length: number }[] {
  const spans: { offset: number; length: number }[] = [];
  let past = 0;
  for (const [i, index] of indexes.entries()) {
    if (i > 0 && index === past) spans.at(-1)!.length += 1;
    else spans.push({ offset: index - past, length: 1 });
    past = index + 1;
  }
  return spans;
}
