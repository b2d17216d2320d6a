/** A namespace of windows as a source of samples: a column of theirs, or their values (docs/AGGREGATION.md). */
import type { WindowType } from '#cluster/aggregation_rules/aggregation_types.ts';
import { CounterRows } from '#engine/aggregation/counter_rows.ts';
import {
  eachFloatsOfWindows,
  floatsInPlaceOfWindows,
  type ReadColumn,
  type ValueColumn,
} from '#engine/aggregation/floats.ts';
import { apart, hasTyped } from '#engine/store/typed_chunks.ts';
import { withRests } from '#lib/turns/steps.ts';
import type { Work } from '#lib/turns/turns.ts';
import { hasRows, joinedRows, withChunks } from './join.ts';
import { NamespaceSource, type SourceSetup, within64Bits } from './namespace_source.ts';
import { floorTo, greater, lesser, recentWindows } from './recent_windows.ts';
import type { SamplesSource } from './samples_source.ts';
import type {
  AskedColumn,
  ColumnBySeries,
  Matcher,
  ReadScales,
  Restriction,
  SelectLimits,
  SelectRange,
  SelectResult,
  SelectWindows,
  SeriesPlaces,
  SeriesSource,
  WindowsKept,
  WindowTypes,
} from './storage.ts';

/** About what it takes to make a byte of samples of windows, in units of work (lib/turns/turns.ts). */
const unitsAByte = 4;
/** The same of a step of what rules say of all series. */
const unitsOfRules = 20_000;
const nanosPerMilli = 1_000_000n;

/** Windows, of which a column is read, or that of each series. */
export type ReadWindows = Omit<SelectWindows, 'column'> & {
  readonly column: AskedColumn | ColumnBySeries;
};

/** Rows of which windows are made when they are asked for: nodes make theirs hours later. */
export interface RecentRows {
  /** Rows of before that are past retention. */
  readonly fromNanos: bigint;
  readonly resolutionNanos: bigint;
  /** Windows that end later have not ended. */
  readonly nowNanos: bigint;
  /** @param range of ends of windows */
  within(range: SelectRange): {
    readonly rows: Pick<RowsOfWindows, 'selectAny' | 'dropped'>;
    /** Null where windows are made of all rows. */
    readonly kept: WindowsKept | null;
  };
}

/** Rows of which windows are made: samples, and those that rules drop. A row that both have counts once. */
export class RowsOfWindows implements Pick<SeriesSource, 'selectAny'> {
  readonly #setup: SourceSetup;
  readonly #samples: SamplesSource;
  /** Null where there is none. */
  readonly dropped: NamespaceSource | null;

  /** @param droppedNamespace null where there is none */
  constructor(
    setup: SourceSetup,
    samples: SamplesSource,
    droppedNamespace: string | null,
    restriction: Restriction | null,
  ) {
    this.#setup = setup;
    this.#samples = samples.restrictedTo(restriction);
    this.dropped =
      droppedNamespace === null
        ? null
        : new NamespaceSource(setup, droppedNamespace, 'samples', restriction);
  }

  async selectAny(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    const sources = this.dropped === null ? [this.#samples] : [this.#samples, this.dropped];
    const results = await Promise.all(
      sources.map((source) => source.selectAny(matcherLists, range, limits, signal)),
    );
    return joinedRows(results, limits, () => this.#setup.turningOf(signal).work);
  }
}

/** What one reading asks of its parts. */
interface Asked {
  readonly matcherLists: readonly (readonly Matcher[])[];
  readonly limits: SelectLimits;
  readonly signal: AbortSignal;
  /** As what values of windows are read; null where all are in one way. */
  readonly types: WindowTypes | null;
  /** Of what is found by these. */
  readonly scales: FoundScales;
}

/** What is read of a series. */
interface SeriesColumns {
  readonly ofWindows: readonly {
    readonly range: SelectRange;
    readonly column: ReadColumn | ValueColumn;
  }[];
  /** Of floats in the place of windows: where values are asked for, these are what somebody has written. */
  readonly ofFloats: ReadColumn;
}

const columnOfType: Readonly<Record<Exclude<WindowType, 'Last'>, ValueColumn['value']>> = {
  Mean: 'mean',
  Min: 'min',
  Max: 'max',
  Sum: 'sum',
  Count: 'count',
};

const wordOfScale: ReadonlyMap<string, string> = new Map([
  ['sum', 'sums'],
  ['count', 'counts'],
]);

/** What values of windows are that were found. */
class FoundScales {
  /** In words. */
  readonly #windows: string;
  readonly #others = new Set<string>();
  /** One series has values of both kinds. */
  #isMixed = false;

  constructor({ resolutionMillis }: Pick<SelectWindows, 'resolutionMillis'>) {
    this.#windows = `windows of ${resolutionMillis / 1000} s`;
  }

  /** @param columns of one series, in which there were rows */
  add(columns: readonly (ReadColumn | ValueColumn)[]): void {
    const words = columns.map((column) =>
      typeof column === 'string' ? undefined : wordOfScale.get(column.value),
    );
    const others = words.filter((word) => word !== undefined);
    for (const word of others) this.#others.add(`${word} of ${this.#windows}`);
    if (others.length > 0 && others.length < words.length) this.#isMixed = true;
  }

  /** Series of one scale beside series of another one have no step, as far as these windows tell. */
  of({ bundle }: SelectResult): ReadScales {
    const hasOfSamples = this.#others.size === 0 ? hasRows(bundle) : this.#isMixed;
    const ofSamples = new Set(hasOfSamples ? [`values of ${this.#windows}`] : []);
    return { ofSamples, others: this.#others };
  }
}

export class WindowsSource {
  readonly #setup: SourceSetup;
  readonly #windows: ReadWindows;
  readonly #source: NamespaceSource;
  readonly #recent: RecentRows | null;
  readonly #places: SeriesPlaces | null;

  /**
   * @param restriction to some of its series
   * @param recent null for what nodes have made alone
   * @param places null where no rule says as what windows are read
   */
  constructor(
    setup: SourceSetup,
    windows: ReadWindows,
    restriction: Restriction | null = null,
    recent: RecentRows | null = null,
    places: SeriesPlaces | null = null,
  ) {
    this.#setup = setup;
    this.#places = places;
    this.#windows = windows;
    this.#source = new NamespaceSource(setup, windows.namespace, 'windows', restriction);
    this.#recent = recent;
  }

  select(
    matchers: readonly Matcher[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    return this.selectAny([matchers], range, limits, signal);
  }

  async selectAny(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    const recent = this.#recent;
    const whole = within64Bits(range);
    const { startNanos, endNanos } = whole;
    const asksValues = isOfValues(this.#windows.column);
    const types = asksValues ? await this.#types(matcherLists, whole, signal) : null;
    const scales = new FoundScales(this.#windows);
    const asked: Asked = { matcherLists, limits, signal, types, scales };
    const cutNanos = recent === null ? endNanos : firstWindowEnd(recent);
    const made =
      startNanos < cutNanos ? { startNanos, endNanos: lesser(endNanos, cutNanos) } : null;
    const late =
      endNanos > cutNanos ? { startNanos: greater(startNanos, cutNanos), endNanos } : null;
    const folded = late === null || recent === null ? null : endedOf(late, recent);
    const parts = await Promise.all([
      made === null ? null : this.#made(made, 'all', asked),
      // Rollups are there at once, and what somebody has written by its name.
      late === null ? null : this.#made(late, 'floats', { ...asked, types: null }),
      folded === null || recent === null ? null : this.#folded(recent, folded, asked),
    ]);
    const results = parts.filter((part) => part !== null);
    const joined = await joinedRows(results, limits, () => this.#setup.turningOf(signal).work);
    return asksValues ? { ...joined, scales: scales.of(joined) } : joined;
  }

  async #types(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    signal: AbortSignal,
  ): Promise<WindowTypes | null> {
    if (this.#places === null) return null;
    const { work } = this.#setup.turningOf(signal);
    return withRests(this.#places.types(this.#windows, matcherLists, range), async () => {
      if (work.spend(unitsOfRules)) await work.pause();
    });
  }

  /** @param which windows, and floats in their place; or these alone */
  async #made(
    range: SelectRange,
    which: 'all' | 'floats',
    { matcherLists, limits, signal, types, scales }: Asked,
  ): Promise<SelectResult> {
    const { resolutionMillis } = this.#windows;
    const resolutionNanos = BigInt(resolutionMillis) * nanosPerMilli;
    const result = await this.#source.selectAny(matcherLists, range, limits, signal);
    const inside = [range.startNanos, range.endNanos] as const;
    return withChunks(this.#setup, result, limits, signal, async (chunks, work, tags) => {
      const { floats, typed } = apart([chunks]);
      // What rules say is about windows.
      const said = typed.length === 0 ? null : types;
      const { ofFloats, ofWindows } = await this.#columnsOf(tags, range, said, work);
      // Floats are there where somebody has written into it by its name, and those of rollups.
      const made = floats.map((chunk) => floatsInPlaceOfWindows(chunk, ofFloats, inside));
      if (which === 'floats') return made;
      const counter = new CounterRows(resolutionNanos);
      const found: (ReadColumn | ValueColumn)[] = [];
      for (const { range: some, column } of ofWindows) {
        const ends = [some.startNanos, some.endNanos] as const;
        for (const part of eachFloatsOfWindows(typed, column, ends, counter)) {
          made.push(part);
          if (said !== null && !hasTyped([part])) found.push(column);
          if (work.spend(unitsAByte * part.length)) await work.pause();
        }
      }
      scales.add(found);
      return made;
    });
  }

  /** @param range of ends of windows */
  async #folded(
    recent: RecentRows,
    range: SelectRange,
    { matcherLists, limits, signal, types, scales }: Asked,
  ): Promise<SelectResult> {
    const { resolutionNanos } = recent;
    const { rows, kept } = recent.within(range);
    const ofEnds = rowsOfEnds(range, resolutionNanos);
    const result = await rows.selectAny(matcherLists, ofEnds, limits, signal);
    return withChunks(this.#setup, result, limits, signal, async (chunks, work, tags) => {
      const made: Uint8Array[] = [];
      const found: (ReadColumn | ValueColumn)[] = [];
      const { ofWindows } = await this.#columnsOf(tags, range, types, work);
      if (kept !== null && work.spend(kept.units(tags.length))) await work.pause();
      for (const some of kept === null ? [range] : kept.of(tags)) {
        for (const { range: part, column } of ofWindows) {
          const of = rowsOfEnds(common(some, part), resolutionNanos);
          if (of.startNanos >= of.endNanos) continue;
          const parts = await recentWindows(chunks, of, resolutionNanos, column, work);
          made.push(...parts);
          if (types !== null && parts.some((each) => !hasTyped([each]))) found.push(column);
        }
      }
      scales.add(found);
      return made;
    });
  }

  async #columnsOf(
    tags: Uint8Array,
    range: SelectRange,
    types: WindowTypes | null,
    work: Work,
  ): Promise<SeriesColumns> {
    const { column } = this.#windows;
    if (!isOfValues(column)) {
      const isBySeries = typeof column !== 'string';
      if (isBySeries && work.spend(column.units(tags.length))) await work.pause();
      const read = isBySeries ? column.of(tags) : column;
      return { ofWindows: [{ range, column: read }], ofFloats: read };
    }
    const last: 'last' | 'number' = column === 'value' ? 'last' : 'number';
    if (types === null) return { ofWindows: [{ range, column: last }], ofFloats: last };
    const steps = types.of(tags);
    let step = steps.next();
    for (; step.done !== true; step = steps.next()) {
      if (work.spend(step.value)) await work.pause();
    }
    const parts = step.value.map(({ type, ...part }) => ({
      range: common(part, range),
      column: type === 'Last' ? last : { value: columnOfType[type], ends: column === 'value' },
    }));
    const ofWindows = parts.filter((part) => part.range.startNanos < part.range.endNanos);
    return { ofWindows, ofFloats: last };
  }
}

function isOfValues(column: AskedColumn | ColumnBySeries): column is 'value' | 'numericValue' {
  return column === 'value' || column === 'numericValue';
}

/** What two ranges have in common; it ends before it starts where they have nothing. */
function common(a: SelectRange, b: SelectRange): SelectRange {
  return {
    startNanos: greater(a.startNanos, b.startNanos),
    endNanos: lesser(a.endNanos, b.endNanos),
  };
}

/** Without windows that have not ended; null when there are no others. */
function endedOf(
  { startNanos, endNanos }: SelectRange,
  { nowNanos, resolutionNanos }: RecentRows,
): SelectRange | null {
  const range = { startNanos, endNanos: lesser(endNanos, floorTo(nowNanos, resolutionNanos) + 1n) };
  return range.startNanos < range.endNanos ? range : null;
}

/** Rows of the windows that end in a range. */
export function rowsOfEnds({ startNanos, endNanos }: SelectRange, resolution: bigint): SelectRange {
  return {
    startNanos: floorTo(startNanos - 1n, resolution) + 1n,
    endNanos: floorTo(endNanos - 1n, resolution) + 1n,
  };
}

/** The first window of whose rows none is past retention. */
export function firstWindowEnd({ fromNanos, resolutionNanos }: RecentRows): bigint {
  return floorTo(fromNanos - 1n, resolutionNanos) + 2n * resolutionNanos;
}
