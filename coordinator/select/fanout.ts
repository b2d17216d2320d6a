/**
 * The query engines' storage: chooses the namespaces that are asked. Samples come from the one that has all of the range,
 * or from those that have it between them (#cluster/namespaces/samples.ts); beside it those that hold messages answer with
 * a series for each numeric field.
 */
import { noRuleSets, type RuleSetsOverTime } from '#cluster/aggregation_rules/sets/over_time.ts';
import { samplesSince } from '#cluster/namespaces/samples.ts';
import type { Schemas } from '#cluster/namespaces/schemas.ts';
import type { Turning } from '#engine/aside/aside.ts';
import type { Clock } from '#lib/env/env.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';
import { formatDurationNanos, nanosPerMilli } from '#lib/time.ts';
import { joinedLabels, joinedRows } from './join.ts';
import { MessageSource } from './message_source.ts';
import { type SamplesNamespace, SamplesSource } from './samples_source.ts';
import type { SelectMetrics } from './metrics.ts';
import {
  NamespaceSource,
  type ReadSession,
  type SourceSetup,
  within64Bits,
} from './namespace_source.ts';
import { PlacesByRules } from './places_by_rules.ts';
import { greater } from './recent_windows.ts';
import {
  type AskedColumn,
  type ChoosableStorage,
  type ChosenStorage,
  type ColumnBySeries,
  type LabelResult,
  type Matcher,
  type MessagesOfNamespace,
  type NamespaceChoice,
  type Restriction,
  type SeriesSource,
  type SelectLimits,
  type SelectRange,
  type SelectResult,
  type SelectWindows,
  type StoragePolicy,
  type Timeline,
  type WindowsKept,
  windowsOf,
} from './storage.ts';
import { partsThroughout, ThroughoutSource } from './throughout_source.ts';
import {
  type ReadWindows,
  type RecentRows,
  RowsOfWindows,
  WindowsSource,
} from './windows_source.ts';

export type { ReadSession } from './namespace_source.ts';

/** A namespace that may be read. */
export interface ReadableNamespace extends SamplesNamespace {
  /** Of its values, when they are messages. */
  readonly schemas: Schemas | null;
}

/** A READY namespace of windows. */
export interface WindowsNamespace {
  readonly name: string;
  /** Of all series of which no rule says something else. */
  readonly takesAll: boolean;
  readonly retentionNanos: bigint;
  readonly resolutionNanos: bigint;
  /** What was before that had expired when it was made ready, or longer. */
  readonly completeSinceNanos: bigint;
}

/** The READY namespaces of the moment. */
export interface StoredNamespaces {
  /** Unaggregated ones that are read and written; empty when there is none. */
  readonly samples: () => readonly ReadableNamespace[];
  readonly windows: () => readonly WindowsNamespace[];
  /** Rows that rules drop, of which windows are made; null while there is none. */
  readonly dropped: () => Pick<ReadableNamespace, 'name' | 'retentionNanos'> | null;
  /** So long after their end windows are made, whatever has kept nodes from it for a while. */
  readonly madeAfterNanos: () => bigint;
}

/**
 * The namespace that goes back furthest, the first of equals: for what is told of one alone.
 * @param namespaces in the order in which they were made ready
 * @throws {TsdbError} UNAVAILABLE when there is none
 */
export function readableNamespace(namespaces: readonly ReadableNamespace[]): ReadableNamespace {
  const [first, ...others] = namespaces;
  if (first === undefined) {
    throw new TsdbError(
      'UNAVAILABLE',
      'unaggregated namespace is not yet initialized: none is READY',
    );
  }
  return others.reduce(
    (best, each) => (each.retentionNanos > best.retentionNanos ? each : best),
    first,
  );
}

export class Fanout implements ChosenStorage, ChoosableStorage {
  readonly hidden: ReadonlySet<string> = new Set();
  readonly #stored: StoredNamespaces;
  readonly #metrics: SelectMetrics;
  readonly #session: ReadSession;
  readonly #turningOf: (signal: AbortSignal) => Turning;
  readonly #setup: SourceSetup;
  readonly #clock: Pick<Clock, 'nowNanos'>;
  readonly #rules: () => RuleSetsOverTime;
  /** Nothing is read from samples; windows that are not made yet are made of them. */
  readonly #isOfWindows: boolean;

  /**
   * @param turningOf for what a read does with its matchers
   */
  constructor(
    session: ReadSession,
    stored: StoredNamespaces,
    metrics: SelectMetrics,
    turningOf: (signal: AbortSignal) => Turning,
    clock: Pick<Clock, 'nowNanos'>,
    rules: () => RuleSetsOverTime = () => noRuleSets,
    isOfWindows = false,
  ) {
    this.#rules = rules;
    this.#session = session;
    this.#turningOf = turningOf;
    this.#isOfWindows = isOfWindows;
    this.#clock = clock;
    this.#stored = stored;
    this.#metrics = metrics;
    const onFetched = (seriesCount: number): void => metrics.fetchedSeries.increase(seriesCount);
    this.#setup = { session, turningOf, onFetched };
  }

  chosen(choice: NamespaceChoice | null): ChosenStorage {
    if (choice === null) return this;
    const resolutions = choice.kind === 'samples' ? [] : this.#resolutionsOf(choice.policies);
    return new Fanout(
      this.#session,
      { ...this.#stored, windows: () => resolutions },
      this.#metrics,
      this.#turningOf,
      this.#clock,
      this.#rules,
      choice.kind === 'windows',
    );
  }

  #resolutionsOf(policies: readonly StoragePolicy[]): WindowsNamespace[] {
    const all = this.#stored.windows();
    return policies.map(({ resolutionNanos, retentionNanos }) => {
      const found = all.find(
        (each) =>
          each.resolutionNanos === resolutionNanos && each.retentionNanos === retentionNanos,
      );
      if (found !== undefined) return found;
      const textOf = (policy: StoragePolicy): string =>
        `${formatDurationNanos(policy.resolutionNanos)}:${formatDurationNanos(policy.retentionNanos)}`;
      const there = all.length === 0 ? 'none' : all.map(textOf).join(', ');
      throw badRequest(
        `no READY aggregated namespace has ${textOf({ resolutionNanos, retentionNanos })}; there is ${there}`,
      );
    });
  }

  timeline(): Timeline | null {
    const timeline = this.#timeline();
    if (timeline === null || !this.#isOfWindows) return timeline;
    return { ...timeline, samplesFromMillis: Number.POSITIVE_INFINITY };
  }

  #timeline(): Timeline | null {
    const resolutions = this.#stored.windows();
    if (resolutions.length === 0) return null;
    const nowNanos = this.#clock.nowNanos();
    const millisOf = (nanos: bigint): number => Number(nanos / nanosPerMilli);
    const ofSamples = this.#stored.samples().filter(({ schemas }) => schemas === null);
    const placed = resolutions
      .map(({ name, resolutionNanos, retentionNanos, completeSinceNanos, takesAll }) => {
        const keepsFrom = nowNanos - retentionNanos;
        const from = completeSinceNanos > keepsFrom ? completeSinceNanos : keepsFrom;
        return {
          namespace: name,
          resolutionMillis: millisOf(resolutionNanos),
          fromMillis: millisOf(from),
          takesAll,
          policy: { resolutionNanos, retentionNanos },
        };
      })
      .sort((a, b) => a.resolutionMillis - b.resolutionMillis);
    const rules = this.#rules();
    const areAllEverywhere = rules.isEmpty && resolutions.every(({ takesAll }) => takesAll);
    return {
      samplesFromMillis: millisOf(samplesSince(ofSamples, nowNanos)),
      resolutions: placed,
      places: areAllEverywhere ? null : new PlacesByRules(rules, placed),
    };
  }

  select(
    matchers: readonly Matcher[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
    windows: SelectWindows | null = null,
    restriction: Restriction | null = null,
  ): Promise<SelectResult> {
    if (windows !== null) {
      return this.#ofWindows({ windows, restriction }, matchers, range, limits, signal);
    }
    return this.#counted('select', async (sources) =>
      this.#joined(
        await Promise.all(
          sources.map((each) => each.select(matchers, range, limits, signal, null, restriction)),
        ),
        limits,
        signal,
      ),
    );
  }

  selectThroughout(
    matchers: readonly Matcher[],
    range: SelectRange,
    column: AskedColumn | ColumnBySeries,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    if (this.#isOfWindows) return this.#windowsThroughout(matchers, range, column, limits, signal);
    return this.#counted('select', async (sources) =>
      this.#joined(
        await Promise.all(
          sources.map((each) =>
            each instanceof ThroughoutSource
              ? each.selectThroughout(matchers, range, column, limits, signal)
              : each.select(matchers, range, limits, signal),
          ),
        ),
        limits,
        signal,
      ),
    );
  }

  selectAny(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    return this.#counted('select', async (sources) =>
      this.#joined(
        await Promise.all(
          sources.map((each) => each.selectAny(matcherLists, range, limits, signal)),
        ),
        limits,
        signal,
      ),
    );
  }

  series(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    return this.#counted('series', async (sources) =>
      this.#joined(
        await Promise.all(sources.map((each) => each.series(matcherLists, range, limits, signal))),
        limits,
        signal,
      ),
    );
  }

  labelNames(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<LabelResult> {
    return this.#counted('labelNames', async (sources) =>
      joinedLabels(
        await Promise.all(
          sources.map((each) => each.labelNames(matcherLists, range, limits, signal)),
        ),
        () => this.#setup.turningOf(signal).work,
      ),
    );
  }

  /**
   * Names of tags in whatever is stored of series: samples, what rules drop, and windows, whether these are read for their times or not.
   * For who deletes: a series that is in one of them alone has its tags, too.
   */
  async storedLabelNames(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<LabelResult> {
    const { samples, windows, dropped } = this.#stored;
    const names = [...samples(), ...windows()].map(({ name }) => name);
    const ofDropped = dropped();
    if (ofDropped !== null) names.push(ofDropped.name);
    return await this.#noted('labelNames', async () =>
      joinedLabels(
        await Promise.all(
          names.map((name) =>
            new NamespaceSource(this.#setup, name).labelNames(matcherLists, range, limits, signal),
          ),
        ),
        () => this.#setup.turningOf(signal).work,
      ),
    );
  }

  labelValues(
    name: string,
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<LabelResult> {
    return this.#counted('labelValues', async (sources) =>
      joinedLabels(
        await Promise.all(
          sources.map((each) => each.labelValues(name, matcherLists, range, limits, signal)),
        ),
        () => this.#setup.turningOf(signal).work,
      ),
    );
  }

  joinedValues(
    names: readonly string[],
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<LabelResult> {
    return this.#counted('joinedValues', async (sources) =>
      joinedLabels(
        await Promise.all(
          sources.map((each) => each.joinedValues(names, matcherLists, range, limits, signal)),
        ),
        () => this.#setup.turningOf(signal).work,
      ),
    );
  }

  messages(): readonly MessagesOfNamespace[] {
    return this.#stored.samples().flatMap(({ name, schemas }) => {
      if (schemas === null) return [];
      return [{ name, schemas, source: new NamespaceSource(this.#setup, name) }];
    });
  }

  /** Of all sources: namespaces may have the same series, and the same field of it. */
  #joined(
    results: readonly SelectResult[],
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    return joinedRows(results, limits, () => this.#setup.turningOf(signal).work);
  }

  /** @throws {TsdbError} UNAVAILABLE when there is none */
  #sources(): readonly SeriesSource[] {
    const all = this.#stored.samples();
    const ofFloats = all.filter(({ schemas }) => schemas === null);
    const sources: SeriesSource[] = [];
    if (all.length === 0) readableNamespace(all);
    if (ofFloats.length > 0) {
      const samples = new SamplesSource(this.#setup, ofFloats, this.#clock);
      const timeline = this.#timeline();
      const recentRows = (namespace: string, restriction: Restriction | null): RecentRows | null =>
        this.#recentRows(timeline, namespace, restriction);
      sources.push(new ThroughoutSource(this.#setup, samples, timeline, recentRows));
    }
    for (const [rank, { source, schemas }] of this.messages().entries()) {
      sources.push(new MessageSource(source, schemas, rank, this.#setup.turningOf));
    }
    return sources;
  }

  async #windowsThroughout(
    matchers: readonly Matcher[],
    range: SelectRange,
    column: AskedColumn | ColumnBySeries,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    const parts = partsThroughout(this.timeline(), [matchers], within64Bits(range));
    const results = await Promise.all(
      parts.map(({ of, restriction, range: part }) => {
        const windows = windowsOf(of!, column);
        return this.#ofWindows({ windows, restriction }, matchers, part, limits, signal);
      }),
    );
    return joinedRows(results, limits, () => this.#setup.turningOf(signal).work);
  }

  #ofWindows(
    {
      windows,
      restriction,
    }: { readonly windows: ReadWindows; readonly restriction: Restriction | null },
    matchers: readonly Matcher[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    const timeline = this.#timeline();
    const recent = this.#recentRows(timeline, windows.namespace, restriction);
    const places = timeline?.places ?? null;
    const source = new WindowsSource(this.#setup, windows, restriction, recent, places);
    return this.#noted('select', () => source.select(matchers, range, limits, signal));
  }

  /** Whatever windows are read: what is so recent that nodes have not made it is made of rows. */
  #recentRows(
    timeline: Timeline | null,
    namespace: string,
    restriction: Restriction | null,
  ): RecentRows | null {
    const ofFloats = this.#stored.samples().filter(({ schemas }) => schemas === null);
    const of = timeline?.resolutions.find((each) => each.namespace === namespace);
    if (ofFloats.length === 0 || timeline === null || of === undefined) return null;
    const { places, samplesFromMillis } = timeline;
    const dropped = places === null ? null : this.#stored.dropped();
    const samplesFromNanos = BigInt(samplesFromMillis) * nanosPerMilli;
    const nowNanos = this.#clock.nowNanos();
    const madeNanos = nowNanos - this.#stored.madeAfterNanos();
    const droppedFromNanos = dropped === null ? madeNanos : nowNanos - dropped.retentionNanos;
    const samples = new SamplesSource(this.#setup, ofFloats, this.#clock);
    return {
      fromNanos: [samplesFromNanos, madeNanos, droppedFromNanos].reduce(greater),
      resolutionNanos: BigInt(of.resolutionMillis) * nanosPerMilli,
      nowNanos,
      within: (range) => {
        const kept = places?.kept(of, range) ?? null;
        const some = kept === null ? restriction : keptOf(kept, restriction);
        return { rows: new RowsOfWindows(this.#setup, samples, dropped?.name ?? null, some), kept };
      },
    };
  }

  async #counted<Result>(
    kind: string,
    ask: (sources: readonly SeriesSource[]) => Promise<Result>,
  ): Promise<Result> {
    return this.#noted(kind, () => ask(this.#sources()));
  }

  async #noted<Result>(kind: string, ask: () => Promise<Result>): Promise<Result> {
    this.#metrics.fetches.increase(1, { kind });
    try {
      return await ask();
    } catch (error) {
      this.#metrics.fetchErrors.increase(1, { kind });
      throw error;
    }
  }
}

/** Series of which any window of a range is kept. */
function keptOf(kept: WindowsKept, restriction: Restriction | null): Restriction {
  return {
    key: `kept of ${restriction?.key ?? ''}`,
    takes: (tags) => (restriction?.takes(tags) ?? true) && kept.of(tags).length > 0,
    units: (tagBytes) => (restriction?.units(tagBytes) ?? 0) + kept.units(tagBytes),
    within: restriction?.within ?? null,
  };
}
