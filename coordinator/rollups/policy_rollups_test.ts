import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ruleSetsOf } from '#cluster/aggregation_rules/sets/sets_testing.ts';
import type { ReducedRow } from '#cluster/aggregation_rules/rollups/reduce.ts';
import {
  rollupTwin,
  textOf,
  type TwinSeries,
} from '#cluster/aggregation_rules/rollups/rollup_twin.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { encodeTags, sortTags } from '#lib/tags.ts';
import { latenessNanos, PolicyRollups, type RollupStorage } from './policy_rollups.ts';

const second = 1_000_000_000n;
const minute = 60n * second;
const start = (1_700_000_000n / 600n) * 600n * second;
const bufferPastNanos = 10n * minute;
const never = new AbortController().signal;
const log = { warn: () => {}, info: () => {}, error: () => {} } as unknown as Log;

let seed = 9;
const random = (n: number): number => (seed = (seed * 48_271) % 2_147_483_647) % n;

const storagePolicies = [{ resolution: '1m', retention: '40h' }];
const policy = { resolutionNanos: minute, retentionNanos: 2_400n * minute };
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
const sets = ruleSetsOf([1n, rules]);

interface TestRow {
  readonly nanos: bigint;
  readonly value: number;
  /** When it is stored. */
  readonly storedNanos: bigint;
}

/** Rows as they are stored, and what is written; a write fails now and then, with some of it done. */
class MemoryRollups implements RollupStorage {
  readonly series: { readonly tags: ReturnType<typeof sortTags>; readonly rows: TestRow[] }[] = [];
  readonly stored = new Map<string, { row: ReducedRow }>();
  nowNanos = 0n;
  failsOneIn = 0;
  writtenRows = 0;
  #finalEnd: bigint | null = null;
  /** From when on windows are made. */
  beginNanos: bigint | null = null;

  async each(...[, range, visit]: Parameters<RollupStorage['each']>): Promise<void> {
    this.#mayFail();
    for (const { tags, rows } of this.series) {
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
    const last = new Map<string, ReducedRow>();
    for (const { row } of this.stored.values()) {
      if (row.nanos < range.startNanos || row.nanos >= range.endNanos) continue;
      const known = last.get(textOf(row.tags));
      if (known === undefined || known.nanos < row.nanos) last.set(textOf(row.tags), row);
    }
    for (const { tags, value } of last.values()) visit(encodeTags(tags), value);
  }

  async write(rows: readonly ReducedRow[]): Promise<void> {
    for (const row of rows) {
      if (random(rows.length) === 0) this.#mayFail();
      this.stored.set(`${textOf(row.tags)} ${row.nanos}`, { row });
      this.writtenRows += 1;
    }
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

function fill(storage: MemoryRollups, minutes: number, lateOneIn: number): void {
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

/** @returns ends of the windows that are final */
async function play(
  storage: MemoryRollups,
  minutes: number,
  killOneIn: number,
): Promise<{ readonly finalEnd: bigint; readonly rollups: PolicyRollups }> {
  let rollups = new PolicyRollups(policy, storage, realEnv.clock, log);
  const firstNanos = start + bufferPastNanos + latenessNanos(minute);
  const endNanos = firstNanos + BigInt(minutes) * minute;
  for (let nowNanos = firstNanos; nowNanos <= endNanos; nowNanos += 20n * second) {
    if (nowNanos > endNanos - 2n * minute) storage.failsOneIn = 0;
    else if (killOneIn > 0 && random(killOneIn) === 0) {
      rollups = new PolicyRollups(policy, storage, realEnv.clock, log);
      // Nobody is there for a while.
      if (random(3) === 0) nowNanos += BigInt(random(15)) * minute;
    }
    storage.nowNanos = nowNanos;
    const moment = {
      nowNanos,
      sets,
      rulesKnownNanos: nowNanos - 25n * second,
      bufferPastNanos,
      keptFromNanos: nowNanos - 48n * 60n * minute,
    };
    try {
      while (await rollups.advance(moment, never));
    } catch (error) {
      if (!(error instanceof TsdbError)) throw error;
    }
  }
  return { finalEnd: (await storage.finalEnd())!, rollups };
}

function assertFinal(storage: MemoryRollups, finalEnd: bigint): void {
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

test('each window is made a moment after its end, and nothing is written twice that does not differ', async () => {
  const storage = new MemoryRollups();
  fill(storage, 60, 0);
  const { finalEnd, rollups } = await play(storage, 50, 0);
  assertFinal(storage, finalEnd);
  assert.equal(rollups.counts.corrections, 0);
  assert.equal(storage.writtenRows, storage.stored.size);
  assert.ok(finalEnd >= start + 44n * minute && rollups.endNanos! >= start + 60n * minute);
});

test('rows that come late are in final windows, and in all sums after them', async () => {
  const storage = new MemoryRollups();
  fill(storage, 60, 6);
  const { finalEnd, rollups } = await play(storage, 50, 0);
  assertFinal(storage, finalEnd);
  assert.ok(rollups.counts.corrections > 20);
});

test('whoever takes over makes the same, whenever writes fail and nobody is there', async () => {
  for (let round = 0; round < 25; round++) {
    const storage = new MemoryRollups();
    fill(storage, 90, round % 2 === 0 ? 10 : 0);
    storage.failsOneIn = 4 + random(20);
    const { finalEnd } = await play(storage, 80, 12);
    assert.ok(finalEnd >= start + 60n * minute, `${(finalEnd - start) / minute} minutes`);
    assertFinal(storage, finalEnd);
  }
});
