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
  const fields = wantedFields(dictionary, wanted.tagNames);
  const occurs = occurrenceTest(set, tables, wanted.namesOnly, fields);
  const tags: TagAggregate[] = [];
  let room = wanted.limit > 0 ? wanted.limit : Number.POSITIVE_INFINITY;
  for (const [name, fieldIndex] of fields) {
    if (!occurs.field(fieldIndex)) continue;
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

function wantedFields(
  dictionary: TermDictionary,
  tagNames: readonly string[],
): [name: string, fieldIndex: number][] {
  const indexOfName = new Map<string, number>();
  if (tagNames.length === 0) {
    for (const [name, index] of dictionary.fieldNames()) indexOfName.set(name, index);
  }
  for (const name of tagNames) {
    const index = dictionary.fieldIndex(name);
    if (index >= 0) indexOfName.set(name, index);
  }
  return sortByBytes([...indexOfName.keys()]).map((name) => [name, indexOfName.get(name)!]);
}

interface Occurrence {
  field(fieldIndex: number): boolean;
  term(term: number): boolean;
}

/**
 * Whether a name or term occurs in the set, in the cheaper of two ways: looking for one common
 * series in its postings, which ends early when the set is large, or marking the terms of each
 * series of the set.
 */
function occurrenceTest(
  set: SlotSet,
  tables: Tables,
  namesOnly: boolean,
  fields: readonly (readonly [string, number])[],
): Occurrence {
  const { dictionary, series, termPostings, fieldPostings } = tables;
  const count = countOf(set);
  if (count === 0) return { field: () => false, term: () => false };
  let lists = fields.length;
  if (!namesOnly) for (const [, index] of fields) lists += dictionary.field(index).termCount;
  const stepsPerList = series.count / count;
  if (lists * stepsPerList < count * tagsPerSeries) {
    const words = set.words ?? bitsOf(set, series.slotsEnd);
    return {
      field: (fieldIndex) => fieldPostings.intersects(fieldIndex, words),
      term: (term) => termPostings.intersects(term, words),
    };
  }
  const slots = set.words === null ? set.values : enumerateBits(set.words, count);
  const only = fields.length === 1 ? fields[0]![1] : -1;
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
