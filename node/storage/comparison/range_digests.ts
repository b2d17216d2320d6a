/**
 * What the rows of one block of a shard add up to, by ranges of series: replicas that differ find
 * out in which of them. A series is in the range that the first bits of the hash of its ID name, so
 * two ranges of twice as many are one of these.
 */
import type { SeriesDigest } from '#engine/store/row_digest.ts';
import { assert } from '#lib/assert.ts';

/** Of one block: a mebibyte. */
export const rangeBitsMax = 16;
/** Series of a range, about. */
const seriesOfRange = 64;

/** Bits of the ranges for so many series. */
export function rangeBitsFor(seriesCount: number): number {
  const bits = Math.ceil(Math.log2(Math.max(seriesCount / seriesOfRange, 1)));
  return Math.min(bits, rangeBitsMax);
}

/** Range of a series. @param idHash of `SeriesDigest` */
export function rangeOf(idHash: number, rangeBits: number): number {
  return rangeBits === 0 ? 0 : idHash >>> (32 - rangeBits);
}

export class RangeDigests {
  readonly rangeBits: number;
  /** Two for each range, modulo 2^64. */
  readonly sums: BigUint64Array;

  constructor(rangeBits: number, sums: BigUint64Array = new BigUint64Array(2 * 2 ** rangeBits)) {
    assert(sums.length === 2 * 2 ** rangeBits, 'a range has two sums');
    this.rangeBits = rangeBits;
    this.sums = sums;
  }

  get memoryBytes(): number {
    return this.sums.byteLength + 100;
  }

  add({ idHash, low, high }: SeriesDigest): void {
    const at = 2 * rangeOf(idHash, this.rangeBits);
    this.sums[at]! += low;
    this.sums[at + 1]! += high;
  }

  remove({ idHash, low, high }: SeriesDigest): void {
    const at = 2 * rangeOf(idHash, this.rangeBits);
    this.sums[at]! -= low;
    this.sums[at + 1]! -= high;
  }

  copy(): RangeDigests {
    return new RangeDigests(this.rangeBits, this.sums.slice());
  }

  /** The same in fewer ranges. */
  folded(rangeBits: number): RangeDigests {
    assert(rangeBits <= this.rangeBits, 'ranges are only joined');
    if (rangeBits === this.rangeBits) return this;
    const fewer = new RangeDigests(rangeBits);
    const apart = this.rangeBits - rangeBits;
    for (let range = 0; range < 2 ** this.rangeBits; range += 1) {
      const to = 2 * (range >>> apart);
      fewer.sums[to]! += this.sums[2 * range]!;
      fewer.sums[to + 1]! += this.sums[2 * range + 1]!;
    }
    return fewer;
  }

  /** Two sums over all ranges. */
  root(): BigUint64Array {
    return this.folded(0).sums;
  }

  /** The first sum of each range: enough to tell which of them differ. */
  lowSums(): BigUint64Array {
    return this.sums.filter((_, at) => at % 2 === 0);
  }

  /** Ranges of which another replica has other low sums; ascending. */
  differing(lowSums: BigUint64Array): number[] {
    const own = this.lowSums();
    assert(own.length === lowSums.length, 'equal ranges are compared');
    const ranges: number[] = [];
    own.forEach((sum, range) => {
      if (sum !== lowSums[range]) ranges.push(range);
    });
    return ranges;
  }
}
