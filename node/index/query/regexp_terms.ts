/**
 * Which terms of a field match a regexp, remembered per (field, pattern). New terms are tested when
 * they appear, so a query that comes again costs only them. What is remembered are positions in the
 * field, so terms may go; a field that lost most of its terms is compacted, and then tested anew.
 */
import type { Turning } from '#engine/aside/aside.ts';
import { type AnchoredRegexp, isDear } from '#lib/regexp/regexp.ts';
import { type Field, noTerm, type TermDictionary } from '../tables/term_dictionary.ts';
import { NeedsTests, QueryAttempts, type TestedTerms } from './attempts.ts';

/**
 * Most (field, pattern) pairs remembered, most terms of all of them together, and most characters of their
 * patterns.
 */
export const regexpCacheEntriesMax: number = 1024;
export const regexpCacheTermsMax: number = 4_000_000;
const regexpCacheCharactersMax = 16_000_000;

/** Texts that are tested aside at a time, their characters, and what that takes in units of work. */
const asideTextsMax = 1_024;
const asideCharactersMax = 1_000_000;
const asideUnitsMax = 64_000_000;

/** More tests, or look-ups, than these are worth a thought. */
const fewTests = 1_000;

export class RegexpTerms {
  readonly #dictionary: TermDictionary;
  /** Least recently used first. */
  readonly #entries: Map<string, TestedTerms>;
  #positionsHeld: number;
  #charactersHeld: number;

  constructor(dictionary: TermDictionary) {
    this.#dictionary = dictionary;
    this.#entries = new Map();
    this.#positionsHeld = 0;
    this.#charactersHeld = 0;
  }

  /** True when `matching` would have to test no more than a few terms. */
  isKnown(fieldIndex: number, regexp: AnchoredRegexp, attempts: QueryAttempts): boolean {
    if (regexp.set !== null && regexp.set.size < fewTests) return true;
    const key = keyOf(fieldIndex, regexp);
    const entry = attempts.tested(key) ?? this.#entries.get(key);
    const field = this.#dictionary.field(fieldIndex);
    return (
      entry !== undefined &&
      entry.compaction === field.compaction &&
      field.positionsEnd - entry.seen < fewTests
    );
  }

  /**
   * Terms of the field whose value matches, in no order; borrowed until the next call.
   * @throws {NeedsTests} beyond what may be done in one go
   */
  matching(fieldIndex: number, regexp: AnchoredRegexp, attempts: QueryAttempts): Uint32Array {
    const { set } = regexp;
    const key = keyOf(fieldIndex, regexp);
    const isTested = attempts.tested(key) !== undefined || this.#entries.has(key);
    if (set !== null && !isTested && attempts.takesLookUps(set.size)) {
      return this.#termsOfSet(this.#dictionary.field(fieldIndex).name, set);
    }
    return this.#tested(fieldIndex, regexp, attempts);
  }

  #tested(fieldIndex: number, regexp: AnchoredRegexp, attempts: QueryAttempts): Uint32Array {
    const field = this.#dictionary.field(fieldIndex);
    const key = keyOf(fieldIndex, regexp);
    const kept = this.#taken(key);
    let entry = attempts.tested(key) ?? kept;
    if (entry === undefined || entry.compaction !== field.compaction) {
      const { compaction } = field;
      entry = { compaction, seen: 0, positions: new Uint32Array(4), count: 0 };
    }
    const isDone = this.#testNew(entry, field, regexp, attempts);
    const terms = isDone ? liveTerms(entry, field) : null;
    this.#keep(key, entry);
    attempts.note(key, entry);
    if (terms === null) throw new NeedsTests(field.name, regexp);
    return terms;
  }

  /**
   * Tests all values of a field, giving way, and those that would hold up others aside, so that `matching`
   * has little to do after it.
   */
  async learn(
    { field: name, regexp }: NeedsTests,
    attempts: QueryAttempts,
    turning: Turning,
  ): Promise<void> {
    for (;;) {
      const fieldIndex = this.#dictionary.fieldIndex(name);
      if (fieldIndex < 0) return;
      attempts.beginNext();
      try {
        this.#tested(fieldIndex, regexp, attempts);
        return;
      } catch (error) {
        if (!(error instanceof NeedsTests)) throw error;
      }
      await this.#testDear(fieldIndex, regexp, attempts, turning);
      await turning.work.pause();
    }
  }

  /** Values from where the tests stopped, while they take too long for the loop. */
  async #testDear(
    fieldIndex: number,
    regexp: AnchoredRegexp,
    attempts: QueryAttempts,
    { work, aside }: Turning,
  ): Promise<void> {
    const field = this.#dictionary.field(fieldIndex);
    const key = keyOf(fieldIndex, regexp);
    const entry = attempts.tested(key);
    if (entry === undefined || entry.compaction !== field.compaction) return;
    const from = entry.seen;
    const found: { readonly position: number; readonly term: number }[] = [];
    const texts: string[] = [];
    let characters = 0;
    let units = 0;
    let past = from;
    for (; past < field.positionsEnd && texts.length < asideTextsMax; past++) {
      const term = field.terms[past]!;
      if (term === noTerm) continue;
      const length = this.#dictionary.valueLength(term);
      // Others take their turn on the loop.
      if (!isDear(regexp, length)) break;
      if (characters > asideCharactersMax || units > asideUnitsMax) break;
      characters += length;
      units += regexp.units(length);
      found.push({ position: past, term });
      texts.push(this.#dictionary.value(term));
    }
    if (texts.length === 0) return;
    const job = { kind: 'regexp', pattern: regexp.pattern, texts } as const;
    const outcomes = await work.outside(aside.run(job, work));
    // Others may have tested them meanwhile, or the field is another one.
    if (entry.seen !== from || entry.compaction !== field.compaction) return;
    const isKept = this.#entries.get(key) === entry;
    if (isKept) this.#taken(key);
    for (const [i, { position, term }] of found.entries()) {
      if (outcomes[i] === 1 && field.terms[position] === term) this.#note(entry, position);
    }
    entry.seen = past;
    if (isKept) this.#keep(key, entry);
  }

  #termsOfSet(name: string, texts: ReadonlySet<string>): Uint32Array {
    const terms = new Uint32Array(texts.size);
    let count = 0;
    for (const text of texts) {
      const term = this.#dictionary.findTerm(name, text);
      if (term >= 0) terms[count++] = term;
    }
    return terms.subarray(0, count);
  }

  /** @returns whether all are tested: it may take too long */
  #testNew(
    entry: TestedTerms,
    field: Field,
    regexp: AnchoredRegexp,
    attempts: QueryAttempts,
  ): boolean {
    const test = (bytes: Uint8Array, start: number, end: number) =>
      regexp.testBytes(bytes, start, end);
    const { terms, positionsEnd } = field;
    for (let position = entry.seen; position < positionsEnd; position++) {
      const term = terms[position]!;
      if (term === noTerm) continue;
      if (!attempts.takesTest(regexp, this.#dictionary.valueLength(term))) {
        entry.seen = position;
        return false;
      }
      if (this.#dictionary.testValue(term, test)) this.#note(entry, position);
    }
    entry.seen = positionsEnd;
    return true;
  }

  #note(entry: TestedTerms, position: number): void {
    if (entry.count === entry.positions.length) {
      const larger = new Uint32Array(2 * entry.positions.length);
      larger.set(entry.positions);
      entry.positions = larger;
    }
    entry.positions[entry.count++] = position;
  }

  /** Takes an entry out, to be changed and kept again. */
  #taken(key: string): TestedTerms | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    this.#entries.delete(key);
    this.#positionsHeld -= entry.count;
    this.#charactersHeld -= key.length;
    return entry;
  }

  #keep(key: string, entry: TestedTerms): void {
    this.#entries.set(key, entry);
    this.#positionsHeld += entry.count;
    this.#charactersHeld += key.length;
    for (const oldest of this.#entries.keys()) {
      const isRoom =
        this.#entries.size <= regexpCacheEntriesMax &&
        this.#positionsHeld <= regexpCacheTermsMax &&
        this.#charactersHeld <= regexpCacheCharactersMax;
      if (isRoom || this.#entries.size === 1) return;
      this.#taken(oldest);
    }
  }

  get memoryBytes(): number {
    let bytes = 0;
    for (const entry of this.#entries.values()) bytes += entry.positions.byteLength + 100;
    return bytes;
  }
}

/** The terms at the remembered positions; forgets positions that are empty. */
function liveTerms(entry: TestedTerms, field: Field): Uint32Array {
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
