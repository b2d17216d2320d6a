/** One column of the series of a closed fileset: the values of a tag name, and which of them each entry has. */
import { compareBytes } from '#lib/tags.ts';
import { PackedReader, PackedTexts } from '../../index/saved/packed.ts';
import { SeriesColumnsCorrupt, textsOfBlock } from './format.ts';

/** What the footer says of it. */
export interface ColumnShape {
  readonly entryCount: number;
  readonly valueCount: number;
  /** Entries that have the tag. */
  readonly holderCount: number;
  /** Whether those are listed, because few have it; else there is a number for each entry. */
  readonly isSparse: boolean;
  /** Bytes of a number; 0 when all that are numbered have the only value, or there is none. */
  readonly width: number;
}

/** By entry, a bit. */
export type EntryBits = Uint32Array;

type Numbers = Uint8Array | Uint16Array | Uint32Array;

/** Patterns of which it is remembered which values match. */
const patternsKeptMax = 8;

const corrupt = (reason: string): SeriesColumnsCorrupt =>
  new SeriesColumnsCorrupt(`cannot read columns of series: ${reason}`);

/** Bytes of the numbers, with the entries that they are of where those are listed. */
export function numbersBytes({ entryCount, holderCount, isSparse, width }: ColumnShape): number {
  return isSparse ? (4 + width) * holderCount : width * entryCount;
}

export class Column {
  readonly valueCount: number;
  /** Entries that have the tag, ascending; null when there is a number for each entry. */
  readonly holders: Uint32Array | null;
  /** Of each of them, or by entry (0 for none): the number of its value. Null where all have value 1. */
  readonly #numbers: Numbers | null;
  readonly #entryCount: number;
  readonly #view: DataView;
  readonly #reader: PackedReader;
  /** Where the texts of each block begin. */
  readonly #blocksAt: number;
  readonly #blocks: number;
  readonly #end: number;
  /** Those that were read last. */
  readonly #texts = new PackedTexts(256);
  /** The block of which all values were read last, or -1, and where each of them begins in its texts. */
  #block = -1;
  readonly #starts = new Uint32Array(textsOfBlock + 1);
  /** By pattern, the one that was asked for last at the end: by number 1 where the value matches. */
  readonly #matches = new Map<string, Uint8Array>();

  /**
   * @param section of the file, at the beginning of memory of its own
   * @throws {SeriesColumnsCorrupt}
   */
  constructor(section: Uint8Array<ArrayBuffer>, shape: ColumnShape) {
    const { entryCount, valueCount, holderCount, isSparse, width } = shape;
    this.valueCount = valueCount;
    this.#entryCount = entryCount;
    this.#blocks = Math.ceil(valueCount / textsOfBlock);
    this.#blocksAt = numbersBytes(shape);
    this.#end = section.length;
    if (this.#blocksAt + 4 * this.#blocks > section.length) throw corrupt('a section is cut off');
    const { buffer } = section;
    this.holders = isSparse ? new Uint32Array(buffer, 0, holderCount) : null;
    const at = isSparse ? 4 * holderCount : 0;
    const count = isSparse ? holderCount : entryCount;
    this.#numbers =
      width === 0
        ? null
        : width === 1
          ? new Uint8Array(buffer, at, count)
          : width === 2
            ? new Uint16Array(buffer, at, count)
            : new Uint32Array(buffer, at, count);
    this.#view = new DataView(buffer);
    this.#reader = new PackedReader(section, 0, section.length, corrupt);
  }

  get memoryBytes(): number {
    return this.#end + 1_000 + this.#matches.size * this.valueCount;
  }

  /** What a look at all of it takes: entries that are looked at. */
  get lookedAt(): number {
    return this.holders === null ? this.#entryCount : this.holders.length;
  }

  /** Which values match a pattern, by number; null when nobody has tested it lately. */
  matchesOf(pattern: string): Uint8Array | null {
    const matches = this.#matches.get(pattern);
    if (matches === undefined) return null;
    this.#matches.delete(pattern);
    this.#matches.set(pattern, matches);
    return matches;
  }

  keepMatches(pattern: string, matches: Uint8Array): void {
    this.#matches.set(pattern, matches);
    for (const oldest of this.#matches.keys()) {
      if (this.#matches.size <= patternsKeptMax) return;
      this.#matches.delete(oldest);
    }
  }

  /** Number of the value that an entry has, 0 for none. */
  numberAt(entry: number): number {
    const { holders } = this;
    if (holders === null) return this.#numberOf(entry);
    let [low, high] = [0, holders.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (holders[middle]! < entry) low = middle + 1;
      else high = middle;
    }
    return holders[low] === entry ? this.#numberOf(low) : 0;
  }

  /** Of an entry, or of a holder where those are listed. */
  #numberOf(place: number): number {
    return this.#numbers === null ? Math.min(this.valueCount, 1) : this.#numbers[place]!;
  }

  /** Calls with each entry that has the tag, where those are listed. */
  eachHolder(visit: (entry: number, number: number) => void): void {
    const holders = this.holders!;
    for (let i = 0; i < holders.length; i++) visit(holders[i]!, this.#numberOf(i));
  }

  /** Adds the entries that have one of these values. @param wanted by number from 1 on, 1 for those; 0 at 0 */
  addMatching(wanted: Uint8Array, found: EntryBits): void {
    const { holders } = this;
    const numbers = this.#numbers;
    if (holders === null && numbers === null) {
      if (this.valueCount > 0 && wanted[1] === 1) addAll(found, this.#entryCount);
    } else if (holders === null) {
      for (let i = 0; i < numbers!.length; i++)
        found[i >>> 5]! |= wanted[numbers![i]!]! << (i & 31);
    } else {
      for (let i = 0; i < holders.length; i++) {
        const entry = holders[i]!;
        found[entry >>> 5]! |= wanted[this.#numberOf(i)]! << (entry & 31);
      }
    }
  }

  /** Adds the entries that have this value. */
  addEqual(number: number, found: EntryBits): void {
    const { holders } = this;
    const numbers = this.#numbers;
    if (holders !== null) {
      for (let i = 0; i < holders.length; i++) {
        if (this.#numberOf(i) === number) found[holders[i]! >>> 5]! |= 1 << (holders[i]! & 31);
      }
    } else if (numbers !== null) {
      for (let i = 0; i < numbers.length; i++) {
        if (numbers[i] === number) found[i >>> 5]! |= 1 << (i & 31);
      }
    } else if (this.valueCount > 0 && number === 1) {
      addAll(found, this.#entryCount);
    }
  }

  /** Adds the entries that have the tag. */
  addHaving(found: EntryBits): void {
    const { holders } = this;
    const numbers = this.#numbers;
    if (holders !== null) {
      for (let i = 0; i < holders.length; i++) found[holders[i]! >>> 5]! |= 1 << (holders[i]! & 31);
    } else if (numbers !== null) {
      for (let i = 0; i < numbers.length; i++)
        if (numbers[i] !== 0) found[i >>> 5]! |= 1 << (i & 31);
    } else if (this.valueCount > 0) {
      addAll(found, this.#entryCount);
    }
  }

  /** By number 1 for the values that one of these entries has. */
  valuesOf(entries: EntryBits): Uint8Array {
    const seen = new Uint8Array(this.valueCount + 1);
    const { holders } = this;
    const count = this.lookedAt;
    for (let i = 0; i < count; i++) {
      const entry = holders === null ? i : holders[i]!;
      if ((entries[entry >>> 5]! & (1 << (entry & 31))) !== 0) seen[this.#numberOf(i)] = 1;
    }
    seen[0] = 0;
    return seen;
  }

  /** Number of a value; 0 when no entry has it. */
  numberOf(value: Uint8Array): number {
    let [low, high] = [0, this.#blocks];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (compareBytes(this.#firstOf(middle), value) <= 0) low = middle + 1;
      else high = middle;
    }
    if (low === 0) return 0;
    const first = (low - 1) * textsOfBlock + 1;
    const past = Math.min(first + textsOfBlock, this.valueCount + 1);
    for (let number = first; number < past; number++) {
      const order = compareBytes(this.value(number), value);
      if (order === 0) return number;
      if (order > 0) return 0;
    }
    return 0;
  }

  /** The first value of a block, borrowed. */
  #firstOf(block: number): Uint8Array {
    this.#seek(block);
    const length = this.#reader.text(this.#texts, 0, 0);
    return this.#texts.bytes.subarray(0, length);
  }

  #seek(block: number): void {
    this.#block = -1;
    this.#texts.length = 0;
    const at = this.#view.getUint32(this.#blocksAt + 4 * block, true);
    this.#reader.seek(Math.min(this.#blocksAt + at, this.#end), this.#end);
  }

  /** The value of a number from 1 on; borrowed until the next call of any of these. */
  value(number: number): Uint8Array {
    const block = Math.floor((number - 1) / textsOfBlock);
    if (block !== this.#block) this.#readBlock(block);
    const at = (number - 1) % textsOfBlock;
    return this.#texts.bytes.subarray(this.#starts[at]!, this.#starts[at + 1]!);
  }

  #readBlock(block: number): void {
    this.#seek(block);
    const count = Math.min(textsOfBlock, this.valueCount - block * textsOfBlock);
    const texts = this.#texts;
    let [before, length] = [0, 0];
    for (let i = 0; i < count; i++) {
      const start = texts.length;
      length = this.#reader.text(texts, before, length);
      before = start;
      this.#starts[i] = start;
    }
    this.#starts[count] = texts.length;
    this.#block = block;
  }

  /**
   * Values of a block, one after the other.
   * @param first number of one that begins a block
   * @param visit told where its bytes are, borrowed
   * @returns number of the value that comes next, beyond the last one at the end
   */
  eachOfBlock(
    first: number,
    visit: (bytes: Uint8Array, start: number, end: number, number: number) => void,
  ): number {
    const past = Math.min(first + textsOfBlock, this.valueCount + 1);
    for (let number = first; number < past; number++) {
      this.value(number);
      const at = (number - 1) % textsOfBlock;
      visit(this.#texts.bytes, this.#starts[at]!, this.#starts[at + 1]!, number);
    }
    return past;
  }
}

/** Of so many entries none. */
export const noneOf = (entryCount: number): EntryBits =>
  new Uint32Array(Math.ceil(entryCount / 32));

export function addAll(found: EntryBits, entryCount: number): void {
  found.fill(0xffffffff);
  if (entryCount % 32 !== 0) found[found.length - 1] = 2 ** (entryCount % 32) - 1;
}
