/** One namespace as the query engines' storage: asks the session, and says in an answer what it is not. */
import type { AggregateResult, Session } from '#cluster/session/session.ts';
import type { AggregateOptions, FetchOptions } from '#cluster/session/types.ts';
import { bundleBytes } from '#cluster/node/bundle_pages.ts';
import type { Turning } from '#engine/aside/aside.ts';
import { withRegexps } from '#engine/aside/regexps.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import { unlimitedReadBytes } from '#lib/read_memory/read_memory.ts';
import { queryOfMatcherLists, queryOfMatchers } from './matcher_query.ts';
import { cutTo, refuseCut, restricted } from './picked_series.ts';
import type { NamespaceRead } from './read_notes.ts';
import type {
  LabelResult,
  Matcher,
  Restriction,
  SeriesSource,
  SelectLimits,
  SelectRange,
  SelectResult,
} from './storage.ts';

/** The part of the session that queries need. */
export type ReadSession = Pick<Session, 'fetch' | 'aggregate'>;

/** What reads of all namespaces share. */
export interface SourceSetup {
  readonly session: ReadSession;
  /** For what a read does with its matchers. */
  readonly turningOf: (signal: AbortSignal) => Turning;
  /** Told of the series of each fetch. */
  readonly onFetched: (seriesCount: number) => void;
}

/** Of series among which some are picked so many are looked at for each that may be in an answer, and so many more. */
const restrictedFromTimes = 10;
const restrictedFromMost = 10_000;

/** Says in an answer that it is not the whole one. */
export const partialWarning = 'the answer is partial: the limit on series was reached';

export class NamespaceSource implements SeriesSource {
  readonly #setup: SourceSetup;
  readonly #name: string;
  readonly #holds: 'samples' | 'windows';
  readonly #restriction: Restriction | null;

  /** @param restriction to some of its series */
  constructor(
    setup: SourceSetup,
    name: string,
    holds: 'samples' | 'windows' = 'samples',
    restriction: Restriction | null = null,
  ) {
    this.#setup = setup;
    this.#name = name;
    this.#holds = holds;
    this.#restriction = restriction;
  }

  async select(
    matchers: readonly Matcher[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    const query = await withRegexps(this.#setup.turningOf(signal), (regexps) =>
      queryOfMatchers(matchers, regexps),
    );
    return this.#fetch(query, range, limits, true, signal);
  }

  async selectAny(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    const query = await this.#queryOfLists(matcherLists, signal);
    return this.#fetch(query, range, limits, true, signal);
  }

  async series(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    const query = await this.#queryOfLists(matcherLists, signal);
    return this.#fetch(query, range, limits, false, signal);
  }

  async labelNames(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<LabelResult> {
    const found = await this.#aggregate(
      { tagNames: [], namesOnly: true, limit: 0 },
      matcherLists,
      range,
      limits,
      signal,
    );
    return labelResult(
      found,
      found.tags.map((tag) => tag.name),
    );
  }

  async labelValues(
    name: string,
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<LabelResult> {
    const found = await this.#aggregate(
      { tagNames: [name], namesOnly: false, limit: 0 },
      matcherLists,
      range,
      limits,
      signal,
    );
    return labelResult(found, found.tags.find((tag) => tag.name === name)?.values ?? []);
  }

  async joinedValues(
    tagNames: readonly string[],
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<LabelResult> {
    const { seriesMax, requireExhaustive } = limits;
    const found = await this.#aggregate(
      // The name counts, too.
      { tagNames, namesOnly: false, joined: true, limit: seriesMax === 0 ? 0 : seriesMax + 1 },
      matcherLists,
      range,
      { ...limits, requireExhaustive: false },
      signal,
    );
    if (!found.exhaustive && requireExhaustive) refuseCut(seriesMax, 'more');
    return labelResult(found, found.tags[0]?.values ?? []);
  }

  #queryOfLists(lists: readonly (readonly Matcher[])[], signal: AbortSignal): Promise<IndexQuery> {
    return withRegexps(this.#setup.turningOf(signal), (regexps) =>
      queryOfMatcherLists(lists, regexps),
    );
  }

  async #fetch(
    query: IndexQuery,
    range: SelectRange,
    limits: SelectLimits,
    fetchData: boolean,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    const found = await this.#setup.session.fetch(
      {
        namespace: this.#name,
        query: this.#narrowed(query),
        ...within64Bits(range),
        fetchData,
        seriesLimit: this.#seriesLimit(limits),
        requireExhaustive: limits.requireExhaustive,
        memory: limits.memory ?? unlimitedReadBytes,
        ...consistencyOf(limits),
      },
      signal,
    );
    this.#setup.onFetched(found.bundle.seriesCount);
    const taken = await this.#taken(flagged(found), limits, signal);
    limits.read?.add({ ...this.#read(found.responses), bundle: taken.bundle, names: 0 });
    return taken;
  }

  #read(responses: number): Pick<NamespaceRead, 'name' | 'of' | 'responses'> {
    return { name: this.#name, of: this.#holds, responses };
  }

  /** Which of them are asked for is known when they are here. */
  #seriesLimit({ seriesMax }: SelectLimits): number {
    if (this.#restriction === null || seriesMax === 0) return seriesMax;
    return restrictedFromMost + restrictedFromTimes * seriesMax;
  }

  #narrowed(query: IndexQuery): IndexQuery {
    const within = this.#restriction?.within ?? null;
    if (within === null) return query;
    return query.kind === 'all' ? within : { kind: 'conjunction', queries: [query, within] };
  }

  async #taken(
    result: SelectResult,
    { memory, seriesMax, requireExhaustive }: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    const restriction = this.#restriction;
    if (restriction === null) return result;
    const { work } = this.#setup.turningOf(signal);
    const taken = await restricted(result, restriction, work);
    if (taken !== result) memory?.give(bundleBytes(result.bundle) - bundleBytes(taken.bundle));
    const bundle = cutTo(taken.bundle, seriesMax, requireExhaustive);
    return bundle === taken.bundle ? taken : flagged({ ...taken, bundle, exhaustive: false });
  }

  async #aggregate(
    wanted: Pick<AggregateOptions, 'tagNames' | 'namesOnly' | 'joined' | 'limit'>,
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<AggregateResult> {
    const query = await this.#queryOfLists(matcherLists, signal);
    const found = await this.#setup.session.aggregate(
      {
        namespace: this.#name,
        query: this.#narrowed(query),
        ...within64Bits(range),
        ...wanted,
        requireExhaustive: limits.requireExhaustive,
        memory: limits.memory ?? unlimitedReadBytes,
        ...consistencyOf(limits),
      },
      signal,
    );
    const names = found.tags.reduce((sum, { values }) => sum + 1 + values.length, 0);
    limits.read?.add({ ...this.#read(found.responses), bundle: null, names });
    return flagged(found);
  }
}

function consistencyOf({ consistency }: SelectLimits): Pick<FetchOptions, 'consistency'> {
  return consistency === undefined ? {} : { consistency };
}

/** Every partial answer carries a warning. */
function flagged<
  Result extends { readonly exhaustive: boolean; readonly warnings: readonly string[] },
>(result: Result): Result {
  return result.exhaustive ? result : { ...result, warnings: [...result.warnings, partialWarning] };
}

const int64Max = 2n ** 63n - 1n;

/** Times of requests may lie anywhere; those of samples are 64-bit nanoseconds. */
export function within64Bits({ startNanos, endNanos }: SelectRange): SelectRange {
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
