/**
 * Samples, and of the time before them windows, as one source: for those who ask for no function over a time, but for
 * names, or for all rows that there are (docs/AGGREGATION.md, One answer over several resolutions).
 */
import { rowsInRange } from '#engine/store/read/rows_in_range.ts';
import { nanosPerMilli } from '#lib/time.ts';
import { joinedLabels, joinedRows, withChunks } from './join.ts';
import { NamespaceSource, type SourceSetup, within64Bits } from './namespace_source.ts';
import { greater, lesser } from './recent_windows.ts';
import type { SamplesSource } from './samples_source.ts';
import {
  type AskedColumn,
  type ColumnBySeries,
  type LabelResult,
  type Matcher,
  type Resolution,
  type Restriction,
  type RowsAsked,
  type SelectLimits,
  type SelectRange,
  type SelectResult,
  type SeriesPart,
  type SeriesPlaces,
  type SeriesSource,
  type ThroughoutStorage,
  type Timeline,
  windowsOf,
} from './storage.ts';
import { firstWindowEnd, type RecentRows, rowsOfEnds, WindowsSource } from './windows_source.ts';

/** About what it takes to cut a byte of chunks, of which few are, in units of work (lib/turns/turns.ts). */
const cutUnitsAByte = 2;

/** A range in two: where windows are asked, and where samples are. */
export interface DividedRange {
  /** The finest windows of all series. */
  readonly of: Resolution;
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
  const { samplesFromMillis } = timeline;
  const isOfWindows = samplesFromMillis === Number.POSITIVE_INFINITY;
  const samplesFromNanos = isOfWindows ? range.endNanos : BigInt(samplesFromMillis) * nanosPerMilli;
  if (range.startNanos >= samplesFromNanos && !isOfWindows) return null;
  const whole = timeline.resolutions.filter(({ takesAll }) => takesAll || isOfWindows);
  if (whole.length === 0) return null;
  const startMillis = Number(range.startNanos / nanosPerMilli);
  const furthest = whole.reduce((a, b) => (b.fromMillis < a.fromMillis ? b : a));
  const of = whole.find((each) => each.fromMillis <= startMillis) ?? furthest;
  if (of.fromMillis >= samplesFromMillis) return null;
  const { startNanos, endNanos } = range;
  // Where a window ends: what is in it is not asked of samples, too.
  const resolutionNanos = BigInt(of.resolutionMillis) * nanosPerMilli;
  const before = samplesFromNanos - 1n;
  const seamNanos = before - (before % resolutionNanos) + resolutionNanos + 1n;
  if (isOfWindows || endNanos <= seamNanos) return { of, windows: range, samples: null };
  return {
    of,
    windows: { startNanos, endNanos: seamNanos },
    samples: { startNanos: seamNanos, endNanos },
  };
}

/** What is asked for a part of the series, in a part of the time. */
export interface AskedPart extends SeriesPart {
  readonly range: SelectRange;
  /** Rows of before are asked of somebody else. */
  readonly isBehindSeam: boolean;
}

/** Who is asked for all rows of a range that there are. */
export function partsThroughout(
  timeline: Timeline | null,
  matcherLists: readonly (readonly Matcher[])[],
  range: SelectRange,
): AskedPart[] {
  if (timeline !== null && timeline.places !== null) {
    return partsByRules(timeline, timeline.places, matcherLists, range);
  }
  const divided = dividedRange(timeline, range);
  if (divided === null) return [{ of: null, restriction: null, range, isBehindSeam: false }];
  const { of, windows, samples } = divided;
  const parts: AskedPart[] = [{ of, restriction: null, range: windows, isBehindSeam: false }];
  if (samples !== null) {
    parts.push({ of: null, restriction: null, range: samples, isBehindSeam: true });
  }
  return parts;
}

/**
 * The same where series are not everywhere. The range is cut where samples begin, and where rules changed, so that of each
 * series all is found, wherever these put it.
 */
function partsByRules(
  { samplesFromMillis, resolutions }: Timeline,
  places: SeriesPlaces,
  matcherLists: readonly (readonly Matcher[])[],
  { startNanos, endNanos }: SelectRange,
): AskedPart[] {
  const isOfWindows = samplesFromMillis === Number.POSITIVE_INFINITY;
  const samplesFromNanos = isOfWindows ? endNanos : BigInt(samplesFromMillis) * nanosPerMilli;
  const before = resolutions.filter(({ fromMillis }) => fromMillis < samplesFromMillis);
  const [finest] = before;
  const seamNanos =
    finest === undefined || startNanos >= samplesFromNanos
      ? startNanos
      : isOfWindows
        ? endNanos
        : lesser(endNanos, windowEndFrom(samplesFromNanos, finest) + 1n);
  const asked: { readonly sources: (Resolution | null)[]; readonly whole: SelectRange }[] = [];
  if (startNanos < seamNanos) {
    const sources = inOrderFrom(startNanos, before);
    asked.push({ sources, whole: { startNanos, endNanos: seamNanos } });
  }
  if (seamNanos < endNanos) {
    const whole = { startNanos: seamNanos, endNanos };
    // Of what has no samples here all of it is asked for, too, and not what its finest windows have kept.
    asked.push({ sources: [null, ...inOrderFrom(seamNanos, resolutions)], whole });
  }
  const pieces = asked.flatMap(({ sources, whole }) =>
    betweenChanges(places, matcherLists, whole).map((range) => ({ sources, range })),
  );
  return pieces.flatMap(({ sources, range }) =>
    places.parts(matcherLists, askedIn(range, sources)).map((part): AskedPart => {
      const isAtSeam = !isOfWindows && range.endNanos === seamNanos && part.of !== null;
      // The window in which samples begin, of whichever length: coarser ones are more than these.
      const end = isAtSeam
        ? lesser(endNanos, greater(seamNanos, windowEndFrom(samplesFromNanos, part.of!) + 1n))
        : range.endNanos;
      return {
        ...part,
        range: { startNanos: range.startNanos, endNanos: end },
        isBehindSeam: pieces.length > 1,
      };
    }),
  );
}

/** The end of the window that a row of this time is in. */
function windowEndFrom(nanos: bigint, { resolutionMillis }: Resolution): bigint {
  const resolutionNanos = BigInt(resolutionMillis) * nanosPerMilli;
  const before = nanos - 1n;
  return before - (before % resolutionNanos) + resolutionNanos;
}

/** Those that have all of a range first, the finest of them at the head; then the ones that go back furthest. */
function inOrderFrom(startNanos: bigint, resolutions: readonly Resolution[]): Resolution[] {
  const startMillis = millisOf(startNanos);
  const late = ({ fromMillis }: Resolution): number => Math.max(0, fromMillis - startMillis);
  return resolutions.toSorted(
    (a, b) => late(a) - late(b) || a.resolutionMillis - b.resolutionMillis,
  );
}

/** A range in parts, in each of which the same rules hold for series that matchers may take. */
function betweenChanges(
  places: SeriesPlaces,
  matcherLists: readonly (readonly Matcher[])[],
  range: SelectRange,
): SelectRange[] {
  const { afterMillis, untilMillis } = timesOf(range);
  const cuts = places
    .changes(matcherLists, afterMillis, untilMillis)
    .map((millis) => BigInt(millis) * nanosPerMilli + 1n)
    .filter((cut) => cut > range.startNanos && cut < range.endNanos);
  return [...cuts, range.endNanos].map((endNanos, at) => ({
    startNanos: at === 0 ? range.startNanos : cuts[at - 1]!,
    endNanos,
  }));
}

function askedIn(range: SelectRange, sources: readonly (Resolution | null)[]): RowsAsked[] {
  return sources.map((of) => ({ of, ...timesOf(range) }));
}

function timesOf({ startNanos, endNanos }: SelectRange): Omit<RowsAsked, 'of'> {
  const untilNanos = endNanos - 1n + nanosPerMilli - 1n;
  return { afterMillis: millisOf(startNanos - 1n), untilMillis: millisOf(untilNanos) };
}

const millisOf = (nanos: bigint): number => Number(nanos / nanosPerMilli);

/** Windows that an instant selector looks back, at least. */
const windowsOfLook = 2;

/** How far back the last window of a series is looked for. */
function lookNanosOf({ resolutionMillis }: Resolution): bigint {
  return BigInt(windowsOfLook * resolutionMillis) * nanosPerMilli;
}

/** What windows of a namespace are made of that nodes have not made yet. */
type RecentRowsOf = (namespace: string, restriction: Restriction | null) => RecentRows | null;
type NamesSource = Pick<SeriesSource, 'series' | 'labelNames' | 'labelValues' | 'joinedValues'>;

export class ThroughoutSource implements SeriesSource, ThroughoutStorage {
  readonly #setup: SourceSetup;
  readonly #samples: SamplesSource;
  readonly #timeline: Timeline | null;
  readonly #recentRows: RecentRowsOf;

  constructor(
    setup: SourceSetup,
    samples: SamplesSource,
    timeline: Timeline | null,
    recentRows: RecentRowsOf,
  ) {
    this.#setup = setup;
    this.#samples = samples;
    this.#timeline = timeline;
    this.#recentRows = recentRows;
  }

  select(
    matchers: readonly Matcher[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
    _windows: null = null,
    restriction: Restriction | null = null,
  ): Promise<SelectResult> {
    return this.#samples.restrictedTo(restriction).select(matchers, range, limits, signal);
  }

  /** What no samples are kept of has the values of its windows. */
  selectAny(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    return this.#throughout(matcherLists, range, 'value', limits, signal);
  }

  /** @param column what windows give in the place of samples */
  selectThroughout(
    matchers: readonly Matcher[],
    range: SelectRange,
    column: AskedColumn | ColumnBySeries,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    return this.#throughout([matchers], range, column, limits, signal);
  }

  #throughout(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    column: AskedColumn | ColumnBySeries,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    const parts = partsThroughout(this.#timeline, matcherLists, within64Bits(range));
    return this.#joined(
      limits,
      signal,
      parts.map(({ of, restriction, range: part, isBehindSeam }) => {
        if (of !== null) {
          const windows = this.#windows(of, column, restriction);
          return windows.selectAny(matcherLists, part, limits, signal);
        }
        const samples = this.#samples.restrictedTo(restriction);
        return isBehindSeam
          ? this.#inside(samples, matcherLists, part, limits, signal)
          : samples.selectAny(matcherLists, part, limits, signal);
      }),
    );
  }

  #windows(
    of: Resolution,
    column: AskedColumn | ColumnBySeries,
    restriction: Restriction | null,
  ): WindowsSource {
    const recent = this.#recentRows(of.namespace, restriction);
    const places = this.#timeline?.places ?? null;
    return new WindowsSource(this.#setup, windowsOf(of, column), restriction, recent, places);
  }

  /** Without rows of the time before, which are in windows. */
  async #inside(
    samples: SamplesSource,
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    const result = await samples.selectAny(matcherLists, range, limits, signal);
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
      this.#asked(matcherLists, range, (source, part) =>
        source.series(matcherLists, part, limits, signal),
      ),
    );
  }

  labelNames(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<LabelResult> {
    return this.#labels(matcherLists, range, signal, (source, part) =>
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
    return this.#labels(matcherLists, range, signal, (source, part) =>
      source.labelValues(name, matcherLists, part, limits, signal),
    );
  }

  joinedValues(
    names: readonly string[],
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<LabelResult> {
    return this.#labels(matcherLists, range, signal, (source, part) =>
      source.joinedValues(names, matcherLists, part, limits, signal),
    );
  }

  #asked<Result>(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    ask: (source: NamesSource, range: SelectRange) => Result,
  ): Result[] {
    const parts = partsThroughout(this.#timeline, matcherLists, within64Bits(range));
    return parts.flatMap(({ of, restriction, range }) => {
      if (of === null) return [ask(this.#samples.restrictedTo(restriction), range)];
      const part = { ...range, startNanos: range.startNanos - lookNanosOf(of) };
      const made = new NamespaceSource(this.#setup, of.namespace, 'windows', restriction);
      // Of samples there is a part of its own; what is dropped has windows alone.
      const recent = this.#recentRows(of.namespace, restriction);
      if (recent === null) return [ask(made, part)];
      const ends = { ...part, startNanos: greater(part.startNanos, firstWindowEnd(recent)) };
      const { dropped } = recent.within(ends).rows;
      if (dropped === null || ends.startNanos >= ends.endNanos) return [ask(made, part)];
      return [ask(made, part), ask(dropped, rowsOfEnds(ends, recent.resolutionNanos))];
    });
  }

  async #joined(
    limits: SelectLimits,
    signal: AbortSignal,
    asked: readonly Promise<SelectResult>[],
  ): Promise<SelectResult> {
    return joinedRows(await Promise.all(asked), limits, () => this.#setup.turningOf(signal).work);
  }

  async #labels(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    signal: AbortSignal,
    ask: (source: NamesSource, range: SelectRange) => Promise<LabelResult>,
  ): Promise<LabelResult> {
    const results = await Promise.all(this.#asked(matcherLists, range, ask));
    return joinedLabels(results, () => this.#setup.turningOf(signal).work);
  }
}
