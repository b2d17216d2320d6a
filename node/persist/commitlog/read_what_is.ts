/** Reads of a file on a disk that may not be able to read all of it. */
import type { DiskFile } from '#lib/env/env.ts';
import { isUnreadable } from '#lib/env/unreadable.ts';

/** A disk that fails once may read the same bytes when it is asked again. */
const attemptsMax = 3;
/** What a bad sector takes along at least: a page of the system. */
const pieceBytes = 4096;

/**
 * Bytes at the position, fewer only at the end of the file. What the disk cannot read is zeros, so
 * that a bad sector costs no more than the piece that it lies in.
 */
export async function readWhatIs(
  file: DiskFile,
  position: number,
  length: number,
): Promise<Uint8Array> {
  const all = await readSoon(file, position, length);
  if (all !== null) return all;
  const bytes = new Uint8Array(Math.max(0, Math.min(length, (await file.size()) - position)));
  for (let at = 0; at < bytes.length; ) {
    const end = Math.min(bytes.length, at + pieceBytes - ((position + at) % pieceBytes));
    const piece = await readSoon(file, position + at, end - at);
    if (piece !== null) bytes.set(piece, at);
    at = end;
  }
  return bytes;
}

/** The bytes, or null when the disk cannot read them. */
async function readSoon(
  file: DiskFile,
  position: number,
  length: number,
): Promise<Uint8Array | null> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await file.read(position, length);
    } catch (error) {
      if (!isUnreadable(error)) throw error;
      if (attempt === attemptsMax) return null;
    }
  }
}
