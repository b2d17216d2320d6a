import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ruleSetsOf } from '#cluster/aggregation_rules/sets/sets_testing.ts';
import { noRuleSets, type RuleSetsOverTime } from '#cluster/aggregation_rules/sets/over_time.ts';
import { realEnv } from '#lib/env/real.ts';
import { day, hour, minute, rowsOf, second, sorted, World } from './aggregation_testing.ts';

/** Of the aggregated namespace of `World`. */
const storagePolicies = [{ resolution: '5m', retention: '720h' }];
const keep = (filter: string, name = 'keep'): object => ({ name, filter, storagePolicies });
const drop = (filter: string): object => ({ name: 'drop', filter, drop: true });

type Change = readonly [cutoverNanos: bigint, mappingRules: readonly object[]];

const setsOf = (...changes: readonly Change[]): RuleSetsOverTime =>
  ruleSetsOf(...changes.map(([nanos, mappingRules]) => [nanos, { mappingRules }] as const));

function known(...changes: readonly Change[]): World['known'] {
  return { sets: setsOf(...changes), knownNanos: realEnv.clock.nowNanos() };
}

/** What is expected of a world without windows of a host that begin in a range. */
function without(world: World, host: string, fromNanos: bigint, toNanos: bigint) {
  const all = world.expected();
  for (const [series, windows] of all) {
    if (!series.endsWith(`,${host}`)) continue;
    const left = windows.filter(({ endNanos }) => {
      const begin = endNanos - 5n * minute;
      return begin < fromNanos || begin >= toNanos;
    });
    if (left.length > 0) all.set(series, left);
    else all.delete(series);
  }
  return all;
}

test('each window is there by the rules that hold when it begins', async () => {
  // In the middle of a window.
  const cutover = day + 10n * hour + 2n * minute;
  const world = await World.open(5n * minute, {
    known: known([0n, [drop('host:a')]], [cutover, [drop('host:b')]]),
  });
  for (const host of ['a', 'b', 'c']) await world.write(rowsOf(host, day + second, 2_000));
  await world.flush();
  await world.run();
  const expected = without(world, 'a', 0n, cutover);
  const ofB = without(world, 'b', cutover, 2n ** 62n).get('x,b')!;
  expected.set('x,b', ofB);
  assert.deepEqual(sorted(await world.windows()), sorted(expected));
  assert.ok(expected.get('x,a')!.length > 10 && ofB.length > 10);
  const { slices } = world.aggregator.counts;
  await world.run();
  assert.equal(world.aggregator.counts.slices, slices, 'nothing is due any more');
  await world.start();
  // The log has the rows of before still.
  await world.flush();
  await world.run();
  assert.equal(world.aggregator.counts.slices, 0, 'nor after a start');
});

test('a namespace that does not take all has what mapping rules name its policy for', async () => {
  const other = { resolution: '5m', retention: '721h' };
  const world = await World.open(5n * minute, {
    takesAll: false,
    known: known([
      0n,
      [
        keep('host:{a,b}'),
        { name: 'elsewhere', filter: 'host:c', storagePolicies: [other] },
        // What is dropped as it came is kept where a rule asks for it.
        drop('host:a'),
      ],
    ]),
  });
  for (const host of ['a', 'b', 'c', 'd']) await world.write(rowsOf(host, day, 500));
  await world.flush();
  await world.run();
  const expected = sorted(world.expected()).filter(([series]) => /,[ab]$/.test(series));
  assert.deepEqual(sorted(await world.windows()), expected);
});

test('slices wait until all rules that hold in them are known, and for a quarter of the retention at most', async () => {
  const sets = setsOf([0n, [drop('host:a')]]);
  const now = realEnv.clock.nowNanos();
  const old = { sets: noRuleSets, knownNanos: day };
  const world = await World.open(5n * minute, { known: old });
  await world.write([...rowsOf('a', day + 12n * hour, 200), ...rowsOf('b', day + 12n * hour, 200)]);
  await world.flush();
  // Of ten days, so that after two and a half of them nobody waits any more.
  const ageNanos = now - (day + 12n * hour);
  assert.ok(ageNanos > 60n * hour);
  await world.run();
  assert.equal((await world.windows()).size, 2, 'long ago');
  for (const knownNanos of [null, day]) {
    const late = await World.open(5n * minute, {
      known: { sets, knownNanos },
      rawRetention: { retentionPeriodNanos: 24n * 20n * hour },
    });
    await late.write(rowsOf('b', day + 12n * hour, 200));
    await late.flush();
    await late.run();
    assert.equal(late.aggregator.counts.slices, 0, 'rules of then may not be known');
    late.known = { sets, knownNanos: now };
    await late.start();
    await late.flush();
    await late.run();
    assert.equal((await late.windows()).size, 1);
  }
});

test('when other rules turn out to have held, what was lacking is made', async () => {
  const world = await World.open(5n * minute, { known: known([0n, [drop('host:a')]]) });
  for (const host of ['a', 'b']) await world.write(rowsOf(host, day, 300));
  await world.flush();
  await world.run();
  assert.equal((await world.windows()).size, 1);
  world.known = known([0n, []]);
  await world.start();
  // The log has the rows of before still.
  await world.flush();
  await world.run();
  assert.deepEqual(sorted(await world.windows()), sorted(world.expected()));
});

test('a slice is not made anew by rules that are not known', async () => {
  const rules = known([0n, [drop('host:a')]]);
  const world = await World.open(5n * minute, { known: rules });
  for (const host of ['a', 'b']) await world.write(rowsOf(host, day, 300));
  await world.flush();
  await world.run();
  assert.equal((await world.windows()).size, 1);
  // Waited for long enough, but nothing says that it is of others.
  world.known = { sets: noRuleSets, knownNanos: day };
  await world.start();
  await world.flush();
  await world.run();
  assert.equal(world.aggregator.counts.slices, 0);
  // Nothing is known since the start, and rows have come late.
  world.known = { sets: noRuleSets, knownNanos: null };
  await world.start();
  await world.write([...rowsOf('a', day + hour, 10), ...rowsOf('c', day + hour, 10)]);
  await world.flush();
  await world.run();
  assert.equal(world.aggregator.counts.slices, 0);
  world.known = rules;
  await world.start();
  await world.flush();
  await world.run();
  assert.deepEqual(
    sorted(await world.windows()),
    sorted(without(world, 'a', 0n, 2n ** 62n)),
    'with the late rows',
  );
});

test('a path has the windows that its rule names, and no others', async () => {
  const other = { resolution: '1h', retention: '9000h' };
  const rules = [
    { name: 'a', path: { pattern: '^a\\.', order: 0 }, storagePolicies, onlyNamed: true },
    { name: 'b', path: { contains: 'b', order: 1 }, storagePolicies: [other], onlyNamed: true },
    { name: 'read', path: { pattern: '.' }, aggregations: ['Sum'] },
  ];
  for (const takesAll of [true, false]) {
    const world = await World.open(5n * minute, { takesAll, known: known([0n, rules]) });
    for (const path of ['a.b', 'b.a', 'c.d']) {
      const [first, second] = path.split('.');
      const series = { __g0__: first!, __g1__: second! };
      await world.write(rowsOf('', day, 500).map((row) => ({ ...row, series })));
    }
    await world.flush();
    await world.run();
    const kept = takesAll ? ['a,b', 'c,d'] : ['a,b'];
    assert.deepEqual([...(await world.windows()).keys()].sort(), kept);
  }
});
