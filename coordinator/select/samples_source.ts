/**
 * Namespaces of samples as one source: rows that several have between them are one series, whose rows are joined by their
 * versions as those of replicas are.
 */
import type { RowsSince } from '#cluster/namespaces/namespaces.ts';
import { type SamplesPart, samplesParts } from '#cluster/namespaces/samples.ts';
import type { Clock } from '#lib/env/env.ts';
import { joinedLabels, joinedRows } from './join.ts';
import { NamespaceSource, type SourceSetup } from './namespace_source.ts';
import type {
  LabelResult,
  Matcher,
  Restriction,
  SeriesSource,
  SelectLimits,
  SelectRange,
  SelectResult,
} from './storage.ts';

/** A namespace of samples, as reads choose it. */
export interface SamplesNamespace extends RowsSince {
  readonly name: string;
  readonly retentionNanos: bigint;
}

export class SamplesSource implements SeriesSource {
  readonly #setup: SourceSetup;
  readonly #namespaces: readonly SamplesNamespace[];
  readonly #clock: Pick<Clock, 'nowNanos'>;
  readonly #restriction: Restriction | null;

  /**
   * @param namespaces one at least, in the order in which they were made ready
   * @param restriction to some of their series
   */
  constructor(
    setup: SourceSetup,
    namespaces: readonly SamplesNamespace[],
    clock: Pick<Clock, 'nowNanos'>,
    restriction: Restriction | null = null,
  ) {
    this.#restriction = restriction;
    this.#setup = setup;
    this.#namespaces = namespaces;
    this.#clock = clock;
  }

  select(
    matchers: readonly Matcher[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    return this.#joined(range, limits, signal, (source, part) =>
      source.select(matchers, part, limits, signal),
    );
  }

  selectAny(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    return this.#joined(range, limits, signal, (source, part) =>
      source.selectAny(matcherLists, part, limits, signal),
    );
  }

  series(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    return this.#joined(range, limits, signal, (source, part) =>
      source.series(matcherLists, part, limits, signal),
    );
  }

  async labelNames(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<LabelResult> {
    return this.#labels(range, signal, (source, part) =>
      source.labelNames(matcherLists, part, limits, signal),
    );
  }

  async labelValues(
    name: string,
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<LabelResult> {
    return this.#labels(range, signal, (source, part) =>
      source.labelValues(name, matcherLists, part, limits, signal),
    );
  }

  async joinedValues(
    names: readonly string[],
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<LabelResult> {
    return this.#labels(range, signal, (source, part) =>
      source.joinedValues(names, matcherLists, part, limits, signal),
    );
  }

  /** Some of its series. */
  restrictedTo(restriction: Restriction | null): SamplesSource {
    if (restriction === null) return this;
    return new SamplesSource(this.#setup, this.#namespaces, this.#clock, restriction);
  }

  #parts(range: SelectRange): SamplesPart<SamplesNamespace>[] {
    return samplesParts(this.#namespaces, range, this.#clock.nowNanos());
  }

  #sourceOf({ namespace }: SamplesPart<SamplesNamespace>): NamespaceSource {
    return new NamespaceSource(this.#setup, namespace.name, 'samples', this.#restriction);
  }

  async #joined(
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
    ask: (source: NamespaceSource, range: SelectRange) => Promise<SelectResult>,
  ): Promise<SelectResult> {
    const parts = this.#parts(range);
    const results = await Promise.all(parts.map((part) => ask(this.#sourceOf(part), part)));
    return joinedRows(results, limits, () => this.#setup.turningOf(signal).work);
  }

  async #labels(
    range: SelectRange,
    signal: AbortSignal,
    ask: (source: NamespaceSource, range: SelectRange) => Promise<LabelResult>,
  ): Promise<LabelResult> {
    const parts = this.#parts(range);
    const results = await Promise.all(parts.map((part) => ask(this.#sourceOf(part), part)));
    return joinedLabels(results, () => this.#setup.turningOf(signal).work);
  }
}
