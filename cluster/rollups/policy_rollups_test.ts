import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { ruleSetsOf } from '../aggregation_rules/sets/sets_testing.ts';
import { latenessNanos } from './parts/lateness.ts';
import { StoredParts } from './parts/parts.ts';
import { PolicyRollups } from './policy_rollups.ts';
import { WrittenWindows } from './written_windows.ts';
import {
  advanceAll,
  assertFinal,
  bufferPastNanos,
  fill,
  log,
  MemoryRollups,
  minute,
  policy,
  random,
  second,
  start,
} from './policy_rollups_testing.ts';

const beganNanos = start + bufferPastNanos + latenessNanos(minute);

const rollupsOf = (storage: MemoryRollups, written = new WrittenWindows()): PolicyRollups =>
  new PolicyRollups(
    policy,
    new StoredParts(policy, storage, realEnv.random),
    storage,
    realEnv.clock,
    log,
    written,
  );

function advance(rollups: PolicyRollups, storage: MemoryRollups, nowNanos: bigint): Promise<void> {
  storage.nowNanos = nowNanos;
  return advanceAll(rollups, nowNanos);
}

/** @returns ends of the windows that are final */
async function play(
  storage: MemoryRollups,
  minutes: number,
  killOneIn: number,
  isStopped = false,
): Promise<{ readonly finalEnd: bigint; readonly rollups: PolicyRollups }> {
  let rollups = rollupsOf(storage);
  let arrivesNanos: bigint | null = null;
  const endNanos = beganNanos + BigInt(minutes) * minute;
  for (let nowNanos = beganNanos; nowNanos <= endNanos; nowNanos += 20n * second) {
    if (nowNanos > endNanos - 2n * minute) storage.failsOneIn = 0;
    else if (killOneIn > 0 && random(killOneIn) === 0) {
      if (isStopped) {
        storage.arrive();
        storage.isSlow = true;
        await advance(rollups, storage, nowNanos);
        storage.isSlow = false;
        arrivesNanos = nowNanos + BigInt(random(240)) * second;
      }
      rollups = rollupsOf(storage);
      // Nobody is there for a while.
      if (!isStopped && random(3) === 0) nowNanos += BigInt(random(15)) * minute;
    }
    await advance(rollups, storage, nowNanos);
    if (arrivesNanos !== null && arrivesNanos <= nowNanos) {
      storage.arrive();
      arrivesNanos = null;
    }
  }
  return { finalEnd: (await storage.finalEnd())!, rollups };
}

test('each window is made a moment after its end, and nothing is written twice that does not differ', async () => {
  const storage = new MemoryRollups();
  fill(storage, 60, 0);
  const { finalEnd, rollups } = await play(storage, 50, 0);
  assertFinal(storage, finalEnd);
  assert.equal(rollups.counts.corrections, 0);
  // Of before it began somebody else may have made some.
  const twice = [...storage.stored.values()].filter(({ row }) => row.nanos <= beganNanos);
  assert.ok(twice.length > 0);
  assert.equal(storage.writtenRows, storage.stored.size + twice.length);
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

test('a leader that is stopped while it writes leaves nothing wrong, though its rows come after those of who took over', async () => {
  for (let round = 0; round < 25; round++) {
    const storage = new MemoryRollups();
    fill(storage, 90, 3);
    const { finalEnd } = await play(storage, 80, 15, true);
    assert.ok(finalEnd >= start + 60n * minute, `${(finalEnd - start) / minute} minutes`);
    assertFinal(storage, finalEnd);
  }
});

test('who takes over late makes each window whose rows are there, however little is left of what was before', async () => {
  const storage = new MemoryRollups();
  fill(storage, 90, 0);
  const { finalEnd } = await play(storage, 10, 0);
  // What had been made before it was final would hide what nobody makes.
  for (const [key, { row }] of storage.stored) if (row.nanos > finalEnd) storage.stored.delete(key);
  const nowNanos = storage.nowNanos + 45n * minute;
  // Of a counter the last row of before the first window is there.
  const retentionNanos = nowNanos - finalEnd + 2n * minute;
  storage.nowNanos = nowNanos;
  await advanceAll(rollupsOf(storage), nowNanos, retentionNanos);
  const last = (await storage.finalEnd())!;
  assert.ok(last > finalEnd + 30n * minute);
  assertFinal(storage, last);
});

test('counters wait for what they had come to, and begin again before windows would be lost by that', async () => {
  const storage = new MemoryRollups();
  fill(storage, 90, 0);
  const { finalEnd } = await play(storage, 10, 0);
  for (const [key, { row }] of storage.stored) if (row.nanos > finalEnd) storage.stored.delete(key);
  storage.isUnreadable = true;
  const nowNanos = storage.nowNanos + 30n * minute;
  storage.nowNanos = nowNanos;
  const kept = nowNanos - finalEnd;
  await advanceAll(rollupsOf(storage), nowNanos, 2n * kept);
  assert.equal(await storage.finalEnd(), finalEnd);
  await advanceAll(rollupsOf(storage), nowNanos, kept + 3n * minute);
  const last = (await storage.finalEnd())!;
  assert.ok(last > finalEnd + 15n * minute);
  const ofApp = (metric: string, nanos: bigint): number | undefined =>
    [...storage.stored].find(
      ([key]) =>
        key.includes(`__name__=${metric}`) && key.includes('app=a') && key.endsWith(` ${nanos}`),
    )?.[1].row.value;
  for (let end = finalEnd + minute; end <= last; end += minute) {
    assert.ok(ofApp('rows', end) !== undefined && ofApp('total', end) !== undefined);
  }
  assert.ok(ofApp('total', finalEnd + minute)! < ofApp('total', finalEnd)!);
});

test('a zero of Reset waits for its time, and no window waits for it', async () => {
  const hour = 60n * minute;
  const sets = ruleSetsOf([
    1n,
    {
      rollupRules: [
        {
          name: 'count',
          filter: 'app:*',
          transforms: [
            { rollup: { metricName: 'rows', groupBy: ['app'], aggregations: ['Count'] } },
            { transform: { type: 'Reset' } },
          ],
          storagePolicies: [{ resolution: '1h', retention: '40d' }],
        },
      ],
    },
  ]);
  const hourly = { resolutionNanos: hour, retentionNanos: 40n * 24n * hour };
  const storage = new MemoryRollups();
  fill(storage, 300, 0);
  storage.futureNanosMax = 0n;
  const parts = new StoredParts(hourly, storage, realEnv.random);
  let rollups = new PolicyRollups(hourly, parts, storage, realEnv.clock, log);
  const firstEnd = (start / hour + 1n) * hour;
  const valuesAt = (nanos: bigint): number[] =>
    [...storage.stored.values()].flatMap(({ row }) => (row.nanos === nanos ? [row.value] : []));
  let madeLate = 0;
  for (let now = firstEnd; now < firstEnd + 4n * hour; now += 30n * second) {
    storage.nowNanos = now;
    // Another one takes over before the time of a zero has come.
    if (now === firstEnd + 2n * hour + 20n * minute) {
      rollups = new PolicyRollups(hourly, parts, storage, realEnv.clock, log);
    }
    await rollups.advance(
      { nowNanos: now, sets, rulesKnownNanos: now, bufferPastNanos, keptFromNanos: 1n },
      new AbortController().signal,
    );
    const end = (now / hour) * hour;
    if (end > firstEnd && now === end + 3n * minute && valuesAt(end).length !== 2) madeLate += 1;
  }
  assert.equal(madeLate, 0);
  for (let end = firstEnd + hour; end < firstEnd + 4n * hour; end += hour) {
    assert.deepEqual(valuesAt(end + hour / 2n), [0, 0], String(end));
  }
});

test('windows that are past their own retention are no reason to make none after them', async () => {
  const short = { ...policy, retentionNanos: 60n * minute };
  const rules = {
    rollupRules: [
      {
        name: 'count',
        filter: 'app:*',
        transforms: [{ rollup: { metricName: 'rows', groupBy: ['app'], aggregations: ['Count'] } }],
        storagePolicies: [{ resolution: '1m', retention: '1h' }],
      },
    ],
  };
  const sets = ruleSetsOf([1n, rules]);
  for (const isSame of [true, false]) {
    const storage = new MemoryRollups();
    fill(storage, 400, 0);
    storage.pastNanosMax = short.retentionNanos;
    const parts = new StoredParts(short, storage, realEnv.random);
    const made = (): PolicyRollups => new PolicyRollups(short, parts, storage, realEnv.clock, log);
    let rollups = made();
    const advanceTo = async (minutes: number): Promise<void> => {
      storage.nowNanos = beganNanos + BigInt(minutes) * minute;
      const { nowNanos } = storage;
      const moment = {
        nowNanos,
        sets,
        rulesKnownNanos: nowNanos,
        bufferPastNanos,
        keptFromNanos: 1n,
      };
      while (await rollups.advance(moment, new AbortController().signal));
    };
    for (let minutes = 0; minutes < 30; minutes++) await advanceTo(minutes);
    // Nobody is there for long, or nothing can be written.
    if (!isSame) rollups = made();
    for (let minutes = 200; minutes < 300; minutes++) await advanceTo(minutes);
    assert.ok((await storage.finalEnd())! > beganNanos + 270n * minute, `same: ${isSame}`);
  }
});

test('a clock that was ahead for a while leaves no gap and no window without its late rows', async () => {
  // Who takes over does not know how long the clock was ahead: late rows wait a minute longer than they may come.
  for (const [isSame, aheadMinutes] of [
    [true, 5],
    [false, 1],
  ] as const) {
    const storage = new MemoryRollups();
    fill(storage, 90, 4);
    let rollups = rollupsOf(storage);
    for (let step = 0; step <= 80 * 3; step++) {
      const past = step - 60;
      if (past === 3 * aheadMinutes && !isSame) rollups = rollupsOf(storage);
      storage.nowNanos = beganNanos + BigInt(step) * 20n * second;
      const isAhead = past >= 0 && past < 3 * aheadMinutes;
      await advanceAll(rollups, storage.nowNanos + (isAhead ? 60n * minute : 0n));
      if (past !== 3 * aheadMinutes + 3) continue;
      // Not an hour later only, and marked so for others.
      const due = storage.nowNanos - 2n * minute;
      assert.ok([...storage.stored.values()].some(({ row }) => row.nanos >= due));
      assert.ok((await storage.finalEnd())! < storage.nowNanos);
    }
    const finalEnd = (await storage.finalEnd())!;
    assert.ok(finalEnd >= start + 70n * minute, `${(finalEnd - start) / minute} minutes`);
    assertFinal(storage, finalEnd);
  }
});

test('windows some of whose rows are gone are told of, and not made of the others', async () => {
  const hour = 60n * minute;
  const hourly = { resolutionNanos: hour, retentionNanos: 40n * 24n * hour };
  const sets = ruleSetsOf([
    1n,
    {
      rollupRules: [
        {
          name: 'count',
          filter: 'app:*',
          transforms: [
            { rollup: { metricName: 'rows', groupBy: ['app'], aggregations: ['Count'] } },
          ],
          storagePolicies: [{ resolution: '1h', retention: '40d' }],
        },
      ],
    },
  ]);
  const storage = new MemoryRollups();
  fill(storage, 600, 0);
  const told: string[] = [];
  const rollups = new PolicyRollups(
    hourly,
    new StoredParts(hourly, storage, realEnv.random),
    storage,
    realEnv.clock,
    { ...log, warn: (_, message) => told.push(message) },
  );
  const first = (start / hour + 1n) * hour;
  // Rows are kept for three quarters of an hour, and for longer from a time on.
  const longerNanos = first + 4n * hour + 20n * minute;
  const short = 45n * minute;
  for (let nowNanos = first; nowNanos < first + 9n * hour; nowNanos += minute) {
    storage.nowNanos = nowNanos;
    const keptFromNanos = (nowNanos < longerNanos ? nowNanos : longerNanos) - short;
    const moment = { nowNanos, sets, rulesKnownNanos: nowNanos, bufferPastNanos, keptFromNanos };
    while (await rollups.advance(moment, new AbortController().signal));
    if (nowNanos === longerNanos) {
      assert.equal(storage.stored.size, 0);
      assert.equal(told.length, 5, told.join());
    }
  }
  assert.match(told[0]!, /not made for good: some of their rows are gone/);
  const ends = new Set([...storage.stored.values()].map(({ row }) => row.nanos));
  assert.deepEqual(
    [...ends],
    [5n, 6n, 7n, 8n].map((hours) => first + hours * hour),
  );
  for (const { row } of storage.stored.values()) {
    const app = row.tags.find(({ name }) => name === 'app')!.value;
    const rows = storage.series
      .filter(({ tags }) => tags.some(({ name, value }) => name === 'app' && value === app))
      .flatMap((each) => each.rows)
      .filter(({ nanos }) => nanos > row.nanos - hour && nanos <= row.nanos);
    assert.equal(row.value, rows.length);
  }
});

test('windows whose values there is no room for are written anew when they differ, and only then', async () => {
  for (const lateOneIn of [0, 6]) {
    const storage = new MemoryRollups();
    fill(storage, 60, lateOneIn);
    const written = new WrittenWindows(40);
    const rollups = rollupsOf(storage, written);
    for (let step = 0; step <= 50 * 3; step++) {
      await advance(rollups, storage, beganNanos + BigInt(step) * 20n * second);
      assert.ok(written.valuesCount <= 40, `${written.valuesCount} values`);
    }
    assertFinal(storage, (await storage.finalEnd())!);
    if (lateOneIn === 0) assert.equal(rollups.counts.corrections, 0);
    else assert.ok(rollups.counts.corrections > 20);
  }
});

test('rules that make one series in different ways are told of once, and one of them makes it', async () => {
  const ruleOf = (name: string, metricName: string, type: string): object => ({
    name,
    filter: 'app:*',
    transforms: [{ rollup: { metricName, groupBy: ['app'], aggregations: [type] } }],
    storagePolicies: [{ resolution: '1m', retention: '40h' }],
  });
  const rollupRules = [
    ruleOf('by its name', 'requests_by_app', 'Count'),
    ruleOf('by a template', '{{ .MetricName }}_by_app', 'Max'),
    ruleOf('of something else', 'all', 'Max'),
  ];
  const sets = ruleSetsOf([1n, { rollupRules }]);
  const storage = new MemoryRollups();
  fill(storage, 60, 0);
  const told: object[] = [];
  const rollups = new PolicyRollups(
    policy,
    new StoredParts(policy, storage, realEnv.random),
    storage,
    realEnv.clock,
    { ...log, warn: (fields) => told.push(fields) },
  );
  for (let nowNanos = beganNanos; nowNanos < beganNanos + 40n * minute; nowNanos += minute) {
    storage.nowNanos = nowNanos;
    const moment = {
      nowNanos,
      sets,
      rulesKnownNanos: nowNanos,
      bufferPastNanos,
      keptFromNanos: 1n,
    };
    while (await rollups.advance(moment, new AbortController().signal));
  }
  assert.deepEqual(
    told.map((fields) => (fields as { rules: unknown }).rules),
    [['by its name', 'by a template']],
  );
  assert.equal(rollups.counts.corrections, 0);
});
