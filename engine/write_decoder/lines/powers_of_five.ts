/**
 * The 128 leading bits of the powers of five by which decimal texts become float64 (kernel/lines/decimal.ts), after Eisel and
 * Lemire: of 5^-342, below which nothing is left of 64 bits of digits, to 5^308. They are cut off, but for reciprocals that
 * are rounded up.
 */
const powerMin = -342;
const powerMax = 308;
const bits = 128n;
const wordMask = 2n ** 64n - 1n;

/** Upper and lower word of each power, one after the other. */
export function powersOfFive(): BigUint64Array {
  const words = new BigUint64Array(2 * (powerMax - powerMin + 1));
  for (let power = powerMin; power <= powerMax; power++) {
    const leading = power < 0 ? reciprocal(power) : leadingBits(5n ** BigInt(power));
    const at = 2 * (power - powerMin);
    words[at] = leading >> 64n;
    words[at + 1] = leading & wordMask;
  }
  return words;
}

function bitLength(value: bigint): bigint {
  return BigInt(value.toString(2).length);
}

function leadingBits(value: bigint): bigint {
  const spare = bits - bitLength(value);
  return spare >= 0n ? value << spare : value >> -spare;
}

/** Down to here numbers may lie between two float64 exactly, which the reciprocal must not hide: it is rounded up. */
const tiePowerMin = -27;

/** Of 1 / 5^-power. */
function reciprocal(power: number): bigint {
  const value = 5n ** BigInt(-power);
  if (power < tiePowerMin) return leadingBits((1n << (2n * bitLength(value) + bits)) / value);
  return (1n << (bitLength(value) + bits - 1n)) / value + 1n;
}
