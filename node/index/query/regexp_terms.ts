/**
 * Which terms of a field match a regexp, remembered per (field, pattern). New terms are tested when
 * they appear, so a query that comes again costs only them. What is remembered are positions in the
 * field, so terms may go; a field that lost most of its terms is compacted, and then tested anew.
 */
import { type AnchoredRegexp, compileAnchored } from '#lib/regexp/regexp.ts';
import { type Field, noTerm, type TermDictionary } from '../tables/term_dictionary.ts';

/** Most (field, pattern) pairs remembered, and most terms of all of them together. */
export const regexpCacheEntriesMax: number = 1024;
export const regexpCacheTermsMax: number = 4_000_000;

/** Most compiled patterns kept. */
const compiledMax = 1024;

interface Entry {
  compaction: number;
  /** Positions of the field up to here were tested. */
  seen: number;
  /** Positions in the field of the terms that match; some may be empty by now. */
  positions: Uint32Array;
  count: number;
}

export class RegexpTerms {
  readonly #dictionary: TermDictionary;
  /** Least recently used first. */
  readonly #entries: Map<string, Entry>;
  readonly #compiled: Map<string, AnchoredRegexp>;
  #positionsHeld: number;

  constructor(dictionary: TermDictionary) {
    this.#dictionary = dictionary;
    this.#entries = new Map();
    this.#compiled = new Map();
    this.#positionsHeld = 0;
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
      entry.compaction === field.compaction &&
      field.positionsEnd - entry.seen < 1000
    );
  }

  /** Terms of the field whose value matches, in no order; borrowed until the next call. */
  matching(fieldIndex: number, regexp: AnchoredRegexp): Uint32Array {
    const field = this.#dictionary.field(fieldIndex);
    if (regexp.set !== null) return this.#termsOfSet(field.name, regexp.set);
    const key = keyOf(fieldIndex, regexp);
    let entry = this.#entries.get(key);
    this.#entries.delete(key);
    if (entry !== undefined) this.#positionsHeld -= entry.count;
    if (entry === undefined || entry.compaction !== field.compaction) {
      const { compaction } = field;
      entry = { compaction, seen: 0, positions: new Uint32Array(4), count: 0 };
    }
    this.#testNew(entry, field, regexp);
    const terms = liveTerms(entry, field);
    this.#entries.set(key, entry);
    this.#positionsHeld += entry.count;
    this.#evict();
    return terms;
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

  #testNew(entry: Entry, field: Field, regexp: AnchoredRegexp): void {
    const test = (bytes: Uint8Array, start: number, end: number) =>
      regexp.testBytes(bytes, start, end);
    const { terms, positionsEnd } = field;
    for (let position = entry.seen; position < positionsEnd; position++) {
      const term = terms[position]!;
      if (term === noTerm || !this.#dictionary.testValue(term, test)) continue;
      if (entry.count === entry.positions.length) {
        const larger = new Uint32Array(2 * entry.positions.length);
        larger.set(entry.positions);
        entry.positions = larger;
      }
      entry.positions[entry.count++] = position;
    }
    entry.seen = positionsEnd;
  }

  #evict(): void {
    while (
      this.#entries.size > regexpCacheEntriesMax ||
      (this.#positionsHeld > regexpCacheTermsMax && this.#entries.size > 1)
    ) {
      const oldest = dropFirst(this.#entries);
      if (oldest !== undefined) this.#positionsHeld -= oldest.count;
    }
  }

  get memoryBytes(): number {
    let bytes = 0;
    for (const entry of this.#entries.values()) bytes += entry.positions.byteLength + 100;
    return bytes;
  }
}

/** The terms at the remembered positions; forgets positions that are empty. */
function liveTerms(entry: Entry, field: Field): Uint32Array {
  const terms = new Uint32Array(entry.count);
  let count = 0;
  for (let i = 0; i < entry.count; i++) {
    const position = entry.positions[i]!;
    const term = field.terms[position]!;
    if (term === noTerm) continue;
    entry.positions[count] = position;
    terms[count++] = term;
  }
  entry.count = count;
  return terms.subarray(0, count);
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
