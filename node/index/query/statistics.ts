/** Cardinality: which names and values the series of an index have, and what they cost. */
import { DistinctSketch } from '#lib/hashing/distinct_sketch.ts';
import { murmur3 } from '#lib/hashing/hash.ts';
import { inOneGo } from '#lib/turns/steps.ts';
import type { Work } from '#lib/turns/turns.ts';
import { bitCount, hasBit, type PostingsStore, wordsFor } from '../tables/postings.ts';
import type { IndexTables } from '../tables/tables.ts';
import { noTerm } from '../tables/term_dictionary.ts';

export interface NamedCount {
  readonly name: string;
  readonly count: number;
}

export interface PairCount extends NamedCount {
  readonly value: string;
}

export interface IndexStatistics {
  readonly seriesCount: number;
  /** Distinct tag names. */
  readonly nameCount: number;
  /** Distinct pairs of a name and a value. */
  readonly pairCount: number;
  /**
   * Tag names by number of their values. Every list here is descending, equal ones in the order of
   * their texts.
   */
  readonly valuesByName: readonly NamedCount[];
  /** Tag names by number of series that have them. */
  readonly seriesByName: readonly NamedCount[];
  /** Pairs by number of series. */
  readonly seriesByPair: readonly PairCount[];
  /** Values of the metric name tag by number of series. */
  readonly seriesByMetric: readonly NamedCount[];
  /**
   * Tag names by bytes of the index: texts, tables, postings and the terms of the series. Of all
   * shards.
   */
  readonly bytesByName: readonly NamedCount[];
  /** When asked for, to be joined with those of other nodes. */
  readonly sketches?: StatisticsSketches;
}

/** Sketches (lib/hashing/distinct_sketch.ts) of the texts that are counted. */
export interface StatisticsSketches {
  readonly names: Uint32Array;
  readonly pairs: Uint32Array;
  /** Of the values of each name of `valuesByName`. */
  readonly values: ReadonlyMap<string, Uint32Array>;
}

export interface StatisticsOptions {
  /** Most rows of each list. */
  readonly limit: number;
  /** The tag that holds the metric name. */
  readonly metricName: string;
  /** Only series of these shards, sorted; null or left out for all. */
  readonly shards?: Uint32Array | null;
  readonly withSketches?: boolean;
}

/**
 * Bytes of a list in the columns of the postings, and of a term in the forward side of a series.
 */
const listRowBytes = 9;
const forwardTermBytes = 4;

/** Terms and names that are looked at in one step, and what that takes in units of work (lib/turns/turns.ts). */
const termsOfStep = 512;
const termUnits = 60;

/**
 * One walk over the terms; with shards, over the postings too. Numbers are exact, but that series
 * whose removal is under way may still count for their names and pairs, and those that come between two steps may not. Yields
 * units of work that were done; no term is to be removed meanwhile.
 */
export function* statisticsSteps(
  tables: IndexTables,
  options: StatisticsOptions,
): Generator<number, IndexStatistics> {
  const { dictionary, series, termPostings, fieldPostings } = tables;
  const { limit } = options;
  const members = options.shards ? membersOf(tables, options.shards) : null;
  const countOf = (postings: PostingsStore, list: number): number =>
    members === null ? postings.count(list) : countIn(postings, list, members);
  const pairs = new Largest(limit);
  const metrics = new Largest(limit);
  const bytesByName = new Largest(limit);
  const valuesByName = new Largest(limit);
  const seriesByName = new Largest(limit);
  let nameCount = 0;
  let pairCount = 0;
  let looked = 0;
  for (const [name, index] of dictionary.fieldNames()) {
    if (++looked % termsOfStep === 0) yield termsOfStep * termUnits;
    const { terms, positionsEnd } = dictionary.field(index);
    let bytes = fieldPostings.bytesOf(index) + 4 * terms.length;
    let values = 0;
    for (let i = 0; i < positionsEnd; i++) {
      if (++looked % termsOfStep === 0) yield termsOfStep * termUnits;
      const term = terms[i]!;
      if (term === noTerm) continue;
      bytes += bytesOfTerm(tables, termPostings, term);
      const count = countOf(termPostings, term);
      if (count === 0) continue;
      values += 1;
      pairs.offer(term, count);
      if (name === options.metricName) metrics.offer(term, count);
    }
    bytesByName.offer(index, bytes);
    if (values === 0) continue;
    nameCount += 1;
    pairCount += values;
    valuesByName.offer(index, values);
    seriesByName.offer(index, countOf(fieldPostings, index));
  }
  const nameOf = (term: number): string => dictionary.field(dictionary.fieldOfTerm(term)).name;
  const pairOf = ({ key, count }: Ranked): PairCount => ({
    name: nameOf(key),
    value: dictionary.value(key),
    count,
  });
  const namesOf = (largest: Largest): NamedCount[] =>
    largest
      .ranked((index) => dictionary.field(index).name)
      .map(({ key, count }) => ({ name: dictionary.field(key).name, count }));
  const topValues = namesOf(valuesByName);
  const statistics: IndexStatistics = {
    seriesCount: members === null ? series.count : bitsIn(members),
    nameCount,
    pairCount,
    valuesByName: topValues,
    seriesByName: namesOf(seriesByName),
    seriesByPair: pairs
      .ranked((term) => `${nameOf(term)}\u0000${dictionary.value(term)}`)
      .map(pairOf),
    seriesByMetric: metrics
      .ranked((term) => dictionary.value(term))
      .map(({ key, count }) => ({ name: dictionary.value(key), count })),
    bytesByName: namesOf(bytesByName),
  };
  if (options.withSketches !== true) return statistics;
  const hasSeries = (term: number): boolean => countOf(termPostings, term) > 0;
  const wanted = new Set(topValues.map(({ name }) => name));
  return { ...statistics, sketches: yield* sketchSteps(tables, hasSeries, wanted) };
}

/** Where terms are removed all the time it begins anew so often, and is made in one go then. */
const pacedRoundsMax = 4;

/** As `statisticsSteps`, in turns with others. */
export async function statisticsInTurns(
  tables: IndexTables,
  options: StatisticsOptions,
  work: Work,
): Promise<IndexStatistics> {
  const { dictionary } = tables;
  for (let round = 0; round < pacedRoundsMax; round++) {
    const { removals } = dictionary;
    const steps = statisticsSteps(tables, options);
    while (dictionary.removals === removals) {
      const step = steps.next();
      if (step.done === true) return step.value;
      if (work.spend(step.value)) await work.pause();
    }
  }
  return inOneGo(statisticsSteps(tables, options));
}

/** Bits of the slots whose shard is one of these. */
function membersOf({ series }: IndexTables, shards: Uint32Array): Uint32Array {
  const { present, slotsEnd } = series;
  const isWanted = new Uint8Array((shards.at(-1) ?? 0) + 1);
  for (const shard of shards) isWanted[shard] = 1;
  const members = new Uint32Array(wordsFor(slotsEnd));
  for (let slot = 0; slot < slotsEnd; slot++) {
    if (!hasBit(present, slot) || isWanted[series.shard(slot)] !== 1) continue;
    members[slot >>> 5]! |= 1 << (slot & 31);
  }
  return members;
}

function bitsIn(words: Uint32Array): number {
  let count = 0;
  for (let i = 0; i < words.length; i++) count += bitCount(words[i]!);
  return count;
}

/** Slots of a list that are members. */
function countIn(postings: PostingsStore, list: number, members: Uint32Array): number {
  let count = 0;
  const bits = postings.bitsOf(list);
  if (bits !== null) {
    const length = Math.min(bits.length, members.length);
    for (let i = 0; i < length; i++) count += bitCount(bits[i]! & members[i]!);
    return count;
  }
  const slots = postings.arrayOf(list)!;
  for (let i = 0; i < slots.length; i++) if (hasBit(members, slots[i]!)) count += 1;
  return count;
}

/**
 * Hashes of the texts of terms: the names are in them, so those of one name are as good as its
 * values.
 */
function* sketchSteps(
  { dictionary }: IndexTables,
  hasSeries: (term: number) => boolean,
  wanted: ReadonlySet<string>,
): Generator<number, StatisticsSketches> {
  const names = new DistinctSketch();
  const pairs = new DistinctSketch();
  const values = new Map<string, Uint32Array>();
  let looked = 0;
  let text = new Uint8Array(1024);
  for (const [name, index] of dictionary.fieldNames()) {
    if (++looked % termsOfStep === 0) yield termsOfStep * termUnits;
    const { terms, positionsEnd } = dictionary.field(index);
    const ofName = wanted.has(name) ? new DistinctSketch() : null;
    let count = 0;
    for (let i = 0; i < positionsEnd; i++) {
      if (++looked % termsOfStep === 0) yield termsOfStep * termUnits;
      const term = terms[i]!;
      if (term === noTerm || !hasSeries(term)) continue;
      const length = dictionary.textLength(term);
      if (length > text.length) text = new Uint8Array(2 * length);
      dictionary.copyTextTo(term, text, 0);
      const hash = murmur3(text.subarray(0, length));
      pairs.add(hash);
      ofName?.add(hash);
      count += 1;
    }
    if (count === 0) continue;
    names.add(murmur3(Buffer.from(name)));
    if (ofName !== null) values.set(name, ofName.kept());
  }
  return { names: names.kept(), pairs: pairs.kept(), values };
}

function bytesOfTerm(tables: IndexTables, postings: PostingsStore, term: number): number {
  const ofLists = listRowBytes + postings.bytesOf(term);
  return tables.dictionary.bytesOf(term) + ofLists + forwardTermBytes * postings.count(term);
}

function compareTexts(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

interface Ranked {
  readonly key: number;
  readonly count: number;
}

/**
 * Finds the keys with the largest counts among many. Keys are collected and cut to the best ones
 * whenever there are twice as many as may be kept, so the cost is linear; those that tie with the
 * last one wanted are decided by their texts, so they are kept too, up to `tiesMax` of them.
 */
class Largest {
  readonly #limit: number;
  #rows: Ranked[];
  /** Counts below this are not wanted any more. */
  #least: number;

  constructor(limit: number) {
    this.#limit = limit;
    this.#rows = [];
    this.#least = 1;
  }

  offer(key: number, count: number): void {
    if (count < this.#least || this.#limit === 0) return;
    this.#rows.push({ key, count });
    if (this.#rows.length >= 2 * (this.#limit + tiesMax)) this.#cut();
  }

  #cut(): void {
    this.#rows.sort((a, b) => b.count - a.count);
    const last = this.#rows[this.#limit - 1]!.count;
    let kept = this.#limit;
    const keptMax = this.#limit + tiesMax;
    while (kept < Math.min(this.#rows.length, keptMax) && this.#rows[kept]!.count === last) kept++;
    this.#rows.length = kept;
    // Of very many ties, further ones are not looked at: which of them are given is arbitrary then.
    this.#least = kept === keptMax ? last + 1 : last;
  }

  ranked(textOf: (key: number) => string): Ranked[] {
    const rows = this.#rows.map((row) => ({ ...row, text: textOf(row.key) }));
    rows.sort((a, b) => b.count - a.count || compareTexts(a.text, b.text));
    return rows.slice(0, this.#limit);
  }
}

/** Keys with one and the same count that are kept to be ordered by their texts. */
const tiesMax = 4096;
