/**
 * Bytes of many short texts in pages. A text is appended once and named by its offset; it never
 * crosses a page. Freed texts leave holes; a page without texts is given back, and when holes
 * outgrow the rest, the owner moves the texts of the emptier pages, some at a time.
 */
import { TsdbError } from '#lib/errors.ts';

const pageBits = 20;
const pageBytes = 1 << pageBits;
const pageMask = pageBytes - 1;
const pagesMax = 4096;
const firstPageBytes = 4096;

/** Longest text. */
export const textBytesMax: number = 65_535;

export class TextArena {
  /** Of no bytes where a page was given back. */
  readonly #pages: Uint8Array[];
  readonly #views: DataView[];
  readonly #buffers: Buffer[];
  /** By page: bytes of its texts. */
  readonly #liveBytes: number[];
  /** By page: whether its texts are to be moved. */
  readonly #isLeaving: boolean[];
  readonly #freePages: number[];
  /** Page that takes new texts, and how much of it is used. */
  #current: number;
  #used: number;
  #liveTotal: number;
  #memoryBytes: number;

  constructor() {
    this.#pages = [];
    this.#views = [];
    this.#buffers = [];
    this.#liveBytes = [];
    this.#isLeaving = [];
    this.#freePages = [];
    this.#current = 0;
    this.#used = 0;
    this.#liveTotal = 0;
    this.#memoryBytes = 0;
    this.#setPage(0, new Uint8Array(firstPageBytes));
  }

  #setPage(index: number, page: Uint8Array): void {
    this.#memoryBytes += page.length - (this.#pages[index]?.length ?? 0);
    this.#pages[index] = page;
    this.#views[index] = viewOf(page);
    this.#buffers[index] = Buffer.from(page.buffer, page.byteOffset, page.length);
    this.#liveBytes[index] ??= 0;
    this.#isLeaving[index] = false;
  }

  /**
   * Copies bytes[start, end) in and returns their offset.
   * @throws {TsdbError} RESOURCE_EXHAUSTED beyond 4 GiB of text
   */
  add(bytes: Uint8Array, start: number, end: number): number {
    const at = this.#take(end - start);
    const page = this.#pages[this.#current]!;
    for (let i = start; i < end; i++) page[at + i - start] = bytes[i]!;
    return this.#current * pageBytes + at;
  }

  /**
   * Copies texts that lie one after the other, all together at most a page of 1 MiB.
   * @returns offset of the first one
   */
  addMany(texts: Uint8Array): number {
    const at = this.#take(texts.length);
    this.#pages[this.#current]!.set(texts, at);
    return this.#current * pageBytes + at;
  }

  #take(length: number): number {
    if (length > this.#pages[this.#current]!.length - this.#used) this.#makeRoom(length);
    const at = this.#used;
    this.#used += length;
    this.#liveTotal += length;
    this.#liveBytes[this.#current]! += length;
    return at;
  }

  /** The first page begins small and doubles, so that an empty namespace costs little. */
  #makeRoom(length: number): void {
    const page = this.#pages[this.#current]!;
    if (page.length < pageBytes && this.#used + length <= pageBytes) {
      let size = page.length;
      while (size < this.#used + length) size *= 2;
      const larger = new Uint8Array(size);
      larger.set(page.subarray(0, this.#used));
      this.#setPage(this.#current, larger);
      return;
    }
    const index = this.#freePages.pop() ?? this.#pages.length;
    if (index === pagesMax) {
      throw new TsdbError('RESOURCE_EXHAUSTED', 'cannot index series: more than 4 GiB of tag text');
    }
    const before = this.#current;
    this.#current = index;
    this.#used = 0;
    this.#setPage(index, new Uint8Array(pageBytes));
    if (this.#liveBytes[before] === 0) this.#giveBack(before);
  }

  #giveBack(index: number): void {
    this.#setPage(index, noBytes);
    this.#freePages.push(index);
  }

  /** Page that holds the text; its bytes begin at `positionOf(offset)` there. */
  pageOf(offset: number): Uint8Array {
    return this.#pages[offset >>> pageBits]!;
  }

  /** The same page for reading several bytes at once. */
  viewOf(offset: number): DataView {
    return this.#views[offset >>> pageBits]!;
  }

  /** The same page for decoding text. */
  bufferOf(offset: number): Buffer {
    return this.#buffers[offset >>> pageBits]!;
  }

  positionOf(offset: number): number {
    return offset & pageMask;
  }

  /** Says that the text is no longer used. */
  free(offset: number, length: number): void {
    const index = offset >>> pageBits;
    this.#liveTotal -= length;
    this.#liveBytes[index]! -= length;
    if (this.#liveBytes[index] !== 0) return;
    if (index !== this.#current) {
      this.#giveBack(index);
    } else if (this.#liveTotal === 0) {
      this.#setPage(index, new Uint8Array(firstPageBytes));
      this.#used = 0;
    }
  }

  /**
   * Marks the pages that are mostly holes when half of the memory is: their texts are to be moved.
   * @returns false when there is nothing to move
   */
  beginCompaction(): boolean {
    if (this.#memoryBytes <= 2 * pageBytes || this.#liveTotal * 2 >= this.#memoryBytes)
      return false;
    for (let i = 0; i < this.#pages.length; i++) {
      this.#isLeaving[i] = i !== this.#current && this.#liveBytes[i]! * 2 < this.#pages[i]!.length;
    }
    return true;
  }

  /** Moves the text to another page if its page was marked. @returns its offset from now on */
  moved(offset: number, length: number): number {
    const index = offset >>> pageBits;
    if (!this.#isLeaving[index]) return offset;
    const start = offset & pageMask;
    const to = this.add(this.#pages[index]!, start, start + length);
    this.free(offset, length);
    return to;
  }

  get memoryBytes(): number {
    return this.#memoryBytes;
  }
}

const noBytes = new Uint8Array(0);

/** The bytes as a DataView. */
export function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
