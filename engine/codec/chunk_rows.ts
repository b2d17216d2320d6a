/**
 * Chunks of kind rows (docs/formats/chunk.md): one row after the other, as a store's heads have
 * them. Written for reading; engine/codec/kernel/rows.ts is the fast one.
 */
import { assert } from '#lib/assert.ts';
import { versionsPerMilli as versionsOfOneMilli } from '#lib/hybrid_clock.ts';
import { nanosPerMilli } from '#lib/time.ts';
import {
  ByteSink,
  checkTimes,
  chunkKind,
  frameChunk,
  malformed,
  timeUnitCodeOf,
  type ChunkHeader,
  type ChunkRows,
} from './chunk.ts';

const versionsPerMilli = BigInt(versionsOfOneMilli);
const widthsOfTime = [0, 2, 4, 8] as const;
const widthsOfValue = [1, 2, 4, 8] as const;
const widthsOfVersion = [0, 2, 2, 3, 4, 0] as const;

/** Numbers of 0 to 8 bytes, one after the other. */
class NumberSource {
  readonly #bytes: Uint8Array;
  offset: number;
  readonly #end: number;

  constructor(bytes: Uint8Array, offset: number, end: number) {
    this.#bytes = bytes;
    this.offset = offset;
    this.#end = end;
  }

  unsigned(width: number): bigint {
    if (this.offset + width > this.#end) throw malformed('ends too early', this.offset);
    let number = 0n;
    for (let i = width - 1; i >= 0; i--) {
      number = (number << 8n) | BigInt(this.#bytes[this.offset + i]!);
    }
    this.offset += width;
    return number;
  }

  signed(width: number): bigint {
    return BigInt.asIntN(width * 8, this.unsigned(width));
  }
}

/**
 * Rows of a chunk.
 * @throws {TsdbError} BAD_REQUEST when the payload is malformed
 */
export function decodeRowsChunk(bytes: Uint8Array, header: ChunkHeader): Required<ChunkRows> {
  assert(header.kind === chunkKind.rows, 'the chunk is of rows');
  const { rowCount, payloadStart, end } = header;
  const source = new NumberSource(bytes, payloadStart, end);
  const timestampNanos = new BigInt64Array(rowCount);
  const bits = new BigUint64Array(1);
  const value = new Float64Array(bits.buffer);
  const valueBits = new BigUint64Array(rowCount);
  const rowVersions = new Float64Array(rowCount);
  let version = source.signed(8);
  let nanos = 0n;
  let stepMillis = 0n;
  for (let row = 0; row < rowCount; row++) {
    const control = Number(source.unsigned(1));
    const timeForm = control & 3;
    const time = timeForm === 2 ? source.unsigned(4) : source.signed(widthsOfTime[timeForm]!);
    if (timeForm === 1) stepMillis += time;
    else if (timeForm === 2) stepMillis = time;
    const delta = timeForm === 3 ? time : stepMillis * nanosPerMilli;
    if (timeForm === 3) stepMillis = 0n;
    // The first row's own difference is to the begin of its block, which readers do not need.
    nanos = row === 0 ? header.firstNanos : nanos + delta;

    const valueForm = (control >> 2) & 3;
    if (valueForm === 3) bits[0] = source.unsigned(8);
    else {
      value[0] = value[0]! + Number(source.signed(widthsOfValue[valueForm]!));
      if (Number.isNaN(value[0])) throw malformed('has a difference from NaN', source.offset);
    }

    const versionForm = control >> 4;
    if (versionForm > 5) throw malformed('has an unknown form of a version', source.offset);
    const width = widthsOfVersion[versionForm]!;
    if (versionForm === 1) version += source.unsigned(width);
    else if (versionForm === 2) version += stepMillis * versionsPerMilli + source.signed(width);
    else if (versionForm === 5) version += stepMillis * versionsPerMilli;
    else version += source.signed(width);
    if (version < 0n || version > BigInt(header.version)) {
      throw malformed('has a bad row version', source.offset);
    }
    timestampNanos[row] = nanos;
    valueBits[row] = bits[0]!;
    rowVersions[row] = Number(version);
  }
  if (source.offset !== end) throw malformed('has bytes after its rows', source.offset);
  checkTimes(timestampNanos, header);
  const values = new Float64Array(valueBits.buffer);
  return { timestampNanos, values, version: header.version, rowVersions };
}

/**
 * Rows as a chunk of kind rows, each in the shortest form.
 * @param rows in strictly ascending time; versions of neighbours differ by less than 2^31
 */
export function encodeRowsChunk(rows: Required<ChunkRows>): Uint8Array<ArrayBuffer> {
  const { timestampNanos, values, rowVersions, version } = rows;
  const rowCount = timestampNanos.length;
  const bits = new BigUint64Array(values.slice().buffer);
  const payload = new ByteSink();
  putNumber(payload, BigInt(rowVersions[0]!), 8);
  let [nanosBefore, stepMillis] = [timestampNanos[0]!, 0n];
  let [bitsBefore, versionBefore] = [0n, BigInt(rowVersions[0]!)];
  for (let row = 0; row < rowCount; row++) {
    const numbers: [number: bigint, width: number][] = [];
    const timeForm = timeFormOf(timestampNanos[row]! - nanosBefore, stepMillis, numbers);
    stepMillis = timeForm === 3 ? 0n : (timestampNanos[row]! - nanosBefore) / nanosPerMilli;
    const valueForm = valueFormOf(values[row]!, bits[row]!, bitsBefore, numbers);
    const versionDelta = BigInt(rowVersions[row]!) - versionBefore;
    const versionForm = versionFormOf(versionDelta, stepMillis, numbers);
    payload.byte(timeForm | (valueForm << 2) | (versionForm << 4));
    for (const [number, width] of numbers) putNumber(payload, number, width);
    nanosBefore = timestampNanos[row]!;
    bitsBefore = bits[row]!;
    versionBefore = BigInt(rowVersions[row]!);
  }
  const timeUnitCode = timeUnitCodeOf([timestampNanos[0]!, timestampNanos[rowCount - 1]!]);
  return frameChunk(
    {
      kind: chunkKind.rows,
      hasRowVersions: true,
      timeUnitCode,
      rowCount,
      firstNanos: timestampNanos[0]!,
      lastNanos: timestampNanos[rowCount - 1]!,
      version,
    },
    payload.finish(),
  );
}

type Numbers = [number: bigint, width: number][];

function timeFormOf(delta: bigint, stepMillis: bigint, numbers: Numbers): number {
  if (delta === stepMillis * nanosPerMilli) return 0;
  const millis = delta / nanosPerMilli;
  if (millis * nanosPerMilli !== delta || millis < 0n || millis >= 2n ** 32n) {
    numbers.push([delta, 8]);
    return 3;
  }
  const change = millis - stepMillis;
  const isShort = BigInt.asIntN(16, change) === change;
  numbers.push(isShort ? [change, 2] : [millis, 4]);
  return isShort ? 1 : 2;
}

function valueFormOf(value: number, bits: bigint, bitsBefore: bigint, numbers: Numbers): number {
  const before = new Float64Array(BigUint64Array.of(bitsBefore).buffer)[0]!;
  const whole = Math.trunc(value - before);
  const again = new BigUint64Array(Float64Array.of(before + whole).buffer)[0]!;
  if (Math.abs(whole) < 2 ** 31 && again === bits) {
    const form = [8, 16, 32].findIndex(
      (width) => BigInt.asIntN(width, BigInt(whole)) === BigInt(whole),
    );
    numbers.push([BigInt(whole), widthsOfValue[form]!]);
    return form;
  }
  numbers.push([bits, 8]);
  return 3;
}

function versionFormOf(delta: bigint, stepMillis: bigint, numbers: Numbers): number {
  if (delta === 0n) return 0;
  const late = delta - stepMillis * versionsPerMilli;
  if (late === 0n) return 5;
  let form = BigInt.asIntN(24, delta) === delta ? 3 : 4;
  if (BigInt.asUintN(16, delta) === delta) form = 1;
  else if (BigInt.asIntN(16, late) === late) form = 2;
  numbers.push([form === 2 ? late : delta, widthsOfVersion[form]!]);
  return form;
}

function putNumber(sink: ByteSink, number: bigint, width: number): void {
  for (let i = 0; i < width; i++) sink.byte(Number((number >> BigInt(8 * i)) & 255n));
}
