/**
 * The query engines' storage: chooses the namespaces that are asked. Samples come from the one that has all of the range,
 * or from those that have it between them (#cluster/namespaces/samples.ts); beside it those that hold messages answer with
 * a series for each numeric field.
 */
import type { Schemas } from '#cluster/namespaces/schemas.ts';
import type { Turning } from '#engine/aside/aside.ts';
import type { Clock } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';
import { nanosPerMilli } from '#lib/time.ts';
import { joinedLabels, joinedSeries } from './join.ts';
import { MessageSource } from './message_source.ts';
import { type SamplesNamespace, SamplesSource } from './samples_source.ts';
import type { SelectMetrics } from './metrics.ts';
import { NamespaceSource, type ReadSession, type SourceSetup } from './namespace_source.ts';
import type {
  LabelResult,
  Matcher,
  SeriesSource,
  SelectLimits,
  SelectRange,
  SelectResult,
  SelectWindows,
  Timeline,
} from './storage.ts';
import { WindowsSource } from './windows_source.ts';

export type { ReadSession } from './namespace_source.ts';

/** A namespace that may be read. */
export interface ReadableNamespace extends SamplesNamespace {
  /** Of its values, when they are messages. */
  readonly schemas: Schemas | null;
}

/** A READY namespace of windows of all series. */
export interface WindowsNamespace {
  readonly name: string;
  readonly retentionNanos: bigint;
  readonly resolutionNanos: bigint;
}

/** A namespace whose values are messages, as it is stored. */
export interface MessagesOfNamespace {
  readonly name: string;
  readonly schemas: Schemas;
  readonly source: SeriesSource;
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

export class Fanout implements SeriesSource {
  readonly #namespaces: () => readonly ReadableNamespace[];
  readonly #metrics: SelectMetrics;
  readonly #setup: SourceSetup;
  readonly #clock: Pick<Clock, 'nowNanos'>;
  readonly #resolutions: () => readonly WindowsNamespace[];

  /**
   * @param namespaces the READY unaggregated ones of the moment; empty when there is none
   * @param turningOf for what a read does with its matchers
   */
  constructor(
    session: ReadSession,
    namespaces: () => readonly ReadableNamespace[],
    metrics: SelectMetrics,
    turningOf: (signal: AbortSignal) => Turning,
    clock: Pick<Clock, 'nowNanos'>,
    resolutions: () => readonly WindowsNamespace[] = () => [],
  ) {
    this.#clock = clock;
    this.#resolutions = resolutions;
    this.#namespaces = namespaces;
    this.#metrics = metrics;
    const onFetched = (seriesCount: number): void => metrics.fetchedSeries.increase(seriesCount);
    this.#setup = { session, turningOf, onFetched };
  }

  timeline(): Timeline | null {
    const resolutions = this.#resolutions();
    if (resolutions.length === 0) return null;
    const nowNanos = this.#clock.nowNanos();
    const millisOf = (retentionNanos: bigint): number =>
      Number((nowNanos - retentionNanos) / nanosPerMilli);
    const ofSamples = this.#namespaces().filter(({ schemas }) => schemas === null);
    const samplesFromMillis = ofSamples.reduce(
      (least, { retentionNanos }) => Math.min(least, millisOf(retentionNanos)),
      Number(nowNanos / nanosPerMilli),
    );
    return {
      samplesFromMillis,
      resolutions: resolutions
        .map(({ name, resolutionNanos, retentionNanos }) => ({
          namespace: name,
          resolutionMillis: Number(resolutionNanos / nanosPerMilli),
          fromMillis: millisOf(retentionNanos),
        }))
        .sort((a, b) => a.resolutionMillis - b.resolutionMillis),
    };
  }

  select(
    matchers: readonly Matcher[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
    windows: SelectWindows | null = null,
  ): Promise<SelectResult> {
    if (windows !== null) {
      return this.#ofWindows(new WindowsSource(this.#setup, windows), (source) =>
        source.select(matchers, range, limits, signal),
      );
    }
    return this.#counted('select', async (sources) =>
      joinedSeries(
        await Promise.all(sources.map((each) => each.select(matchers, range, limits, signal))),
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
      joinedSeries(
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
      joinedSeries(
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

  /** Namespaces of messages as they are stored. */
  messages(): readonly MessagesOfNamespace[] {
    return this.#namespaces().flatMap(({ name, schemas }) => {
      if (schemas === null) return [];
      return [{ name, schemas, source: new NamespaceSource(this.#setup, name) }];
    });
  }

  /** @throws {TsdbError} UNAVAILABLE when there is none */
  #sources(): readonly SeriesSource[] {
    const all = this.#namespaces();
    const ofFloats = all.filter(({ schemas }) => schemas === null);
    const sources: SeriesSource[] = [];
    if (all.length === 0) readableNamespace(all);
    if (ofFloats.length > 0) sources.push(new SamplesSource(this.#setup, ofFloats, this.#clock));
    for (const { source, schemas } of this.messages()) {
      sources.push(new MessageSource(source, schemas, this.#setup.turningOf));
    }
    return sources;
  }

  #ofWindows<Result>(
    source: WindowsSource,
    ask: (source: WindowsSource) => Promise<Result>,
  ): Promise<Result> {
    return this.#noted('select', () => ask(source));
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
