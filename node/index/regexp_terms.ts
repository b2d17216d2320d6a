/**
 * Which terms of a field match a regexp, remembered per (field, pattern). New terms are tested when they
 * appear, so a query that comes again costs only them; a removed term makes the memory worthless.
 */
import { type AnchoredRegexp, compileAnchored } from '#lib/regexp.ts';
import type { TermDictionary } from './term_dictionary.ts';

/** Most (field, pattern) pairs remembered, and most terms of all of them together. */
export const regexpCacheEntriesMax: number = 1024;
export const regexpCacheTermsMax: number = 4_000_000;

/** Most compiled patterns kept. */
const compiledMax = 1024;

interface Entry {
  removals: number;
  /** Terms of the field up to here were tested. */
  seen: number;
  terms: Uint32Array;
  termCount: number;
}

export class RegexpTerms {
  readonly #dictionary: TermDictionary;
  /** Least recently used first. */
  readonly #entries: Map<string, Entry>;
  readonly #compiled: Map<string, AnchoredRegexp>;
  #termsHeld: number;

  constructor(dictionary: TermDictionary) {
    this.#dictionary = dictionary;
    this.#entries = new Map();
    this.#compiled = new Map();
    this.#termsHeld = 0;
  }

  /** @throws {TsdbError} BAD_REQUEST for a bad pattern */
  compile(pattern: string): AnchoredRegexp {
    const known = this.#compiled.get(pattern);
    if (known !== undefined) return known;
    const compiled = compileAnchored(pattern);
    if (this.#compiled.size >= compiledMax) dropFirst(this.#compiled);
    this.#compiled.set(pattern, compiled);
    return compiled;
  }

  /** True when `matching` would have to test no more than a few terms. */
  isKnown(fieldIndex: number, regexp: AnchoredRegexp): boolean {
    if (regexp.set !== null) return true;
    const entry = this.#entries.get(keyOf(fieldIndex, regexp));
    const field = this.#dictionary.field(fieldIndex);
    return (
      entry !== undefined &&
      entry.removals === field.removals &&
      field.termCount - entry.seen < 1000
    );
  }

  /** Terms of the field whose value matches, in no order; borrowed until the next call. */
  matching(fieldIndex: number, regexp: AnchoredRegexp): Uint32Array {
    const field = this.#dictionary.field(fieldIndex);
    if (regexp.set !== null) return this.#termsOfSet(field.name, regexp.set);
    const key = keyOf(fieldIndex, regexp);
    let entry = this.#entries.get(key);
    this.#entries.delete(key);
    if (entry !== undefined) this.#termsHeld -= entry.termCount;
    if (entry === undefined || entry.removals !== field.removals) {
      entry = { removals: field.removals, seen: 0, terms: new Uint32Array(4), termCount: 0 };
    }
    this.#testNew(entry, field.terms, field.termCount, regexp);
    this.#entries.set(key, entry);
    this.#termsHeld += entry.termCount;
    this.#evict();
    return entry.terms.subarray(0, entry.termCount);
  }

  #termsOfSet(name: string, texts: readonly string[]): Uint32Array {
    const terms = new Uint32Array(texts.length);
    let count = 0;
    for (const text of texts) {
      const term = this.#dictionary.findTerm(name, text);
      if (term >= 0) terms[count++] = term;
    }
    return terms.subarray(0, count);
  }

  #testNew(entry: Entry, terms: Uint32Array, termCount: number, regexp: AnchoredRegexp): void {
    const test = (bytes: Uint8Array, start: number, end: number) =>
      regexp.testBytes(bytes, start, end);
    for (let i = entry.seen; i < termCount; i++) {
      const term = terms[i]!;
      if (!this.#dictionary.testValue(term, test)) continue;
      if (entry.termCount === entry.terms.length) {
        const larger = new Uint32Array(2 * entry.terms.length);
        larger.set(entry.terms);
        entry.terms = larger;
      }
      entry.terms[entry.termCount++] = term;
    }
    entry.seen = termCount;
  }

  #evict(): void {
    while (
      this.#entries.size > regexpCacheEntriesMax ||
      (this.#termsHeld > regexpCacheTermsMax && this.#entries.size > 1)
    ) {
      const oldest = dropFirst(this.#entries);
      if (oldest !== undefined) this.#termsHeld -= oldest.termCount;
    }
  }

  get memoryBytes(): number {
    let bytes = 0;
    for (const entry of this.#entries.values()) bytes += entry.terms.byteLength + 100;
    return bytes;
  }
}

function keyOf(fieldIndex: number, regexp: AnchoredRegexp): string {
  return `${fieldIndex}:${regexp.pattern}`;
}

function dropFirst<Value>(map: Map<string, Value>): Value | undefined {
  for (const [key, value] of map) {
    map.delete(key);
    return value;
  }
  return undefined;
}
