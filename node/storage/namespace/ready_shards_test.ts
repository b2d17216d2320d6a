import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { closeDatabases, never, openDatabase } from '../database_testing.ts';
import { ReadyShards } from './ready_shards.ts';
import { SimulatedDisk } from '#test/sim/simulated_disk.ts';

test('a shard that lost blocks has the others', () => {
  const shards = new ReadyShards();
  const has = (blocks: bigint[] | null) =>
    shards.hasBlocks(0, blocks === null ? null : new Set(blocks));
  shards.add(0);
  assert.deepEqual([has(null), has([1n]), shards.losses(0)], [true, true, 0]);
  shards.lose(0, new Set([1n]));
  assert.equal(shards.has(0), false);
  assert.deepEqual([has(null), has([1n]), has([2n]), has([1n, 2n])], [false, false, true, false]);
  shards.lose(0, new Set([2n]));
  assert.deepEqual([has([1n]), has([2n]), has([3n]), shards.losses(0)], [false, false, true, 2]);
  assert.deepEqual(
    [shards.hasBlocksFrom(0, 0n, 2n), shards.hasBlocksFrom(0, 2n, 9n), shards.isHere(0)],
    [false, false, true],
  );
  assert.deepEqual(
    [shards.hasBlocksFrom(0, -5n, 1n), shards.hasBlocksFrom(0, 3n, 9n)],
    [true, true],
  );
  shards.add(0);
  assert.deepEqual([has(null), has([1n]), shards.losses(0)], [true, true, 2]);
});

test('an answer is whole when no lost block reaches into its time', async () => {
  const { database } = await openDatabase('data', {
    env: { ...realEnv, disk: new SimulatedDisk({ below: () => 0 }) },
  });
  after(closeDatabases);
  const { readyShards, blockSizeNanos } = database.namespaces.get('metrics')!;
  const start = 1000n * blockSizeNanos;
  readyShards.lose(0, new Set([start]));
  const isWhole = async (startNanos: bigint, endNanos: bigint) => {
    const range = { startNanos, endNanos, namespace: 'metrics', placementVersion: 0 };
    const request = { ...range, query: { kind: 'all' } as const, shards: null, seriesLimit: 0 };
    const { shards } = await database.fetch({ ...request, fetchData: true }, never);
    return shards.includes(0);
  };
  const end = start + blockSizeNanos;
  assert.equal(await isWhole(start - 9n, start), true);
  assert.equal(await isWhole(start - 9n, start + 1n), false);
  assert.equal(await isWhole(end - 1n, end + 9n), false);
  assert.equal(await isWhole(end, end + 9n), true);
});

test('a node says which shards lack blocks, damaged or in doubt, until these are here again', async () => {
  const { database } = await openDatabase('data', {
    env: { ...realEnv, disk: new SimulatedDisk({ below: () => 0 }) },
  });
  after(closeDatabases);
  const said = async () => {
    const { blocksLacking, shardsLacking } = await database.health(never);
    return [blocksLacking, shardsLacking];
  };
  assert.deepEqual(await said(), [0, []]);
  const { readyShards, blockSizeNanos } = database.namespaces.get('metrics')!;
  const [first, second] = [1000n * blockSizeNanos, 1001n * blockSizeNanos];
  readyShards.lose(0, new Set([first]));
  database.doubts.add('a log', 'metrics', [0, 1], new Set([first, second]));
  assert.deepEqual(await said(), [4, [0, 1]]);
  database.doubts.end('metrics', 0, null);
  database.doubts.end('metrics', 1, new Set([first]));
  assert.deepEqual(await said(), [2, [0, 1]]);
  readyShards.regain(0, new Set([first]));
  database.doubts.end('metrics', 1, null);
  assert.deepEqual(await said(), [0, []]);
});

test('of a shard that was not here nothing is known, whatever it loses', () => {
  const shards = new ReadyShards();
  shards.add(0);
  shards.delete(0);
  shards.lose(0, new Set([1n]));
  assert.equal(shards.hasBlocks(0, new Set([2n])), false);
  assert.equal(shards.hasBlocksFrom(0, 2n, 3n), false);
  assert.equal(shards.isHere(0), false);
  shards.add(0);
  shards.lose(0, new Set([1n]));
  const losses = shards.losses(0);
  shards.delete(0);
  assert.equal(shards.losses(0), losses + 1);
  assert.equal(shards.hasBlocks(0, new Set([2n])), false);
});
