/** A storage of which only some series are there, for who is forced to read no others. */
import type {
  AskedColumn,
  ChosenStorage,
  ColumnBySeries,
  LabelResult,
  Matcher,
  MessagesOfNamespace,
  Restriction,
  SelectLimits,
  SelectRange,
  SelectResult,
  SelectWindows,
  SeriesSource,
  Timeline,
} from '../select/storage.ts';
import { forcedLists, type ForcedTags, isForcing } from './forced_tags.ts';

class ForcedSource implements SeriesSource {
  readonly #source: SeriesSource;
  readonly #forced: ForcedTags;

  constructor(source: SeriesSource, forced: ForcedTags) {
    this.#source = source;
    this.#forced = forced;
  }

  select(
    matchers: readonly Matcher[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
    windows: SelectWindows | null = null,
    restriction: Restriction | null = null,
  ): Promise<SelectResult> {
    const all = [...matchers, ...this.#forced.matchers];
    return this.#source.select(all, range, limits, signal, windows, restriction);
  }

  selectAny(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    return this.#source.selectAny(this.#lists(matcherLists), range, limits, signal);
  }

  series(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    return this.#source.series(this.#lists(matcherLists), range, limits, signal);
  }

  async labelNames(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<LabelResult> {
    const lists = this.#lists(matcherLists);
    const found = await this.#source.labelNames(lists, range, limits, signal);
    const { hidden } = this.#forced;
    return hidden.size === 0
      ? found
      : { ...found, values: found.values.filter((name) => !hidden.has(name)) };
  }

  async labelValues(
    name: string,
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<LabelResult> {
    if (this.#forced.hidden.has(name)) return { values: [], exhaustive: true, warnings: [] };
    return this.#source.labelValues(name, this.#lists(matcherLists), range, limits, signal);
  }

  joinedValues(
    names: readonly string[],
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<LabelResult> {
    return this.#source.joinedValues(names, this.#lists(matcherLists), range, limits, signal);
  }

  #lists(lists: readonly (readonly Matcher[])[]): readonly (readonly Matcher[])[] {
    return forcedLists(lists, this.#forced);
  }
}

/** The part of a storage that is there for who is forced. */
export function forcedTo(storage: ChosenStorage, forced: ForcedTags): ChosenStorage {
  return isForcing(forced) ? new ForcedStorage(storage, forced) : storage;
}

class ForcedStorage extends ForcedSource implements ChosenStorage {
  readonly hidden: ReadonlySet<string>;
  readonly #storage: ChosenStorage;
  readonly #forced: ForcedTags;

  constructor(storage: ChosenStorage, forced: ForcedTags) {
    super(storage, forced);
    this.#storage = storage;
    this.#forced = forced;
    this.hidden = forced.hidden;
  }

  /** Its places are asked with matchers, and may tell of more series than there are here. */
  timeline(): Timeline | null {
    return this.#storage.timeline?.() ?? null;
  }

  selectThroughout(
    matchers: readonly Matcher[],
    range: SelectRange,
    column: AskedColumn | ColumnBySeries,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    const all = [...matchers, ...this.#forced.matchers];
    return this.#storage.selectThroughout(all, range, column, limits, signal);
  }

  messages(): readonly MessagesOfNamespace[] {
    return this.#storage
      .messages()
      .map((each) => ({ ...each, source: new ForcedSource(each.source, this.#forced) }));
  }
}
