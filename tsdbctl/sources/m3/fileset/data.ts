/** Streams of a fileset of M3, which stand in the data file in the order in which they came. */
import type { DiskFile } from '#lib/env/env.ts';
import { badRequest } from '#lib/errors.ts';
import { adler32 } from '../bytes/adler32.ts';
import { checkSum } from '../bytes/file_bytes.ts';
import { streamBytesMax } from '../m3tsz/bits.ts';
import type { IndexEntry } from './index.ts';

/** Bytes of streams that are in memory together, but for one that is longer. */
const windowBytesMax = 1 << 24;
const windowEntriesMax = 4096;

/** A gap between two streams that is read, too, rather than to read twice. */
const gapBytesMax = 4096;

/**
 * Entries with their streams, in the order of the entries.
 * @throws {TsdbError} BAD_REQUEST when one is not in the file, or damaged
 */
export async function* readStreams(
  file: DiskFile,
  entries: AsyncIterable<IndexEntry>,
): AsyncGenerator<{ readonly entry: IndexEntry; readonly stream: Uint8Array }> {
  const fileBytes = await file.size();
  let held: IndexEntry[] = [];
  let heldBytes = 0;
  const window = async () => {
    const streams = await readWindow(file, held);
    const read = held.map((entry) => ({ entry, stream: streams.get(entry)! }));
    held = [];
    heldBytes = 0;
    return read;
  };
  for await (const entry of entries) {
    if (entry.bytes > fileBytes - Math.min(entry.offset, fileBytes)) {
      throw badRequest(
        `stream is behind the end of the file of ${fileBytes} bytes: ${entry.bytes} bytes at ${entry.offset}`,
      );
    }
    if (entry.bytes > streamBytesMax) {
      throw badRequest(`stream is longer than ${streamBytesMax} bytes: ${entry.bytes}`);
    }
    const isFull = heldBytes + entry.bytes > windowBytesMax || held.length === windowEntriesMax;
    if (isFull) yield* await window();
    held.push(entry);
    heldBytes += entry.bytes;
  }
  yield* await window();
}

async function readWindow(
  file: DiskFile,
  entries: readonly IndexEntry[],
): Promise<ReadonlyMap<IndexEntry, Uint8Array>> {
  const streams = new Map<IndexEntry, Uint8Array>();
  const byOffset = entries.toSorted((a, b) => a.offset - b.offset);
  for (let at = 0; at < byOffset.length; ) {
    const start = byOffset[at]!.offset;
    let end = start + byOffset[at]!.bytes;
    let next = at + 1;
    for (; next < byOffset.length; next += 1) {
      const { offset, bytes } = byOffset[next]!;
      if (offset - end > gapBytesMax) break;
      end = Math.max(end, offset + bytes);
    }
    const range = await file.read(start, end - start);
    for (; at < next; at += 1) {
      const entry = byOffset[at]!;
      const from = entry.offset - start;
      const stream = range.subarray(from, from + entry.bytes);
      checkSum(adler32(stream), entry.sum);
      streams.set(entry, stream);
    }
  }
  return streams;
}
