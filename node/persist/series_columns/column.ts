/** One column of the series of a closed fileset: the values of a tag name, and which of them each entry has. */
import { compareBytes } from '#lib/tags.ts';
import { PackedReader, PackedTexts } from '../../index/saved/packed.ts';
import { SeriesColumnsCorrupt, textsOfBlock } from './format.ts';

/** What the footer says of it. */
export interface ColumnShape {
  readonly entryCount: number;
  readonly valueCount: number;
  /** Bytes of a number; 0 when all entries have the only value, or there is none. */
  readonly width: number;
  readonly isSorted: boolean;
}

/** Patterns of which it is remembered which values match. */
const patternsKeptMax = 8;

const corrupt = (reason: string): SeriesColumnsCorrupt =>
  new SeriesColumnsCorrupt(`cannot read columns of series: ${reason}`);

export class Column {
  readonly valueCount: number;
  /** By entry 0 for none, else the number of its value; null when all entries have value 1, or there is none. */
  readonly numbers: Uint8Array | Uint16Array | Uint32Array | null;
  readonly #isSorted: boolean;
  readonly #view: DataView;
  readonly #reader: PackedReader;
  /** Where the texts of each block begin. */
  readonly #blocksAt: number;
  readonly #blocks: number;
  readonly #end: number;
  /** Of the value that was read last. */
  readonly #texts = new PackedTexts(256);
  /** By pattern, the one that was asked for last at the end: by number 1 where the value matches. */
  readonly #matches = new Map<string, Uint8Array>();

  /**
   * @param section of the file, in memory of its own
   * @throws {SeriesColumnsCorrupt}
   */
  constructor(section: Uint8Array<ArrayBuffer>, shape: ColumnShape) {
    const { entryCount, valueCount, width, isSorted } = shape;
    this.valueCount = valueCount;
    this.#isSorted = isSorted;
    this.#blocks = Math.ceil(valueCount / textsOfBlock);
    this.#blocksAt = width * entryCount;
    this.#end = section.length;
    if (this.#blocksAt + 4 * this.#blocks > section.length) throw corrupt('a section is cut off');
    const { buffer } = section;
    this.numbers =
      width === 0
        ? null
        : width === 1
          ? new Uint8Array(buffer, 0, entryCount)
          : width === 2
            ? new Uint16Array(buffer, 0, entryCount)
            : new Uint32Array(buffer, 0, entryCount);
    this.#view = new DataView(buffer);
    this.#reader = new PackedReader(section, 0, section.length, corrupt);
  }

  get memoryBytes(): number {
    return this.#end + 1_000 + this.#matches.size * this.valueCount;
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
    return this.numbers === null ? this.valueCount : this.numbers[entry]!;
  }

  /** Number of a value; 0 when no entry has it. */
  numberOf(value: Uint8Array): number {
    if (!this.#isSorted) {
      let found = 0;
      this.eachValue(1, (bytes, start, end, number) => {
        if (compareBytes(bytes.subarray(start, end), value) !== 0) return true;
        found = number;
        return false;
      });
      return found;
    }
    let [low, high] = [0, this.#blocks];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (compareBytes(this.value(middle * textsOfBlock + 1), value) <= 0) low = middle + 1;
      else high = middle;
    }
    let found = 0;
    if (low === 0) return 0;
    const past = low * textsOfBlock;
    this.eachValue((low - 1) * textsOfBlock + 1, (bytes, start, end, number) => {
      const order = compareBytes(bytes.subarray(start, end), value);
      if (order === 0) found = number;
      return order < 0 && number < past;
    });
    return found;
  }

  /** The value of a number from 1 on; borrowed until the next call of any of these. */
  value(number: number): Uint8Array {
    let value: Uint8Array = this.#texts.bytes.subarray(0, 0);
    const block = Math.floor((number - 1) / textsOfBlock);
    this.eachValue(block * textsOfBlock + 1, (bytes, start, end, at) => {
      if (at === number) value = bytes.subarray(start, end);
      return at < number;
    });
    return value;
  }

  /**
   * Values one after the other.
   * @param first number of one that begins a block
   * @param visit told where its bytes are, until the next one; false ends the walk
   * @returns number of the value that comes next, which begins no block when the walk was ended
   */
  eachValue(
    first: number,
    visit: (bytes: Uint8Array, start: number, end: number, number: number) => boolean,
  ): number {
    const reader = this.#reader;
    const texts = this.#texts;
    let length = 0;
    let before = 0;
    for (let number = first; number <= this.valueCount; number++) {
      if ((number - 1) % textsOfBlock === 0) {
        const block = (number - 1) / textsOfBlock;
        const at = this.#view.getUint32(this.#blocksAt + 4 * block, true);
        reader.seek(Math.min(this.#blocksAt + at, this.#end), this.#end);
        texts.length = 0;
        [before, length] = [0, 0];
      }
      const start = texts.length;
      length = reader.text(texts, before, length);
      before = start;
      if (!visit(texts.bytes, start, start + length, number)) return number + 1;
    }
    return this.valueCount + 1;
  }
}
