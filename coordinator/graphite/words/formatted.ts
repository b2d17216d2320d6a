/** Numbers in texts of users, and with the prefixes of units. */
import { badRequest, shownText } from '#lib/errors.ts';
import { floatText, shortNumber, wholeNumber } from './number_text.ts';

/** Digits and widths above are refused: a name is for people. */
const widthMax = 100;
const directive = /%([-+ 0#]*)(\d*)(?:\.(\d*))?([a-zA-Z%])/g;

/**
 * A value in place of the one `%d`, `%f`, `%e`, `%g` or `%s` of a text, with flags, width and precision as in C.
 * @throws {TsdbError} BAD_REQUEST when the text has none or several
 */
export function formatted(text: string, value: number): string {
  let count = 0;
  const result = text.replace(
    directive,
    (whole, flags: string, width: string, digits: string | undefined, kind: string) => {
      if (kind === '%') return '%';
      count += 1;
      const precision = digits === undefined ? null : Number(digits);
      if (Number(width) > widthMax || (precision ?? 0) > widthMax || !'dfegs'.includes(kind)) {
        throw badRequest(`cannot evaluate aliasQuery: newName has an unknown form: ${whole}`);
      }
      return padded(numberText(value, kind, precision), flags, Number(width));
    },
  );
  if (count === 1) return result;
  throw badRequest(
    `cannot evaluate aliasQuery: newName needs one place for the value, as %d: ${shownText(text)}`,
  );
}

function numberText(value: number, kind: string, precision: number | null): string {
  if (!Number.isFinite(value)) return floatText(value);
  switch (kind) {
    case 'd':
      return wholeNumber(value);
    case 'f':
      return fixed(value, precision ?? 6);
    case 'e':
      return value.toExponential(precision ?? 6).replace(/e([-+])(\d)$/, 'e$10$2');
    case 'g':
      return shortNumber(value);
    default:
      return floatText(value);
  }
}

function padded(text: string, flags: string, width: number): string {
  const signed = flags.includes('+') && !text.startsWith('-') ? `+${text}` : text;
  if (flags.includes('-')) return signed.padEnd(width);
  if (!flags.includes('0')) return signed.padStart(width);
  const sign = /^[-+]/.exec(signed)?.[0] ?? '';
  return sign + signed.slice(sign.length).padStart(width - sign.length, '0');
}

/** With so many digits behind the point, however large it is. */
export function fixed(value: number, digits: number): string {
  if (!Number.isFinite(value)) return floatText(value);
  if (Math.abs(value) < 1e21) return value.toFixed(digits);
  return `${BigInt(value)}${digits > 0 ? `.${'0'.repeat(digits)}` : ''}`;
}

export type UnitSystem = 'si' | 'binary';

const prefixes: Readonly<Record<UnitSystem, readonly (readonly [string, number])[]>> = {
  binary: [
    ['Pi', 1024 ** 5],
    ['Ti', 1024 ** 4],
    ['Gi', 1024 ** 3],
    ['Mi', 1024 ** 2],
    ['Ki', 1024],
  ],
  si: [
    ['P', 1e15],
    ['T', 1e12],
    ['G', 1e9],
    ['M', 1e6],
    ['k', 1e3],
  ],
};

/** Two digits behind the point and a prefix: "4.17k", "1.00Mi". */
export function withPrefix(value: number, system: UnitSystem): string {
  const found = prefixes[system].find(([, size]) => Math.abs(value) >= size);
  return found === undefined ? fixed(value, 2) : `${fixed(value / found[1], 2)}${found[0]}`;
}
