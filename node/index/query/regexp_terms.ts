/**
 * Which terms of a field match a regexp, remembered per (field, pattern). New terms are tested when
 * they appear, so a query that comes again costs only them. What is remembered are positions in the
 * field, so terms may go; a field that lost most of its terms is compacted, and then tested anew.
 */
import type { Aside } from '#engine/aside/aside.ts';
import { type AnchoredRegexp, compileAnchored, isDear } from '#lib/regexp/regexp.ts';
import type { Work } from '#lib/turns/turns.ts';
import { type Field, noTerm, type TermDictionary } from '../tables/term_dictionary.ts';

/** Most (field, pattern) pairs remembered, and most terms of all of them together. */
export const regexpCacheEntriesMax: number = 1024;
export const regexpCacheTermsMax: number = 4_000_000;

/** Most compiled patterns kept. */
const compiledMax = 1024;

/** Tests of a query that are done in one go, in units of work: some milliseconds. */
const testUnitsMax = 2_000_000;
/** Of a test, besides what the regexp takes. */
const testUnits = 40;
/** Texts that are tested aside at a time, and their characters. */
const asideTextsMax = 64;
const asideCharactersMax = 1_000_000;

/** A query needs more tests than may be done in one go: `learn` does them first. */
export class NeedsTests extends Error {
  override readonly name = 'NeedsTests';
  readonly field: string;
  readonly regexp: AnchoredRegexp;

  constructor(field: string, regexp: AnchoredRegexp) {
    super(`the terms of ${field} are not tested yet`);
    this.field = field;
    this.regexp = regexp;
  }
}

/** What a query may still test in one go. */
export class TestBudget {
  #left: number;

  /** @param isBounded false: as much as it takes */
  constructor(isBounded: boolean) {
    this.#left = isBounded ? testUnitsMax : Number.POSITIVE_INFINITY;
  }

  /** Whether the value of so many bytes may be tested. */
  takes(regexp: AnchoredRegexp, length: number): boolean {
    this.#left -= testUnits + regexp.units(length);
    return this.#left >= 0;
  }
}

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

  /**
   * Terms of the field whose value matches, in no order; borrowed until the next call.
   * @throws {NeedsTests} beyond the budget
   */
  matching(fieldIndex: number, regexp: AnchoredRegexp, budget: TestBudget): Uint32Array {
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
    const isDone = this.#testNew(entry, field, regexp, budget);
    const terms = isDone ? liveTerms(entry, field) : null;
    this.#entries.set(key, entry);
    this.#positionsHeld += entry.count;
    this.#evict();
    if (terms === null) throw new NeedsTests(field.name, regexp);
    return terms;
  }

  /**
   * Tests all values of a field, giving way, and those that would hold up others aside, so that `matching`
   * has little to do after it.
   */
  async learn(name: string, regexp: AnchoredRegexp, work: Work, aside: Aside): Promise<void> {
    for (;;) {
      const fieldIndex = this.#dictionary.fieldIndex(name);
      if (fieldIndex < 0) return;
      try {
        this.matching(fieldIndex, regexp, new TestBudget(true));
        return;
      } catch (error) {
        if (!(error instanceof NeedsTests)) throw error;
      }
      await this.#testDear(fieldIndex, regexp, work, aside);
      await work.pause();
    }
  }

  /** Values from where the tests stopped, while they take too long for the loop. */
  async #testDear(
    fieldIndex: number,
    regexp: AnchoredRegexp,
    work: Work,
    aside: Aside,
  ): Promise<void> {
    const field = this.#dictionary.field(fieldIndex);
    const key = keyOf(fieldIndex, regexp);
    const entry = this.#entries.get(key);
    if (entry === undefined || entry.compaction !== field.compaction) return;
    const from = entry.seen;
    const found: { readonly position: number; readonly term: number }[] = [];
    const texts: string[] = [];
    let characters = 0;
    let past = from;
    for (; past < field.positionsEnd && texts.length < asideTextsMax; past++) {
      const term = field.terms[past]!;
      if (term === noTerm) continue;
      const length = this.#dictionary.valueLength(term);
      // Others take their turn on the loop.
      if (!isDear(regexp, length) || characters > asideCharactersMax) break;
      characters += length;
      found.push({ position: past, term });
      texts.push(this.#dictionary.value(term));
    }
    if (texts.length === 0) return;
    const job = { kind: 'regexp', pattern: regexp.pattern, texts } as const;
    const outcomes = await work.outside(aside.run(job, work));
    // Others may have tested them meanwhile, or the field is another one.
    const isSame = this.#entries.get(key) === entry && entry.seen === from;
    if (!isSame || entry.compaction !== field.compaction) return;
    for (const [i, { position, term }] of found.entries()) {
      if (outcomes[i] === 1 && field.terms[position] === term) {
        this.#note(entry, position);
        this.#positionsHeld += 1;
      }
    }
    entry.seen = past;
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

  /** @returns whether all are tested: the budget may end before */
  #testNew(entry: Entry, field: Field, regexp: AnchoredRegexp, budget: TestBudget): boolean {
    const test = (bytes: Uint8Array, start: number, end: number) =>
      regexp.testBytes(bytes, start, end);
    const { terms, positionsEnd } = field;
    for (let position = entry.seen; position < positionsEnd; position++) {
      const term = terms[position]!;
      if (term === noTerm) continue;
      if (!budget.takes(regexp, this.#dictionary.valueLength(term))) {
        entry.seen = position;
        return false;
      }
      if (this.#dictionary.testValue(term, test)) this.#note(entry, position);
    }
    entry.seen = positionsEnd;
    return true;
  }

  #note(entry: Entry, position: number): void {
    if (entry.count === entry.positions.length) {
      const larger = new Uint32Array(2 * entry.positions.length);
      larger.set(entry.positions);
      entry.positions = larger;
    }
    entry.positions[entry.count++] = position;
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
