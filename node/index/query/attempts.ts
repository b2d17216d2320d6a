/**
 * The attempts of a query to find its series, so that nobody waits for its regexps: an attempt does what takes
 * some milliseconds. What it needs beyond that is done in turns with others, or aside, and is at hand for the
 * next one.
 */
import { badRequest } from '#lib/errors.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import { type AnchoredRegexp, isDear } from '#lib/regexp/regexp.ts';
import { QueryRegexps } from '#lib/regexp/regexps.ts';
import type { LoopClock } from '#lib/turns/turns.ts';
import { copyOf, type SlotSet } from './slot_set.ts';

/**
 * Tests of an attempt, in units of work (lib/turns/turns.ts) as they usually take, and by the clock: a regexp may
 * take fifty times as long for texts that it has not seen the like of.
 */
const testUnitsMax = 2_000_000;
const testMillisMax = 8;
/** Of an attempt, before it gives way between two parts of a query. */
const evaluationMillisMax = 8;
/** Units of work between two looks at the clock. */
const unitsBetweenLooks = 5_000;
/** Of a test, besides what the regexp takes. */
const testUnits = 40;
/** Of a look-up of a text of a list. */
const lookUpUnits = 100;
/** Regexps of a query that are compared with the values of a label, and values that match all together. */
const testedMax = 500;
const positionsMax = 32_000_000;

/** An attempt needs more tests than may be done in one go: `RegexpTerms.learn` does them first. */
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

/** Which terms of a field match a regexp. */
export interface TestedTerms {
  compaction: number;
  /** Positions of the field up to here were tested. */
  seen: number;
  /** Positions in the field of the terms that match; some may be empty by now. */
  positions: Uint32Array;
  count: number;
}

/** Others wait: the next attempt goes on where this one was. */
export class NeedsTurn extends Error {
  override readonly name = 'NeedsTurn';
}

/** What is done of a conjunction or disjunction, or of the terms of a regexp. */
export interface Begun {
  /** Its parts in the order in which they are evaluated; none of a regexp. */
  readonly parts: readonly IndexQuery[];
  /** Those before this one are done, parts or terms. */
  readonly next: number;
  /** What they make; null when there is none. Of its own memory. */
  readonly set: SlotSet | null;
  /** Terms of the index that had been removed by then. */
  readonly removals: number;
}

export class QueryAttempts {
  readonly regexps: QueryRegexps;
  /** Whether all regexps are found, and the query is not too large. */
  isPrepared = false;
  readonly #begun = new Map<IndexQuery, Begun>();
  /** The series of the index when the first of these was begun: later ones are in some of them only. */
  #presentThen: SlotSet | null = null;
  #revision = -1;
  #evaluatedSinceMillis = 0;
  /** What was tested for this query; others may have it forgotten for theirs meanwhile. */
  readonly #tested = new Map<string, TestedTerms>();
  readonly #clock: LoopClock | null;
  #unitsLeft: number;
  #unitsToLook = 0;
  /** When the first test of the attempt was made. */
  #sinceMillis: number | null = null;

  /** @param clock null: one attempt, which does everything, however long it takes */
  constructor(clock: LoopClock | null) {
    this.#clock = clock;
    this.regexps = new QueryRegexps(clock !== null);
    this.#unitsLeft = clock === null ? Number.POSITIVE_INFINITY : testUnitsMax;
  }

  /** @throws {TsdbError} BAD_REQUEST when what was tested takes too much memory */
  beginNext(): void {
    let positions = 0;
    for (const { count } of this.#tested.values()) positions += count;
    if (positions > positionsMax) {
      throw badRequest(
        `cannot evaluate query: its regular expressions match more than ${positionsMax} values together`,
      );
    }
    if (this.#clock !== null) this.#unitsLeft = testUnitsMax;
    this.#unitsToLook = 0;
    this.#sinceMillis = null;
  }

  /**
   * @param revision of the index, another one after each removal: a slot that was there and is of another series
   *   by now was removed in between
   */
  beginEvaluation(revision: number): void {
    if (this.#clock === null) return;
    if (this.#revision !== revision) {
      this.#begun.clear();
      this.#presentThen = null;
    }
    this.#revision = revision;
    this.#evaluatedSinceMillis = this.#clock.monotonicMillis();
  }

  begunOf(query: IndexQuery): Begun | null {
    return this.#begun.get(query) ?? null;
  }

  /** Series about which the answer is right when a part of it was found by an earlier attempt; else null. */
  get presentThen(): SlotSet | null {
    return this.#presentThen;
  }

  /**
   * @param begun its set may be borrowed
   * @param present all series
   */
  noteBegun(query: IndexQuery, begun: Begun, present: Uint32Array): void {
    if (this.#clock === null) return;
    this.#presentThen ??= copyOf({ values: null, words: present });
    this.#begun.set(query, { ...begun, set: begun.set === null ? null : copyOf(begun.set) });
  }

  /** After a part of a query. @throws {NeedsTurn} when it is time to give way */
  checkTurn(): void {
    if (this.#clock === null) return;
    const millis = this.#clock.monotonicMillis() - this.#evaluatedSinceMillis;
    if (millis > evaluationMillisMax) throw new NeedsTurn();
  }

  /** Whether the value of so many bytes may be tested. */
  takesTest(regexp: AnchoredRegexp, length: number): boolean {
    if (this.#clock === null) return true;
    if (isDear(regexp, length)) return false;
    const units = testUnits + regexp.units(length);
    this.#unitsLeft -= units;
    this.#unitsToLook -= units;
    if (this.#unitsToLook < 0) this.#look(this.#clock.monotonicMillis());
    return this.#unitsLeft >= 0;
  }

  #look(nowMillis: number): void {
    this.#unitsToLook = unitsBetweenLooks;
    this.#sinceMillis ??= nowMillis;
    if (nowMillis - this.#sinceMillis > testMillisMax) this.#unitsLeft = -1;
  }

  /** Whether so many texts may be looked up. */
  takesLookUps(count: number): boolean {
    const units = lookUpUnits * count;
    if (units > this.#unitsLeft) return false;
    this.#unitsLeft -= units;
    return true;
  }

  tested(key: string): TestedTerms | undefined {
    return this.#tested.get(key);
  }

  /** @throws {TsdbError} BAD_REQUEST when they are too many */
  note(key: string, tested: TestedTerms): void {
    if (this.#clock === null) return;
    this.#tested.set(key, tested);
    if (this.#tested.size <= testedMax) return;
    throw badRequest(
      `cannot evaluate query: more than ${testedMax} regular expressions that have to be compared with values`,
    );
  }
}
