/** Powers of real numbers. */

/** None where there is no real value, or it is too large. */
export function power(base: number, exponent: number): number | null {
  const value = base ** exponent;
  if (Number.isFinite(value)) return value;
  const isOfFinite = Number.isFinite(base) && Number.isFinite(exponent);
  return isOfFinite ? null : value;
}
