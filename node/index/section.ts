/**
 * Sections of a saved index (docs/formats/index.md): kinds, and bytes written and read in columns. Every section
 * is a multiple of eight bytes; columns of u32 stand at multiples of four.
 */

export const sectionKind = {
  manifest: 1,
  summary: 2,
  fields: 3,
  terms: 4,
  termPostings: 5,
  fieldPostings: 6,
  series: 7,
  liveBlock: 8,
} as const;

export type SectionKind = (typeof sectionKind)[keyof typeof sectionKind];

export interface IndexSection {
  readonly kind: SectionKind;
  readonly bytes: Uint8Array;
}

/** The sections of a saved index, to be read in any order. */
export interface IndexSectionSource {
  /** By section. */
  readonly kinds: readonly number[];
  /** @throws {IndexDamaged} when the bytes are not those that were written */
  read(section: number): Promise<Uint8Array>;
}

/** A saved index that cannot be trusted, or not by this namespace. */
export class IndexDamaged extends Error {
  override readonly name = 'IndexDamaged';
  readonly reason: string;

  constructor(reason: string, options?: ErrorOptions) {
    super(`cannot load index: ${reason}`, options);
    this.reason = reason;
  }
}

export function damagedUnless(condition: boolean, reason: string): asserts condition {
  if (!condition) throw new IndexDamaged(reason);
}

/** Bytes of a section as it grows. */
export class SectionWriter {
  #bytes: Uint8Array<ArrayBuffer>;
  #view: DataView;
  #words: Uint32Array;
  length: number;

  constructor() {
    this.#bytes = new Uint8Array(1 << 16);
    this.#view = new DataView(this.#bytes.buffer);
    this.#words = new Uint32Array(this.#bytes.buffer);
    this.length = 0;
  }

  #room(more: number): void {
    const needed = this.length + more;
    if (needed <= this.#bytes.length) return;
    let size = this.#bytes.length;
    while (size < needed) size *= 2;
    const larger = new Uint8Array(size);
    larger.set(this.#bytes.subarray(0, this.length));
    this.#bytes = larger;
    this.#view = new DataView(larger.buffer);
    this.#words = new Uint32Array(larger.buffer);
  }

  u32(value: number): void {
    this.#room(4);
    this.#view.setUint32(this.length, value, true);
    this.length += 4;
  }

  i64(value: bigint): void {
    this.#room(8);
    this.#view.setBigInt64(this.length, value, true);
    this.length += 8;
  }

  /** Takes this many bytes, which are zero. @returns where they begin */
  take(count: number): number {
    this.#room(count);
    const start = this.length;
    this.#bytes.fill(0, start, start + count);
    this.length += count;
    return start;
  }

  setU32(position: number, value: number): void {
    this.#view.setUint32(position, value, true);
  }

  setU16(position: number, value: number): void {
    this.#view.setUint16(position, value, true);
  }

  setU8(position: number, value: number): void {
    this.#bytes[position] = value;
  }

  /** The bytes so far and those that were taken; borrowed until more are taken. */
  get bytes(): Uint8Array {
    return this.#bytes;
  }

  /** The same as words, to fill columns that were taken at a multiple of four. */
  get words(): Uint32Array {
    return this.#words;
  }

  align(bytes: 4 | 8): void {
    this.take(-this.length & (bytes - 1));
  }

  copy(bytes: Uint8Array): void {
    this.#room(bytes.length);
    this.#bytes.set(bytes, this.length);
    this.length += bytes.length;
  }

  /** The section, padded; a copy. Then the writer is empty again. */
  finish(): Uint8Array {
    this.align(8);
    const section = this.#bytes.slice(0, this.length);
    this.length = 0;
    return section;
  }
}

/** Reads a section from its start; a length that reaches beyond the end is damage. */
export class SectionReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #what: string;
  #at: number;

  /** @param what for reasons: 'series' */
  constructor(bytes: Uint8Array, what: string) {
    this.#bytes = bytes.byteOffset % 8 === 0 ? bytes : bytes.slice();
    this.#view = new DataView(this.#bytes.buffer, this.#bytes.byteOffset, bytes.length);
    this.#what = what;
    this.#at = 0;
  }

  /** Takes the next bytes. @returns where they begin */
  #take(count: number): number {
    if (count > this.#bytes.length - this.#at) {
      throw new IndexDamaged(`section of ${this.#what} is cut off`);
    }
    const start = this.#at;
    this.#at += count;
    return start;
  }

  u32(): number {
    return this.#view.getUint32(this.#take(4), true);
  }

  i64(): bigint {
    return this.#view.getBigInt64(this.#take(8), true);
  }

  /** Borrowed, as the ones below. */
  u32s(count: number): Uint32Array {
    const start = this.#take(4 * count);
    return new Uint32Array(this.#bytes.buffer, this.#bytes.byteOffset + start, count);
  }

  u16s(count: number): Uint16Array {
    const start = this.#take(2 * count);
    return new Uint16Array(this.#bytes.buffer, this.#bytes.byteOffset + start, count);
  }

  u8s(count: number): Uint8Array {
    const start = this.#take(count);
    return this.#bytes.subarray(start, start + count);
  }

  align(bytes: 4 | 8): void {
    const start = this.#take(-this.#at & (bytes - 1));
    for (let i = start; i < this.#at; i++) {
      damagedUnless(this.#bytes[i] === 0, `section of ${this.#what} has bytes between its columns`);
    }
  }

  end(): void {
    this.align(8);
    damagedUnless(
      this.#at === this.#bytes.length,
      `section of ${this.#what} is longer than its columns`,
    );
  }
}
