/**
 * The saved index of a namespace on disk: one file, `data/<namespace>/index.db`, written beside the
 * old one and renamed over it, so that there is always a whole one. With it goes a manifest of the
 * caller: what the index covers, for instance which filesets.
 */
import { crc32c } from '#lib/hashing/crc32c.ts';
import type { Disk, DiskFile } from '#lib/env/env.ts';
import { messageOf } from '#lib/errors.ts';
import type { PlaceSeries } from '../../index/saved/load.ts';
import { NamespaceIndex, type NamespaceIndexOptions } from '../../index/namespace_index.ts';
import {
  IndexDamaged,
  type IndexSection,
  type IndexSectionSource,
  sectionKind,
} from '../../index/saved/section.ts';
import { namespaceFolder } from '../fileset/format.ts';
import {
  decodeDirectory,
  type DirectoryRow,
  directoryStart,
  encodeDirectory,
  encodeIndexFileHeader,
  IndexFileCorrupt,
  indexFileFooterBytes,
  indexFileHeaderBytes,
  indexFileHeaderProblem,
} from './format.ts';

/** Longest manifest. */
export const manifestBytesMax: number = 64 * 1024 * 1024;

export function indexFilePath(dataFolder: string, namespace: string): string {
  return `${namespaceFolder(dataFolder, namespace)}/index.db`;
}

/**
 * Writes the index to the file, in steps between which it may be used and changed
 * (`NamespaceIndex.save`): the file has the series that are there when this is called and are still
 * there when it ends.
 * @param manifest what those series cover: to be taken in the same moment in which this is called
 * @returns bytes of the file
 * @throws the system's error, or the signal's reason; the old file is then still there
 */
export async function writeIndexFile(
  disk: Disk,
  path: string,
  index: NamespaceIndex,
  manifest: Uint8Array,
  signal: AbortSignal,
): Promise<number> {
  if (manifest.length > manifestBytesMax) {
    throw new RangeError(`cannot save index: manifest is too long: ${manifest.length} bytes`);
  }
  signal.throwIfAborted();
  const sections = index.save();
  // The first step decides which series are saved: it comes before anything is waited for.
  let step = sections.next();
  const temporary = `${path}.tmp`;
  try {
    await disk.makeFolder(path.slice(0, path.lastIndexOf('/')));
    await disk.remove(temporary);
    const file = await disk.open(temporary, 'create');
    let bytes: number;
    try {
      const writer = new SectionFileWriter(file);
      await writer.begin(manifest);
      for (; step.done !== true; step = sections.next()) {
        await writer.add(step.value);
        signal.throwIfAborted();
      }
      bytes = await writer.end();
      await file.sync();
    } finally {
      await file.close();
    }
    await disk.rename(temporary, path);
    await disk.syncFolder(path.slice(0, path.lastIndexOf('/')));
    return bytes;
  } catch (error) {
    await disk.remove(temporary).catch(() => {});
    throw error;
  } finally {
    sections.return();
  }
}

class SectionFileWriter {
  readonly #file: DiskFile;
  readonly #rows: DirectoryRow[];
  #end: number;

  constructor(file: DiskFile) {
    this.#file = file;
    this.#rows = [];
    this.#end = 0;
  }

  async begin(manifest: Uint8Array): Promise<void> {
    await this.#write(encodeIndexFileHeader());
    const bytes = new Uint8Array(8 + Math.ceil(manifest.length / 8) * 8);
    new DataView(bytes.buffer).setUint32(0, manifest.length, true);
    bytes.set(manifest, 8);
    await this.add({ kind: sectionKind.manifest, bytes });
  }

  async add({ kind, bytes }: IndexSection): Promise<void> {
    this.#rows.push({ kind, crc32c: crc32c(bytes), start: this.#end, bytes: bytes.length });
    await this.#write(bytes);
  }

  /** @returns bytes of the whole file */
  async end(): Promise<number> {
    await this.#write(encodeDirectory(this.#rows, this.#end));
    return this.#end;
  }

  async #write(bytes: Uint8Array): Promise<void> {
    await this.#file.write(this.#end, [bytes]);
    this.#end += bytes.length;
  }
}

/**
 * A saved index that is open for reading; sections are compared with their checksums when they are
 * read.
 */
export class IndexFile implements IndexSectionSource, AsyncDisposable {
  readonly path: string;
  readonly kinds: readonly number[];
  readonly #file: DiskFile;
  readonly #rows: readonly DirectoryRow[];

  private constructor(path: string, file: DiskFile, rows: readonly DirectoryRow[]) {
    this.path = path;
    this.kinds = rows.map(({ kind }) => kind);
    this.#file = file;
    this.#rows = rows;
  }

  /**
   * Opens the file and reads its directory; null when there is none.
   * @throws {IndexFileCorrupt}
   */
  static async open(disk: Disk, path: string): Promise<IndexFile | null> {
    if ((await disk.size(path)) === null) return null;
    const file = await disk.open(path, 'read');
    try {
      return new IndexFile(path, file, await readDirectory(file, path));
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  /** @throws {IndexFileCorrupt} */
  async read(section: number): Promise<Uint8Array> {
    const row = this.#rows[section]!;
    const bytes = await this.#file.read(row.start, row.bytes);
    if (bytes.length < row.bytes) throw new IndexFileCorrupt(this.path, 'file is cut off');
    if (crc32c(bytes) !== row.crc32c) {
      throw new IndexFileCorrupt(this.path, `checksum of section ${section} is wrong`);
    }
    return bytes;
  }

  /**
   * What the caller wrote with the index.
   * @throws {IndexFileCorrupt}
   */
  async manifest(): Promise<Uint8Array> {
    const section = this.kinds.indexOf(sectionKind.manifest);
    if (section < 0) throw new IndexFileCorrupt(this.path, 'manifest is missing');
    const bytes = await this.read(section);
    const length =
      bytes.length < 8 ? 0 : new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
    if (bytes.length !== 8 + Math.ceil(length / 8) * 8) {
      throw new IndexFileCorrupt(this.path, 'length of the manifest is wrong');
    }
    return bytes.slice(8, 8 + length);
  }

  /**
   * The index.
   * @param place gives the series other ordinals, see `PlaceSeries`
   * @throws {IndexFileCorrupt}
   */
  async load(options: NamespaceIndexOptions, place?: PlaceSeries): Promise<NamespaceIndex> {
    try {
      return await NamespaceIndex.load(this, options, place);
    } catch (error) {
      if (error instanceof IndexDamaged) {
        throw new IndexFileCorrupt(this.path, error.reason, { cause: error });
      }
      throw error;
    }
  }

  /** Bytes of the sections by kind, for reports. */
  bytesByKind(): Map<number, number> {
    const bytes = new Map<number, number>();
    for (const row of this.#rows) bytes.set(row.kind, (bytes.get(row.kind) ?? 0) + row.bytes);
    return bytes;
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

async function readDirectory(file: DiskFile, path: string): Promise<DirectoryRow[]> {
  const fileBytes = await file.size();
  const problem = indexFileHeaderProblem(await file.read(0, indexFileHeaderBytes));
  if (problem !== null) throw new IndexFileCorrupt(path, problem);
  if (fileBytes < indexFileHeaderBytes + indexFileFooterBytes) {
    throw new IndexFileCorrupt(path, 'footer is cut off');
  }
  const footer = await file.read(fileBytes - indexFileFooterBytes, indexFileFooterBytes);
  const start = named(path, () => directoryStart(footer, fileBytes));
  const directory = await file.read(start, fileBytes - start);
  if (directory.length < fileBytes - start) throw new IndexFileCorrupt(path, 'file is cut off');
  return named(path, () => decodeDirectory(directory, start));
}

/** Runs a decoder; its errors name the file. */
function named<Result>(path: string, decode: () => Result): Result {
  try {
    return decode();
  } catch (error) {
    throw new IndexFileCorrupt(path, messageOf(error), { cause: error });
  }
}

/** Renames the file to `….corrupt`, so that it is kept to be looked at and not read. */
export async function setIndexFileAside(disk: Disk, path: string): Promise<void> {
  if ((await disk.size(path)) === null) return;
  await disk.rename(path, `${path}.corrupt`);
  await disk.syncFolder(path.slice(0, path.lastIndexOf('/')));
}

/** Deletes the saved index and what a stopped attempt to write one left. */
export async function removeIndexFile(disk: Disk, path: string): Promise<void> {
  await disk.remove(`${path}.tmp`);
  await disk.remove(path);
}
