/**
 * Rows of a step grid: one float64 a step. A step without a value has the bits of the stale marker,
 * which no value can have: a stale marker in the data is the absence of a value, and arithmetic
 * never makes these bits. They are a signalling NaN, so they are written and copied by words, never
 * through a number.
 */

export const absentLow = 2;
export const absentHigh = 0x7ff00000;
export const absentBits = 0x7ff0000000000002n;

export interface RowBuffer {
  readonly values: Float64Array;
  /** The bytes of `values`, two words a step (low, high). */
  readonly words: Uint32Array;
  readonly bits: BigUint64Array;
}

/** A buffer of `length` steps, all absent. */
export function makeRowBuffer(length: number): RowBuffer {
  const bits = new BigUint64Array(length).fill(absentBits);
  return {
    values: new Float64Array(bits.buffer),
    words: new Uint32Array(bits.buffer),
    bits,
  };
}

/** The first `length` values as a buffer, without a copy. */
export function rowBufferOf({ buffer, byteOffset }: Float64Array, length: number): RowBuffer {
  return {
    values: new Float64Array(buffer, byteOffset, length),
    words: new Uint32Array(buffer, byteOffset, 2 * length),
    bits: new BigUint64Array(buffer, byteOffset, length),
  };
}

/** Whether the step has no value; `words` are those of a row buffer or of a value column. */
export function isAbsent(words: Uint32Array, index: number): boolean {
  return words[2 * index] === absentLow && words[2 * index + 1] === absentHigh;
}

export function setAbsent(words: Uint32Array, index: number): void {
  words[2 * index] = absentLow;
  words[2 * index + 1] = absentHigh;
}
