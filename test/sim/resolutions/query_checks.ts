/**
 * Whether queries count every row once, from whatever resolutions they read it, and read windows as rules say, all the while.
 */
import type { PromqlEngine } from '#coordinator/promql/engine.ts';
import type { WindowType } from '#cluster/aggregation_rules/aggregation_types.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { SeededRandom } from '#test/seeded_random.ts';
import { namespace, type SimulatedCluster } from '../cluster/cluster.ts';
import { rowsOfAll, type Written } from '../cluster/history.ts';
import { requestSignal } from '../cluster/request_signal.ts';
import { seriesName } from '../cluster/series.ts';
import type { WindowsShape } from '../cluster/windows/shape.ts';
import type { SimulatedCoordinator } from '../cluster/world.ts';
import type { ResolutionsCoordinator } from './coordinator.ts';
import { isOfFewer } from './fewer_replicas.ts';
import type { StoredRules } from './rules.ts';
import { resolutions, rowNamespaces } from './shape.ts';

/** Four of the coarsest windows, which no function widens, and where all windows end. */
const rangeMillis = 240_000;
const gridMillis = 60_000;
/** Rows and windows this near to the end of their retention may be gone, or the next coarser ones are read. */
const expiryMarginMillis = 150_000;
/** Windows that end so late may not have ended by the coordinator's clock. */
const clockMarginMillis = 5_000;
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

interface Answer {
  /** By series. */
  readonly values: ReadonlyMap<string, number>;
  readonly isWhole: boolean;
}

export class QueryChecks {
  readonly #cluster: SimulatedCluster;
  readonly #rules: StoredRules;
  readonly #partsOf: (coordinator: SimulatedCoordinator) => ResolutionsCoordinator;
  readonly #beginMillis: number;

  constructor(
    cluster: SimulatedCluster,
    rules: StoredRules,
    partsOf: (coordinator: SimulatedCoordinator) => ResolutionsCoordinator,
  ) {
    this.#cluster = cluster;
    this.#rules = rules;
    this.#partsOf = partsOf;
    const begin = Math.ceil(cluster.world.wallMillis / gridMillis) * gridMillis;
    this.#beginMillis = begin + rangeMillis;
  }

  /** Counts at some time of the run, and reads windows of some namespace. */
  async look(coordinator: SimulatedCoordinator, random: SeededRandom): Promise<void> {
    const past = Math.floor((this.#cluster.world.wallMillis - this.#beginMillis) / gridMillis);
    if (past < 0) return;
    const timeMillis = this.#beginMillis + random.below(past + 1) * gridMillis;
    const shape = random.pick(resolutions);
    await this.#lookAt(coordinator, timeMillis);
    await this.#readAt(coordinator, shape, timeMillis);
  }

  /** At all times of the run, after it: now nothing may be in the way. */
  async check(stoppedMillis: number): Promise<void> {
    const [coordinator] = this.#cluster.world.coordinators;
    for (let at = this.#beginMillis; at <= stoppedMillis; at += gridMillis) {
      if (!(await this.#lookAt(coordinator!, at))) {
        this.#cluster.fail('rows cannot be counted although nothing ails the cluster');
      }
      for (const shape of resolutions) {
        if (await this.#readAt(coordinator!, shape, at)) continue;
        this.#cluster.fail('windows cannot be read although nothing ails the cluster');
      }
    }
  }

  /** Null where there is no answer. */
  async #answer(
    { id }: SimulatedCoordinator,
    engine: () => PromqlEngine,
    text: string,
    timeMillis: number,
  ): Promise<Answer | null> {
    const values = new Map<string, number>();
    try {
      const result = await engine().instantQuery(text, timeMillis, options, requestSignal());
      for (const { labels, points } of result.series()) {
        values.set(seriesName(Number(labels.get('s'))), points[0]!.value as number);
      }
      const isWhole = !isOfFewer(result.warnings);
      if (!isWhole) {
        this.#cluster.note('queries that were answered by fewer replicas than asked for');
      }
      return { values, isWhole };
    } catch (error) {
      if (!(error instanceof TsdbError)) throw error;
      this.#cluster.world.trace(`${id} did not answer ${text}: ${messageOf(error)}`);
      return null;
    }
  }

  /** @returns whether there was a whole answer */
  async #lookAt(coordinator: SimulatedCoordinator, timeMillis: number): Promise<boolean> {
    const wanted = this.#wantedAt(timeMillis);
    if (wanted === null) return true;
    const text = `count_over_time(m[${rangeMillis}ms])`;
    const engine = (): PromqlEngine => this.#partsOf(coordinator).engine;
    const answer = await this.#answer(coordinator, engine, text, timeMillis);
    if (answer === null) return false;
    const { values: counts, isWhole } = answer;
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

  /** The same of windows of a namespace that end then, and what they are read as. */
  async #readAt(
    coordinator: SimulatedCoordinator,
    shape: WindowsShape,
    timeMillis: number,
  ): Promise<boolean> {
    const { world } = this.#cluster;
    if (timeMillis > world.wallMillis - clockMarginMillis) return true;
    const startedMillis = world.time.nowMillis;
    const before = this.#valuesAt(shape, timeMillis, startedMillis);
    const engine = (): PromqlEngine => this.#partsOf(coordinator).engineOf(shape);
    const answer = await this.#answer(coordinator, engine, 'm', timeMillis);
    if (answer === null || !answer.isWhole) return false;
    const after = this.#valuesAt(shape, timeMillis, startedMillis);
    for (const [series, { type, value }] of before) {
      // Rows may have come while it was under way.
      if (!Object.is(after.get(series)?.value, value)) continue;
      this.#cluster.note(`windows read as ${type}`);
      const found = answer.values.get(series);
      if (found === value) continue;
      this.#cluster.fail(
        `${coordinator.id} reads ${found ?? 'nothing'} of ${series} in the window of ${shape.namespace} up to ${timeMillis}, not its ${type} ${value ?? 'that has ended'}`,
      );
    }
    return true;
  }

  /** Windows of which all rows are known; undefined for one that ends with a stale marker. */
  #valuesAt(
    shape: WindowsShape,
    endMillis: number,
    startedMillis: number,
  ): Map<string, { readonly type: WindowType; readonly value: number | undefined }> {
    const { world } = this.#cluster;
    const values = new Map<string, { type: WindowType; value: number | undefined }>();
    if (endMillis < world.wallMillis - shape.retentionMillis + expiryMarginMillis) return values;
    const histories = rowNamespaces.map((name) => this.#cluster.historyOf(name));
    const fromMillis = endMillis - shape.windowMillis + 1;
    for (const [series, rows] of rowsOfAll(histories, fromMillis, endMillis)) {
      if (!this.#rules.keepsWindow(shape, series, endMillis)) continue;
      const wasDeleted = histories.some((history) =>
        history.wasDeletedIn(series, fromMillis - gridMillis, endMillis),
      );
      const areSure = [...rows.values()].every((writes) => isSure(writes, startedMillis));
      if (wasDeleted || !areSure) continue;
      const type = this.#rules.typeOf(shape, series, endMillis);
      const inOrder = [...rows].sort(([a], [b]) => a - b).map(([, writes]) => writes[0]!.value);
      values.set(series, { type, value: valueOf(type, inOrder) });
    }
    return values;
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
      const sure = numbers.filter((writes) => isSure(writes, startedMillis));
      wanted.set(series, { least: sure.length, most: numbers.length });
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

function isSure(writes: readonly Written[], startedMillis: number): boolean {
  return writes.some((each) => each.isAcknowledged && each.settledMillis < startedMillis);
}

/** @param values of all rows of a window, in the order of time, NaN for stale markers */
function valueOf(type: WindowType, values: readonly number[]): number | undefined {
  if (Number.isNaN(values.at(-1)!)) return undefined;
  const numbers = values.filter((value) => !Number.isNaN(value));
  const sum = numbers.reduce((total, value) => total + value, 0);
  switch (type) {
    case 'Last':
      return numbers.at(-1)!;
    case 'Min':
      return Math.min(...numbers);
    case 'Max':
      return Math.max(...numbers);
    case 'Mean':
      return sum / numbers.length;
    case 'Sum':
      return sum;
    case 'Count':
      return numbers.length;
  }
}
