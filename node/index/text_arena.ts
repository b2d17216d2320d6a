/**
 * Bytes of many short texts in pages. A text is appended once and named by its offset; it never crosses
 * a page. Freed texts leave a hole; when holes outgrow the rest, the owner copies the live texts over.
 */
import { TsdbError } from '#lib/errors.ts';

const pageBits = 20;
const pageBytes = 1 << pageBits;
const pageMask = pageBytes - 1;
const pagesMax = 4096;

/** Longest text. */
export const textBytesMax: number = 65_535;

export class TextArena {
  readonly #pages: Uint8Array[];
  readonly #views: DataView[];
  #used: number;
  #liveBytes: number;

  constructor() {
    this.#pages = [new Uint8Array(4096)];
    this.#views = [viewOf(this.#pages[0]!)];
    this.#used = 0;
    this.#liveBytes = 0;
  }

  /**
   * Copies bytes[start, end) in and returns their offset.
   * @throws {TsdbError} RESOURCE_EXHAUSTED beyond 4 GiB of text
   */
  add(bytes: Uint8Array, start: number, end: number): number {
    const length = end - start;
    let page = this.#pages[this.#pages.length - 1]!;
    if (length > page.length - this.#used) page = this.#makeRoom(length);
    const at = this.#used;
    for (let i = 0; i < length; i++) page[at + i] = bytes[start + i]!;
    this.#used += length;
    this.#liveBytes += length;
    return (this.#pages.length - 1) * pageBytes + at;
  }

  /** The first page begins small and doubles, so that an empty namespace costs little. */
  #makeRoom(length: number): Uint8Array {
    const last = this.#pages.length - 1;
    if (last === 0 && this.#used + length <= pageBytes) {
      let size = this.#pages[0]!.length;
      while (size < this.#used + length) size *= 2;
      const larger = new Uint8Array(size);
      larger.set(this.#pages[0]!.subarray(0, this.#used));
      this.#pages[0] = larger;
      this.#views[0] = viewOf(larger);
      return larger;
    }
    if (this.#pages.length === pagesMax) {
      throw new TsdbError('RESOURCE_EXHAUSTED', 'cannot index series: more than 4 GiB of tag text');
    }
    const page = new Uint8Array(pageBytes);
    this.#pages.push(page);
    this.#views.push(viewOf(page));
    this.#used = 0;
    return page;
  }

  /** Page that holds the text; its bytes begin at `positionOf(offset)` there. */
  pageOf(offset: number): Uint8Array {
    return this.#pages[offset >>> pageBits]!;
  }

  /** The same page for reading several bytes at once. */
  viewOf(offset: number): DataView {
    return this.#views[offset >>> pageBits]!;
  }

  positionOf(offset: number): number {
    return offset & pageMask;
  }

  /** Says that a text of this length is no longer used. */
  free(length: number): void {
    this.#liveBytes -= length;
  }

  /** True when copying the live texts to a new arena would win back at least half of this one. */
  get isWasteful(): boolean {
    const total = this.memoryBytes;
    return total > 2 * pageBytes && this.#liveBytes * 2 < total;
  }

  get memoryBytes(): number {
    return (this.#pages.length - 1) * pageBytes + this.#pages[this.#pages.length - 1]!.length;
  }
}

/** The bytes as a DataView. */
export function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
