/**
 * A section of series of a saved index (docs/formats/index.md): by ordinal the terms, the ID
 * scheme, the shard and the explicit ID, packed by tag name, for most series have what the one
 * before has.
 */
import {
  bitsFor,
  maskColumnsMax,
  packedBitsMax,
  packedSlackBytes,
  type PackedReader,
  type PackedWriter,
} from './packed.ts';
import { enumerateBits, hasBit, wordsFor } from '../tables/postings.ts';
import { allBits, damagedUnless } from './section.ts';
import {
  idSchemesEnd,
  type SeriesTable,
  seriesTermsMax,
  termsPageWords,
} from '../tables/series_table.ts';
import type { TermDictionary } from '../tables/term_dictionary.ts';
import { textBytesMax } from '../tables/text_arena.ts';

/** The form of series: the ID scheme, and the columns of which they have a term. */
interface Shape {
  readonly idScheme: number;
  readonly columns: readonly number[];
  /** By column: how many series have another term than the series before that has the column. */
  readonly changes: number[];
  series: number;
}

/**
 * How rows of a shape are written: places of its columns of which each row has the term, and of the
 * others.
 */
interface RowForm {
  readonly columns: Uint32Array;
  readonly plain: Uint32Array;
  readonly flagged: Uint32Array;
}

function rowFormOf(columns: readonly number[], isFlagged: readonly boolean[]): RowForm {
  const places = columns.map((_, i) => i);
  return {
    columns: Uint32Array.from(columns),
    plain: Uint32Array.from(places.filter((i) => !isFlagged[i]!)),
    flagged: Uint32Array.from(places.filter((i) => isFlagged[i]!)),
  };
}

const noNumber = 0xffffffff;

/** Writes sections; what it needs for one is kept for the next. */
export class SeriesSectionWriter {
  readonly #series: SeriesTable;
  readonly #dictionary: TermDictionary;
  readonly #writer: PackedWriter;
  /** By field its column in this section. */
  readonly #columnOf: Uint32Array;
  /** By term its place in its column. */
  readonly #placeOf: Uint32Array;
  #fields: number[];
  #terms: number[][];
  #shapes: Shape[];
  #shapeByKey: Map<string, number>;

  constructor(
    series: SeriesTable,
    dictionary: TermDictionary,
    termsEnd: number,
    fieldsEnd: number,
    writer: PackedWriter,
  ) {
    this.#series = series;
    this.#dictionary = dictionary;
    this.#writer = writer;
    this.#columnOf = new Uint32Array(fieldsEnd).fill(noNumber);
    this.#placeOf = new Uint32Array(termsEnd).fill(noNumber);
    this.#fields = [];
    this.#terms = [];
    this.#shapes = [];
    this.#shapeByKey = new Map();
  }

  /** Writes the series of [first, end) whose bit is set. */
  write(first: number, end: number, kept: Uint32Array): void {
    const writer = this.#writer;
    const series = this.#series;
    const present = new Uint32Array(wordsFor(end - first));
    const ordinals = new Uint32Array(end - first);
    let count = 0;
    for (let ordinal = first; ordinal < end; ordinal++) {
      if (!hasBit(kept, ordinal)) continue;
      present[(ordinal - first) >>> 5]! |= 1 << ((ordinal - first) & 31);
      ordinals[count++] = ordinal;
    }
    const shapeOf = new Uint32Array(count);
    const { termCount, shardsEnd } = this.#survey(ordinals, shapeOf);
    for (const value of [first, end - first, count, termCount]) writer.u32(value);
    writer.bitset(present, allBits(end - first));
    this.#writeColumns();
    const shardBits = bitsFor(shardsEnd);
    const forms = this.#writeShapes();
    writer.u8(shardBits);
    this.#writeRows(ordinals, shapeOf, forms, shardBits);
    const explicit: number[] = [];
    for (let row = 0; row < count; row++) {
      if (series.explicitId(ordinals[row]!).length > 0) explicit.push(row);
    }
    writer.varint(explicit.length);
    let before = 0;
    for (const row of explicit) {
      const id = series.explicitId(ordinals[row]!);
      writer.varint(row - before);
      writer.varint(id.length);
      writer.bytes(id);
      before = row;
    }
    this.#forget();
  }

  /** Finds the terms by column, and the forms of the series. */
  #survey(ordinals: Uint32Array, shapeOf: Uint32Array): { termCount: number; shardsEnd: number } {
    const series = this.#series;
    const dictionary = this.#dictionary;
    const placeOf = this.#placeOf;
    let columns: number[] = [];
    let pageBefore: Uint32Array = noTerms;
    let startBefore = 0;
    let countBefore = 0;
    let shapeBefore = -1;
    let total = 0;
    let shardsEnd = 0;
    for (let row = 0; row < shapeOf.length; row++) {
      const ordinal = ordinals[row]!;
      const termCount = series.termCount(ordinal);
      total += termCount;
      shardsEnd = Math.max(shardsEnd, series.shard(ordinal) + 1);
      const page = termCount === 0 ? noTerms : series.termsPage(ordinal);
      const start = termCount === 0 ? 0 : series.termsStart(ordinal);
      const idScheme = series.idScheme(ordinal);
      let shape = this.#shapes[shapeBefore];
      let isSame = shape !== undefined && shape.idScheme === idScheme && termCount === countBefore;
      for (let i = 0; i < termCount; i++) {
        const term = page[start + i]!;
        // Most are those of the series before.
        if (i < countBefore && pageBefore[startBefore + i] === term) continue;
        const column = this.#columnFor(dictionary.fieldOfTerm(term));
        if (placeOf[term] === noNumber) {
          placeOf[term] = 0;
          this.#terms[column]!.push(term);
        }
        if (columns[i] === column && isSame) shape!.changes[i]!++;
        else {
          columns[i] = column;
          isSame = false;
        }
      }
      if (!isSame) {
        columns = columns.slice(0, termCount);
        shapeBefore = this.#shapeFor(idScheme, columns.slice());
        shape = this.#shapes[shapeBefore];
      }
      shapeOf[row] = shapeBefore;
      shape!.series++;
      pageBefore = page;
      startBefore = start;
      countBefore = termCount;
    }
    return { termCount: total, shardsEnd };
  }

  #columnFor(field: number): number {
    let column = this.#columnOf[field]!;
    if (column === noNumber) {
      column = this.#fields.length;
      this.#columnOf[field] = column;
      this.#fields.push(field);
      this.#terms.push([]);
    }
    return column;
  }

  #shapeFor(idScheme: number, columns: readonly number[]): number {
    const key = `${idScheme} ${columns.join()}`;
    let shape = this.#shapeByKey.get(key);
    if (shape === undefined) {
      shape = this.#shapes.length;
      this.#shapeByKey.set(key, shape);
      this.#shapes.push({ idScheme, columns, changes: columns.map(() => 0), series: 0 });
    }
    return shape;
  }

  #writeColumns(): void {
    const writer = this.#writer;
    writer.varint(this.#terms.length);
    for (const list of this.#terms) {
      const terms = Uint32Array.from(list).sort();
      writer.varint(terms.length);
      let before = 0;
      for (let i = 0; i < terms.length; i++) {
        const term = terms[i]!;
        writer.varint(term - before);
        before = term;
        this.#placeOf[term] = i;
      }
    }
  }

  #writeShapes(): RowForm[] {
    const writer = this.#writer;
    writer.varint(this.#shapes.length);
    return this.#shapes.map(({ idScheme, columns, changes, series }) => {
      writer.varint(idScheme);
      writer.varint(columns.length);
      const isFlagged = columns.map((column, i) => {
        const width = bitsFor(this.#terms[column]!.length);
        return series + changes[i]! * width < series * width;
      });
      for (const [i, column] of columns.entries()) {
        writer.varint(2 * column + (isFlagged[i]! ? 1 : 0));
      }
      return rowFormOf(columns, isFlagged);
    });
  }

  #writeRows(
    ordinals: Uint32Array,
    shapeOf: Uint32Array,
    forms: readonly RowForm[],
    shardBits: number,
  ): void {
    const writer = this.#writer;
    const series = this.#series;
    const placeOf = this.#placeOf;
    const widths = Uint8Array.from(this.#terms, ({ length }) => bitsFor(length));
    const last = new Uint32Array(widths.length);
    const changed = new Uint32Array(maskColumnsMax);
    const shapeBits = bitsFor(forms.length);
    let shapeBefore = 0;
    for (let row = 0; row < shapeOf.length; row++) {
      const ordinal = ordinals[row]!;
      const shape = shapeOf[row]!;
      if (shapeBits > 0) {
        writer.bits(shape === shapeBefore ? 0 : 1, 1);
        if (shape !== shapeBefore) writer.bits(shape, shapeBits);
        shapeBefore = shape;
      }
      writer.bits(series.shard(ordinal), shardBits);
      const { columns, plain, flagged } = forms[shape]!;
      if (columns.length === 0) continue;
      const page = series.termsPage(ordinal);
      const start = series.termsStart(ordinal);
      for (let i = 0; i < plain.length; i++) {
        const place = placeOf[page[start + plain[i]!]!]!;
        const column = columns[plain[i]!]!;
        writer.bits(place, widths[column]!);
        last[column] = place;
      }
      for (let first = 0; first < flagged.length; first += maskColumnsMax) {
        const count = Math.min(flagged.length - first, maskColumnsMax);
        let mask = 0;
        let changes = 0;
        for (let i = 0; i < count; i++) {
          const at = flagged[first + i]!;
          const place = placeOf[page[start + at]!]!;
          const column = columns[at]!;
          if (place === last[column]) continue;
          last[column] = place;
          changed[changes++] = column;
          mask |= 1 << i;
        }
        writer.bits(mask, count);
        for (let i = 0; i < changes; i++) {
          const column = changed[i]!;
          writer.bits(last[column]!, widths[column]!);
        }
      }
    }
    writer.endBits();
    // The slack of the last bits.
    writer.u32(0);
  }

  #forget(): void {
    for (const field of this.#fields) this.#columnOf[field] = noNumber;
    for (const terms of this.#terms) for (const term of terms) this.#placeOf[term] = noNumber;
    this.#fields = [];
    this.#terms = [];
    this.#shapes = [];
    this.#shapeByKey.clear();
  }
}

const noTerms = new Uint32Array(0);

/** Series of a section, by row. */
export interface SectionSeries {
  /** How many ordinals the section covers. */
  readonly ordinals: number;
  /** By row the ordinal, less the first one. */
  readonly rows: Uint32Array;
  /** Terms one after the other. */
  readonly terms: Uint32Array;
  readonly termCounts: Uint16Array;
  readonly shards: Uint16Array;
  readonly idSchemes: Uint8Array;
  readonly explicitIds: ReadonlyMap<number, Uint8Array>;
}

/**
 * Reads a section after its first number.
 * @param ordinalsMax most ordinals that it can cover
 * @param termsEnd all terms are below
 * @throws {IndexDamaged}
 */
export function readSeriesSection(
  reader: PackedReader,
  ordinalsMax: number,
  termsEnd: number,
): SectionSeries {
  const ordinals = reader.u32();
  const count = reader.u32();
  const termCount = reader.u32();
  damagedUnless(
    ordinals > 0 && ordinals <= ordinalsMax,
    'a section of series is beyond the last one',
  );
  damagedUnless(termCount <= termsPageWords, 'terms of series are more than a page');
  const present = allBits(ordinals);
  reader.bitset(present);
  damagedUnless(!reachesBeyond(present, ordinals), 'a series is beyond its section');
  const rows = enumerateBits(present, Math.min(count, ordinals) + 1);
  damagedUnless(rows.length === count, 'number of series of a section is wrong');
  const columns = readColumns(reader, termsEnd);
  const shapes = readShapes(reader, columns.length);
  const series = {
    ordinals,
    rows,
    terms: new Uint32Array(termCount),
    termCounts: new Uint16Array(count),
    shards: new Uint16Array(count),
    idSchemes: new Uint8Array(count),
    explicitIds: new Map<number, Uint8Array>(),
  };
  readRows(reader, columns, shapes, series);
  const explicitCount = reader.varintUpTo(count);
  let row = 0;
  for (let i = 0; i < explicitCount; i++) {
    row += reader.varint();
    const length = reader.varint();
    damagedUnless(
      row < count && length > 0 && length <= textBytesMax,
      'an explicit ID is of no series, or its length is wrong',
    );
    series.explicitIds.set(row, reader.bytes(length));
  }
  return series;
}

function readColumns(reader: PackedReader, termsEnd: number): Uint32Array[] {
  const columns: Uint32Array[] = [];
  for (let left = reader.varint(); left > 0; left--) columns.push(readColumn(reader, termsEnd));
  return columns;
}

function readColumn(reader: PackedReader, termsEnd: number): Uint32Array {
  const terms = new Uint32Array(reader.varintUpTo(Math.min(termsPageWords, termsEnd)));
  let term = 0;
  for (let i = 0; i < terms.length; i++) {
    const step = reader.varint();
    term += step;
    damagedUnless(term < termsEnd && (step > 0 || i === 0), 'a series has a term that is none');
    terms[i] = term;
  }
  damagedUnless(terms.length > 0, 'a name of series has no terms');
  return terms;
}

function readShapes(
  reader: PackedReader,
  columnsEnd: number,
): { idScheme: number; form: RowForm }[] {
  const shapes: { idScheme: number; form: RowForm }[] = [];
  for (let left = reader.varint(); left > 0; left--) {
    const idScheme = reader.varint();
    const length = reader.varint();
    damagedUnless(
      length <= seriesTermsMax && idScheme < idSchemesEnd,
      'a series has too many terms or an unknown ID scheme',
    );
    const columns: number[] = [];
    const isFlagged: boolean[] = [];
    for (let i = 0; i < length; i++) {
      const number = reader.varint();
      damagedUnless(number < 2 * columnsEnd, 'a series has a name that is none');
      columns.push(Math.floor(number / 2));
      isFlagged.push(number % 2 === 1);
    }
    shapes.push({ idScheme, form: rowFormOf(columns, isFlagged) });
  }
  return shapes;
}

function readRows(
  reader: PackedReader,
  columns: readonly Uint32Array[],
  shapes: readonly { readonly idScheme: number; readonly form: RowForm }[],
  { terms, termCounts, shards, idSchemes }: SectionSeries,
): void {
  const { end } = reader;
  const shardBits = reader.u8();
  damagedUnless(shardBits <= 16, 'a shard is too large');
  const shapeBits = bitsFor(shapes.length);
  damagedUnless(shapeBits <= packedBitsMax, 'series have too many forms');
  const widths = Uint8Array.from(columns, ({ length }) => bitsFor(length));
  /** By column the term of the series before that has it. */
  const last = Uint32Array.from(columns, (list) => list[0]!);
  damagedUnless(end - reader.position >= packedSlackBytes, 'series are cut off');
  reader.seek(reader.position, end - packedSlackBytes);
  let number = 0;
  let at = 0;
  for (let row = 0; row < termCounts.length; row++) {
    if (shapeBits > 0 && reader.bits(1) === 1) number = reader.bits(shapeBits);
    damagedUnless(number < shapes.length, 'the form of a series is unknown');
    const { idScheme, form } = shapes[number]!;
    const { columns: own, plain, flagged } = form;
    damagedUnless(own.length <= terms.length - at, 'terms of a series are cut off');
    shards[row] = reader.bits(shardBits);
    for (let i = 0; i < plain.length; i++) {
      const column = own[plain[i]!]!;
      last[column] = termAt(columns[column]!, reader.bits(widths[column]!));
    }
    for (let first = 0; first < flagged.length; first += maskColumnsMax) {
      let mask = reader.bits(Math.min(flagged.length - first, maskColumnsMax));
      for (; mask !== 0; mask &= mask - 1) {
        const column = own[flagged[first + 31 - Math.clz32(mask & -mask)]!]!;
        last[column] = termAt(columns[column]!, reader.bits(widths[column]!));
      }
    }
    for (let i = 0; i < own.length; i++) terms[at + i] = last[own[i]!]!;
    at += own.length;
    termCounts[row] = own.length;
    idSchemes[row] = idScheme;
  }
  damagedUnless(at === terms.length, 'terms of a section belong to no series');
  reader.endBits();
  reader.seek(reader.position, end);
  damagedUnless(reader.u32() === 0, 'there are bytes after the bits of series');
}

function termAt(terms: Uint32Array, place: number): number {
  damagedUnless(place < terms.length, 'a series has a term that is none');
  return terms[place]!;
}

/** Whether a bit is set at this number or above. */
export function reachesBeyond(bits: Uint32Array, end: number): boolean {
  return (end & 31) !== 0 && bits[end >>> 5]! >>> (end & 31) !== 0;
}
