/**
 * The file `tombstones` of a block: what was deleted of its series and is still in the chunks. Big-endian:
 *
 *     u32 magic | u8 version | for each: uvarint series | varint first ms | varint last ms, inclusive | u32 CRC-32C
 *
 * The checksum is of what stands between the version and itself.
 */
import type { Disk } from '#lib/env/env.ts';
import { checkCrc, FileRanges, u32At } from './file_ranges.ts';
import { Varints } from './varints.ts';

const magic = 0x0130ba30;
const version = 1;
const headerBytes = 5;
const sumBytes = 4;
const fileBytesMax = 256 << 20;

/** Unix milliseconds, both inclusive. */
export interface Interval {
  readonly first: number;
  readonly last: number;
}

export interface Tombstones {
  /** By the number of the series in the index. */
  readonly intervals: ReadonlyMap<number, readonly Interval[]>;
  /** As of `tombstonesDigits`. */
  readonly digits: string;
}

/**
 * Digits by which the file is told from what it was before something was deleted: those of its checksum, '' for nothing that is
 * deleted, or when it is not there.
 * @throws {TsdbError} BAD_REQUEST
 */
export async function tombstonesDigits(disk: Disk, path: string): Promise<string> {
  if ((await disk.size(path)) === null) return '';
  await using file = await FileRanges.open(disk, path);
  return digitsOf(file);
}

async function digitsOf(file: FileRanges): Promise<string> {
  if (file.size <= headerBytes + sumBytes) return '';
  return (await file.u32(file.size - sumBytes)).toString(16).padStart(8, '0');
}

/**
 * None when the file is not there.
 * @throws {TsdbError} BAD_REQUEST
 */
export async function readTombstones(disk: Disk, path: string): Promise<Tombstones> {
  const intervals = new Map<number, Interval[]>();
  if ((await disk.size(path)) === null) return { intervals, digits: '' };
  await using file = await FileRanges.open(disk, path);
  if (file.size > fileBytesMax) throw file.damage(`has more than ${fileBytesMax} bytes`, 0);
  if (file.size < headerBytes + sumBytes) throw file.damage('file is cut off', file.size);
  const bytes = await file.bytes(0, file.size);
  if (u32At(bytes, 0) !== magic) throw file.damage('this is no file of tombstones:', 0);
  if (bytes[4] !== version) throw file.damage(`version is not ${version}: ${bytes[4]}`, 4);
  checkCrc(bytes, headerBytes, 'the tombstones', file.damage);
  const reader = new Varints(bytes, headerBytes, bytes.length - sumBytes, file.damage);
  while (reader.left > 0) {
    const series = reader.unsigned();
    // Deleted for all times is up to the ends of 64 bits, which need not be exact.
    const interval = { first: Number(reader.signedBig()), last: Number(reader.signedBig()) };
    const ofSeries = intervals.get(series);
    if (ofSeries === undefined) intervals.set(series, [interval]);
    else ofSeries.push(interval);
  }
  return { intervals, digits: await digitsOf(file) };
}
