/** Decimal texts that are hard to round. */
import type { Pick } from '#test/sim/mutate.ts';

function digitsOf(pick: Pick, length: number): string {
  return Array.from({ length }, () => pick(10)).join('');
}

/** The float64 of random bits; any finite one is as likely. */
function anyDouble(pick: Pick): number {
  const words = Uint32Array.of(pick(2 ** 32), pick(2 ** 32));
  const value = new Float64Array(words.buffer)[0]!;
  return Number.isFinite(value) ? value : 1.5;
}

/** All digits of what lies between a float64 and the next one; or a little beside it. */
function halfway(pick: Pick, value: number): string {
  const bits = new BigUint64Array(Float64Array.of(Math.abs(value)).buffer)[0]!;
  const exponent = (bits >> 52n) & 0x7ffn;
  const mantissa = (bits & 0xf_ffff_ffff_ffffn) | (exponent === 0n ? 0n : 1n << 52n);
  const power = (exponent === 0n ? 1n : exponent) - 1075n;
  // (2 * mantissa + 1) * 2^(power - 1)
  let number = 2n * mantissa + 1n;
  const shift = power - 1n;
  let places = 0n;
  if (shift >= 0n) number <<= shift;
  else {
    number *= 5n ** -shift;
    places = -shift;
  }
  const beside = pick(3);
  const digits = `${number}${beside === 0 ? '' : beside === 1 ? '0000001' : '000'}`;
  const dropped = beside === 0 ? 0n : beside === 1 ? 7n : 3n;
  return `${digits}e${-(places + dropped)}`;
}

export function decimalText(pick: Pick): string {
  const sign = pick(4) === 0 ? '-' : '';
  switch (pick(10)) {
    case 0:
      return sign + halfway(pick, anyDouble(pick));
    case 1:
      // Numbers of everyday size between two float64.
      return sign + halfway(pick, pick(2 ** 20) + pick(2 ** 30) / 2 ** 30);
    case 2:
      return String(anyDouble(pick));
    case 3:
      return anyDouble(pick)
        .toPrecision(1 + pick(21))
        .replace('+', pick(2) === 0 ? '+' : '');
    case 4:
      return `${sign}${digitsOf(pick, 1 + pick(25))}.${digitsOf(pick, pick(25))}`;
    case 5:
      return `${sign}${digitsOf(pick, 1 + pick(22))}e${pick(700) - 350}`;
    case 6:
      return `${sign}0.${'0'.repeat(pick(30))}${digitsOf(pick, 1 + pick(20))}`;
    case 7:
      return `${sign}${pick(100_000)}.${digitsOf(pick, 1 + pick(3))}`;
    case 8:
      return `${sign}${digitsOf(pick, 16 + pick(6))}`;
    default:
      return `${sign}${pick(1000)}`;
  }
}
