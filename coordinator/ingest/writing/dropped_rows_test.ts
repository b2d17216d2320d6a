import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ruleSetsOf } from '#cluster/aggregation_rules/sets/sets_testing.ts';
import { noRuleSets, type RuleSetsOverTime } from '#cluster/aggregation_rules/sets/over_time.ts';
import { encodeTags } from '#lib/tags.ts';
import { DroppedRows, pickedRows } from './dropped_rows.ts';
import type { BodyRows } from './parts.ts';

const second = 1_000_000_000n;
const start = 1_700_000_000n * second;
const storagePolicies = [{ resolution: '5m', retention: '90d' }];
const drop = (filter: string): object => ({ name: `drop ${filter}`, filter, drop: true });
const keep = (filter: string): object => ({ name: `keep ${filter}`, filter, storagePolicies });
const minute = 60n * second;
const day = 1440n * minute;
const policies = [{ resolutionNanos: 5n * minute, retentionNanos: 90n * day }];

type Change = readonly [seconds: bigint, mappingRules: readonly object[]];

const setsOf = (...changes: readonly Change[]): RuleSetsOverTime =>
  ruleSetsOf(
    ...changes.map(
      ([seconds, mappingRules]) => [start + seconds * second, { mappingRules }] as const,
    ),
  );

const apps = 'abcdef';
const tagsOf = (app: string) => [{ name: 'app', value: app }];

/** Slots are places in `apps`; the last one is refused. */
const series = {
  refused: Uint8Array.from(apps, (app) => (app === 'f' ? 1 : 0)),
  generation: new Uint32Array(apps.length).fill(1),
  borrowTags: (slot: number) => encodeTags(tagsOf(apps[slot]!)),
};

function rowsOf(slots: readonly number[], millis: readonly number[], generation = 1): BodyRows {
  const all = {
    rowCount: slots.length,
    slots: Uint32Array.from(slots),
    generations: new Uint32Array(slots.length).fill(generation),
    mayBeRefused: true,
    timestamps: BigInt64Array.from(millis, BigInt),
    timeUnitNanos: 1_000_000,
    values: Float64Array.from(slots, (_, row) => row),
    startNanos: null,
  };
  return all as unknown as BodyRows;
}

const clockAt = (seconds: bigint) => {
  const clock = { now: start + seconds * second, nowNanos: () => clock.now };
  return clock;
};

const newDropped = (
  sets: () => RuleSetsOverTime,
  clock: { nowNanos(): bigint },
  there = () => policies,
): DroppedRows => new DroppedRows(sets, there, clock);

test('each row is kept, kept aside or nowhere by the rules of its time', () => {
  const sets = setsOf(
    [0n, [drop('app:{a,b}'), keep('app:a')]],
    [100n, [drop('app:c'), keep('app:*')]],
    [200n, []],
  );
  const [rules] = sets.all;
  let seed = 3;
  const random = (n: number): number => (seed = (seed * 48_271) % 2_147_483_647) % n;
  for (const at of [-50n, 50n, 150n, 250n]) {
    const clock = clockAt(at);
    const dropped = newDropped(() => sets, clock);
    for (let round = 0; round < 30; round++) {
      const slots = Array.from({ length: 40 }, () => random(apps.length));
      const startMillis = Number(start / 1_000_000n);
      // Edges among them: a row of the cut-over itself is of a window that began before.
      const millis = slots.map(() => startMillis + 100_000 * (random(5) - 1) + random(3) - 1);
      const rows = rowsOf(slots, millis);
      const places: { kept: number[]; aside: number[]; nowhere: number } = {
        kept: [],
        aside: [],
        nowhere: 0,
      };
      for (const [row, slot] of slots.entries()) {
        const nanos = BigInt(millis[row]!) * 1_000_000n;
        const { drops, mappings } = rules!.at(nanos - 1n).match(tagsOf(apps[slot]!));
        if (drops.length === 0 || apps[slot] === 'f') places.kept.push(row);
        else if (mappings.length > 0) places.aside.push(row);
        else places.nowhere += 1;
      }
      const found = dropped.divided(rows, series, () => true);
      const { kept, aside, nowhere } = found ?? {
        kept: Uint32Array.from(slots.keys()),
        aside: new Uint32Array(0),
        nowhere: 0,
      };
      assert.deepEqual(
        [[...kept], [...aside], nowhere],
        [places.kept, places.aside, places.nowhere],
      );
    }
  }
});

test('rows stay with the others while there is nowhere to keep them aside, and where no rule drops', () => {
  const sets = setsOf([0n, [drop('app:{a,b}'), keep('app:a')]]);
  const dropped = newDropped(() => sets, clockAt(50n));
  const millis = Number(start / 1_000_000n) + 40_000;
  const rows = rowsOf([0, 1, 2], [millis, millis, millis]);
  const found = dropped.divided(rows, series, () => false)!;
  assert.deepEqual([[...found.kept], found.aside.length, found.nowhere], [[0, 2], 0, 1]);
  const picked = pickedRows(rows, found.kept);
  assert.deepEqual(
    [[...picked.slots], 'values' in picked && [...picked.values]],
    [
      [0, 2],
      [0, 2],
    ],
  );
  const asked = (some: RuleSetsOverTime): unknown =>
    newDropped(() => some, clockAt(50n)).divided(rows, series, () => assert.fail());
  assert.equal(asked(noRuleSets), null);
  assert.equal(asked(setsOf([0n, [keep('app:a')]])), null);
});

test('what is remembered of a slot is forgotten with its series, with a cut-over and with other rules', () => {
  const clock = clockAt(50n);
  let sets = setsOf([0n, [drop('app:a')]], [100n, [drop('app:b')]]);
  const dropped = newDropped(() => sets, clock);
  const asked: number[] = [];
  let names = apps;
  const counting = {
    refused: series.refused,
    generation: series.generation.slice(),
    borrowTags: (slot: number) => {
      asked.push(slot);
      return encodeTags(tagsOf(names[slot]!));
    },
  };
  const nowhere = (generation = 1): number => {
    const millis = Number(clock.now / 1_000_000n);
    counting.generation.fill(generation);
    const rows = rowsOf([0, 1], [millis, millis], generation);
    return dropped.divided(rows, counting, () => true)?.nowhere ?? 0;
  };
  assert.deepEqual([nowhere(), nowhere(), asked.length], [1, 1, 2]);
  names = 'xx';
  assert.deepEqual([nowhere(), nowhere(2), asked.length], [1, 0, 4]);
  names = 'ab';
  clock.now += 60n * second;
  assert.deepEqual([nowhere(2), asked.length], [1, 6]);
  sets = setsOf([0n, [drop('app:{a,b}')]]);
  assert.deepEqual([nowhere(2), asked.length], [2, 8]);
  // A row of a large body, whose slot went to another series meanwhile, says nothing of that one.
  counting.generation.fill(3);
  names = 'xx';
  const millis = Number(clock.now / 1_000_000n);
  assert.equal(
    dropped.divided(rowsOf([0, 1], [millis, millis], 2), counting, () => true),
    null,
  );
  names = 'ab';
  assert.deepEqual([nowhere(3), asked.length], [2, 10]);
});

/** Where rows of each kind go, of the series in the order of slots. */
function placesOf(dropped: DroppedRows, count: number): string[] {
  const millis = Number(start / 1_000_000n) + 40_000;
  const slots = Array.from({ length: count }, (_, slot) => slot);
  const samples = rowsOf(
    slots,
    slots.map(() => millis),
  );
  const histograms = {
    ...samples,
    valueEnds: Uint32Array.from(slots, (slot) => slot + 1),
    valueBytes: new Uint8Array(count),
  } as unknown as BodyRows;
  return [samples, histograms].map((rows) => {
    const found = dropped.divided(rows, series, () => true);
    if (found === null) return 'kept';
    const { kept, aside } = found;
    return slots
      .map((slot) => (kept.includes(slot) ? 'kept' : aside.includes(slot) ? 'aside' : 'nowhere'))
      .join();
  });
}

test('dropped rows stay where nobody would make what rules name for them', () => {
  const rollup = (filter: string, retention: string): object => ({
    name: `rollup ${filter}`,
    filter,
    transforms: [{ rollup: { metricName: 'all', groupBy: [] } }],
    storagePolicies: [{ resolution: '5m', retention }],
  });
  const misspelt = {
    ...keep('app:{b,d}'),
    storagePolicies: [{ resolution: '5m', retention: '60d' }],
  };
  const sets = ruleSetsOf([
    start,
    {
      mappingRules: [drop('app:[a-e]'), keep('app:a'), misspelt],
      rollupRules: [rollup('app:{c,d}', '90d')],
    },
  ]);
  let there = policies;
  const dropped = newDropped(
    () => sets,
    clockAt(50n),
    () => there,
  );
  // Of a: windows; b: none that are there; c: a rollup, in which no histogram is; d: both; e: nothing.
  assert.deepEqual(placesOf(dropped, 5), [
    'aside,kept,aside,kept,nowhere',
    'aside,kept,kept,kept,nowhere',
  ]);
  there = [{ resolutionNanos: 5n * minute, retentionNanos: 60n * day }];
  assert.deepEqual(placesOf(dropped, 5), [
    'kept,aside,kept,aside,nowhere',
    'kept,aside,kept,aside,nowhere',
  ]);
  there = [];
  assert.deepEqual(placesOf(dropped, 5), [
    'kept,kept,kept,kept,nowhere',
    'kept,kept,kept,kept,nowhere',
  ]);
});

test('typed rows are picked with their values', () => {
  const rows = {
    ...rowsOf([0, 1, 2], [1, 2, 3]),
    valueEnds: Uint32Array.of(2, 2, 5),
    valueBytes: Uint8Array.of(1, 2, 3, 4, 5),
    startNanos: BigInt64Array.of(7n, 8n, 9n),
  } as unknown as BodyRows;
  const picked = pickedRows(rows, Uint32Array.of(0, 2));
  assert.ok('valueEnds' in picked);
  assert.deepEqual(
    [[...picked.valueEnds], [...picked.valueBytes], [...picked.startNanos!], picked.rowCount],
    [[2, 5], [1, 2, 3, 4, 5], [7n, 9n], 2],
  );
});
