/** The index file of a fileset, walked entry by entry or searched by ID. */
import { crc32c } from '#lib/crc32c.ts';
import { messageOf } from '#lib/errors.ts';
import { idSchemeCode } from '#lib/id_scheme.ts';
import { compareBytes, tagsBytesMax } from '#lib/tags.ts';
import {
  FilesetCorrupt,
  filesetFormatVersion,
  fileHeaderBytes,
  fileHeaderProblem,
  indexFooterBytes,
  indexGroupEntries,
  indexMagic,
} from './fileset_format.ts';
import { seriesIdOf } from './series_id.ts';

/** The index file in memory. Every offset is checked, also when the digest was right. */
export class IndexView {
  readonly bytes: Uint8Array;
  readonly view: DataView;
  readonly path: string;
  readonly groupsOffset: number;
  private readonly symbolEnds: number;
  private readonly symbolText: number;
  private readonly symbolCount: number;
  readonly seriesCount: number;
  readonly groupCount: number;
  readonly dataEnd: number;

  constructor(bytes: Uint8Array, path: string) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.path = path;
    const problem = fileHeaderProblem(bytes, indexMagic);
    if (problem !== null) throw this.corrupt(problem);
    const footer = bytes.length - indexFooterBytes;
    if (footer < fileHeaderBytes) throw this.corrupt('footer is cut off');
    this.groupsOffset = this.u64(footer);
    this.symbolEnds = this.u64(footer + 8);
    this.dataEnd = this.u64(footer + 16);
    this.seriesCount = this.view.getUint32(footer + 24, true);
    this.groupCount = this.view.getUint32(footer + 28, true);
    this.symbolCount = this.view.getUint32(footer + 32, true);
    if (this.view.getUint32(footer + 36, true) !== filesetFormatVersion) {
      throw this.corrupt('format version is unknown');
    }
    this.symbolText = this.symbolEnds + 4 * this.symbolCount;
    if (
      this.groupsOffset < fileHeaderBytes ||
      this.groupsOffset > footer ||
      this.groupCount !== Math.ceil(this.seriesCount / indexGroupEntries) ||
      this.symbolEnds !== this.groupsOffset + 16 * this.groupCount ||
      this.symbolText > footer ||
      this.symbolText + this.symbolEnd(this.symbolCount) !== footer
    ) {
      throw this.corrupt('sections do not fit');
    }
    if (
      crc32c(bytes, 0, this.groupsOffset, footer + 40) !== this.view.getUint32(footer + 40, true)
    ) {
      throw this.corrupt('checksum of the footer is wrong');
    }
  }

  /** A walk from the first entry of a group. */
  cursor(group = 0): IndexCursor {
    return new IndexCursor(this, group);
  }

  /** A walk of which the first step leads to the first entry whose ID is greater than this one. */
  cursorAfter(id: Uint8Array): IndexCursor {
    const cursor = this.cursor(0);
    const group = Math.max(this.groupOf(id, cursor), 0);
    let steps = 0;
    cursor.seek(group);
    while (cursor.next() && compareBytes(cursor.id(), id) <= 0) steps += 1;
    cursor.seek(group);
    for (; steps > 0; steps -= 1) cursor.next();
    return cursor;
  }

  /** A walk that stands on the entry of a series, or null. */
  find(id: Uint8Array): IndexCursor | null {
    const cursor = this.cursor(0);
    const group = this.groupOf(id, cursor);
    if (group < 0) return null;
    cursor.seek(group);
    for (let i = 0; i < indexGroupEntries && cursor.next(); i += 1) {
      const order = compareBytes(cursor.id(), id);
      if (order === 0) return cursor;
      if (order > 0) return null;
    }
    return null;
  }

  /** The last group whose first ID is not greater, or -1. */
  private groupOf(id: Uint8Array, cursor: IndexCursor): number {
    let low = 0;
    let high = this.groupCount;
    while (low < high) {
      const middle = (low + high) >>> 1;
      cursor.seek(middle);
      cursor.next();
      if (compareBytes(cursor.id(), id) <= 0) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  /** Where the entries of a group begin: in the index, and their chunks in data. */
  groupStart(group: number): { readonly at: number; readonly dataOffset: number } {
    if (group >= this.groupCount) return { at: this.groupsOffset, dataOffset: this.dataEnd };
    const row = this.groupsOffset + 16 * group;
    return { at: this.u64(row), dataOffset: this.u64(row + 8) };
  }

  /** End of the texts of the first `count` symbols, relative to the first text. */
  private symbolEnd(count: number): number {
    return count === 0 ? 0 : this.view.getUint32(this.symbolEnds + 4 * (count - 1), true);
  }

  /** Copies a symbol with its length in front, as tags have it. @returns the end in `target` */
  copySymbol(ordinal: number, target: Uint8Array, targetStart: number): number {
    if (ordinal >= this.symbolCount) throw this.corrupt(`symbol is unknown: ${ordinal}`);
    const start = this.symbolEnd(ordinal);
    const end = this.symbolEnd(ordinal + 1);
    const length = end - start;
    if (length < 0 || this.symbolText + end > this.bytes.length) {
      throw this.corrupt('symbols do not fit');
    }
    if (length + 2 > target.length - targetStart) throw this.corrupt('tags are too long');
    target[targetStart] = length & 255;
    target[targetStart + 1] = length >> 8;
    const from = this.symbolText + start;
    for (let i = 0; i < length; i += 1) target[targetStart + 2 + i] = this.bytes[from + i]!;
    return targetStart + 2 + length;
  }

  private u64(at: number): number {
    const value = this.view.getBigUint64(at, true);
    if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw this.corrupt('an offset is too large');
    return Number(value);
  }

  corrupt(reason: string): FilesetCorrupt {
    return new FilesetCorrupt(this.path, reason);
  }
}

/** Stands on one entry at a time; its fields are those of the entry once `next` has given true. */
export class IndexCursor {
  private readonly index: IndexView;
  private readonly bytes: Uint8Array;
  private readonly view: DataView;
  private readonly scratch: Uint8Array = new Uint8Array(tagsBytesMax);
  private at = 0;
  private left = 0;
  private nextOffset = 0;
  idScheme = 0;
  /** Canonical tags; borrowed until the next step. */
  tags: Uint8Array = this.scratch.subarray(0, 0);
  /** For ID scheme 0, else empty. */
  explicitId: Uint8Array = this.scratch.subarray(0, 0);
  /** Range in the data file, and its checksum. */
  dataOffset = 0;
  dataLength = 0;
  dataCrc32c = 0;

  constructor(index: IndexView, group: number) {
    this.index = index;
    this.bytes = index.bytes;
    this.view = index.view;
    this.seek(group);
  }

  /** Back, or ahead, to before the first entry of a group. */
  seek(group: number): void {
    const { at, dataOffset } = this.index.groupStart(group);
    this.at = at;
    this.nextOffset = dataOffset;
    this.left = Math.max(this.index.seriesCount - group * indexGroupEntries, 0);
  }

  /** To the next entry. @returns false when there is none. @throws {FilesetCorrupt} */
  next(): boolean {
    if (this.left === 0) return false;
    this.left -= 1;
    const { index } = this;
    const start = this.at;
    this.dataLength = this.varint();
    this.idScheme = this.varint();
    this.explicitId = this.scratch.subarray(0, 0);
    if (this.idScheme === idSchemeCode.explicit) {
      const length = this.varint();
      if (length > index.groupsOffset - this.at) throw index.corrupt('an ID is cut off');
      this.explicitId = this.bytes.subarray(this.at, this.at + length);
      this.at += length;
    }
    this.readTags();
    if (8 > index.groupsOffset - this.at) throw index.corrupt('an entry is cut off');
    this.dataCrc32c = this.view.getUint32(this.at, true);
    const checksum = crc32c(this.bytes, 0, start, this.at + 4);
    if (checksum !== this.view.getUint32(this.at + 4, true)) {
      throw index.corrupt(`checksum of the entry at ${start} is wrong`);
    }
    this.at += 8;
    this.dataOffset = this.nextOffset;
    this.nextOffset += this.dataLength;
    if (this.nextOffset > index.dataEnd) throw index.corrupt('an entry lies behind the data');
    return true;
  }

  /** ID of the series. @throws {FilesetCorrupt} */
  id(): Uint8Array {
    let id: Uint8Array | null;
    try {
      id = seriesIdOf(this.idScheme, this.tags, this.explicitId);
    } catch (error) {
      throw new FilesetCorrupt(this.index.path, messageOf(error), { cause: error });
    }
    if (id === null) throw this.index.corrupt(`ID scheme is unknown: ${this.idScheme}`);
    return id;
  }

  private readTags(): void {
    const { index, scratch } = this;
    const count = 2 * this.varint();
    if (count > index.groupsOffset - this.at) throw index.corrupt('tags are cut off');
    let length = 0;
    for (let i = 0; i < count; i += 1) length = index.copySymbol(this.varint(), scratch, length);
    this.tags = scratch.subarray(0, length);
  }

  private varint(): number {
    const { bytes, index } = this;
    const end = index.groupsOffset;
    let value = 0;
    let scale = 1;
    for (let i = 0; i < 8; i += 1) {
      if (this.at < fileHeaderBytes || this.at >= end) throw index.corrupt('an entry is cut off');
      const byte = bytes[this.at]!;
      this.at += 1;
      value += (byte & 127) * scale;
      if (byte < 128) return value;
      scale *= 128;
    }
    throw index.corrupt('a number is too long');
  }
}
