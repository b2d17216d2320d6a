/**
 * Collects the index of a fileset (docs/formats/fileset.md) entry by entry and packs it at the end,
 * when it is known how many values each tag name has.
 */
import { assert } from '#lib/assert.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import {
  bitsFor,
  maskColumnsMax,
  packedBitsMax,
  packedSlackBytes,
  PackedWriter,
} from '../../index/saved/packed.ts';
import { ColumnTexts, isEqualText, textsAtOnce } from './column_texts.ts';
import { encodeFileHeader, filesetFormatVersion, indexGroupEntries, indexMagic } from './format.ts';

export interface FilesetSeries {
  readonly idScheme: number;
  /** Canonical tags. */
  readonly tags: Uint8Array;
  /** For ID scheme 0, else empty. */
  readonly explicitId: Uint8Array;
}

const noBytes = new Uint8Array(0);
/** Entries that are numbered, or written, in one step. */
const entriesAtOnce = 64 * indexGroupEntries;

/** Entries have the same form: the ID scheme and the columns of which they have a value. */
interface Shape {
  readonly idScheme: number;
  readonly columns: readonly number[];
  /** By column: how many entries have another value than the one before with this column. */
  readonly changes: number[];
  entries: number;
}

export class FilesetIndexWriter {
  /** The first one is that of explicit IDs. */
  readonly #columns: ColumnTexts[] = [new ColumnTexts(noBytes)];
  readonly #columnByName = new Map<string, number>();
  readonly #shapes: Shape[] = [];
  readonly #shapeByKey = new Map<string, number>();
  #shape = -1;
  /** Columns of the entry that is added. */
  #fields: number[] = [];
  /** Values of all entries, one after the other. */
  #values = new Uint32Array(1024);
  #valuesEnd = 0;
  /** By entry. */
  #shapeOf = new Uint32Array(64);
  #lengths = new Float64Array(64);
  #checksums = new Uint32Array(64);
  #count = 0;

  /**
   * Adds an entry; its ID is greater than the one before.
   * @param length bytes of its chunks, with their checksum
   */
  add(series: FilesetSeries, length: number, checksum: number): void {
    const entry = this.#count;
    if (entry === this.#shapeOf.length) this.#grow();
    const isExplicit = series.idScheme === idSchemeCode.explicit;
    let count = 0;
    if (isExplicit) {
      const { explicitId } = series;
      this.#addValue(0, bufferOf(explicitId), 0, explicitId.length);
      this.#fields[count++] = 0;
    }
    count = this.#addTags(series.tags, count);
    this.#shapeOf[entry] = this.#shapeFor(series.idScheme, count);
    this.#lengths[entry] = length;
    this.#checksums[entry] = checksum;
    this.#count += 1;
  }

  #grow(): void {
    const more = 2 * this.#shapeOf.length;
    this.#shapeOf = enlarged(this.#shapeOf, new Uint32Array(more));
    this.#checksums = enlarged(this.#checksums, new Uint32Array(more));
    const lengths = new Float64Array(more);
    lengths.set(this.#lengths);
    this.#lengths = lengths;
  }

  /** @returns how many columns the entry has */
  #addTags(tags: Uint8Array, first: number): number {
    const bytes = bufferOf(tags);
    const before = this.#shape < 0 ? [] : this.#shapes[this.#shape]!.columns;
    let count = first;
    for (let at = 0; at < tags.length; count += 1) {
      const name = at + 2;
      const nameEnd = name + lengthAt(tags, at);
      const value = nameEnd + 2;
      const valueEnd = value + lengthAt(tags, nameEnd);
      assert(valueEnd <= tags.length, 'tags of a fileset are canonical');
      // Neighbours have most names in common, at the same place.
      const likely = before[count];
      const column =
        likely !== undefined && isEqualText(this.#columns[likely]!.name, tags, name, nameEnd)
          ? likely
          : this.#columnFor(bytes, name, nameEnd);
      this.#fields[count] = column;
      this.#addValue(column, bytes, value, valueEnd);
      at = valueEnd;
    }
    return count;
  }

  #columnFor(bytes: Buffer, start: number, end: number): number {
    const name = bytes.toString('latin1', start, end);
    let column = this.#columnByName.get(name);
    if (column === undefined) {
      column = this.#columns.length;
      this.#columns.push(new ColumnTexts(Uint8Array.from(bytes.subarray(start, end))));
      this.#columnByName.set(name, column);
    }
    return column;
  }

  #addValue(column: number, bytes: Buffer, start: number, end: number): void {
    if (this.#valuesEnd === this.#values.length) {
      this.#values = enlarged(this.#values, new Uint32Array(2 * this.#values.length));
    }
    this.#values[this.#valuesEnd++] = this.#columns[column]!.numberOf(bytes, start, end);
  }

  #shapeFor(idScheme: number, count: number): number {
    const fields = this.#fields;
    const before = this.#shapes[this.#shape];
    if (before !== undefined && before.idScheme === idScheme && before.columns.length === count) {
      let i = 0;
      while (i < count && before.columns[i] === fields[i]) i += 1;
      if (i === count) return this.#shape;
    }
    const columns = fields.slice(0, count);
    const key = `${idScheme} ${columns.join()}`;
    let shape = this.#shapeByKey.get(key);
    if (shape === undefined) {
      shape = this.#shapes.length;
      this.#shapeByKey.set(key, shape);
      this.#shapes.push({ idScheme, columns, changes: columns.map(() => 0), entries: 0 });
    }
    this.#shape = shape;
    return shape;
  }

  /** The whole index file, in steps. Borrowed. */
  *finish(dataEnd: number): Generator<void, Uint8Array> {
    const order: Uint32Array[] = [];
    for (const column of this.#columns) order.push(yield* column.order());
    yield* this.#renumber(order);
    const packed = new PackedWriter();
    packed.bytes(encodeFileHeader(indexMagic));
    const isFlagged = this.#shapes.map((shape) => this.#flagsOf(shape));
    const groups = yield* this.#addGroups(packed, isFlagged);
    const checksumsOffset = packed.length;
    for (let i = 0; i < this.#count; i += 1) {
      packed.u32(this.#checksums[i]!);
      if (i % entriesAtOnce === entriesAtOnce - 1) yield;
    }
    for (const { bytes, dataBytes } of groups) {
      packed.varint(bytes);
      packed.varint(dataBytes);
    }
    yield* this.#addColumns(packed, order);
    packed.varint(this.#shapes.length);
    for (const [i, { idScheme, columns }] of this.#shapes.entries()) {
      packed.varint(idScheme);
      packed.varint(columns.length);
      for (const [at, column] of columns.entries()) {
        packed.varint(2 * column + (isFlagged[i]![at] ? 1 : 0));
      }
    }
    packed.u64(checksumsOffset);
    packed.u64(dataEnd);
    packed.u32(this.#count);
    packed.u32(filesetFormatVersion);
    return packed.view(0);
  }

  /** Makes values of entries the places of their texts, and counts how often they change. */
  *#renumber(order: readonly Uint32Array[]): Generator<void> {
    const places = order.map((numbers) => {
      const place = new Uint32Array(numbers.length);
      for (let i = 0; i < numbers.length; i += 1) place[numbers[i]!] = i;
      return place;
    });
    const values = this.#values;
    const last = new Uint32Array(this.#columns.length);
    let at = 0;
    for (let entry = 0; entry < this.#count; entry += 1) {
      if (entry % indexGroupEntries === 0) last.fill(0);
      if (entry % entriesAtOnce === entriesAtOnce - 1) yield;
      const { columns, changes } = this.#shapes[this.#shapeOf[entry]!]!;
      this.#shapes[this.#shapeOf[entry]!]!.entries += 1;
      for (let i = 0; i < columns.length; i += 1) {
        const column = columns[i]!;
        const value = places[column]![values[at]!]!;
        values[at++] = value;
        if (last[column] !== value) {
          last[column] = value;
          changes[i]! += 1;
        }
      }
    }
  }

  /**
   * By column of a shape: whether a bit that tells a change takes less than the values of all
   * entries.
   */
  #flagsOf({ columns, changes, entries }: Shape): boolean[] {
    return columns.map((column, i) => {
      const width = bitsFor(this.#columns[column]!.texts.length);
      assert(width <= packedBitsMax, 'values of a fileset have numbers of at most 25 bits');
      return entries + changes[i]! * width < entries * width;
    });
  }

  *#addGroups(
    packed: PackedWriter,
    isFlagged: readonly (readonly boolean[])[],
  ): Generator<void, { bytes: number; dataBytes: number }[]> {
    const widths = this.#columns.map(({ texts }) => bitsFor(texts.length));
    const shapeBits = bitsFor(this.#shapes.length);
    const last = new Uint32Array(this.#columns.length);
    const changed = new Uint32Array(maskColumnsMax);
    const forms = isFlagged.map((flags) => {
      const places = flags.map((_, i) => i);
      return {
        plain: Uint32Array.from(places.filter((i) => !flags[i]!)),
        flagged: Uint32Array.from(places.filter((i) => flags[i]!)),
      };
    });
    const groups = [];
    let at = 0;
    for (let first = 0; first < this.#count; first += indexGroupEntries) {
      const end = Math.min(first + indexGroupEntries, this.#count);
      if (end % entriesAtOnce === 0) yield;
      const start = packed.length;
      const { least, bits, sum } = lengthsOf(this.#lengths, first, end);
      packed.varint(least);
      packed.u8(bits);
      last.fill(0);
      let shapeBefore = 0;
      for (let entry = first; entry < end; entry += 1) {
        const shape = this.#shapeOf[entry]!;
        if (shapeBits > 0) {
          packed.bits(shape === shapeBefore ? 0 : 1, 1);
          if (shape !== shapeBefore) packed.bits(shape, shapeBits);
          shapeBefore = shape;
        }
        const { columns } = this.#shapes[shape]!;
        const { plain, flagged } = forms[shape]!;
        for (let i = 0; i < plain.length; i += 1) {
          const column = columns[plain[i]!]!;
          const value = this.#values[at + plain[i]!]!;
          packed.bits(value, widths[column]!);
          last[column] = value;
        }
        for (let i = 0; i < flagged.length; i += maskColumnsMax) {
          const count = Math.min(flagged.length - i, maskColumnsMax);
          let mask = 0;
          let changes = 0;
          for (let bit = 0; bit < count; bit += 1) {
            const place = flagged[i + bit]!;
            const column = columns[place]!;
            const value = this.#values[at + place]!;
            if (value === last[column]) continue;
            last[column] = value;
            changed[changes++] = column;
            mask |= 1 << bit;
          }
          packed.bits(mask, count);
          for (let change = 0; change < changes; change += 1) {
            const column = changed[change]!;
            packed.bits(last[column]!, widths[column]!);
          }
        }
        at += columns.length;
        addLength(packed, this.#lengths[entry]! - least, bits);
      }
      packed.endBits();
      groups.push({ bytes: packed.length - start, dataBytes: sum });
    }
    // The slack of the last bits.
    packed.u32(0);
    assert(packedSlackBytes === 4, 'the slack is one word');
    return groups;
  }

  *#addColumns(packed: PackedWriter, order: readonly Uint32Array[]): Generator<void> {
    packed.varint(this.#columns.length);
    let nameBefore: Uint8Array = noBytes;
    for (const [i, { name, texts }] of this.#columns.entries()) {
      packed.text(name, nameBefore);
      nameBefore = name;
      packed.varint(texts.length);
      let before: Uint8Array = noBytes;
      for (const [at, number] of order[i]!.entries()) {
        packed.text(texts[number]!, before);
        before = texts[number]!;
        if (at % textsAtOnce === textsAtOnce - 1) yield;
      }
    }
  }
}

/** Longest data of an entry: 49 bits, which are written as two numbers. */
const lengthBitsMax = 49;
const lowLengthBits = 24;

/**
 * Of the lengths of a group: the least, how many bits the others have above it, and all together.
 */
function lengthsOf(
  lengths: Float64Array,
  first: number,
  end: number,
): { least: number; bits: number; sum: number } {
  let least = lengths[first]!;
  let most = least;
  let sum = 0;
  for (let i = first; i < end; i += 1) {
    const length = lengths[i]!;
    if (length < least) least = length;
    if (length > most) most = length;
    sum += length;
  }
  let bits = 0;
  while (2 ** bits <= most - least) bits += 1;
  assert(bits <= lengthBitsMax, 'lengths of a fileset have at most 49 bits');
  return { least, bits, sum };
}

function addLength(packed: PackedWriter, above: number, bits: number): void {
  if (bits <= lowLengthBits) {
    packed.bits(above, bits);
  } else {
    packed.bits(above % 2 ** lowLengthBits, lowLengthBits);
    packed.bits(Math.floor(above / 2 ** lowLengthBits), bits - lowLengthBits);
  }
}

function enlarged(
  values: Uint32Array<ArrayBuffer>,
  larger: Uint32Array<ArrayBuffer>,
): Uint32Array<ArrayBuffer> {
  larger.set(values);
  return larger;
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function lengthAt(tags: Uint8Array, at: number): number {
  assert(at + 2 <= tags.length, 'tags of a fileset are canonical');
  return tags[at]! | (tags[at + 1]! << 8);
}
