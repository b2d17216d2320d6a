/**
 * Reads a fileset: nothing is believed before its checksum was compared. The index is kept in memory,
 * data are read by range.
 */
import { crc32c } from '#lib/crc32c.ts';
import type { Disk, DiskFile } from '#lib/env/env.ts';
import { messageOf } from '#lib/errors.ts';
import { idSchemeCode } from '#lib/id_scheme.ts';
import { compareBytes } from '#lib/tags.ts';
import {
  checkpointMagic,
  dataMagic,
  decodeDigest,
  decodeInfo,
  FilesetCorrupt,
  type FilesetDigest,
  type FilesetInfo,
  type FilesetKey,
  filesetFormatVersion,
  filesetPath,
  fileHeaderBytes,
  fileHeaderProblem,
  indexFooterBytes,
  indexGroupEntries,
  indexMagic,
  seriesIdOf,
} from './fileset_format.ts';

export interface FilesetEntry {
  readonly id: Uint8Array;
  readonly idScheme: number;
  /** Canonical tags. */
  readonly tags: Uint8Array;
  /** For ID scheme 0, else empty. */
  readonly explicitId: Uint8Array;
  /** Range in the data file, and its checksum. */
  readonly dataOffset: number;
  readonly dataLength: number;
  readonly dataCrc32c: number;
}

/** Data read at once when a whole fileset is read. */
const readBytes = 4 * 1024 * 1024;

export class FilesetReader implements AsyncDisposable {
  readonly info: FilesetInfo;
  readonly seriesCount: number;
  private readonly dataFile: DiskFile;
  private readonly dataPath: string;
  private readonly digest: FilesetDigest;
  private readonly index: IndexView;

  private constructor(
    info: FilesetInfo,
    digest: FilesetDigest,
    index: IndexView,
    dataFile: DiskFile,
    dataPath: string,
  ) {
    this.info = info;
    this.digest = digest;
    this.index = index;
    this.seriesCount = index.seriesCount;
    this.dataFile = dataFile;
    this.dataPath = dataPath;
  }

  /**
   * Opens a complete fileset and verifies all but its data, which each read and `verifyData` do.
   * @throws {FilesetCorrupt} naming the file
   */
  static async open(disk: Disk, folder: string, key: FilesetKey): Promise<FilesetReader> {
    const path = (part: Parameters<typeof filesetPath>[2]) => filesetPath(folder, key, part);
    const checkpoint = await disk.readFile(path('checkpoint'));
    const problem = fileHeaderProblem(checkpoint, checkpointMagic);
    if (problem !== null) throw new FilesetCorrupt(path('checkpoint'), problem);
    const digestBytes = await readPart(disk, path('digest'));
    if (
      checkpoint.length !== fileHeaderBytes + 4 ||
      new DataView(checkpoint.buffer, checkpoint.byteOffset).getUint32(fileHeaderBytes, true) !==
        crc32c(digestBytes)
    ) {
      throw new FilesetCorrupt(path('digest'), 'checksum differs from the checkpoint');
    }
    const digest = decoded(path('digest'), () => decodeDigest(digestBytes));
    const infoBytes = await readPart(disk, path('info'), digest.info);
    const info = decoded(path('info'), () => decodeInfo(infoBytes));
    if (info.blockStartNanos !== key.blockStartNanos || info.volume !== key.volume) {
      throw new FilesetCorrupt(path('info'), 'info is that of another fileset');
    }
    const index = new IndexView(await readPart(disk, path('index'), digest.index), path('index'));
    const size = await disk.size(path('data'));
    if (size !== digest.data.bytes || size !== index.dataEnd) {
      throw new FilesetCorrupt(path('data'), `length is not ${digest.data.bytes} but ${size}`);
    }
    const dataFile = await disk.open(path('data'), 'read');
    return new FilesetReader(info, digest, index, dataFile, path('data'));
  }

  /** Entries in the order of their IDs. @throws {FilesetCorrupt} at one that is damaged */
  entries(): Generator<FilesetEntry, void, undefined> {
    return this.index.entries(0, this.index.groupCount);
  }

  /** The entry of a series, or null. @throws {FilesetCorrupt} */
  find(id: Uint8Array): FilesetEntry | null {
    return this.index.find(id);
  }

  /** Chunks of a series. @throws {FilesetCorrupt} when they are damaged */
  async read(entry: FilesetEntry): Promise<Uint8Array> {
    const bytes = await this.dataFile.read(entry.dataOffset, entry.dataLength);
    this.check(entry, bytes);
    return bytes;
  }

  /**
   * All series with their chunks, in the order of their IDs. The chunk bytes are borrowed until the next
   * series is asked for.
   * @throws {FilesetCorrupt} at the first damaged byte, when series before it were given already: call
   *   `verifyData` first where that matters
   */
  async *all(): AsyncGenerator<readonly [FilesetEntry, Uint8Array], void, undefined> {
    let window: Uint8Array = new Uint8Array(0);
    let windowStart = 0;
    for (const entry of this.entries()) {
      const end = entry.dataOffset + entry.dataLength;
      if (end > windowStart + window.length) {
        windowStart = entry.dataOffset;
        window = await this.dataFile.read(windowStart, Math.max(entry.dataLength, readBytes));
      }
      const bytes = window.subarray(entry.dataOffset - windowStart, end - windowStart);
      this.check(entry, bytes);
      yield [entry, bytes];
    }
  }

  /** Compares the whole data file with the digest. @throws {FilesetCorrupt} */
  async verifyData(): Promise<void> {
    const { bytes, crc32c: expected } = this.digest.data;
    let checksum = 0;
    for (let at = 0; at < bytes; ) {
      const part = await this.dataFile.read(at, Math.min(readBytes, bytes - at));
      if (part.length === 0) throw new FilesetCorrupt(this.dataPath, 'file is cut off');
      if (at === 0) {
        const problem = fileHeaderProblem(part, dataMagic);
        if (problem !== null) throw new FilesetCorrupt(this.dataPath, problem);
      }
      checksum = crc32c(part, checksum);
      at += part.length;
    }
    if (checksum !== expected) throw new FilesetCorrupt(this.dataPath, 'checksum is wrong');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.dataFile.close();
  }

  private check(entry: FilesetEntry, bytes: Uint8Array): void {
    if (bytes.length !== entry.dataLength || crc32c(bytes) !== entry.dataCrc32c) {
      throw new FilesetCorrupt(
        this.dataPath,
        `checksum of the chunks at ${entry.dataOffset} is wrong`,
      );
    }
  }
}

async function readPart(
  disk: Disk,
  path: string,
  digest: { readonly bytes: number; readonly crc32c: number } | null = null,
): Promise<Uint8Array> {
  let bytes: Uint8Array;
  try {
    bytes = await disk.readFile(path);
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'ENOENT') throw error;
    throw new FilesetCorrupt(path, 'file is missing', { cause: error });
  }
  if (digest !== null && (bytes.length !== digest.bytes || crc32c(bytes) !== digest.crc32c)) {
    throw new FilesetCorrupt(path, 'checksum or length differs from the digest');
  }
  return bytes;
}

function decoded<T>(path: string, decode: () => T): T {
  try {
    return decode();
  } catch (error) {
    throw new FilesetCorrupt(path, messageOf(error), { cause: error });
  }
}

/** The index file in memory. Every offset is checked, also when the digest was right. */
class IndexView {
  private readonly bytes: Uint8Array;
  private readonly view: DataView;
  private readonly path: string;
  private readonly groupsOffset: number;
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

  *entries(groupFirst: number, groupEnd: number): Generator<FilesetEntry, void, undefined> {
    for (let group = groupFirst; group < groupEnd; group += 1) {
      const row = this.groupsOffset + 16 * group;
      const cursor = { at: this.u64(row), dataOffset: this.u64(row + 8) };
      const count = Math.min(indexGroupEntries, this.seriesCount - group * indexGroupEntries);
      for (let i = 0; i < count; i += 1) yield this.entry(cursor);
    }
  }

  find(id: Uint8Array): FilesetEntry | null {
    let low = 0;
    let high = this.groupCount;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const [first] = this.entries(middle, middle + 1);
      if (compareBytes(first!.id, id) <= 0) low = middle + 1;
      else high = middle;
    }
    if (low === 0) return null;
    for (const entry of this.entries(low - 1, low)) {
      const order = compareBytes(entry.id, id);
      if (order === 0) return entry;
      if (order > 0) return null;
    }
    return null;
  }

  private entry(cursor: { at: number; dataOffset: number }): FilesetEntry {
    const start = cursor.at;
    const dataOffset = cursor.dataOffset;
    const dataLength = this.varint(cursor);
    const idScheme = this.varint(cursor);
    let explicitId: Uint8Array = new Uint8Array(0);
    if (idScheme === idSchemeCode.explicit) {
      const length = this.varint(cursor);
      if (length > this.groupsOffset - cursor.at) throw this.corrupt('an ID is cut off');
      explicitId = this.bytes.subarray(cursor.at, cursor.at + length);
      cursor.at += length;
    }
    const tags = this.tags(cursor);
    if (8 > this.groupsOffset - cursor.at) throw this.corrupt('an entry is cut off');
    const dataCrc32c = this.view.getUint32(cursor.at, true);
    if (crc32c(this.bytes, 0, start, cursor.at + 4) !== this.view.getUint32(cursor.at + 4, true)) {
      throw this.corrupt(`checksum of the entry at ${start} is wrong`);
    }
    cursor.at += 8;
    cursor.dataOffset += dataLength;
    if (cursor.dataOffset > this.dataEnd) throw this.corrupt('an entry lies behind the data');
    const id = decoded(this.path, () => seriesIdOf(idScheme, tags, explicitId));
    if (id === null) throw this.corrupt(`ID scheme is unknown: ${idScheme}`);
    return { id, idScheme, tags, explicitId, dataOffset, dataLength, dataCrc32c };
  }

  /** Canonical tags of symbol pairs. */
  private tags(cursor: { at: number }): Uint8Array {
    const count = 2 * this.varint(cursor);
    if (count > this.groupsOffset - cursor.at) throw this.corrupt('tags are cut off');
    const symbols: Uint8Array[] = [];
    let length = 0;
    for (let i = 0; i < count; i += 1) {
      const symbol = this.symbol(this.varint(cursor));
      symbols.push(symbol);
      length += 2 + symbol.length;
    }
    const tags = new Uint8Array(length);
    let at = 0;
    for (const symbol of symbols) {
      tags[at] = symbol.length & 255;
      tags[at + 1] = symbol.length >> 8;
      tags.set(symbol, at + 2);
      at += 2 + symbol.length;
    }
    return tags;
  }

  private symbol(ordinal: number): Uint8Array {
    if (ordinal >= this.symbolCount) throw this.corrupt(`symbol is unknown: ${ordinal}`);
    const start = this.symbolEnd(ordinal);
    const end = this.symbolEnd(ordinal + 1);
    if (start > end || this.symbolText + end > this.bytes.length || end - start > 65_535) {
      throw this.corrupt('symbols do not fit');
    }
    return this.bytes.subarray(this.symbolText + start, this.symbolText + end);
  }

  /** End of the texts of the first `count` symbols, relative to the first text. */
  private symbolEnd(count: number): number {
    return count === 0 ? 0 : this.view.getUint32(this.symbolEnds + 4 * (count - 1), true);
  }

  private varint(cursor: { at: number }): number {
    let value = 0;
    let scale = 1;
    for (let i = 0; i < 8; i += 1) {
      if (cursor.at < fileHeaderBytes || cursor.at >= this.groupsOffset) {
        throw this.corrupt('an entry is cut off');
      }
      const byte = this.bytes[cursor.at]!;
      cursor.at += 1;
      value += (byte & 127) * scale;
      if (byte < 128) return value;
      scale *= 128;
    }
    throw this.corrupt('a number is too long');
  }

  private u64(at: number): number {
    const value = this.view.getBigUint64(at, true);
    if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw this.corrupt('an offset is too large');
    return Number(value);
  }

  private corrupt(reason: string): FilesetCorrupt {
    return new FilesetCorrupt(this.path, reason);
  }
}
