/**
 * What is kept in memory of the filesets of a node, under limits: open files, directories, and
 * pages of their data. The least recently used goes first.
 */
import { assert } from '#lib/assert.ts';
import type { Disk, DiskFile } from '#lib/env/env.ts';
import { isUnreadable } from '#lib/env/unreadable.ts';
import type { SeriesColumns } from '../../persist/series_columns/series_columns.ts';
import type { Directory } from './directory.ts';

export interface FileCacheLimits {
  readonly openFilesMax: number;
  readonly directoryBytesMax: number;
  /** 0: pages are not kept. */
  readonly pageBytesMax: number;
}

/** A file that is read by range. */
export interface CachedFile {
  readonly dataPath: string;
  readonly dataBytes: number;
}

/** Data files of filesets that are open at a time. */
export const openFilesMax = 512;

/** Data of filesets that are kept in memory, unless it is said otherwise. */
export const pageBytesMaxDefault: number = 64 * 1024 * 1024;

export const pageBytes: number = 64 * 1024;
/** Pages that are read in one go. */
const pagesAtOnce = 64;

interface OpenFile {
  readonly opening: Promise<DiskFile>;
  uses: number;
}

export class FileCache implements AsyncDisposable {
  readonly #disk: Disk;
  #limits: FileCacheLimits;
  /** In the order of their last use, as all of these. */
  readonly #open = new Map<CachedFile, OpenFile>();
  readonly #directories = new Map<CachedFile, Directory>();
  #directoryBytes = 0;
  readonly #columns = new Map<CachedFile, { readonly columns: SeriesColumns; bytes: number }>();
  #columnsBytes = 0;
  readonly #pages = new Map<CachedFile, Map<number, Page>>();
  /** Oldest and newest page: a ring through this. */
  readonly #ring: Page;
  #pagesBytes = 0;
  #nowMillis = 0;
  /** Counts of this process, for metrics. */
  readonly counts: { pageHits: number; pageMisses: number; bytesRead: number } = {
    pageHits: 0,
    pageMisses: 0,
    bytesRead: 0,
  };

  constructor(disk: Disk, limits: FileCacheLimits) {
    this.#disk = disk;
    this.#limits = limits;
    this.#ring = new Page(null, 0, new Uint8Array(0));
  }

  get memoryBytes(): number {
    return this.#directoryBytes + this.#columnsBytes + this.#pagesBytes;
  }

  /** Of pages, with what each takes beside its data. */
  get pageBytes(): number {
    return this.#pagesBytes;
  }

  limitPages(pageBytesMax: number): void {
    this.limit({ ...this.#limits, pageBytesMax });
  }

  /** Pages that are used from now on were used at this time. */
  noteTime(monotonicMillis: number): void {
    this.#nowMillis = monotonicMillis;
  }

  /**
   * Forgets pages that were not read for a time.
   * @param keptMillisOf a file; null keeps its pages
   */
  forgetUnread(keptMillisOf: (file: CachedFile) => number | null): void {
    for (const [file, pages] of [...this.#pages]) {
      const keptMillis = keptMillisOf(file);
      if (keptMillis === null) continue;
      for (const page of [...pages.values()]) {
        if (this.#nowMillis - page.usedAtMillis >= keptMillis) this.#forgetPage(page);
      }
    }
  }

  /** Brings all pages of a file to memory that are not there. */
  async load(file: CachedFile): Promise<void> {
    const pageCount = Math.ceil(file.dataBytes / pageBytes);
    for (let first = 0; first < pageCount; first += pagesAtOnce) {
      const end = Math.min(first + pagesAtOnce, pageCount);
      let isMissing = false;
      for (let number = first; number < end; number += 1) {
        if (this.#pages.get(file)?.has(number) !== true) isMissing = true;
      }
      if (isMissing) await this.#readPages(file, first, end);
    }
  }

  /** Changes the limits; what is over them goes at once. */
  limit(limits: FileCacheLimits): void {
    this.#limits = limits;
    this.#shrinkDirectories();
    this.#shrinkColumns();
    this.#shrinkPages();
  }

  directory(file: CachedFile): Directory | null {
    const directory = this.#directories.get(file);
    if (directory === undefined) return null;
    this.#directories.delete(file);
    this.#directories.set(file, directory);
    return directory;
  }

  addDirectory(file: CachedFile, directory: Directory): void {
    this.#forgetDirectory(file);
    this.#directories.set(file, directory);
    this.#directoryBytes += directory.memoryBytes;
    this.#shrinkDirectories();
  }

  #shrinkDirectories(): void {
    for (const file of this.#directories.keys()) {
      if (this.#directoryBytes <= this.#limits.directoryBytesMax) return;
      this.#forgetDirectory(file);
    }
  }

  columns(file: CachedFile): SeriesColumns | null {
    const kept = this.#columns.get(file);
    if (kept === undefined) return null;
    this.#columns.delete(file);
    this.#columns.set(file, kept);
    return kept.columns;
  }

  /** To be called again when more of them was read. They have the limit of directories, of which they stand in the place. */
  keepColumns(file: CachedFile, columns: SeriesColumns): void {
    this.forgetColumns(file);
    const bytes = columns.memoryBytes;
    this.#columns.set(file, { columns, bytes });
    this.#columnsBytes += bytes;
    this.#shrinkColumns();
  }

  #shrinkColumns(): void {
    for (const file of this.#columns.keys()) {
      if (this.#columnsBytes <= this.#limits.directoryBytesMax) return;
      this.forgetColumns(file);
    }
  }

  forgetColumns(file: CachedFile): void {
    this.#columnsBytes -= this.#columns.get(file)?.bytes ?? 0;
    this.#columns.delete(file);
  }

  #forgetDirectory(file: CachedFile): void {
    const before = this.#directories.get(file);
    if (before === undefined) return;
    this.#directories.delete(file);
    this.#directoryBytes -= before.memoryBytes;
  }

  /**
   * Bytes [start, end) of a file; fewer when it is shorter. Borrowed: not to be changed.
   * Ranges that follow each other are best asked for as one.
   */
  async read(file: CachedFile, start: number, end: number): Promise<Uint8Array> {
    if (this.#limits.pageBytesMax === 0) {
      return (await this.#readFile(file, start, end)) ?? this.#readPieces(file, start, end);
    }
    const first = Math.floor(start / pageBytes);
    const last = Math.floor((end - 1) / pageBytes);
    if (first === last) {
      const page = this.#page(file, first) ?? (await this.#readPages(file, first, first + 1))[0]!;
      return page.subarray(start - first * pageBytes, end - first * pageBytes);
    }
    const bytes = new Uint8Array(end - start);
    let length = 0;
    const put = (number: number, page: Uint8Array) => {
      const from = Math.max(start - number * pageBytes, 0);
      const part = page.subarray(from, end - number * pageBytes);
      bytes.set(part, number * pageBytes + from - start);
      length += part.length;
    };
    for (let number = first; number <= last; ) {
      const page = this.#page(file, number);
      if (page !== null) {
        put(number, page);
        number += 1;
        continue;
      }
      let missingEnd = number + 1;
      while (
        missingEnd <= last &&
        missingEnd - number < pagesAtOnce &&
        this.#pages.get(file)?.has(missingEnd) !== true
      ) {
        missingEnd += 1;
      }
      for (const read of await this.#readPages(file, number, missingEnd)) {
        put(number, read);
        number += 1;
      }
    }
    return bytes.subarray(0, length);
  }

  #page(file: CachedFile, number: number): Uint8Array | null {
    const page = this.#pages.get(file)?.get(number);
    if (page === undefined) return null;
    this.counts.pageHits += 1;
    page.usedAtMillis = this.#nowMillis;
    page.unlink();
    page.linkBefore(this.#ring);
    return page.bytes;
  }

  /** Pages [first, end) from the file, kept from now on. */
  async #readPages(file: CachedFile, first: number, end: number): Promise<Uint8Array[]> {
    const bytes = await this.#readFile(file, first * pageBytes, end * pageBytes);
    if (bytes === null) return this.#readSome(file, first, end);
    const read: Uint8Array[] = [];
    for (let number = first; number < end; number += 1) {
      const start = (number - first) * pageBytes;
      // A copy, so that a page which is forgotten does not stay for its neighbours.
      const part = bytes.subarray(start, start + pageBytes);
      const page = end - first === 1 ? part : part.slice();
      read.push(page);
      this.#keepPage(file, number, page);
    }
    this.counts.pageMisses += end - first;
    return read;
  }

  /**
   * Pages of which the disk cannot read some: these are zeros, which no checksum takes for chunks,
   * and are not kept.
   */
  async #readSome(file: CachedFile, first: number, end: number): Promise<Uint8Array[]> {
    const read: Uint8Array[] = [];
    for (let number = first; number < end; number += 1) {
      const start = number * pageBytes;
      const bytes = await this.#readFile(file, start, start + pageBytes);
      if (bytes !== null) this.#keepPage(file, number, bytes);
      read.push(bytes ?? new Uint8Array(Math.min(pageBytes, file.dataBytes - start)));
    }
    this.counts.pageMisses += end - first;
    return read;
  }

  /** A range of which the disk cannot read some: this is zeros. */
  async #readPieces(file: CachedFile, start: number, end: number): Promise<Uint8Array> {
    const bytes = new Uint8Array(Math.min(end, file.dataBytes) - start);
    for (let at = start; at < start + bytes.length; at += pageBytes) {
      const piece = await this.#readFile(file, at, Math.min(end, at + pageBytes));
      if (piece !== null) bytes.set(piece, at - start);
    }
    return bytes;
  }

  #keepPage(file: CachedFile, number: number, bytes: Uint8Array): void {
    let pages = this.#pages.get(file);
    if (pages === undefined) this.#pages.set(file, (pages = new Map()));
    if (pages.has(number)) return;
    const page = new Page(file, number, bytes);
    page.usedAtMillis = this.#nowMillis;
    pages.set(number, page);
    page.linkBefore(this.#ring);
    this.#pagesBytes += page.memoryBytes;
    this.#shrinkPages();
  }

  #shrinkPages(): void {
    while (this.#pagesBytes > this.#limits.pageBytesMax && this.#ring.newer !== this.#ring) {
      this.#forgetPage(this.#ring.newer);
    }
  }

  #forgetPage(page: Page): void {
    assert(page.file !== null, 'the ring itself is no page');
    page.unlink();
    this.#pagesBytes -= page.memoryBytes;
    const pages = this.#pages.get(page.file)!;
    pages.delete(page.number);
    if (pages.size === 0) this.#pages.delete(page.file);
  }

  /** @returns null when the disk cannot read it */
  async #readFile(file: CachedFile, start: number, end: number): Promise<Uint8Array | null> {
    const open = this.#acquire(file);
    try {
      const handle = await open.opening;
      const bytes = await handle.read(start, Math.min(end, file.dataBytes) - start);
      this.counts.bytesRead += bytes.length;
      return bytes;
    } catch (error) {
      if (isUnreadable(error)) return null;
      throw error;
    } finally {
      open.uses -= 1;
      await this.#closeSome();
    }
  }

  #acquire(file: CachedFile): OpenFile {
    let open = this.#open.get(file);
    if (open === undefined) {
      open = { opening: this.#disk.open(file.dataPath, 'read'), uses: 0 };
      open.opening.catch(() => this.#open.delete(file));
    } else {
      this.#open.delete(file);
    }
    this.#open.set(file, open);
    open.uses += 1;
    return open;
  }

  async #closeSome(): Promise<void> {
    if (this.#open.size <= this.#limits.openFilesMax) return;
    for (const [file, open] of this.#open) {
      if (open.uses > 0) continue;
      this.#open.delete(file);
      await (await open.opening).close();
      if (this.#open.size <= this.#limits.openFilesMax) return;
    }
  }

  /** Forgets all of a file that nobody reads any more. */
  async forget(file: CachedFile): Promise<void> {
    this.#forgetDirectory(file);
    this.forgetColumns(file);
    for (const page of this.#pages.get(file)?.values() ?? []) this.#forgetPage(page);
    const open = this.#open.get(file);
    if (open === undefined) return;
    this.#open.delete(file);
    const handle = await open.opening.catch(() => null);
    await handle?.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const file of [...this.#open.keys()]) await this.forget(file);
  }
}

/** A page in the ring, from the one that was used longest ago to the newest. */
class Page {
  readonly file: CachedFile | null;
  readonly number: number;
  readonly bytes: Uint8Array;
  /** By the monotonic clock, as exact as `noteTime` is called often. */
  usedAtMillis = 0;
  newer: Page;
  older: Page;

  constructor(file: CachedFile | null, number: number, bytes: Uint8Array) {
    this.file = file;
    this.number = number;
    this.bytes = bytes;
    this.newer = this;
    this.older = this;
  }

  get memoryBytes(): number {
    return this.bytes.length + 300;
  }

  linkBefore(next: Page): void {
    this.newer = next;
    this.older = next.older;
    this.older.newer = this;
    next.older = this;
  }

  unlink(): void {
    this.older.newer = this.newer;
    this.newer.older = this.older;
  }
}
