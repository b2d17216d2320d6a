/** Texts of an index, by what its series call them: their number (version 2), or where they stand in the file (version 1). */
import { crc32c } from '#lib/hashing/crc32c.ts';
import { damageFrom } from './damage.ts';
import { type FileRanges, u32At } from './file_ranges.ts';
import { Varints } from './varints.ts';

const bytesMax = 1 << 30;
const pieceBytes = 1 << 20;

/** Keeps a byte order mark at the start of a text, so that texts with and without one stay apart. */
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

export interface Symbols {
  /**
   * @param at place of the reference in the index, for an error
   * @throws {TsdbError} BAD_REQUEST when there is none of this reference
   */
  text(reference: number, at: number): string;
}

/**
 * Big-endian: u32 length | u32 count | for each: uvarint length, bytes | u32 CRC-32C of what `length` counts.
 * @throws {TsdbError} BAD_REQUEST
 */
export async function readSymbols(
  file: FileRanges,
  start: number,
  version: number,
): Promise<Symbols> {
  const length = await file.u32(start);
  if (length > bytesMax) throw file.damage(`symbols take more than ${bytesMax} bytes`, start);
  if (length < 4 || length > file.size - start - 8) {
    throw file.damage(`symbols of ${length} bytes are beyond the end of the file`, start);
  }
  const bytes = new Uint8Array(length);
  let crc = 0;
  for (let at = 0; at < length; at += pieceBytes) {
    const piece = await file.bytes(start + 4 + at, Math.min(pieceBytes, length - at));
    crc = crc32c(piece, crc);
    bytes.set(piece, at);
  }
  if (crc !== (await file.u32(start + 4 + length))) {
    throw file.damage('checksum of symbols is not that of their bytes', start + 4 + length);
  }
  const damage = damageFrom(file.damage, start + 4);
  const count = u32At(bytes, 0);
  // Each takes a byte at least.
  if (count > length - 4) throw damage(`there is no room for ${count} symbols`, 0);
  const starts = new Uint32Array(count);
  const reader = new Varints(bytes, 4, length, damage);
  for (let i = 0; i < count; i++) {
    starts[i] = reader.at;
    const textLength = reader.unsigned();
    if (textLength > reader.left) throw damage('symbol is cut off', reader.at);
    reader.at += textLength;
  }
  /** Where it stands in `bytes`. */
  const placeOf = (reference: number): number | undefined => {
    if (version !== 1) return starts[reference];
    const place = reference - start - 4;
    return isIn(starts, place) ? place : undefined;
  };
  return {
    text(reference, at) {
      const place = placeOf(reference);
      if (place === undefined) throw file.damage(`there is no symbol ${reference}, named`, at);
      const symbol = new Varints(bytes, place, length, damage);
      const textLength = symbol.unsigned();
      try {
        return decoder.decode(bytes.subarray(symbol.at, symbol.at + textLength));
      } catch {
        throw damage('symbol is not UTF-8', symbol.at);
      }
    },
  };
}

/** @param sorted ascending */
function isIn(sorted: Uint32Array, wanted: number): boolean {
  let [first, past] = [0, sorted.length];
  while (first < past) {
    const middle = (first + past) >>> 1;
    if (sorted[middle]! < wanted) first = middle + 1;
    else past = middle;
  }
  return sorted[first] === wanted;
}
