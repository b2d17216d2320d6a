/**
 * Reads a fileset: nothing is believed before its checksum was compared. The index is kept in
 * memory, data are read by range.
 */
import { crc32c } from '#lib/hashing/crc32c.ts';
import type { Disk, DiskFile } from '#lib/env/env.ts';
import { isUnreadable } from '#lib/env/unreadable.ts';
import { messageOf } from '#lib/errors.ts';
import {
  checkpointMagic,
  dataMagic,
  decodeDigest,
  decodeInfo,
  type FileDigest,
  FilesetCorrupt,
  type FilesetDigest,
  type FilesetInfo,
  type FilesetKey,
  FilesetUnfinished,
  filesetPath,
  fileHeaderBytes,
  fileHeaderProblem,
} from './format.ts';
import { type IndexCursor, IndexView } from './index.ts';

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

/** A fileset without its series. */
export interface FilesetHead {
  readonly info: FilesetInfo;
  readonly digest: FilesetDigest;
}

/** Data read at once when a whole fileset is read. */
const readBytes = 4 * 1024 * 1024;

export class FilesetReader implements AsyncDisposable {
  readonly info: FilesetInfo;
  readonly seriesCount: number;
  readonly digest: FilesetDigest;
  readonly index: IndexView;
  readonly #dataFile: DiskFile;
  readonly #dataPath: string;

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
    this.#dataFile = dataFile;
    this.#dataPath = dataPath;
  }

  /**
   * What a complete fileset says of itself; data and index are compared with it when they are read.
   * @throws {FilesetCorrupt} naming the file
   */
  static async openHead(disk: Disk, folder: string, key: FilesetKey): Promise<FilesetHead> {
    const path = (part: Parameters<typeof filesetPath>[2]) => filesetPath(folder, key, part);
    const checkpoint = await readable(path('checkpoint'), disk.readFile(path('checkpoint')));
    if (checkpoint.length < fileHeaderBytes + 4 || checkpoint.every((byte) => byte === 0)) {
      throw new FilesetUnfinished(path('checkpoint'), 'checkpoint was not finished');
    }
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
    const size = await disk.size(path('data'));
    if (size !== digest.data.bytes) {
      throw new FilesetCorrupt(path('data'), `length is not ${digest.data.bytes} but ${size}`);
    }
    return { info, digest };
  }

  /**
   * Opens a complete fileset and verifies all but its data, which each read and `verifyData` do.
   * @throws {FilesetCorrupt} naming the file
   */
  static async open(disk: Disk, folder: string, key: FilesetKey): Promise<FilesetReader> {
    const path = (part: Parameters<typeof filesetPath>[2]) => filesetPath(folder, key, part);
    const { info, digest } = await FilesetReader.openHead(disk, folder, key);
    const index = await readFilesetIndex(disk, folder, key, digest.index);
    if (index.dataEnd !== digest.data.bytes) {
      throw new FilesetCorrupt(path('index'), `data end is not ${digest.data.bytes}`);
    }
    const dataFile = await readable(path('data'), disk.open(path('data'), 'read'));
    return new FilesetReader(info, digest, index, dataFile, path('data'));
  }

  /** Entries in the order of their IDs. @throws {FilesetCorrupt} at one that is damaged */
  *entries(): Generator<FilesetEntry, void, undefined> {
    const cursor = this.index.cursor();
    while (cursor.next()) yield entryOf(cursor);
  }

  /** The entry of a series, or null. @throws {FilesetCorrupt} */
  find(id: Uint8Array): FilesetEntry | null {
    const cursor = this.index.find(id);
    return cursor === null ? null : entryOf(cursor);
  }

  /** Chunks of a series. @throws {FilesetCorrupt} when they are damaged */
  async read(entry: FilesetEntry): Promise<Uint8Array> {
    const bytes = await this.readData(entry.dataOffset, entry.dataLength);
    this.#check(entry, bytes);
    return bytes;
  }

  /**
   * All series with their chunks, in the order of their IDs. The chunk bytes are borrowed until the
   * next series is asked for.
   * @throws {FilesetCorrupt} at the first damaged byte, when series before it were given already:
   *   call `verifyData` first where that matters
   */
  async *all(): AsyncGenerator<readonly [FilesetEntry, Uint8Array], void, undefined> {
    let window: Uint8Array = new Uint8Array(0);
    let windowStart = 0;
    for (const entry of this.entries()) {
      const end = entry.dataOffset + entry.dataLength;
      if (end > windowStart + window.length) {
        windowStart = entry.dataOffset;
        window = await this.readData(windowStart, Math.max(entry.dataLength, readBytes));
      }
      const bytes = window.subarray(entry.dataOffset - windowStart, end - windowStart);
      this.#check(entry, bytes);
      yield [entry, bytes];
    }
  }

  /** Bytes of the data file, unchecked; fewer at its end, and none where it cannot be read. */
  async readData(position: number, length: number): Promise<Uint8Array> {
    try {
      return await this.#dataFile.read(position, length);
    } catch (error) {
      if (!isUnreadable(error)) throw error;
      return new Uint8Array(0);
    }
  }

  /** Whether these are the chunks of an entry. */
  isWhole(entry: Pick<FilesetEntry, 'dataLength' | 'dataCrc32c'>, bytes: Uint8Array): boolean {
    return bytes.length === entry.dataLength && crc32c(bytes) === entry.dataCrc32c;
  }

  /** Compares the whole data file with the digest. @throws {FilesetCorrupt} */
  async verifyData(): Promise<void> {
    const { bytes, crc32c: expected } = this.digest.data;
    let checksum = 0;
    for (let at = 0; at < bytes; ) {
      const part = await this.readData(at, Math.min(readBytes, bytes - at));
      if (part.length === 0) {
        throw new FilesetCorrupt(this.#dataPath, 'file is cut off, or the disk cannot read it');
      }
      if (at === 0) {
        const problem = fileHeaderProblem(part, dataMagic);
        if (problem !== null) throw new FilesetCorrupt(this.#dataPath, problem);
      }
      checksum = crc32c(part, checksum);
      at += part.length;
    }
    if (checksum !== expected) throw new FilesetCorrupt(this.#dataPath, 'checksum is wrong');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#dataFile.close();
  }

  #check(entry: FilesetEntry, bytes: Uint8Array): void {
    if (!this.isWhole(entry, bytes)) {
      throw new FilesetCorrupt(
        this.#dataPath,
        `checksum of the chunks at ${entry.dataOffset} is wrong`,
      );
    }
  }
}

/**
 * The index file of a complete fileset.
 * @param digest what the fileset's digest says of it
 * @throws {FilesetCorrupt} naming the file
 */
export async function readFilesetIndex(
  disk: Disk,
  folder: string,
  key: FilesetKey,
  digest: FileDigest,
): Promise<IndexView> {
  const path = filesetPath(folder, key, 'index');
  return new IndexView(await readPart(disk, path, digest), path);
}

function entryOf(cursor: IndexCursor): FilesetEntry {
  const { idScheme, explicitId, dataOffset, dataLength, dataCrc32c } = cursor;
  const tags = cursor.tags.slice();
  return { id: cursor.id(), idScheme, tags, explicitId, dataOffset, dataLength, dataCrc32c };
}

async function readPart(
  disk: Disk,
  path: string,
  digest: { readonly bytes: number; readonly crc32c: number } | null = null,
): Promise<Uint8Array> {
  let bytes: Uint8Array;
  try {
    bytes = await readable(path, disk.readFile(path));
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'ENOENT') throw error;
    throw new FilesetCorrupt(path, 'file is missing', { cause: error });
  }
  if (digest !== null && (bytes.length !== digest.bytes || crc32c(bytes) !== digest.crc32c)) {
    throw new FilesetCorrupt(path, 'checksum or length differs from the digest');
  }
  return bytes;
}

/** What the disk cannot read is as damaged as what its checksum disowns. */
async function readable<T>(path: string, reading: Promise<T>): Promise<T> {
  try {
    return await reading;
  } catch (error) {
    if (!isUnreadable(error)) throw error;
    throw new FilesetCorrupt(path, 'the disk cannot read it', { cause: error });
  }
}

function decoded<T>(path: string, decode: () => T): T {
  try {
    return decode();
  } catch (error) {
    throw new FilesetCorrupt(path, messageOf(error), { cause: error });
  }
}
