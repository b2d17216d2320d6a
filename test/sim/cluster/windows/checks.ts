/**
 * Windows of an aggregated namespace, held against the rows that they are to be of (docs/AGGREGATION.md): at the end those
 * of rows that are still there, and of rows that have expired what was known of them before.
 */
import type { FetchResult } from '#cluster/session/types.ts';
import { foldTwin } from '#engine/aggregation/fold_twin.ts';
import { bitsOfDouble } from '#engine/typed/typed_value.ts';
import { TsdbError } from '#lib/errors.ts';
import { samplesOfBundle } from '#node/storage/database_testing.ts';
import { blockMillis, namespace, retentionMillis, type SimulatedCluster } from '../cluster.ts';
import { requestSignal } from '../request_signal.ts';
import { type Seen, seenOf, textOf, type WindowsBySeries, windowsOf } from './rows.ts';
import { windowMillis, windowsNamespace } from './shape.ts';

/** Rows of this age come no more, and expire later. */
const notedAgeMillis = 120_000;
/**
 * So long windows may lack something when nothing is written any more: the last block is closed and flushed, what is
 * deleted is rewritten, and slices are made again.
 */
const rightMillisMax = 210_000;
/** Until filesets are without what was deleted, and windows are made again. */
const remadeMillis = 100_000;
const nanosPerMilli = 1_000_000n;
const windowNanos = BigInt(windowMillis) * nanosPerMilli;

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
  readonly #noted: Noted[] = [];
  #notedMillis: number;
  /** By series and end: undefined where there is to be none. */
  readonly #required = new Map<string, Map<number, Seen | undefined>>();

  constructor(cluster: SimulatedCluster) {
    this.#cluster = cluster;
    this.#notedMillis = endOf(cluster.world.wallMillis);
  }

  /** To be called while there are rows: before they expire it is noted what their windows must have. */
  note(): void {
    const { world } = this.#cluster;
    const history = this.#cluster.historyOf(namespace);
    const untilMillis = endOf(world.wallMillis - notedAgeMillis) - windowMillis;
    for (; this.#notedMillis < untilMillis; this.#notedMillis += windowMillis) {
      const endMillis = this.#notedMillis + windowMillis;
      for (const [series, rows] of history.rowsIn(this.#notedMillis + 1, endMillis)) {
        // Which of several values stays is held against reads of the rows themselves.
        if (rows.some((writes) => writes.length > 1)) continue;
        const [acknowledged, others] = [true, false].map((is) =>
          rows.flatMap((writes) => writes.filter((one) => one.isAcknowledged === is)),
        ) as [(typeof rows)[number], (typeof rows)[number]];
        if (acknowledged.length === 0) continue;
        this.#noted.push({
          series,
          endMillis,
          acknowledged: acknowledged.map(({ value }) => value),
          others: others.map(({ value }) => value),
        });
      }
    }
  }

  /** Waits until the windows are right; nothing may be written any more. The run fails when they are not. */
  async settle(): Promise<void> {
    const { world } = this.#cluster;
    const stoppedMillis = endOf(world.wallMillis) - windowMillis;
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
    const history = this.#cluster.historyOf(namespace);
    for (const noted of this.#noted) {
      const { series, endMillis } = noted;
      if (history.wasDeletedIn(series, endMillis - windowMillis + 1, endMillis)) continue;
      this.#cluster.note('windows checked after their rows');
      const problem = problemOf(noted, found.get(series)?.get(endMillis));
      if (problem === null) continue;
      this.#cluster.fail(`window of ${series} up to ${endMillis} ${problem}`);
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
        if (this.#mayDiffer(series, endMillis, expected, actual)) continue;
        return `${series} up to ${endMillis} is ${textOf(actual)}, its rows come to ${textOf(expected)}`;
      }
    }
    this.#cluster.note('windows checked', checked);
    return null;
  }

  /**
   * A window may have a row that was never acknowledged, and that nobody has any more: whoever had it alone has lost its disk
   * since, which a majority survives.
   */
  #mayDiffer(
    series: string,
    endMillis: number,
    expected: Seen | undefined,
    actual: Seen | undefined,
  ): boolean {
    const history = this.#cluster.historyOf(namespace);
    const [found] = [...history.rowsIn(endMillis - windowMillis + 1, endMillis)].filter(
      ([name]) => name === series,
    );
    const unknown = (found?.[1] ?? []).flat().filter((written) => !written.isAcknowledged);
    const more = (actual?.count ?? 0) - (expected?.count ?? 0);
    if (more < 0 || unknown.length === 0 || more > unknown.length) return false;
    this.#cluster.note('windows with rows that were never acknowledged');
    const sum = (actual?.sum ?? 0) - (expected?.sum ?? 0);
    return more !== 1 || unknown.some(({ value }) => value === sum);
  }

  /** What windows are to be, as long as their rows are there; what was known last stays so when these are past retention. */
  #require(rows: WindowsBySeries, windows: WindowsBySeries, stoppedMillis: number): void {
    const fromMillis = this.#cluster.keptMillis(namespace).fromMillis + windowMillis;
    const history = this.#cluster.historyOf(namespace);
    for (const series of new Set([...rows.keys(), ...windows.keys()])) {
      const [ofRows, found] = [rows.get(series), windows.get(series)];
      const required = this.#required.get(series) ?? new Map<number, Seen | undefined>();
      this.#required.set(series, required);
      const ends = [ofRows, found, required].flatMap((some) => [...(some?.keys() ?? [])]);
      for (const endMillis of new Set(ends)) {
        if (endMillis <= fromMillis || endMillis > stoppedMillis) continue;
        // What is deleted when rows are about to expire finds their slice frozen.
        const isLate = endMillis < stoppedMillis - retentionMillis + blockMillis + remadeMillis;
        if (isLate && history.wasDeletedIn(series, endMillis - windowMillis + 1, endMillis)) {
          required.delete(endMillis);
          continue;
        }
        required.set(endMillis, ofRows?.get(endMillis));
      }
    }
  }

  async #rows(): Promise<WindowsBySeries | null> {
    const result = await this.#fetch(namespace, this.#cluster.world.wallMillis - retentionMillis);
    if (result === null) return null;
    return new Map(
      [...samplesOfBundle(result.bundle)].map(([series, samples]) => [
        series,
        seenOf(
          foldTwin(
            samples.map(([nanos, value]) => ({ nanos, bits: bitsOfDouble(value) })),
            windowNanos,
          ),
        ),
      ]),
    );
  }

  async #windows(): Promise<WindowsBySeries | null> {
    const result = await this.#fetch(windowsNamespace, 0);
    return result === null ? null : windowsOf(result.bundle);
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

/** The end of the window that a time is in. */
function endOf(millis: number): number {
  return Math.ceil(millis / windowMillis) * windowMillis;
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
