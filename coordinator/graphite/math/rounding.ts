/** Rounding to decimal digits; what is exactly between two goes to the even one. */

/** Above it every number is whole. */
const wholeMin = 2 ** 52;
/** Closer to a half than this the product may be on the wrong side. */
const doubt = 1e-6;
const digitsMax = 100;

/**
 * @param digits behind the point; before it when negative
 * @returns the number whose decimal form with so many digits is nearest
 */
export function roundTo(value: number, digits: number): number {
  if (!Number.isFinite(value) || digits > 22) return value;
  if (digits < -308) return 0;
  if (digits < 0) {
    const unit = 10 ** -digits;
    return roundHalfEven(value / unit) * unit;
  }
  const scaled = value * 10 ** digits;
  if (Math.abs(scaled) >= wholeMin) return value;
  const whole = Math.trunc(scaled);
  const fraction = Math.abs(scaled - whole);
  if (Math.abs(fraction - 0.5) > doubt) return Math.round(scaled) / 10 ** digits;
  return roundByText(value, digits);
}

function roundHalfEven(value: number): number {
  const below = Math.floor(value);
  const fraction = value - below;
  if (fraction !== 0.5) return Math.round(value);
  return below % 2 === 0 ? below : below + 1;
}

/** By all digits that the number has. */
function roundByText(value: number, digits: number): number {
  const exact = Math.abs(value).toFixed(Math.min(digitsMax, digits + 60));
  const point = exact.indexOf('.');
  const kept = exact.slice(0, point + 1 + digits);
  const rest = exact.slice(point + 1 + digits);
  const last = kept.endsWith('.') ? kept.at(-2)! : kept.at(-1)!;
  const isTie = /^50*$/.test(rest);
  const isUp = isTie ? Number(last) % 2 === 1 : rest >= '5';
  const units = BigInt(kept.replace('.', '')) + (isUp ? 1n : 0n);
  const rounded = Number(units) / 10 ** digits;
  return value < 0 ? -rounded : rounded;
}
