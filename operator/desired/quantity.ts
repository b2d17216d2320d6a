/**
 * Quantities of the Kubernetes API, which writes '1024Mi' back as '1Gi' and '1.4Gi' as
 * '1503238553600m': compared by what they are worth, exactly.
 */
import { badRequest } from '#lib/errors.ts';

/** In billionths, the smallest part that the API knows. */
const one = 1_000_000_000n;
const worthOf: Readonly<Record<string, bigint>> = {
  n: 1n,
  u: 1_000n,
  m: 1_000_000n,
  '': one,
  k: one * 1_000n,
  M: one * 1_000_000n,
  G: one * 1_000_000_000n,
  T: one * 1_000_000_000_000n,
  P: one * 1_000_000_000_000_000n,
  E: one * 1_000_000_000_000_000_000n,
  Ki: one << 10n,
  Mi: one << 20n,
  Gi: one << 30n,
  Ti: one << 40n,
  Pi: one << 50n,
  Ei: one << 60n,
};
/** What the API takes of a larger one, and of a smaller one the opposite. */
const worthMax = ((1n << 63n) - 1n) * one;
/** Neither is in a quantity that somebody means. */
const digitsMax = 100;
const exponentMax = 30;

const pattern =
  /^([+-]?)([0-9]*)(?:[.]([0-9]*))?(?:[eE]([+-]?[0-9]+))?(n|u|m|k|[MGTPE]|[KMGTPE]i)?$/;

/**
 * @returns in billionths; a part of one counts as one, as the API rounds
 * @throws {TsdbError} BAD_REQUEST
 */
export function quantityOf(text: string): bigint {
  const [, sign, whole = '', fraction = '', exponentText = '0', suffix = ''] =
    pattern.exec(text) ?? [];
  const digits = whole + fraction;
  const exponent = Number(exponentText);
  if (digits === '' || digits.length > digitsMax || Math.abs(exponent) > exponentMax) {
    throw badRequest(`not a quantity: ${text}`);
  }
  const scale = exponent - fraction.length;
  const value = BigInt(digits) * worthOf[suffix]! * 10n ** BigInt(Math.max(0, scale));
  const divisor = 10n ** BigInt(Math.max(0, -scale));
  const rounded = (value + divisor - 1n) / divisor;
  const worth = rounded < worthMax ? rounded : worthMax;
  return sign === '-' ? -worth : worth;
}
