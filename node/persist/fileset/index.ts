/** The index file of a fileset, walked entry by entry or searched by ID. */
import { messageOf } from '#lib/errors.ts';
import { seriesIdOf } from '#lib/series_id/from_tags.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { compareBytes, tagsBytesMax } from '#lib/tags.ts';
import {
  bitsFor,
  maskColumnsMax,
  packedBitsMax,
  packedSlackBytes,
  PackedReader,
  PackedTexts,
} from '../../index/saved/packed.ts';
import {
  FilesetCorrupt,
  filesetFormatVersion,
  fileHeaderBytes,
  fileHeaderProblem,
  indexFooterBytes,
  indexGroupEntries,
  indexMagic,
} from './format.ts';

/** Values of a tag name; the first column is that of explicit IDs. */
interface IndexColumn {
  /** Where the name lies in the texts, and its length. */
  readonly nameStart: number;
  readonly nameLength: number;
  /** By value where it begins in the texts; they lie one after the other. */
  readonly starts: Uint32Array;
  /** Bits that a value takes. */
  readonly bits: number;
}

/** The form of entries. */
interface IndexShape {
  readonly idScheme: number;
  readonly columns: Uint32Array;
  /**
   * Places of the columns of which each entry has the value, and of those of which a bit tells
   * whether it changed.
   */
  readonly plain: Uint32Array;
  readonly flagged: Uint32Array;
}

/** Longest data of an entry in bits, and how many of them come first. */
const lengthBitsMax = 49;
const lowLengthBits = 24;

/** The index file in memory. Every offset is checked, also when the digest was right. */
export class IndexView {
  readonly bytes: Uint8Array;
  readonly view: DataView;
  readonly path: string;
  readonly seriesCount: number;
  readonly groupCount: number;
  readonly dataEnd: number;
  /** Where the parts begin that follow the header and the groups. */
  readonly checksumsOffset: number;
  readonly tableOffset: number;
  readonly columnsOffset: number;
  readonly shapesOffset: number;
  readonly columns: readonly IndexColumn[];
  readonly shapes: readonly IndexShape[];
  /** Names and values. */
  readonly texts: Uint8Array;
  /**
   * By group where it begins, and where the chunks of its first entry begin; one more for the end.
   */
  readonly #groupStarts: Float64Array;
  readonly #dataStarts: Float64Array;

  constructor(bytes: Uint8Array, path: string) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.path = path;
    const problem = fileHeaderProblem(bytes, indexMagic);
    if (problem !== null) throw this.corrupt(problem);
    const footer = bytes.length - indexFooterBytes;
    if (footer < fileHeaderBytes + packedSlackBytes) throw this.corrupt('footer is cut off');
    this.checksumsOffset = this.#u64(footer);
    this.dataEnd = this.#u64(footer + 8);
    this.seriesCount = this.view.getUint32(footer + 16, true);
    if (this.view.getUint32(footer + 20, true) !== filesetFormatVersion) {
      throw this.corrupt('format version is unknown');
    }
    this.groupCount = Math.ceil(this.seriesCount / indexGroupEntries);
    this.tableOffset = this.checksumsOffset + 4 * this.seriesCount;
    if (
      this.checksumsOffset < fileHeaderBytes + packedSlackBytes ||
      this.tableOffset + 2 * this.groupCount > footer
    ) {
      throw this.corrupt('sections do not fit');
    }
    const reader = this.reader(this.tableOffset, footer);
    this.#groupStarts = new Float64Array(this.groupCount + 1);
    this.#dataStarts = new Float64Array(this.groupCount + 1);
    this.#readTable(reader);
    this.columnsOffset = reader.position;
    const texts = new PackedTexts(2 * (footer - this.columnsOffset));
    this.columns = readColumns(reader, texts, footer);
    this.texts = texts.bytes;
    this.shapesOffset = reader.position;
    this.shapes = this.#readShapes(reader);
    if (reader.position !== footer) throw this.corrupt('sections do not fit');
  }

  /** Reads numbers of these bytes. */
  reader(start: number, end: number): PackedReader {
    return new PackedReader(this.bytes, start, end, (reason) => this.corrupt(reason));
  }

  #readTable(reader: PackedReader): void {
    let at = fileHeaderBytes;
    let dataAt = fileHeaderBytes;
    for (let group = 0; group < this.groupCount; group += 1) {
      this.#groupStarts[group] = at;
      this.#dataStarts[group] = dataAt;
      at += reader.varint();
      dataAt += reader.varint();
    }
    this.#groupStarts[this.groupCount] = at;
    this.#dataStarts[this.groupCount] = dataAt;
    if (at + packedSlackBytes !== this.checksumsOffset || dataAt !== this.dataEnd) {
      throw this.corrupt('groups do not fit');
    }
  }

  #readShapes(reader: PackedReader): IndexShape[] {
    const count = reader.varintUpTo(this.seriesCount);
    const shapes: IndexShape[] = [];
    for (let i = 0; i < count; i += 1) {
      const idScheme = reader.varint();
      const length = reader.varintUpTo(tagsBytesMax);
      const columns: number[] = [];
      const plain: number[] = [];
      const flagged: number[] = [];
      for (let column = 0; column < length; column += 1) {
        const number = reader.varintUpTo(2 * this.columns.length - 1);
        columns.push(Math.floor(number / 2));
        (number % 2 === 0 ? plain : flagged).push(column);
        if (this.columns[columns[column]!]!.starts.length === 1) {
          throw this.corrupt('an entry has a tag that is none');
        }
      }
      const isExplicit = idScheme === idSchemeCode.explicit;
      const idAt = columns.indexOf(0);
      if (idAt !== (isExplicit ? 0 : -1) || columns.lastIndexOf(0) > 0) {
        throw this.corrupt('an entry has a tag that is none');
      }
      shapes.push({
        idScheme,
        columns: Uint32Array.from(columns),
        plain: Uint32Array.from(plain),
        flagged: Uint32Array.from(flagged),
      });
    }
    return shapes;
  }

  /** A walk from the first entry of a group. */
  cursor(group = 0): IndexCursor {
    return new IndexCursor(this, group);
  }

  /** A walk of which the first step leads to the first entry whose ID is greater than this one. */
  cursorAfter(id: Uint8Array): IndexCursor {
    const cursor = this.cursor(0);
    const group = Math.max(this.#groupOf(id, cursor), 0);
    let steps = 0;
    cursor.seek(group);
    while (cursor.next() && compareBytes(cursor.id(), id) <= 0) steps += 1;
    cursor.seek(group);
    for (; steps > 0; steps -= 1) cursor.next();
    return cursor;
  }

  /** A walk that stands on the entry of a series, or null. */
  find(id: Uint8Array): IndexCursor | null {
    const cursor = this.cursor(0);
    const group = this.#groupOf(id, cursor);
    if (group < 0) return null;
    cursor.seek(group);
    for (let i = 0; i < indexGroupEntries && cursor.next(); i += 1) {
      const order = compareBytes(cursor.id(), id);
      if (order === 0) return cursor;
      if (order > 0) return null;
    }
    return null;
  }

  /** The last group whose first ID is not greater, or -1. */
  #groupOf(id: Uint8Array, cursor: IndexCursor): number {
    let low = 0;
    let high = this.groupCount;
    while (low < high) {
      const middle = (low + high) >>> 1;
      cursor.seek(middle);
      cursor.next();
      if (compareBytes(cursor.id(), id) <= 0) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  /** Where the entries of a group begin and end: in the index, and their chunks in data. */
  groupRange(group: number): {
    readonly start: number;
    readonly end: number;
    readonly dataStart: number;
    readonly dataEnd: number;
  } {
    return {
      start: this.#groupStarts[group]!,
      end: this.#groupStarts[group + 1]!,
      dataStart: this.#dataStarts[group]!,
      dataEnd: this.#dataStarts[group + 1]!,
    };
  }

  #u64(at: number): number {
    const value = this.view.getBigUint64(at, true);
    if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw this.corrupt('an offset is too large');
    return Number(value);
  }

  corrupt(reason: string): FilesetCorrupt {
    return new FilesetCorrupt(this.path, reason);
  }
}

function readColumns(reader: PackedReader, texts: PackedTexts, most: number): IndexColumn[] {
  const count = reader.varintUpTo(most);
  const columns: IndexColumn[] = [];
  let nameStart = 0;
  let nameLength = 0;
  for (let i = 0; i < count; i += 1) {
    const start = texts.length;
    nameLength = reader.text(texts, nameStart, nameLength);
    nameStart = start;
    const values = reader.varintUpTo(Math.min(most, 2 ** packedBitsMax));
    const starts = new Uint32Array(values + 1);
    let before = texts.length;
    let length = 0;
    for (let value = 0; value < values; value += 1) {
      starts[value] = texts.length;
      length = reader.text(texts, before, length);
      before = starts[value]!;
    }
    starts[values] = texts.length;
    columns.push({ nameStart, nameLength, starts, bits: bitsFor(values) });
  }
  return columns;
}

/** Stands on one entry at a time; its fields are those of the entry once `next` has given true. */
export class IndexCursor {
  readonly #index: IndexView;
  readonly #reader: PackedReader;
  readonly #scratch: Uint8Array = new Uint8Array(tagsBytesMax);
  /** Entry that the next step leads to. */
  #entry = 0;
  #group = -1;
  #groupDataEnd = 0;
  #nextOffset = 0;
  #leastLength = 0;
  #lengthBits = 0;
  readonly #shapeBits: number;
  #shape = 0;
  /** By column the value that was read last. */
  readonly #last: Uint32Array;
  /** What `scratch` holds: by place of a column its number, its value, and the end of its tag. */
  readonly #heldColumns: Uint32Array;
  readonly #heldValues: Uint32Array;
  readonly #heldEnds: Uint32Array;
  #held = 0;
  idScheme = 0;
  /** Canonical tags; borrowed until the next step. */
  tags: Uint8Array = this.#scratch.subarray(0, 0);
  /** For ID scheme 0, else empty. */
  explicitId: Uint8Array = this.#scratch.subarray(0, 0);
  /** Range in the data file, and its checksum. */
  dataOffset = 0;
  dataLength = 0;
  dataCrc32c = 0;

  constructor(index: IndexView, group: number) {
    this.#index = index;
    this.#reader = index.reader(0, 0);
    this.#shapeBits = bitsFor(index.shapes.length);
    this.#last = new Uint32Array(index.columns.length);
    let places = 0;
    for (const { columns } of index.shapes) places = Math.max(places, columns.length);
    this.#heldColumns = new Uint32Array(places);
    this.#heldValues = new Uint32Array(places);
    this.#heldEnds = new Uint32Array(places);
    this.seek(group);
  }

  /** Back, or ahead, to before the first entry of a group. */
  seek(group: number): void {
    this.#entry = group * indexGroupEntries;
    this.#group = -1;
  }

  #enterGroup(group: number): void {
    const index = this.#index;
    const reader = this.#reader;
    const { start, end, dataStart, dataEnd } = index.groupRange(group);
    this.#group = group;
    this.#nextOffset = dataStart;
    this.#groupDataEnd = dataEnd;
    reader.seek(start, end);
    this.#leastLength = reader.varint();
    this.#lengthBits = reader.u8();
    if (this.#lengthBits > lengthBitsMax) throw index.corrupt('a length is too long');
    this.#last.fill(0);
    this.#shape = 0;
  }

  /** To the next entry. @returns false when there is none. @throws {FilesetCorrupt} */
  next(): boolean {
    const index = this.#index;
    const reader = this.#reader;
    const entry = this.#entry;
    if (entry >= index.seriesCount) return false;
    const group = Math.floor(entry / indexGroupEntries);
    if (group !== this.#group) this.#enterGroup(group);
    this.#entry = entry + 1;
    if (this.#shapeBits > 0 && reader.bits(1) === 1) this.#shape = reader.bits(this.#shapeBits);
    const shape = index.shapes[this.#shape];
    if (shape === undefined) throw index.corrupt('the form of an entry is unknown');
    this.#readValues(shape);
    this.#makeTags(shape);
    this.dataLength = this.#leastLength + this.#readLength();
    this.dataCrc32c = index.view.getUint32(index.checksumsOffset + 4 * entry, true);
    this.dataOffset = this.#nextOffset;
    this.#nextOffset += this.dataLength;
    const isLast = this.#entry === index.seriesCount || this.#entry % indexGroupEntries === 0;
    if (isLast) reader.endBits();
    if (
      this.#nextOffset > this.#groupDataEnd ||
      (isLast && (this.#nextOffset !== this.#groupDataEnd || reader.position !== reader.end))
    ) {
      throw index.corrupt(`group ${group} is not as long as its entries`);
    }
    return true;
  }

  #readLength(): number {
    const bits = this.#lengthBits;
    if (bits <= lowLengthBits) return this.#reader.bits(bits);
    const low = this.#reader.bits(lowLengthBits);
    return low + 2 ** lowLengthBits * this.#reader.bits(bits - lowLengthBits);
  }

  #readValues({ columns, plain, flagged }: IndexShape): void {
    const reader = this.#reader;
    const last = this.#last;
    for (let i = 0; i < plain.length; i += 1) {
      const column = columns[plain[i]!]!;
      last[column] = this.#readValue(column);
    }
    for (let first = 0; first < flagged.length; first += maskColumnsMax) {
      let mask = reader.bits(Math.min(flagged.length - first, maskColumnsMax));
      for (; mask !== 0; mask &= mask - 1) {
        const column = columns[flagged[first + 31 - Math.clz32(mask & -mask)]!]!;
        last[column] = this.#readValue(column);
      }
    }
  }

  #readValue(column: number): number {
    const { starts, bits } = this.#index.columns[column]!;
    const value = this.#reader.bits(bits);
    if (value >= starts.length - 1) throw this.#index.corrupt('a value is unknown');
    return value;
  }

  /** Makes the tags of an entry; what begins as those of the entry before is left as it is. */
  #makeTags({ idScheme, columns }: IndexShape): void {
    const last = this.#last;
    const heldColumns = this.#heldColumns;
    const heldValues = this.#heldValues;
    const first = idScheme === idSchemeCode.explicit ? 1 : 0;
    let kept = 0;
    if (this.idScheme === idScheme) {
      // Explicit IDs are not in the tags.
      const most = Math.min(this.#held, columns.length);
      kept = Math.min(first, most);
      while (
        kept < most &&
        heldColumns[kept] === columns[kept] &&
        heldValues[kept] === last[columns[kept]!]
      ) {
        kept += 1;
      }
    }
    for (let i = 0; i < columns.length; i += 1) {
      heldColumns[i] = columns[i]!;
      heldValues[i] = last[columns[i]!]!;
    }
    this.idScheme = idScheme;
    this.#held = 0;
    this.explicitId = first === 0 ? noBytes : this.#valueOf(0, heldValues[0]!);
    let end = kept === 0 ? 0 : this.#heldEnds[kept - 1]!;
    for (let i = kept; i < columns.length; i += 1) {
      if (i >= first) end = this.#copyTag(columns[i]!, heldValues[i]!, end);
      this.#heldEnds[i] = end;
    }
    this.#held = columns.length;
    this.tags = this.#scratch.subarray(0, end);
  }

  #valueOf(column: number, value: number): Uint8Array {
    const { starts } = this.#index.columns[column]!;
    return this.#index.texts.subarray(starts[value]!, starts[value + 1]!);
  }

  #copyTag(column: number, value: number, targetStart: number): number {
    const { nameStart, nameLength, starts } = this.#index.columns[column]!;
    const at = this.#copyText(nameStart, nameStart + nameLength, targetStart);
    return this.#copyText(starts[value]!, starts[value + 1]!, at);
  }

  /** Copies a text with its length in front, as tags have it. @returns the end */
  #copyText(start: number, end: number, targetStart: number): number {
    const index = this.#index;
    const scratch = this.#scratch;
    const length = end - start;
    if (length + 2 > scratch.length - targetStart) throw index.corrupt('tags are too long');
    scratch[targetStart] = length & 255;
    scratch[targetStart + 1] = length >> 8;
    const { texts } = index;
    let at = targetStart + 2;
    for (let i = start; i < end; i += 1) scratch[at++] = texts[i]!;
    return at;
  }

  /** ID of the series. @throws {FilesetCorrupt} */
  id(): Uint8Array {
    let id: Uint8Array | null;
    try {
      id = seriesIdOf(this.idScheme, this.tags, this.explicitId);
    } catch (error) {
      throw new FilesetCorrupt(this.#index.path, messageOf(error), { cause: error });
    }
    if (id === null) throw this.#index.corrupt(`ID scheme is unknown: ${this.idScheme}`);
    return id;
  }
}

const noBytes = new Uint8Array(0);
