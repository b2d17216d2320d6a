/** Numbers of JSON in bytes. Most have few digits and are one exact operation; others are read by JavaScript. */

const zero = 0x30;
const minus = 0x2d;
const plus = 0x2b;
const point = 0x2e;
/** Digits that a float64 holds exactly, whatever they are. */
const exactDigits = 15;
/** Powers of ten that are float64. */
const powers = Float64Array.from({ length: 23 }, (_, i) => Number(`1e${i}`));

export class NumberReader {
  /** Behind the number that was read last; where the text stops being one when there was none. */
  end = 0;

  /** The number at `at`, which may be infinite; NaN when there is none as JSON has it. */
  read(bytes: Uint8Array, at: number, textEnd: number): number {
    let i = at;
    const isNegative = bytes[i] === minus;
    if (isNegative) i += 1;
    const first = i;
    let digits = 0;
    let mantissa = 0;
    let fraction = 0;
    let digit = 0;
    for (; i < textEnd && (digit = bytes[i]! - zero) >= 0 && digit <= 9; i++) {
      mantissa = mantissa * 10 + digit;
      if (mantissa !== 0) digits += 1;
    }
    this.end = i;
    // No digit, or a zero before others.
    if (i === first || (i > first + 1 && bytes[first] === zero)) return Number.NaN;
    if (i < textEnd && bytes[i] === point) {
      const begin = ++i;
      for (; i < textEnd && (digit = bytes[i]! - zero) >= 0 && digit <= 9; i++) {
        mantissa = mantissa * 10 + digit;
        if (mantissa !== 0) digits += 1;
      }
      this.end = i;
      fraction = i - begin;
      if (fraction === 0) return Number.NaN;
    }
    let power = 0;
    if (i < textEnd && (bytes[i]! | 0x20) === 0x65) {
      i += 1;
      const isDown = bytes[i] === minus;
      if (isDown || bytes[i] === plus) i += 1;
      const begin = i;
      for (; i < textEnd && (digit = bytes[i]! - zero) >= 0 && digit <= 9; i++) {
        if (power < 100_000) power = power * 10 + digit;
      }
      this.end = i;
      if (i === begin) return Number.NaN;
      if (isDown) power = -power;
    }
    const exponent = power - fraction;
    if (digits > exactDigits || exponent < -22 || exponent > 22) {
      return digits === 0 ? (isNegative ? -0 : 0) : slow(bytes, at, i);
    }
    const size = exponent < 0 ? mantissa / powers[-exponent]! : mantissa * powers[exponent]!;
    return isNegative ? -size : size;
  }
}

function slow(bytes: Uint8Array, start: number, end: number): number {
  return Number(
    Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('latin1'),
  );
}
