import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { never, writeRows } from '../database_testing.ts';
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
