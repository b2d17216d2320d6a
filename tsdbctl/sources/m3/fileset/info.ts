/**
 * What a fileset of M3 says about itself. Its checkpoint has the sum of the file of digests, that has
 * the sums of the others, and the info file tells the block and how many series there are.
 */
import type { Disk } from '#lib/env/env.ts';
import { badRequest } from '#lib/errors.ts';
import { naming } from '../../naming.ts';
import { readSmallFile } from '../bytes/file_bytes.ts';
import { MessageReader, objectTypes } from '../bytes/msgpack.ts';

/** Bytes of a checkpoint that was written to its end. */
export const checkpointBytes = 4;

const digestsBytes = 20;
const infoBytesMax = 1 << 16;

/** Sums in the file of digests, one after the other; of summaries and bloom filter nothing is read. */
const infoDigest = 0;
const indexDigest = 1;
const dataDigest = 4;

const fieldsMin = 6;

export interface FilesetInfo {
  readonly blockStartNanos: bigint;
  readonly blockNanos: bigint;
  /** Series in it. */
  readonly entries: number;
  readonly indexSum: number;
  readonly dataSum: number;
}

/**
 * @param prefix path of the files to before `info.db`
 * @throws {TsdbError} BAD_REQUEST when a file is damaged
 */
export async function readFilesetInfo(disk: Disk, prefix: string): Promise<FilesetInfo> {
  const words = async (name: string, bytes: number, sum: number | null): Promise<DataView> => {
    const path = `${prefix}${name}.db`;
    const read = await readSmallFile(disk, path, { bytesMin: bytes, bytesMax: bytes, sum });
    return new DataView(read.buffer, read.byteOffset, read.length);
  };
  const checkpoint = await words('checkpoint', checkpointBytes, null);
  const digests = await words('digest', digestsBytes, checkpoint.getUint32(0, true));
  const sumOf = (file: number): number => digests.getUint32(4 * file, true);
  const path = `${prefix}info.db`;
  const bytes = await readSmallFile(disk, path, {
    bytesMin: 0,
    bytesMax: infoBytesMax,
    sum: sumOf(infoDigest),
  });
  return naming(path, async () => ({
    ...decodeInfo(bytes),
    indexSum: sumOf(indexDigest),
    dataSum: sumOf(dataDigest),
  }));
}

function decodeInfo(
  bytes: Uint8Array,
): Pick<FilesetInfo, 'blockStartNanos' | 'blockNanos' | 'entries'> {
  const reader = new MessageReader(bytes);
  reader.object(objectTypes.indexInfo, fieldsMin);
  const blockStartNanos = reader.bigint();
  const blockNanos = reader.bigint();
  const entries = reader.number();
  const majorVersion = reader.number();
  if (reader.isCutOff) throw badRequest(`file is cut off: ${bytes.length} bytes`);
  if (majorVersion > 1) throw badRequest(`version of the fileset is above 1: ${majorVersion}`);
  if (blockNanos <= 0n) throw badRequest(`size of the block is not positive: ${blockNanos}`);
  if (entries < 0) throw badRequest(`number of series is negative: ${entries}`);
  return { blockStartNanos, blockNanos, entries };
}
