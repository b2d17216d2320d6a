import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { never, writeRows } from '../database_testing.ts';
import type { BlockFile } from '../filesets/block_file.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import { madeOf, type Source, stillMadeOf } from './made_of.ts';
import { hour, minute, rowsOf, second, sorted, World } from './aggregation_testing.ts';

/** Less than 40 hours ago, and all of its blocks are closed. */
const start = ((realEnv.clock.nowNanos() - 61n * minute) / (12n * hour)) * 12n * hour - 24n * hour;

function openWorld(blockSizeNanos: bigint): Promise<World> {
  return World.open(5n * minute, {
    rawRetention: { retentionPeriodNanos: 40n * hour },
    longer: { retentionPeriodNanos: 240n * hour, blockSizeNanos },
    promise: { completeSinceNanos: 0n },
  });
}

for (const flushed of ['at once', 'later']) {
  test(`windows are made once though their samples leave a shorter retention, flushed by another namespace ${flushed}`, async () => {
    const world = await openWorld(flushed === 'later' ? 12n * hour : 2n * hour);
    await world.write(rowsOf('a', start + 15n * second, 1_500));
    if (flushed === 'later') await world.database.flusher.flushAll(['metrics'], never);
    else await world.flush();
    await world.run();
    assert.deepEqual(sorted(await world.windows()), sorted(world.expected()));
    assert.ok(world.aggregator.counts.slices > 0);
    await world.flush();
    await world.run();
    // Short filesets are brought together meanwhile.
    await world.database.flusher.runDue(never);
    await world.run();
    world.rawRetention = { retentionPeriodNanos: 12n * hour };
    await world.start();
    // The log has the rows still.
    await world.flush();
    await world.run();
    assert.equal(world.aggregator.counts.slices, 0);
    assert.deepEqual(sorted(await world.windows()), sorted(world.expected()));
  });
}

test('rows that a longer retention alone has taken are in the windows once these are its own', async () => {
  const world = await openWorld(2n * hour);
  await world.write(rowsOf('a', start + 15n * second, 1_500));
  await world.flush();
  await world.run();
  // The other one takes no rows so late.
  const late = rowsOf('a', start + hour, 30);
  await writeRows(world.database, late, { namespace: 'longer' });
  await world.flush();
  await world.run();
  world.written.push(...late);
  world.rawRetention = { retentionPeriodNanos: 12n * hour };
  await world.start();
  await world.flush();
  await world.run();
  assert.deepEqual(sorted(await world.windows()), sorted(world.expected()));
});

test('rows that come late are in the windows, though another namespace has not got them', async () => {
  const world = await openWorld(2n * hour);
  await world.write(rowsOf('a', start + 15n * second, 1_500));
  await world.flush();
  await world.run();
  await world.start();
  const late = rowsOf('b', start + hour, 30);
  await writeRows(world.database, late, { namespace: 'metrics' });
  await world.flush();
  await world.run();
  world.written.push(...late);
  assert.deepEqual(sorted(await world.windows()), sorted(world.expected()));
});

test('a slice is not made again for filesets that are brought together, whichever were before it was made', () => {
  const namespace = { definition: { name: 'metrics', number: 7 } } as unknown as NamespaceState;
  const file = (from: number, hours: number, volume: number, ...parts: BlockFile[]): BlockFile => {
    const blockStartNanos = BigInt(from) * hour;
    const blockSizeNanos = BigInt(hours) * hour;
    const info = { blockStartNanos, blockSizeNanos, volume, createdNanos: BigInt(volume) };
    const endNanos = blockStartNanos + blockSizeNanos;
    const standsFor = parts.length === 0 ? null : parts;
    return { blockStartNanos, endNanos, volume, info, standsFor } as unknown as BlockFile;
  };
  const source = (...files: BlockFile[]): Source => {
    return { of: [namespace], raw: files.map((one) => ({ namespace, file: one })) };
  };
  const short = Array.from({ length: 8 }, (_, i) => file(2 * i, 2, 0));
  const early = file(0, 8, 1, ...short.slice(0, 4));
  const late = file(8, 8, 1, ...short.slice(4));
  // Of the last short one there are no rows of it.
  const range = { startNanos: 0n, endNanos: 14n * hour };
  const before = madeOf([source(early, short[4]!, short[5]!, short[6]!)]);
  const is = (...files: BlockFile[]): boolean =>
    stillMadeOf(before, source(...files), [], range) !== null;
  assert.equal(is(early, late), true);
  assert.equal(is(file(0, 16, 2, early, late)), true);
  assert.deepEqual(
    stillMadeOf(before, source(early, late), [], range),
    madeOf([source(early, late)]),
  );
  // One of them had other rows by then.
  const other = [short[4]!, file(10, 2, 1), ...short.slice(6)];
  assert.equal(is(early, file(8, 8, 1, ...other)), false);
  assert.equal(is(early, file(8, 8, 2)), false);
  assert.equal(is(late), false);
});
