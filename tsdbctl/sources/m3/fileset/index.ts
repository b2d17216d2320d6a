/** The index of a fileset of M3: an entry for each series, by their IDs. */
import type { DiskFile } from '#lib/env/env.ts';
import { badRequest } from '#lib/errors.ts';
import { adler32 } from '../bytes/adler32.ts';
import { checkSum, FileBytes } from '../bytes/file_bytes.ts';
import { MessageReader, objectTypes } from '../bytes/msgpack.ts';

export interface IndexEntry {
  readonly id: Uint8Array;
  /** Empty when there are none. */
  readonly encodedTags: Uint8Array;
  /** Where its stream is in the data file. */
  readonly offset: number;
  readonly bytes: number;
  /** Of the stream. */
  readonly sum: number;
}

/** Bytes that are read for an entry at first; there are few of more. */
const entryBytesFirst = 1 << 16;
const entryBytesMax = 1 << 24;

/** Those of the first releases; then came tags, and then a checksum of the entry. */
const fieldsMin = 5;
const fieldsWithTags = 6;
const fieldsWithSum = 7;

/**
 * @param count how many there are
 * @throws {TsdbError} BAD_REQUEST when there are fewer or more, or one is damaged
 */
export async function* readIndex(file: DiskFile, count: number): AsyncGenerator<IndexEntry> {
  const bytes = new FileBytes(file);
  for (let at = 0; at < count; at += 1) {
    let decoded: DecodedEntry | null = null;
    for (let wanted = entryBytesFirst; decoded === null; wanted *= 2) {
      const isEnd = !bytes.holds(wanted) && !(await bytes.reads(wanted));
      decoded = decodeEntry(bytes.next);
      if (decoded !== null) break;
      if (isEnd) throw badRequest(`file ends within the entry ${at + 1} of ${count}`);
      if (wanted >= entryBytesMax) {
        throw badRequest(`entry ${at + 1} of ${count} is longer than ${entryBytesMax} bytes`);
      }
    }
    bytes.use(decoded.length);
    yield decoded.entry;
  }
  if (await bytes.reads(1)) throw badRequest(`file has more than ${count} entries`);
}

interface DecodedEntry {
  readonly entry: IndexEntry;
  readonly length: number;
}

/** @returns null when it is cut off */
function decodeEntry(from: Uint8Array): DecodedEntry | null {
  const reader = new MessageReader(from);
  const fields = reader.object(objectTypes.indexEntry, fieldsMin);
  reader.whole();
  const id = reader.bytes();
  const bytes = reader.number();
  const offset = reader.number();
  const sum = reader.number();
  const encodedTags = fields >= fieldsWithTags ? reader.bytes() : new Uint8Array();
  if (fields >= fieldsWithSum) {
    // The checksum is the last field, whatever was added before it.
    reader.skip(fields - fieldsWithSum);
    const end = reader.at;
    const entrySum = reader.number();
    if (!reader.isCutOff) checkSum(adler32(from.subarray(0, end)), entrySum);
  }
  if (reader.isCutOff) return null;
  if (bytes < 0 || offset < 0)
    throw badRequest(`place of a stream is negative: ${offset}, ${bytes}`);
  return { entry: { id, encodedTags, offset, bytes, sum }, length: reader.at };
}
