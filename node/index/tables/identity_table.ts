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
    const slots = enumerateBits(present, count);
    const hashes = new Uint32Array(count);
    for (let i = 0; i < count; i++) {
      const slot = slots[i]!;
      hashes[i] = this.#hashOf(slot);
      if (!this.tellsItsTags(slot)) this.#ids.add(this.#idHashOf(slot), slot);
    }
    this.#identities.reserve(count);
    this.#identities.addMany(hashes, slots);
  }

  /** Slot of the series with terms[0 .. termCount), scheme and explicit ID, or -1. */
  find(terms: Uint32Array, termCount: number, idScheme: number, explicitId: Uint8Array): number {
    const table = this.#identities;
    const hash = this.#hash(terms, 0, termCount, idScheme, explicitId);
    for (let slot = table.first(hash); slot >= 0; slot = table.next()) {
      if (this.#isIdentity(slot, terms, termCount, idScheme, explicitId)) return slot;
    }
    return -1;
  }

  /** Slot of a series that is found by its ID only, or -1. */
  findById(id: Uint8Array): number {
    const table = this.#ids;
    const hash = hashBytes(id, 0, id.length, this.#seed);
    for (let slot = table.first(hash); slot >= 0; slot = table.next()) {
      if (equalBytes(this.idOf(slot), id)) return slot;
    }
    return -1;
  }

  /** Enters a series of the series table; its terms are in the dictionary. */
  add(slot: number): void {
    this.#identities.add(this.#hashOf(slot), slot);
    if (!this.tellsItsTags(slot)) this.#ids.add(this.#idHashOf(slot), slot);
  }

  /** Takes a series out that is still in the series table. */
  remove(slot: number): void {
    this.#identities.remove(this.#hashOf(slot), slot);
    if (!this.tellsItsTags(slot)) this.#ids.remove(this.#idHashOf(slot), slot);
  }

  /** Of any name, be it of a series that is here or not. */
  hashOfName(tags: Uint8Array, idScheme: number, explicitId: Uint8Array): number {
    const hash = hashBytes(tags, 0, tags.length, this.#seed ^ idScheme);
    if (explicitId.length === 0) return hash;
    return hash ^ hashBytes(explicitId, 0, explicitId.length, this.#seed);
  }

  #hashOf(slot: number): number {
    const series = this.#series;
    const termCount = series.termCount(slot);
    const page = termCount === 0 ? noTerms : series.termsPage(slot);
    const start = termCount === 0 ? 0 : series.termsStart(slot);
    const idScheme = series.idScheme(slot);
    return this.#hash(page, start, termCount, idScheme, series.explicitId(slot));
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
    slot: number,
    terms: Uint32Array,
    termCount: number,
    idScheme: number,
    explicitId: Uint8Array,
  ): boolean {
    const series = this.#series;
    if (series.termCount(slot) !== termCount || series.idScheme(slot) !== idScheme) {
      return false;
    }
    if (termCount > 0) {
      const page = series.termsPage(slot);
      const start = series.termsStart(slot);
      for (let i = 0; i < termCount; i++) if (page[start + i] !== terms[i]) return false;
    }
    return equalBytes(series.explicitId(slot), explicitId);
  }

  /** The counterpart of the function of that name for a series of the table. */
  tellsItsTags(slot: number): boolean {
    const series = this.#series;
    if (series.explicitId(slot).length > 0) return false;
    const idScheme = series.idScheme(slot);
    if (idScheme === idSchemeCode.prepend_meta) return true;
    if (idScheme !== idSchemeCode.quoted) return false;
    if (!this.#dictionary.hasOddNames) return true;
    const termCount = series.termCount(slot);
    if (termCount === 0) return true;
    const page = series.termsPage(slot);
    const start = series.termsStart(slot);
    for (let i = start; i < start + termCount; i++) {
      if (this.#dictionary.field(this.#dictionary.fieldOfTerm(page[i]!)).isOdd) return false;
    }
    return true;
  }

  #idHashOf(slot: number): number {
    const id = this.idOf(slot);
    return hashBytes(id, 0, id.length, this.#seed);
  }

  /**
   * The series' ID: the explicit one, or as its scheme derives it.
   * @throws {TsdbError} BAD_REQUEST when a derived one has tags that are not UTF-8
   */
  idOf(slot: number): Uint8Array {
    const explicitId = this.#series.explicitId(slot);
    if (explicitId.length > 0) return explicitId;
    const idScheme = this.#series.idScheme(slot);
    const tags = this.tagsOf(slot);
    return idScheme === idSchemeCode.legacy ? legacyIdBytes(tags) : derivedIdOf(tags, idScheme);
  }

  /** Canonical layout of the series' tags; a copy. */
  tagsOf(slot: number): Uint8Array {
    const tags = new Uint8Array(this.tagsLength(slot));
    this.copyTags(slot, viewOf(tags), 0);
    return tags;
  }

  /** Bytes of the canonical layout. */
  tagsLength(slot: number): number {
    const termCount = this.#series.termCount(slot);
    if (termCount === 0) return 0;
    const page = this.#series.termsPage(slot);
    const start = this.#series.termsStart(slot);
    let length = 0;
    for (let i = 0; i < termCount; i++) length += this.#dictionary.textLength(page[start + i]!);
    return length;
  }

  copyTags(slot: number, target: DataView, targetStart: number): void {
    const termCount = this.#series.termCount(slot);
    if (termCount === 0) return;
    const page = this.#series.termsPage(slot);
    const start = this.#series.termsStart(slot);
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
