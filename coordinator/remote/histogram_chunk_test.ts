import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededNumbers } from '#engine/codec/samples_testing.ts';
import { FloatHistogram } from '#engine/histograms/float_histogram.ts';
import {
  customSchema,
  type Histogram,
  histogramOfValue,
  resetHint,
  staleBits,
  staleHistogram,
} from '#engine/typed/histogram.ts';
import { customHistogramValues, histogramValues } from '#engine/typed/samples_testing.ts';
import { histogramChunks, histogramEncoding, type HistogramChunk } from './histogram_chunk.ts';

interface ReadRow {
  readonly millis: number;
  readonly sumBits: bigint;
  readonly count: number;
  readonly zeroCount: number;
  /** Buckets that are not empty, by side and index. */
  readonly buckets: Readonly<Record<string, number>>;
}

interface ReadChunk {
  readonly flags: number;
  readonly schema: number;
  readonly zeroThreshold: number;
  readonly bounds: readonly number[];
  readonly rows: readonly ReadRow[];
}

/** A plain reader of the bits, after the format's description. */
class Bits {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  read(count: number): bigint {
    let value = 0n;
    for (let i = 0; i < count; i++, this.#at++) {
      assert.ok(this.#at >> 3 < this.#bytes.length, 'the chunk is not cut off');
      value = (value << 1n) | BigInt((this.#bytes[this.#at >> 3]! >> (7 - (this.#at & 7))) & 1);
    }
    return value;
  }

  double(): number {
    return numberOf(this.read(64));
  }

  /** How many bits follow: as many ones stand in front of them. */
  #size(): number {
    let ones = 0;
    while (ones < 8 && this.read(1) === 1n) ones++;
    return [0, 3, 6, 9, 12, 18, 25, 56, 64][ones]!;
  }

  uint(): number {
    return Number(this.read(this.#size()));
  }

  int(): number {
    const size = this.#size();
    if (size === 0) return 0;
    const value = this.read(size);
    // The largest positive number of a range is one more than in two's complement.
    const isNegative = value > 1n << BigInt(size - 1);
    return Number(isNegative ? value - (1n << BigInt(size)) : value);
  }

  get left(): number {
    return this.#bytes.length * 8 - this.#at;
  }
}

function numberOf(bits: bigint): number {
  return new Float64Array(BigUint64Array.of(bits).buffer)[0]!;
}

class Xor {
  bits = 0n;
  #leading = 0;
  #trailing = 0;

  read(from: Bits, isFirst: boolean): bigint {
    if (isFirst) this.bits = from.read(64);
    else if (from.read(1) === 1n) {
      if (from.read(1) === 1n) {
        this.#leading = Number(from.read(5));
        this.#trailing = 64 - this.#leading - (Number(from.read(6)) || 64);
      }
      const length = 64 - this.#leading - this.#trailing;
      this.bits ^= from.read(length) << BigInt(this.#trailing);
    }
    return this.bits;
  }
}

class Change {
  #value = 0;
  #difference = 0;

  add(first: number | null, change: () => number): number {
    if (first !== null) this.#value = first;
    else {
      this.#difference += change();
      this.#value += this.#difference;
    }
    return this.#value;
  }
}

function readChunk({ encoding, data }: HistogramChunk): ReadChunk {
  const bits = new Bits(data);
  const rowCount = Number(bits.read(16));
  const flags = Number(bits.read(8));
  const code = Number(bits.read(8));
  const zeroThreshold = code === 0 ? 0 : code === 255 ? bits.double() : 0.5 * 2 ** (code - 243);
  const schema = bits.int();
  const names: string[] = [];
  for (const side of ['p', 'n']) {
    let index = 0;
    for (let spans = bits.uint(); spans > 0; spans--) {
      const length = bits.uint();
      index += bits.int();
      for (let i = 0; i < length; i++) names.push(`${side}${index++}`);
    }
  }
  const bounds: number[] = [];
  if (schema === customSchema) {
    for (let left = bits.uint(); left > 0; left--) {
      const whole = bits.uint();
      bounds.push(whole === 0 ? bits.double() : (whole - 1) / 1000);
    }
  }
  const [time, count, zeroCount] = [new Change(), new Change(), new Change()];
  const [sum, countBits, zeroBits] = [new Xor(), new Xor(), new Xor()];
  const columns = names.map(() => ({ whole: new Change(), float: new Xor() }));
  const rows: ReadRow[] = [];
  for (let row = 0; row < rowCount; row++) {
    const isFirst = row === 0;
    const next = (column: Change, isSigned = true): number =>
      column.add(isFirst ? (isSigned ? bits.int() : bits.uint()) : null, () => bits.int());
    const millis = next(time);
    const isWhole = encoding === histogramEncoding;
    const counts = isWhole
      ? [next(count, false), next(zeroCount, false)]
      : [countBits, zeroBits].map((column) => numberOf(column.read(bits, isFirst)));
    const sumBits = sum.read(bits, isFirst);
    const buckets: Record<string, number> = {};
    let before = 0;
    for (const [i, { whole, float }] of columns.entries()) {
      if (isWhole && i > 0 && names[i]![0] !== names[i - 1]![0]) before = 0;
      const value = isWhole ? before + next(whole) : numberOf(float.read(bits, isFirst));
      before = value;
      if (value !== 0) buckets[names[i]!] = value;
    }
    rows.push({ millis, sumBits, count: counts[0]!, zeroCount: counts[1]!, buckets });
  }
  assert.ok(bits.left < 8, 'nothing is left over');
  return { flags, schema, zeroThreshold, bounds, rows };
}

function bucketsOf({ positive, negative }: Histogram): Record<string, number> {
  const buckets: Record<string, number> = {};
  for (const [i, index] of positive.indexes.entries()) buckets[`p${index}`] = positive.counts[i]!;
  for (const [i, index] of negative.indexes.entries()) buckets[`n${index}`] = negative.counts[i]!;
  return buckets;
}

function isReset(before: Histogram, next: Histogram): boolean {
  return FloatHistogram.ofValue(next).isResetAfter(FloatHistogram.ofValue(before));
}

/** What a series goes through. */
function valuesOf(numbers: SeededNumbers): Uint8Array[] {
  const values: Uint8Array[] = [];
  for (let parts = 1 + numbers.below(4); parts > 0; parts--) {
    const count = 1 + numbers.below(140);
    const shape = { perRow: 1 + numbers.below(100), schema: numbers.below(8) - 2 };
    const kind = numbers.below(6);
    if (kind === 0) values.push(...customHistogramValues(numbers, count));
    else if (kind === 1) values.push(staleHistogram);
    else if (kind === 2)
      values.push(...histogramValues(numbers, count, { ...shape, isGauge: true }));
    else if (kind === 3)
      values.push(...histogramValues(numbers, count, { ...shape, scale: 1 / 3 }));
    else values.push(...histogramValues(numbers, count, shape));
  }
  return values;
}

test('chunks of histograms are read back to the last bit', () => {
  const numbers = new SeededNumbers(91);
  for (let series = 0; series < 40; series++) {
    let millis = 1_700_000_000_000 + numbers.below(1000);
    const all = valuesOf(numbers).map((value) => {
      millis += 15_000 + (numbers.below(4) === 0 ? numbers.below(50) : 0);
      return { millis, histogram: histogramOfValue(value) };
    });
    let at = 0;
    for (const chunk of histogramChunks(all)) {
      const { flags, schema, zeroThreshold, bounds, rows } = readChunk(chunk);
      const { histogram: head } = all[at]!;
      assert.equal(rows.length, chunk.rows.length);
      assert.deepEqual([schema, zeroThreshold], [head.schema, head.zeroThreshold]);
      assert.deepEqual(bounds, [...head.customBounds]);
      const before = all[at - 1]?.histogram;
      const isKnown = before !== undefined && before.sumBits !== staleBits;
      const wasReset = head.hint === resetHint.reset || (isKnown && isReset(before, head));
      const isMarker = head.sumBits === staleBits;
      const wanted = head.hint === resetHint.gauge ? 0xc0 : wasReset && !isMarker ? 0x80 : 0;
      assert.equal(flags, wanted);
      for (const [i, row] of rows.entries()) {
        const { millis: time, histogram } = all[at++]!;
        const { sumBits, count, zeroCount } = histogram;
        const buckets = bucketsOf(histogram);
        assert.deepEqual(row, { millis: time, sumBits, count, zeroCount, buckets });
        // Readers take rows after the first one for a counter that goes on.
        if (i > 0 && histogram.hint !== resetHint.gauge) {
          assert.equal(isReset(all[at - 2]!.histogram, histogram), false);
        }
      }
    }
    assert.equal(at, all.length);
  }
});
