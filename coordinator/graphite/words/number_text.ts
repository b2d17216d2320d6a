/** Numbers in names and tags, in the forms of Graphite, which are those of C and Python. */

/** As `%g`: six digits, an exponent where the number is large or small. */
export function shortNumber(value: number): string {
  if (!Number.isFinite(value)) return notFinite(value);
  if (value === 0) return Object.is(value, -0) ? '-0' : '0';
  const [digits, exponentText] = value.toExponential(5).split('e') as [string, string];
  const exponent = Number(exponentText);
  if (exponent < -4 || exponent >= 6) {
    return `${withoutZeros(digits)}e${exponentSign(exponent)}`;
  }
  return withoutZeros(value.toFixed(5 - exponent));
}

/** A float in full, always with a fraction or an exponent: "2.0", "0.1", "1e+16". */
export function floatText(value: number): string {
  if (!Number.isFinite(value)) return notFinite(value);
  const magnitude = Math.abs(value);
  if (magnitude !== 0 && (magnitude < 1e-4 || magnitude >= 1e16)) {
    const [digits, exponent] = value.toExponential().split('e') as [string, string];
    return `${digits}e${exponentSign(Number(exponent))}`;
  }
  if (Object.is(value, -0)) return '-0.0';
  return Number.isInteger(value) ? `${value}.0` : `${value}`;
}

/** A number that may be whole: "5" and "2.5". */
export function plainNumber(value: number): string {
  return Number.isInteger(value) && Math.abs(value) < 1e16 ? `${value}` : floatText(value);
}

/** As `%d`. */
export function wholeNumber(value: number): string {
  return Number.isFinite(value) ? `${Math.trunc(value)}` : notFinite(value);
}

function exponentSign(exponent: number): string {
  const digits = `${Math.abs(exponent)}`.padStart(2, '0');
  return exponent < 0 ? `-${digits}` : `+${digits}`;
}

function withoutZeros(text: string): string {
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

function notFinite(value: number): string {
  if (Number.isNaN(value)) return 'nan';
  return value > 0 ? 'inf' : '-inf';
}
