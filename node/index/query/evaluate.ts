/**
 * Evaluates an index query to the set of its series.
 *
 * A conjunction begins with its smallest part and narrows from there; negations are subtracted. A
 * regexp in a conjunction has two ways: the union of the postings of all matching terms, or, when
 * few candidates are left, a look at each candidate's own term. The second one also spares a walk
 * over a large dictionary.
 */
import { checkQuerySize, type IndexQuery } from '#lib/index_query.ts';
import type { AnchoredRegexp } from '#lib/regexp/regexp.ts';
import {
  countOf,
  emptySet,
  intersect,
  orInto,
  type SlotSet,
  ScratchBits,
  subtract,
} from './slot_set.ts';
import { enumerateBits, type PostingsStore, wordsFor } from '../tables/postings.ts';
import { NeedsTests, QueryAttempts } from './attempts.ts';
import type { RegexpTerms } from './regexp_terms.ts';
import type { SeriesTable } from '../tables/series_table.ts';
import type { TermDictionary } from '../tables/term_dictionary.ts';

type RegexpQuery = Extract<IndexQuery, { kind: 'regexp' }>;
type PartsQuery = Extract<IndexQuery, { kind: 'conjunction' | 'disjunction' }>;

/** What testing a candidate costs, in slots of a union. */
const candidateCost = 16;
/** Unions of fewer slots than this are sorted instead of put into bits. */
const sortedUnionMax = 256;
/** Terms of a union between two looks at the clock. */
const termsBetweenLooks = 4_096;

export class Evaluator {
  readonly #dictionary: TermDictionary;
  readonly #series: SeriesTable;
  readonly #termPostings: PostingsStore;
  readonly #fieldPostings: PostingsStore;
  readonly #regexps: RegexpTerms;
  readonly #scratch: ScratchBits;
  /** Of the query at hand. */
  #attempts: QueryAttempts = new QueryAttempts(null);

  constructor(
    dictionary: TermDictionary,
    series: SeriesTable,
    termPostings: PostingsStore,
    fieldPostings: PostingsStore,
    regexps: RegexpTerms,
  ) {
    this.#dictionary = dictionary;
    this.#series = series;
    this.#termPostings = termPostings;
    this.#fieldPostings = fieldPostings;
    this.#regexps = regexps;
    this.#scratch = new ScratchBits();
  }

  /**
   * Series that match; borrowed until the next call or change of the index.
   * @throws {TsdbError} BAD_REQUEST for a bad regexp, also when its result would not matter
   * @param revision another one when slots may be others' than before
   * @throws {NeedsRegexps} {NeedsTests} {NeedsTurn} when the attempt may not do all
   */
  evaluate(query: IndexQuery, attempts: QueryAttempts, revision: number): SlotSet {
    this.#attempts = attempts;
    attempts.beginNext();
    if (!attempts.isPrepared) {
      checkQuerySize(query);
      this.#compileAll(query);
      attempts.regexps.checkFound();
      attempts.isPrepared = true;
    }
    attempts.beginEvaluation(revision);
    this.#scratch.begin(wordsFor(this.#series.slotsEnd));
    const found = this.#evaluate(query);
    const { presentThen } = attempts;
    return presentThen === null ? found : intersect(found, presentThen, this.#scratch);
  }

  /** All zero, long enough for every slot, until the next `evaluate`. */
  takeScratch(): Uint32Array {
    return this.#scratch.take();
  }

  get memoryBytes(): number {
    return this.#scratch.memoryBytes;
  }

  #compileAll(query: IndexQuery): void {
    if (query.kind === 'regexp') this.#attempts.regexps.find(query.regexp);
    else if (query.kind === 'negation') this.#compileAll(query.query);
    else if (query.kind === 'conjunction' || query.kind === 'disjunction') {
      for (const part of query.queries) this.#compileAll(part);
    }
  }

  #evaluate(query: IndexQuery): SlotSet {
    switch (query.kind) {
      case 'all':
        return { values: null, words: this.#series.present };
      case 'term':
        return this.#listSet(
          this.#termPostings,
          this.#dictionary.findTerm(query.field, query.term),
        );
      case 'field':
        return this.#listSet(this.#fieldPostings, this.#dictionary.fieldIndex(query.field));
      case 'regexp':
        return this.#evaluateRegexp(query);
      case 'conjunction':
        return this.#evaluateConjunction(query);
      case 'disjunction':
        return this.#evaluateDisjunction(query);
      case 'negation':
        return subtract(
          { values: null, words: this.#series.present },
          this.#evaluate(query.query),
          this.#scratch,
        );
      default:
        return query satisfies never;
    }
  }

  #listSet(store: PostingsStore, list: number): SlotSet {
    if (list < 0) return emptySet;
    const words = store.bitsOf(list);
    return words !== null ? { values: null, words } : { values: store.arrayOf(list)!, words: null };
  }

  #evaluateRegexp(query: RegexpQuery): SlotSet {
    const fieldIndex = this.#dictionary.fieldIndex(query.field);
    if (fieldIndex < 0) return emptySet;
    const regexp = this.#attempts.regexps.compile(query.regexp);
    if (this.#matchesEveryValue(query.field, regexp)) {
      return this.#listSet(this.#fieldPostings, fieldIndex);
    }
    const terms = this.#regexps.matching(fieldIndex, regexp, this.#attempts);
    if (terms.length === this.#dictionary.field(fieldIndex).termCount) {
      return this.#listSet(this.#fieldPostings, fieldIndex);
    }
    return this.#unionOfTerms(query, terms);
  }

  #matchesEveryValue(field: string, regexp: AnchoredRegexp): boolean {
    if (regexp.matches === 'everything') return true;
    return regexp.matches === 'notEmpty' && this.#dictionary.findTerm(field, '') < 0;
  }

  #unionOfTerms(query: RegexpQuery, terms: Uint32Array): SlotSet {
    if (terms.length === 0) return emptySet;
    if (terms.length === 1) return this.#listSet(this.#termPostings, terms[0]!);
    const total = this.#postingsOfTerms(terms);
    if (total <= sortedUnionMax) {
      // Terms of one field are disjoint, so their series need no joining.
      const values = new Uint32Array(total);
      let count = 0;
      for (const term of terms) {
        const some = this.#termPostings.toArray(term);
        values.set(some, count);
        count += some.length;
      }
      return { values: values.sort(), words: null };
    }
    const begun = this.#attempts.begunOf(query);
    const words = this.#scratch.take();
    if (begun?.set) orInto(begun.set, words);
    const { removals } = this.#dictionary;
    // Terms keep their order. Those that went move the others up, and those that came are of later series.
    let next = begun === null ? 0 : Math.max(0, begun.next - (removals - begun.removals));
    try {
      while (next < terms.length) {
        const end = Math.min(terms.length, next + termsBetweenLooks);
        for (; next < end; next++) this.#termPostings.orInto(terms[next]!, words);
        if (next < terms.length) this.#attempts.checkTurn();
      }
    } catch (error) {
      const set: SlotSet = { values: null, words };
      const more = { parts: [], next, set, removals };
      this.#attempts.noteBegun(query, more, this.#series.present);
      throw error;
    }
    return { values: null, words };
  }

  #postingsOfTerms(terms: Uint32Array): number {
    let total = 0;
    for (let i = 0; i < terms.length; i++) total += this.#termPostings.count(terms[i]!);
    return total;
  }

  #evaluateDisjunction(query: PartsQuery): SlotSet {
    const parts = query.queries;
    if (parts.length === 0) return emptySet;
    if (parts.length === 1) return this.#evaluate(parts[0]!);
    const begun = this.#attempts.begunOf(query);
    const words = this.#scratch.take();
    if (begun?.set) orInto(begun.set, words);
    const mark = this.#scratch.mark;
    let next = begun?.next ?? 0;
    try {
      while (next < parts.length) {
        orInto(this.#evaluate(parts[next]!), words);
        this.#scratch.release(mark, emptySet);
        next++;
        if (next < parts.length) this.#attempts.checkTurn();
      }
    } catch (error) {
      const set: SlotSet = { values: null, words };
      const { removals } = this.#dictionary;
      this.#attempts.noteBegun(query, { parts, next, set, removals }, this.#series.present);
      throw error;
    }
    return { values: null, words };
  }

  #evaluateConjunction(query: PartsQuery): SlotSet {
    if (query.queries.length === 0) return emptySet;
    const begun = this.#attempts.begunOf(query);
    const parts = begun?.parts ?? this.#inOrder(query.queries);
    const mark = this.#scratch.mark;
    let set = begun?.set ?? null;
    let next = begun?.next ?? 0;
    try {
      while (next < parts.length) {
        if (set !== null && isEmpty(set)) return emptySet;
        set = this.#narrow(set, parts[next]!);
        this.#scratch.release(mark, set);
        next++;
        if (next < parts.length) this.#attempts.checkTurn();
      }
    } catch (error) {
      const { removals } = this.#dictionary;
      this.#attempts.noteBegun(query, { parts, next, set, removals }, this.#series.present);
      throw error;
    }
    return set!;
  }

  /** Parts that only take away come after those that give, and regexps after what is known at once. */
  #inOrder(queries: readonly IndexQuery[]): IndexQuery[] {
    const parts = queries.map((query) => ({ query, estimate: this.#estimate(query) }));
    parts.sort((a, b) => rank(a.query) - rank(b.query) || a.estimate - b.estimate);
    return parts.map(({ query }) => query);
  }

  /** The series of `set` (null: of all) that match the query. */
  #narrow(set: SlotSet | null, query: IndexQuery): SlotSet {
    const isNegated = query.kind === 'negation';
    const inner = isNegated ? query.query : query;
    if (set !== null && inner.kind === 'regexp') {
      const filtered = this.#filterByRegexp(set, inner, !isNegated);
      if (filtered !== null) return filtered;
    }
    if (set === null) return this.#evaluate(query);
    const other = this.#evaluate(inner);
    return isNegated ? subtract(set, other, this.#scratch) : intersect(set, other, this.#scratch);
  }

  /** Filters candidates by their own terms; null when the union of postings is cheaper. */
  #filterByRegexp(set: SlotSet, query: RegexpQuery, wanted: boolean): SlotSet | null {
    const fieldIndex = this.#dictionary.fieldIndex(query.field);
    if (fieldIndex < 0) return null;
    const regexp = this.#attempts.regexps.compile(query.regexp);
    if (this.#matchesEveryValue(query.field, regexp)) return null;
    const known = this.#regexps.isKnown(fieldIndex, regexp, this.#attempts)
      ? this.#regexps.matching(fieldIndex, regexp, this.#attempts)
      : null;
    // One list has them: that of the name.
    if (known?.length === this.#dictionary.field(fieldIndex).termCount) return null;
    const cost =
      known === null ? this.#dictionary.field(fieldIndex).termCount : this.#postingsOfTerms(known);
    if (set.words !== null && wordsFor(this.#series.slotsEnd) > cost) return null;
    const count = countOf(set);
    if (count * candidateCost > cost) return null;
    const candidates = set.words === null ? set.values : enumerateBits(set.words, count);
    return {
      values: this.#filterCandidates(candidates, fieldIndex, regexp, known, wanted),
      words: null,
    };
  }

  #filterCandidates(
    candidates: Uint32Array,
    fieldIndex: number,
    regexp: AnchoredRegexp,
    known: Uint32Array | null,
    wanted: boolean,
  ): Uint32Array {
    const dictionary = this.#dictionary;
    const test = (bytes: Uint8Array, start: number, end: number) =>
      regexp.testBytes(bytes, start, end);
    const outcomes = new Map<number, boolean>();
    const matched = known === null ? null : new Set(known);
    const matchesTerm = (term: number): boolean => {
      if (matched !== null) return matched.has(term);
      if (!this.#attempts.takesTest(regexp, dictionary.valueLength(term))) {
        throw new NeedsTests(dictionary.field(fieldIndex).name, regexp);
      }
      return dictionary.testValue(term, test);
    };
    const kept = new Uint32Array(candidates.length);
    let count = 0;
    for (let i = 0; i < candidates.length; i++) {
      const term = this.#termOfField(candidates[i]!, fieldIndex);
      let matches = false;
      if (term >= 0) {
        const outcome = outcomes.get(term);
        matches = outcome ?? matchesTerm(term);
        if (outcome === undefined) outcomes.set(term, matches);
      }
      if (matches === wanted) kept[count++] = candidates[i]!;
    }
    return kept.subarray(0, count);
  }

  #termOfField(slot: number, fieldIndex: number): number {
    const termCount = this.#series.termCount(slot);
    if (termCount === 0) return -1;
    const page = this.#series.termsPage(slot);
    const start = this.#series.termsStart(slot);
    for (let i = start; i < start + termCount; i++) {
      if (this.#dictionary.fieldOfTerm(page[i]!) === fieldIndex) return page[i]!;
    }
    return -1;
  }

  /** About how many series match; cheap, never tests a dictionary. */
  #estimate(query: IndexQuery): number {
    switch (query.kind) {
      case 'term': {
        const term = this.#dictionary.findTerm(query.field, query.term);
        return term < 0 ? 0 : this.#termPostings.count(term);
      }
      case 'field':
      case 'regexp': {
        const field = this.#dictionary.fieldIndex(query.field);
        return field < 0 ? 0 : this.#fieldPostings.count(field);
      }
      case 'conjunction':
        return query.queries.reduce(
          (least, part) => Math.min(least, this.#estimate(part)),
          query.queries.length === 0 ? 0 : this.#series.count,
        );
      case 'disjunction':
        return query.queries.reduce((sum, part) => sum + this.#estimate(part), 0);
      case 'all':
      case 'negation':
        return this.#series.count;
      default:
        return query satisfies never;
    }
  }
}

function rank(query: IndexQuery): number {
  if (query.kind === 'negation') return query.query.kind === 'regexp' ? 3 : 2;
  return query.kind === 'regexp' ? 1 : 0;
}

function isEmpty(set: SlotSet): boolean {
  return set.words === null && set.values.length === 0;
}
