/**
 * Samples, and of the time before them windows, as one source: for those who ask for no function over a time, but for
 * names, or for all rows that there are (docs/AGGREGATION.md, One answer over several resolutions).
 */
import type { ReadColumn } from '#engine/aggregation/floats.ts';
import { rowsInRange } from '#engine/store/read/rows_in_range.ts';
import { nanosPerMilli } from '#lib/time.ts';
import { joinedLabels, joinedRows, withChunks } from './join.ts';
import { NamespaceSource, type SourceSetup, within64Bits } from './namespace_source.ts';
import type { SamplesSource } from './samples_source.ts';
import type {
  LabelResult,
  Matcher,
  SelectLimits,
  SelectRange,
  SelectResult,
  SeriesSource,
  ThroughoutStorage,
  Timeline,
} from './storage.ts';
import { WindowsSource } from './windows_source.ts';

/** About what it takes to cut a byte of chunks, of which few are, in units of work (lib/turns/turns.ts). */
const cutUnitsAByte = 2;

/** A range in two: where windows are asked, and where samples are. */
export interface DividedRange {
  readonly namespace: string;
  readonly windows: SelectRange;
  /** Null where all of it lies before. */
  readonly samples: SelectRange | null;
}

/**
 * The part of a range that lies before the samples goes to the finest windows that have all of it, else to those that go
 * back furthest.
 * @returns null where samples have all of it, or nobody more than they
 */
export function dividedRange(timeline: Timeline | null, range: SelectRange): DividedRange | null {
  if (timeline === null) return null;
  const { samplesFromMillis, resolutions } = timeline;
  const isOfWindows = samplesFromMillis === Number.POSITIVE_INFINITY;
  const samplesFromNanos = isOfWindows ? range.endNanos : BigInt(samplesFromMillis) * nanosPerMilli;
  if (range.startNanos >= samplesFromNanos && !isOfWindows) return null;
  const startMillis = Number(range.startNanos / nanosPerMilli);
  const furthest = resolutions.reduce((a, b) => (b.fromMillis < a.fromMillis ? b : a));
  const { namespace, fromMillis, resolutionMillis } =
    resolutions.find((each) => each.fromMillis <= startMillis) ?? furthest;
  if (fromMillis >= samplesFromMillis) return null;
  const { startNanos, endNanos } = range;
  // Where a window ends: what is in it is not asked of samples, too.
  const resolutionNanos = BigInt(resolutionMillis) * nanosPerMilli;
  const before = samplesFromNanos - 1n;
  const seamNanos = before - (before % resolutionNanos) + resolutionNanos + 1n;
  if (isOfWindows || endNanos <= seamNanos) return { namespace, windows: range, samples: null };
  return {
    namespace,
    windows: { startNanos, endNanos: seamNanos },
    samples: { startNanos: seamNanos, endNanos },
  };
}

export class ThroughoutSource implements SeriesSource, ThroughoutStorage {
  readonly #setup: SourceSetup;
  readonly #samples: SamplesSource;
  readonly #timeline: Timeline | null;

  constructor(setup: SourceSetup, samples: SamplesSource, timeline: Timeline | null) {
    this.#setup = setup;
    this.#samples = samples;
    this.#timeline = timeline;
  }

  select(
    matchers: readonly Matcher[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    return this.#samples.select(matchers, range, limits, signal);
  }

  selectAny(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    return this.#samples.selectAny(matcherLists, range, limits, signal);
  }

  /** @param column what windows give in the place of samples */
  selectThroughout(
    matchers: readonly Matcher[],
    range: SelectRange,
    column: ReadColumn,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    const divided = dividedRange(this.#timeline, within64Bits(range));
    if (divided === null) return this.select(matchers, range, limits, signal);
    const { namespace, windows, samples } = divided;
    const source = new WindowsSource(this.#setup, { namespace, column });
    return this.#joined(limits, signal, [
      source.select(matchers, windows, limits, signal),
      ...(samples === null ? [] : [this.#inside(matchers, samples, limits, signal)]),
    ]);
  }

  /** Without rows of the time before, which are in windows. */
  async #inside(
    matchers: readonly Matcher[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    const result = await this.select(matchers, range, limits, signal);
    const inside = [range.startNanos, range.endNanos] as const;
    return withChunks(this.#setup, result, limits, signal, async (chunks, work) => {
      if (work.spend(cutUnitsAByte * chunks.length)) await work.pause();
      return [rowsInRange(chunks, inside)];
    });
  }

  series(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    return this.#joined(
      limits,
      signal,
      this.#asked(range, (source, part) => source.series(matcherLists, part, limits, signal)),
    );
  }

  labelNames(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<LabelResult> {
    return this.#labels(range, signal, (source, part) =>
      source.labelNames(matcherLists, part, limits, signal),
    );
  }

  labelValues(
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

  #asked<Result>(
    range: SelectRange,
    ask: (source: SeriesSource, range: SelectRange) => Result,
  ): Result[] {
    const divided = dividedRange(this.#timeline, range);
    if (divided === null) return [ask(this.#samples, range)];
    const { namespace, windows, samples } = divided;
    const before = ask(new NamespaceSource(this.#setup, namespace, 'windows'), windows);
    return samples === null ? [before] : [before, ask(this.#samples, samples)];
  }

  async #joined(
    limits: SelectLimits,
    signal: AbortSignal,
    asked: readonly Promise<SelectResult>[],
  ): Promise<SelectResult> {
    return joinedRows(await Promise.all(asked), limits, () => this.#setup.turningOf(signal).work);
  }

  async #labels(
    range: SelectRange,
    signal: AbortSignal,
    ask: (source: SeriesSource, range: SelectRange) => Promise<LabelResult>,
  ): Promise<LabelResult> {
    const results = await Promise.all(this.#asked(range, ask));
    return joinedLabels(results, () => this.#setup.turningOf(signal).work);
  }
}
