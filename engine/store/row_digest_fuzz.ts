/**
 * Holds digests of rows equal to those of their twin, and equal for the same rows whatever chunks
 * these lie in, whatever the order of chunks and of series, and in whatever pieces of time they are
 * digested.
 */
import assert from 'node:assert/strict';
import { countInputs } from '#test/sim/counts.ts';
import { chunkRowsMax, encodeRawChunk, type ChunkRows } from '../codec/chunk.ts';
import { encodeRowsChunk } from '../codec/chunk_rows.ts';
import { encodeFloatChunk, encodeFloatStartsChunk } from '../codec/codec_twin.ts';
import { codecSample, SeededNumbers } from '../codec/samples_testing.ts';
import { mergeChunks } from './chunk_merge.ts';
import { digestSeries, idHashOf, type SeriesDigest } from './row_digest.ts';
import { digestByRows } from './row_digest_twin.ts';

const allTimes = [-(2n ** 63n), 2n ** 63n - 1n] as const;

/** Rows, of which some may have start times. */
interface SomeRows extends ChunkRows {
  readonly startNanos: BigInt64Array | null;
}

/** Rows [first, end) as a chunk of any kind. */
function chunkOf(rows: SomeRows, first: number, end: number, numbers: SeededNumbers): Uint8Array {
  const part = {
    timestampNanos: rows.timestampNanos.slice(first, end),
    values: rows.values.slice(first, end),
    version: rows.version + numbers.below(3),
  };
  const rowVersions = new Float64Array(end - first).fill(part.version);
  if (rows.startNanos !== null) {
    const startNanos = rows.startNanos.slice(first, end);
    return encodeFloatStartsChunk({ ...part, rowVersions, startNanos });
  }
  if (numbers.below(3) === 0) return encodeFloatChunk(part);
  const encode = numbers.below(2) === 0 ? encodeRawChunk : encodeRowsChunk;
  return encode({ ...part, rowVersions });
}

/** All of the rows, cut anywhere, some of them twice, in any order. */
function cutAnyhow(rows: SomeRows, numbers: SeededNumbers): Uint8Array[] {
  const rowCount = rows.timestampNanos.length;
  const parts: Uint8Array[] = [];
  for (let first = 0; first < rowCount; ) {
    const end = Math.min(rowCount, first + 1 + numbers.below(Math.min(rowCount, chunkRowsMax)));
    parts.push(chunkOf(rows, first, end, numbers));
    if (numbers.below(4) === 0) parts.push(chunkOf(rows, first, end, numbers));
    first = end;
  }
  if (numbers.below(2) === 0) parts.reverse();
  return parts;
}

function sum(digests: readonly SeriesDigest[]): { low: bigint; high: bigint } {
  return {
    low: BigInt.asUintN(
      64,
      digests.reduce((all, { low }) => all + low, 0n),
    ),
    high: BigInt.asUintN(
      64,
      digests.reduce((all, { high }) => all + high, 0n),
    ),
  };
}

/** Inputs of a round. */
export const inputsOfRound = 4;

/** @param size rounds of `inputsOfRound` digests */
export function fuzz(seed: number, size: number): void {
  const numbers = new SeededNumbers(seed);
  countInputs('row digest', inputsOfRound * size);
  for (let round = 0; round < size; round++) {
    const rowCount = 1 + numbers.below(numbers.below(100) === 0 ? 3000 : 40);
    const { name, rows: plain } = codecSample(numbers.u32(), rowCount);
    const starts = () => plain.timestampNanos.map((nanos) => [0n, nanos, 7n][numbers.below(3)]!);
    const rows = { ...plain, startNanos: numbers.below(3) === 0 ? starts() : null };
    const label = `${name}, seed ${seed}, round ${round}`;
    const id = Uint8Array.from({ length: 1 + numbers.below(40) }, () => numbers.below(256));
    const parts = cutAnyhow(rows, numbers);
    const whole = digestSeries(id, parts, ...allTimes);
    assert.deepEqual(whole, digestByRows(id, parts, ...allTimes), `twin: ${label}`);
    assert.equal(whole.idHash, idHashOf(id), label);
    const others = [cutAnyhow(rows, numbers), [mergeChunks(parts)], [mergeChunks(parts, true)]];
    for (const other of others) {
      assert.deepEqual(digestSeries(id, other, ...allTimes), whole, `cut otherwise: ${label}`);
    }
    const middle = rows.timestampNanos[numbers.below(rowCount)]! + BigInt(numbers.below(2));
    const pieces = [
      digestSeries(id, parts, allTimes[0], middle),
      digestSeries(id, parts, middle, allTimes[1]),
    ];
    const { low, high } = whole;
    assert.deepEqual(sum(pieces), { low, high }, `in two pieces: ${label}`);
    assertTold(id, rows, numbers, whole, label);
  }
}

/** Another row, value or ID is another digest. */
function assertTold(
  id: Uint8Array,
  rows: SomeRows,
  numbers: SeededNumbers,
  whole: SeriesDigest,
  label: string,
): void {
  const row = numbers.below(rows.timestampNanos.length);
  const values = rows.values.slice();
  new BigUint64Array(values.buffer)[row]! ^= 1n << BigInt(numbers.below(64));
  const chunkOfAll = (columns: SomeRows): Uint8Array =>
    chunkOf(columns, 0, columns.timestampNanos.length, numbers);
  const startNanos = rows.startNanos?.slice() ?? new BigInt64Array(values.length);
  startNanos[row]! += 1n + BigInt(numbers.below(1000));
  const started = digestSeries(id, [chunkOfAll({ ...rows, startNanos })], ...allTimes);
  assert.notEqual(started.low, whole.low, `a start time: ${label}`);
  assert.notEqual(started.high, whole.high, `a start time: ${label}`);
  const changed = digestSeries(id, [chunkOfAll({ ...rows, values })], ...allTimes);
  assert.notEqual(changed.low, whole.low, `a bit of a value: ${label}`);
  assert.notEqual(changed.high, whole.high, `a bit of a value: ${label}`);
  const other = id.slice();
  other[numbers.below(other.length)]! ^= 1 << numbers.below(8);
  const moved = digestSeries(other, [chunkOfAll(rows)], ...allTimes);
  assert.notEqual(moved.low, whole.low, `another ID: ${label}`);
  assert.notEqual(moved.high, whole.high, `another ID: ${label}`);
}
