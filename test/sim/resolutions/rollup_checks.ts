/**
 * What rollups have come to at the end of a run, window by window: every row that was acknowledged in time is in, no other
 * but such as somebody wrote, and each once.
 */
import { isSamePolicy } from '#cluster/aggregation_rules/rules.ts';
import type { RuleSetsOverTime } from '#cluster/aggregation_rules/sets/over_time.ts';
import { RollupMarks } from '#cluster/rollups/marks.ts';
import { shareOfCoordinators } from '#cluster/rollups/share.ts';
import { TsdbError } from '#lib/errors.ts';
import type { Tags } from '#lib/tags.ts';
import { retentionMillis, type SimulatedCluster } from '../cluster/cluster.ts';
import { rowsOfAll, type Written } from '../cluster/history.ts';
import { requestSignal } from '../cluster/request_signal.ts';
import { clusterName } from '../cluster/world.ts';
import { floatsOf } from '../cluster/windows/rows.ts';
import type { WindowsShape } from '../cluster/windows/shape.ts';
import type { ReadLog } from './read_log.ts';
import { type StoredRules, tagsOfSeries } from './rules.ts';
import { bufferPastMillis, policyOf, rowNamespaces } from './shape.ts';

const nanosPerMilli = 1_000_000n;
/** Windows this near to the end of their retention may be gone. */
const expiryMarginMillis = 30_000;
const finalMillisMax = 300_000;

/** Rows that a window of an output is made of. */
interface Group {
  readonly tags: Tags;
  /** Whether it is how many there were up to then, those of windows before among them. */
  readonly isTotal: boolean;
  /** Acknowledged before windows are final, and never deleted. */
  readonly sure: number[];
  /** Written somehow. */
  readonly perhaps: number[];
}

export class RollupChecks {
  readonly #cluster: SimulatedCluster;
  readonly #rules: StoredRules;
  readonly #reads: ReadLog;
  readonly #shape: WindowsShape;
  /** Up to where somebody said first that windows are final; null before. */
  #beginMillis: number | null = null;
  /** What series of totals had come to, by the last of their windows. */
  readonly #totals = new Map<string, { readonly endMillis: number; readonly value: number }>();

  constructor(cluster: SimulatedCluster, rules: StoredRules, reads: ReadLog, shape: WindowsShape) {
    this.#cluster = cluster;
    this.#reads = reads;
    this.#rules = rules;
    this.#shape = shape;
  }

  /** To be called all the time. */
  async note(): Promise<void> {
    if (this.#beginMillis !== null) return;
    this.#beginMillis = await this.#finalMillis();
  }

  /** Waits until all windows up to a time are final, and compares them. The run fails when any is wrong. */
  async check(untilMillis: number): Promise<void> {
    if (this.#beginMillis === null) return;
    const { world } = this.#cluster;
    const endMillis = world.time.nowMillis + finalMillisMax;
    while (((await this.#finalMillis()) ?? 0) < untilMillis) {
      if (world.time.nowMillis > endMillis) {
        this.#cluster.fail(`rollups of ${this.#shape.namespace} are not final for ever`);
      }
      await world.time.sleep(5_000);
    }
    const stored = await this.#stored();
    if (stored === null) return this.#cluster.fail('rollups cannot be read');
    const { windowMillis } = this.#shape;
    const kept = world.wallMillis - this.#shape.retentionMillis + expiryMarginMillis;
    const fromMillis = Math.max(this.#beginMillis, kept);
    const { sets } = this.#rules;
    const seen = new Set<string>();
    const first = (Math.floor(fromMillis / windowMillis) + 1) * windowMillis;
    for (let end = first; end <= untilMillis; end += windowMillis) {
      for (const group of this.#groupsOf(sets, end)) {
        if (group.isTotal) this.#compareTotal(group, end, stored, seen);
        else this.#compare(group, end, stored, seen);
      }
    }
    for (const [series, rows] of stored) {
      for (const nanos of rows.keys()) {
        const millis = Number(nanos / nanosPerMilli);
        if (millis < first || millis > untilMillis || seen.has(`${series} ${millis}`)) continue;
        this.#cluster.fail(`${this.#name(series, millis)} is there, of which no rule makes one`);
      }
    }
  }

  #compare(
    { tags, sure, perhaps }: Group,
    endMillis: number,
    stored: ReadonlyMap<string, ReadonlyMap<bigint, number>>,
    seen: Set<string>,
  ): void {
    const [count, sum, max] = ['.count', '.sum', '.upper'].map((agg) => {
      const series = textOf([...tags, { name: 'agg', value: agg }]);
      seen.add(`${series} ${endMillis}`);
      return stored.get(series)?.get(BigInt(endMillis) * nanosPerMilli);
    });
    if (!this.#couldBeRead(endMillis)) return;
    const name = this.#name(textOf(tags), endMillis);
    this.#cluster.note('windows of rollups checked');
    const most = sure.length + perhaps.length;
    if ((count ?? 0) < sure.length || (count ?? 0) > most) {
      const of = `${sure.length} rows were acknowledged in time, ${most} may be in it`;
      this.#cluster.fail(`${name} counts ${count ?? 'nothing'}: ${of}`);
    }
    if (count === undefined || count > sure.length) return;
    const [sumOf, maxOf] = [sure.reduce((a, b) => a + b, 0), Math.max(...sure)];
    if (sum !== sumOf || max !== maxOf) {
      this.#cluster.fail(`${name} comes to ${sum}, at most ${max}, not ${sumOf} and ${maxOf}`);
    }
  }

  /** Each window has as many more than the one before as it has rows, whoever has made them. */
  #compareTotal(
    { tags, sure, perhaps }: Group,
    endMillis: number,
    stored: ReadonlyMap<string, ReadonlyMap<bigint, number>>,
    seen: Set<string>,
  ): void {
    const series = textOf(tags);
    seen.add(`${series} ${endMillis}`);
    const value = stored.get(series)?.get(BigInt(endMillis) * nanosPerMilli);
    const before = this.#totals.get(series);
    if (value !== undefined) this.#totals.set(series, { endMillis, value });
    if (!this.#couldBeRead(endMillis)) return;
    const most = sure.length + perhaps.length;
    const isSo = (count: number): boolean => count >= sure.length && count <= most;
    if (value === undefined) {
      if (sure.length > 0) this.#cluster.fail(`${this.#name(series, endMillis)} is missing`);
      return;
    }
    if (before === undefined) return;
    this.#cluster.note('totals of rollups checked');
    const by = value - before.value;
    // What it had come to has expired.
    const mayBegin =
      endMillis - before.endMillis > this.#shape.retentionMillis - expiryMarginMillis;
    if (isSo(by) || (mayBegin && isSo(value))) return;
    const of = `${sure.length} rows were acknowledged in time, ${most} may be in it`;
    this.#cluster.fail(
      `${this.#name(series, endMillis)} is ${value}, and was ${before.value} up to ${before.endMillis}: ${of}`,
    );
  }

  /** Else nobody could read the rows of a final window before they expired. */
  #couldBeRead(endMillis: number): boolean {
    const expiryMillis = endMillis - this.#shape.windowMillis + retentionMillis;
    if (this.#reads.wereAnswered(endMillis + bufferPastMillis, expiryMillis)) return true;
    this.#cluster.note('windows of rollups that a quorum was away from');
    return false;
  }

  /** Rows of a window by what they are rolled up to. */
  #groupsOf(sets: RuleSetsOverTime, endMillis: number): Iterable<Group> {
    const { windowMillis } = this.#shape;
    const policy = policyOf(this.#shape);
    const beginNanos = BigInt(endMillis - windowMillis) * nanosPerMilli;
    const groups = new Map<string, Group>();
    const { startMillis } = this.#cluster.world;
    const inTimeMillis = endMillis + bufferPastMillis - startMillis;
    const fromMillis = endMillis - windowMillis + 1;
    const histories = rowNamespaces.map((name) => this.#cluster.historyOf(name));
    for (const [series, rows] of rowsOfAll(histories, fromMillis, endMillis)) {
      const tags = tagsOfSeries(series);
      const match = sets.of(tags)?.at(beginNanos).match(tags);
      for (const { output: first, stages, target } of match?.pipelines ?? []) {
        const isOf = target.storagePolicies.some((each) => isSamePolicy(each, policy));
        if (!isOf || first === null) continue;
        const again = stages.find((stage) => stage.type === 'rollup');
        const output = again?.output ?? first;
        const key = textOf(output);
        let group = groups.get(key);
        if (group === undefined) {
          const isTotal = again !== undefined;
          groups.set(key, (group = { tags: output, isTotal, sure: [], perhaps: [] }));
        }
        for (const [millis, writes] of rows) {
          const [{ value }] = writes as [Written];
          if (Number.isNaN(value)) continue;
          const wasDeleted = histories.some((each) => each.wasDeletedIn(series, millis, millis));
          const isSure =
            !wasDeleted &&
            writes.some((each) => each.isAcknowledged && each.settledMillis <= inTimeMillis);
          (isSure ? group.sure : group.perhaps).push(value);
        }
      }
    }
    return groups.values();
  }

  #name(series: string, endMillis: number): string {
    return `rollup ${series} of ${this.#shape.namespace} up to ${endMillis}`;
  }

  async #stored(): Promise<ReadonlyMap<string, ReadonlyMap<bigint, number>> | null> {
    const { world } = this.#cluster;
    const [coordinator] = world.coordinators;
    try {
      const { bundle, exhaustive } = await coordinator!.session.fetch(
        {
          namespace: this.#shape.namespace,
          query: { kind: 'term', field: '__rollup__', term: 'true' },
          startNanos: 0n,
          endNanos: BigInt(Math.floor(world.wallMillis) + 1) * nanosPerMilli,
          seriesLimit: 0,
          requireExhaustive: true,
          fetchData: true,
          consistency: 'majority',
        },
        requestSignal(),
      );
      return exhaustive ? floatsOf(bundle) : null;
    } catch (error) {
      if (!(error instanceof TsdbError)) throw error;
      return null;
    }
  }

  /** As marked in the store; null where nobody has. */
  async #finalMillis(): Promise<number | null> {
    const share = shareOfCoordinators(clusterName, { placement: null, modRevision: 0 })!;
    const marks = new RollupMarks(this.#cluster.world.kvStore.memory!.client(), clusterName);
    const endNanos = await marks.read(policyOf(this.#shape), share, requestSignal());
    return endNanos === null ? null : Number(endNanos / nanosPerMilli);
  }
}

function textOf(tags: Tags): string {
  return tags
    .map(({ name, value }) => `${name}=${value}`)
    .sort()
    .join();
}
