/**
 * Fills an empty index from saved sections (docs/formats/index.md). Nothing that is read is
 * trusted: lengths are compared with what is there, numbers with their ends, and the series with
 * the postings of their terms, so that an index that was loaded is whole. Hash tables are made
 * anew, under a new seed.
 */
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { assert } from '#lib/assert.ts';
import { type PackedReader, PackedTexts } from './packed.ts';
import { bitCount, enumerateBits, hasBit, wordsFor } from '../tables/postings.ts';
import { loadFieldPostings, loadTermPostings } from '../tables/postings_of_series.ts';
import {
  allBits,
  damagedUnless,
  endSection,
  IndexDamaged,
  type IndexSectionSource,
  readerOfSection,
  type SectionKind,
  sectionKind,
} from './section.ts';
import { reachesBeyond, readSeriesSection, type SectionSeries } from './series_section.ts';
import type { IndexTables } from '../tables/tables.ts';
import { textBytesMax } from '../tables/text_arena.ts';

/** The series of a saved index, before they are loaded. */
export interface SavedSeries {
  readonly seriesCount: number;
  /** All ordinals are below this. */
  readonly ordinalsEnd: number;
  /** Bits of the ordinals. Borrowed. */
  readonly present: Uint32Array;
}

/**
 * Gives the saved series their ordinals: null leaves them as they are, else the new ones,
 * ascending, one for each series in the order of its saved ordinal.
 */
export type PlaceSeries = (saved: SavedSeries) => Uint32Array | null;

/** Most ordinals: more than series of one process can be. */
const ordinalsMax = 0x80000000;

export class IndexLoad {
  readonly #tables: IndexTables;
  readonly #source: IndexSectionSource;
  readonly #blockSizeNanos: bigint;
  #saved: SavedSeries;
  #termsEnd: number;
  #fieldsEnd: number;
  /** By saved ordinal the new one; null when they are the same. */
  #newOrdinals: Uint32Array | null;
  #newOrdinalsEnd: number;
  /** Name of each field. */
  readonly #names: (Uint8Array | null)[];
  /** Sections of terms, which are read when it is known which terms have series. */
  readonly #termSections: PackedReader[];
  /** By term: how many series have it. */
  #seen: Uint32Array;

  /** @param tables empty ones */
  constructor(tables: IndexTables, source: IndexSectionSource, blockSizeNanos: bigint) {
    this.#tables = tables;
    this.#source = source;
    this.#blockSizeNanos = blockSizeNanos;
    this.#saved = { seriesCount: 0, ordinalsEnd: 0, present: new Uint32Array(0) };
    this.#termsEnd = 0;
    this.#fieldsEnd = 0;
    this.#newOrdinals = null;
    this.#newOrdinalsEnd = 0;
    this.#names = [];
    this.#termSections = [];
    this.#seen = new Uint32Array(0);
  }

  /** @throws {IndexDamaged} then the tables are worthless */
  async run(place: PlaceSeries): Promise<void> {
    const { dictionary, series, termPostings, fieldPostings } = this.#tables;
    const known: readonly number[] = Object.values(sectionKind);
    for (const kind of this.#source.kinds) {
      damagedUnless(known.includes(kind), `kind of a section is unknown: ${kind}`);
    }
    await this.#readSummary();
    this.#place(place(this.#saved));
    termPostings.expectSlots(this.#newOrdinalsEnd);
    fieldPostings.expectSlots(this.#newOrdinalsEnd);
    await this.#readFields();
    await this.#keepTerms();
    await this.#readSeries();
    damagedUnless(
      loadTermPostings(series, this.#seen, termPostings, this.#newOrdinalsEnd),
      'a series has a term twice',
    );
    this.#readTerms();
    dictionary.endLoading();
    damagedUnless(
      loadFieldPostings(dictionary, termPostings, fieldPostings, this.#newOrdinalsEnd),
      'a series has two values of a name',
    );
    this.#addIdentities();
    await this.#readLiveBlocks();
  }

  async *#sectionsOf(kind: SectionKind, what: string): AsyncGenerator<PackedReader, void, void> {
    for (let i = 0; i < this.#source.kinds.length; i++) {
      if (this.#source.kinds[i] !== kind) continue;
      yield readerOfSection(await this.#source.read(i), what);
    }
  }

  async #readSummary(): Promise<void> {
    let isRead = false;
    for await (const section of this.#sectionsOf(sectionKind.summary, 'summary')) {
      damagedUnless(!isRead, 'there are two summaries');
      isRead = true;
      const blockSizeNanos = section.i64();
      damagedUnless(
        blockSizeNanos === this.#blockSizeNanos,
        `block size is ${blockSizeNanos} ns, not ${this.#blockSizeNanos} ns`,
      );
      const ordinalsEnd = section.u32();
      const seriesCount = section.u32();
      this.#termsEnd = section.u32();
      this.#fieldsEnd = section.u32();
      // Near 2^32 the number of words would wrap around.
      damagedUnless(ordinalsEnd <= ordinalsMax, 'there are too many ordinals');
      // Compared before the array is made: so it is no longer than the section.
      damagedUnless(
        4 * wordsFor(ordinalsEnd) <= section.end - section.position,
        'summary is cut off',
      );
      const present = new Uint32Array(wordsFor(ordinalsEnd));
      let count = 0;
      for (let i = 0; i < present.length; i++) {
        const word = section.u32();
        present[i] = word;
        count += bitCount(word);
      }
      endSection(section, 'summary');
      damagedUnless(count === seriesCount, 'number of series is not that of the ordinals');
      damagedUnless(!reachesBeyond(present, ordinalsEnd), 'an ordinal is beyond the last one');
      this.#saved = { seriesCount, ordinalsEnd, present };
    }
    damagedUnless(isRead, 'summary is missing');
  }

  #place(ordinals: Uint32Array | null): void {
    const { seriesCount, ordinalsEnd, present } = this.#saved;
    this.#newOrdinalsEnd = ordinalsEnd;
    if (ordinals === null) return;
    assert(ordinals.length === seriesCount, 'each loaded series gets an ordinal');
    const saved = enumerateBits(present, seriesCount);
    const newOrdinals = new Uint32Array(ordinalsEnd);
    let isSame = true;
    for (let i = 0; i < seriesCount; i++) {
      assert(i === 0 || ordinals[i - 1]! < ordinals[i]!, 'ordinals of loaded series ascend');
      newOrdinals[saved[i]!] = ordinals[i]!;
      isSame &&= ordinals[i] === saved[i];
    }
    if (isSame) return;
    this.#newOrdinals = newOrdinals;
    this.#newOrdinalsEnd = seriesCount === 0 ? 0 : ordinals[seriesCount - 1]! + 1;
  }

  /** New ordinals of these bits, which are all of saved series. */
  #placed(bits: Uint32Array, count: number): Uint32Array {
    const values = enumerateBits(bits, count);
    const newOrdinals = this.#newOrdinals!;
    for (let i = 0; i < values.length; i++) values[i] = newOrdinals[values[i]!]!;
    return values;
  }

  async #readFields(): Promise<void> {
    for await (const section of this.#sectionsOf(sectionKind.fields, 'names')) {
      damagedUnless(section.u32() === this.#names.length, 'a section of names is missing');
      for (let left = section.u32(); left > 0; left--) {
        const length = section.varint();
        damagedUnless(length <= textBytesMax + 1, 'a name is too long');
        this.#names.push(length === 0 ? null : section.bytes(length - 1));
      }
      endSection(section, 'names');
    }
    damagedUnless(this.#names.length === this.#fieldsEnd, 'some names are missing');
  }

  async #keepTerms(): Promise<void> {
    let end = 0;
    for await (const section of this.#sectionsOf(sectionKind.terms, 'terms')) {
      damagedUnless(section.u32() === end, 'a section of terms is missing');
      const count = section.u32();
      // Each takes a byte at least: so there are no more of them than bytes.
      damagedUnless(count <= section.end - section.position, 'terms are cut off');
      section.seek(section.position - 4, section.end);
      end += count;
      this.#termSections.push(section);
    }
    damagedUnless(end === this.#termsEnd, 'some terms are missing');
  }

  #readTerms(): void {
    this.#tables.dictionary.reserve(this.#termsEnd);
    let first = 0;
    for (const section of this.#termSections) {
      const count = section.u32();
      this.#loadTerms(section, first, count);
      endSection(section, 'terms');
      first += count;
    }
  }

  #loadTerms(section: PackedReader, first: number, count: number): void {
    const { dictionary } = this.#tables;
    const values = new PackedTexts(16 * count);
    /** By field where its value before lies in `values`. */
    const starts = new Uint32Array(this.#fieldsEnd);
    const lengths = new Uint32Array(this.#fieldsEnd);
    const text = new Uint8Array(2 * (textBytesMax + 2));
    for (let term = first; term < first + count; term++) {
      const isUsed = this.#seen[term] !== 0;
      const field = section.varint() - 1;
      damagedUnless(field < this.#fieldsEnd, 'a term is of no name');
      if (field < 0) {
        damagedUnless(!isUsed, 'a term is of no name');
        continue;
      }
      const start = values.length;
      lengths[field] = section.text(values, starts[field]!, lengths[field]!);
      starts[field] = start;
      if (!isUsed) continue;
      const name = this.#names[field] ?? null;
      damagedUnless(name !== null, 'a term is of no name');
      let end = putText(text, 0, name, 0, name.length);
      end = putText(text, end, values.bytes, start, values.length);
      damagedUnless(end <= textBytesMax, 'a term is too long');
      const at = dictionary.loadTexts(text.subarray(0, end));
      damagedUnless(dictionary.loadTerm(term, at, end), 'two terms have one text');
      damagedUnless(dictionary.loadField(term, field, name), 'two names are one');
    }
  }

  async #readSeries(): Promise<void> {
    this.#seen = new Uint32Array(this.#termsEnd);
    const { ordinalsEnd } = this.#saved;
    let end = 0;
    for await (const section of this.#sectionsOf(sectionKind.series, 'series')) {
      damagedUnless(section.u32() === end, 'a section of series is missing');
      const series = readSeriesSection(section, ordinalsEnd - end, this.#termsEnd);
      endSection(section, 'series');
      this.#enter(end, series);
      end += series.ordinals;
    }
    damagedUnless(end === ordinalsEnd, 'some series are missing');
    damagedUnless(this.#tables.series.count === this.#saved.seriesCount, 'some series are missing');
  }

  #enter(first: number, saved: SectionSeries): void {
    const { series } = this.#tables;
    const { rows, terms, termCounts, shards, idSchemes, explicitIds } = saved;
    const seen = this.#seen;
    const run = series.addPage(terms);
    let at = 0;
    for (let row = 0; row < rows.length; row++) {
      const termCount = termCounts[row]!;
      const start = at;
      at += termCount;
      const ordinal = first + rows[row]!;
      if (!hasBit(this.#saved.present, ordinal)) {
        series.releaseRun(run + start, termCount);
        continue;
      }
      for (let i = start; i < at; i++) seen[terms[i]!]!++;
      const explicitId = explicitIds.size === 0 ? noBytes : (explicitIds.get(row) ?? noBytes);
      const placed = this.#newOrdinals === null ? ordinal : this.#newOrdinals[ordinal]!;
      const idScheme = idSchemes[row]!;
      damagedUnless(
        (idScheme === idSchemeCode.explicit) === explicitId.length > 0,
        'a series has an explicit ID and a scheme, or neither',
      );
      series.place(placed, run + start, termCount, idScheme, explicitId, shards[row]!);
    }
  }

  #addIdentities(): void {
    try {
      this.#tables.identities.addAll();
    } catch (error) {
      throw new IndexDamaged('a series has no ID', { cause: error });
    }
  }

  async #readLiveBlocks(): Promise<void> {
    const { present, ordinalsEnd } = this.#saved;
    const saved = allBits(ordinalsEnd);
    for await (const section of this.#sectionsOf(sectionKind.liveBlock, 'live series')) {
      const startNanos = section.i64();
      section.bitset(saved);
      endSection(section, 'live series');
      const bits = saved.slice();
      let count = 0;
      for (let i = 0; i < bits.length; i++) {
        bits[i]! &= present[i]!;
        count += bitCount(bits[i]!);
      }
      if (this.#newOrdinals === null) this.#tables.live.load(startNanos, bits);
      else this.#tables.live.mark(this.#placed(bits, count), count, startNanos);
    }
  }
}

const noBytes = new Uint8Array(0);

/** Copies a text with its length in front. @returns the end in `target` */
function putText(
  target: Uint8Array,
  at: number,
  text: Uint8Array,
  start: number,
  end: number,
): number {
  const length = end - start;
  target[at] = length & 255;
  target[at + 1] = length >>> 8;
  let to = at + 2;
  for (let i = start; i < end; i++) target[to++] = text[i]!;
  return to;
}
