/** Numbers as Go prints them with strconv.FormatFloat(v, 'f', -1, 64): shortest digits, never an exponent. */

export function formatNumber(value: number): string {
  if (value !== value) return 'NaN';
  if (value === Infinity) return '+Inf';
  if (value === -Infinity) return '-Inf';
  if (value === 0) return Object.is(value, -0) ? '-0' : '0';
  const text = String(value);
  const exponentAt = text.indexOf('e');
  if (exponentAt < 0) return text;
  const sign = text.startsWith('-') ? '-' : '';
  const digits = text.slice(sign.length, exponentAt).replace('.', '');
  const exponent = Number(text.slice(exponentAt + 1));
  if (exponent < 0) return `${sign}0.${'0'.repeat(-exponent - 1)}${digits}`;
  return `${sign}${digits.padEnd(exponent + 1, '0')}`;
}
