/**
 * Windows of an aggregated namespace, held against the rows that they are to be of (docs/AGGREGATION.md): at the end those
 * of rows that are still there, and of rows that have expired what was known of them before.
 */
import type { FetchResult } from '#cluster/session/types.ts';
import { foldTwin } from '#engine/aggregation/fold_twin.ts';
import { staleBits } from '#engine/typed/histogram.ts';
import { bitsOfDouble } from '#engine/typed/typed_value.ts';
import { TsdbError } from '#lib/errors.ts';
import { samplesOfBundle } from '#node/storage/database_testing.ts';
import { rowsOfAll, type Written } from '../history.ts';
import { blockMillis, namespace, retentionMillis, type SimulatedCluster } from '../cluster.ts';
import { requestSignal } from '../request_signal.ts';
import { type Seen, seenOf, textOf, type WindowsBySeries, windowsOf } from './rows.ts';
import type { WindowsShape } from './shape.ts';

/** Rows of this age come no more, and expire later. */
const notedAgeMillis = 120_000;
/**
 * So long windows may lack something when nothing is written any more: the last block is closed and flushed, what is
 * deleted is rewritten, and slices are made again.
 */
const rightMillisMax = 210_000;
/** Until filesets are without what was deleted, and windows are made again. */
const remadeMillis = 100_000;
/** Windows this near to the end of their retention may be gone. */
const expiryMarginMillis = 30_000;
const nanosPerMilli = 1_000_000n;

/** What windows are made of, and which of them there are to be. */
export interface WindowRows {
  /** Namespaces of the rows. */
  readonly namespaces: readonly string[];
  /** Whether a series is to have the window that ends then. */
  keeps(series: string, endMillis: number): boolean;
}

const ofSamples: WindowRows = { namespaces: [namespace], keeps: () => true };

/** What a window must have, of rows that are no longer there. */
interface Noted {
  readonly series: string;
  readonly endMillis: number;
  /** Values of rows that were acknowledged, in the order of time. */
  readonly acknowledged: readonly number[];
  /** Of such as may be there. */
  readonly others: readonly number[];
}

export class WindowChecks {
  readonly #cluster: SimulatedCluster;
  readonly #shape: WindowsShape;
  readonly #of: WindowRows;
  #noted: Noted[] = [];
  #notedMillis: number;
  /** By series and end: undefined where there is to be none. */
  readonly #required = new Map<string, Map<number, Seen | undefined>>();

  constructor(cluster: SimulatedCluster, shape: WindowsShape, of: WindowRows = ofSamples) {
    this.#cluster = cluster;
    this.#shape = shape;
    this.#of = of;
    this.#notedMillis = this.#endOf(cluster.world.wallMillis);
  }

  /** The end of the window that a time is in. */
  #endOf(millis: number): number {
    const { windowMillis } = this.#shape;
    return Math.ceil(millis / windowMillis) * windowMillis;
  }

  /** Writes of the rows of a window by series, those of one time together. */
  #rowsUpTo(endMillis: number): ReadonlyMap<string, readonly (readonly Written[])[]> {
    const histories = this.#of.namespaces.map((name) => this.#cluster.historyOf(name));
    const rows = rowsOfAll(histories, endMillis - this.#shape.windowMillis + 1, endMillis);
    return new Map([...rows].map(([series, writes]) => [series, [...writes.values()]]));
  }

  #wasDeleted(series: string, endMillis: number): boolean {
    const fromMillis = endMillis - this.#shape.windowMillis + 1;
    return this.#of.namespaces.some((name) =>
      this.#cluster.historyOf(name).wasDeletedIn(series, fromMillis, endMillis),
    );
  }

  /** Windows of before may have expired. */
  get #keptFromMillis(): number {
    return this.#cluster.world.wallMillis - this.#shape.retentionMillis + expiryMarginMillis;
  }

  /** To be called while there are rows: before they expire it is noted what their windows must have. */
  note(): void {
    const { world } = this.#cluster;
    const { windowMillis } = this.#shape;
    const untilMillis = this.#endOf(world.wallMillis - notedAgeMillis) - windowMillis;
    for (; this.#notedMillis < untilMillis; this.#notedMillis += windowMillis) {
      const endMillis = this.#notedMillis + windowMillis;
      for (const [series, rows] of this.#rowsUpTo(endMillis)) {
        const values = rows.map(rowOf);
        // Which of several values stays is held against reads of the rows themselves.
        if (values.some((row) => row === null)) continue;
        const numbers = values.filter((row) => row !== null && !Number.isNaN(row.value));
        const valuesThat = (isAcknowledged: boolean): number[] =>
          numbers.flatMap((row) => (row!.isAcknowledged === isAcknowledged ? [row!.value] : []));
        const acknowledged = valuesThat(true);
        if (acknowledged.length === 0) continue;
        this.#noted.push({ series, endMillis, acknowledged, others: valuesThat(false) });
      }
    }
    const from = this.#keptFromMillis;
    if ((this.#noted[0]?.endMillis ?? from) < from - blockMillis) {
      this.#noted = this.#noted.filter(({ endMillis }) => endMillis >= from);
    }
  }

  /** Waits until the windows are right; nothing may be written any more. The run fails when they are not. */
  async settle(): Promise<void> {
    const { world } = this.#cluster;
    const stoppedMillis = this.#endOf(world.wallMillis) - this.#shape.windowMillis;
    const endMillis = world.time.nowMillis + rightMillisMax;
    for (;;) {
      const problem = await this.#problem(stoppedMillis);
      if (problem === null) return;
      if (world.time.nowMillis > endMillis) this.#cluster.fail(`windows are wrong: ${problem}`);
      await world.time.sleep(5_000);
    }
  }

  /** What windows lack of rows that have expired; the run fails when they do. */
  async checkNoted(): Promise<void> {
    const found = await this.#windows();
    if (found === null) return this.#cluster.fail('windows cannot be read');
    const from = this.#keptFromMillis;
    for (const noted of this.#noted) {
      const { series, endMillis } = noted;
      if (endMillis < from || this.#wasDeleted(series, endMillis)) continue;
      if (!this.#of.keeps(series, endMillis)) {
        // Rollups have rows of their own there.
        if (found.get(series)?.get(endMillis) === undefined) continue;
        this.#cluster.fail(`${this.#name(series, endMillis)} is there, which no rule keeps`);
        continue;
      }
      this.#cluster.note('windows checked after their rows');
      const problem = problemOf(noted, found.get(series)?.get(endMillis));
      if (problem === null) continue;
      this.#cluster.fail(`${this.#name(series, endMillis)} ${problem}`);
    }
  }

  async #problem(stoppedMillis: number): Promise<string | null> {
    const [rows, windows] = [await this.#rows(), await this.#windows()];
    if (rows === null || windows === null) return 'they cannot be read';
    this.#require(rows, windows, stoppedMillis);
    let checked = 0;
    for (const [series, required] of this.#required) {
      for (const [endMillis, expected] of required) {
        checked += 1;
        const actual = windows.get(series)?.get(endMillis);
        if (textOf(expected) === textOf(actual)) continue;
        if (this.#mayDiffer(series, endMillis, stoppedMillis, expected, actual)) continue;
        return `${this.#name(series, endMillis)} is ${textOf(actual)}, its rows come to ${textOf(expected)}`;
      }
    }
    this.#cluster.note('windows checked', checked);
    return null;
  }

  /**
   * A window may have a row that was never acknowledged, and that nobody has any more: whoever had it alone has lost its disk
   * since, which a majority survives. And who has it alone may come back with it when the window's slice is frozen, or soon.
   */
  #mayDiffer(
    series: string,
    endMillis: number,
    stoppedMillis: number,
    expected: Seen | undefined,
    actual: Seen | undefined,
  ): boolean {
    const rows = this.#rowsUpTo(endMillis).get(series) ?? [];
    const unknown = rows.flat().filter((written) => !written.isAcknowledged);
    const more = (actual?.count ?? 0) - (expected?.count ?? 0);
    if (unknown.length === 0 || Math.abs(more) > unknown.length) return false;
    if (more < 0 && !isLate(endMillis, stoppedMillis)) return false;
    this.#cluster.note(
      `windows ${more < 0 ? 'without' : 'with'} rows that were never acknowledged`,
    );
    const sum = Math.sign(more) * ((actual?.sum ?? 0) - (expected?.sum ?? 0));
    return Math.abs(more) !== 1 || unknown.some(({ value }) => value === sum);
  }

  /** What windows are to be, as long as their rows are there; what was known last stays so when these are past retention. */
  #require(rows: WindowsBySeries, windows: WindowsBySeries, stoppedMillis: number): void {
    const { windowMillis } = this.#shape;
    const fromMillis = this.#cluster.keptMillis(namespace).fromMillis + windowMillis;
    const expiredMillis = this.#keptFromMillis;
    for (const series of new Set([...rows.keys(), ...windows.keys()])) {
      const [ofRows, found] = [rows.get(series), windows.get(series)];
      const required = this.#required.get(series) ?? new Map<number, Seen | undefined>();
      this.#required.set(series, required);
      const ends = [ofRows, found, required].flatMap((some) => [...(some?.keys() ?? [])]);
      for (const endMillis of new Set(ends)) {
        if (endMillis < expiredMillis) {
          required.delete(endMillis);
          continue;
        }
        if (endMillis <= fromMillis || endMillis > stoppedMillis) continue;
        if (isLate(endMillis, stoppedMillis) && this.#wasDeleted(series, endMillis)) {
          required.delete(endMillis);
          continue;
        }
        required.set(
          endMillis,
          this.#of.keeps(series, endMillis) ? ofRows?.get(endMillis) : undefined,
        );
      }
    }
  }

  async #rows(): Promise<WindowsBySeries | null> {
    const bitsOf = new Map<string, Map<bigint, bigint>>();
    for (const name of this.#of.namespaces) {
      const result = await this.#fetch(name, this.#cluster.world.wallMillis - retentionMillis);
      if (result === null) return null;
      for (const [series, samples] of samplesOfBundle(result.bundle)) {
        const bits = bitsOf.get(series) ?? new Map<bigint, bigint>();
        bitsOf.set(series, bits);
        for (const [nanos, value] of samples) {
          bits.set(nanos, Number.isNaN(value) ? staleBits : bitsOfDouble(value));
        }
      }
    }
    const windowNanos = BigInt(this.#shape.windowMillis) * nanosPerMilli;
    const folded = [...bitsOf].map(([series, rows]) => {
      const sorted = [...rows].sort(([a], [b]) => (a < b ? -1 : 1));
      const twin = foldTwin(
        sorted.map(([nanos, bits]) => ({ nanos, bits })),
        windowNanos,
      );
      return [series, seenOf(twin)] as const;
    });
    return new Map(folded);
  }

  async #windows(): Promise<WindowsBySeries | null> {
    const result = await this.#fetch(this.#shape.namespace, 0);
    return result === null ? null : windowsOf(result.bundle);
  }

  #name(series: string, endMillis: number): string {
    return `window of ${series} up to ${endMillis} of ${this.#shape.namespace}`;
  }

  /** Null when no majority answers. */
  async #fetch(name: string, fromMillis: number): Promise<FetchResult | null> {
    const { world } = this.#cluster;
    const [coordinator] = world.coordinators;
    try {
      const result = await coordinator!.session.fetch(
        {
          namespace: name,
          query: { kind: 'all' },
          startNanos: BigInt(Math.floor(fromMillis)) * nanosPerMilli,
          endNanos: BigInt(Math.floor(world.wallMillis) + 1) * nanosPerMilli,
          seriesLimit: 0,
          requireExhaustive: false,
          fetchData: true,
          consistency: 'majority',
        },
        requestSignal(),
      );
      return result.exhaustive ? result : null;
    } catch (error) {
      if (!(error instanceof TsdbError)) throw error;
      return null;
    }
  }
}

/** What changes of rows that are about to expire finds their slice frozen. */
function isLate(endMillis: number, stoppedMillis: number): boolean {
  return endMillis < stoppedMillis - retentionMillis + blockMillis + remadeMillis;
}

/** The row that writes of one time come to; null when it may be one of several. */
function rowOf(
  writes: readonly Written[],
): { readonly value: number; readonly isAcknowledged: boolean } | null {
  const [{ value }] = writes as [Written];
  if (writes.some((each) => !Object.is(each.value, value))) return null;
  return { value, isAcknowledged: writes.some((each) => each.isAcknowledged) };
}

function problemOf({ acknowledged, others }: Noted, found: Seen | undefined): string | null {
  if (found === undefined) return `is missing, ${acknowledged.length} rows were acknowledged`;
  const { count, min, max } = found;
  const most = acknowledged.length + others.length;
  if (count < acknowledged.length || count > most) {
    return `has ${count} rows of ${acknowledged.length} that were acknowledged, ${most} at most`;
  }
  const [least, greatest] = [Math.min(...acknowledged), Math.max(...acknowledged)];
  if (min > least || max < greatest) return `is from ${min} to ${max}, not ${least} to ${greatest}`;
  if (count > acknowledged.length) return null;
  const sum = acknowledged.reduce((total, value) => total + value, 0);
  return found.sum === sum ? null : `comes to ${found.sum}, not ${sum}`;
}
