/**
 * Fills an empty index from saved sections (docs/formats/index.md). Nothing that is read is trusted: lengths are
 * compared with what is there, numbers with their ends, and the series with the postings of their terms, so that
 * an index that was loaded is whole. Hash tables are made anew, under a new seed.
 */
import { assert } from '#lib/assert.ts';
import { bitCount, enumerateBits, hasBit, type PostingsStore, wordsFor } from './postings.ts';
import { bitsMark, noField } from './save.ts';
import {
  damagedUnless,
  IndexDamaged,
  type IndexSectionSource,
  type SectionKind,
  sectionKind,
  SectionReader,
} from './section.ts';
import { idSchemesEnd, seriesTermsMax, termsPageWords } from './series_table.ts';
import type { IndexTables } from './tables.ts';
import { textBytesMax } from './text_arena.ts';

/** The series of a saved index, before they are loaded. */
export interface SavedSeries {
  readonly seriesCount: number;
  /** All ordinals are below this. */
  readonly ordinalsEnd: number;
  /** Bits of the ordinals. Borrowed. */
  readonly present: Uint32Array;
}

/**
 * Gives the saved series their ordinals: null leaves them as they are, else the new ones, ascending, one for each
 * series in the order of its saved ordinal.
 */
export type PlaceSeries = (saved: SavedSeries) => Uint32Array | null;

/** Most ordinals: more than series of one process can be. */
const ordinalsMax = 0x80000000;

/** Most bytes of texts in a section of terms: a page of the arena. */
const textsMax = 1 << 20;

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
  /** By term: in how many series it was seen. */
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
    this.#seen = new Uint32Array(0);
  }

  /** @throws {IndexDamaged} then the tables are worthless */
  async run(place: PlaceSeries): Promise<void> {
    const { dictionary, termPostings, fieldPostings } = this.#tables;
    const known: readonly number[] = Object.values(sectionKind);
    for (const kind of this.#source.kinds) {
      damagedUnless(known.includes(kind), `kind of a section is unknown: ${kind}`);
    }
    await this.#readSummary();
    this.#place(place(this.#saved));
    termPostings.expectOrdinals(this.#newOrdinalsEnd);
    fieldPostings.expectOrdinals(this.#newOrdinalsEnd);
    const lists = await this.#readLists(sectionKind.termPostings, termPostings, 'term postings');
    damagedUnless(lists === this.#termsEnd, 'postings of some terms are missing');
    await this.#readFields();
    await this.#readTerms();
    dictionary.endLoading();
    const ofFields = await this.#readLists(sectionKind.fieldPostings, fieldPostings, 'fields');
    damagedUnless(ofFields === this.#fieldsEnd, 'postings of some names are missing');
    this.#compareFields();
    await this.#readSeries();
    this.#compareTerms();
    this.#addIdentities();
    await this.#readLiveBlocks();
  }

  async *#sectionsOf(kind: SectionKind, what: string): AsyncGenerator<SectionReader, void, void> {
    for (let i = 0; i < this.#source.kinds.length; i++) {
      if (this.#source.kinds[i] !== kind) continue;
      yield new SectionReader(await this.#source.read(i), what);
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
      const present = section.u32s(wordsFor(ordinalsEnd));
      section.end();
      let count = 0;
      for (let i = 0; i < present.length; i++) count += bitCount(present[i]!);
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

  /** @returns how many lists there were */
  async #readLists(kind: SectionKind, postings: PostingsStore, what: string): Promise<number> {
    let end = 0;
    for await (const section of this.#sectionsOf(kind, what)) {
      damagedUnless(section.u32() === end, `a section of ${what} is missing`);
      const counts = section.u32s(section.u32());
      for (let i = 0; i < counts.length; i++) {
        const count = counts[i]!;
        if (count >= bitsMark) this.#loadBits(section, postings, end + i, count - bitsMark);
        else if (count > 0) this.#loadValues(section.u32s(count), postings, end + i);
      }
      section.end();
      end += counts.length;
    }
    return end;
  }

  /** @param values changed in place */
  #loadValues(values: Uint32Array, postings: PostingsStore, list: number): void {
    const { present, ordinalsEnd } = this.#saved;
    const newOrdinals = this.#newOrdinals;
    let count = 0;
    let before = -1;
    for (let i = 0; i < values.length; i++) {
      const ordinal = values[i]!;
      damagedUnless(ordinal > before && ordinal < ordinalsEnd, 'ordinals of a list do not ascend');
      before = ordinal;
      if (!hasBit(present, ordinal)) continue;
      values[count++] = newOrdinals === null ? ordinal : newOrdinals[ordinal]!;
    }
    postings.load(list, count === values.length ? values : values.subarray(0, count));
  }

  #loadBits(section: SectionReader, postings: PostingsStore, list: number, wanted: number): void {
    const { present } = this.#saved;
    const bits = section.u32s(present.length);
    let found = 0;
    let count = 0;
    for (let i = 0; i < bits.length; i++) {
      const word = bits[i]!;
      if (word === 0) continue;
      found += bitCount(word);
      bits[i] = word & present[i]!;
      count += bitCount(bits[i]!);
    }
    damagedUnless(found === wanted, 'number of ordinals of a list is not that of its bits');
    if (this.#newOrdinals === null) postings.loadBits(list, bits, count);
    else postings.load(list, this.#placed(bits, count));
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
      const lengths = section.u32s(section.u32());
      for (const length of lengths) {
        damagedUnless(length === noField || length <= textBytesMax, 'a name is too long');
        this.#names.push(length === noField ? null : section.u8s(length));
      }
      section.end();
    }
    damagedUnless(this.#names.length === this.#fieldsEnd, 'some names are missing');
  }

  async #readTerms(): Promise<void> {
    let end = 0;
    for await (const section of this.#sectionsOf(sectionKind.terms, 'terms')) {
      damagedUnless(section.u32() === end, 'a section of terms is missing');
      const count = section.u32();
      const textBytes = section.u32();
      damagedUnless(section.u32() === 0, 'a section of terms is not of this version');
      const fields = section.u32s(count);
      const lengths = section.u16s(count);
      damagedUnless(textBytes <= textsMax, 'texts of terms are too long');
      const texts = section.u8s(textBytes);
      section.end();
      this.#loadTerms(end, lengths, fields, texts);
      end += count;
    }
    damagedUnless(end === this.#termsEnd, 'some terms are missing');
  }

  #loadTerms(first: number, lengths: Uint16Array, fields: Uint32Array, texts: Uint8Array): void {
    const { dictionary, termPostings } = this.#tables;
    let total = 0;
    for (let i = 0; i < lengths.length; i++) total += lengths[i]!;
    damagedUnless(total === texts.length, 'lengths of terms are not those of their texts');
    dictionary.reserve(first + lengths.length);
    let at = dictionary.loadTexts(texts);
    for (let i = 0; i < lengths.length; i++) {
      const term = first + i;
      const length = lengths[i]!;
      if (termPostings.count(term) === 0) {
        dictionary.dropText(at, length);
      } else {
        damagedUnless(dictionary.loadTerm(term, at, length), 'a text of a term is not one');
        const name = this.#names[fields[i]!] ?? null;
        damagedUnless(
          name !== null && dictionary.loadField(term, fields[i]!, name),
          'a term is not of the name it is listed for',
        );
      }
      at += length;
    }
  }

  /** The series of a name are those of its terms. */
  #compareFields(): void {
    const { dictionary, termPostings, fieldPostings } = this.#tables;
    for (let index = 0; index < this.#fieldsEnd; index++) {
      let count = 0;
      if (dictionary.hasField(index)) {
        const { terms, positionsEnd } = dictionary.field(index);
        for (let i = 0; i < positionsEnd; i++) count += termPostings.count(terms[i]!);
      }
      damagedUnless(count === fieldPostings.count(index), 'series of a name are not its terms’');
    }
  }

  async #readSeries(): Promise<void> {
    this.#seen = new Uint32Array(this.#termsEnd);
    let end = 0;
    for await (const section of this.#sectionsOf(sectionKind.series, 'series')) {
      damagedUnless(section.u32() === end, 'a section of series is missing');
      end += this.#loadSeries(section, end);
    }
    damagedUnless(end === this.#saved.ordinalsEnd, 'some series are missing');
    damagedUnless(this.#tables.series.count === this.#saved.seriesCount, 'some series are missing');
  }

  /** @returns how many ordinals the section covers */
  #loadSeries(section: SectionReader, first: number): number {
    const ordinals = section.u32();
    const count = section.u32();
    const termWords = section.u32();
    const explicitCount = section.u32();
    damagedUnless(section.u32() === 0, 'a section of series is not of this version');
    damagedUnless(
      ordinals > 0 && ordinals <= this.#saved.ordinalsEnd - first,
      'a section of series is beyond the last one',
    );
    damagedUnless(termWords <= termsPageWords, 'terms of series are more than a page');
    const bits = section.u32s(wordsFor(ordinals));
    const terms = section.u32s(termWords).slice();
    const columns = {
      termCounts: section.u16s(count),
      shards: section.u16s(count),
      schemes: section.u8s(count),
      ids: new Map<number, Uint8Array>(),
    };
    section.align(4);
    const rows = section.u32s(explicitCount);
    const lengths = section.u32s(explicitCount);
    for (let i = 0; i < explicitCount; i++) {
      const length = lengths[i]!;
      damagedUnless(length > 0 && length <= textBytesMax, 'length of an ID is wrong');
      columns.ids.set(rows[i]!, section.u8s(length));
    }
    section.end();
    damagedUnless(!reachesBeyond(bits, ordinals), 'a series is beyond its section');
    const saved = enumerateBits(bits, count + 1);
    damagedUnless(saved.length === count, 'number of series of a section is wrong');
    this.#enter(first, saved, terms, columns);
    return ordinals;
  }

  #enter(
    first: number,
    saved: Uint32Array,
    terms: Uint32Array,
    columns: {
      readonly termCounts: Uint16Array;
      readonly shards: Uint16Array;
      readonly schemes: Uint8Array;
      readonly ids: ReadonlyMap<number, Uint8Array>;
    },
  ): void {
    const { series } = this.#tables;
    const { termCounts, shards, schemes, ids } = columns;
    const run = series.addPage(terms);
    const seen = this.#seen;
    let at = 0;
    for (let row = 0; row < saved.length; row++) {
      const termCount = termCounts[row]!;
      damagedUnless(termCount <= terms.length - at, 'terms of a series are cut off');
      const start = at;
      at += termCount;
      const ordinal = first + saved[row]!;
      if (!hasBit(this.#saved.present, ordinal)) {
        series.releaseRun(run + start, termCount);
        continue;
      }
      damagedUnless(countTerms(terms, start, at, seen), 'a series has a term that is none');
      damagedUnless(
        termCount <= seriesTermsMax && schemes[row]! < idSchemesEnd,
        'a series has too many terms or an unknown ID scheme',
      );
      const explicitId = ids.size === 0 ? noBytes : (ids.get(row) ?? noBytes);
      const placed = this.#newOrdinals === null ? ordinal : this.#newOrdinals[ordinal]!;
      series.place(placed, run + start, termCount, schemes[row]!, explicitId, shards[row]!);
    }
    damagedUnless(at === terms.length, 'terms of a section belong to no series');
  }

  /** Each term stands in as many series as its list has. */
  #compareTerms(): void {
    const { termPostings } = this.#tables;
    for (let term = 0; term < this.#seen.length; term++) {
      damagedUnless(
        this.#seen[term] === termPostings.count(term),
        'series of a term are not those of its list',
      );
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
    for await (const section of this.#sectionsOf(sectionKind.liveBlock, 'live series')) {
      const startNanos = section.i64();
      const bits = section.u32s(wordsFor(ordinalsEnd));
      section.end();
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

/** Counts terms[start, end); false when one is beyond the counters. */
function countTerms(terms: Uint32Array, start: number, end: number, seen: Uint32Array): boolean {
  for (let i = start; i < end; i++) {
    const term = terms[i]!;
    if (term >= seen.length) return false;
    seen[term]!++;
  }
  return true;
}

/** Whether a bit is set at this number or above. */
function reachesBeyond(bits: Uint32Array, end: number): boolean {
  return (end & 31) !== 0 && bits[end >>> 5]! >>> (end & 31) !== 0;
}
