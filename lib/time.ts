/**
 * Time and durations. Absolute time is `bigint` nanoseconds at the edges and in files; inside a
 * block it is an exact `number` relative to the block's start; PromQL works in `number`
 * milliseconds.
 */
import { badRequest } from './errors.ts';

/** Nanoseconds since 1970-01-01T00:00:00Z. */
export type UnixNanos = bigint;

export const nanosPerMilli = 1_000_000n;
export const nanosPerSecond = 1_000_000_000n;

const unitNanos: Record<string, bigint> = {
  ns: 1n,
  us: 1_000n,
  µs: 1_000n,
  μs: 1_000n,
  ms: 1_000_000n,
  s: 1_000_000_000n,
  m: 60_000_000_000n,
  h: 3_600_000_000_000n,
  d: 86_400_000_000_000n,
  w: 604_800_000_000_000n,
};

const durationNanosMax = 2n ** 63n - 1n;

/** Times are kept in 64 bits: 1677-09-21 to 2262-04-11. */
const timestampNanosMin = -(2n ** 63n);
const timestampNanosMax = 2n ** 63n - 1n;

const durationCharactersMax = 200;

/**
 * A Go duration in nanoseconds ("1h30m", "1.5s", "-2m"), with `d` and `w` taken too.
 * @param field named in the error
 * @throws {TsdbError} BAD_REQUEST
 */
export function parseDurationNanos(text: string, field: string): bigint {
  const fail = (reason: string) => badRequest(`${field}: ${reason}: ${shown(text)}`);
  // The time that BigInt() takes grows with the square of the digits.
  if (text.length > durationCharactersMax) throw fail('duration is too long');
  const sign = text.startsWith('-') ? -1n : 1n;
  let rest = text.replace(/^[+-]/, '');
  if (rest === '0') return 0n;
  if (rest === '') throw fail('duration is empty');
  let total = 0n;
  while (rest !== '') {
    const match = /^(\d*)(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h|d|w)/.exec(rest);
    if (match === null || (match[1] === '' && (match[2] ?? '') === '')) {
      throw fail('not a duration such as "48h", "30m" or "10s"');
    }
    const unit = unitNanos[match[3]!]!;
    const fraction = (match[2] ?? '').slice(0, 18);
    total += BigInt(match[1] === '' ? 0 : match[1]!) * unit;
    if (fraction !== '') total += (BigInt(fraction) * unit) / 10n ** BigInt(fraction.length);
    if (total > durationNanosMax) throw fail('duration is too long');
    rest = rest.slice(match[0].length);
  }
  return sign * total;
}

/** As Go prints a duration: "48h0m0s", "1.5s", "10ms", "0s". */
export function formatDurationNanos(nanos: bigint): string {
  if (nanos === 0n) return '0s';
  const sign = nanos < 0n ? '-' : '';
  const size = nanos < 0n ? -nanos : nanos;
  const decimal = (unit: bigint, digits: number) => {
    const fraction = String(size % unit)
      .padStart(digits, '0')
      .replace(/0+$/, '');
    return `${size / unit}${fraction === '' ? '' : `.${fraction}`}`;
  };
  if (size < 1_000n) return `${sign}${size}ns`;
  if (size < 1_000_000n) return `${sign}${decimal(1_000n, 3)}µs`;
  if (size < 1_000_000_000n) return `${sign}${decimal(1_000_000n, 6)}ms`;
  const hours = size / 3_600_000_000_000n;
  const minutes = (size / 60_000_000_000n) % 60n;
  const rest = size % 60_000_000_000n;
  const fraction = String(rest % nanosPerSecond)
    .padStart(9, '0')
    .replace(/0+$/, '');
  const seconds = `${rest / nanosPerSecond}${fraction === '' ? '' : `.${fraction}`}s`;
  if (hours > 0n) return `${sign}${hours}h${minutes}m${seconds}`;
  if (minutes > 0n) return `${sign}${minutes}m${seconds}`;
  return `${sign}${seconds}`;
}

/**
 * Unix seconds with a fraction, or RFC 3339 with up to nanoseconds, as nanoseconds.
 * @throws {TsdbError} BAD_REQUEST
 */
export function parseTimestampNanos(text: string, field: string): UnixNanos {
  const nanos = unboundedNanos(text, field);
  if (nanos === clampNanos(nanos)) return nanos;
  throw badRequest(`${field}: timestamp is out of range (unix seconds expected): ${shown(text)}`);
}

/**
 * The earliest and the latest time of Prometheus, as its clients print them: such years are no RFC
 * 3339.
 */
const prometheusBounds: ReadonlyMap<string, UnixNanos> = new Map([
  ['-292273086-05-16T16:47:06Z', timestampNanosMin],
  ['292277025-08-18T07:12:54.999999999Z', timestampNanosMax],
]);

/**
 * A bound of a range, read alike: beyond 64 bits, where no data can lie, it is the nearest time
 * inside.
 * @throws {TsdbError} BAD_REQUEST
 */
export function parseBoundNanos(text: string, field: string): UnixNanos {
  return prometheusBounds.get(text) ?? clampNanos(unboundedNanos(text, field));
}

/** The nearest time that 64 bits hold. */
export function clampNanos(nanos: bigint): UnixNanos {
  if (nanos < timestampNanosMin) return timestampNanosMin;
  return nanos > timestampNanosMax ? timestampNanosMax : nanos;
}

/**
 * Seconds of more digits are out of range, and the time that BigInt() takes grows with their
 * square.
 */
const secondsDigitsMax = 20;
const outOfRangeSeconds = 10n ** BigInt(secondsDigitsMax);

function shown(text: string): string {
  return JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}…` : text);
}

function unboundedNanos(text: string, field: string): bigint {
  const fail = (reason: string) => badRequest(`${field}: ${reason}: ${shown(text)}`);
  const number = /^([+-]?)(\d+)(?:\.(\d*))?$/.exec(text);
  if (number !== null) {
    const fraction = (number[3] ?? '').slice(0, 9).padEnd(9, '0');
    const digits = number[2]!.replace(/^0+/, '');
    const seconds = digits.length > secondsDigitsMax ? outOfRangeSeconds : BigInt(digits);
    const nanos = seconds * nanosPerSecond + BigInt(fraction);
    return number[1] === '-' ? -nanos : nanos;
  }
  if (/^[+-]?(\d+(?:\.\d*)?|\.\d+)[eE][+-]?\d+$/.test(text)) {
    const millis = Math.round(Number(text) * 1000);
    if (!Number.isFinite(millis)) throw fail('timestamp is out of range');
    return BigInt(millis) * nanosPerMilli;
  }
  const rfc3339 =
    /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d\d:\d\d)$/.exec(
      text,
    );
  if (rfc3339 === null) throw fail('not unix seconds or an RFC 3339 timestamp');
  const [, year, month, day, hour, minute, second, fraction, zone] = rfc3339;
  const iso = `${year}-${month}-${day}T${hour}:${minute}:${second}${zone!.toUpperCase()}`;
  const millis = Date.parse(iso);
  // Days that a month has not are those of the next one to the parser.
  const daysOfMonth = new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate();
  if (Number.isNaN(millis) || Number(day) > daysOfMonth) throw fail('not a date that exists');
  return BigInt(millis) * nanosPerMilli + BigInt((fraction ?? '').padEnd(9, '0'));
}

/** RFC 3339 in UTC, of whole seconds. */
export function isoSeconds(unixMillis: number): string {
  return new Date(unixMillis).toISOString().replace(/\.\d+Z$/, 'Z');
}
