/**
 * Bytes of a commit log segment (docs/formats/commitlog.md): a header, then records that begin at
 * multiples of eight. A record's marker and the start of its checksum are the segment's salt, so
 * that a record of another file, or one quoted in somebody's sample, is never taken for one of this
 * segment.
 */
import { batchBytesMax } from '#engine/batch/format.ts';
import { assert } from '#lib/assert.ts';
import { crc32c } from '#lib/hashing/crc32c.ts';

export const segmentMagic = 'tsdbclog';
export const segmentFormatVersion = 1;
export const segmentHeaderBytes = 64;
export const recordHeaderBytes = 16;
/** Payload bytes in front of the batch in a batch record. */
export const batchPrefixBytes = 8;
/** Longer payloads are never written, and a longer length is damage. */
export const recordPayloadBytesMax: number = batchBytesMax + 64;
/** A series record is closed when its payload gets longer than this. */
const seriesRecordBytesTarget = 1024 * 1024;

export const recordKind = {
  namespace: 1,
  series: 2,
  batch: 3,
  truncate: 4,
  chunks: 5,
  end: 6,
  kept: 7,
  delete: 8,
  mark: 9,
  padding: 10,
  markSince: 11,
} as const;

/** The marker is the salt mixed with this, so that a salt of 0 does not look like empty space. */
const markerMask = 0x5ca1ab1e;

export function markerOf(salt: number): number {
  return (salt ^ markerMask) >>> 0;
}

export function saltOfMarker(marker: number): number {
  return (marker ^ markerMask) >>> 0;
}

export interface SegmentHeader {
  readonly salt: number;
  /** 32 hexadecimal digits. */
  readonly incarnation: string;
  readonly boot: number;
  readonly segment: number;
  readonly createdNanos: bigint;
  /** Marks say what of the file was synced. Not so in files of release 0.1.0 before them. */
  readonly hasMarks: boolean;
}

export function encodeSegmentHeader(header: SegmentHeader): Uint8Array {
  const bytes = new Uint8Array(segmentHeaderBytes);
  const view = new DataView(bytes.buffer);
  bytes.set(new TextEncoder().encode(segmentMagic), 0);
  view.setUint32(8, segmentFormatVersion, true);
  view.setUint32(12, header.salt, true);
  bytes.set(Uint8Array.fromHex(header.incarnation), 16);
  view.setBigUint64(32, BigInt(header.boot), true);
  view.setBigUint64(40, BigInt(header.segment), true);
  view.setBigInt64(48, header.createdNanos, true);
  view.setUint32(56, header.hasMarks ? 1 : 0, true);
  view.setUint32(60, crc32c(bytes, 0, 0, 60), true);
  return bytes;
}

/** The header, or why the bytes are none. */
export function decodeSegmentHeader(bytes: Uint8Array): SegmentHeader | string {
  if (bytes.length < segmentHeaderBytes) return 'header is cut off';
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (new TextDecoder('latin1').decode(bytes.subarray(0, 8)) !== segmentMagic) {
    return 'magic is not that of a commit log segment';
  }
  if (view.getUint32(60, true) !== crc32c(bytes, 0, 0, 60)) return 'header checksum is wrong';
  const version = view.getUint32(8, true);
  if (version !== segmentFormatVersion) return `format version is unknown: ${version}`;
  return {
    salt: view.getUint32(12, true),
    incarnation: bytes.subarray(16, 32).toHex(),
    boot: Number(view.getBigUint64(32, true)),
    segment: Number(view.getBigUint64(40, true)),
    createdNanos: view.getBigInt64(48, true),
    hasMarks: (view.getUint32(56, true) & 1) === 1,
  };
}

/** Checksum of a whole record of which length, kind and payload are in place. */
export function recordChecksum(
  bytes: Uint8Array,
  start: number,
  payloadLength: number,
  salt: number,
): number {
  return crc32c(bytes, salt, start + 8, start + recordHeaderBytes + payloadLength);
}

export function paddedLength(length: number): number {
  return (length + 7) & ~7;
}

/** One series of a segment's dictionary, valid for the rows of this segment only. */
export interface DictionaryEntry {
  readonly slot: number;
  readonly generation: number;
  /** `idSchemeCode`; 0: the ID is explicit. */
  readonly idScheme: number;
  /** Canonical tags. */
  readonly tags: Uint8Array;
  /** Empty when it derives from the tags. */
  readonly explicitId: Uint8Array;
}

const dictionaryEntryBytes = 20;

/** In place of the name of a namespace: rows of any. */
export const anyNamespace = '';

/** Where rows of a namespace may lie: no earlier than the first time, no later than the last. */
export interface RowSpan {
  readonly namespace: string;
  readonly firstNanos: bigint;
  readonly lastNanos: bigint;
}

/** What is known of a segment by whoever wrote this: that of the record, or one before it. */
export interface SegmentMark {
  readonly segment: number;
  /** Every byte before it was synced: it must be there whatever happened to the process. */
  readonly syncedEnd: number;
  /** Of all rows before that, several a namespace perhaps. */
  readonly spans: readonly RowSpan[];
}

/**
 * A mark of the segment that it stands in, that adds to a whole one there. Where that cannot be read
 * any more, rows of any namespace may lie anywhere between the first and the last.
 */
export interface MarkSince extends SegmentMark {
  /** Where the record of the whole one begins in the file. */
  readonly baseAt: number;
  /** Of all rows of the segment. */
  readonly firstNanos: bigint;
  readonly lastNanos: bigint;
}

const markHeadBytes = 16;
const markSinceHeadBytes = 40;
const rowSpanHeadBytes = 24;

/** Chunks of one series, one after the other (docs/formats/chunk.md). */
export interface SeriesChunks {
  readonly slot: number;
  readonly generation: number;
  readonly chunks: Uint8Array;
}

const chunksEntryBytes = 12;

/**
 * Collects records for one segment in one buffer, which is written in one piece. Reused from group
 * to group.
 */
export class SegmentBuffer {
  #data: Uint8Array<ArrayBuffer>;
  #view: DataView;
  #length = 0;
  #salt = 0;
  /** Number of the segment that the records are for; 0 before the first `reset`. */
  segment = 0;
  readonly #namespaceOrdinals = new Map<string, number>();
  /** The last one that was asked for: nearly always the next one, too. */
  #lastNamespace = { name: '', createRevision: -1, ordinal: -1 };
  #seriesStart = -1;
  #seriesNamespace = -1;
  /** Bytes of series records for this segment so far, written or not. */
  dictionaryBytes = 0;
  /** Their entries. */
  dictionarySeries = 0;

  constructor() {
    this.#data = new Uint8Array(256 * 1024);
    this.#view = new DataView(this.#data.buffer);
  }

  /** Empties the buffer, for a segment: a new one begins without any namespaces. */
  reset(segment: number, salt: number): void {
    if (segment !== this.segment) {
      this.#namespaceOrdinals.clear();
      this.#lastNamespace = { name: '', createRevision: -1, ordinal: -1 };
      this.dictionaryBytes = 0;
      this.dictionarySeries = 0;
    }
    this.segment = segment;
    this.#salt = salt;
    this.#length = 0;
    this.#seriesStart = -1;
    // One exceptional group must not hold its memory for good.
    if (this.#data.length > 16 * 1024 * 1024) {
      this.#data = new Uint8Array(256 * 1024);
      this.#view = new DataView(this.#data.buffer);
    }
  }

  /** All records so far; borrowed until the next `reset`. */
  bytes(): Uint8Array {
    this.#closeSeries();
    return this.#data.subarray(0, this.#length);
  }

  /** Ordinal of a namespace in this segment, defined by a record when it is new there. */
  namespaceOrdinal(name: string, createRevision: number): number {
    const lastNamespace = this.#lastNamespace;
    if (lastNamespace.name === name && lastNamespace.createRevision === createRevision) {
      return lastNamespace.ordinal;
    }
    const key = `${createRevision} ${name}`;
    const known = this.#namespaceOrdinals.get(key);
    const ordinal = known ?? this.#namespaceOrdinals.size;
    this.#lastNamespace = { name, createRevision, ordinal };
    if (known !== undefined) return known;
    this.#closeSeries();
    this.#namespaceOrdinals.set(key, ordinal);
    const text = new TextEncoder().encode(name);
    const start = this.#open(recordKind.namespace, 16 + text.length);
    this.#view.setUint32(start, ordinal, true);
    this.#view.setUint32(start + 4, 0, true);
    this.#view.setBigUint64(start + 8, BigInt(createRevision), true);
    this.#data.set(text, start + 16);
    this.#close(start, 16 + text.length);
    return ordinal;
  }

  /** Adds a series to the segment's dictionary; entries that follow each other share a record. */
  addSeries(namespaceOrdinal: number, entry: DictionaryEntry): void {
    const { tags } = entry;
    const at = this.#beginSeries(namespaceOrdinal, entry, tags.length);
    this.#data.set(tags, at);
  }

  /**
   * The same for tags that are somewhere else: a buffer for each of a million would cost more than
   * the rest.
   * @param copyTags writes `tagsLength` bytes of canonical tags to the position
   */
  addSeriesOf(
    namespaceOrdinal: number,
    head: Omit<DictionaryEntry, 'tags'>,
    tagsLength: number,
    copyTags: (target: DataView, at: number) => void,
  ): void {
    const at = this.#beginSeries(namespaceOrdinal, head, tagsLength);
    copyTags(this.#view, at);
  }

  /** Adds everything of an entry but its tags. @returns where these go */
  #beginSeries(
    namespaceOrdinal: number,
    entry: Omit<DictionaryEntry, 'tags'>,
    tagsLength: number,
  ): number {
    const { explicitId } = entry;
    if (
      this.#seriesStart !== -1 &&
      (this.#seriesNamespace !== namespaceOrdinal ||
        this.#length - this.#seriesStart > seriesRecordBytesTarget)
    ) {
      this.#closeSeries();
    }
    const size = dictionaryEntryBytes + tagsLength + explicitId.length;
    if (this.#seriesStart === -1) {
      this.#seriesStart = this.#open(recordKind.series, 8 + size);
      this.#seriesNamespace = namespaceOrdinal;
      this.#view.setUint32(this.#seriesStart, namespaceOrdinal, true);
      this.#view.setUint32(this.#seriesStart + 4, 0, true);
      this.#length = this.#seriesStart + 8;
    }
    this.#reserve(size);
    const at = this.#length;
    this.#view.setUint32(at, entry.slot, true);
    this.#view.setUint32(at + 4, entry.generation, true);
    this.#view.setUint32(at + 8, entry.idScheme, true);
    this.#view.setUint32(at + 12, tagsLength, true);
    this.#view.setUint32(at + 16, explicitId.length, true);
    if (explicitId.length > 0) this.#data.set(explicitId, at + dictionaryEntryBytes + tagsLength);
    this.#length = at + size;
    this.dictionarySeries += 1;
    return at + dictionaryEntryBytes;
  }

  /** @param parts the bytes of one batch, one after the other */
  addBatch(namespaceOrdinal: number, parts: readonly Uint8Array[]): void {
    this.#closeSeries();
    let size = batchPrefixBytes;
    for (const part of parts) size += part.length;
    const start = this.#open(recordKind.batch, size);
    this.#view.setUint32(start, namespaceOrdinal, true);
    this.#view.setUint32(start + 4, 0, true);
    let at = start + batchPrefixBytes;
    for (const part of parts) {
      this.#data.set(part, at);
      at += part.length;
    }
    this.#close(start, size);
  }

  /** Everything of the namespace that stands before this record is gone. */
  addTruncate(namespaceOrdinal: number, atNanos: bigint): void {
    this.#closeSeries();
    const start = this.#open(recordKind.truncate, 16);
    this.#view.setUint32(start, namespaceOrdinal, true);
    this.#view.setUint32(start + 4, 0, true);
    this.#view.setBigInt64(start + 8, atNanos, true);
    this.#close(start, 16);
  }

  /**
   * Rows that stand before this record and match are gone. @param json the deletion with its time
   */
  addDelete(namespaceOrdinal: number, json: string): void {
    this.#closeSeries();
    const text = new TextEncoder().encode(json);
    const size = 8 + text.length;
    const start = this.#open(recordKind.delete, size);
    this.#view.setUint32(start, namespaceOrdinal, true);
    this.#view.setUint32(start + 4, 0, true);
    this.#data.set(text, start + 8);
    this.#close(start, size);
  }

  /** Chunks of series that stand in the dictionary; all of one call are one record. */
  addChunks(namespaceOrdinal: number, all: readonly SeriesChunks[]): void {
    this.#closeSeries();
    let size = 8;
    for (const { chunks } of all) size += chunksEntryBytes + chunks.length;
    const start = this.#open(recordKind.chunks, size);
    this.#view.setUint32(start, namespaceOrdinal, true);
    this.#view.setUint32(start + 4, 0, true);
    let at = start + 8;
    for (const { slot, generation, chunks } of all) {
      this.#view.setUint32(at, slot, true);
      this.#view.setUint32(at + 4, generation, true);
      this.#view.setUint32(at + 8, chunks.length, true);
      this.#data.set(chunks, at + chunksEntryBytes);
      at += chunksEntryBytes + chunks.length;
    }
    this.#close(start, size);
  }

  /** Segments before the snapshot that have rows of a namespace which the snapshot has not. */
  addKept(namespaceOrdinal: number, segments: readonly number[]): void {
    this.#closeSeries();
    const size = 8 + 8 * segments.length;
    const start = this.#open(recordKind.kept, size);
    this.#view.setUint32(start, namespaceOrdinal, true);
    this.#view.setUint32(start + 4, 0, true);
    segments.forEach((segment, i) => {
      this.#view.setBigUint64(start + 8 + 8 * i, BigInt(segment), true);
    });
    this.#close(start, size);
  }

  /** What is known of a segment, so that damage in it is told from a write that a crash tore. */
  addMark(mark: SegmentMark): void {
    this.#addSpans(recordKind.mark, markHeadBytes, mark);
  }

  /** What was added to the mark that stands in this segment at `baseAt`. */
  addMarkSince(mark: MarkSince): void {
    this.#addSpans(recordKind.markSince, markSinceHeadBytes, mark, (head) => {
      this.#view.setBigUint64(head + 16, BigInt(mark.baseAt), true);
      this.#view.setBigInt64(head + 24, mark.firstNanos, true);
      this.#view.setBigInt64(head + 32, mark.lastNanos, true);
    });
  }

  #addSpans(
    kind: number,
    headBytes: number,
    { segment, syncedEnd, spans }: SegmentMark,
    setRest: (head: number) => void = () => {},
  ): void {
    this.#closeSeries();
    const names = spans.map(({ namespace }) => new TextEncoder().encode(namespace));
    let size = headBytes;
    for (const name of names) size += rowSpanHeadBytes + name.length;
    const start = this.#open(kind, size);
    this.#view.setBigUint64(start, BigInt(segment), true);
    this.#view.setBigUint64(start + 8, BigInt(syncedEnd), true);
    setRest(start);
    let at = start + headBytes;
    spans.forEach(({ firstNanos, lastNanos }, i) => {
      const name = names[i]!;
      this.#view.setBigInt64(at, firstNanos, true);
      this.#view.setBigInt64(at + 8, lastNanos, true);
      this.#view.setUint32(at + 16, name.length, true);
      this.#view.setUint32(at + 20, 0, true);
      this.#data.set(name, at + rowSpanHeadBytes);
      at += rowSpanHeadBytes + name.length;
    });
    this.#close(start, size);
  }

  /** Zeros, so that what follows lies elsewhere on the disk. @param bytes of all of it */
  addPadding(bytes: number): void {
    this.#closeSeries();
    const start = this.#open(recordKind.padding, bytes - recordHeaderBytes);
    this.#data.fill(0, start, start + bytes - recordHeaderBytes);
    this.#close(start, bytes - recordHeaderBytes);
  }

  /** The last record of a snapshot. */
  addEnd(seriesCount: number, chunkBytes: number): void {
    this.#closeSeries();
    const start = this.#open(recordKind.end, 16);
    this.#view.setBigUint64(start, BigInt(seriesCount), true);
    this.#view.setBigUint64(start + 8, BigInt(chunkBytes), true);
    this.#close(start, 16);
  }

  /** Bytes that are collected. */
  get byteLength(): number {
    return this.#length;
  }

  #closeSeries(): void {
    if (this.#seriesStart === -1) return;
    const start = this.#seriesStart;
    this.#seriesStart = -1;
    this.dictionaryBytes += this.#length - start;
    this.#close(start, this.#length - start);
  }

  /** Writes the kind, and returns where the payload goes. */
  #open(kind: number, payloadLength: number): number {
    this.#reserve(recordHeaderBytes + payloadLength);
    const start = this.#length;
    this.#view.setUint32(start, markerOf(this.#salt), true);
    this.#view.setUint32(start + 12, kind, true);
    return start + recordHeaderBytes;
  }

  #close(payloadStart: number, payloadLength: number): void {
    assert(payloadLength <= recordPayloadBytesMax, 'commit log record is not too long');
    const start = payloadStart - recordHeaderBytes;
    this.#view.setUint32(start + 8, payloadLength, true);
    this.#view.setUint32(
      start + 4,
      recordChecksum(this.#data, start, payloadLength, this.#salt),
      true,
    );
    const end = payloadStart + payloadLength;
    const paddedEnd = payloadStart + paddedLength(payloadLength);
    this.#length = end;
    this.#reserve(paddedEnd - end);
    this.#data.fill(0, end, paddedEnd);
    this.#length = paddedEnd;
  }

  #reserve(more: number): void {
    if (more <= this.#data.length - this.#length) return;
    let size = this.#data.length * 2;
    while (size - this.#length < more) size *= 2;
    const larger = new Uint8Array(size);
    larger.set(this.#data.subarray(0, this.#length));
    this.#data = larger;
    this.#view = new DataView(larger.buffer);
  }
}

/**
 * The entries of a series record.
 * @param payload as written, without the namespace ordinal's eight bytes
 * @returns null when the lengths do not fit, which the checksum makes a defect of the writer
 */
export function decodeDictionary(payload: Uint8Array): DictionaryEntry[] | null {
  const view = new DataView(payload.buffer, payload.byteOffset, payload.byteLength);
  const entries: DictionaryEntry[] = [];
  let at = 0;
  while (at < payload.length) {
    if (payload.length - at < dictionaryEntryBytes) return null;
    const tagsLength = view.getUint32(at + 12, true);
    const idLength = view.getUint32(at + 16, true);
    const body = at + dictionaryEntryBytes;
    if (tagsLength > payload.length - body) return null;
    if (idLength > payload.length - body - tagsLength) return null;
    entries.push({
      slot: view.getUint32(at, true),
      generation: view.getUint32(at + 4, true),
      idScheme: view.getUint32(at + 8, true),
      tags: payload.subarray(body, body + tagsLength),
      explicitId: payload.subarray(body + tagsLength, body + tagsLength + idLength),
    });
    at = body + tagsLength + idLength;
  }
  return entries;
}

/**
 * The entries of a chunks record.
 * @param payload as written, without the namespace ordinal's eight bytes
 * @returns null when the lengths do not fit
 */
export function decodeChunks(payload: Uint8Array): SeriesChunks[] | null {
  const view = new DataView(payload.buffer, payload.byteOffset, payload.byteLength);
  const entries: SeriesChunks[] = [];
  for (let at = 0; at < payload.length; ) {
    if (payload.length - at < chunksEntryBytes) return null;
    const length = view.getUint32(at + 8, true);
    const body = at + chunksEntryBytes;
    if (length > payload.length - body) return null;
    entries.push({
      slot: view.getUint32(at, true),
      generation: view.getUint32(at + 4, true),
      chunks: payload.subarray(body, body + length),
    });
    at = body + length;
  }
  return entries;
}

/** @returns null when the lengths do not fit */
export function decodeMark(payload: Uint8Array): SegmentMark | null {
  if (payload.length < markHeadBytes) return null;
  const view = new DataView(payload.buffer, payload.byteOffset, payload.byteLength);
  const spans = decodeSpans(payload, view, markHeadBytes);
  const segment = Number(view.getBigUint64(0, true));
  return spans && { segment, syncedEnd: Number(view.getBigUint64(8, true)), spans };
}

/** @returns null when the lengths do not fit */
export function decodeMarkSince(payload: Uint8Array): MarkSince | null {
  if (payload.length < markSinceHeadBytes) return null;
  const view = new DataView(payload.buffer, payload.byteOffset, payload.byteLength);
  const spans = decodeSpans(payload, view, markSinceHeadBytes);
  return (
    spans && {
      segment: Number(view.getBigUint64(0, true)),
      syncedEnd: Number(view.getBigUint64(8, true)),
      baseAt: Number(view.getBigUint64(16, true)),
      firstNanos: view.getBigInt64(24, true),
      lastNanos: view.getBigInt64(32, true),
      spans,
    }
  );
}

function decodeSpans(payload: Uint8Array, view: DataView, headBytes: number): RowSpan[] | null {
  const spans: RowSpan[] = [];
  for (let at = headBytes; at < payload.length; ) {
    if (payload.length - at < rowSpanHeadBytes) return null;
    const length = view.getUint32(at + 16, true);
    const name = at + rowSpanHeadBytes;
    if (length > payload.length - name) return null;
    spans.push({
      namespace: new TextDecoder().decode(payload.subarray(name, name + length)),
      firstNanos: view.getBigInt64(at, true),
      lastNanos: view.getBigInt64(at + 8, true),
    });
    at = name + length;
  }
  return spans;
}
