/**
 * Columns of compressed chunks (docs/formats/codec.md), written for reading: times, floats, lags and start times.
 * The kernel's are byte for byte the same.
 */
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import {
  ByteSink,
  checkTimes,
  malformed,
  timeUnitCodeOf,
  type ByteSource,
  type ChunkHeader,
} from './chunk.ts';
import { decodeIntegers, encodeIntegers, roundedMean } from './integers_twin.ts';

/** Ways in which values are written; bits 4 and 5 of the control byte. */
const valueMode = { decimal: 0, bits: 1, raw: 2 } as const;
const exceptionsFlag = 64;
/** In the control byte: times are an integer stream. */
export const irregularTimesFlag = 128;

const exponentMax = 15;
const powersOfTen = Array.from({ length: exponentMax + 1 }, (_, e) => Number(`1e${e}`));
const exactIntegerMax = 2 ** 53;

export interface EncodedTimes {
  readonly unitCode: number;
  /** They are not written: the header tells them. */
  readonly isRegular: boolean;
  readonly bytes: Uint8Array;
}

export function encodeTimes(timestampNanos: BigInt64Array): EncodedTimes {
  const unitCode = timeUnitCodeOf(timestampNanos);
  const unit = 1000n ** BigInt(unitCode);
  const times = Array.from(timestampNanos, (nanos) => nanos / unit);
  const isRegular =
    times.length < 3 ||
    times.every((time, i) => i === 0 || time - times[i - 1]! === times[1]! - times[0]!);
  const bytes = new ByteSink();
  if (!isRegular) encodeIntegers(bytes, times, roundedMean(times));
  return { unitCode, isRegular, bytes: bytes.finish() };
}

/** @throws {TsdbError} BAD_REQUEST */
export function decodeTimes(
  source: ByteSource,
  header: ChunkHeader,
  isIrregular: boolean,
): BigInt64Array {
  const { rowCount, timeUnitNanos: unit } = header;
  const first = header.firstNanos / unit;
  const span = header.lastNanos / unit - first;
  const stepCount = BigInt(Math.max(rowCount - 1, 1));
  if (isIrregular) {
    if (rowCount < 3) throw malformed('has a column of times that its header tells', source.offset);
    const times = decodeIntegers(
      source,
      rowCount,
      first,
      roundedMean([first, first + span], rowCount),
    );
    const timestampNanos = BigInt64Array.from(times, (time) => time * unit);
    checkTimes(timestampNanos, header);
    return timestampNanos;
  }
  if (span % stepCount !== 0n) throw malformed('has no whole step between times', source.offset);
  const step = (span / stepCount) * unit;
  return BigInt64Array.from({ length: rowCount }, (_, i) => header.firstNanos + BigInt(i) * step);
}

export interface EncodedValues {
  /** Exponent, mode and whether there are exceptions. */
  readonly control: number;
  readonly bytes: Uint8Array;
}

export function encodeValues(values: Float64Array): EncodedValues {
  const bits = new BigUint64Array(values.slice().buffer);
  const decimals = asDecimals(values);
  const encoded =
    decimals !== null
      ? encodeWithExceptions(valueMode.decimal, decimals.exponent, decimals, bits)
      : encodeFloatBits(values, bits);
  if (encoded.bytes.length < values.length * 8) return encoded;
  return { control: valueMode.raw << 4, bytes: new Uint8Array(bits.buffer) };
}

interface IntegersWithExceptions {
  /** One a row; the rows of exceptions repeat a neighbour. */
  readonly integers: bigint[];
  /** Rows whose value is written as it is. */
  readonly exceptions: number[];
}

function encodeWithExceptions(
  mode: number,
  exponent: number,
  { integers, exceptions }: IntegersWithExceptions,
  bits: BigUint64Array,
): EncodedValues {
  const sink = new ByteSink();
  sink.zigzag(integers[0]!);
  if (integers.length > 1) encodeIntegers(sink, integers, 0n);
  if (exceptions.length > 0) {
    sink.varint(BigInt(exceptions.length));
    let rowNext = 0;
    for (const row of exceptions) {
      sink.varint(BigInt(row - rowNext));
      sink.bytes(new Uint8Array(bits.buffer, row * 8, 8));
      rowNext = row + 1;
    }
  }
  const control = exponent | (mode << 4) | (exceptions.length > 0 ? exceptionsFlag : 0);
  return { control, bytes: sink.finish() };
}

/** Half to even, as the machine's instruction does it. */
function nearest(value: number): number {
  const floor = Math.floor(value);
  const fraction = value - floor;
  if (fraction < 0.5) return floor;
  if (fraction > 0.5) return floor + 1;
  return floor % 2 === 0 ? floor : floor + 1;
}

/** The value times 10^exponent as an integer that gives the value back bit for bit, or null. */
function decimalOf(value: number, exponent: number): bigint | null {
  const power = powersOfTen[exponent]!;
  const scaled = nearest(value * power);
  if (!(Math.abs(scaled) < exactIntegerMax)) return null;
  // Adding 0 turns -0 into 0, which the comparison then tells from a value of -0.
  return Object.is((scaled + 0) / power, value) ? BigInt(scaled) : null;
}

function exceptionCountMax(rowCount: number): number {
  return (rowCount >> 4) + 1;
}

/** The exponent that suits the values; null when too many of them are no short decimals. */
function exponentOf(values: Float64Array): number | null {
  const raiseCountMax = 1 + (values.length >> 6);
  let [exponent, exponentNeeded, raiseCount, lostCount] = [0, 0, 0, 0];
  for (const value of values) {
    if (decimalOf(value, exponent) !== null) continue;
    let needed = exponent + 1;
    while (needed <= exponentMax && decimalOf(value, needed) === null) needed++;
    if (needed > exponentMax) {
      if (++lostCount > exceptionCountMax(values.length)) return null;
      continue;
    }
    exponentNeeded = Math.max(exponentNeeded, needed);
    if (++raiseCount > raiseCountMax) {
      exponent = exponentNeeded;
      raiseCount = 0;
    }
  }
  // An exception costs about 76 bits, a digit about 10/3 bits in every row.
  if (raiseCount * 228 > values.length * 10 * (exponentNeeded - exponent)) return exponentNeeded;
  return exponent;
}

function asDecimals(values: Float64Array): (IntegersWithExceptions & { exponent: number }) | null {
  const exponent = exponentOf(values);
  if (exponent === null) return null;
  const decimals = Array.from(values, (value) => decimalOf(value, exponent));
  const filled = withNeighbours(decimals);
  if (filled === null) return null;
  const raiseCountMax = 1 + (values.length >> 6);
  if (filled.exceptions.length > exceptionCountMax(values.length) + raiseCountMax) return null;
  return { ...filled, exponent };
}

/** Exceptions (null) take the integer before them, the first ones the first that there is. */
function withNeighbours(integers: readonly (bigint | null)[]): IntegersWithExceptions | null {
  let before = integers.find((integer) => integer !== null);
  if (before === undefined) return null;
  const exceptions: number[] = [];
  const filled = integers.map((integer, row) => {
    if (integer === null) exceptions.push(row);
    else before = integer;
    return before!;
  });
  return { integers: filled, exceptions };
}

/** Float bits as an integer with the order of the floats. It is its own inverse. */
function orderedBits(bits: bigint): bigint {
  const signed = BigInt.asIntN(64, bits);
  return signed < 0n ? BigInt.asIntN(64, signed ^ 0x7fffffffffffffffn) : signed;
}

function encodeFloatBits(values: Float64Array, bits: BigUint64Array): EncodedValues {
  const nanCount = values.reduce((count, value) => count + (Number.isNaN(value) ? 1 : 0), 0);
  const nansAreExceptions =
    nanCount <= exceptionCountMax(values.length) && nanCount < values.length;
  const ordered = Array.from(bits, (word, row) =>
    nansAreExceptions && Number.isNaN(values[row]!) ? null : orderedBits(word),
  );
  return encodeWithExceptions(valueMode.bits, 0, withNeighbours(ordered)!, bits);
}

/** @throws {TsdbError} BAD_REQUEST */
export function decodeValues(
  source: ByteSource,
  rowCount: number,
  control: number,
): BigUint64Array {
  const exponent = control & 15;
  const mode = (control >> 4) & 3;
  const hasExceptions = (control & exceptionsFlag) !== 0;
  if (mode !== valueMode.decimal && exponent !== 0) {
    throw malformed('has an exponent without decimals', source.offset);
  }
  if (mode === valueMode.raw) {
    if (hasExceptions) throw malformed('has exceptions of raw values', source.offset);
    return new BigUint64Array(source.take(rowCount * 8).slice().buffer);
  }
  if (mode > valueMode.raw) throw malformed('has an unknown mode of values', source.offset);
  const first = source.zigzag();
  const integers = rowCount === 1 ? [first] : decodeIntegers(source, rowCount, first, 0n);
  const bits =
    mode === valueMode.decimal
      ? new BigUint64Array(
          Float64Array.from(integers, (integer) => Number(integer) / powersOfTen[exponent]!).buffer,
        )
      : BigUint64Array.from(integers, (integer) => BigInt.asUintN(64, orderedBits(integer)));
  if (hasExceptions) decodeExceptions(source, bits);
  return bits;
}

function decodeExceptions(source: ByteSource, bits: BigUint64Array): void {
  const count = source.varint();
  if (count === 0n || count > BigInt(bits.length)) {
    throw malformed('has a bad number of exceptions', source.offset);
  }
  let rowNext = 0n;
  for (let i = 0n; i < count; i++) {
    const row = rowNext + source.varint();
    if (row >= BigInt(bits.length))
      throw malformed('has an exception after its rows', source.offset);
    bits[Number(row)] = new BigUint64Array(source.take(8).slice().buffer)[0]!;
    rowNext = row + 1n;
  }
}

/** What the stream of a chunk with row versions holds. */
const lagStream = { lags: 0, versions: 1 } as const;

export interface EncodedLags {
  readonly hasRowVersions: boolean;
  /** Of the header. */
  readonly version: number;
  /** Empty when all rows have one lag. */
  readonly bytes: Uint8Array;
}

export function encodeLags(timestampNanos: BigInt64Array, rowVersions: Float64Array): EncodedLags {
  const versions = Array.from(rowVersions, BigInt);
  const lags = versions.map((version, row) => version - versionAtNanos(timestampNanos[row]!));
  const highest = lags.reduce((a, b) => (a > b ? a : b));
  const hasRowVersions = lags.some((lag) => lag !== highest);
  const sink = new ByteSink();
  if (hasRowVersions) {
    const isOfVersions = changesOf(versions) <= changesOf(lags);
    sink.byte(isOfVersions ? lagStream.versions : lagStream.lags);
    sink.zigzag(highest - lags[0]!);
    encodeIntegers(sink, isOfVersions ? versions : lags, 0n);
  }
  const version = Number(highest + versionAtNanos(timestampNanos.at(-1)!));
  return { hasRowVersions, version, bytes: sink.finish() };
}

function changesOf(numbers: readonly bigint[]): number {
  return numbers.filter((number, row) => row > 0 && number !== numbers[row - 1]).length;
}

/**
 * Versions of rows, of a kind that has lags.
 * @throws {TsdbError} BAD_REQUEST
 */
export function decodeVersions(
  source: ByteSource,
  { hasRowVersions, rowCount, version, lastNanos }: ChunkHeader,
  timestampNanos: BigInt64Array,
): Float64Array {
  const highest = BigInt(version) - versionAtNanos(lastNanos);
  const atTimes = Array.from(timestampNanos, versionAtNanos);
  let lags = atTimes.map(() => highest);
  if (hasRowVersions) {
    const form = source.byte();
    if (form > lagStream.versions) throw malformed('has an unknown stream of lags', source.offset);
    const first = BigInt.asIntN(64, highest - source.zigzag());
    const isOfVersions = form === lagStream.versions;
    const base = isOfVersions ? BigInt.asIntN(64, atTimes[0]! + first) : first;
    lags = decodeIntegers(source, rowCount, base, 0n);
    if (isOfVersions) lags = lags.map((version, row) => BigInt.asIntN(64, version - atTimes[row]!));
    if (lags.some((lag) => lag > highest) || !lags.includes(highest)) {
      throw malformed('has lags that disagree with its version', source.offset);
    }
  }
  const versions = lags.map((lag, row) => lag + atTimes[row]!);
  if (versions.some((rowVersion) => rowVersion < 0n)) {
    throw malformed('has a bad row version', source.offset);
  }
  return Float64Array.from(versions, Number);
}

/** What the stream of starts holds. */
const startStream = { starts: 0, distances: 1 } as const;

/** @param startNanos of each row; 0 for none */
export function encodeStarts(
  sink: ByteSink,
  startNanos: BigInt64Array,
  timestampNanos: BigInt64Array,
): void {
  const starts = Array.from(startNanos);
  const distances = starts.map((start, row) => BigInt.asIntN(64, start - timestampNanos[row]!));
  const isOfStarts = changesOf(starts) <= changesOf(distances);
  sink.byte(isOfStarts ? startStream.starts : startStream.distances);
  sink.zigzag(distances[0]!);
  if (starts.length > 1) encodeIntegers(sink, isOfStarts ? starts : distances, 0n);
}

/** @throws {TsdbError} BAD_REQUEST */
export function decodeStarts(source: ByteSource, timestampNanos: BigInt64Array): BigInt64Array {
  const form = source.byte();
  if (form > startStream.distances)
    throw malformed('has an unknown stream of starts', source.offset);
  const isOfStarts = form === startStream.starts;
  const distance = source.zigzag();
  const first = isOfStarts ? BigInt.asIntN(64, timestampNanos[0]! + distance) : distance;
  const rowCount = timestampNanos.length;
  const stream = rowCount === 1 ? [first] : decodeIntegers(source, rowCount, first, 0n);
  if (isOfStarts) return BigInt64Array.from(stream);
  return BigInt64Array.from(stream, (each, row) => BigInt.asIntN(64, timestampNanos[row]! + each));
}
