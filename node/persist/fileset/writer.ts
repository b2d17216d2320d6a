/**
 * Writes one fileset, series by series in the order of their IDs. Every step is safe to crash in.
 */
import { withRests } from '#lib/turns/steps.ts';
import { assert } from '#lib/assert.ts';
import { crc32c } from '#lib/hashing/crc32c.ts';
import type { Disk, DiskFile } from '#lib/env/env.ts';
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
  filesetPath,
  fileHeaderBytes,
  removeFileset,
  type TakenAs,
} from './format.ts';
import { type FilesetSeries, FilesetIndexWriter } from './index_writer.ts';

export type { FilesetSeries } from './index_writer.ts';

/** Bytes of data that are collected before they are written. */
const dataBufferBytes = 1024 * 1024;

export class FilesetWriter implements AsyncDisposable {
  readonly #disk: Disk;
  readonly #folder: string;
  #info: FilesetInfo;
  readonly #dataFile: SummedFile;
  readonly #index = new FilesetIndexWriter();
  #pending: Uint8Array[] = [];
  #pendingBytes = 0;
  #dataEnd = fileHeaderBytes;
  #lastId: Uint8Array | null = null;
  #finished = false;
  seriesCount = 0;

  private constructor(disk: Disk, folder: string, info: FilesetInfo) {
    this.#disk = disk;
    this.#folder = folder;
    this.#info = info;
    this.#dataFile = new SummedFile(disk, filesetPath(folder, info, 'data'));
    this.#pending.push(encodeFileHeader(dataMagic));
    this.#pendingBytes = fileHeaderBytes;
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
    return this.#pendingBytes >= dataBufferBytes;
  }

  /**
   * Adds a series with its chunks, one after the other (docs/formats/chunk.md); all bytes are
   * copied.
   * @param id of the series; greater than the one before
   */
  put(id: Uint8Array, series: FilesetSeries, chunks: Uint8Array): void {
    assert(
      this.#lastId === null || compareBytes(this.#lastId, id) < 0,
      'series of a fileset are added in the order of their IDs',
    );
    this.#lastId = id.slice();
    this.seriesCount += 1;
    this.#index.add(series, chunks.length, crc32c(chunks));
    this.#pending.push(chunks.slice());
    this.#pendingBytes += chunks.length;
    this.#dataEnd += chunks.length;
  }

  /**
   * Makes the fileset durable and whole; the checkpoint comes last.
   * @param rest called after each step of what takes long: others get their turn
   * @param takenAs noted in its info
   */
  async finish(rest: () => Promise<void>, takenAs?: TakenAs): Promise<FilesetDigest> {
    if (takenAs !== undefined) this.#info = { ...this.#info, takenAs };
    const data = await this.#dataFile.finish(this.#takePending());
    const packed = await withRests(this.#index.finish(this.#dataEnd), rest);
    const index = await this.#writePart('index', packed);
    const info = await this.#writePart('info', encodeInfo(this.#info));
    const digest = { info, index, data };
    const digestBytes = encodeDigest(digest);
    await this.#writePart('digest', digestBytes);
    await this.#disk.syncFolder(this.#folder);
    await this.#writePart('checkpoint', encodeCheckpoint(digestBytes));
    await this.#disk.syncFolder(this.#folder);
    this.#finished = true;
    return digest;
  }

  /** What the fileset says of itself. */
  get info(): FilesetInfo {
    return this.#info;
  }

  /** Removes the fileset again, before it was used. */
  async undo(): Promise<void> {
    await removeFileset(this.#disk, this.#folder, this.#info);
  }

  /** Removes what was written when `finish` was not reached. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#finished) return;
    await this.#dataFile.close();
    await removeFileset(this.#disk, this.#folder, this.#info);
  }

  /** Writes what was collected to the data file. */
  async drain(): Promise<void> {
    await this.#dataFile.write(this.#takePending());
  }

  #takePending(): Uint8Array {
    const joined = new Uint8Array(this.#pendingBytes);
    let at = 0;
    for (const part of this.#pending) {
      joined.set(part, at);
      at += part.length;
    }
    this.#pending = [];
    this.#pendingBytes = 0;
    return joined;
  }

  async #writePart(
    part: 'index' | 'info' | 'digest' | 'checkpoint',
    bytes: Uint8Array,
  ): Promise<FileDigest> {
    return new SummedFile(this.#disk, filesetPath(this.#folder, this.#info, part)).finish(bytes);
  }
}

/** A file that is written once from front to back, with the checksum of it all. */
class SummedFile {
  readonly #disk: Disk;
  readonly #path: string;
  #file: DiskFile | null = null;
  #length = 0;
  #checksum = 0;

  constructor(disk: Disk, path: string) {
    this.#disk = disk;
    this.#path = path;
  }

  async write(bytes: Uint8Array): Promise<void> {
    this.#file ??= await this.#disk.open(this.#path, 'create');
    await this.#put(bytes);
  }

  /** Writes the last bytes and makes all durable. */
  async finish(bytes: Uint8Array): Promise<FileDigest> {
    // All of it in one write that syncs, when nothing was written before.
    this.#file ??= await this.#disk.open(this.#path, 'createSynced');
    try {
      await this.#put(bytes);
      await this.#file.sync();
    } finally {
      await this.close();
    }
    return { bytes: this.#length, crc32c: this.#checksum };
  }

  async #put(bytes: Uint8Array): Promise<void> {
    await this.#file!.write(this.#length, [bytes]);
    this.#length += bytes.length;
    this.#checksum = crc32c(bytes, this.#checksum);
  }

  async close(): Promise<void> {
    const file = this.#file;
    this.#file = null;
    await file?.close();
  }
}
