/** One call of a function: its arguments, its window, and what it may ask for while it is evaluated. */
import type { Work } from '#lib/turns/turns.ts';
import { badRequest } from '#lib/errors.ts';
import type { RowMaker } from '../series/making.ts';
import { type Series, SeriesGroups } from '../series/series.ts';
import type { TimeContext } from '../time/attime.ts';
import type { Arguments, SeriesSource } from './arguments.ts';
import type { Result, Window } from './window.ts';

/** What changes while a target is evaluated, from left to right. */
export interface TargetState {
  /** As the last `setXFilesFactor` has it; null when there was none. */
  xFilesFactor: number | null;
  /** Totals of `stacked`, by the name of the stack; of all targets of a request. */
  readonly stacks: Map<string, Float64Array<ArrayBuffer>>;
}

/** The evaluator, as functions see it. */
export interface Host {
  readonly work: Work;
  readonly time: TimeContext;
  readonly state: TargetState;
  /** At least 0 and below 1. */
  readonly random: () => number;
  evaluate(source: SeriesSource, window: Window): Promise<Result>;
  /** Evaluates targets that were made of the names of series; all that they read is asked for at once. */
  evaluateTexts(texts: readonly string[], window: Window): Promise<readonly (readonly Series[])[]>;
  /** Whether there is a function of this name that combines a list to one series. */
  isAggregator(name: string): boolean;
  /** Calls a function by its name with lists as its arguments. */
  apply(name: string, lists: readonly (readonly Series[])[], window: Window): Promise<Result>;
  /** Unix seconds of the events in the window that have these tags; of all when null. */
  events(tags: readonly string[] | null, window: Window): Promise<readonly number[]>;
  /** For rows of one series that a call makes, until it ends. @throws as `RowMaker.reserve` */
  reserve(rows: number): Promise<void>;
  release(rows: number): void;
  /** The same for rows that stay until all targets are evaluated, beside results. */
  keep(rows: number): Promise<void>;
  /** The same for characters of names that a call makes. @throws what the memory of reads throws */
  reserveNames(characters: number): Promise<void>;
}

export class Call implements RowMaker {
  readonly arguments: Arguments;
  readonly window: Window;
  readonly host: Host;

  constructor(args: Arguments, window: Window, host: Host) {
    this.arguments = args;
    this.window = window;
    this.host = host;
  }

  get work(): Work {
    return this.host.work;
  }

  reserve(rows: number): Promise<void> {
    return this.host.reserve(rows);
  }

  release(rows: number): void {
    this.host.release(rows);
  }

  /** Of series that are made in this target. */
  get xFilesFactor(): number {
    return this.host.state.xFilesFactor ?? 0;
  }

  /** All series of an argument, for this call's window unless another one is given. */
  async list(name = 'seriesList', window: Window = this.window): Promise<readonly Series[]> {
    const lists: (readonly Series[])[] = [];
    for (const source of this.arguments.sources(name)) {
      lists.push(plainList(await this.host.evaluate(source, window), this.arguments.functionName));
    }
    return lists.length === 1 ? lists[0]! : lists.flat();
  }

  /** Lists as `mapSeries` gives them. */
  async groups(name: string): Promise<readonly (readonly Series[])[]> {
    const lists: (readonly Series[])[] = [];
    for (const source of this.arguments.sources(name)) {
      const result = await this.host.evaluate(source, this.window);
      if (!(result instanceof SeriesGroups)) {
        throw badRequest(
          `cannot evaluate ${this.arguments.functionName}: ${name} has to be lists of series, as mapSeries gives`,
        );
      }
      lists.push(...result.lists);
    }
    return lists;
  }

  /** As `list.map`, giving way between series. */
  async map(
    list: readonly Series[],
    map: (series: Series) => Series | Promise<Series>,
    unitsOfRow = 4,
  ): Promise<Series[]> {
    const mapped: Series[] = [];
    let characters = 0;
    for (const series of list) {
      const made = await map(series);
      mapped.push(made);
      if (made.name !== series.name) characters += made.name.length;
      if (characters >= charactersAtOnce) {
        await this.host.reserveNames(characters);
        characters = 0;
      }
      if (this.work.spend(seriesUnits + unitsOfRow * series.values.length)) await this.work.pause();
    }
    return mapped;
  }

  /** As `list.filter`, giving way between series. */
  async filter(
    list: readonly Series[],
    isKept: (series: Series) => boolean | Promise<boolean>,
    unitsOfRow = 2,
  ): Promise<Series[]> {
    const kept: Series[] = [];
    for (const series of list) {
      if (await isKept(series)) kept.push(series);
      if (this.work.spend(seriesUnits + unitsOfRow * series.values.length)) await this.work.pause();
    }
    return kept;
  }

  /** A key for each series, giving way between them. */
  async keys<Key>(
    list: readonly Series[],
    keyOf: (series: Series) => Key | Promise<Key>,
  ): Promise<Awaited<Key>[]> {
    const keys: Awaited<Key>[] = [];
    for (const series of list) {
      keys.push(await keyOf(series));
      if (this.work.spend(seriesUnits + 2 * series.values.length)) await this.work.pause();
    }
    return keys;
  }
}

/** Of a series' name and tags, in units of work. */
const seriesUnits = 200;
/** Characters of names that memory is taken for at a time. */
const charactersAtOnce = 16_384;

/** @throws {TsdbError} BAD_REQUEST when the result is lists of lists */
export function plainList(result: Result, functionName: string): readonly Series[] {
  if (!(result instanceof SeriesGroups)) return result;
  throw badRequest(
    `cannot evaluate ${functionName}: takes series, not the lists that mapSeries gives`,
  );
}
