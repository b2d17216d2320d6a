/** Whether queries count every row once, from whatever resolutions they read it, all the while. */
import type { PromqlEngine } from '#coordinator/promql/engine.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { SeededRandom } from '#test/seeded_random.ts';
import { namespace, type SimulatedCluster } from '../cluster/cluster.ts';
import { rowsOfAll, type Written } from '../cluster/history.ts';
import { requestSignal } from '../cluster/request_signal.ts';
import { seriesName } from '../cluster/series.ts';
import type { SimulatedCoordinator } from '../cluster/world.ts';
import { isOfFewer } from './fewer_replicas.ts';
import type { StoredRules } from './rules.ts';
import { resolutions, rowNamespaces } from './shape.ts';

/** Four of the coarsest windows, which no function widens, and where all windows end. */
const rangeMillis = 240_000;
const gridMillis = 60_000;
/** Rows and windows this near to the end of their retention may be gone, or the next coarser ones are read. */
const expiryMarginMillis = 150_000;
const options = {
  lookbackMillis: 60_000,
  samplesMax: 1_000_000,
  limits: { seriesMax: 0, requireExhaustive: true },
};

/** What a series counts, at least and at most. */
interface Counts {
  readonly least: number;
  readonly most: number;
}

export class QueryChecks {
  readonly #cluster: SimulatedCluster;
  readonly #rules: StoredRules;
  readonly #engineOf: (coordinator: SimulatedCoordinator) => PromqlEngine;
  readonly #beginMillis: number;

  constructor(
    cluster: SimulatedCluster,
    rules: StoredRules,
    engineOf: (coordinator: SimulatedCoordinator) => PromqlEngine,
  ) {
    this.#cluster = cluster;
    this.#rules = rules;
    this.#engineOf = engineOf;
    const begin = Math.ceil(cluster.world.wallMillis / gridMillis) * gridMillis;
    this.#beginMillis = begin + rangeMillis;
  }

  /** Counts at some time of the run. */
  async look(coordinator: SimulatedCoordinator, random: SeededRandom): Promise<void> {
    const past = Math.floor((this.#cluster.world.wallMillis - this.#beginMillis) / gridMillis);
    if (past < 0) return;
    await this.#lookAt(coordinator, this.#beginMillis + random.below(past + 1) * gridMillis);
  }

  /** At all times of the run, after it: now nothing may be in the way. */
  async check(stoppedMillis: number): Promise<void> {
    const [coordinator] = this.#cluster.world.coordinators;
    for (let at = this.#beginMillis; at <= stoppedMillis; at += gridMillis) {
      if (await this.#lookAt(coordinator!, at)) continue;
      this.#cluster.fail('rows cannot be counted although nothing ails the cluster');
    }
  }

  /** @returns whether there was a whole answer */
  async #lookAt(coordinator: SimulatedCoordinator, timeMillis: number): Promise<boolean> {
    const { world } = this.#cluster;
    const wanted = this.#wantedAt(timeMillis);
    if (wanted === null) return true;
    const counts = new Map<string, number>();
    let isWhole: boolean;
    try {
      const text = `count_over_time(m[${rangeMillis}ms])`;
      const engine = this.#engineOf(coordinator);
      const result = await engine.instantQuery(text, timeMillis, options, requestSignal());
      isWhole = !isOfFewer(result.warnings);
      for (const { labels, points } of result.series()) {
        counts.set(seriesName(Number(labels.get('s'))), points[0]!.value as number);
      }
    } catch (error) {
      if (!(error instanceof TsdbError)) throw error;
      world.trace(`${coordinator.id} did not count: ${messageOf(error)}`);
      return false;
    }
    if (!isWhole) this.#cluster.note('queries that were answered by fewer replicas than asked for');
    // Rows may have come while it was under way.
    const possible = this.#wantedAt(timeMillis);
    for (const [series, { least }] of wanted) {
      const most = possible?.get(series)?.most;
      if (most === undefined) continue;
      this.#cluster.note('series whose rows were counted by a query');
      const count = counts.get(series) ?? 0;
      const fewest = isWhole ? least : 0;
      if (count >= fewest && count <= most) continue;
      this.#cluster.fail(
        `${coordinator.id} counts ${count} rows of ${series} in the ${rangeMillis} ms up to ${timeMillis}, not ${fewest} to ${most}`,
      );
    }
    return isWhole;
  }

  /** Of the series of which it is sure where they are; null where rules change. */
  #wantedAt(timeMillis: number): Map<string, Counts> | null {
    const { world } = this.#cluster;
    const fromMillis = timeMillis - rangeMillis;
    if (!this.#rules.areSame(fromMillis - gridMillis, timeMillis)) return null;
    const histories = rowNamespaces.map((name) => this.#cluster.historyOf(name));
    const startedMillis = world.time.nowMillis;
    const wanted = new Map<string, Counts>();
    for (const [series, rows] of rowsOfAll(histories, fromMillis + 1, timeMillis)) {
      if (!this.#isKept(series, fromMillis, timeMillis)) continue;
      const isIn = (history: (typeof histories)[number]): boolean =>
        history.wasDeletedIn(series, fromMillis - gridMillis, timeMillis);
      if (histories.some(isIn)) continue;
      const numbers = [...rows.values()].filter(([first]) => !Number.isNaN(first!.value));
      const isSure = (writes: readonly Written[]): boolean =>
        writes.some((each) => each.isAcknowledged && each.settledMillis < startedMillis);
      wanted.set(series, { least: numbers.filter(isSure).length, most: numbers.length });
    }
    return wanted;
  }

  /** Whether samples or windows of all of the range are there. */
  #isKept(series: string, fromMillis: number, timeMillis: number): boolean {
    const { world } = this.#cluster;
    const isRaw = this.#rules.keepsSamples(series, timeMillis);
    const samples = this.#cluster.keptMillis(namespace).fromMillis + expiryMarginMillis;
    if (isRaw && fromMillis > samples) return true;
    return resolutions.some(
      (shape) =>
        fromMillis > world.wallMillis - shape.retentionMillis + expiryMarginMillis &&
        this.#rules.keepsWindow(shape, series, timeMillis),
    );
  }
}
