/** Chunks of entries of one fileset, read from its data file. */
import { crc32c } from '#lib/hashing/crc32c.ts';
import { FilesetCorrupt } from '../../persist/fileset/format.ts';
import type { FileCache } from '../filesets/file_cache.ts';
import type { BlockFile } from '../filesets/block_file.ts';
import type { NamespaceFiles } from '../filesets/namespace_files.ts';

/** Entries that are nearer than this in a file are read in one go, up to so many bytes. */
const gapBytesMax = 16 * 1024;
export const runBytesMax: number = 4 * 1024 * 1024;

/** Entries in the order of the file. */
export interface EntryRanges {
  readonly offsets: Float64Array;
  readonly lengths: Uint32Array;
  readonly checksums: Uint32Array;
}

/**
 * Reads ranges of the data file, near ones in one go, and compares each entry's checksum.
 * @param file pinned
 * @param targets where the chunks of each entry go in `out`
 * @returns whether all of them could be read: what could not is noted as damage
 */
export async function readEntries(
  cache: FileCache,
  files: NamespaceFiles,
  file: BlockFile,
  { offsets, lengths, checksums }: EntryRanges,
  out: Uint8Array,
  targets: Uint32Array,
): Promise<boolean> {
  let isWhole = true;
  for (let first = 0; first < offsets.length; ) {
    const start = offsets[first]!;
    let end = start;
    let last = first;
    for (; last < offsets.length; last += 1) {
      if (offsets[last]! - end > gapBytesMax) break;
      if (last > first && offsets[last]! + lengths[last]! - start > runBytesMax) break;
      end = offsets[last]! + lengths[last]!;
    }
    const bytes = await readRun(cache, files, file, start, end);
    if (bytes === null) return false;
    for (; first < last; first += 1) {
      const from = offsets[first]! - start;
      const chunk = bytes.subarray(from, from + lengths[first]!);
      if (chunk.length !== lengths[first] || crc32c(chunk) !== checksums[first]) {
        files.noteDamage(file, offsets[first]!);
        isWhole = false;
        continue;
      }
      out.set(chunk, targets[first]);
    }
  }
  return isWhole;
}

async function readRun(
  cache: FileCache,
  files: NamespaceFiles,
  file: BlockFile,
  start: number,
  end: number,
): Promise<Uint8Array | null> {
  try {
    return await cache.read(file, start, end);
  } catch (error) {
    if (!isMissing(error)) throw error;
    // Otherwise its folder was removed meanwhile.
    if (file.retired === null) files.setAside(file, 'file is missing');
    return null;
  }
}

function isMissing(error: unknown): boolean {
  const cause = error instanceof FilesetCorrupt ? error.cause : error;
  return (cause as { code?: unknown } | undefined)?.code === 'ENOENT';
}
