/**
 * The inverted index of one namespace on one node: from queries to series, from identity to series,
 * and from series to tags. Series are slots given by the caller; a removed one may be given
 * again.
 */
import type { Turning } from '#engine/aside/aside.ts';
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { assert } from '#lib/assert.ts';
import type { Random } from '#lib/env/env.ts';
import { badRequest } from '#lib/errors.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import { derivedIdOf } from '#lib/series_id/from_tags.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { hasOddName, isOddName, tagsOfId } from '#lib/series_id/to_tags.ts';
import { pairEnd, tagsBytesMax } from '#lib/tags.ts';
import type { UnixNanos } from '#lib/time.ts';
import type { AggregatedTags, TagAggregate } from './query/aggregate.ts';
import { Churn, type SeriesChurn } from './churn.ts';
import type { SeriesName } from '#lib/series_id/series_name.ts';
import { inOneGo } from '#lib/turns/steps.ts';
import type { Work } from '#lib/turns/turns.ts';
import { equalBytes, IdentityTable } from './tables/identity_table.ts';
import { checkLayout, pairEndWithin, tagBytesMin } from './tables/layout.ts';
import { LiveBlocks } from './tables/live_blocks.ts';
import { IndexLoad, type PlaceSeries } from './saved/load.ts';
import { countOf } from './query/slot_set.ts';
import { enumerateBits, PostingsStore } from './tables/postings.ts';
import type { QueryAttempts } from './query/attempts.ts';
import {
  type AggregateOptions,
  IndexQueries,
  type IndexRange,
  type QueryOptions,
} from './query/queries.ts';
import { Removal, removalStepCost } from './removal.ts';
import { IndexSave, type SaveLimits, saveLimits } from './saved/save.ts';
import type { IndexSection, IndexSectionSource } from './saved/section.ts';
import { idSchemesEnd, SeriesTable, shardsMax } from './tables/series_table.ts';
import {
  type IndexStatistics,
  type StatisticsOptions,
  statisticsInTurns,
  statisticsSteps,
} from './query/statistics.ts';
import type { IndexTables } from './tables/tables.ts';
import { noTerm, TermDictionary } from './tables/term_dictionary.ts';
import { textBytesMax, viewOf } from './tables/text_arena.ts';

export interface NamespaceIndexOptions {
  readonly random: Random;
  /** Size of an index block: how long a block start counts for a series. */
  readonly blockSizeNanos: bigint;
}

/** Tags and IDs of series as a SeriesBundle has them. */
export type SeriesTags = Pick<
  SeriesBundle,
  'seriesCount' | 'tagsData' | 'tagsOffset' | 'idScheme' | 'idData' | 'idOffset'
>;

/**
 * Positions in a layout and terms at each of them that are guessed; further ones share with them.
 */
const predictedPositions = 32;
/** Words of bits, 32 series each, that are looked at in one go. */
const wordsAtOnce = 512;
const predictedTermsBits = 6;
const predictedTerms = 1 << predictedTermsBits;

/** Where a term stands in the guesses. @param lastWord the last four bytes of its text */
function guessOf(position: number, lastWord: number): number {
  const row = (position & (predictedPositions - 1)) << predictedTermsBits;
  return row | (Math.imul(lastWord, 0x9e3779b1) >>> (32 - predictedTermsBits));
}

export class NamespaceIndex {
  readonly #options: NamespaceIndexOptions;
  readonly #tables: IndexTables;
  readonly #dictionary: TermDictionary;
  readonly #series: SeriesTable;
  readonly #termPostings: PostingsStore;
  readonly #fieldPostings: PostingsStore;
  readonly #identities: IdentityTable;
  readonly #live: LiveBlocks;
  readonly #queries: IndexQueries;
  /** Terms of the series at hand. */
  readonly #terms: Uint32Array;
  /** Hashes of the texts that are no terms yet. */
  readonly #hashes: Uint32Array;
  #termCount: number;
  #unknownCount: number;
  /** The tags that these belong to. */
  #lookedUp: Uint8Array | null;
  /**
   * Terms that were found lately, by position and the end of their text: most labels have few
   * values, at the same positions in all series of a kind. What stands here is a guess; `isText`
   * tells.
   */
  readonly #predicted: Uint32Array;
  #lastView: DataView;
  readonly #churn: Churn;
  /** Those whose steps are not done. */
  readonly #removals: Set<Removal>;
  #saving: IndexSave | null;

  constructor(options: NamespaceIndexOptions) {
    this.#options = options;
    this.#dictionary = new TermDictionary(options.random.u32());
    this.#series = new SeriesTable();
    this.#termPostings = new PostingsStore();
    this.#fieldPostings = new PostingsStore();
    this.#identities = new IdentityTable(options.random, this.#dictionary, this.#series);
    this.#live = new LiveBlocks(options.blockSizeNanos);
    this.#tables = {
      dictionary: this.#dictionary,
      series: this.#series,
      termPostings: this.#termPostings,
      fieldPostings: this.#fieldPostings,
      identities: this.#identities,
      live: this.#live,
    };
    this.#churn = new Churn();
    this.#queries = new IndexQueries(this.#tables, () => this.#churn.removed);
    this.#terms = new Uint32Array(Math.ceil(tagsBytesMax / tagBytesMin));
    this.#hashes = new Uint32Array(this.#terms.length);
    this.#termCount = 0;
    this.#unknownCount = 0;
    this.#lookedUp = null;
    this.#predicted = new Uint32Array(predictedPositions * predictedTerms);
    this.#lastView = viewOf(noBytes);
    this.#removals = new Set();
    this.#saving = null;
  }

  /**
   * The index that was saved as these sections.
   * @param place gives the series other slots than they had, see `PlaceSeries`
   * @throws {IndexDamaged} when the sections are not whole, or those of an index with another block
   * size
   */
  static async load(
    source: IndexSectionSource,
    options: NamespaceIndexOptions,
    place: PlaceSeries = () => null,
  ): Promise<NamespaceIndex> {
    const index = new NamespaceIndex(options);
    await new IndexLoad(index.#tables, source, options.blockSizeNanos).run(place);
    return index;
  }

  /**
   * The index as sections for `load`: the series that are there when the first section is taken,
   * but for those that are removed before the last one is. Each step takes some milliseconds;
   * between two of them the index may be used and changed as always. One save at a time.
   */
  *save(limits: SaveLimits = saveLimits): Generator<IndexSection, void, void> {
    assert(this.#saving === null, 'an index is saved once at a time');
    const save = new IndexSave(this.#tables, this.#options.blockSizeNanos, limits);
    this.#saving = save;
    try {
      yield* save.sections();
    } finally {
      this.#saving = null;
    }
  }

  /**
   * Slot of the series with exactly this identity, or -1.
   * @param tags canonical layout
   * @param idScheme `idSchemeCode`
   * @param explicitId empty when the ID derives from the tags
   * @throws {TsdbError} BAD_REQUEST when the layout is cut off or too long
   */
  find(tags: Uint8Array, idScheme: number, explicitId: Uint8Array): number {
    this.#lookUp(tags);
    if (this.#unknownCount > 0) return -1;
    return this.#identities.find(this.#terms, this.#termCount, idScheme, explicitId);
  }

  /**
   * Finds the terms of a series, with `noTerm` and the text's hash where one is not known yet.
   * Changes nothing.
   * @throws {TsdbError} BAD_REQUEST when the layout is cut off or too long
   */
  #lookUp(tags: Uint8Array): void {
    const { length } = tags;
    if (length > tagsBytesMax) checkLayout(tags);
    const dictionary = this.#dictionary;
    const predicted = this.#predicted;
    const view = this.#viewOfBuffer(tags);
    const base = tags.byteOffset;
    let termCount = 0;
    let unknownCount = 0;
    this.#lookedUp = null;
    for (let at = 0; at < length; ) {
      const end = pairEndWithin(tags, at);
      const guess = guessOf(termCount, view.getUint32(base + end - 4, true));
      let term = predicted[guess]!;
      if (!dictionary.isText(term, view, base + at, base + end)) {
        const hash = dictionary.hash(view, base + at, base + end);
        term = dictionary.findHashed(hash, view, base + at, base + end);
        if (term >= 0) {
          predicted[guess] = term;
        } else {
          term = noTerm;
          this.#hashes[termCount] = hash;
          unknownCount++;
        }
      }
      this.#terms[termCount++] = term;
      at = end;
    }
    this.#lookedUp = tags;
    this.#termCount = termCount;
    this.#unknownCount = unknownCount;
  }

  /** View of the whole buffer in which the tags lie: the entries of one batch share it. */
  #viewOfBuffer(tags: Uint8Array): DataView {
    if (this.#lastView.buffer !== tags.buffer) this.#lastView = new DataView(tags.buffer);
    return this.#lastView;
  }

  /**
   * Slot of a series with this ID, or -1. When several series have one ID (an explicit ID used
   * with several tags, or a collision of the legacy scheme) it is any of them.
   */
  findById(id: Uint8Array): number {
    const listed = this.#identities.findById(id);
    if (listed >= 0) return listed;
    for (const { tags, idScheme } of tagsOfId(id)) {
      const slot = tags.length > tagsBytesMax ? -1 : this.find(tags, idScheme, noBytes);
      if (slot >= 0 && equalBytes(this.id(slot), id)) return slot;
    }
    return -1;
  }

  /**
   * Adds a series that `find` does not find, under a slot that is not in use.
   * Parameters as for `find`; all bytes are copied.
   * @throws {TsdbError} BAD_REQUEST when the layout or the ID is cut off or too long or there is no
   *   ID, RESOURCE_EXHAUSTED when the text memory is used up; nothing is inserted then
   */
  insert(
    slot: number,
    tags: Uint8Array,
    idScheme: number,
    explicitId: Uint8Array,
    shard: number,
  ): void {
    this.#lookUp(tags);
    this.insertFound(slot, tags, idScheme, explicitId, shard);
  }

  /**
   * `insert` of a series that `find` was asked for, with nothing changed since: when it was the
   * last one, what is known of its terms is not looked up again.
   */
  insertFound(
    slot: number,
    tags: Uint8Array,
    idScheme: number,
    explicitId: Uint8Array,
    shard: number,
  ): void {
    if (this.#lookedUp !== tags) this.#lookUp(tags);
    this.#lookedUp = null;
    if (explicitId.length > textBytesMax) {
      throw badRequest(`cannot index series: ID is longer than ${textBytesMax} bytes`);
    }
    if (idScheme >= idSchemesEnd) {
      throw badRequest(`cannot index series: ID scheme is unknown: ${idScheme}`);
    }
    assert(!this.#series.has(slot), 'an inserted slot is not in use');
    if (this.#removals.size > 0) this.#checkIsFree(slot);
    assert(shard < shardsMax, 'shard numbers are below 65536');
    // What has no ID is refused before anything is changed.
    const tellsTags = idScheme === idSchemeCode.quoted || idScheme === idSchemeCode.prepend_meta;
    if (explicitId.length === 0 && !tellsTags) derivedIdOf(tags, idScheme);
    if (idScheme === idSchemeCode.quoted && explicitId.length === 0) this.#checkOddNames(tags);
    if (this.#unknownCount > 0) this.#internTerms(tags);
    const termCount = this.#termCount;
    for (let i = 0; i < termCount; i++) {
      const term = this.#terms[i]!;
      this.#termPostings.add(term, slot);
      this.#fieldPostings.add(this.#dictionary.fieldOfTerm(term), slot);
    }
    this.#series.insert(slot, this.#terms, termCount, idScheme, explicitId, shard);
    this.#identities.add(slot);
    this.#churn.created++;
  }

  #checkIsFree(slot: number): void {
    for (const removal of this.#removals) {
      assert(!removal.holds(slot), 'a slot is given again when its removal is done');
    }
  }

  /**
   * An odd name may hold bytes that are not UTF-8, of which no ID can be made. Known names of an
   * index without odd ones are not looked at.
   */
  #checkOddNames(tags: Uint8Array): void {
    const isOdd = this.#dictionary.hasOddNames ? hasOddName(tags) : this.#hasUnknownOddName(tags);
    if (isOdd) derivedIdOf(tags, idSchemeCode.quoted);
  }

  #hasUnknownOddName(tags: Uint8Array): boolean {
    let unknownCount = this.#unknownCount;
    for (let i = 0, at = 0; unknownCount > 0; i++) {
      if (this.#terms[i] === noTerm) {
        if (isOddName(tags, at)) return true;
        unknownCount--;
      }
      at = pairEnd(tags, at);
    }
    return false;
  }

  /** Makes the terms that the look-up did not know. */
  #internTerms(tags: Uint8Array): void {
    const view = this.#viewOfBuffer(tags);
    const base = tags.byteOffset;
    let done = 0;
    try {
      for (let at = 0; done < this.#termCount; done++) {
        const end = pairEnd(tags, at);
        if (this.#terms[done] === noTerm) {
          const hash = this.#hashes[done]!;
          const term = this.#dictionary.internHashed(hash, view, base + at, base + end);
          this.#terms[done] = term;
        }
        at = end;
      }
    } catch (error) {
      for (let i = 0; i < done; i++) {
        const term = this.#terms[i]!;
        if (this.#termPostings.count(term) === 0) this.#dictionary.remove(term);
      }
      throw error;
    }
  }

  /** Removes series, each given once; terms and names without series vanish. */
  remove(slots: Uint32Array): void {
    for (const _ of this.removeInSteps(slots)) continue;
  }

  /**
   * The same in steps of about a millisecond, between which the index may be used and changed. A
   * series is gone for `find`, `has` and queries when its step came; its slot may be given again
   * when all steps are done, and so may a slot that it stands for. Steps that are given up are done
   * at once.
   * @param stepCost work of a step, in series that leave the tables
   * @param mayGo asked of each series when it is its turn to leave; those of which it is not true
   * stay
   * @returns after each step whether series are leaving still
   */
  *removeInSteps(
    slots: Uint32Array,
    stepCost: number = removalStepCost,
    mayGo: ((slot: number) => boolean) | null = null,
  ): Generator<boolean, void, void> {
    if (slots.length === 0) return;
    this.#lookedUp = null;
    const removal = new Removal(this.#tables, slots, stepCost);
    const steps = removal.steps((slot) => {
      this.#saving?.forget(slot);
      this.#churn.removed++;
    }, mayGo);
    this.#removals.add(removal);
    try {
      for (let step = steps.next(); step.done !== true; step = steps.next()) yield step.value;
    } finally {
      while (steps.next().done !== true) continue;
      this.#removals.delete(removal);
    }
  }

  /** Makes series visible for ranges that overlap the index block. */
  markLive(slots: ArrayLike<number>, blockStartNanos: UnixNanos): void {
    this.#live.mark(slots, slots.length, blockStartNanos);
  }

  markLiveOne(slot: number, blockStartNanos: UnixNanos): void {
    this.#live.markOne(slot, blockStartNanos);
  }

  /**
   * Takes series out of an index block that has nothing of them any more. They stay until `remove`.
   */
  unmarkLive(slots: ArrayLike<number>, blockStartNanos: UnixNanos): void {
    this.#live.unmark(slots, blockStartNanos);
  }

  /**
   * Takes series out of a block, some of them at a time.
   * @param from where it goes on, 0 at first
   * @param isToGo asked of each series that is live there
   * @returns where to go on; -1 at the end, when a block in which nothing is live any more is forgotten
   */
  unmarkSome(blockStartNanos: UnixNanos, from: number, isToGo: (slot: number) => boolean): number {
    const words = this.#live.bitsOf(blockStartNanos);
    if (words === null) return -1;
    const end = Math.min(from + wordsAtOnce, words.length);
    for (let i = from; i < end; i++) {
      for (let left = words[i]!; left !== 0; left &= left - 1) {
        const bit = left & -left;
        if (isToGo(32 * i + 31 - Math.clz32(bit))) words[i]! &= ~bit;
      }
    }
    if (end < words.length) return end;
    this.#live.dropIfEmpty(blockStartNanos);
    return -1;
  }

  /** Tells a block from what it was before something became live in it; null when nothing is. */
  marksOf(blockStartNanos: UnixNanos): number | null {
    return this.#live.marksOf(blockStartNanos);
  }

  /** Hash of a name, which nobody who chooses names can foresee. */
  hashOfName({ tags, idScheme, explicitId }: SeriesName): number {
    return this.#identities.hashOfName(tags, idScheme, explicitId);
  }

  /** As the function of that name, of a series that is here. */
  tellsItsTags(slot: number): boolean {
    return this.#identities.tellsItsTags(slot);
  }

  isLive(slot: number, blockStartNanos: UnixNanos): boolean {
    return this.#live.isLive(slot, blockStartNanos);
  }

  /** Whether the series is live in any block. */
  isLiveSomewhere(slot: number): boolean {
    return this.#live.isLiveSomewhere(slot);
  }

  /** Forgets the index blocks that end at or before this time. Their series stay until `remove`. */
  expireBlocks(beforeNanos: UnixNanos): void {
    this.#live.expire(beforeNanos);
  }

  /** Series that are live in no block: those that a tick may remove. */
  slotsWithoutBlock(): Uint32Array {
    const words = new Uint32Array(this.#series.present.length);
    this.#live.orAllInto(words);
    const { present } = this.#series;
    for (let i = 0; i < words.length; i++) words[i] = present[i]! & ~words[i]!;
    return enumerateBits(words, countOf({ values: null, words }));
  }

  /**
   * Series that match and are live in a block that overlaps the range, ascending.
   * @param attempts null: in one go, however long it takes
   * @throws {TsdbError} BAD_REQUEST for a bad regexp; what `inTurns` catches
   */
  query(
    query: IndexQuery,
    range: IndexRange,
    options: QueryOptions,
    attempts: QueryAttempts | null = null,
  ): { slots: Uint32Array; exhaustive: boolean } {
    return this.#queries.query(query, range, options, attempts);
  }

  /**
   * Makes an attempt that queries, in turns with others. What it does with the slots that it finds it does at
   * once: they may be others' after a wait.
   * @throws {TsdbError} as `query`; the reason of the work's signal
   */
  inTurns<Answer>(turning: Turning, attempt: (attempts: QueryAttempts) => Answer): Promise<Answer> {
    return this.#queries.inTurns(turning, attempt);
  }

  /**
   * Tag names, and values unless `namesOnly`, of the series that `query` would give, sorted by
   * bytes.
   * @throws {TsdbError} BAD_REQUEST for a bad regexp
   */
  aggregate(
    query: IndexQuery,
    range: IndexRange,
    options: AggregateOptions,
  ): { tags: TagAggregate[]; exhaustive: boolean } {
    return this.#queries.aggregate(query, range, options);
  }

  /** As `aggregate`, in turns with others. @throws {TsdbError} as `inTurns` */
  aggregateInTurns(
    query: IndexQuery,
    range: IndexRange,
    options: AggregateOptions,
    turning: Turning,
  ): Promise<AggregatedTags> {
    return this.#queries.aggregateInTurns(query, range, options, turning);
  }

  has(slot: number): boolean {
    return this.#series.has(slot);
  }

  /** Canonical layout of the series' tags; a copy. */
  tags(slot: number): Uint8Array {
    return this.#identities.tagsOf(slot);
  }

  /** Bytes of the series' canonical layout. */
  tagsLength(slot: number): number {
    return this.#identities.tagsLength(slot);
  }

  /** Writes the series' canonical layout to the position. */
  copyTags(slot: number, target: DataView, at: number): void {
    this.#identities.copyTags(slot, target, at);
  }

  idScheme(slot: number): number {
    return this.#series.idScheme(slot);
  }

  /** Empty when the ID derives from the tags. Borrowed; not to be changed. */
  explicitId(slot: number): Uint8Array {
    return this.#series.explicitId(slot);
  }

  shard(slot: number): number {
    return this.#series.shard(slot);
  }

  /**
   * The series' ID: the explicit one, or as its scheme derives it.
   * @throws {TsdbError} BAD_REQUEST when a derived one has tags that are not UTF-8
   */
  id(slot: number): Uint8Array {
    return this.#identities.idOf(slot);
  }

  /** Tags and IDs of many series in the form of a SeriesBundle. */
  tagsOf(slots: Uint32Array): SeriesTags {
    const seriesCount = slots.length;
    const tagsOffset = new Uint32Array(seriesCount + 1);
    const idOffset = new Uint32Array(seriesCount + 1);
    const idScheme = new Uint8Array(seriesCount);
    for (let i = 0; i < seriesCount; i++) {
      const slot = slots[i]!;
      tagsOffset[i + 1] = tagsOffset[i]! + this.#identities.tagsLength(slot);
      idOffset[i + 1] = idOffset[i]! + this.#series.explicitId(slot).length;
      idScheme[i] = this.#series.idScheme(slot);
    }
    const tagsData = new Uint8Array(tagsOffset[seriesCount]!);
    const tagsView = viewOf(tagsData);
    const idData = new Uint8Array(idOffset[seriesCount]!);
    for (let i = 0; i < seriesCount; i++) {
      this.#identities.copyTags(slots[i]!, tagsView, tagsOffset[i]!);
      if (idOffset[i + 1]! > idOffset[i]!) {
        idData.set(this.#series.explicitId(slots[i]!), idOffset[i]);
      }
    }
    return { seriesCount, tagsData, tagsOffset, idScheme, idData, idOffset };
  }

  /** Cardinality of names, values and pairs; cost is linear in the number of terms. */
  statistics(options: StatisticsOptions): IndexStatistics {
    return inOneGo(statisticsSteps(this.#tables, options));
  }

  /** As `statistics`, in turns with others. */
  statisticsInTurns(options: StatisticsOptions, work: Work): Promise<IndexStatistics> {
    return statisticsInTurns(this.#tables, options, work);
  }

  /** Series created and removed. @param nowMillis of a clock that never runs backwards */
  churn(nowMillis: number): SeriesChurn {
    return this.#churn.at(nowMillis);
  }

  /** To be called now and then, so that `churn` knows the last hour. */
  recordChurn(nowMillis: number): void {
    this.#churn.record(nowMillis);
  }

  get seriesCount(): number {
    return this.#series.count;
  }

  /** All slots are below this. */
  get slotsEnd(): number {
    return this.#series.slotsEnd;
  }

  /** Bits of the slots that are in use. Borrowed until the next change. */
  get present(): Uint32Array {
    return this.#series.present;
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
    const tables = this.#identities.memoryBytes;
    const postings = this.#termPostings.memoryBytes + this.#fieldPostings.memoryBytes;
    const terms = this.#dictionary.memoryBytes + this.#dictionary.textBytes;
    const series = this.#series.memoryBytes + this.#live.memoryBytes;
    return (
      tables + postings + terms + this.#queries.memoryBytes + series + 3 * this.#terms.byteLength
    );
  }
}

const noBytes = new Uint8Array(0);
