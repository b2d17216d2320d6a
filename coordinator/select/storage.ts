/**
 * The one seam between queries and storage: `select`. PromQL, remote read and the endpoints of
 * labels and series ask it; the session with its quorums answers, from the namespace that fanout.ts
 * chooses.
 */
import type { WindowType } from '#cluster/aggregation_rules/aggregation_types.ts';
import type { ReadConsistency } from '#cluster/session/consistency.ts';
import type { Schemas } from '#cluster/namespaces/schemas.ts';
import type { ReadColumn } from '#engine/aggregation/floats.ts';
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import type { ReadBytes } from '#lib/read_memory/read_memory.ts';
import type { UnixNanos } from '#lib/time.ts';
import type { ReadNotes } from './read_notes.ts';

export interface Matcher {
  readonly name: string;
  readonly kind: '=' | '!=' | '=~' | '!~';
  /** For regexps: RE2 syntax, anchored on both ends. A missing tag has the value ''. */
  readonly value: string;
}

export interface SelectRange {
  /** Inclusive. */
  readonly startNanos: UnixNanos;
  /** Exclusive. */
  readonly endNanos: UnixNanos;
}

/** A column of windows for each series. */
export interface ColumnBySeries {
  /** @param tags canonical */
  of(tags: Uint8Array): ReadColumn;
  /** About what it takes to say it, in units of work (lib/turns/turns.ts). @param tagBytes of the series */
  units(tagBytes: number): number;
}

/**
 * What is asked of windows: a column, or their values, for who asks for no function over a time. Those are what aggregation rules
 * say, by series and time, and the last values where they say nothing: `value` with the stale markers by which series end,
 * `numericValue` of windows with numbers alone.
 */
export type AskedColumn = ReadColumn | 'value' | 'numericValue';

/** Windows in the place of samples: those of an aggregated namespace, of which a column is read. */
export interface SelectWindows {
  readonly namespace: string;
  readonly resolutionMillis: number;
  readonly column: AskedColumn;
}

export function windowsOf<Column extends AskedColumn | ColumnBySeries>(
  { namespace, resolutionMillis }: Omit<SelectWindows, 'column'>,
  column: Column,
): Omit<SelectWindows, 'column'> & { readonly column: Column } {
  return { namespace, resolutionMillis, column };
}

/** A READY aggregated namespace. */
export interface Resolution {
  readonly namespace: string;
  readonly resolutionMillis: number;
  /** Windows of before that are past its retention. */
  readonly fromMillis: number;
  /** It has all series of which no rule says something else. */
  readonly takesAll: boolean;
}

/** Which time is read from what. */
export interface Timeline {
  /** Samples of before that are past the retention of all namespaces of theirs; Infinity when none are to be read. */
  readonly samplesFromMillis: number;
  /** The finest first. */
  readonly resolutions: readonly Resolution[];
  /** Which series are where; null where all are in all. */
  readonly places: SeriesPlaces | null;
}

/** Some of the series that matchers take. */
export interface Restriction {
  /** Tells it from others. */
  readonly key: string;
  /** Whether a series is among them. @param tags canonical */
  takes(tags: Uint8Array): boolean;
  /** About what it takes to say it, in units of work (lib/turns/turns.ts). @param tagBytes of the series */
  units(tagBytes: number): number;
  /** All of them are among these; null where the matchers alone say so. */
  readonly within: IndexQuery | null;
}

/** Rows of a source, or windows by the times at which they end: those in `(after, until]`. */
export interface RowsAsked {
  /** Null for samples. */
  readonly of: Resolution | null;
  readonly afterMillis: number;
  readonly untilMillis: number;
}

/** What a part of the series is read from. */
export interface SeriesPart {
  /** Null for samples. */
  readonly of: Resolution | null;
  /** Null where all series are read from it. */
  readonly restriction: Restriction | null;
}

export interface SeriesPlaces {
  /**
   * When series that matchers may take came to be somewhere else than before, ascending: the last
   * ones, where these are many. A row of that very time is one of before.
   */
  changes(
    matcherLists: readonly (readonly Matcher[])[],
    afterMillis: number,
    untilMillis: number,
  ): readonly number[];
  /**
   * What each series is read from that matchers may take: the first source that has it throughout
   * the rows that are asked of it. No series is in two parts.
   * @param asked the finest first
   */
  parts(
    matcherLists: readonly (readonly Matcher[])[],
    asked: readonly RowsAsked[],
  ): readonly SeriesPart[];
  /**
   * Which windows of a range an aggregated namespace has of each series; null when it has those of all.
   * @param range of ends of windows
   */
  kept(of: Resolution, range: SelectRange): WindowsKept | null;
  /**
   * As what the windows of a range are read where their values are asked for; null when all are read as their last values.
   * @param range of ends of windows
   * @returns steps (lib/turns/steps.ts): there may be many rules
   */
  types(
    of: Pick<Resolution, 'namespace'>,
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
  ): Generator<void, WindowTypes | null>;
}

export interface WindowTypes {
  /**
   * All windows of the range, ascending.
   * @param tags canonical
   * @returns steps, each of which says about what the next one takes, in units of work (lib/turns/turns.ts)
   */
  of(tags: Uint8Array): Generator<number, readonly (SelectRange & { readonly type: WindowType })[]>;
}

export interface WindowsKept {
  /** Ranges of ends of windows, ascending. @param tags canonical */
  of(tags: Uint8Array): readonly SelectRange[];
  /** About what it takes to say them, in units of work. @param tagBytes of the series */
  units(tagBytes: number): number;
}

export interface SelectLimits {
  /** Most series; 0 = no limit. */
  readonly seriesMax: number;
  /** True: exceeding a limit is an error. False: the answer is cut and `exhaustive` is false. */
  readonly requireExhaustive: boolean;
  /** What the answer takes is its; without one there is no limit. */
  readonly memory?: ReadBytes;
  /** Told what was read. */
  readonly read?: ReadNotes;
  /** Of replicas; not set: as the configuration says. */
  readonly consistency?: ReadConsistency;
}

export interface SelectResult {
  /** Each series once, its chunks of all replicas joined; order is unspecified. */
  readonly bundle: SeriesBundle;
  readonly exhaustive: boolean;
  readonly warnings: readonly string[];
  /** Set where values of windows were asked for. */
  readonly scales?: ReadScales;
}

/** What rows are that were found, in words. */
export interface ReadScales {
  /** Those that are as samples are: these, and windows by a value of a sample. */
  readonly ofSamples: ReadonlySet<string>;
  /** Sums and counts of windows, by how long these are. */
  readonly others: ReadonlySet<string>;
}

export interface QueryStorage {
  /** At this moment; without it, and where it is null, all is read from samples. */
  timeline?(): Timeline | null;
  /**
   * @param windows in the place of samples
   * @param restriction to some of the series
   * @throws {TsdbError} BAD_REQUEST over a limit, UNAVAILABLE without quorum, DEADLINE_EXCEEDED,
   * CANCELLED
   */
  select(
    matchers: readonly Matcher[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
    windows?: SelectWindows | null,
    restriction?: Restriction | null,
  ): Promise<SelectResult>;
  /** Without it there are samples alone. */
  selectThroughout?: ThroughoutStorage['selectThroughout'];
  /** Tag names, sorted. Several matcher lists are joined by OR; none means all series. */
  labelNames(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<LabelResult>;
  labelValues(
    name: string,
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<LabelResult>;
  /** Series without samples. */
  series(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult>;
}

/** For who asks for paths, of which the tags are nodes. */
export interface JoinedValuesStorage {
  /**
   * Values of all these tags of a series, with dots between them, sorted: `a.b`. Series that lack one of them have none.
   * `limits.seriesMax` is that of such texts.
   * @throws as `select` of `QueryStorage`
   */
  joinedValues(
    names: readonly string[],
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<LabelResult>;
}

/** Of an aggregated namespace. */
export interface StoragePolicy {
  readonly resolutionNanos: bigint;
  readonly retentionNanos: bigint;
}

/** Samples alone, or windows of these policies alone. */
export type NamespaceChoice =
  | { readonly kind: 'samples' }
  | { readonly kind: 'windows'; readonly policies: readonly StoragePolicy[] };

/** What there is for a request. */
export interface ChosenStorage extends SeriesSource {
  selectThroughout: ThroughoutStorage['selectThroughout'];
  /** Names of tags that its answer leaves out. */
  readonly hidden: ReadonlySet<string>;
  /** Namespaces of messages as they are stored. */
  messages(): readonly MessagesOfNamespace[];
}

/** What there is for each request. */
export type StorageFor<Request> = (request: Request) => ChosenStorage;

/** A storage of which a request may choose a part. */
export interface ChoosableStorage {
  /**
   * @param choice null for all
   * @throws {TsdbError} BAD_REQUEST when no namespace is as it says
   */
  chosen(choice: NamespaceChoice | null): ChosenStorage;
}

/** A namespace whose values are messages, as it is stored. */
export interface MessagesOfNamespace {
  readonly name: string;
  readonly schemas: Schemas;
  readonly source: SeriesSource;
}

/** For who asks for rows, and not for what a function makes of them. */
export interface ThroughoutStorage {
  /**
   * Samples, and where these are past retention a column of windows.
   * @throws as `select` of `QueryStorage`
   */
  selectThroughout(
    matchers: readonly Matcher[],
    range: SelectRange,
    column: AskedColumn | ColumnBySeries,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult>;
}

/** What namespaces are for the fan-out. */
export interface SeriesSource extends QueryStorage, JoinedValuesStorage {
  /**
   * Series that at least one of the lists takes, with their samples; each once.
   * @throws as `select`
   */
  selectAny(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult>;
}

export interface LabelResult {
  readonly values: readonly string[];
  readonly exhaustive: boolean;
  readonly warnings: readonly string[];
}
