/** Whole numbers as Go's varints: seven bits a byte, the lowest first; signed ones in zigzag. */
import type { Damage } from './damage.ts';

/** So many bytes hold a number that is exact. */
const exactBytes = 7;
const bytesMax = 10;

export class Varints {
  readonly bytes: Uint8Array;
  readonly #end: number;
  readonly #damage: Damage;
  at: number;

  /** @param damage makes the error for a place in `bytes` */
  constructor(bytes: Uint8Array, start: number, end: number, damage: Damage) {
    this.bytes = bytes;
    this.at = start;
    this.#end = end;
    this.#damage = damage;
  }

  get left(): number {
    return this.#end - this.at;
  }

  /** From 0 to 2^53 - 1. @throws {TsdbError} BAD_REQUEST, as all do */
  unsigned(): number {
    const start = this.at;
    for (let value = 0, scale = 1, i = 0; i < exactBytes; i++, scale *= 128) {
      const byte = this.#byte();
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
    this.at = start;
    return this.#exact(this.#big(), start);
  }

  /** Of which the magnitude is below 2^53. */
  signed(): number {
    const start = this.at;
    const zigzag = this.#big();
    return this.#exact(zigzag & 1n ? -(zigzag >> 1n) - 1n : zigzag >> 1n, start);
  }

  /** Written as an unsigned number of 64 bits although it may be negative. */
  wrapped(): number {
    const start = this.at;
    return this.#exact(BigInt.asIntN(64, this.#big()), start);
  }

  /** Any of 64 bits. */
  signedBig(): bigint {
    const zigzag = this.#big();
    return zigzag & 1n ? -(zigzag >> 1n) - 1n : zigzag >> 1n;
  }

  #byte(): number {
    if (this.at >= this.#end) throw this.#damage('number is cut off', this.at);
    return this.bytes[this.at++]!;
  }

  #big(): bigint {
    const start = this.at;
    let value = 0n;
    for (let i = 0; i < bytesMax; i++) {
      const byte = this.#byte();
      value |= BigInt(byte & 127) << BigInt(7 * i);
      if (byte < 128 && value < 1n << 64n) return value;
      if (byte < 128) break;
    }
    throw this.#damage('number is beyond 64 bits', start);
  }

  #exact(value: bigint, start: number): number {
    const number = Number(value);
    if (!Number.isSafeInteger(number)) throw this.#damage(`number is too large: ${value}`, start);
    return number;
  }
}
