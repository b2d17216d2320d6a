/**
 * Digests of rows, by which replicas are compared (docs/REPAIR.md). The digest of a set of rows is
 * a sum over its rows, two 64-bit numbers: sets are joined by addition and parted by subtraction.
 */
import { apart, digestTyped, hasTyped } from './typed_chunks.ts';
import { ChunkWorkshop, chunksAt, malformedPart } from './workshop.ts';
import type { StoreExports } from './store_exports.ts';

/** One series in one range of time. */
export interface SeriesDigest {
  /** High 32 bits of the hash of the ID: series are parted into ranges by it. */
  readonly idHash: number;
  /** Both 0 when there are no rows. */
  readonly low: bigint;
  readonly high: bigint;
}

const workshop = new ChunkWorkshop();
const noRange = [0n, 0n] as const;
const wordBytes = 8;

/**
 * The digest of what a series has in [startNanos, endNanos): of its ID and of times, value bits and
 * start times of the rows, of those with one time the one that stays when chunks are merged. Typed rows are digested by
 * themselves, and added. Versions, kinds and
 * borders of chunks make no difference.
 * @throws {TsdbError} BAD_REQUEST when a chunk is malformed, RESOURCE_EXHAUSTED when there are more
 *   than four million rows
 */
export function digestSeries(
  id: Uint8Array,
  parts: readonly Uint8Array[],
  startNanos: bigint,
  endNanos: bigint,
): SeriesDigest {
  const range = [startNanos, endNanos] as const;
  if (hasTyped(parts)) {
    const { floats, typed } = apart(parts);
    const ofFloats = digestSeries(id, floats, startNanos, endNanos);
    const { kernel, out } = workshop.takeIn([], noRange, () => outBytes(id));
    const hash = new BigUint64Array(hashed(kernel, id, out).slice().buffer);
    const ofTyped = digestTyped([hash[0]!, hash[1]!], typed, range);
    return {
      idHash: ofFloats.idHash,
      low: BigInt.asUintN(64, ofFloats.low + ofTyped.low),
      high: BigInt.asUintN(64, ofFloats.high + ofTyped.high),
    };
  }
  const taken = workshop.takeIn(parts, range, () => outBytes(id));
  const { kernel, end, rowCount, chunkCount, work, out } = taken;
  const words = hashed(kernel, id, out);
  const sums = out + 2 * wordBytes;
  const args = [out, chunksAt, end, ...range, rowCount, chunkCount, work, sums] as const;
  if (kernel.digestRows(...args) === -1) throw malformedPart();
  const digest = { idHash: words[1]!, low: numberAt(words, 4), high: numberAt(words, 6) };
  workshop.tidy();
  return digest;
}

/** As `SeriesDigest.idHash`. */
export function idHashOf(id: Uint8Array): number {
  const { kernel, out } = workshop.takeIn([], noRange, () => outBytes(id));
  return hashed(kernel, id, out)[1]!;
}

/** Two words of 64 bits for the hash, two for the sums, and the ID. */
function outBytes(id: Uint8Array): number {
  return 5 * wordBytes + id.length;
}

/** Hashes the ID to `out`. @returns words of 32 bits there */
function hashed(kernel: StoreExports, id: Uint8Array, out: number): Uint32Array {
  const at = out + 4 * wordBytes;
  const bytes = new Uint8Array(workshop.buffer, at, id.length + wordBytes);
  bytes.fill(0, id.length);
  bytes.set(id);
  kernel.hashId(at, id.length, out);
  return new Uint32Array(workshop.buffer, out, 8);
}

function numberAt(words: Uint32Array, at: number): bigint {
  return (BigInt(words[at + 1]!) << 32n) | BigInt(words[at]!);
}
