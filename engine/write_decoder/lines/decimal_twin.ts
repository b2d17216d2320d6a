/** The plain twin of the kernel's reader of decimals (engine/write_decoder/kernel/lines/decimal.ts): JavaScript's own. */

/** The number that a decimal text is, or null. */
export function decimalOf(text: string): number | null {
  const parts = /^-?(?:(\d+)\.?(\d*)|\.(\d+))(?:[eE]([-+]?\d+))?$/.exec(text);
  if (parts === null) return null;
  const [, whole = '', after = '', onlyAfter = '', power = '0'] = parts;
  const digits = (whole + after + onlyAfter).replace(/^0+/, '');
  const value = Number(text);
  // Of more than 19 digits the kernel knows the number only to lie between two others.
  if (/[1-9]/.test(digits.slice(19))) {
    const next = BigInt(digits.slice(0, 19)) + 1n;
    const places = digits.length - 19 - (after + onlyAfter).length;
    if (!Number.isFinite(Number(`${next}e${BigInt(power) + BigInt(places)}`))) return Infinity;
  }
  return value;
}

/** As Go reads numbers, and its words. Null for what is none, `over` for one that is too large. */
export function numberOf(token: string): number | 'over' | null {
  if (/^nan$/i.test(token)) return Number.NaN;
  if (/^[-+]?inf(?:inity)?$/i.test(token)) return token.startsWith('-') ? -Infinity : Infinity;
  const value = decimalOf(token.replace(/^\+(?!-)/, ''));
  return value === null || Number.isFinite(value) ? value : 'over';
}
