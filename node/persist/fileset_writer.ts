/** Writes one fileset, series by series in the order of their IDs. Every step is safe to crash in. */
import { assert } from '#lib/assert.ts';
import { crc32c } from '#lib/crc32c.ts';
import type { Disk, DiskFile } from '#lib/env/env.ts';
import { idSchemeCode } from '#lib/id_scheme.ts';
import { compareBytes, decodeTags } from '#lib/tags.ts';
import {
  dataMagic,
  encodeCheckpoint,
  encodeDigest,
  encodeFileHeader,
  encodeInfo,
  type FileDigest,
  type FilesetDigest,
  type FilesetInfo,
  filesetFormatVersion,
  filesetPath,
  fileHeaderBytes,
  indexFooterBytes,
  indexGroupEntries,
  indexMagic,
  removeFileset,
} from './fileset_format.ts';

export interface FilesetSeries {
  readonly idScheme: number;
  /** Canonical tags. */
  readonly tags: Uint8Array;
  /** For ID scheme 0, else empty. */
  readonly explicitId: Uint8Array;
}

/** Bytes of data that are collected before they are written. */
const dataBufferBytes = 1024 * 1024;

export class FilesetWriter implements AsyncDisposable {
  private readonly disk: Disk;
  private readonly folder: string;
  private readonly info: FilesetInfo;
  private readonly dataFile: SummedFile;
  private readonly index = new ByteSink();
  private readonly groups: { indexOffset: number; dataOffset: number }[] = [];
  private readonly symbols = new Map<string, number>();
  private pending: Uint8Array[] = [];
  private pendingBytes = 0;
  private dataEnd = fileHeaderBytes;
  private lastId: Uint8Array | null = null;
  private finished = false;
  seriesCount = 0;

  private constructor(disk: Disk, folder: string, info: FilesetInfo, dataFile: SummedFile) {
    this.disk = disk;
    this.folder = folder;
    this.info = info;
    this.dataFile = dataFile;
    this.index.bytes(encodeFileHeader(indexMagic));
  }

  /** Starts a fileset, over the rest of an earlier attempt if there is one. */
  static async open(disk: Disk, folder: string, info: FilesetInfo): Promise<FilesetWriter> {
    await disk.makeFolder(folder);
    await removeFileset(disk, folder, info);
    const dataFile = await SummedFile.create(disk, filesetPath(folder, info, 'data'));
    await dataFile.write([encodeFileHeader(dataMagic)]);
    return new FilesetWriter(disk, folder, info, dataFile);
  }

  /** `put`, and writes what was collected when it is much. */
  async add(id: Uint8Array, series: FilesetSeries, chunks: Uint8Array): Promise<void> {
    this.put(id, series, chunks);
    if (this.isFull) await this.drain();
  }

  /** Whether so much is collected that `drain` is due. */
  get isFull(): boolean {
    return this.pendingBytes >= dataBufferBytes;
  }

  /**
   * Adds a series with its chunks, one behind the other (docs/formats/chunk.md); all bytes are copied.
   * @param id of the series; greater than the one before
   */
  put(id: Uint8Array, series: FilesetSeries, chunks: Uint8Array): void {
    assert(
      this.lastId === null || compareBytes(this.lastId, id) < 0,
      'series of a fileset are added in the order of their IDs',
    );
    this.lastId = id.slice();
    if (this.seriesCount % indexGroupEntries === 0) {
      this.groups.push({ indexOffset: this.index.length, dataOffset: this.dataEnd });
    }
    this.seriesCount += 1;
    this.addIndexEntry(series, chunks);
    this.pending.push(chunks.slice());
    this.pendingBytes += chunks.length;
    this.dataEnd += chunks.length;
  }

  /** Makes the fileset durable and whole; the checkpoint comes last. */
  async finish(): Promise<FilesetDigest> {
    await this.drain();
    const data = await this.dataFile.finish();
    const index = await this.writePart('index', this.finishIndex());
    const info = await this.writePart('info', encodeInfo(this.info));
    const digest = { info, index, data };
    const digestBytes = encodeDigest(digest);
    await this.writePart('digest', digestBytes);
    await this.disk.syncFolder(this.folder);
    await this.writePart('checkpoint', encodeCheckpoint(digestBytes));
    await this.disk.syncFolder(this.folder);
    this.finished = true;
    return digest;
  }

  /** Removes the fileset again, before it was used. */
  async undo(): Promise<void> {
    await removeFileset(this.disk, this.folder, this.info);
  }

  /** Removes what was written when `finish` was not reached. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.finished) return;
    await this.dataFile.close();
    await removeFileset(this.disk, this.folder, this.info);
  }

  private addIndexEntry(series: FilesetSeries, chunks: Uint8Array): void {
    const { index } = this;
    const start = index.length;
    index.varint(chunks.length);
    index.varint(series.idScheme);
    if (series.idScheme === idSchemeCode.explicit) {
      index.varint(series.explicitId.length);
      index.bytes(series.explicitId);
    }
    const tags = decodeTags(series.tags);
    index.varint(tags.length);
    for (const { name, value } of tags) {
      index.varint(this.symbol(name));
      index.varint(this.symbol(value));
    }
    index.u32(crc32c(chunks));
    index.u32(crc32c(index.view(start)));
  }

  private symbol(text: string): number {
    let ordinal = this.symbols.get(text);
    if (ordinal === undefined) {
      ordinal = this.symbols.size;
      this.symbols.set(text, ordinal);
    }
    return ordinal;
  }

  /** Lookup table, symbols and footer behind the entries. */
  private finishIndex(): Uint8Array {
    const { index } = this;
    const groupsOffset = index.length;
    for (const group of this.groups) {
      index.u64(group.indexOffset);
      index.u64(group.dataOffset);
    }
    const symbolsOffset = index.length;
    const texts = [...this.symbols.keys()].map((text) => new TextEncoder().encode(text));
    let end = 0;
    for (const text of texts) {
      end += text.length;
      index.u32(end);
    }
    for (const text of texts) index.bytes(text);
    index.u64(groupsOffset);
    index.u64(symbolsOffset);
    index.u64(this.dataEnd);
    index.u32(this.seriesCount);
    index.u32(this.groups.length);
    index.u32(this.symbols.size);
    index.u32(filesetFormatVersion);
    index.u32(crc32c(index.view(groupsOffset)));
    index.u32(0);
    assert(
      index.length - groupsOffset >= indexFooterBytes,
      'the footer of an index has its whole length',
    );
    return index.view(0);
  }

  /** Writes what was collected to the data file. */
  async drain(): Promise<void> {
    if (this.pending.length === 0) return;
    const joined = new Uint8Array(this.pendingBytes);
    let at = 0;
    for (const part of this.pending) {
      joined.set(part, at);
      at += part.length;
    }
    this.pending = [];
    this.pendingBytes = 0;
    await this.dataFile.write([joined]);
  }

  private async writePart(
    part: 'index' | 'info' | 'digest' | 'checkpoint',
    bytes: Uint8Array,
  ): Promise<FileDigest> {
    const file = await SummedFile.create(this.disk, filesetPath(this.folder, this.info, part));
    await file.write([bytes]);
    return file.finish();
  }
}

/** A file that is written once from front to back, with the checksum of it all. */
class SummedFile {
  private readonly file: DiskFile;
  private length = 0;
  private checksum = 0;
  private open = true;

  private constructor(file: DiskFile) {
    this.file = file;
  }

  static async create(disk: Disk, path: string): Promise<SummedFile> {
    return new SummedFile(await disk.open(path, 'create'));
  }

  async write(parts: readonly Uint8Array[]): Promise<void> {
    await this.file.write(this.length, parts);
    for (const part of parts) {
      this.length += part.length;
      this.checksum = crc32c(part, this.checksum);
    }
  }

  async finish(): Promise<FileDigest> {
    try {
      await this.file.sync();
    } finally {
      await this.close();
    }
    return { bytes: this.length, crc32c: this.checksum };
  }

  async close(): Promise<void> {
    if (!this.open) return;
    this.open = false;
    await this.file.close();
  }
}

/** Growing little-endian bytes. */
class ByteSink {
  private data: Uint8Array<ArrayBuffer> = new Uint8Array(4096);
  private words: DataView = new DataView(this.data.buffer);
  length = 0;

  u32(value: number): void {
    this.reserve(4);
    this.words.setUint32(this.length, value, true);
    this.length += 4;
  }

  u64(value: number): void {
    this.reserve(8);
    this.words.setBigUint64(this.length, BigInt(value), true);
    this.length += 8;
  }

  /** Seven bits a byte, the lowest first, for whole numbers below 2^53. */
  varint(value: number): void {
    this.reserve(8);
    let rest = value;
    while (rest >= 128) {
      this.data[this.length] = (rest % 128) | 128;
      this.length += 1;
      rest = Math.floor(rest / 128);
    }
    this.data[this.length] = rest;
    this.length += 1;
  }

  bytes(part: Uint8Array): void {
    this.reserve(part.length);
    this.data.set(part, this.length);
    this.length += part.length;
  }

  /** Borrowed until the next addition. */
  view(start: number): Uint8Array {
    return this.data.subarray(start, this.length);
  }

  private reserve(more: number): void {
    if (more <= this.data.length - this.length) return;
    const larger = new Uint8Array(Math.max(this.data.length * 2, this.length + more));
    larger.set(this.data.subarray(0, this.length));
    this.data = larger;
    this.words = new DataView(larger.buffer);
  }
}
