/**
 * Writes an index as sections (docs/formats/index.md), in steps of some milliseconds between which it may change.
 *
 * What is saved are the series of the beginning that are still there at the end. Such a series keeps its ordinal,
 * its terms and their numbers all the time, so each of its entries is the same whenever it is read, and
 * entries of others are left out or dropped when the index is loaded. So nothing is locked and nothing copied.
 */
import { bitCount, hasBit, type PostingsStore, wordsFor } from './postings.ts';
import { type IndexSection, type SectionKind, sectionKind, SectionWriter } from './section.ts';
import { termsPageWords } from './series_table.ts';
import type { IndexTables } from './tables.ts';

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

/** Marks the number of a list that is bits. */
export const bitsMark = 0x80000000;
/** Length of a field's name where there is no field. */
export const noField = 0xffffffff;

export class IndexSave {
  readonly #tables: IndexTables;
  readonly #blockSizeNanos: bigint;
  readonly #limits: SaveLimits;
  /** Bits of the series that are saved. */
  readonly #kept: Uint32Array;
  readonly #ordinalsEnd: number;
  readonly #termsEnd: number;
  readonly #fieldsEnd: number;
  readonly #writer: SectionWriter;

  /** The save is of the series that are there now. */
  constructor(tables: IndexTables, blockSizeNanos: bigint, limits: SaveLimits) {
    this.#tables = tables;
    this.#limits = limits;
    this.#blockSizeNanos = blockSizeNanos;
    this.#ordinalsEnd = tables.series.ordinalsEnd;
    this.#kept = tables.series.present.slice(0, wordsFor(this.#ordinalsEnd));
    this.#termsEnd = tables.dictionary.termsEnd;
    this.#fieldsEnd = tables.dictionary.fieldsEnd;
    this.#writer = new SectionWriter();
  }

  /** Says that a series leaves the index: it will not be in the save. */
  forget(ordinal: number): void {
    if (ordinal < this.#ordinalsEnd) this.#kept[ordinal >>> 5]! &= ~(1 << (ordinal & 31));
  }

  *sections(): Generator<IndexSection, void, void> {
    yield* this.#fields();
    yield* this.#terms();
    const { termPostings, fieldPostings } = this.#tables;
    yield* this.#lists(sectionKind.termPostings, termPostings, this.#termsEnd);
    yield* this.#lists(sectionKind.fieldPostings, fieldPostings, this.#fieldsEnd);
    yield* this.#series();
    yield* this.#liveBlocks();
    yield this.#summary();
  }

  #section(kind: SectionKind): IndexSection {
    return { kind, bytes: this.#writer.finish() };
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
      for (const name of names) writer.u32(name?.length ?? noField);
      for (const name of names) if (name !== null) writer.copy(name);
      yield this.#section(sectionKind.fields);
      first += names.length;
    }
  }

  *#terms(): Generator<IndexSection, void, void> {
    const { dictionary } = this.#tables;
    const writer = this.#writer;
    for (let first = 0; first < this.#termsEnd; ) {
      let end = first;
      let textBytes = 0;
      while (
        end < this.#termsEnd &&
        end - first < this.#limits.rows &&
        textBytes < this.#limits.bytes
      ) {
        if (dictionary.has(end)) textBytes += dictionary.textLength(end);
        end++;
      }
      writer.u32(first);
      writer.u32(end - first);
      writer.u32(textBytes);
      writer.u32(0);
      const fields = writer.take(4 * (end - first));
      const lengths = writer.take(2 * (end - first));
      let at = writer.take(textBytes);
      for (let term = first; term < end; term++) {
        if (!dictionary.has(term)) continue;
        const length = dictionary.textLength(term);
        writer.setU16(lengths + 2 * (term - first), length);
        writer.setU32(fields + 4 * (term - first), dictionary.fieldOfTerm(term));
        dictionary.copyTextTo(term, writer.bytes, at);
        at += length;
      }
      yield this.#section(sectionKind.terms);
      first = end;
    }
  }

  *#lists(
    kind: SectionKind,
    postings: PostingsStore,
    listsEnd: number,
  ): Generator<IndexSection, void, void> {
    const writer = this.#writer;
    for (let first = 0; first < listsEnd; ) {
      let end = first;
      let bytes = 0;
      while (end < listsEnd && end - first < this.#limits.rows && bytes < this.#limits.bytes) {
        const isBits = postings.bitsOf(end) !== null;
        bytes += 4 * (isBits ? this.#kept.length : postings.count(end));
        end++;
      }
      writer.u32(first);
      writer.u32(end - first);
      const counts = writer.take(4 * (end - first));
      for (let list = first; list < end; list++) {
        writer.setU32(counts + 4 * (list - first), this.#list(postings, list));
      }
      yield this.#section(kind);
      first = end;
    }
  }

  /** Writes the ordinals that are kept. @returns how many they are, with `bitsMark` when they are bits */
  #list(postings: PostingsStore, list: number): number {
    const kept = this.#kept;
    const writer = this.#writer;
    const bits = postings.bitsOf(list);
    let count = 0;
    if (bits !== null) {
      const start = writer.take(4 * kept.length) >>> 2;
      const { words } = writer;
      const length = Math.min(kept.length, bits.length);
      for (let i = 0; i < length; i++) {
        const word = bits[i]! & kept[i]!;
        words[start + i] = word;
        count += bitCount(word);
      }
      return (count | bitsMark) >>> 0;
    }
    const before = writer.length;
    const start = writer.take(4 * postings.count(list)) >>> 2;
    const { words } = writer;
    const values = postings.arrayOf(list)!;
    for (let i = 0; i < values.length; i++) {
      if (hasBit(kept, values[i]!)) words[start + count++] = values[i]!;
    }
    writer.length = before + 4 * count;
    return count;
  }

  *#series(): Generator<IndexSection, void, void> {
    for (let ordinal = 0; ordinal < this.#ordinalsEnd; ) {
      const end = this.#endOfSeries(ordinal);
      yield this.#seriesSection(ordinal, end);
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

  #seriesSection(first: number, end: number): IndexSection {
    const { series } = this.#tables;
    const writer = this.#writer;
    const ordinals: number[] = [];
    let termWords = 0;
    const explicit: number[] = [];
    for (let ordinal = first; ordinal < end; ordinal++) {
      if (!hasBit(this.#kept, ordinal)) continue;
      if (series.explicitId(ordinal).length > 0) explicit.push(ordinals.length);
      ordinals.push(ordinal);
      termWords += series.termCount(ordinal);
    }
    const count = ordinals.length;
    for (const value of [first, end - first, count, termWords, explicit.length, 0]) {
      writer.u32(value);
    }
    const present = writer.take(4 * wordsFor(end - first)) >>> 2;
    let term = writer.take(4 * termWords) >>> 2;
    const termCounts = writer.take(2 * count);
    const shards = writer.take(2 * count);
    const schemes = writer.take(count);
    const { words } = writer;
    for (let i = 0; i < count; i++) {
      const ordinal = ordinals[i]!;
      const bit = ordinal - first;
      words[present + (bit >>> 5)]! |= 1 << (bit & 31);
      const termCount = series.termCount(ordinal);
      writer.setU16(termCounts + 2 * i, termCount);
      writer.setU16(shards + 2 * i, series.shard(ordinal));
      writer.setU8(schemes + i, series.idScheme(ordinal));
      if (termCount === 0) continue;
      const page = series.termsPage(ordinal);
      const start = series.termsStart(ordinal);
      for (let at = start; at < start + termCount; at++) words[term++] = page[at]!;
    }
    writer.align(4);
    for (const row of explicit) writer.u32(row);
    for (const row of explicit) writer.u32(series.explicitId(ordinals[row]!).length);
    for (const row of explicit) writer.copy(series.explicitId(ordinals[row]!));
    return this.#section(sectionKind.series);
  }

  *#liveBlocks(): Generator<IndexSection, void, void> {
    const kept = this.#kept;
    for (const startNanos of this.#tables.live.blockStarts) {
      const bits = this.#tables.live.bitsOf(startNanos);
      if (bits === null) continue;
      this.#writer.i64(startNanos);
      const start = this.#writer.take(4 * kept.length) >>> 2;
      const { words } = this.#writer;
      const length = Math.min(kept.length, bits.length);
      for (let i = 0; i < length; i++) words[start + i] = bits[i]! & kept[i]!;
      yield this.#section(sectionKind.liveBlock);
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
    const start = writer.take(4 * this.#kept.length) >>> 2;
    writer.words.set(this.#kept, start);
    return this.#section(sectionKind.summary);
  }
}
