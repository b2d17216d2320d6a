/**
 * Chunks of native histograms that Prometheus reads in streamed remote-read answers, of whole counts or of floats: two bytes
 * of row count (big-endian), one whose two highest bits say what the counter did before the first row, then bits:
 *
 *     layout   zero threshold: 0, the exponent of a power of two + 243, or 255 and 64 bits; schema; spans of either side,
 *              each with their number, length and offset; for custom buckets their bounds
 *     row 0    timestamp, count, zero count, sum, buckets; whole counts as differences of neighbours
 *     row n    change of the distance in time; of whole counts the change of each difference, of others the XOR
 *
 * Numbers are varbits (bit_writer.ts). All rows of a chunk have one layout, so rows with other buckets have empty ones.
 */
import { spansOf } from '#engine/prometheus_messages/histogram_message.ts';
import { FloatHistogram, counterHint } from '#engine/histograms/float_histogram.ts';
import { sameBounds } from '#engine/histograms/bounds.ts';
import { unionOf } from '#engine/histograms/buckets.ts';
import { customSchema, type Histogram, resetHint, staleBits } from '#engine/typed/histogram.ts';
import { BitWriter, XorColumn } from './bit_writer.ts';

export interface TimedHistogram {
  /** Unix milliseconds. */
  readonly millis: number;
  readonly histogram: Histogram;
}

export const histogramEncoding = 2;
export const floatHistogramEncoding = 3;

/** Rows of one chunk. */
const rowsMax = 120;
/** Whole numbers from here on are sent as floats: their differences would not be exact. */
const wholeMax = 2 ** 52;
/** A chunk may have so many empty buckets a row, and as many as are not empty. */
const emptyMin = 64;

export interface HistogramChunk {
  readonly encoding: typeof histogramEncoding | typeof floatHistogramEncoding;
  readonly rows: readonly TimedHistogram[];
  readonly data: Uint8Array;
}

/** What the highest bits of a chunk's third byte say. */
const header = { unknown: 0, reset: 0x80, gauge: 0xc0 } as const;

/** Chunks of histograms in ascending time. */
export function* histogramChunks(all: readonly TimedHistogram[]): Generator<HistogramChunk> {
  for (let first = 0, past = 0; first < all.length; first = past) {
    const head = all[first]!.histogram;
    let layout = { positive: head.positive.indexes, negative: head.negative.indexes };
    for (past = first + 1; past < all.length && past - first < rowsMax; past++) {
      const next = all[past]!.histogram;
      if (!isOfOneChunk(head, all[past - 1]!.histogram, next)) break;
      const wider = {
        positive: unionOf(layout.positive, next.positive.indexes),
        negative: unionOf(layout.negative, next.negative.indexes),
      };
      const own = next.positive.indexes.length + next.negative.indexes.length;
      if (wider.positive.length + wider.negative.length > 2 * own + emptyMin) break;
      layout = wider;
    }
    const rows = all.slice(first, past);
    const isReset = first > 0 && isResetBetween(all[first - 1]!.histogram, head);
    yield chunkOf(rows, layout, isReset);
  }
}

const isStale = ({ sumBits }: Histogram): boolean => sumBits === staleBits;

function isFloat(histogram: Histogram): boolean {
  return histogram.isFloat || histogram.count >= wholeMax;
}

/** Within a chunk a counter is not reset; a marker that ends the series is alone. */
function isOfOneChunk(head: Histogram, before: Histogram, next: Histogram): boolean {
  return (
    !isStale(before) &&
    !isStale(next) &&
    isFloat(head) === isFloat(next) &&
    head.schema === next.schema &&
    head.zeroThreshold === next.zeroThreshold &&
    sameBounds(head.customBounds, next.customBounds) &&
    (head.hint === resetHint.gauge) === (next.hint === resetHint.gauge) &&
    (next.hint === resetHint.gauge || !isResetBetween(before, next))
  );
}

function isResetBetween(before: Histogram, next: Histogram): boolean {
  if (isStale(before) || isStale(next) || next.hint === resetHint.gauge) return false;
  return FloatHistogram.ofValue(next).isResetAfter(FloatHistogram.ofValue(before));
}

interface Layout {
  readonly positive: Int32Array;
  readonly negative: Int32Array;
}

function chunkOf(
  rows: readonly TimedHistogram[],
  layout: Layout,
  isReset: boolean,
): HistogramChunk {
  const head = rows[0]!.histogram;
  const bits = new BitWriter(64 + rows.length * 16);
  bits.write(rows.length, 16);
  let flags: number = isReset || head.hint === counterHint.reset ? header.reset : header.unknown;
  if (head.hint === resetHint.gauge) flags = header.gauge;
  bits.write(flags, 8);
  writeLayout(bits, head, layout);
  const ofFloats = isFloat(head);
  if (ofFloats) writeFloats(bits, rows, layout);
  else writeWholes(bits, rows, layout);
  const encoding = ofFloats ? floatHistogramEncoding : histogramEncoding;
  return { encoding, rows, data: bits.finish() };
}

function writeLayout(bits: BitWriter, head: Histogram, { positive, negative }: Layout): void {
  writeZeroThreshold(bits, head.zeroThreshold);
  bits.varbitInt(head.schema);
  for (const indexes of [positive, negative]) {
    const spans = spansOf(indexes);
    bits.varbitUint(spans.length);
    for (const { offset, length } of spans) {
      bits.varbitUint(length);
      bits.varbitInt(offset);
    }
  }
  if (head.schema !== customSchema) return;
  bits.varbitUint(head.customBounds.length);
  for (const bound of head.customBounds) writeBound(bits, bound);
}

const bitsOf = (value: number): bigint => new BigUint64Array(Float64Array.of(value).buffer)[0]!;

function writeZeroThreshold(bits: BitWriter, threshold: number): void {
  if (threshold === 0) {
    bits.write(0, 8);
    return;
  }
  const power = Math.log2(threshold);
  // As the fraction 0.5 and an exponent one higher.
  const exponent = power + 1;
  if (Number.isInteger(power) && 2 ** power === threshold && exponent >= -242 && exponent <= 11) {
    bits.write(exponent + 243, 8);
    return;
  }
  bits.write(255, 8);
  bits.writeBig(bitsOf(threshold), 64);
}

/** Multiples of 0.001 up to 33554.43 as whole numbers. */
function writeBound(bits: BitWriter, bound: number): void {
  const thousandths = bound * 1000;
  const whole = Math.round(thousandths);
  if (thousandths < 0 || thousandths > 33_554_430 || whole / 1000 !== bound) {
    bits.write(0, 1);
    bits.writeBig(bitsOf(bound), 64);
    return;
  }
  bits.varbitUint(whole + 1);
}

/** Counts in the buckets of a layout that has all of theirs. */
function countsIn(layout: Int32Array, { indexes, counts }: Histogram['positive']): Float64Array {
  const all = new Float64Array(layout.length);
  for (let i = 0, at = 0; i < indexes.length; i++, at++) {
    while (layout[at] !== indexes[i]) at++;
    all[at] = counts[i]!;
  }
  return all;
}

function writeFloats(bits: BitWriter, rows: readonly TimedHistogram[], layout: Layout): void {
  const { positive, negative } = layout;
  const columns = Array.from(
    { length: 3 + positive.length + negative.length },
    () => new XorColumn(),
  );
  const numbers = new Float64Array(columns.length);
  const words = new Uint32Array(numbers.buffer);
  const wholes = new BigUint64Array(numbers.buffer);
  const times = new Differences();
  for (const [row, { millis, histogram }] of rows.entries()) {
    numbers[0] = histogram.count;
    numbers[1] = histogram.zeroCount;
    wholes[2] = histogram.sumBits;
    numbers.set(countsIn(positive, histogram.positive), 3);
    numbers.set(countsIn(negative, histogram.negative), 3 + positive.length);
    bits.varbitInt(row === 0 ? times.first(millis) : times.next(millis));
    for (const [i, column] of columns.entries()) {
      const [low, high] = [words[2 * i]!, words[2 * i + 1]!];
      if (row === 0) column.first(bits, low, high);
      else column.next(bits, low, high);
    }
  }
}

function writeWholes(bits: BitWriter, rows: readonly TimedHistogram[], layout: Layout): void {
  const { positive, negative } = layout;
  const sum = new XorColumn();
  const [times, counts, zeroCounts] = [new Differences(), new Differences(), new Differences()];
  const buckets = Array.from(
    { length: positive.length + negative.length },
    () => new Differences(),
  );
  for (const [row, { millis, histogram }] of rows.entries()) {
    const { count, zeroCount, sumBits } = histogram;
    const [low, high] = [Number(sumBits & 0xffff_ffffn), Number(sumBits >> 32n)];
    if (row === 0) {
      bits.varbitInt(times.first(millis));
      bits.varbitUint(counts.first(count));
      bits.varbitUint(zeroCounts.first(zeroCount));
      sum.first(bits, low, high);
    } else {
      bits.varbitInt(times.next(millis));
      bits.varbitInt(counts.next(count));
      bits.varbitInt(zeroCounts.next(zeroCount));
      sum.next(bits, low, high);
    }
    let at = 0;
    for (const [indexes, side] of [
      [positive, histogram.positive],
      [negative, histogram.negative],
    ] as const) {
      let before = 0;
      for (const each of countsIn(indexes, side)) {
        const column = buckets[at++]!;
        bits.varbitInt(row === 0 ? column.first(each - before) : column.next(each - before));
        before = each;
      }
    }
  }
}

/** Numbers of which each is written by how its difference from the one before has changed. */
class Differences {
  #value = 0;
  #difference = 0;

  first(value: number): number {
    this.#value = value;
    return value;
  }

  next(value: number): number {
    const difference = value - this.#value;
    const change = difference - this.#difference;
    this.#value = value;
    this.#difference = difference;
    return change;
  }
}
