import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { knownSlices } from './known_slices.ts';
import type { SliceNote } from './notes.ts';
import { hour, minute, rowsOf, second, type Seen, sorted, World } from './aggregation_testing.ts';

/** Two half days of which all blocks are closed, less than 40 hours ago. */
const start = ((realEnv.clock.nowNanos() - 61n * minute) / (12n * hour)) * 12n * hour - 24n * hour;
const halves = [start, start + 12n * hour];

function openWorld(rawHours: bigint): Promise<World> {
  const rawRetention = { retentionPeriodNanos: rawHours * hour };
  return World.open(5n * minute, { rawRetention, blockSizeNanos: 12n * hour });
}

async function startWith(world: World, rawHours: bigint): Promise<void> {
  world.rawRetention = { retentionPeriodNanos: rawHours * hour };
  await world.start();
  // The log has the rows of before still.
  await world.flush();
}

/** Windows as they are read from one block after the other. */
async function readByBlock(world: World): Promise<[string, Seen[]][]> {
  const read = [];
  for (const half of halves) {
    read.push(...sorted(await world.windows(half, half + 12n * hour)));
  }
  return read;
}

function expectedByBlock(world: World): [string, Seen[]][] {
  return halves.flatMap((half) => {
    const isInside = ({ endNanos }: Seen) => endNanos >= half && endNanos < half + 12n * hour;
    const all = [...world.expected()].map(([key, windows]) => [key, windows.filter(isInside)]);
    return sorted(new Map(all as [string, Seen[]][]));
  });
}

/** Takes the rows of a host in a range out of what is expected. */
function forget(world: World, host: string, startNanos: bigint, endNanos: bigint): void {
  const left = world.written.filter(({ series, nanos }) => {
    const isOf = (series as { host: string }).host === host;
    return !isOf || nanos < startNanos || nanos >= endNanos;
  });
  world.written.splice(0, Infinity, ...left);
}

for (const [before, after] of [
  [40n, 72n],
  [72n, 40n],
  [40n, 46n],
] as const) {
  test(`samples are kept ${after} hours in the place of ${before}: windows stay in their blocks, and deleted ones away`, async () => {
    const world = await openWorld(before);
    await world.write(rowsOf('a', start + 15n * second, 2_160));
    await world.flush();
    await world.run();
    assert.deepEqual(await readByBlock(world), expectedByBlock(world));
    await startWith(world, after);
    await world.run();
    assert.deepEqual(await readByBlock(world), expectedByBlock(world));
    const deleted = [start + 13n * hour, start + 17n * hour] as const;
    await world.delete('a', { startNanos: deleted[0], endNanos: deleted[1] });
    forget(world, 'a', ...deleted);
    await startWith(world, after);
    await world.clean();
    await world.run();
    assert.deepEqual(await readByBlock(world), expectedByBlock(world));
    const { slices } = world.aggregator.counts;
    await world.run();
    assert.equal(world.aggregator.counts.slices, slices, 'nothing is due any more');
  });
}

test('windows whose rows are partly gone stay when slices become longer, and those behind them are made', async () => {
  const world = await openWorld(40n);
  await world.write(rowsOf('a', start + 15n * second, 600));
  await world.flush();
  await world.run();
  const metrics = world.database.namespaces.get('metrics')!;
  metrics.expiredBeforeNanos = start + 2n * hour;
  await world.run();
  for (const file of metrics.files.all(null)) {
    if (file.endNanos <= start + 2n * hour) metrics.files.retire(file, 'delete');
  }
  world.keepSamples(72n * hour);
  // Most of the rows of this window are gone, so it can only be made worse.
  const cut = start + hour + 2n * minute;
  await world.delete('a', { startNanos: cut, endNanos: cut + minute });
  await world.write(rowsOf('b', start + 8n * hour, 10));
  await world.flush();
  await world.run();
  assert.deepEqual(await readByBlock(world), expectedByBlock(world));
  const { slices } = world.aggregator.counts;
  await world.run();
  assert.equal(world.aggregator.counts.slices, slices, 'nothing is due any more');
});

test('slices of another cut are made anew, and their notes go when they are', () => {
  const noteOf = (from: bigint, to: bigint, isFrozen = false): SliceNote => ({
    startNanos: from * hour,
    endNanos: to * hour,
    madeOf: {},
    deletions: -1,
    rules: '',
    hasWindows: true,
    ...(isFrozen ? { isFrozen } : {}),
  });
  const known = (sliceHours: bigint, notes: readonly SliceNote[]) => {
    const cut = { blockNanos: 12n * hour, sliceNanos: sliceHours * hour };
    const { slices, outdated } = knownSlices({ cut, resolutionNanos: 5n * minute }, notes, []);
    const shown = (some: readonly Pick<SliceNote, 'startNanos' | 'endNanos'>[]) =>
      some.map(({ startNanos, endNanos }) => `${startNanos / hour}-${endNanos / hour}`).join();
    return [shown(slices), shown(outdated)];
  };
  // Longer slices, and shorter ones.
  assert.deepEqual(known(12n, [noteOf(0n, 6n), noteOf(6n, 12n)]), ['0-12', '']);
  assert.deepEqual(known(6n, [noteOf(0n, 12n)]), ['0-6,6-12', '']);
  assert.deepEqual(known(6n, [noteOf(0n, 12n), noteOf(0n, 6n)]), ['0-6,6-12', '']);
  const made = [noteOf(0n, 12n), noteOf(0n, 6n), noteOf(6n, 12n)];
  assert.deepEqual(known(6n, made), ['0-6,6-12', '0-12']);
  // Behind what is frozen: longer ones begin where that ends, of shorter ones those that are inside are not there.
  const frozen = noteOf(0n, 6n, true);
  assert.deepEqual(known(12n, [frozen, noteOf(6n, 9n)]), ['6-12', '']);
  assert.deepEqual(known(12n, [frozen, noteOf(6n, 9n), noteOf(6n, 12n)]), ['6-12', '6-9']);
  assert.deepEqual(known(4n, [frozen, noteOf(6n, 12n)]), ['6-8,8-12', '']);
  assert.deepEqual(known(3n, [noteOf(0n, 12n, true), noteOf(12n, 15n)]), ['12-15', '']);
});
