/** Windows of rows that rules drop, which are in a namespace of their own. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { droppedNamespace } from '#cluster/namespaces/companions.ts';
import { day, hour, minute, rowsOf, second, sorted, World } from './aggregation_testing.ts';

async function openWorld(): Promise<World> {
  return World.open(5n * minute, { dropped: { retentionPeriodNanos: 200n * hour } });
}

test('windows are made of samples and of what rules drop, each row once', async () => {
  const world = await openWorld();
  const ofA = rowsOf('a', day + second, 1_000);
  await world.write(ofA);
  await world.drop(rowsOf('b', day + second, 1_000));
  // A sender that tries again may reach a coordinator that has heard of the rules meanwhile.
  await world.drop(ofA.slice(300, 600));
  // Half of a series each.
  const ofC = rowsOf('c', day + second, 1_000);
  await world.write(ofC.slice(0, 500));
  await world.drop(ofC.slice(500));
  await world.flush();
  await world.run();
  assert.deepEqual(sorted(await world.windows()), sorted(world.expected()));
  const { slices } = world.aggregator.counts;
  await world.run();
  assert.equal(world.aggregator.counts.slices, slices, 'nothing is due any more');
  await world.start();
  await world.flush();
  await world.run();
  assert.equal(world.aggregator.counts.slices, 0, 'nor after a start');
});

test('a slice is made once more when rows that are dropped come late', async () => {
  const world = await openWorld();
  await world.write(rowsOf('a', day + second, 1_000));
  await world.flush();
  await world.run();
  await world.drop(rowsOf('b', day + hour, 100));
  await world.start();
  await world.flush();
  await world.run();
  assert.deepEqual(sorted(await world.windows()), sorted(world.expected()));
});

test('windows stay when the dropped rows that they were made of are gone', async () => {
  const world = await openWorld();
  await world.write(rowsOf('a', day + second, 1_000));
  await world.drop(rowsOf('b', day + second, 1_000));
  await world.flush();
  await world.run();
  const before = sorted(await world.windows());
  assert.deepEqual(before, sorted(world.expected()));
  const dropped = world.database.namespaces.get(droppedNamespace)!;
  dropped.expiredBeforeNanos = day + 24n * hour;
  for (const file of dropped.files.all(null)) {
    if (file.endNanos <= day + 24n * hour) dropped.files.retire(file, 'delete');
  }
  const { slices } = world.aggregator.counts;
  // It cuts a window, which nothing is left to make anew of.
  const cut = day + hour + 2n * minute;
  await world.delete('b', { startNanos: cut, endNanos: cut + second });
  await world.write(rowsOf('a', day + 2n * hour, 10));
  await world.flush();
  await world.run();
  assert.equal(world.aggregator.counts.slices, slices, 'nothing is made of less than it was');
  assert.deepEqual(sorted(await world.windows()), before);
});

/** @param way by their retention, or before that was made longer */
async function withSomeGone(way: 'expired' | 'gone before'): Promise<void> {
  const world = await World.open(12n * hour, { dropped: { retentionPeriodNanos: 200n * hour } });
  await world.write(rowsOf('kept', day + second, 3_000));
  await world.drop(rowsOf('dropped', day + second, 3_000));
  await world.flush();
  const dropped = world.database.namespaces.get(droppedNamespace)!;
  const past = day + 6n * hour;
  if (way === 'expired') dropped.expiredBeforeNanos = past;
  else dropped.update({ ...dropped.definition, goneBeforeNanos: past });
  for (const file of dropped.files.all(null)) {
    if (file.endNanos <= past) dropped.files.retire(file, 'delete');
  }
  await world.run();
  const windows = await world.windows();
  const endsOf = (host: string): bigint[] =>
    windows.get(`x,${host}`)!.map(({ endNanos }) => (endNanos - day) / hour);
  assert.deepEqual(endsOf('kept').slice(0, 2), [12n, 24n]);
  assert.equal(endsOf('dropped')[0], 24n);
  const all = sorted(await world.windows()).flatMap(([, each]) => each);
  const wanted = sorted(world.expected(12n * hour)).flatMap(([, each]) => each);
  for (const window of all) {
    assert.ok(wanted.some((each) => each.rows === window.rows && each.sum === window.sum));
  }
}

test('no window is made of dropped rows of which some are gone', async () => {
  await withSomeGone('expired');
  await withSomeGone('gone before');
});
