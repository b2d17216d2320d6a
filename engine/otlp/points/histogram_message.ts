/** Histograms of OTLP as messages of remote write 2, from which the write decoder makes typed values. */
import { BytesWriter } from '../../messages/bytes_writer.ts';
import { Refused } from '../labels/attributes.ts';
import { malformed, type Wire } from '../wire/wire.ts';

/** Counts beyond are refused: numbers here are exact up to 2^53, and a step between two counts takes a bit more. */
const countMax = 2 ** 52;
const customSchema = -53;
const gaugeHint = 3;
/** Of a float64 that ends a series. */
export const staleLow = 2;
export const staleHigh = 0x7ff0_0000;
/** What Prometheus takes where the sender does not say it. */
const zeroThresholdDefault = 1e-128;

/** Numbers of fields of the message, with how they are written. */
const key = {
  count: (1 << 3) | 0,
  sum: (3 << 3) | 1,
  schema: (4 << 3) | 0,
  zeroThreshold: (5 << 3) | 1,
  zeroCount: (6 << 3) | 0,
  negativeSpan: (8 << 3) | 2,
  negativeDeltas: (9 << 3) | 2,
  positiveSpan: (11 << 3) | 2,
  positiveDeltas: (12 << 3) | 2,
  hint: (14 << 3) | 0,
  timestamp: (15 << 3) | 0,
  customValues: (16 << 3) | 2,
  start: (17 << 3) | 0,
} as const;

/** What all histograms have. */
export interface HistogramFacts {
  readonly timestampMillis: number;
  /** 0 for none. */
  readonly startMillis: number;
  readonly isDelta: boolean;
  readonly isStale: boolean;
  /** Where they stand; -1 for nowhere. */
  readonly sumAt: number;
  readonly countAt: number;
}

/** Buckets in [at, end), with the number of the first one; at -1 when there are none. */
export interface Buckets {
  readonly at: number;
  readonly end: number;
  readonly offset: number;
}

export class HistogramMessage {
  readonly #out = new BytesWriter();
  readonly #list: number[] = [];

  /**
   * @returns a view until the next message
   * @throws {Refused} for counts that are too large
   */
  exponential(
    wire: Wire,
    facts: HistogramFacts,
    scale: number,
    zeroCountAt: number,
    zeroThreshold: number,
    positive: Buckets,
    negative: Buckets,
  ): Uint8Array {
    this.#begin(wire, facts);
    this.#field(key.schema, zigzag(scale));
    this.#double(key.zeroThreshold, zeroThreshold > 0 ? zeroThreshold : zeroThresholdDefault);
    if (facts.isStale) return this.#finish();
    if (zeroCountAt >= 0) this.#field(key.zeroCount, countAt(wire, zeroCountAt));
    this.#varintBuckets(wire, positive, key.positiveSpan, key.positiveDeltas);
    this.#varintBuckets(wire, negative, key.negativeSpan, key.negativeDeltas);
    return this.#finish();
  }

  /**
   * One with the bounds that it was made with.
   * @param counts and `bounds`: lists of eight bytes a number, at -1 when there is none
   */
  custom(wire: Wire, facts: HistogramFacts, counts: Buckets, bounds: Buckets): Uint8Array {
    this.#begin(wire, facts);
    this.#field(key.schema, zigzag(customSchema));
    if (bounds.at >= 0) {
      this.#field(key.customValues, bounds.end - bounds.at);
      this.#out.copy(wire.bytes, bounds.at, bounds.end);
    }
    if (facts.isStale || counts.at < 0) return this.#finish();
    const list = this.#list;
    list.length = 0;
    for (let at = counts.at; at < counts.end; at += 8) list.push(countAt(wire, at));
    this.#buckets(0, key.positiveSpan, key.positiveDeltas);
    return this.#finish();
  }

  #begin(wire: Wire, facts: HistogramFacts): void {
    this.#out.length = 0;
    this.#field(key.timestamp, facts.timestampMillis);
    if (facts.startMillis !== 0) this.#field(key.start, facts.startMillis);
    if (facts.isDelta) this.#field(key.hint, gaugeHint);
    if (facts.isStale) {
      this.#words(key.sum, staleLow, staleHigh);
      return;
    }
    if (facts.countAt >= 0) this.#field(key.count, countAt(wire, facts.countAt));
    if (facts.sumAt < 0) return;
    const { view } = wire;
    this.#words(key.sum, view.getUint32(facts.sumAt, true), view.getUint32(facts.sumAt + 4, true));
  }

  #varintBuckets(
    wire: Wire,
    { at, end, offset }: Buckets,
    spanKey: number,
    deltasKey: number,
  ): void {
    if (at < 0) return;
    const list = this.#list;
    list.length = 0;
    while (at < end) {
      const count = wire.varint(at, end);
      if (count > countMax) throw tooLarge(count);
      list.push(count);
      at = wire.at;
    }
    // Bucket i is above the base to the power of i there, and up to it here.
    this.#buckets(offset + 1, spanKey, deltasKey);
  }

  /** Those of the list, of which the first one has this number. */
  #buckets(offset: number, spanKey: number, deltasKey: number): void {
    const list = this.#list;
    if (list.length === 0) return;
    const out = this.#out;
    out.varint(spanKey);
    const spanAt = out.beginLength();
    this.#field((1 << 3) | 0, zigzag(offset));
    this.#field((2 << 3) | 0, list.length);
    out.endLength(spanAt);
    out.varint(deltasKey);
    const deltasAt = out.beginLength();
    let before = 0;
    for (const count of list) {
      out.varint(zigzag(count - before));
      before = count;
    }
    out.endLength(deltasAt);
  }

  #finish(): Uint8Array {
    return this.#out.bytes.subarray(0, this.#out.length);
  }

  #field(fieldKey: number, value: number): void {
    this.#out.varint(fieldKey);
    this.#out.varint(value);
  }

  #words(fieldKey: number, low: number, high: number): void {
    this.#out.varint(fieldKey);
    this.#out.fixed64(low, high);
  }

  #double(fieldKey: number, value: number): void {
    double[0] = value;
    this.#words(fieldKey, doubleWords[0]!, doubleWords[1]!);
  }
}

const double = new Float64Array(1);
const doubleWords = new Uint32Array(double.buffer);

function zigzag(value: number): number {
  return value < 0 ? -2 * value - 1 : 2 * value;
}

/** @throws {Refused} for one that is too large */
function countAt(wire: Wire, at: number): number {
  const count = wire.view.getUint32(at + 4, true) * 2 ** 32 + wire.view.getUint32(at, true);
  if (count > countMax) throw tooLarge(count);
  return count;
}

function tooLarge(count: number): Refused {
  return new Refused(`count: beyond 2^52: ${count}`);
}

/** Numbers of eight bytes in a field. @throws {Malformed} when they are not whole */
export function wordsIn(at: number, end: number): number {
  if ((end - at) % 8 !== 0) throw malformed();
  return (end - at) / 8;
}
