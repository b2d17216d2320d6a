/** Whether queries find what there is in every stretch of time, at whatever resolution it is kept there. */
import type { Fanout } from '#coordinator/select/fanout.ts';
import type { Matcher } from '#coordinator/select/storage.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { SeededRandom } from '#test/seeded_random.ts';
import type { SimulatedCluster } from '../cluster/cluster.ts';
import { rowsOfAll, type Written } from '../cluster/history.ts';
import { requestSignal } from '../cluster/request_signal.ts';
import type { SimulatedCoordinator } from '../cluster/world.ts';
import { namesOf } from '../cluster/windows/rows.ts';
import type { WindowsShape } from '../cluster/windows/shape.ts';
import { isOfFewer } from './fewer_replicas.ts';
import type { StoredRules } from './rules.ts';
import { resolutions, rowNamespaces } from './shape.ts';

const nanosPerMilli = 1_000_000n;
/** Of the coarsest two windows at least. */
const stretchMillis = 120_000;
/** Windows this near to the end of their retention may be gone, or coarser ones of their time are read. */
const expiryMarginMillis = 150_000;
const limits = { seriesMax: 0, requireExhaustive: true };

export class FoundChecks {
  readonly #cluster: SimulatedCluster;
  readonly #rules: StoredRules;
  readonly #storageOf: (coordinator: SimulatedCoordinator) => Fanout;
  readonly #beginMillis: number;

  constructor(
    cluster: SimulatedCluster,
    rules: StoredRules,
    storageOf: (coordinator: SimulatedCoordinator) => Fanout,
  ) {
    this.#cluster = cluster;
    this.#rules = rules;
    this.#storageOf = storageOf;
    this.#beginMillis = Math.floor(cluster.world.wallMillis);
  }

  /** Looks for the series of some stretch of the run. */
  async look(coordinator: SimulatedCoordinator, random: SeededRandom): Promise<void> {
    const pastMillis = Math.floor(this.#cluster.world.wallMillis) - this.#beginMillis;
    if (pastMillis < stretchMillis) return;
    await this.#lookIn(
      coordinator,
      this.#beginMillis + random.below(pastMillis - stretchMillis + 1),
    );
  }

  /** All of the run, after it: now nothing may be in the way. */
  async check(stoppedMillis: number): Promise<void> {
    const [coordinator] = this.#cluster.world.coordinators;
    for (let at = this.#beginMillis; at + stretchMillis <= stoppedMillis; at += stretchMillis) {
      if (await this.#lookIn(coordinator!, at)) continue;
      this.#cluster.fail('series cannot be looked for although nothing ails the cluster');
    }
  }

  /** @returns whether there was a whole answer */
  async #lookIn(coordinator: SimulatedCoordinator, fromMillis: number): Promise<boolean> {
    const { world } = this.#cluster;
    const toMillis = fromMillis + stretchMillis;
    const range = {
      startNanos: BigInt(fromMillis) * nanosPerMilli,
      endNanos: BigInt(toMillis + 1) * nanosPerMilli,
    };
    const matchers: readonly Matcher[] = [{ name: '__name__', kind: '=', value: 'm' }];
    // What was acknowledged meanwhile need not be there.
    const wanted = this.#wantedIn(fromMillis, toMillis);
    let series: ReadonlySet<string>;
    try {
      const storage = this.#storageOf(coordinator);
      const found = await storage.series([matchers], range, limits, requestSignal());
      const { bundle, warnings } = found;
      if (isOfFewer(warnings)) {
        this.#cluster.note('looks for series that were answered by fewer replicas than asked for');
        return false;
      }
      series = namesOf(bundle);
    } catch (error) {
      if (!(error instanceof TsdbError)) throw error;
      world.trace(`${coordinator.id} did not look for series: ${messageOf(error)}`);
      return false;
    }
    for (const [name, why] of wanted) {
      this.#cluster.note('series looked for in a stretch');
      if (series.has(name)) continue;
      this.#cluster.fail(
        `${coordinator.id} does not find ${name} between ${fromMillis} and ${toMillis}: ${why}`,
      );
    }
    return true;
  }

  /** Series that must be found, and what of them. */
  #wantedIn(fromMillis: number, toMillis: number): Map<string, string> {
    const { world } = this.#cluster;
    const wanted = new Map<string, string>();
    const now = world.wallMillis;
    const histories = rowNamespaces.map((name) => this.#cluster.historyOf(name));
    const [samples] = rowNamespaces as [string];
    for (const [series, rows] of this.#cluster.historyOf(samples).rowsIn(fromMillis, toMillis)) {
      const kept = this.#cluster.keptMillis(samples).fromMillis;
      const row = rows.find(([millis, writes]) => millis > kept && isThere(writes));
      if (row !== undefined) wanted.set(series, `it has a row at ${row[0]}`);
    }
    for (const shape of resolutions) {
      const first = Math.max(fromMillis, now - shape.retentionMillis + expiryMarginMillis);
      for (let end = endOf(first, shape); end <= toMillis; end += shape.windowMillis) {
        const rows = rowsOfAll(histories, end - shape.windowMillis + 1, end);
        for (const [series, writes] of rows) {
          if (!this.#rules.keepsWindow(shape, series, end)) continue;
          if ([...writes.values()].some(isThere)) {
            wanted.set(series, `it has a window of ${shape.namespace} up to ${end}`);
          }
        }
      }
    }
    for (const series of wanted.keys()) {
      const wasDeleted = histories.some((history) =>
        history.wasDeletedIn(series, fromMillis - stretchMillis, toMillis),
      );
      if (wasDeleted) wanted.delete(series);
    }
    return wanted;
  }
}

/** The end of the first window that begins at a time, or later. */
function endOf(millis: number, { windowMillis }: WindowsShape): number {
  return Math.ceil(millis / windowMillis) * windowMillis + windowMillis;
}

function isThere(writes: readonly Written[]): boolean {
  return writes.every((each) => each.isAcknowledged && !Number.isNaN(each.value));
}
