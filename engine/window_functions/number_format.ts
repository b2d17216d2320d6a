/**
 * Numbers as text with their shortest digits, in the two forms in which Prometheus answers with
 * them.
 */

/** As Go prints them with strconv.FormatFloat(v, 'f', -1, 64), never with an exponent: scalars, label values. */ export function formatNumber(
  value: number,
): string {
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

/**
 * As Prometheus prints samples of vectors and matrices: below 1e-6 and from 1e21 on with an
 * exponent, which has its sign and two digits at least.
 */
export function formatSample(value: number): string {
  const size = Math.abs(value);
  if ((size >= 1e-6 && size < 1e21) || size === 0 || size === Infinity || value !== value) {
    return formatNumber(value);
  }
  // String() has an exponent from 1e21 on, and below 1e-6.
  const text = String(value);
  const signAt = text.indexOf('e') + 1;
  return text.length - signAt > 2 ? text : `${text.slice(0, signAt + 1)}0${text.slice(signAt + 1)}`;
}

/** As Go prints them with %g: below 1e-4 and from 1e6 on with an exponent of two digits at least. */
export function formatGeneral(value: number): string {
  const size = Math.abs(value);
  if ((size >= 1e-4 && size < 1e6) || size === 0 || size === Infinity || value !== value) {
    return formatNumber(value);
  }
  const [digits, exponent] = value.toExponential().split('e') as [string, string];
  return `${digits}e${exponent[0]}${exponent.slice(1).padStart(2, '0')}`;
}

/** As Go prints them with %.2g: below 1e-4 and from 100 on with an exponent. */
export function formatTwoDigits(value: number): string {
  const [digits, exponent] = value.toExponential(1).split('e') as [string, string];
  if (value === 0 || !Number.isFinite(value)) return formatNumber(value);
  const power = Number(exponent);
  if (power >= -4 && power < 2) return String(Number(value.toPrecision(2)));
  return `${Number(digits)}e${exponent[0]}${exponent.slice(1).padStart(2, '0')}`;
}
