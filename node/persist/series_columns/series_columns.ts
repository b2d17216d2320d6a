/** The file of the series of a closed fileset by columns, of which a section is read when it is needed. */
import { crc32c } from '#lib/hashing/crc32c.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { tagsBytesMax } from '#lib/tags.ts';
import { PackedReader, PackedTexts } from '../../index/saved/packed.ts';
import { Column, type ColumnShape } from './column.ts';
import {
  columnsFormatVersion,
  columnsHeaderBytes,
  columnsMagic,
  columnsTrailerBytes,
  entriesOfPlace,
  SeriesColumnsCorrupt,
} from './format.ts';

/** A file that is read by range. */
export interface RangeSource {
  readonly size: number;
  /** What it has in memory. */
  readonly heldBytes?: number;
  read(position: number, length: number): Promise<Uint8Array>;
}

interface Section {
  readonly at: number;
  readonly bytes: number;
  readonly crc32c: number;
}

interface ColumnEntry extends ColumnShape {
  /** One character a byte. */
  readonly name: string;
  readonly section: Section;
  loaded: Column | null;
}

/** Where the chunks of entries are in the data file. */
export interface EntryPlaces {
  readonly lengths: Uint32Array;
  readonly checksums: Uint32Array;
  offset(entry: number): number;
}

const footerBytesMax = 64 * 1024 * 1024;
/** Sections that follow each other are read in one go, up to so many bytes. */
const readBytesMax = 4 * 1024 * 1024;

const corrupt = (reason: string): SeriesColumnsCorrupt =>
  new SeriesColumnsCorrupt(`cannot read columns of series: ${reason}`);

export class SeriesColumns {
  readonly #source: RangeSource;
  readonly entryCount: number;
  /** Of the index of the fileset. */
  readonly indexCrc32c: number;
  readonly #scheme: number;
  readonly #schemesAt: Section;
  readonly #placesAt: Section;
  readonly #untoldAt: Section;
  readonly #ids: ColumnEntry;
  /** By name, one character a byte, in ascending order. */
  readonly #columns: ReadonlyMap<string, ColumnEntry>;
  readonly #footerBytes: number;
  #schemes: Uint8Array | null = null;
  #places: EntryPlaces | null = null;
  #names: EntryNames | null = null;

  private constructor(source: RangeSource, footer: Uint8Array) {
    this.#source = source;
    const reader = new PackedReader(footer, 0, footer.length, corrupt);
    const section = (): Section => {
      const [low, high] = [reader.u32(), reader.u32()];
      const found = { at: low + high * 2 ** 32, bytes: reader.u32(), crc32c: reader.u32() };
      if (found.at + found.bytes > source.size) throw corrupt('a section is cut off');
      return found;
    };
    this.indexCrc32c = reader.u32();
    this.entryCount = reader.u32();
    this.#scheme = reader.u8();
    this.#schemesAt = section();
    this.#placesAt = section();
    this.#untoldAt = section();
    const texts = new PackedTexts(1024);
    const columns = new Map<string, ColumnEntry>();
    let ids: ColumnEntry | null = null;
    let [before, length] = [0, 0];
    for (let left = reader.varintUpTo(footer.length); left > 0; left--) {
      const start = texts.length;
      length = reader.text(texts, before, length);
      before = start;
      const name = Buffer.from(texts.bytes.subarray(start, start + length)).toString('latin1');
      const column = {
        name,
        entryCount: this.entryCount,
        valueCount: reader.u32(),
        holderCount: reader.u32(),
        isSparse: reader.u8() === 1,
        width: reader.u8(),
        section: section(),
        loaded: null,
      };
      if (ids === null) ids = column;
      else columns.set(name, column);
    }
    if (ids === null || reader.position !== footer.length) throw corrupt('the footer does not fit');
    this.#ids = ids;
    this.#columns = columns;
    this.#footerBytes = footer.length;
  }

  /** @throws {SeriesColumnsCorrupt}; what the source rejects with */
  static async open(source: RangeSource): Promise<SeriesColumns> {
    if (source.size < columnsHeaderBytes + columnsTrailerBytes) throw corrupt('it is cut off');
    const end = source.size - columnsTrailerBytes;
    const header = viewOf(await source.read(0, columnsHeaderBytes));
    const trailer = viewOf(await source.read(end, columnsTrailerBytes));
    const hasMagic = [header, trailer].every(
      (view, i) =>
        Buffer.from(view.buffer, view.byteOffset + 8 * i, 8).toString('latin1') === columnsMagic,
    );
    if (!hasMagic) throw corrupt('magic is wrong');
    if (header.getUint32(8, true) !== columnsFormatVersion) throw corrupt('version is unknown');
    const bytes = trailer.getUint32(4, true);
    if (bytes > Math.min(end - columnsHeaderBytes, footerBytesMax))
      throw corrupt('footer is cut off');
    const footer = await source.read(end - bytes, bytes);
    if (crc32c(footer) !== trailer.getUint32(0, true)) {
      throw corrupt('checksum of the footer is wrong');
    }
    return new SeriesColumns(source, footer);
  }

  /** Names of tags, ascending by their bytes. */
  get names(): string[] {
    return [...this.#columns.keys()].map((name) => Buffer.from(name, 'latin1').toString('utf8'));
  }

  get memoryBytes(): number {
    let bytes = 4 * this.#footerBytes + 500 + (this.#source.heldBytes ?? 0);
    for (const { loaded } of [this.#ids, ...this.#columns.values()])
      bytes += loaded?.memoryBytes ?? 0;
    if (this.#schemes !== null) bytes += this.#schemes.length;
    bytes += this.#names?.memoryBytes ?? 0;
    return bytes + (this.#places === null ? 0 : this.#placesAt.bytes);
  }

  /** The values of a tag name; null when no entry has it. @throws as `open` */
  async column(name: string): Promise<Column | null> {
    const entry = this.#columns.get(Buffer.from(name, 'utf8').toString('latin1'));
    return entry === undefined ? null : this.#load(entry);
  }

  async #load(entry: ColumnEntry): Promise<Column> {
    return (entry.loaded ??= new Column(await this.#read(entry.section), entry));
  }

  async #read(section: Section): Promise<Uint8Array<ArrayBuffer>> {
    const { at, bytes } = section;
    const read = bytes === 0 ? new Uint8Array(0) : await this.#source.read(at, bytes);
    return checked(read, section);
  }

  async places(): Promise<EntryPlaces> {
    if (this.#places !== null) return this.#places;
    const { entryCount } = this;
    const { buffer, length } = await this.#read(this.#placesAt);
    const startCount = Math.ceil(entryCount / entriesOfPlace);
    if (length !== 8 * startCount + 8 * entryCount) throw corrupt('places do not fit');
    const starts = new Float64Array(buffer, 0, startCount);
    const lengths = new Uint32Array(buffer, 8 * startCount, entryCount);
    const checksums = new Uint32Array(buffer, 8 * startCount + 4 * entryCount, entryCount);
    const offset = (entry: number): number => {
      let at = starts[Math.floor(entry / entriesOfPlace)]!;
      for (let i = entry - (entry % entriesOfPlace); i < entry; i++) at += lengths[i]!;
      return at;
    };
    return (this.#places = { lengths, checksums, offset });
  }

  /** Entries whose ID does not tell their tags, ascending. @throws as `open` */
  async untold(): Promise<Uint32Array> {
    if (this.#untoldAt.bytes === 0) return new Uint32Array(0);
    const { buffer, length } = await this.#read(this.#untoldAt);
    return new Uint32Array(buffer, 0, length / 4);
  }

  /** Names of entries, whatever they are asked in. @throws as `open` */
  async entryNames(): Promise<EntryNames> {
    if (this.#names !== null) return this.#names;
    if (this.#schemesAt.bytes > 0) this.#schemes ??= await this.#read(this.#schemesAt);
    const entries = [this.#ids, ...this.#columns.values()];
    await this.#loadAll(entries.filter(({ loaded }) => loaded === null));
    const [ids, ...columns] = entries.map(({ name, loaded }) => ({
      name: Buffer.from(name, 'latin1'),
      column: loaded!,
    }));
    const schemes = this.#schemes;
    const schemeOf = (entry: number): number => (schemes === null ? this.#scheme : schemes[entry]!);
    return (this.#names = new EntryNames(this.entryCount, columns, ids!.column, schemeOf));
  }

  /** Sections that follow each other, as they do, in one go. */
  async #loadAll(entries: readonly ColumnEntry[]): Promise<void> {
    const byPlace = entries.toSorted((a, b) => a.section.at - b.section.at);
    for (let first = 0; first < byPlace.length; ) {
      const { at } = byPlace[first]!.section;
      let last = first;
      let end = at;
      for (; last < byPlace.length; last++) {
        const { section } = byPlace[last]!;
        const isNext = section.at === end && section.at + section.bytes - at <= readBytesMax;
        if (last > first && !isNext) break;
        end = section.at + section.bytes;
      }
      const bytes = end === at ? new Uint8Array(0) : await this.#source.read(at, end - at);
      for (; first < last; first++) {
        const entry = byPlace[first]!;
        const start = entry.section.at - at;
        const part = bytes.subarray(start, start + entry.section.bytes);
        entry.loaded ??= new Column(checked(part, entry.section), entry);
      }
    }
  }
}

/** A copy at the beginning of a buffer, as numbers of several bytes have to lie. */
function checked(read: Uint8Array, { bytes, crc32c: wanted }: Section): Uint8Array<ArrayBuffer> {
  if (read.length !== bytes || crc32c(read) !== wanted) {
    throw corrupt('checksum of a section is wrong');
  }
  // Not `slice`, which is a view where it is a Buffer.
  return new Uint8Array(read);
}

interface NamedColumn {
  readonly name: Buffer;
  readonly column: Column;
}

/** Names of entries: as `SeriesName`, and borrowed until the next one. */
export class EntryNames {
  readonly #columns: readonly NamedColumn[];
  /** Places in `#columns` of those with a number for each entry. */
  readonly #everywhere: readonly number[];
  /** Of the others: where those of an entry begin, which columns, and the numbers. Null without any. */
  readonly #some: SomeColumns | null;
  readonly #ids: Column;
  readonly #schemeOf: (entry: number) => number;
  readonly #scratch = new Uint8Array(tagsBytesMax);
  idScheme = 0;
  tags: Uint8Array = this.#scratch.subarray(0, 0);
  explicitId: Uint8Array = this.#scratch.subarray(0, 0);

  constructor(
    entryCount: number,
    columns: readonly NamedColumn[],
    ids: Column,
    schemeOf: (entry: number) => number,
  ) {
    this.#columns = columns;
    this.#ids = ids;
    this.#schemeOf = schemeOf;
    const places = [...columns.keys()];
    this.#everywhere = places.filter((place) => columns[place]!.column.holders === null);
    this.#some = this.#everywhere.length === columns.length ? null : someOf(entryCount, columns);
  }

  get memoryBytes(): number {
    const some = this.#some;
    const { length } = this.#scratch;
    return some === null ? length : length + 4 * some.starts.length + 8 * some.columns.length;
  }

  /** @throws {SeriesColumnsCorrupt} */
  of(entry: number): this {
    this.idScheme = this.#schemeOf(entry);
    const some = this.#some;
    let end = 0;
    if (some === null) {
      for (const { name, column } of this.#columns) {
        end = this.#tag(name, column, column.numberAt(entry), end);
      }
    } else {
      end = this.#withSome(some, entry);
    }
    this.tags = this.#scratch.subarray(0, end);
    const hasId = this.idScheme === idSchemeCode.explicit;
    const number = hasId ? this.#ids.numberAt(entry) : 0;
    this.explicitId = number === 0 ? noBytes : this.#ids.value(number);
    return this;
  }

  /** Both kinds of columns by their names. */
  #withSome({ starts, columns, numbers }: SomeColumns, entry: number): number {
    let end = 0;
    let at = starts[entry]!;
    const past = starts[entry + 1]!;
    for (const place of [...this.#everywhere, this.#columns.length]) {
      for (; at < past && columns[at]! < place; at++) {
        const { name, column } = this.#columns[columns[at]!]!;
        end = this.#tag(name, column, numbers[at]!, end);
      }
      if (place === this.#columns.length) return end;
      const { name, column } = this.#columns[place]!;
      end = this.#tag(name, column, column.numberAt(entry), end);
    }
    return end;
  }

  #tag(name: Buffer, column: Column, number: number, start: number): number {
    return number === 0 ? start : this.#copy(column.value(number), this.#copy(name, start));
  }

  /** @returns the end */
  #copy(text: Uint8Array, start: number): number {
    const scratch = this.#scratch;
    if (text.length + 2 > scratch.length - start) throw corrupt('tags are too long');
    scratch[start] = text.length & 255;
    scratch[start + 1] = text.length >> 8;
    scratch.set(text, start + 2);
    return start + 2 + text.length;
  }
}

/** By entry, what those columns have of it that list their holders. */
interface SomeColumns {
  readonly starts: Uint32Array;
  readonly columns: Uint32Array;
  readonly numbers: Uint32Array;
}

function someOf(entryCount: number, all: readonly NamedColumn[]): SomeColumns {
  const listed = [...all.entries()].filter(([, { column }]) => column.holders !== null);
  const starts = new Uint32Array(entryCount + 1);
  for (const [, { column }] of listed) {
    column.eachHolder((entry) => {
      if (entry >= entryCount) throw corrupt('there is no such entry');
      starts[entry + 1]! += 1;
    });
  }
  for (let entry = 0; entry < entryCount; entry++) starts[entry + 1]! += starts[entry]!;
  const next = starts.slice();
  const columns = new Uint32Array(starts[entryCount]!);
  const numbers = new Uint32Array(starts[entryCount]!);
  for (const [place, { column }] of listed) {
    column.eachHolder((entry, number) => {
      columns[next[entry]!] = place;
      numbers[next[entry]!++] = number;
    });
  }
  return { starts, columns, numbers };
}

const noBytes = new Uint8Array(0);

function viewOf({ buffer, byteOffset, byteLength }: Uint8Array): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}
