/**
 * From identities to series: by terms, ID scheme and explicit ID, and by ID for those series whose
 * ID does not tell their tags (explicit IDs, the legacy scheme, odd names).
 */
import type { Random } from '#lib/env/env.ts';
import { derivedIdOf, legacyIdBytes } from '#lib/series_id/from_tags.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { OrdinalTable } from './ordinal_table.ts';
import { enumerateBits } from './postings.ts';
import type { SeriesTable } from './series_table.ts';
import { finish, hashBytes, mix, type TermDictionary } from './term_dictionary.ts';
import { viewOf } from './text_arena.ts';

export class IdentityTable {
  readonly #seed: number;
  readonly #dictionary: TermDictionary;
  readonly #series: SeriesTable;
  readonly #identities: OrdinalTable;
  /** By ID, only the series whose ID does not tell their tags. */
  readonly #ids: OrdinalTable;

  constructor(random: Random, dictionary: TermDictionary, series: SeriesTable) {
    this.#seed = random.u32();
    this.#dictionary = dictionary;
    this.#series = series;
    this.#identities = new OrdinalTable();
    this.#ids = new OrdinalTable();
  }

  /** Enters all series of the series table, in an empty table. */
  addAll(): void {
    const { count, present } = this.#series;
    const ordinals = enumerateBits(present, count);
    const hashes = new Uint32Array(count);
    for (let i = 0; i < count; i++) {
      const ordinal = ordinals[i]!;
      hashes[i] = this.#hashOf(ordinal);
      if (this.#isListedById(ordinal)) this.#ids.add(this.#idHashOf(ordinal), ordinal);
    }
    this.#identities.reserve(count);
    this.#identities.addMany(hashes, ordinals);
  }

  /** Ordinal of the series with terms[0 .. termCount), scheme and explicit ID, or -1. */
  find(terms: Uint32Array, termCount: number, idScheme: number, explicitId: Uint8Array): number {
    const table = this.#identities;
    const hash = this.#hash(terms, 0, termCount, idScheme, explicitId);
    for (let ordinal = table.first(hash); ordinal >= 0; ordinal = table.next()) {
      if (this.#isIdentity(ordinal, terms, termCount, idScheme, explicitId)) return ordinal;
    }
    return -1;
  }

  /** Ordinal of a series that is found by its ID only, or -1. */
  findById(id: Uint8Array): number {
    const table = this.#ids;
    const hash = hashBytes(id, 0, id.length, this.#seed);
    for (let ordinal = table.first(hash); ordinal >= 0; ordinal = table.next()) {
      if (equalBytes(this.idOf(ordinal), id)) return ordinal;
    }
    return -1;
  }

  /** Enters a series of the series table; its terms are in the dictionary. */
  add(ordinal: number): void {
    this.#identities.add(this.#hashOf(ordinal), ordinal);
    if (this.#isListedById(ordinal)) this.#ids.add(this.#idHashOf(ordinal), ordinal);
  }

  /** Takes a series out that is still in the series table. */
  remove(ordinal: number): void {
    this.#identities.remove(this.#hashOf(ordinal), ordinal);
    if (this.#isListedById(ordinal)) this.#ids.remove(this.#idHashOf(ordinal), ordinal);
  }

  #hashOf(ordinal: number): number {
    const series = this.#series;
    const termCount = series.termCount(ordinal);
    const page = termCount === 0 ? noTerms : series.termsPage(ordinal);
    const start = termCount === 0 ? 0 : series.termsStart(ordinal);
    const idScheme = series.idScheme(ordinal);
    return this.#hash(page, start, termCount, idScheme, series.explicitId(ordinal));
  }

  #hash(
    terms: Uint32Array,
    start: number,
    termCount: number,
    idScheme: number,
    explicitId: Uint8Array,
  ): number {
    let hash = this.#seed ^ idScheme;
    for (let i = start; i < start + termCount; i++) hash = mix(hash, terms[i]!);
    if (explicitId.length > 0) hash ^= hashBytes(explicitId, 0, explicitId.length, this.#seed);
    return finish(hash);
  }

  #isIdentity(
    ordinal: number,
    terms: Uint32Array,
    termCount: number,
    idScheme: number,
    explicitId: Uint8Array,
  ): boolean {
    const series = this.#series;
    if (series.termCount(ordinal) !== termCount || series.idScheme(ordinal) !== idScheme) {
      return false;
    }
    if (termCount > 0) {
      const page = series.termsPage(ordinal);
      const start = series.termsStart(ordinal);
      for (let i = 0; i < termCount; i++) if (page[start + i] !== terms[i]) return false;
    }
    return equalBytes(series.explicitId(ordinal), explicitId);
  }

  /** The counterpart of `tellsItsTags` for a series of the table. */
  #isListedById(ordinal: number): boolean {
    const series = this.#series;
    if (series.explicitId(ordinal).length > 0) return true;
    const idScheme = series.idScheme(ordinal);
    if (idScheme === idSchemeCode.prepend_meta) return false;
    if (idScheme !== idSchemeCode.quoted) return true;
    if (!this.#dictionary.hasOddNames) return false;
    const termCount = series.termCount(ordinal);
    if (termCount === 0) return false;
    const page = series.termsPage(ordinal);
    const start = series.termsStart(ordinal);
    for (let i = start; i < start + termCount; i++) {
      if (this.#dictionary.field(this.#dictionary.fieldOfTerm(page[i]!)).isOdd) return true;
    }
    return false;
  }

  #idHashOf(ordinal: number): number {
    const id = this.idOf(ordinal);
    return hashBytes(id, 0, id.length, this.#seed);
  }

  /**
   * The series' ID: the explicit one, or as its scheme derives it.
   * @throws {TsdbError} BAD_REQUEST when a derived one has tags that are not UTF-8
   */
  idOf(ordinal: number): Uint8Array {
    const explicitId = this.#series.explicitId(ordinal);
    if (explicitId.length > 0) return explicitId;
    const idScheme = this.#series.idScheme(ordinal);
    const tags = this.tagsOf(ordinal);
    return idScheme === idSchemeCode.legacy ? legacyIdBytes(tags) : derivedIdOf(tags, idScheme);
  }

  /** Canonical layout of the series' tags; a copy. */
  tagsOf(ordinal: number): Uint8Array {
    const tags = new Uint8Array(this.tagsLength(ordinal));
    this.copyTags(ordinal, viewOf(tags), 0);
    return tags;
  }

  /** Bytes of the canonical layout. */
  tagsLength(ordinal: number): number {
    const termCount = this.#series.termCount(ordinal);
    if (termCount === 0) return 0;
    const page = this.#series.termsPage(ordinal);
    const start = this.#series.termsStart(ordinal);
    let length = 0;
    for (let i = 0; i < termCount; i++) length += this.#dictionary.textLength(page[start + i]!);
    return length;
  }

  copyTags(ordinal: number, target: DataView, targetStart: number): void {
    const termCount = this.#series.termCount(ordinal);
    if (termCount === 0) return;
    const page = this.#series.termsPage(ordinal);
    const start = this.#series.termsStart(ordinal);
    let at = targetStart;
    for (let i = 0; i < termCount; i++) {
      at = this.#dictionary.copyText(page[start + i]!, target, at);
    }
  }

  get memoryBytes(): number {
    return this.#identities.memoryBytes + this.#ids.memoryBytes;
  }
}

const noTerms = new Uint32Array(0);

export function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
