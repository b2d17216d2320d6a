/** One column while a file is made: values as they come, entry by entry, and the section that they become. */
import { PackedWriter } from '../../index/saved/packed.ts';
import { ColumnTexts, textsAtOnce } from '../fileset/column_texts.ts';
import { type ColumnShape, numbersBytes } from './column.ts';
import { textsOfBlock, widthOf } from './format.ts';

const noBytes = new Uint8Array(0);

export interface WrittenColumn extends ColumnShape {
  readonly section: Uint8Array;
}

export class ColumnWriter {
  readonly #texts: ColumnTexts;
  /** Entries that have the tag, ascending, and the number of the value of each, in the order in which they came. */
  #holders = new Uint32Array(16);
  #values = new Uint32Array(16);
  #count = 0;

  constructor(name: Uint8Array) {
    this.#texts = new ColumnTexts(name);
  }

  get name(): Uint8Array {
    return this.#texts.name;
  }

  /** The value of an entry that is higher than those before. */
  note(entry: number, bytes: Buffer, start: number, end: number): void {
    if (this.#count === this.#holders.length) {
      this.#holders = enlarged(this.#holders);
      this.#values = enlarged(this.#values);
    }
    this.#holders[this.#count] = entry;
    this.#values[this.#count++] = this.#texts.numberOf(bytes, start, end);
  }

  /** The section, in steps. */
  *finish(entryCount: number): Generator<void, WrittenColumn> {
    const { texts } = this.#texts;
    const valueCount = texts.length;
    const holderCount = this.#count;
    const shape = shapeOf(entryCount, holderCount, valueCount);
    const order = yield* this.#texts.sorted();
    const place = new Uint32Array(valueCount);
    const packed = new PackedWriter();
    const blocks = Math.ceil(valueCount / textsOfBlock);
    for (let block = 0; block < blocks; block++) packed.u32(0);
    for (let i = 0; i < valueCount; i++) {
      place[order[i]!] = i + 1;
      const isFirst = i % textsOfBlock === 0;
      if (isFirst) packed.setU32((4 * i) / textsOfBlock, packed.length);
      packed.text(texts[order[i]!]!, isFirst ? noBytes : texts[order[i - 1]!]!);
      if (i % textsAtOnce === textsAtOnce - 1) yield;
    }
    const section = new Uint8Array(numbersBytes(shape) + packed.length);
    this.#putNumbers(section, shape, place);
    section.set(packed.view(0), numbersBytes(shape));
    return { ...shape, section };
  }

  #putNumbers(
    section: Uint8Array<ArrayBuffer>,
    { entryCount, isSparse, width }: ColumnShape,
    place: Uint32Array,
  ): void {
    const { buffer } = section;
    const count = this.#count;
    if (isSparse) new Uint32Array(buffer, 0, count).set(this.#holders.subarray(0, count));
    if (width === 0) return;
    const at = isSparse ? 4 * count : 0;
    const all = isSparse ? count : entryCount;
    const numbers =
      width === 1
        ? new Uint8Array(buffer, at, all)
        : width === 2
          ? new Uint16Array(buffer, at, all)
          : new Uint32Array(buffer, at, all);
    for (let i = 0; i < count; i++) {
      numbers[isSparse ? i : this.#holders[i]!] = place[this.#values[i]!]!;
    }
  }
}

/** As few bytes as it takes. */
function shapeOf(entryCount: number, holderCount: number, valueCount: number): ColumnShape {
  const shape = { entryCount, holderCount, valueCount };
  const hasOneValue = valueCount === 1;
  const isEverywhere = holderCount === entryCount;
  const width = widthOf(valueCount + 1);
  const all = {
    ...shape,
    isSparse: false,
    width: valueCount === 0 || (hasOneValue && isEverywhere) ? 0 : width,
  } as const;
  const some = { ...shape, isSparse: true, width: hasOneValue ? 0 : width } as const;
  return numbersBytes(some) < numbersBytes(all) ? some : all;
}

function enlarged(values: Uint32Array): Uint32Array<ArrayBuffer> {
  const larger = new Uint32Array(2 * values.length);
  larger.set(values);
  return larger;
}
