/** Lines of new names take long: others get their turns between some of them. */
import type { Work } from '#lib/turns/turns.ts';

/** Of lines that are read in one go, about. */
const pieceBytes = 4096;
/** What a byte of a line of a new name takes, in units of work (lib/turns/turns.ts). */
const byteUnits = 20;
const lineFeed = 0x0a;

/** @param read takes whole lines */
export async function readInTurns(
  lines: Uint8Array,
  work: Work,
  read: (some: Uint8Array) => void,
): Promise<void> {
  for (let from = 0; from < lines.length; ) {
    const feed = lines.indexOf(lineFeed, from + pieceBytes);
    const end = feed < 0 ? lines.length : feed + 1;
    read(lines.subarray(from, end));
    if (work.spend((end - from) * byteUnits)) await work.pause();
    from = end;
  }
}
