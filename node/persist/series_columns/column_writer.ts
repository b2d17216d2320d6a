/** One column while a file is made: values as they come, entry by entry, and the section that they become. */
import { PackedWriter } from '../../index/saved/packed.ts';
import { ColumnTexts } from '../fileset/column_texts.ts';
import { type ColumnShape, numbersBytes } from './column.ts';
import { textsOfBlock, widthOf } from './format.ts';

const noBytes = new Uint8Array(0);
/** Texts that are sorted, merged, or written in one step. */
const textsAtOnce = 2_048;

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
    const order = yield* sortedTexts(texts);
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

/** Numbers of texts, ascending by their bytes, in steps: runs are sorted, and merged by twos. */
function* sortedTexts(texts: readonly Uint8Array[]): Generator<void, Uint32Array> {
  // One character a byte: their order is that of the bytes, and they are compared without a call.
  const strings: string[] = [];
  for (const text of texts) {
    strings.push(Buffer.from(text.buffer, text.byteOffset, text.length).toString('latin1'));
    if (strings.length % textsAtOnce === 0) yield;
  }
  const compare = (a: number, b: number): number =>
    strings[a]! < strings[b]! ? -1 : strings[a]! > strings[b]! ? 1 : 0;
  let from = new Uint32Array(strings.length);
  for (let i = 0; i < from.length; i++) from[i] = i;
  yield;
  for (let first = 0; first < from.length; first += textsAtOnce) {
    from.subarray(first, first + textsAtOnce).sort(compare);
    yield;
  }
  let into = new Uint32Array(from.length);
  for (let length = textsAtOnce; length < from.length; length *= 2) {
    for (let first = 0; first < from.length; first += 2 * length) {
      const middle = Math.min(first + length, from.length);
      const end = Math.min(middle + length, from.length);
      let [left, right] = [first, middle];
      for (let at = first; at < end; at++) {
        const isLeft = left < middle && (right >= end || compare(from[left]!, from[right]!) <= 0);
        into[at] = isLeft ? from[left++]! : from[right++]!;
        if (at % textsAtOnce === 0) yield;
      }
    }
    [from, into] = [into, from];
  }
  return from;
}

function enlarged(values: Uint32Array): Uint32Array<ArrayBuffer> {
  const larger = new Uint32Array(2 * values.length);
  larger.set(values);
  return larger;
}
