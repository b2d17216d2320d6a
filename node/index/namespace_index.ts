/**
 * The inverted index of one namespace on one node: from queries to series, from identity to series, and
 * from series to tags. Series are ordinals given by the caller; a removed one may be given again.
 */
import type { SeriesBundle } from '#engine/series_bundle.ts';
import { assert } from '#lib/assert.ts';
import type { Random } from '#lib/env/env.ts';
import { badRequest } from '#lib/errors.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import { tagsBytesMax } from '#lib/tags.ts';
import type { UnixNanos } from '#lib/time.ts';
import { aggregateTags, type TagAggregate } from './aggregate.ts';
import { Evaluator } from './evaluate.ts';
import { LiveBlocks } from './live_blocks.ts';
import { countOf, type OrdinalSet } from './ordinal_set.ts';
import { OrdinalTable } from './ordinal_table.ts';
import { enumerateBits, hasBit, PostingsStore, wordsFor } from './postings.ts';
import { RegexpTerms } from './regexp_terms.ts';
import { idBytesOf, isFoundByParsing, tagsOfId } from './series_id.ts';
import { SeriesTable } from './series_table.ts';
import { finish, hashBytes, mix, TermDictionary } from './term_dictionary.ts';
import { textBytesMax, viewOf } from './text_arena.ts';

export interface NamespaceIndexOptions {
  readonly random: Random;
  /** Size of an index block: how long a block start counts for a series. */
  readonly blockSizeNanos: bigint;
}

export interface IndexRange {
  /** Inclusive. */
  readonly startNanos: UnixNanos;
  /** Exclusive. */
  readonly endNanos: UnixNanos;
}

export interface QueryOptions {
  /** Most series; 0 = no limit. */
  readonly limit: number;
  /** Only series of these shards; null for all. */
  readonly shards: Uint32Array | null;
}

export interface AggregateOptions {
  /** Only these tag names; empty for all. */
  readonly tagNames: readonly string[];
  readonly namesOnly: boolean;
  /** Names and values together; 0 = no limit. */
  readonly limit: number;
  /** Only series of these shards; null for all. */
  readonly shards: Uint32Array | null;
}

/** Tags and IDs of series as a SeriesBundle has them. */
export type SeriesTags = Pick<
  SeriesBundle,
  'seriesCount' | 'tagsData' | 'tagsOffset' | 'idScheme' | 'idData' | 'idOffset'
>;

/** Shards are below this. */
export const shardsMax: number = 65_536;

/** A tag takes at least this many bytes of the canonical layout. */
const tagBytesMin = 4;

export class NamespaceIndex {
  readonly #seed: number;
  readonly #dictionary: TermDictionary;
  readonly #series: SeriesTable;
  readonly #termPostings: PostingsStore;
  readonly #fieldPostings: PostingsStore;
  /** By identity: terms, ID scheme and explicit ID. */
  readonly #identities: OrdinalTable;
  /** By ID, only the series whose ID does not tell their tags: explicit IDs and the legacy scheme. */
  readonly #ids: OrdinalTable;
  readonly #live: LiveBlocks;
  readonly #regexps: RegexpTerms;
  readonly #evaluator: Evaluator;
  /** Terms of the series at hand. */
  readonly #terms: Uint32Array;
  /** Terms of the series before: neighbours share most of theirs at the same positions. */
  readonly #predicted: Uint32Array;
  #lastView: DataView;

  constructor(options: NamespaceIndexOptions) {
    this.#seed = options.random.u32();
    this.#dictionary = new TermDictionary(options.random.u32());
    this.#series = new SeriesTable();
    this.#termPostings = new PostingsStore();
    this.#fieldPostings = new PostingsStore();
    this.#identities = new OrdinalTable();
    this.#ids = new OrdinalTable();
    this.#live = new LiveBlocks(options.blockSizeNanos);
    this.#regexps = new RegexpTerms(this.#dictionary);
    this.#evaluator = new Evaluator(
      this.#dictionary,
      this.#series,
      this.#termPostings,
      this.#fieldPostings,
      this.#regexps,
    );
    this.#terms = new Uint32Array(Math.ceil(tagsBytesMax / tagBytesMin));
    this.#predicted = new Uint32Array(this.#terms.length);
    this.#lastView = viewOf(noBytes);
  }

  /**
   * Ordinal of the series with exactly this identity, or -1.
   * @param tags canonical layout
   * @param idScheme `idSchemeCode`
   * @param explicitId empty when the ID derives from the tags
   * @throws {TsdbError} BAD_REQUEST when the layout is cut off or too long
   */
  find(tags: Uint8Array, idScheme: number, explicitId: Uint8Array): number {
    checkLayout(tags);
    const view = this.#viewOfBuffer(tags);
    const base = tags.byteOffset;
    let termCount = 0;
    for (let at = 0; at < tags.length; ) {
      const end = pairEnd(tags, at);
      let term = this.#predicted[termCount]!;
      if (!this.#dictionary.isText(term, view, base + at, base + end)) {
        term = this.#dictionary.find(view, base + at, base + end);
        if (term < 0) return -1;
        this.#predicted[termCount] = term;
      }
      this.#terms[termCount++] = term;
      at = end;
    }
    return this.#findByTerms(termCount, idScheme, explicitId);
  }

  /** View of the whole buffer in which the tags lie: the entries of one batch share it. */
  #viewOfBuffer(tags: Uint8Array): DataView {
    if (this.#lastView.buffer !== tags.buffer) this.#lastView = new DataView(tags.buffer);
    return this.#lastView;
  }

  #findByTerms(termCount: number, idScheme: number, explicitId: Uint8Array): number {
    const table = this.#identities;
    const hash = this.#identityHash(this.#terms, 0, termCount, idScheme, explicitId);
    for (let ordinal = table.first(hash); ordinal >= 0; ordinal = table.next()) {
      if (this.#isIdentity(ordinal, termCount, idScheme, explicitId)) return ordinal;
    }
    return -1;
  }

  #identityHash(
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
      for (let i = 0; i < termCount; i++) if (page[start + i] !== this.#terms[i]) return false;
    }
    return equalBytes(series.explicitId(ordinal), explicitId);
  }

  /**
   * Ordinal of a series with this ID, or -1. When several series have one ID (an explicit ID used with
   * several tags, or a collision of the legacy scheme) it is any of them.
   */
  findById(id: Uint8Array): number {
    const table = this.#ids;
    const hash = hashBytes(id, 0, id.length, this.#seed);
    for (let ordinal = table.first(hash); ordinal >= 0; ordinal = table.next()) {
      if (equalBytes(this.id(ordinal), id)) return ordinal;
    }
    for (const { tags, idScheme } of tagsOfId(id)) {
      const ordinal = tags.length > tagsBytesMax ? -1 : this.find(tags, idScheme, noBytes);
      if (ordinal >= 0 && equalBytes(this.id(ordinal), id)) return ordinal;
    }
    return -1;
  }

  /**
   * Adds a series that `find` does not find, under an ordinal that is not in use.
   * Parameters as for `find`; all bytes are copied.
   * @throws {TsdbError} BAD_REQUEST when the layout or the ID is cut off or too long or there is no ID,
   *   RESOURCE_EXHAUSTED when the text memory is used up; nothing is inserted then
   */
  insert(
    ordinal: number,
    tags: Uint8Array,
    idScheme: number,
    explicitId: Uint8Array,
    shard: number,
  ): void {
    checkLayout(tags);
    if (explicitId.length > textBytesMax) {
      throw badRequest(`cannot index series: ID is longer than ${textBytesMax} bytes`);
    }
    assert(!this.#series.has(ordinal), 'an inserted ordinal is not in use');
    assert(shard < shardsMax, 'shard numbers are below 65536');
    const isParsed = isFoundByParsing(tags, idScheme, explicitId);
    const idHash = isParsed ? 0 : this.#idHash(tags, idScheme, explicitId);
    const termCount = this.#internTerms(tags);
    for (let i = 0; i < termCount; i++) {
      const term = this.#terms[i]!;
      this.#termPostings.add(term, ordinal);
      this.#fieldPostings.add(this.#dictionary.fieldOfTerm(term), ordinal);
    }
    this.#series.insert(ordinal, this.#terms, termCount, idScheme, explicitId, shard);
    const hash = this.#identityHash(this.#terms, 0, termCount, idScheme, explicitId);
    this.#identities.add(hash, ordinal);
    if (!isParsed) this.#ids.add(idHash, ordinal);
  }

  #internTerms(tags: Uint8Array): number {
    const view = this.#viewOfBuffer(tags);
    const base = tags.byteOffset;
    let termCount = 0;
    try {
      for (let at = 0; at < tags.length; ) {
        const end = pairEnd(tags, at);
        let term = this.#predicted[termCount]!;
        if (!this.#dictionary.isText(term, view, base + at, base + end)) {
          term = this.#dictionary.intern(view, base + at, base + end);
          this.#predicted[termCount] = term;
        }
        this.#terms[termCount++] = term;
        at = end;
      }
    } catch (error) {
      for (let i = 0; i < termCount; i++) {
        const term = this.#terms[i]!;
        if (this.#termPostings.count(term) === 0) this.#dictionary.remove(term);
      }
      throw error;
    }
    return termCount;
  }

  #idHash(tags: Uint8Array, idScheme: number, explicitId: Uint8Array): number {
    const id = explicitId.length > 0 ? explicitId : idBytesOf(tags, idScheme);
    return hashBytes(id, 0, id.length, this.#seed);
  }

  /** Removes series, each given once; terms and names without series vanish. */
  remove(ordinals: Uint32Array): void {
    if (ordinals.length === 0) return;
    const removed = new Uint32Array(wordsFor(this.#series.ordinalsEnd));
    const terms = new Set<number>();
    for (const ordinal of ordinals) {
      assert(this.#series.has(ordinal), 'a removed series is in the index');
      removed[ordinal >>> 5]! |= 1 << (ordinal & 31);
      this.#removeIdentity(ordinal, terms);
    }
    for (const ordinal of ordinals) this.#series.remove(ordinal);
    this.#live.remove(ordinals);
    const fields = new Set<number>();
    for (const term of terms) fields.add(this.#dictionary.fieldOfTerm(term));
    for (const field of fields) this.#fieldPostings.removeAll(field, removed, ordinals);
    for (const term of terms) {
      this.#termPostings.removeAll(term, removed, ordinals);
      if (this.#termPostings.count(term) === 0) this.#dictionary.remove(term);
    }
    this.#dictionary.compactWhenWasteful();
  }

  /** Takes the series out of the tables and notes its terms. */
  #removeIdentity(ordinal: number, terms: Set<number>): void {
    const series = this.#series;
    const termCount = series.termCount(ordinal);
    const page = termCount === 0 ? this.#terms : series.termsPage(ordinal);
    const start = termCount === 0 ? 0 : series.termsStart(ordinal);
    for (let i = start; i < start + termCount; i++) terms.add(page[i]!);
    const idScheme = series.idScheme(ordinal);
    const explicitId = series.explicitId(ordinal);
    const hash = this.#identityHash(page, start, termCount, idScheme, explicitId);
    this.#identities.remove(hash, ordinal);
    const tags = this.tags(ordinal);
    if (!isFoundByParsing(tags, idScheme, explicitId)) {
      this.#ids.remove(this.#idHash(tags, idScheme, explicitId), ordinal);
    }
  }

  /** Makes series visible for ranges that overlap the index block. */
  markLive(ordinals: ArrayLike<number>, blockStartNanos: UnixNanos): void {
    this.#live.mark(ordinals, ordinals.length, blockStartNanos);
  }

  markLiveOne(ordinal: number, blockStartNanos: UnixNanos): void {
    this.#live.markOne(ordinal, blockStartNanos);
  }

  isLive(ordinal: number, blockStartNanos: UnixNanos): boolean {
    return this.#live.isLive(ordinal, blockStartNanos);
  }

  /** Forgets the index blocks that end at or before this time. Their series stay until `remove`. */
  expireBlocks(beforeNanos: UnixNanos): void {
    this.#live.expire(beforeNanos);
  }

  /** Series that are live in no block: those that a tick may remove. */
  ordinalsWithoutBlock(): Uint32Array {
    const words = new Uint32Array(this.#series.present.length);
    this.#live.orAllInto(words);
    const { present } = this.#series;
    for (let i = 0; i < words.length; i++) words[i] = present[i]! & ~words[i]!;
    return enumerateBits(words, countOf({ values: null, words }));
  }

  /**
   * Series that match and are live in a block that overlaps the range, ascending.
   * @throws {TsdbError} BAD_REQUEST for a bad regexp
   */
  query(
    query: IndexQuery,
    range: IndexRange,
    options: QueryOptions,
  ): { ordinals: Uint32Array; exhaustive: boolean } {
    const set = this.#visible(query, range, options.shards);
    const { limit } = options;
    const count = countOf(set);
    const kept = limit > 0 && count > limit ? limit : count;
    const ordinals =
      set.words === null ? set.values.slice(0, kept) : enumerateBits(set.words, kept);
    return { ordinals, exhaustive: kept === count };
  }

  /** Borrowed until the next query or change. */
  #visible(query: IndexQuery, range: IndexRange, shards: Uint32Array | null): OrdinalSet {
    const matching = this.#evaluator.evaluate(query);
    const live = this.#live.overlapping(range.startNanos, range.endNanos);
    const isOfShard = shards === null ? null : shardMask(shards);
    if (matching.words === null) {
      return { values: this.#filterValues(matching.values, live, isOfShard), words: null };
    }
    const words = this.#evaluator.takeScratch();
    for (const bits of live) {
      const length = Math.min(bits.length, words.length);
      for (let i = 0; i < length; i++) words[i]! |= bits[i]!;
    }
    for (let i = 0; i < words.length; i++) {
      words[i] = i < matching.words.length ? words[i]! & matching.words[i]! : 0;
    }
    if (isOfShard === null) return { values: null, words };
    const values = enumerateBits(words, countOf({ values: null, words }));
    return { values: this.#filterValues(values, null, isOfShard), words: null };
  }

  #filterValues(
    values: Uint32Array,
    live: readonly Uint32Array[] | null,
    isOfShard: Uint8Array | null,
  ): Uint32Array {
    const kept = new Uint32Array(values.length);
    let count = 0;
    for (let i = 0; i < values.length; i++) {
      const ordinal = values[i]!;
      if (live !== null && !isInSome(live, ordinal)) continue;
      if (isOfShard !== null && isOfShard[this.#series.shard(ordinal)] !== 1) continue;
      kept[count++] = ordinal;
    }
    return kept.subarray(0, count);
  }

  /**
   * Tag names, and values unless `namesOnly`, of the series that `query` would give, sorted by bytes.
   * @throws {TsdbError} BAD_REQUEST for a bad regexp
   */
  aggregate(
    query: IndexQuery,
    range: IndexRange,
    options: AggregateOptions,
  ): { tags: TagAggregate[]; exhaustive: boolean } {
    const set = this.#visible(query, range, options.shards);
    return aggregateTags(
      set,
      {
        dictionary: this.#dictionary,
        series: this.#series,
        termPostings: this.#termPostings,
        fieldPostings: this.#fieldPostings,
      },
      options,
    );
  }

  has(ordinal: number): boolean {
    return this.#series.has(ordinal);
  }

  /** Canonical layout of the series' tags; a copy. */
  tags(ordinal: number): Uint8Array {
    const tags = new Uint8Array(this.#tagsLength(ordinal));
    this.#copyTags(ordinal, viewOf(tags), 0);
    return tags;
  }

  #tagsLength(ordinal: number): number {
    const termCount = this.#series.termCount(ordinal);
    if (termCount === 0) return 0;
    const page = this.#series.termsPage(ordinal);
    const start = this.#series.termsStart(ordinal);
    let length = 0;
    for (let i = 0; i < termCount; i++) length += this.#dictionary.textLength(page[start + i]!);
    return length;
  }

  #copyTags(ordinal: number, target: DataView, targetStart: number): void {
    const termCount = this.#series.termCount(ordinal);
    if (termCount === 0) return;
    const page = this.#series.termsPage(ordinal);
    const start = this.#series.termsStart(ordinal);
    let at = targetStart;
    for (let i = 0; i < termCount; i++) {
      at = this.#dictionary.copyText(page[start + i]!, target, at);
    }
  }

  idScheme(ordinal: number): number {
    return this.#series.idScheme(ordinal);
  }

  /** Empty when the ID derives from the tags. Borrowed; not to be changed. */
  explicitId(ordinal: number): Uint8Array {
    return this.#series.explicitId(ordinal);
  }

  shard(ordinal: number): number {
    return this.#series.shard(ordinal);
  }

  /**
   * The series' ID: the explicit one, or as its scheme derives it.
   * @throws {TsdbError} BAD_REQUEST when a derived one has tags that are not UTF-8
   */
  id(ordinal: number): Uint8Array {
    const explicitId = this.#series.explicitId(ordinal);
    if (explicitId.length > 0) return explicitId;
    return idBytesOf(this.tags(ordinal), this.#series.idScheme(ordinal));
  }

  /** Tags and IDs of many series in the form of a SeriesBundle. */
  tagsOf(ordinals: Uint32Array): SeriesTags {
    const seriesCount = ordinals.length;
    const tagsOffset = new Uint32Array(seriesCount + 1);
    const idOffset = new Uint32Array(seriesCount + 1);
    const idScheme = new Uint8Array(seriesCount);
    for (let i = 0; i < seriesCount; i++) {
      const ordinal = ordinals[i]!;
      tagsOffset[i + 1] = tagsOffset[i]! + this.#tagsLength(ordinal);
      idOffset[i + 1] = idOffset[i]! + this.#series.explicitId(ordinal).length;
      idScheme[i] = this.#series.idScheme(ordinal);
    }
    const tagsData = new Uint8Array(tagsOffset[seriesCount]!);
    const tagsView = viewOf(tagsData);
    const idData = new Uint8Array(idOffset[seriesCount]!);
    for (let i = 0; i < seriesCount; i++) {
      this.#copyTags(ordinals[i]!, tagsView, tagsOffset[i]!);
      if (idOffset[i + 1]! > idOffset[i]!) {
        idData.set(this.#series.explicitId(ordinals[i]!), idOffset[i]);
      }
    }
    return { seriesCount, tagsData, tagsOffset, idScheme, idData, idOffset };
  }

  get seriesCount(): number {
    return this.#series.count;
  }

  /** Distinct (name, value) pairs. */
  get termCount(): number {
    return this.#dictionary.termCount;
  }

  /** Starts of the index blocks that have live series, ascending. */
  get blockStarts(): UnixNanos[] {
    return this.#live.blockStarts;
  }

  /** Bytes of the tag texts, which `memoryBytes` contains. */
  get textBytes(): number {
    return this.#dictionary.textBytes;
  }

  get memoryBytes(): number {
    const tables = this.#identities.memoryBytes + this.#ids.memoryBytes;
    const postings = this.#termPostings.memoryBytes + this.#fieldPostings.memoryBytes;
    const terms = this.#dictionary.memoryBytes + this.#dictionary.textBytes;
    const queries = this.#regexps.memoryBytes + this.#evaluator.memoryBytes;
    const series = this.#series.memoryBytes + this.#live.memoryBytes;
    return tables + postings + terms + queries + series + 2 * this.#terms.byteLength;
  }
}

const noBytes = new Uint8Array(0);

/** Refuses a layout whose lengths do not add up, so that the walks after it need no checks. */
function checkLayout(tags: Uint8Array): void {
  if (tags.length > tagsBytesMax) {
    throw badRequest(
      `cannot index series: tags are longer than ${tagsBytesMax} bytes: ${tags.length}`,
    );
  }
  let at = 0;
  while (at < tags.length) {
    for (let part = 0; part < 2; part++) {
      if (tags.length - at < 2) throw badRequest('cannot index series: tags are cut off');
      const length = tags[at]! | (tags[at + 1]! << 8);
      if (length > tags.length - at - 2) throw badRequest('cannot index series: tags are cut off');
      at += 2 + length;
    }
  }
}

/** End of the (name, value) pair that begins at `at` in a checked layout. */
function pairEnd(tags: Uint8Array, at: number): number {
  const value = at + 2 + (tags[at]! | (tags[at + 1]! << 8));
  return value + 2 + (tags[value]! | (tags[value + 1]! << 8));
}

function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

function isInSome(bitsets: readonly Uint32Array[], ordinal: number): boolean {
  for (let i = 0; i < bitsets.length; i++) if (hasBit(bitsets[i]!, ordinal)) return true;
  return false;
}

function shardMask(shards: Uint32Array): Uint8Array {
  const mask = new Uint8Array(shardsMax);
  for (let i = 0; i < shards.length; i++) mask[shards[i]!] = 1;
  return mask;
}
