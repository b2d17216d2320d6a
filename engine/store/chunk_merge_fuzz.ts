/**
 * Holds merges of chunks equal to a map of timestamps: the same rows, whatever the parts and their
 * order, and the same refusal of damaged ones. One chunk gives the rows that the codec's twin
 * gives, and cuts of it those that a filter of its rows gives.
 */
import assert from 'node:assert/strict';
import { countInputs } from '#test/sim/counts.ts';
import {
  chunkHeaders,
  chunkKind,
  chunkRowsMax,
  encodeRawChunk,
  kindsFloat,
  type ChunkHeader,
  type ChunkRows,
} from '../codec/chunk.ts';
import { encodeRowsChunk } from '../codec/chunk_rows.ts';
import { cutRows, decodeChunk, keepRows, mergeChunks, type RowCut } from './chunk_merge.ts';
import { codecSample, SeededNumbers } from '../codec/samples_testing.ts';
import {
  encodeFloatChunk,
  encodeFloatLagsChunk,
  encodeFloatStartsChunk,
} from '../codec/codec_twin.ts';
import { decodeChunkRows, mergeChunks as mergeByMap } from '../codec/decoder_twin.ts';

const allTimes = [-(2n ** 63n), 2n ** 63n - 1n] as const;
/** Longer parts are refused or merged by the kernel alone: the twin would take long. */
const twinRowsMax = 3000;

const headersOf = (chunks: Uint8Array): ChunkHeader[] => [
  ...chunkHeaders(chunks, 0, chunks.length, kindsFloat),
];

/** Kinds that keep the version of each row. */
const keepsVersions = ({ kind }: ChunkHeader): boolean =>
  kind === chunkKind.floatLags || kind === chunkKind.floatStarts;

/** Some of the rows, with versions of their own unless compressed, and some with start times. */
function partOf(rows: ChunkRows, numbers: SeededNumbers): Uint8Array {
  const kept: number[] = [];
  const keepOf = 1 + numbers.below(4);
  rows.timestampNanos.forEach((_, row) => {
    if (numbers.below(4) < keepOf) kept.push(row);
  });
  if (kept.length === 0) kept.push(0);
  const bits = new BigUint64Array(rows.values.buffer, rows.values.byteOffset, rows.values.length);
  const part = {
    timestampNanos: BigInt64Array.from(kept, (row) => rows.timestampNanos[row]!),
    values: new Float64Array(
      BigUint64Array.from(kept, (row) => bits[row]! ^ BigInt(numbers.below(8) >> 2)).buffer,
    ),
    version: rows.version - numbers.below(3),
  };
  if (numbers.below(3) > 0) return encodeFloatChunk(part);
  const rowVersions = Float64Array.from(kept, () => part.version - numbers.below(4));
  const startNanos = part.timestampNanos.map((nanos) => [0n, nanos, 5n][numbers.below(3)]!);
  const encode = [
    encodeRawChunk,
    encodeRowsChunk,
    encodeFloatLagsChunk,
    encodeFloatStartsChunk,
    encodeFloatStartsChunk,
  ][numbers.below(5)]!;
  return encode({ ...part, rowVersions, startNanos });
}

function refusedOr<Answer>(merge: () => Answer): Answer | 'refused' {
  try {
    return merge();
  } catch (error) {
    assert.equal((error as { code?: string }).code, 'BAD_REQUEST', String(error));
    return 'refused';
  }
}

function assertSame(parts: readonly Uint8Array[], label: string): void {
  const merged = refusedOr(() => mergeChunks(parts));
  const wanted = refusedOr(() => mergeByMap(new Uint8Array(Buffer.concat(parts)), ...allTimes));
  if (merged === 'refused' || wanted === 'refused') {
    assert.equal(merged, wanted, `one refuses: ${label}`);
    return;
  }
  const keepsRowVersions = parts.some((part) => headersOf(part).some(keepsVersions));
  const { timestampNanos, values, rowVersions, startNanos } = mergeByMap(merged, ...allTimes);
  assertSameBytes(startNanos.buffer, wanted.startNanos.buffer, `starts of ${label}`);
  assertSameBytes(timestampNanos.buffer, wanted.timestampNanos.buffer, `times of ${label}`);
  assertSameBytes(values.buffer, wanted.values.buffer, `values of ${label}`);
  if (keepsRowVersions) {
    assertSameBytes(rowVersions.buffer, wanted.rowVersions.buffer, `versions of ${label}`);
  }
  let row = 0;
  for (const { kind, rowCount, version } of headersOf(merged)) {
    const hasStarts: boolean = wanted.startNanos
      .subarray(row, row + rowCount)
      .some((start) => start !== 0n);
    const versioned: number = hasStarts ? chunkKind.floatStarts : chunkKind.floatLags;
    assert.equal(kind, keepsRowVersions ? versioned : chunkKind.float);
    const own = wanted.rowVersions.subarray(row, row + rowCount);
    const highest = own.reduce((most, of) => Math.max(most, of), 0);
    if (keepsRowVersions) assert.ok(version >= highest, `version of ${label}`);
    else assert.equal(version, highest, `version of ${label}`);
    row += rowCount;
  }
  assert.ok(rowVersions.length <= chunkRowsMax * parts.length);
}

function assertDecoded(part: Uint8Array, label: string): void {
  const headers = refusedOr(() => headersOf(part));
  if (headers === 'refused' || headers.length !== 1) return;
  const rows = refusedOr(() => decodeChunk(part));
  const wanted = refusedOr(() => decodeChunkRows(part, headers[0]!));
  if (rows === 'refused' || wanted === 'refused') {
    assert.equal(rows, wanted, `one refuses: rows of ${label}`);
    return;
  }
  assert.equal(rows.version, wanted.version, `version of ${label}`);
  assertSameBytes(rows.timestampNanos.buffer, wanted.timestampNanos.buffer, `times of ${label}`);
  assertSameBytes(rows.values.buffer, wanted.values.buffer, `values of ${label}`);
  assertSameBytes(rows.rowVersions.buffer, wanted.rowVersions.buffer, `versions of ${label}`);
  const starts = rows.startNanos ?? new BigInt64Array(wanted.startNanos.length);
  assertSameBytes(starts.buffer, wanted.startNanos.buffer, `starts of ${label}`);
}

/** A chunk is cut as its rows are. */
function assertCut(part: Uint8Array, numbers: SeededNumbers, label: string): void {
  const headers = refusedOr(() => headersOf(part));
  if (headers === 'refused' || headers.length !== 1) return;
  const [{ firstNanos, lastNanos }] = headers as [(typeof headers)[0]];
  const span = lastNanos - firstNanos;
  const timeInside = (): bigint => firstNanos + (span * BigInt(numbers.below(101))) / 100n;
  const [startNanos, endNanos] = [timeInside(), timeInside() + BigInt(numbers.below(2))];
  const kept = refusedOr(() => keepRows(part, startNanos, endNanos));
  const all = refusedOr(() => mergeByMap(part, ...allTimes));
  if (kept === 'refused' || all === 'refused') {
    assert.equal(kept, all, `one refuses: cut of ${label}`);
    return;
  }
  const rows = mergeByMap(kept, ...allTimes);
  const places = [...all.timestampNanos.keys()].filter((row) => {
    const nanos = all.timestampNanos[row]!;
    return nanos >= startNanos && nanos < endNanos;
  });
  const [first = 0] = places;
  const range = [first, first + places.length] as const;
  assert.deepEqual(rows.timestampNanos, all.timestampNanos.slice(...range), `times: ${label}`);
  assertSameBytes(rows.values.buffer, all.values.slice(...range).buffer, `values: ${label}`);
  const starts = all.startNanos.slice(...range).buffer;
  assertSameBytes(rows.startNanos.buffer, starts, `starts: ${label}`);
  const versions = all.rowVersions.slice(...range).buffer;
  assertSameBytes(rows.rowVersions.buffer, versions, `versions: ${label}`);
}

/** Deletions take off a chunk the rows that a filter takes off. */
function assertDeleted(part: Uint8Array, numbers: SeededNumbers, label: string): void {
  const headers = refusedOr(() => headersOf(part));
  if (headers === 'refused' || headers.length !== 1 || !keepsVersions(headers[0]!)) return;
  const [{ firstNanos, lastNanos, version }] = headers as [(typeof headers)[0]];
  const span = lastNanos - firstNanos;
  const cuts: RowCut[] = Array.from({ length: numbers.below(3) }, () => {
    const startNanos = firstNanos + (span * BigInt(numbers.below(101) - 20)) / 100n;
    const endNanos = startNanos + (span * BigInt(numbers.below(150))) / 100n + 1n;
    return { startNanos, endNanos, version: Math.max(version - numbers.below(6), 0) };
  });
  const kept = refusedOr(() => cutRows(part, cuts));
  const all = refusedOr(() => mergeByMap(part, ...allTimes));
  if (kept === 'refused' || all === 'refused') {
    assert.equal(kept, all, `one refuses: deletions of ${label}`);
    return;
  }
  const places = [...all.timestampNanos.keys()].filter((row) => {
    const nanos = all.timestampNanos[row]!;
    return !cuts.some(
      (cut) =>
        nanos >= cut.startNanos && nanos < cut.endNanos && all.rowVersions[row]! <= cut.version,
    );
  });
  if (places.length === all.timestampNanos.length) assert.equal(kept, part);
  const rows = mergeByMap(kept, ...allTimes);
  for (const column of ['timestampNanos', 'values', 'rowVersions', 'startNanos'] as const) {
    const from = new BigUint64Array(all[column].buffer, all[column].byteOffset, all[column].length);
    const wanted = BigUint64Array.from(places, (row) => from[row]!);
    assertSameBytes(rows[column].slice().buffer, wanted.buffer, `${column} left of ${label}`);
  }
}

/** Comparing bytes first makes millions of inputs possible. */
function assertSameBytes(actual: ArrayBufferLike, wanted: ArrayBufferLike, label: string): void {
  if (Buffer.from(actual).equals(Buffer.from(wanted))) return;
  assert.deepEqual(new BigUint64Array(actual), new BigUint64Array(wanted), label);
}

function rowCountOf(parts: readonly Uint8Array[]): number {
  let rows = 0;
  try {
    for (const part of parts) for (const { rowCount } of headersOf(part)) rows += rowCount;
  } catch {
    return rows;
  }
  return rows;
}

/** Mutations of each set of parts, and how many inputs each round has in all. */
const mutationCount = 11;
export const inputsOfRound: number = mutationCount + 1;

/** @param size how many rounds of `inputsOfRound` merges */
export function fuzz(seed: number, size: number): void {
  const { stackTraceLimit } = Error;
  // Most inputs are refused by an error that nobody looks at.
  Error.stackTraceLimit = 0;
  try {
    fuzzRounds(seed, size);
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

function fuzzRounds(seed: number, size: number): void {
  const numbers = new SeededNumbers(seed);
  countInputs('chunk merge', inputsOfRound * size);
  for (let round = 0; round < size; round++) {
    const isLong = numbers.below(1000) === 0;
    const rowCount = 1 + numbers.below(isLong ? 9000 : 30);
    const { name, rows } = codecSample(numbers.u32(), rowCount);
    const label = `${name}, seed ${seed}, round ${round}`;
    const parts = Array.from({ length: numbers.below(5) }, () => partOf(rows, numbers));
    assertSame(parts, label);
    if (parts.length > 0) assertCut(parts[0]!, numbers, label);
    if (parts.length > 0) assertDeleted(parts[0]!, numbers, label);
    if (parts.length > 0) assertDecoded(parts[0]!, label);
    if (parts.length === 0 || isLong) continue;
    const place = numbers.below(parts.length);
    const good = parts[place]!;
    for (let count = 0; count < mutationCount; count++) {
      const bad = good.slice();
      for (let flips = 1 + numbers.below(3); flips > 0; flips--) {
        bad[numbers.below(bad.length)]! ^= 1 << numbers.below(8);
      }
      parts[place] = bad;
      if (rowCountOf(parts) <= twinRowsMax) {
        assertSame(parts, `damaged ${label}`);
        assertCut(bad, numbers, `damaged ${label}`);
        assertDeleted(bad, numbers, `damaged ${label}`);
        assertDecoded(bad, `damaged ${label}`);
      } else refusedOr(() => mergeChunks(parts));
    }
  }
}
