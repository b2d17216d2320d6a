/**
 * Writes an index as sections (docs/formats/index.md), in steps of some milliseconds between which
 * it may change.
 *
 * What is saved are the series of the beginning that are still there at the end. Such a series
 * keeps its ordinal, its terms and their numbers all the time, so each of its entries is the same
 * whenever it is read, and entries of others are left out or dropped when the index is loaded. So
 * nothing is locked and nothing copied.
 */
import { PackedWriter } from './packed.ts';
import { bitCount, hasBit, wordsFor } from '../tables/postings.ts';
import { allBits, finishSection, type IndexSection, sectionKind } from './section.ts';
import { SeriesSectionWriter } from './series_section.ts';
import { termsPageWords } from '../tables/series_table.ts';
import type { IndexTables } from '../tables/tables.ts';

/** When a section is closed. */
export interface SaveLimits {
  /** It has this many bytes; one list or one block's bits may be larger. */
  readonly bytes: number;
  /** It has this many entries. */
  readonly rows: number;
  /** One of series walks over this many ordinals, used or not. */
  readonly ordinals: number;
}

export const saveLimits: SaveLimits = { bytes: 192 * 1024, rows: 16_384, ordinals: 262_144 };

export class IndexSave {
  readonly #tables: IndexTables;
  readonly #blockSizeNanos: bigint;
  readonly #limits: SaveLimits;
  /** Bits of the series that are saved. */
  readonly #kept: Uint32Array;
  readonly #ordinalsEnd: number;
  readonly #termsEnd: number;
  readonly #fieldsEnd: number;
  readonly #writer: PackedWriter;

  /** The save is of the series that are there now. */
  constructor(tables: IndexTables, blockSizeNanos: bigint, limits: SaveLimits) {
    this.#tables = tables;
    this.#limits = limits;
    this.#blockSizeNanos = blockSizeNanos;
    this.#ordinalsEnd = tables.series.slotsEnd;
    this.#kept = tables.series.present.slice(0, wordsFor(this.#ordinalsEnd));
    this.#termsEnd = tables.dictionary.termsEnd;
    this.#fieldsEnd = tables.dictionary.fieldsEnd;
    this.#writer = new PackedWriter();
  }

  /** Says that a series leaves the index: it will not be in the save. */
  forget(ordinal: number): void {
    if (ordinal < this.#ordinalsEnd) this.#kept[ordinal >>> 5]! &= ~(1 << (ordinal & 31));
  }

  *sections(): Generator<IndexSection, void, void> {
    yield* this.#fields();
    yield* this.#terms();
    yield* this.#series();
    yield* this.#liveBlocks();
    yield this.#summary();
  }

  *#fields(): Generator<IndexSection, void, void> {
    const { dictionary } = this.#tables;
    const writer = this.#writer;
    for (let first = 0; first < this.#fieldsEnd; ) {
      const names: (Uint8Array | null)[] = [];
      let bytes = 0;
      while (first + names.length < this.#fieldsEnd && bytes < this.#limits.bytes) {
        const index = first + names.length;
        const name = dictionary.hasField(index) ? Buffer.from(dictionary.field(index).name) : null;
        names.push(name);
        bytes += 4 + (name?.length ?? 0);
      }
      writer.u32(first);
      writer.u32(names.length);
      for (const name of names) {
        writer.varint(name === null ? 0 : name.length + 1);
        if (name !== null) writer.bytes(name);
      }
      yield finishSection(sectionKind.fields, writer);
      first += names.length;
    }
  }

  *#terms(): Generator<IndexSection, void, void> {
    const { dictionary } = this.#tables;
    const writer = this.#writer;
    const valueBefore: Uint8Array[] = [];
    for (let first = 0; first < this.#termsEnd; ) {
      const start = writer.length;
      writer.u32(first);
      writer.u32(0);
      valueBefore.length = 0;
      let term = first;
      let textBytes = 0;
      while (
        term < this.#termsEnd &&
        term - first < this.#limits.rows &&
        textBytes < this.#limits.bytes
      ) {
        // A term of a name that came later has no series that is saved.
        const field = dictionary.has(term) ? dictionary.fieldOfTerm(term) : this.#fieldsEnd;
        if (field < this.#fieldsEnd) {
          const value = dictionary.valueBytes(term);
          writer.varint(field + 1);
          writer.text(value, valueBefore[field] ?? noBytes);
          valueBefore[field] = value;
          textBytes += dictionary.textLength(term);
        } else writer.varint(0);
        term++;
      }
      writer.setU32(start + 4, term - first);
      yield finishSection(sectionKind.terms, writer);
      first = term;
    }
  }

  *#series(): Generator<IndexSection, void, void> {
    const { series, dictionary } = this.#tables;
    const sections = new SeriesSectionWriter(
      series,
      dictionary,
      this.#termsEnd,
      this.#fieldsEnd,
      this.#writer,
    );
    for (let ordinal = 0; ordinal < this.#ordinalsEnd; ) {
      const end = this.#endOfSeries(ordinal);
      sections.write(ordinal, end, this.#kept);
      yield finishSection(sectionKind.series, this.#writer);
      ordinal = end;
    }
  }

  /** How far a section of series that begins at `first` reaches. */
  #endOfSeries(first: number): number {
    const { series } = this.#tables;
    let termWords = 0;
    let rows = 0;
    let idBytes = 0;
    const last = Math.min(this.#ordinalsEnd, first + this.#limits.ordinals);
    for (let ordinal = first; ordinal < last; ordinal++) {
      if (!hasBit(this.#kept, ordinal)) continue;
      termWords += series.termCount(ordinal);
      if (
        termWords > termsPageWords ||
        rows === this.#limits.rows ||
        idBytes > this.#limits.bytes
      ) {
        return ordinal;
      }
      rows++;
      idBytes += series.explicitId(ordinal).length;
    }
    return last;
  }

  *#liveBlocks(): Generator<IndexSection, void, void> {
    const kept = this.#kept;
    let before = allBits(this.#ordinalsEnd);
    for (const startNanos of this.#tables.live.blockStarts) {
      const bits = this.#tables.live.bitsOf(startNanos);
      if (bits === null) continue;
      const live = new Uint32Array(kept.length);
      const length = Math.min(kept.length, bits.length);
      for (let i = 0; i < length; i++) live[i] = bits[i]! & kept[i]!;
      this.#writer.i64(startNanos);
      this.#writer.bitset(live, before);
      before = live;
      yield finishSection(sectionKind.liveBlock, this.#writer);
    }
  }

  #summary(): IndexSection {
    const writer = this.#writer;
    let seriesCount = 0;
    for (let i = 0; i < this.#kept.length; i++) seriesCount += bitCount(this.#kept[i]!);
    writer.i64(this.#blockSizeNanos);
    writer.u32(this.#ordinalsEnd);
    writer.u32(seriesCount);
    writer.u32(this.#termsEnd);
    writer.u32(this.#fieldsEnd);
    for (let i = 0; i < this.#kept.length; i++) writer.u32(this.#kept[i]!);
    return finishSection(sectionKind.summary, writer);
  }
}

const noBytes = new Uint8Array(0);
