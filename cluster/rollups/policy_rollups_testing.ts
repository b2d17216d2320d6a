/** Rows of some series, rules that roll them up, and what that has to come to. */
import assert from 'node:assert/strict';
import { murmur3 } from '#lib/hashing/hash.ts';
import type { StoragePolicy } from '../aggregation_rules/rules.ts';
import type { RuleSetsOverTime } from '../aggregation_rules/sets/over_time.ts';
import { ruleSetsOf } from '../aggregation_rules/sets/sets_testing.ts';
import type { ReducedRow } from '../aggregation_rules/rollups/reduce.ts';
import { rollupTwin, textOf, type TwinSeries } from '../aggregation_rules/rollups/rollup_twin.ts';
import { TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { encodeTags, sortTags } from '#lib/tags.ts';
import type { SeriesRows } from './parts/parts.ts';
import type { PolicyRollups, RollupStorage } from './policy_rollups.ts';

export const second: bigint = 1_000_000_000n;
export const minute: bigint = 60n * second;
export const start: bigint = (1_700_000_000n / 600n) * 600n * second;
export const bufferPastNanos: bigint = 10n * minute;
export const log = { warn: () => {}, info: () => {}, error: () => {} } as unknown as Log;

let seed = 9;
/** Below n; the same numbers in each run. */
export const random = (n: number): number => (seed = (seed * 48_271) % 2_147_483_647) % n;

const storagePolicies = [{ resolution: '1m', retention: '40h' }];
export const policy: StoragePolicy = { resolutionNanos: minute, retentionNanos: 2_400n * minute };
const transform = (type: string): object => ({ transform: { type } });
const rules = {
  rollupRules: [
    {
      name: 'total',
      filter: 'app:*',
      transforms: [
        transform('Increase'),
        { rollup: { metricName: 'total', groupBy: ['app'], aggregations: ['Sum'] } },
        transform('Add'),
      ],
      storagePolicies,
    },
    {
      name: 'count',
      filter: 'app:*',
      transforms: [
        { rollup: { metricName: 'rows', groupBy: ['app'], aggregations: ['Count', 'Max'] } },
      ],
      storagePolicies,
    },
    {
      name: 'rate',
      filter: 'app:*',
      transforms: [
        { aggregate: { type: 'Last' } },
        { rollup: { metricName: 'sum', groupBy: ['app'], aggregations: ['Sum'] } },
        transform('PerSecond'),
      ],
      storagePolicies,
    },
  ],
};
export const sets: RuleSetsOverTime = ruleSetsOf([1n, rules]);

export interface TestRow {
  readonly nanos: bigint;
  readonly value: number;
  /** When it is stored. */
  readonly storedNanos: bigint;
}

/** All that is due at a moment, or until something fails that passes. */
export async function advanceAll(
  rollups: PolicyRollups,
  nowNanos: bigint,
  retentionNanos: bigint = 48n * 60n * minute,
): Promise<void> {
  const moment = {
    nowNanos,
    sets,
    rulesKnownNanos: nowNanos - 25n * second,
    bufferPastNanos,
    keptFromNanos: nowNanos - retentionNanos,
  };
  try {
    while (await rollups.advance(moment, new AbortController().signal));
  } catch (error) {
    if (!(error instanceof TsdbError)) throw error;
  }
}

export const numStorageShards = 12;

/** Rows as they are stored, and what is written; a write fails now and then, with some of it done. */
export class MemoryRollups implements RollupStorage, SeriesRows {
  readonly series: { readonly tags: ReturnType<typeof sortTags>; readonly rows: TestRow[] }[] = [];
  readonly stored: Map<string, { row: ReducedRow }> = new Map();
  nowNanos = 0n;
  failsOneIn = 0;
  /** Rows that are further ahead are refused. */
  futureNanosMax: bigint | null = null;
  /** The same of older ones. */
  pastNanosMax: bigint | null = null;
  /** What is stored cannot be read. */
  isUnreadable = false;
  writtenRows = 0;
  /** What is written goes to `#onItsWay`, and nobody is told that it has arrived. */
  isSlow = false;
  #onItsWay: ReducedRow[] = [];
  #finalEnd: bigint | null = null;
  /** From when on windows are made. */
  beginNanos: bigint | null = null;

  async each(...[, range, visit, , shards]: Parameters<SeriesRows['each']>): Promise<void> {
    this.#mayFail();
    for (const { tags, rows } of this.series) {
      if (shards?.has(murmur3(encodeTags(tags)) % numStorageShards) === false) continue;
      const some = rows.filter(
        ({ nanos, storedNanos }) =>
          storedNanos <= this.nowNanos && nanos >= range.startNanos && nanos < range.endNanos,
      );
      visit(encodeTags(tags), () => ({
        timestampNanos: BigInt64Array.from(some, ({ nanos }) => nanos),
        values: Float64Array.from(some, ({ value }) => value),
      }));
    }
  }

  async eachStored(...[, range, visit]: Parameters<RollupStorage['eachStored']>): Promise<void> {
    if (this.isUnreadable) throw new TsdbError('UNAVAILABLE', 'no quorum');
    const last = new Map<string, ReducedRow>();
    for (const { row } of this.stored.values()) {
      if (row.nanos < range.startNanos || row.nanos >= range.endNanos) continue;
      const known = last.get(textOf(row.tags));
      if (known === undefined || known.nanos < row.nanos) last.set(textOf(row.tags), row);
    }
    for (const { tags, value } of last.values()) visit(encodeTags(tags), value);
  }

  async write(rows: readonly ReducedRow[]): Promise<void> {
    if (this.isSlow) {
      this.#onItsWay.push(...rows);
      throw new TsdbError('DEADLINE_EXCEEDED', 'no answer');
    }
    for (const row of rows) {
      const { futureNanosMax } = this;
      if (futureNanosMax !== null && row.nanos > this.nowNanos + futureNanosMax) {
        throw new TsdbError('FAILED_PRECONDITION', 'datapoint too far in future');
      }
      const { pastNanosMax } = this;
      if (pastNanosMax !== null && row.nanos < this.nowNanos - pastNanosMax) {
        throw new TsdbError('FAILED_PRECONDITION', 'datapoint too far in past');
      }
      if (random(rows.length) === 0) this.#mayFail();
      this.stored.set(`${textOf(row.tags)} ${row.nanos}`, { row });
      this.writtenRows += 1;
    }
  }

  /** What was on its way when its writer was stopped comes after all that was written since. */
  arrive(): void {
    for (const row of this.#onItsWay) this.stored.set(`${textOf(row.tags)} ${row.nanos}`, { row });
    this.#onItsWay = [];
  }

  async finalEnd(): Promise<bigint | null> {
    return this.#finalEnd;
  }

  async noteFinalEnd(endNanos: bigint): Promise<void> {
    this.#mayFail();
    this.#finalEnd = endNanos;
    this.beginNanos ??= endNanos;
  }

  #mayFail(): void {
    if (this.failsOneIn > 0 && random(this.failsOneIn) === 0) {
      throw new TsdbError('UNAVAILABLE', 'not now');
    }
  }
}

export function fill(storage: MemoryRollups, minutes: number, lateOneIn: number): void {
  for (const app of ['a', 'b']) {
    for (const pod of ['1', '2', '3']) {
      const tags = sortTags([
        { name: '__name__', value: 'requests' },
        { name: 'app', value: app },
        { name: 'pod', value: pod },
      ]);
      const rows: TestRow[] = [];
      let value = random(100);
      for (let nanos = start - 9n * minute; nanos < start + BigInt(minutes) * minute; ) {
        value = random(30) === 0 ? 0 : value + random(10);
        const isLate = lateOneIn > 0 && random(lateOneIn) === 0;
        const lag = isLate ? BigInt(random(590)) * second : 2n * second;
        rows.push({ nanos, value, storedNanos: nanos + lag });
        nanos += 15n * second + BigInt(random(3)) * second;
      }
      storage.series.push({ tags, rows });
    }
  }
}

export function assertFinal(storage: MemoryRollups, finalEnd: bigint): void {
  const ends: bigint[] = [];
  for (let end = storage.beginNanos! + minute; end <= finalEnd; end += minute) ends.push(end);
  const series: TwinSeries[] = storage.series;
  const wanted = rollupTwin(series, sets, policy, ends);
  // What a window of before the first one has come to is known to whoever makes the first one.
  const [first] = ends;
  let compared = 0;
  for (const [key, value] of wanted) {
    const found = storage.stored.get(key)?.row.value;
    if (key.endsWith(String(first)) && key.startsWith('__name__=sum')) continue;
    assert.ok(
      found !== undefined && Math.abs(found - value) <= 1e-9 * Math.max(1, Math.abs(value)),
      `${key}: ${found}, not ${value}`,
    );
    compared += 1;
  }
  assert.ok(compared > 4 * ends.length);
}
