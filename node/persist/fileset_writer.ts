/** Writes one fileset, series by series in the order of their IDs. Every step is safe to crash in. */
import { assert } from '#lib/assert.ts';
import { crc32c } from '#lib/crc32c.ts';
import type { Disk, DiskFile } from '#lib/env/env.ts';
import { idSchemeCode } from '#lib/id_scheme.ts';
import { compareBytes } from '#lib/tags.ts';
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
  private readonly symbols = new Symbols();
  private pending: Uint8Array[] = [];
  private pendingBytes = 0;
  private dataEnd = fileHeaderBytes;
  private lastId: Uint8Array | null = null;
  private finished = false;
  seriesCount = 0;

  private constructor(disk: Disk, folder: string, info: FilesetInfo) {
    this.disk = disk;
    this.folder = folder;
    this.info = info;
    this.dataFile = new SummedFile(disk, filesetPath(folder, info, 'data'));
    this.pending.push(encodeFileHeader(dataMagic));
    this.pendingBytes = fileHeaderBytes;
    this.index.bytes(encodeFileHeader(indexMagic));
  }

  /**
   * Starts a fileset in a folder that is there. Nothing of its block and volume may be there.
   * Nothing is written before there is much of it, or all.
   */
  static open(disk: Disk, folder: string, info: FilesetInfo): FilesetWriter {
    return new FilesetWriter(disk, folder, info);
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
    const data = await this.dataFile.finish(this.takePending());
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
    const symbolCount = this.symbols.read(series.tags);
    index.varint(symbolCount / 2);
    for (let i = 0; i < symbolCount; i += 1) index.varint(this.symbols.ordinals[i]!);
    index.u32(crc32c(chunks));
    index.u32(crc32c(index.view(start)));
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
    const { texts } = this.symbols;
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
    index.u32(texts.length);
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
    await this.dataFile.write(this.takePending());
  }

  private takePending(): Uint8Array {
    const joined = new Uint8Array(this.pendingBytes);
    let at = 0;
    for (const part of this.pending) {
      joined.set(part, at);
      at += part.length;
    }
    this.pending = [];
    this.pendingBytes = 0;
    return joined;
  }

  private async writePart(
    part: 'index' | 'info' | 'digest' | 'checkpoint',
    bytes: Uint8Array,
  ): Promise<FileDigest> {
    return new SummedFile(this.disk, filesetPath(this.folder, this.info, part)).finish(bytes);
  }
}

/** A file that is written once from front to back, with the checksum of it all. */
class SummedFile {
  private readonly disk: Disk;
  private readonly path: string;
  private file: DiskFile | null = null;
  private length = 0;
  private checksum = 0;

  constructor(disk: Disk, path: string) {
    this.disk = disk;
    this.path = path;
  }

  async write(bytes: Uint8Array): Promise<void> {
    this.file ??= await this.disk.open(this.path, 'create');
    await this.put(bytes);
  }

  /** Writes the last bytes and makes all durable. */
  async finish(bytes: Uint8Array): Promise<FileDigest> {
    // All of it in one write that syncs, when nothing was written before.
    this.file ??= await this.disk.open(this.path, 'createSynced');
    try {
      await this.put(bytes);
      await this.file.sync();
    } finally {
      await this.close();
    }
    return { bytes: this.length, crc32c: this.checksum };
  }

  private async put(bytes: Uint8Array): Promise<void> {
    await this.file!.write(this.length, [bytes]);
    this.length += bytes.length;
    this.checksum = crc32c(bytes, this.checksum);
  }

  async close(): Promise<void> {
    const { file } = this;
    this.file = null;
    await file?.close();
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

/** Names and values of tags, each once. */
class Symbols {
  /** In the order in which they came. */
  readonly texts: Uint8Array[] = [];
  /** Of the tags that were read last: name, value, name, value, … */
  readonly ordinals: number[] = [];
  private readonly byText = new Map<string, number>();

  /** Reads canonical tags. @returns how many symbols they have */
  read(tags: Uint8Array): number {
    const bytes = Buffer.from(tags.buffer, tags.byteOffset, tags.byteLength);
    let count = 0;
    for (let at = 0; at < tags.length; count += 1) {
      const start = at + 2;
      const end = start + (tags[at]! | (tags[at + 1]! << 8));
      assert(end <= tags.length, 'tags of a fileset are canonical');
      const before = this.ordinals[count];
      // Neighbours have most texts in common, at the same place.
      if (before === undefined || !isEqual(this.texts[before]!, tags, start, end)) {
        this.ordinals[count] = this.ordinalOf(bytes, start, end);
      }
      at = end;
    }
    assert(count % 2 === 0, 'each name of a tag has a value');
    return count;
  }

  private ordinalOf(bytes: Buffer, start: number, end: number): number {
    // One character a byte, so that different bytes never are one text.
    const text = bytes.toString('latin1', start, end);
    let ordinal = this.byText.get(text);
    if (ordinal === undefined) {
      ordinal = this.texts.length;
      this.byText.set(text, ordinal);
      this.texts.push(Uint8Array.from(bytes.subarray(start, end)));
    }
    return ordinal;
  }
}

function isEqual(text: Uint8Array, bytes: Uint8Array, start: number, end: number): boolean {
  if (text.length !== end - start) return false;
  for (let i = 0; i < text.length; i += 1) if (text[i] !== bytes[start + i]) return false;
  return true;
}
