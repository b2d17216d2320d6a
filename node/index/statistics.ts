/** Cardinality: which names and values the series of an index have, and what they cost. */
import type { PostingsStore } from './postings.ts';
import type { IndexTables } from './tables.ts';
import { noTerm } from './term_dictionary.ts';

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
  /** Tag names by number of their values. Every list here is descending, equal ones in the order of their texts. */
  readonly valuesByName: readonly NamedCount[];
  /** Tag names by number of series that have them. */
  readonly seriesByName: readonly NamedCount[];
  /** Pairs by number of series. */
  readonly seriesByPair: readonly PairCount[];
  /** Values of the metric name tag by number of series. */
  readonly seriesByMetric: readonly NamedCount[];
  /** Tag names by bytes of the index: texts, tables, postings and the terms of the series. */
  readonly bytesByName: readonly NamedCount[];
}

export interface StatisticsOptions {
  /** Most rows of each list. */
  readonly limit: number;
  /** The tag that holds the metric name. */
  readonly metricName: string;
}

/** Bytes of a list in the columns of the postings, and of a term in the forward side of a series. */
const listRowBytes = 9;
const forwardTermBytes = 4;

/**
 * One walk over the terms. Numbers are exact, but that series whose removal is under way may still count
 * for their names and pairs.
 */
export function statisticsOf(tables: IndexTables, options: StatisticsOptions): IndexStatistics {
  const { dictionary, series, termPostings, fieldPostings } = tables;
  const { limit } = options;
  const names = [...dictionary.fieldNames()];
  const pairs = new Largest(limit);
  const metrics = new Largest(limit);
  const bytesByName: NamedCount[] = [];
  for (const [name, index] of names) {
    const { terms, positionsEnd } = dictionary.field(index);
    let bytes = fieldPostings.bytesOf(index) + 4 * terms.length;
    for (let i = 0; i < positionsEnd; i++) {
      const term = terms[i]!;
      if (term === noTerm) continue;
      pairs.offer(term, termPostings.count(term));
      if (name === options.metricName) metrics.offer(term, termPostings.count(term));
      bytes += bytesOfTerm(tables, termPostings, term);
    }
    bytesByName.push({ name, count: bytes });
  }
  const nameOf = (term: number) => dictionary.field(dictionary.fieldOfTerm(term)).name;
  const pairOf = ({ key, count }: Ranked): PairCount => ({
    name: nameOf(key),
    value: dictionary.value(key),
    count,
  });
  return {
    seriesCount: series.count,
    nameCount: names.length,
    pairCount: dictionary.termCount,
    valuesByName: topNames(
      names.map(([name, index]) => ({ name, count: dictionary.field(index).termCount })),
      limit,
    ),
    seriesByName: topNames(
      names.map(([name, index]) => ({ name, count: fieldPostings.count(index) })),
      limit,
    ),
    seriesByPair: pairs
      .ranked((term) => `${nameOf(term)}\u0000${dictionary.value(term)}`)
      .map(pairOf),
    seriesByMetric: metrics
      .ranked((term) => dictionary.value(term))
      .map(({ key, count }) => ({ name: dictionary.value(key), count })),
    bytesByName: topNames(bytesByName, limit),
  };
}

function bytesOfTerm(tables: IndexTables, postings: PostingsStore, term: number): number {
  const ofLists = listRowBytes + postings.bytesOf(term);
  return tables.dictionary.bytesOf(term) + ofLists + forwardTermBytes * postings.count(term);
}

function topNames(rows: NamedCount[], limit: number): NamedCount[] {
  return rows.sort((a, b) => b.count - a.count || compareTexts(a.name, b.name)).slice(0, limit);
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
 * Finds the keys with the largest counts among many. Keys are collected and cut to the best ones whenever there
 * are twice as many as may be kept, so the cost is linear; those that tie with the last one wanted are decided by
 * their texts, so they are kept too, up to `tiesMax` of them.
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
