/**
 * Reads a commit log segment that may be torn, damaged or unreadable: a record counts when its
 * marker and checksum are right. After damage the next good record is looked for, so that one bad
 * sector costs the rows in it and nothing else.
 */
import type { Disk, DiskFile } from '#lib/env/env.ts';
import { isUnreadable } from '#lib/env/unreadable.ts';
import {
  batchPrefixBytes,
  type DictionaryEntry,
  decodeChunks,
  decodeDictionary,
  decodeMark,
  decodeMarkSince,
  decodeSegmentHeader,
  markerOf,
  type MarkSince,
  paddedLength,
  recordChecksum,
  recordHeaderBytes,
  recordKind,
  recordPayloadBytesMax,
  type SegmentHeader,
  type SegmentMark,
  type SeriesChunks,
  saltOfMarker,
  segmentHeaderBytes,
} from './format.ts';
import { readWhatIs } from './read_what_is.ts';

export type LogRecord =
  | {
      readonly kind: 'namespace';
      readonly ordinal: number;
      readonly name: string;
      /**
       * Revision of the key-value store that created the namespace: tells two of one name apart.
       */
      readonly createRevision: number;
    }
  | {
      readonly kind: 'series';
      readonly namespaceOrdinal: number;
      readonly entries: readonly DictionaryEntry[];
    }
  | { readonly kind: 'batch'; readonly namespaceOrdinal: number; readonly batch: Uint8Array }
  /** JSON as `appliedFromJson` reads it. */
  | { readonly kind: 'delete'; readonly namespaceOrdinal: number; readonly json: string }
  | { readonly kind: 'truncate'; readonly namespaceOrdinal: number; readonly atNanos: bigint }
  | {
      readonly kind: 'chunks';
      readonly namespaceOrdinal: number;
      readonly series: readonly SeriesChunks[];
    }
  | {
      readonly kind: 'kept';
      readonly namespaceOrdinal: number;
      readonly segments: readonly number[];
    }
  | ({
      readonly kind: 'mark';
      /** Where the record begins in the file. */
      readonly at: number;
    } & SegmentMark)
  | ({ readonly kind: 'markSince' } & MarkSince)
  | { readonly kind: 'end'; readonly seriesCount: number; readonly chunkBytes: number }
  /** Its checksum is right, and its lengths are not those of its kind. */
  | { readonly kind: 'malformed' };

/** What was skipped of a segment. */
export interface SegmentProblem {
  readonly path: string;
  /**
   * 'torn tail': nothing good follows, as after a crash in the middle of a write. 'no records': the
   * header is damaged, and nothing good follows.
   */
  readonly kind: 'torn tail' | 'corrupt records' | 'corrupt header' | 'no records';
  /** Bytes [start, end) of the file. */
  readonly start: number;
  readonly end: number;
}

/** Bytes read at once. */
const windowBytes = 4 * 1024 * 1024;

/** The header of a segment, or why it has none that is whole. */
export async function readSegmentHeader(disk: Disk, path: string): Promise<SegmentHeader | string> {
  try {
    await using file = await disk.open(path, 'read');
    return decodeSegmentHeader(await readWhatIs(file, 0, segmentHeaderBytes));
  } catch (error) {
    if (!isUnreadable(error)) throw error;
    return 'the disk cannot read it';
  }
}

/**
 * All good records in order. Their bytes are borrowed until the next one is asked for.
 *
 * @param report called once for each damaged or torn range, when it was passed
 */
export async function* readSegment(
  disk: Disk,
  path: string,
  report: (problem: SegmentProblem) => void,
): AsyncGenerator<LogRecord, void, undefined> {
  const file = await openWhatIs(disk, path);
  if (file === null) {
    report({ path, kind: 'no records', start: 0, end: (await disk.size(path)) ?? 0 });
    return;
  }
  await using _ = file;
  const window = new Window(file, await file.size());
  if (window.fileSize < segmentHeaderBytes) {
    if (window.fileSize > 0) report({ path, kind: 'torn tail', start: 0, end: window.fileSize });
    return;
  }
  await window.load(0, segmentHeaderBytes);
  const header = decodeSegmentHeader(window.bytes.subarray(0, segmentHeaderBytes));
  let salt: number;
  if (typeof header !== 'string') salt = header.salt;
  else {
    const found = await saltOfRecords(window);
    if (found === null) {
      report({ path, kind: 'no records', start: 0, end: window.fileSize });
      return;
    }
    report({ path, kind: 'corrupt header', start: 0, end: segmentHeaderBytes });
    salt = found;
  }
  let at = segmentHeaderBytes;
  /** Start of the damage that the search is in, or -1. */
  let damageStart = -1;
  while (at < window.fileSize) {
    const length = await goodRecordLength(window, at, salt);
    if (length === -1) {
      if (damageStart === -1) damageStart = at;
      at = await nextMarker(window, at + 8, salt);
      continue;
    }
    if (damageStart !== -1) {
      report({ path, kind: 'corrupt records', start: damageStart, end: at });
      damageStart = -1;
    }
    const record = decodeRecord(window, at - window.start, length);
    if (record !== null) yield record;
    at += recordHeaderBytes + paddedLength(length);
  }
  if (damageStart !== -1) {
    report({ path, kind: 'torn tail', start: damageStart, end: window.fileSize });
  }
}

/** The file, or null when the disk cannot read what it takes to open it. */
async function openWhatIs(disk: Disk, path: string): Promise<DiskFile | null> {
  try {
    return await disk.open(path, 'read');
  } catch (error) {
    if (!isUnreadable(error)) throw error;
    return null;
  }
}

/** Kinds that a record may have, also of later versions. */
const kindMax = 63;
/** Bytes that are compared with checksums, in file sizes, before the salt is given up. */
const saltFileSizesMax = 4;

/**
 * The salt of a segment whose header is damaged, or null. It stands in every marker, and a wrong
 * guess finds no record with a right checksum.
 */
async function saltOfRecords(window: Window): Promise<number | null> {
  let bytesLeft = saltFileSizesMax * window.fileSize;
  const end = window.fileSize - recordHeaderBytes;
  for (let at = segmentHeaderBytes; at <= end && bytesLeft > 0; at += 8) {
    await window.load(at, recordHeaderBytes);
    const index = at - window.start;
    const kind = window.view.getUint32(index + 12, true);
    const length = window.view.getUint32(index + 8, true);
    if (kind === 0 || kind > kindMax || length > end - at) continue;
    const salt = saltOfMarker(window.view.getUint32(index, true));
    if ((await goodRecordLength(window, at, salt)) !== -1) return salt;
    bytesLeft -= length;
  }
  return null;
}

/** The part of a file that is in memory. */
class Window {
  readonly #file: DiskFile;
  readonly fileSize: number;
  /** Multiple of eight, so that batches lie aligned in memory as in the file. */
  start = 0;
  bytes: Uint8Array = new Uint8Array(0);
  view: DataView = new DataView(new ArrayBuffer(0));

  constructor(file: DiskFile, fileSize: number) {
    this.#file = file;
    this.fileSize = fileSize;
  }

  /** Bytes in memory from `position` on. */
  available(position: number): number {
    return this.start + this.bytes.length - position;
  }

  /**
   * Has `length` bytes from `position`, a multiple of eight, in memory, or as many as the file has.
   */
  async load(position: number, length: number): Promise<void> {
    if (position >= this.start && this.available(position) >= length) return;
    if (position >= this.start && this.start + this.bytes.length >= this.fileSize) return;
    const wanted = Math.min(Math.max(length, windowBytes), this.fileSize - position);
    this.bytes = await readWhatIs(this.#file, position, Math.max(wanted, 0));
    this.view = new DataView(this.bytes.buffer, this.bytes.byteOffset, this.bytes.byteLength);
    this.start = position;
  }
}

/** Payload length of the record at `at` when it is whole and right, else -1. */
async function goodRecordLength(window: Window, at: number, salt: number): Promise<number> {
  if (window.fileSize - at < recordHeaderBytes) return -1;
  await window.load(at, recordHeaderBytes);
  if (window.available(at) < recordHeaderBytes) return -1;
  if (window.view.getUint32(at - window.start, true) !== markerOf(salt)) return -1;
  const length = window.view.getUint32(at - window.start + 8, true);
  if (length > recordPayloadBytesMax) return -1;
  if (length > window.fileSize - at - recordHeaderBytes) return -1;
  await window.load(at, recordHeaderBytes + length);
  if (window.available(at) < recordHeaderBytes + length) return -1;
  const start = at - window.start;
  const checksum = recordChecksum(window.bytes, start, length, salt);
  return checksum === window.view.getUint32(start + 4, true) ? length : -1;
}

/** Next position, a multiple of eight, where a marker stands, or the end of the file. */
async function nextMarker(window: Window, from: number, salt: number): Promise<number> {
  const marker = markerOf(salt);
  let at = from;
  while (window.fileSize - at >= recordHeaderBytes) {
    await window.load(at, recordHeaderBytes);
    const end = window.bytes.length - 4;
    let index = at - window.start;
    while (index <= end && window.view.getUint32(index, true) !== marker) index += 8;
    if (index <= end) return window.start + index;
    if (index === at - window.start) break;
    at = window.start + index;
  }
  return window.fileSize;
}

const malformed: LogRecord = { kind: 'malformed' };

/** The record, or null when its kind is of a later version. */
function decodeRecord(window: Window, start: number, length: number): LogRecord | null {
  const kind = window.view.getUint32(start + 12, true);
  const lengthMin = payloadBytesMin.get(kind);
  if (lengthMin === undefined) return null;
  if (length < lengthMin) return malformed;
  return recordOf(window, kind, start + recordHeaderBytes, length);
}

/** By kind. */
const payloadBytesMin: ReadonlyMap<number, number> = new Map<number, number>([
  [recordKind.namespace, 16],
  [recordKind.series, 8],
  [recordKind.batch, batchPrefixBytes],
  [recordKind.truncate, 16],
  [recordKind.delete, 8],
  [recordKind.chunks, 8],
  [recordKind.kept, 8],
  [recordKind.mark, 16],
  [recordKind.markSince, 40],
  [recordKind.end, 16],
]);

function recordOf(window: Window, kind: number, payload: number, length: number): LogRecord {
  const namespaceOrdinal = window.view.getUint32(payload, true);
  const rest = window.bytes.subarray(payload + 8, payload + length);
  switch (kind) {
    case recordKind.namespace: {
      const name = new TextDecoder().decode(rest.subarray(8));
      const createRevision = Number(window.view.getBigUint64(payload + 8, true));
      return { kind: 'namespace', ordinal: namespaceOrdinal, name, createRevision };
    }
    case recordKind.series: {
      const entries = decodeDictionary(rest);
      return entries === null ? malformed : { kind: 'series', namespaceOrdinal, entries };
    }
    case recordKind.batch:
      return { kind: 'batch', namespaceOrdinal, batch: rest };
    case recordKind.truncate: {
      const atNanos = window.view.getBigInt64(payload + 8, true);
      return { kind: 'truncate', namespaceOrdinal, atNanos };
    }
    case recordKind.delete:
      return { kind: 'delete', namespaceOrdinal, json: new TextDecoder().decode(rest) };
    case recordKind.chunks: {
      const series = decodeChunks(rest);
      return series === null ? malformed : { kind: 'chunks', namespaceOrdinal, series };
    }
    case recordKind.kept: {
      const segments: number[] = [];
      for (let at = payload + 8; at + 8 <= payload + length; at += 8) {
        segments.push(Number(window.view.getBigUint64(at, true)));
      }
      return { kind: 'kept', namespaceOrdinal, segments };
    }
    case recordKind.mark: {
      const mark = decodeMark(window.bytes.subarray(payload, payload + length));
      const at = window.start + payload - recordHeaderBytes;
      return mark === null ? malformed : { kind: 'mark', at, ...mark };
    }
    case recordKind.markSince: {
      const mark = decodeMarkSince(window.bytes.subarray(payload, payload + length));
      return mark === null ? malformed : { kind: 'markSince', ...mark };
    }
    default: {
      const seriesCount = Number(window.view.getBigUint64(payload, true));
      const chunkBytes = Number(window.view.getBigUint64(payload + 8, true));
      return { kind: 'end', seriesCount, chunkBytes };
    }
  }
}
