/** Queries of an index: from a query to series, and to the names and values of their tags. */
import { inOneGo } from '#lib/turns/steps.ts';
import type { Turning } from '#engine/aside/aside.ts';
import { learnRegexps } from '#engine/aside/regexps.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import { NeedsRegexps } from '#lib/regexp/regexps.ts';
import type { UnixNanos } from '#lib/time.ts';
import type { Work } from '#lib/turns/turns.ts';
import { enumerateBits, hasBit } from '../tables/postings.ts';
import { shardsMax } from '../tables/series_table.ts';
import type { IndexTables } from '../tables/tables.ts';
import { type AggregatedTags, aggregateSteps, type TagAggregate } from './aggregate.ts';
import { NeedsTests, NeedsTurn, QueryAttempts } from './attempts.ts';
import { Evaluator } from './evaluate.ts';
import { joinedValueSteps } from './joined_values.ts';
import { RegexpTerms } from './regexp_terms.ts';
import { countOf, type SlotSet } from './slot_set.ts';

export interface IndexRange {
  /** Inclusive. */
  readonly startNanos: UnixNanos;
  /** Exclusive. */
  readonly endNanos: UnixNanos;
}

export interface QueryOptions {
  /** Most series; 0 = no limit. */
  readonly limit: number;
  /** Only series of these shards; null for all. */
  readonly shards: Uint32Array | null;
}

export interface AggregateOptions {
  /** Only these tag names; empty for all. */
  readonly tagNames: readonly string[];
  readonly namesOnly: boolean;
  /** In their place what joined_values.ts makes of these names. */
  readonly joined?: boolean;
  /** Names and values together; 0 = no limit. */
  readonly limit: number;
  /** Only series of these shards; null for all. */
  readonly shards: Uint32Array | null;
}

/** Rounds in which names and values are collected in turns with others; then it is done in one go. */
const pacedRoundsMax = 4;

export class IndexQueries {
  readonly #tables: IndexTables;
  readonly #revision: () => number;
  readonly #regexps: RegexpTerms;
  readonly #evaluator: Evaluator;

  /** @param revision another one after each removal of series */
  constructor(tables: IndexTables, revision: () => number) {
    const { dictionary, series, termPostings, fieldPostings } = tables;
    this.#tables = tables;
    this.#revision = revision;
    this.#regexps = new RegexpTerms(dictionary);
    this.#evaluator = new Evaluator(dictionary, series, termPostings, fieldPostings, this.#regexps);
  }

  get memoryBytes(): number {
    return this.#regexps.memoryBytes + this.#evaluator.memoryBytes;
  }

  /**
   * Series that match and are live in a block that overlaps the range, ascending.
   * @param attempts null: in one go, however long it takes
   * @throws {TsdbError} BAD_REQUEST for a bad regexp; what `inTurns` catches
   */
  query(
    query: IndexQuery,
    range: IndexRange,
    options: QueryOptions,
    attempts: QueryAttempts | null = null,
  ): { slots: Uint32Array; exhaustive: boolean } {
    const set = this.#visible(query, range, options.shards, attempts);
    const { limit } = options;
    const count = countOf(set);
    const kept = limit > 0 && count > limit ? limit : count;
    const slots = set.words === null ? set.values.slice(0, kept) : enumerateBits(set.words, kept);
    return { slots, exhaustive: kept === count };
  }

  /**
   * Makes an attempt that queries, and nobody waits for its regexps: what would take too long is compiled and
   * tested in turns with others, or aside, and then the attempt is made again. What it does with the slots that
   * it finds it does at once: they may be others' after a wait.
   * @throws {TsdbError} as `query`; the reason of the work's signal
   */
  async inTurns<Answer>(
    turning: Turning,
    attempt: (attempts: QueryAttempts) => Answer,
  ): Promise<Answer> {
    const attempts = new QueryAttempts(turning.work.clock);
    for (;;) {
      try {
        return attempt(attempts);
      } catch (error) {
        if (error instanceof NeedsRegexps) await learnRegexps(attempts.regexps, turning);
        else if (error instanceof NeedsTurn) await turning.work.pause();
        else if (error instanceof NeedsTests) {
          // Before it, for the attempt that follows it must find no values that came meanwhile.
          await turning.work.pause();
          await this.#regexps.learn(error, attempts, turning);
        } else throw error;
      }
    }
  }

  /** Borrowed until the next query or change. */
  #visible(
    query: IndexQuery,
    range: IndexRange,
    shards: Uint32Array | null,
    attempts: QueryAttempts | null,
  ): SlotSet {
    const matching = this.#evaluator.evaluate(
      query,
      attempts ?? new QueryAttempts(null),
      this.#revision(),
    );
    const live = this.#tables.live.overlapping(range.startNanos, range.endNanos);
    const isOfShard = shards === null ? null : shardMask(shards);
    if (matching.words === null) {
      return { values: this.#filterValues(matching.values, live, isOfShard), words: null };
    }
    const words = this.#evaluator.takeScratch();
    for (const bits of live) {
      const length = Math.min(bits.length, words.length);
      for (let i = 0; i < length; i++) words[i]! |= bits[i]!;
    }
    for (let i = 0; i < words.length; i++) {
      words[i] = i < matching.words.length ? words[i]! & matching.words[i]! : 0;
    }
    if (isOfShard === null) return { values: null, words };
    const values = enumerateBits(words, countOf({ values: null, words }));
    return { values: this.#filterValues(values, null, isOfShard), words: null };
  }

  #filterValues(
    values: Uint32Array,
    live: readonly Uint32Array[] | null,
    isOfShard: Uint8Array | null,
  ): Uint32Array {
    const kept = new Uint32Array(values.length);
    let count = 0;
    for (let i = 0; i < values.length; i++) {
      const slot = values[i]!;
      if (live !== null && !isInSome(live, slot)) continue;
      if (isOfShard !== null && isOfShard[this.#tables.series.shard(slot)] !== 1) continue;
      kept[count++] = slot;
    }
    return kept.subarray(0, count);
  }

  /**
   * Tag names, and values unless `namesOnly`, of the series that `query` would give, sorted by
   * bytes.
   * @throws {TsdbError} BAD_REQUEST for a bad regexp
   */
  aggregate(
    query: IndexQuery,
    range: IndexRange,
    options: AggregateOptions,
  ): { tags: TagAggregate[]; exhaustive: boolean } {
    const set = this.#visible(query, range, options.shards, null);
    return inOneGo(this.#aggregateSteps(set, options));
  }

  /** As `aggregate`, in turns with others. @throws {TsdbError} as `inTurns` */
  async aggregateInTurns(
    query: IndexQuery,
    range: IndexRange,
    options: AggregateOptions,
    turning: Turning,
  ): Promise<AggregatedTags> {
    for (let round = 0; ; round++) {
      const answer = await this.inTurns(turning, (attempts) => {
        const set = this.#visible(query, range, options.shards, attempts);
        return round < pacedRoundsMax
          ? this.#pacedAggregate(set, options, turning.work)
          : inOneGo(this.#aggregateSteps(set, options));
      });
      if (answer !== null) return answer;
    }
  }

  /**
   * @param set borrowed until the first wait
   * @returns null when terms were removed meanwhile, whose numbers may be others' now, or series whose terms are still looked at
   */
  async #pacedAggregate(
    set: SlotSet,
    options: AggregateOptions,
    work: Work,
  ): Promise<AggregatedTags | null> {
    const { dictionary } = this.#tables;
    const { removals } = dictionary;
    const revision = this.#revision();
    const own: SlotSet =
      set.words === null
        ? { values: set.values.slice(), words: null }
        : { values: null, words: set.words.slice() };
    const steps = this.#aggregateSteps(own, options);
    for (;;) {
      const step = steps.next();
      if (step.done === true) return step.value;
      if (!work.spend(step.value)) continue;
      await work.pause();
      if (dictionary.removals !== removals) return null;
      if (options.joined === true && this.#revision() !== revision) return null;
    }
  }

  #aggregateSteps(set: SlotSet, options: AggregateOptions): Generator<number, AggregatedTags> {
    if (options.joined !== true) return aggregateSteps(set, this.#tables, options);
    const slots = set.words === null ? set.values : enumerateBits(set.words, countOf(set));
    return joinedValueSteps(slots, this.#tables, options);
  }
}

function isInSome(bitsets: readonly Uint32Array[], slot: number): boolean {
  for (let i = 0; i < bitsets.length; i++) if (hasBit(bitsets[i]!, slot)) return true;
  return false;
}

function shardMask(shards: Uint32Array): Uint8Array {
  const mask = new Uint8Array(shardsMax);
  for (let i = 0; i < shards.length; i++) mask[shards[i]!] = 1;
  return mask;
}
