/**
 * Digests of the rows of a fileset, as a file beside it (docs/formats/rows.md). It is made when
 * replicas are compared, belongs to no checkpoint, and is made again when it is lost.
 */
import type { Disk } from '#lib/env/env.ts';
import { isUnreadable } from '#lib/env/unreadable.ts';
import { crc32c } from '#lib/hashing/crc32c.ts';
import { type FilesetKey, rowDigestPath } from './format.ts';

/** What the rows of one block add up to, by ranges of series. */
export interface StoredRowDigest {
  readonly blockStartNanos: bigint;
  /** Two sums for each of 2^rangeBits ranges. */
  readonly rangeBits: number;
  readonly sums: BigUint64Array;
}

const magic = 'tsdbrows';
const formatVersion = 1;
const headerBytes = 24;
const blockHeaderBytes = 16;
const rangeBytes = 16;
const rangeBitsMax = 16;

function encode(indexCrc32c: number, blocks: readonly StoredRowDigest[]): Uint8Array {
  const bodyBytes = blocks.reduce((sum, { sums }) => sum + blockHeaderBytes + sums.byteLength, 0);
  const bytes = new Uint8Array(headerBytes + bodyBytes);
  const view = new DataView(bytes.buffer);
  bytes.set(new TextEncoder().encode(magic), 0);
  view.setUint32(8, formatVersion, true);
  view.setUint32(16, indexCrc32c, true);
  view.setUint32(20, blocks.length, true);
  let at = headerBytes;
  for (const { blockStartNanos, rangeBits, sums } of blocks) {
    view.setBigInt64(at, blockStartNanos, true);
    view.setUint32(at + 8, rangeBits, true);
    bytes.set(new Uint8Array(sums.buffer, sums.byteOffset, sums.byteLength), at + blockHeaderBytes);
    at += blockHeaderBytes + sums.byteLength;
  }
  view.setUint32(12, crc32c(bytes, 0, 16), true);
  return bytes;
}

/** @returns null when it is not whole, or of another fileset or version */
function decode(bytes: Uint8Array, indexCrc32c: number): StoredRowDigest[] | null {
  if (bytes.length < headerBytes) return null;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const isWhole =
    new TextDecoder('latin1').decode(bytes.subarray(0, 8)) === magic &&
    view.getUint32(8, true) === formatVersion &&
    view.getUint32(12, true) === crc32c(bytes, 0, 16) &&
    view.getUint32(16, true) === indexCrc32c;
  if (!isWhole) return null;
  const blocks: StoredRowDigest[] = [];
  let at = headerBytes;
  for (let left = view.getUint32(20, true); left > 0; left -= 1) {
    if (blockHeaderBytes > bytes.length - at) return null;
    const blockStartNanos = view.getBigInt64(at, true);
    const rangeBits = view.getUint32(at + 8, true);
    at += blockHeaderBytes;
    if (rangeBits > rangeBitsMax || rangeBytes << rangeBits > bytes.length - at) return null;
    const end = at + (rangeBytes << rangeBits);
    blocks.push({
      blockStartNanos,
      rangeBits,
      sums: new BigUint64Array(bytes.slice(at, end).buffer),
    });
    at = end;
  }
  return at === bytes.length ? blocks : null;
}

/**
 * @param indexCrc32c checksum of the fileset's index, which has those of all chunks: tells which
 *   rows are meant
 * @throws what the disk rejects with
 */
export async function writeRowDigests(
  disk: Disk,
  folder: string,
  key: FilesetKey,
  indexCrc32c: number,
  blocks: readonly StoredRowDigest[],
): Promise<void> {
  await disk.writeFileAtomic(rowDigestPath(folder, key), encode(indexCrc32c, blocks));
}

/** @returns null when there are none, or they cannot be used: they are made again then */
export async function readRowDigests(
  disk: Disk,
  folder: string,
  key: FilesetKey,
  indexCrc32c: number,
): Promise<StoredRowDigest[] | null> {
  const path = rowDigestPath(folder, key);
  if ((await disk.size(path)) === null) return null;
  try {
    return decode(await disk.readFile(path), indexCrc32c);
  } catch (error) {
    if (!isUnreadable(error)) throw error;
    return null;
  }
}
