/** Tag names and values of a set of series. */
import { countOf, orInto, type SlotSet } from './slot_set.ts';
import { enumerateBits, hasBit, type PostingsStore, wordsFor } from '../tables/postings.ts';
import type { SeriesTable } from '../tables/series_table.ts';
import { noTerm, type TermDictionary } from '../tables/term_dictionary.ts';

export interface TagAggregate {
  readonly name: string;
  /** Sorted by bytes; empty when only names are wanted. */
  readonly values: readonly string[];
}

interface Tables {
  readonly dictionary: TermDictionary;
  readonly series: SeriesTable;
  readonly termPostings: PostingsStore;
  readonly fieldPostings: PostingsStore;
}

interface Wanted {
  readonly tagNames: readonly string[];
  readonly namesOnly: boolean;
  readonly limit: number;
}

/** About how many tags a series has, to weigh a walk over series against one over terms. */
const tagsPerSeries = 10;

export interface AggregatedTags {
  readonly tags: TagAggregate[];
  readonly exhaustive: boolean;
}

/** Terms that are looked at in one step, and what that takes in units of work (lib/turns/turns.ts). */
const termsOfStep = 512;
const termUnits = 100;
/** The same of names. */
const namesOfStep = 512;
const nameUnits = 40;
/** Names are sorted for one answer where they are fewer than this of all, whose order is kept. */
const shareOfFewNames = 1 / 8;

/**
 * Names and values that occur in the set; the limit counts both, in the order of the answer. Yields units of work that were
 * done.
 */
export function* aggregateSteps(
  set: SlotSet,
  tables: Tables,
  wanted: Wanted,
): Generator<number, AggregatedTags> {
  const { dictionary } = tables;
  const { tagNames, namesOnly } = wanted;
  const fieldsNamed = tagNames.length === 0 ? null : indexesOf(tagNames, dictionary);
  // Before the first wait: a slot may be another series' after it.
  const occurs = occurrenceTest(set, tables, namesOnly, fieldsNamed);
  const names =
    fieldsNamed === null
      ? yield* namesOfAll(dictionary, occurs.fields)
      : yield* sortedNames(dictionary, fieldsNamed);
  const tags: TagAggregate[] = [];
  let room = wanted.limit > 0 ? wanted.limit : Number.POSITIVE_INFINITY;
  for (let place = 0; place < names.length; place++) {
    if (place % namesOfStep === namesOfStep - 1) yield namesOfStep * nameUnits;
    const name = names[place]!;
    const fieldIndex = dictionary.fieldIndex(name);
    if (fieldIndex === -1 || !occurs.field(fieldIndex)) continue;
    if (room === 0) return { tags, exhaustive: false };
    room--;
    if (wanted.namesOnly) {
      tags.push({ name, values: [] });
      continue;
    }
    const field = dictionary.field(fieldIndex);
    const values: string[] = [];
    for (let i = 0; i < field.positionsEnd; i++) {
      const term = field.terms[i]!;
      if (term !== noTerm && occurs.term(term)) values.push(dictionary.value(term));
      if (i % termsOfStep === termsOfStep - 1) yield termsOfStep * termUnits;
    }
    const sorted = yield* sortSteps(values);
    if (sorted.length > room) {
      tags.push({ name, values: sorted.slice(0, room) });
      return { tags, exhaustive: false };
    }
    room -= sorted.length;
    tags.push({ name, values: sorted });
  }
  return { tags, exhaustive: true };
}

function indexesOf(tagNames: readonly string[], dictionary: TermDictionary): Set<number> {
  const indexes = new Set(tagNames.map((name) => dictionary.fieldIndex(name)));
  indexes.delete(-1);
  return indexes;
}

/** Sorted names of dictionaries, and of which they are: names come and go seldom, and there may be a million of them. */
const namesOf = new WeakMap<TermDictionary, { revision: number; names: readonly string[] }>();

function* sortedNames(
  dictionary: TermDictionary,
  fields: ReadonlySet<number>,
): Generator<number, readonly string[]> {
  return yield* sortSteps([...fields].map((index) => dictionary.field(index).name));
}

/**
 * @param fields that occur; null where nobody knows yet
 * @returns names sorted by bytes: all that occur, maybe among others, also such as there are no more
 */
function* namesOfAll(
  dictionary: TermDictionary,
  fields: ReadonlySet<number> | null,
): Generator<number, readonly string[]> {
  if (fields !== null && fields.size <= dictionary.fieldCount * shareOfFewNames) {
    return yield* sortedNames(dictionary, fields);
  }
  const known = namesOf.get(dictionary);
  const { fieldsRevision: revision } = dictionary;
  if (known?.revision === revision) return known.names;
  const unsorted: string[] = [];
  for (const [name] of dictionary.fieldNames()) {
    if (unsorted.push(name) % namesOfStep === 0) yield namesOfStep * nameUnits;
  }
  const names = yield* sortSteps(unsorted);
  namesOf.set(dictionary, { revision, names });
  return names;
}

interface Occurrence {
  /** Those that occur; null where nobody knows yet. */
  readonly fields: ReadonlySet<number> | null;
  field(fieldIndex: number): boolean;
  term(term: number): boolean;
}

/**
 * Whether a name or term occurs in the set, in the cheaper of two ways: looking for one common
 * series in its postings, which ends early when the set is large, or marking the terms of each
 * series of the set.
 * @param fieldsNamed null for all
 */
function occurrenceTest(
  set: SlotSet,
  tables: Tables,
  namesOnly: boolean,
  fieldsNamed: ReadonlySet<number> | null,
): Occurrence {
  const { dictionary, series, termPostings, fieldPostings } = tables;
  const count = countOf(set);
  if (count === 0) return { fields: new Set(), field: () => false, term: () => false };
  let lists = fieldsNamed?.size ?? dictionary.fieldCount;
  if (!namesOnly && fieldsNamed === null) lists += dictionary.termCount;
  else if (!namesOnly) for (const index of fieldsNamed!) lists += dictionary.field(index).termCount;
  const stepsPerList = series.count / count;
  if (lists * stepsPerList < count * tagsPerSeries) {
    const words = set.words ?? bitsOf(set, series.slotsEnd);
    return {
      fields: null,
      field: (fieldIndex) => fieldPostings.intersects(fieldIndex, words),
      term: (term) => termPostings.intersects(term, words),
    };
  }
  const slots = set.words === null ? set.values : enumerateBits(set.words, count);
  const [only = -1] = fieldsNamed?.size === 1 ? fieldsNamed : [];
  return markedTerms(slots, dictionary, series, only);
}

function bitsOf(set: SlotSet, slotsEnd: number): Uint32Array {
  const words = new Uint32Array(wordsFor(slotsEnd));
  orInto(set, words);
  return words;
}

/** @param onlyField the one field that is wanted, or -1 */
function markedTerms(
  slots: Uint32Array,
  dictionary: TermDictionary,
  series: SeriesTable,
  onlyField: number,
): Occurrence {
  const terms = new Uint32Array(wordsFor(dictionary.termsEnd));
  const fields = new Set<number>();
  let place = Number.POSITIVE_INFINITY;
  for (let i = 0; i < slots.length; i++) {
    const termCount = series.termCount(slots[i]!);
    if (termCount === 0) continue;
    const page = series.termsPage(slots[i]!);
    const start = series.termsStart(slots[i]!);
    if (onlyField >= 0 && place < termCount) {
      // Neighbours have the same names, so the term mostly stands where the last one stood.
      const term = page[start + place]!;
      if (dictionary.fieldOfTerm(term) === onlyField) {
        terms[term >>> 5]! |= 1 << (term & 31);
        continue;
      }
    }
    for (let at = start; at < start + termCount; at++) {
      const term = page[at]!;
      if (hasBit(terms, term)) continue;
      terms[term >>> 5]! |= 1 << (term & 31);
      const field = dictionary.fieldOfTerm(term);
      fields.add(field);
      if (field === onlyField) place = at - start;
    }
  }
  return {
    fields,
    field: (fieldIndex) => fields.has(fieldIndex),
    term: (term) => hasBit(terms, term),
  };
}

/** Texts that are sorted in one go, and what that takes. */
const sortedAtOnce = 1024;
const sortedUnits = 300_000;
/** Of one comparison when sorted ones are joined. */
const joinUnits = 50;

/** `sortByBytes` of many, a part at a time. Yields units of work that were done. */
export function* sortSteps(texts: string[]): Generator<number, string[]> {
  if (texts.length <= sortedAtOnce) return sortByBytes(texts);
  const isBefore = texts.some((text) => surrogate.test(text))
    ? (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b)) <= 0
    : (a: string, b: string) => a <= b;
  let sorted: string[] = [];
  for (let from = 0; from < texts.length; from += sortedAtOnce) {
    for (const text of sortByBytes(texts.slice(from, from + sortedAtOnce))) sorted.push(text);
    yield sortedUnits;
  }
  for (let width = sortedAtOnce; width < sorted.length; width *= 2) {
    const joined: string[] = [];
    for (let from = 0; from < sorted.length; from += 2 * width) {
      const middle = Math.min(from + width, sorted.length);
      const past = Math.min(middle + width, sorted.length);
      let left = from;
      let right = middle;
      while (left < middle || right < past) {
        const isLeft = right >= past || (left < middle && isBefore(sorted[left]!, sorted[right]!));
        joined.push(sorted[isLeft ? left++ : right++]!);
        if (joined.length % sortedAtOnce === 0) yield sortedAtOnce * joinUnits;
      }
    }
    sorted = joined;
  }
  return sorted;
}

const surrogate = /[\ud800-\udfff]/;

/**
 * Sorts in place by UTF-8 bytes, which differs from JavaScript's order only beyond the basic plane.
 */
export function sortByBytes(texts: string[]): string[] {
  texts.sort();
  if (!texts.some((text) => surrogate.test(text))) return texts;
  const bytes = new Map(texts.map((text) => [text, Buffer.from(text)]));
  return texts.sort((a, b) => Buffer.compare(bytes.get(a)!, bytes.get(b)!));
}
