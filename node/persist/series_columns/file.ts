/** The series of a fileset by columns, as a file beside it: made of its index, and read by range. */
import type { Disk } from '#lib/env/env.ts';
import { isUnreadable } from '#lib/env/unreadable.ts';
import { type FilesetKey, seriesColumnsPath } from '../fileset/format.ts';
import type { IndexView } from '../fileset/index.ts';
import { SeriesColumnsCorrupt } from './format.ts';
import { type RangeSource, SeriesColumns } from './series_columns.ts';
import { SeriesColumnsWriter } from './writer.ts';

/** Entries that are collected in one go. */
const entriesAtOnce = 256;

/**
 * @param indexCrc32c checksum of the index
 * @param rest called after each step: others get their turn
 * @returns the file
 * @throws {FilesetCorrupt} when the index is damaged
 */
export async function encodeSeriesColumns(
  index: IndexView,
  indexCrc32c: number,
  rest: () => Promise<void>,
): Promise<Uint8Array> {
  const writer = new SeriesColumnsWriter();
  let count = 0;
  for (const cursor = index.cursor(); cursor.next(); ) {
    writer.add(cursor, cursor.dataOffset, cursor.dataLength, cursor.dataCrc32c);
    if (++count % entriesAtOnce === 0) await rest();
  }
  const parts: Uint8Array[] = [];
  for (const part of writer.finish(indexCrc32c)) {
    if (part !== undefined) parts.push(part.slice());
    await rest();
  }
  return Buffer.concat(parts);
}

export function writeSeriesColumns(
  disk: Disk,
  folder: string,
  key: FilesetKey,
  bytes: Uint8Array,
): Promise<void> {
  return disk.writeFileAtomic(seriesColumnsPath(folder, key), bytes);
}

/** Columns that are in memory alone. */
export function seriesColumnsOf(bytes: Uint8Array): Promise<SeriesColumns> {
  const read = async (position: number, length: number) =>
    bytes.subarray(position, position + length);
  return SeriesColumns.open({ size: bytes.length, heldBytes: bytes.length, read });
}

/**
 * @param indexCrc32c checksum of the index that is meant
 * @returns null when there are none, or they cannot be used: they are made again then
 * @throws what the disk rejects with
 */
export async function openSeriesColumns(
  disk: Disk,
  folder: string,
  key: FilesetKey,
  indexCrc32c: number,
): Promise<SeriesColumns | null> {
  const path = seriesColumnsPath(folder, key);
  const size = await disk.size(path);
  if (size === null) return null;
  try {
    const columns = await SeriesColumns.open(sourceOf(disk, path, size));
    return columns.indexCrc32c === indexCrc32c ? columns : null;
  } catch (error) {
    if (!(error instanceof SeriesColumnsCorrupt)) throw error;
    return null;
  }
}

/** Opened for each range: they are read once, and kept. */
function sourceOf(disk: Disk, path: string, size: number): RangeSource {
  return {
    size,
    read: async (position, length) => {
      try {
        await using file = await disk.open(path, 'read');
        return await file.read(position, length);
      } catch (error) {
        const isMissing = (error as { code?: unknown }).code === 'ENOENT';
        if (!isUnreadable(error) && !isMissing) throw error;
        throw new SeriesColumnsCorrupt(`cannot read columns of series: ${path}`, { cause: error });
      }
    },
  };
}
