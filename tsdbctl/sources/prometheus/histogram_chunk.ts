/**
 * Chunks of native histograms, of whole counts or of floats: two bytes of row count (big-endian), one whose two highest bits say
 * what the counter did before the first row, then bits:
 *
 *     layout   zero threshold: 0, the exponent of a power of two + 243, or 255 and 64 bits; schema; spans of either side,
 *              each with their length and their distance from the end of those before; for custom buckets their bounds
 *     row 0    timestamp, count, zero count, sum, buckets; whole counts as differences of neighbours
 *     row n    change of the distance in time; of whole counts the change of each difference, of others the XOR
 *
 * The row of a stale marker ends after its sum, but for row 0.
 */
import {
  type Buckets,
  customSchema,
  type Histogram,
  type ResetHint,
  resetHint,
  schemaMax,
  schemaMin,
  staleBits,
} from '#engine/typed/histogram.ts';
import { BitReader, bitsOfXor, type XorColumn, xorColumn } from './bits.ts';
import type { Damage } from './damage.ts';
import { type HistogramRows, millisMax } from './rows.ts';

/** Values of the two highest bits; the two others, 0 and 1, say nothing that is kept. */
const header = { reset: 2, gauge: 3 } as const;
const indexMax = 2 ** 31 - 1;
/** Of one side of a chunk; those of the finest schema for all numbers are half as many. */
const bucketsMax = 1 << 20;
const noBuckets: Buckets = { indexes: new Int32Array(0), counts: new Float64Array(0) };

const staleMarker: Histogram = {
  isFloat: false,
  schema: 0,
  hint: resetHint.unknown,
  zeroThreshold: 0,
  count: 0,
  zeroCount: 0,
  sumBits: staleBits,
  customBounds: new Float64Array(0),
  positive: noBuckets,
  negative: noBuckets,
};

interface Layout {
  readonly zeroThreshold: number;
  readonly schema: number;
  /** Indexes of the buckets that rows have. */
  readonly positive: Int32Array;
  readonly negative: Int32Array;
  readonly customBounds: Float64Array;
}

/** Counts of a row. */
interface Counts {
  /** @returns the bits of the sum; buckets are not read when it is that of a stale marker in a later row */
  next(isFirst: boolean): bigint;
  readonly count: number;
  readonly zeroCount: number;
  /** Of both sides, one after the other; with another row's later. */
  readonly buckets: Float64Array;
}

/**
 * @param data of a chunk, without its encoding
 * @param damage makes the error for a place in `data`
 * @throws {TsdbError} BAD_REQUEST
 */
export function histogramRows(data: Uint8Array, isFloat: boolean, damage: Damage): HistogramRows {
  const bits = new BitReader(data, damage);
  const rowCount = bits.read(16);
  const flags = bits.read(8) >> 6;
  bits.checkEnd();
  if (rowCount === 0) throw bits.fail('chunk has no rows');
  const layout = readLayout(bits);
  // A row takes four bits at least.
  if (rowCount > bits.left / 4) throw bits.fail(`chunk is too short for its ${rowCount} rows:`);
  const counts = isFloat ? new FloatCounts(bits, layout) : new WholeCounts(bits, layout);
  const millis = new Float64Array(rowCount);
  const histograms: Histogram[] = [];
  let time = 0;
  let delta = 0;
  for (let row = 0; row < rowCount; row++) {
    const change = bits.varbitNumber();
    if (row === 0) time = change;
    else {
      delta += change;
      if (!(delta > 0)) throw bits.fail('times do not ascend');
      time += delta;
    }
    if (!(Math.abs(time) <= millisMax)) throw bits.fail(`time is out of range: ${time} ms`);
    const sumBits = counts.next(row === 0);
    bits.checkEnd();
    millis[row] = time;
    const hint = hintOf(flags, row);
    histograms.push(
      sumBits === staleBits ? staleMarker : histogramOf(layout, counts, { isFloat, hint, sumBits }),
    );
  }
  return { kind: 'histograms', millis, histograms };
}

function hintOf(flags: number, row: number): ResetHint {
  if (flags === header.gauge) return resetHint.gauge;
  return flags === header.reset && row === 0 ? resetHint.reset : resetHint.unknown;
}

function readLayout(bits: BitReader): Layout {
  const code = bits.read(8);
  let zeroThreshold = code === 0 ? 0 : 2 ** (code - 244);
  if (code === 255) zeroThreshold = bits.double();
  const schema = bits.varbitNumber();
  bits.checkEnd();
  const isCustom = schema === customSchema;
  if (!isCustom && (schema < schemaMin || schema > schemaMax)) {
    throw bits.fail(`schema of histograms is not known: ${schema}`);
  }
  const positive = readIndexes(bits);
  const negative = readIndexes(bits);
  const customBounds = isCustom ? readBounds(bits) : new Float64Array(0);
  return { zeroThreshold, schema, positive, negative, customBounds };
}

/** Each of a list takes a bit at least. @throws {TsdbError} BAD_REQUEST when so many bits are not left */
function readLength(bits: BitReader, what: string): number {
  const length = Number(bits.varbitUint());
  bits.checkEnd();
  if (length > bits.left) throw bits.fail(`chunk is too short for ${length} ${what}:`);
  return length;
}

function readIndexes(bits: BitReader): Int32Array {
  const indexes: number[] = [];
  let index = 0;
  for (let spans = readLength(bits, 'spans'); spans > 0; spans--) {
    const length = readLength(bits, 'buckets');
    const distance = bits.varbitNumber();
    bits.checkEnd();
    if (indexes.length > 0 && distance < 0) throw bits.fail('buckets do not ascend');
    index += distance;
    if (length > bucketsMax - indexes.length) throw bits.fail(`more than ${bucketsMax} buckets`);
    if (Math.abs(index) > indexMax || index + length > indexMax) {
      throw bits.fail(`buckets are beyond 32 bits, from ${index} on:`);
    }
    for (let i = 0; i < length; i++) indexes.push(index++);
  }
  return Int32Array.from(indexes);
}

function readBounds(bits: BitReader): Float64Array {
  const bounds = new Float64Array(readLength(bits, 'bounds'));
  for (let i = 0; i < bounds.length; i++) {
    const thousandths = bits.varbitUint();
    bounds[i] = thousandths === 0n ? bits.double() : Number(thousandths - 1n) / 1000;
    bits.checkEnd();
  }
  return bounds;
}

function histogramOf(
  { schema, zeroThreshold, customBounds, positive, negative }: Layout,
  { count, zeroCount, buckets }: Counts,
  { isFloat, hint, sumBits }: Pick<Histogram, 'isFloat' | 'hint' | 'sumBits'>,
): Histogram {
  return {
    isFloat,
    schema,
    hint,
    zeroThreshold,
    count,
    zeroCount,
    sumBits,
    customBounds,
    positive: bucketsOf(positive, buckets, 0),
    negative: bucketsOf(negative, buckets, positive.length),
  };
}

/** Those that are not empty. */
function bucketsOf(indexes: Int32Array, counts: Float64Array, first: number): Buckets {
  let size = 0;
  for (let i = 0; i < indexes.length; i++) if (counts[first + i] !== 0) size++;
  if (size === 0) return noBuckets;
  const own = { indexes: new Int32Array(size), counts: new Float64Array(size) };
  for (let i = 0, at = 0; i < indexes.length; i++) {
    const count = counts[first + i]!;
    if (count === 0) continue;
    own.indexes[at] = indexes[i]!;
    own.counts[at++] = count;
  }
  return own;
}

class FloatCounts implements Counts {
  readonly #bits: BitReader;
  readonly #columns: readonly XorColumn[];
  readonly #numbers: Float64Array;
  readonly #words: Int32Array;
  readonly buckets: Float64Array;

  constructor(bits: BitReader, { positive, negative }: Layout) {
    const size = 3 + positive.length + negative.length;
    this.#bits = bits;
    this.#columns = Array.from({ length: size }, xorColumn);
    this.#numbers = new Float64Array(size);
    this.#words = new Int32Array(this.#numbers.buffer);
    this.buckets = this.#numbers.subarray(3);
  }

  get count(): number {
    return this.#numbers[0]!;
  }

  get zeroCount(): number {
    return this.#numbers[1]!;
  }

  next(isFirst: boolean): bigint {
    for (const [i, column] of this.#columns.entries()) {
      if (isFirst) this.#bits.firstXor(column);
      else this.#bits.nextXor(column);
      this.#bits.checkEnd();
      this.#words[2 * i] = column.low;
      this.#words[2 * i + 1] = column.high;
      if (i === 2 && !isFirst && bitsOfXor(column) === staleBits) break;
    }
    return bitsOfXor(this.#columns[2]!);
  }
}

/** Differences are of 64 bits, beyond what is exact as a number. */
class WholeCounts implements Counts {
  readonly #bits: BitReader;
  readonly #sum = xorColumn();
  /** Count, zero count, and of each bucket how much more it has than the one before it. */
  readonly #values: BigInt64Array;
  /** How much more they were than those of the row before. */
  readonly #growths: BigInt64Array;
  readonly #positiveEnd: number;
  readonly buckets: Float64Array;

  constructor(bits: BitReader, { positive, negative }: Layout) {
    const size = positive.length + negative.length;
    this.#bits = bits;
    this.#values = new BigInt64Array(2 + size);
    this.#growths = new BigInt64Array(2 + size);
    this.#positiveEnd = positive.length;
    this.buckets = new Float64Array(size);
  }

  get count(): number {
    return Number(BigInt.asUintN(64, this.#values[0]!));
  }

  get zeroCount(): number {
    return Number(BigInt.asUintN(64, this.#values[1]!));
  }

  next(isFirst: boolean): bigint {
    const bits = this.#bits;
    if (isFirst) {
      this.#values[0] = bits.varbitUint();
      this.#values[1] = bits.varbitUint();
      bits.firstXor(this.#sum);
    } else {
      this.#grow(0);
      this.#grow(1);
      bits.nextXor(this.#sum);
    }
    bits.checkEnd();
    const sumBits = bitsOfXor(this.#sum);
    if (!isFirst && sumBits === staleBits) return sumBits;
    let running = 0n;
    for (let i = 0; i < this.buckets.length; i++) {
      if (isFirst) this.#values[2 + i] = bits.varbitInt();
      else this.#grow(2 + i);
      bits.checkEnd();
      if (i === this.#positiveEnd) running = 0n;
      running += this.#values[2 + i]!;
      if (running < 0n) throw bits.fail(`bucket has a negative count: ${running}`);
      this.buckets[i] = Number(running);
    }
    return sumBits;
  }

  #grow(column: number): void {
    this.#growths[column]! += this.#bits.varbitInt();
    this.#values[column]! += this.#growths[column]!;
  }
}
