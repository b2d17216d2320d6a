/**
 * The query engines' storage: chooses the namespace that covers a range, asks the session, holds
 * the answer against the limits.
 */
import type { AggregateResult, Session } from '#cluster/session/session.ts';
import type { Turning } from '#engine/aside/aside.ts';
import { withRegexps } from '#engine/aside/regexps.ts';
import { TsdbError } from '#lib/errors.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import { unlimitedReadBytes } from '#lib/read_memory/read_memory.ts';
import { queryOfMatcherLists, queryOfMatchers } from './matcher_query.ts';
import type { SelectMetrics } from './metrics.ts';
import type {
  LabelResult,
  Matcher,
  QueryStorage,
  SelectLimits,
  SelectRange,
  SelectResult,
} from './storage.ts';

/** A namespace that may be read. */
export interface ReadableNamespace {
  readonly name: string;
  readonly retentionNanos: bigint;
}

/** The part of the session that queries need. */
export type ReadSession = Pick<Session, 'fetch' | 'aggregate'>;

/** Says in an answer that others could have been read as well, or null. */
function tieWarning(
  read: ReadableNamespace,
  namespaces: readonly ReadableNamespace[],
): string | null {
  const others = namespaces.filter(
    (each) => each !== read && each.retentionNanos === read.retentionNanos,
  );
  if (others.length === 0) return null;
  const names = others.map(({ name }) => name).join(' and ');
  return `namespace ${read.name} was read: it was made ready before ${names} of the same retention`;
}

/** Says in an answer that it is not the whole one. */
const partialWarning = 'the answer is partial: the limit on series was reached';

/**
 * The namespace that answers. Only unaggregated ones are readable, and of those the one with the
 * longest retention covers every range that any of them covers. Of several the first one answers:
 * who makes another one ready takes nothing away from queries.
 * @param namespaces in the order in which they were made ready
 * @throws {TsdbError} UNAVAILABLE when there is none
 */
export function readableNamespace(namespaces: readonly ReadableNamespace[]): ReadableNamespace {
  const [first, ...others] = namespaces;
  if (first === undefined) {
    throw new TsdbError('UNAVAILABLE', 'unaggregated namespace is not yet initialized');
  }
  return others.reduce(
    (best, each) => (each.retentionNanos > best.retentionNanos ? each : best),
    first,
  );
}

export class Fanout implements QueryStorage {
  readonly #session: ReadSession;
  readonly #namespaces: () => readonly ReadableNamespace[];
  readonly #metrics: SelectMetrics;
  readonly #turningOf: (signal: AbortSignal) => Turning;

  /**
   * @param namespaces the READY unaggregated ones of the moment; empty when there is none
   * @param turningOf for what a read does with its matchers
   */
  constructor(
    session: ReadSession,
    namespaces: () => readonly ReadableNamespace[],
    metrics: SelectMetrics,
    turningOf: (signal: AbortSignal) => Turning,
  ) {
    this.#session = session;
    this.#namespaces = namespaces;
    this.#metrics = metrics;
    this.#turningOf = turningOf;
  }

  select(
    matchers: readonly Matcher[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    return this.#counted('select', async () => {
      const query = await withRegexps(this.#turningOf(signal), (regexps) =>
        queryOfMatchers(matchers, regexps),
      );
      return this.#fetch(query, range, limits, true, signal);
    });
  }

  /**
   * Series that at least one of the lists takes, with their samples; each once.
   * @throws as `select`
   */
  selectAny(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    return this.#counted('select', async () => {
      const query = await this.#queryOfLists(matcherLists, signal);
      return this.#fetch(query, range, limits, true, signal);
    });
  }

  series(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    return this.#counted('series', async () => {
      const query = await this.#queryOfLists(matcherLists, signal);
      return this.#fetch(query, range, limits, false, signal);
    });
  }

  labelNames(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<LabelResult> {
    return this.#counted('labelNames', async () => {
      const found = await this.#aggregate([], true, matcherLists, range, limits, signal);
      return labelResult(
        found,
        found.tags.map((tag) => tag.name),
      );
    });
  }

  labelValues(
    name: string,
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<LabelResult> {
    return this.#counted('labelValues', async () => {
      const found = await this.#aggregate([name], false, matcherLists, range, limits, signal);
      return labelResult(found, found.tags.find((tag) => tag.name === name)?.values ?? []);
    });
  }

  #queryOfLists(lists: readonly (readonly Matcher[])[], signal: AbortSignal): Promise<IndexQuery> {
    return withRegexps(this.#turningOf(signal), (regexps) => queryOfMatcherLists(lists, regexps));
  }

  async #fetch(
    query: IndexQuery,
    range: SelectRange,
    limits: SelectLimits,
    fetchData: boolean,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    const { name, warning } = this.#namespace();
    const found = await this.#session.fetch(
      {
        namespace: name,
        query,
        ...within64Bits(range),
        fetchData,
        seriesLimit: limits.seriesMax,
        requireExhaustive: limits.requireExhaustive,
        memory: limits.memory ?? unlimitedReadBytes,
      },
      signal,
    );
    this.#metrics.fetchedSeries.increase(found.bundle.seriesCount);
    return flagged(found, warning);
  }

  async #aggregate(
    tagNames: readonly string[],
    namesOnly: boolean,
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<AggregateResult> {
    const query = await this.#queryOfLists(matcherLists, signal);
    const { name, warning } = this.#namespace();
    const found = await this.#session.aggregate(
      {
        namespace: name,
        query,
        ...within64Bits(range),
        tagNames,
        namesOnly,
        limit: 0,
        requireExhaustive: limits.requireExhaustive,
        memory: limits.memory ?? unlimitedReadBytes,
      },
      signal,
    );
    return flagged(found, warning);
  }

  #namespace(): { readonly name: string; readonly warning: string | null } {
    const namespaces = this.#namespaces();
    const read = readableNamespace(namespaces);
    return { name: read.name, warning: tieWarning(read, namespaces) };
  }

  async #counted<Result>(kind: string, fetch: () => Promise<Result>): Promise<Result> {
    this.#metrics.fetches.increase(1, { kind });
    try {
      return await fetch();
    } catch (error) {
      this.#metrics.fetchErrors.increase(1, { kind });
      throw error;
    }
  }
}

/** Every partial answer carries a warning, and every one of a namespace that had equals. */
function flagged<
  Result extends { readonly exhaustive: boolean; readonly warnings: readonly string[] },
>(result: Result, warning: string | null): Result {
  const more = [
    ...(warning === null ? [] : [warning]),
    ...(result.exhaustive ? [] : [partialWarning]),
  ];
  return more.length === 0 ? result : { ...result, warnings: [...result.warnings, ...more] };
}

const int64Max = 2n ** 63n - 1n;

/** Times of requests may lie anywhere; those of samples are 64-bit nanoseconds. */
function within64Bits({ startNanos, endNanos }: SelectRange): SelectRange {
  const clamped = (nanos: bigint): bigint =>
    nanos > int64Max ? int64Max : nanos < -int64Max ? -int64Max : nanos;
  return { startNanos: clamped(startNanos), endNanos: clamped(endNanos) };
}

function labelResult(
  { exhaustive, warnings }: AggregateResult,
  values: readonly string[],
): LabelResult {
  return { values, exhaustive, warnings };
}
