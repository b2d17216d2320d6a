/**
 * Times of an M3TSZ stream. The first one is 64 bits of nanoseconds, and what is added to it comes as
 * for all others: the change of the step since the last one, in units of time, in 1, 9, 12 or 16
 * bits, or in 36 or 68. A marker, which begins as no change does, may stand before it: an annotation,
 * another unit, or the end. After a new unit the change is 64 bits of nanoseconds, and the step begins
 * at 0 anew.
 */
import { badRequest } from '#lib/errors.ts';
import type { BitReader } from './bits.ts';

const two32 = 2 ** 32;

const markerBits = 11;
const markerPrefix = 0x100;
const endMarker = 0;
const annotationMarker = 1;
const unitMarker = 2;

/** Of those units that have an encoding, by their number in the stream. */
const units: readonly (Unit | null)[] = [
  null,
  { nanos: 1_000_000_000, widest: 32 },
  { nanos: 1_000_000, widest: 32 },
  { nanos: 1_000, widest: 64 },
  { nanos: 1, widest: 64 },
];
const firstUnit = 1;

interface Unit {
  readonly nanos: number;
  /** Bits of a change that fits in none of the narrow widths. */
  readonly widest: 32 | 64;
}

const narrowWidths = [7, 9, 12] as const;

/** Seven bits a byte; lengths of annotations have fewer. */
const varintBytesMax = 5;

/** 64-bit numbers are pairs of 32 bits here, as both halves wrap like those of M3. */
export class TimeReader {
  readonly #bits: BitReader;
  #begun = false;
  #unitNumber = 0;
  #unit: Unit | null = null;
  #unitChanged = false;
  #stepHigh = 0;
  #stepLow = 0;
  /** Of the time that was read last; signed, all of them. */
  high = 0;
  low = 0;
  /** Whether the last time was after the one before. */
  ascends = false;

  constructor(bits: BitReader) {
    this.#bits = bits;
  }

  /**
   * Reads the next time.
   * @returns false when the stream is at its end
   * @throws {TsdbError} BAD_REQUEST when it is damaged
   */
  next(): boolean {
    if (!this.#begun) this.#begin();
    if (!this.#readMarkers()) return false;
    const unitChanged = this.#unitChanged;
    if (unitChanged) this.#addToStep(this.#bits.read(32), this.#bits.read(32));
    else this.#readChange();
    const low = (this.low >>> 0) + (this.#stepLow >>> 0);
    this.low = low | 0;
    this.high = (this.high + this.#stepHigh + (low >= two32 ? 1 : 0)) | 0;
    this.ascends = this.#stepHigh > 0 || (this.#stepHigh === 0 && this.#stepLow !== 0);
    if (unitChanged) {
      this.#unitChanged = false;
      this.#stepHigh = 0;
      this.#stepLow = 0;
    }
    return true;
  }

  #begin(): void {
    const bits = this.#bits;
    this.#begun = true;
    this.high = bits.read(32) | 0;
    this.low = bits.read(32) | 0;
    const nanos = (BigInt(this.high) << 32n) | BigInt(this.low >>> 0);
    // Other first times are followed by a marker with their unit.
    if (nanos % BigInt(units[firstUnit]!.nanos) === 0n) {
      this.#unitNumber = firstUnit;
      this.#unit = units[firstUnit]!;
    }
  }

  /** @returns false at the end */
  #readMarkers(): boolean {
    const bits = this.#bits;
    while (bits.left >= markerBits) {
      const next = bits.peek(markerBits);
      if (next >>> 2 !== markerPrefix) return true;
      const marker = next & 3;
      if (marker > unitMarker) return true;
      bits.skip(markerBits);
      if (marker === endMarker) return false;
      if (marker === annotationMarker) this.#skipAnnotation();
      else this.#readUnit();
    }
    return true;
  }

  #skipAnnotation(): void {
    const bits = this.#bits;
    let zigzag = 0;
    for (let byte = 0; ; byte += 1) {
      if (byte === varintBytesMax) throw badRequest('length of an annotation is damaged');
      const next = bits.read(8);
      zigzag += (next & 127) * 2 ** (7 * byte);
      if (next < 128) break;
    }
    // One less than the bytes is written; odd ones are negative.
    const length = zigzag / 2 + 1;
    if (zigzag % 2 !== 0 || length > bits.left / 8) {
      throw badRequest('length of an annotation is damaged');
    }
    bits.skip(length * 8);
  }

  #readUnit(): void {
    const unitNumber = this.#bits.read(8);
    const unit = units[unitNumber] ?? null;
    // M3 writes no times in its longer units that it could read itself.
    if (unit === null) throw badRequest(`unit of time has no encoding: ${unitNumber}`);
    if (unitNumber === this.#unitNumber) return;
    this.#unitNumber = unitNumber;
    this.#unit = unit;
    this.#unitChanged = true;
  }

  /** Changes the step by units. */
  #readChange(): void {
    const bits = this.#bits;
    const unit = this.#unit;
    if (unit === null) throw badRequest('first time is no whole second and has no unit');
    if (bits.read(1) === 0) return;
    for (const width of narrowWidths) {
      if (bits.read(1) !== 0) continue;
      const shift = 32 - width;
      this.#addProduct((bits.read(width) << shift) >> shift, unit.nanos);
      return;
    }
    const high = bits.read(32);
    if (unit.widest === 32) {
      this.#addProduct(high | 0, unit.nanos);
      return;
    }
    // Units of 64 bits are at most a thousand nanoseconds, so that this is exact.
    const product = bits.read(32) * unit.nanos;
    const carried = Math.floor(product / two32);
    this.#addToStep(Math.imul(high, unit.nanos) + carried, product - carried * two32);
  }

  /** Both are powers of two times numbers so small that the product is exact. */
  #addProduct(change: number, nanos: number): void {
    const product = change * nanos;
    const high = Math.floor(product / two32);
    this.#addToStep(high, product - high * two32);
  }

  #addToStep(high: number, low: number): void {
    const sum = (this.#stepLow >>> 0) + (low >>> 0);
    this.#stepLow = sum | 0;
    this.#stepHigh = (this.#stepHigh + high + (sum >= two32 ? 1 : 0)) | 0;
  }
}
