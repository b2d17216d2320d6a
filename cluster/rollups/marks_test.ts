import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { MemoryKvStore } from '../kv/memory.ts';
import { RollupMarks } from './marks.ts';
import { type RollupShare, shareOfCoordinators } from './share.ts';

const never = new AbortController().signal;
const cluster = { environment: 'test', zone: 'embedded' };
const policy = { resolutionNanos: 60_000_000_000n, retentionNanos: 3_600_000_000_000n };
const ofAll = shareOfCoordinators(cluster, { placement: null, modRevision: 0 })!;

function shareOf(set: number, numShards: number, shards: readonly number[]): RollupShare {
  return { ...ofAll, leaderKey: `leader/${set}`, markSuffix: `/${set}`, numShards, shards };
}

test('a share goes on from where all of its outputs are made, whoever made them', async () => {
  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  const marks = new RollupMarks(kv, cluster);
  const note = async (share: RollupShare, end: bigint): Promise<void> => {
    const leadership = { share, createRevision: 0 };
    assert.ok(await marks.write(policy, end, leadership, never));
  };
  const endOf = (share: RollupShare) => marks.read(policy, share, never);
  assert.equal(await endOf(ofAll), null);
  await note(ofAll, 100n);
  const [one, two] = [shareOf(1, 4, [0, 1]), shareOf(2, 4, [2, 3])];
  assert.equal(await endOf(one), 100n, 'from coordinators');
  await note(one, 300n);
  assert.equal(await endOf(two), 100n);
  assert.equal(await endOf(ofAll), 100n, 'some are not made by others');
  await note(two, 250n);
  assert.equal(await endOf(ofAll), 250n, 'back from aggregators');

  const three = shareOf(3, 4, [1, 2]);
  assert.equal(await endOf(three), 250n, 'from two shares');
  await note(three, 400n);
  assert.equal(await endOf(two), 250n, 'one that it has no longer is further');
  assert.equal(await endOf(shareOf(1, 8, [5])), 250n, 'divided in another way');
  // Its set gets smaller before the one that takes the rest over has begun.
  const small = shareOf(3, 4, [1]);
  await note(small, 500n);
  assert.equal(await endOf(shareOf(4, 4, [2])), 400n, 'as it was left');
  await note(shareOf(4, 4, [2]), 450n);
  await note(small, 600n);
  const { items } = await kv.list('', never);
  assert.ok(!items.some(({ value }) => Buffer.from(value).toString().includes('before')));
  // And when all is divided anew, before everybody has begun by that.
  for (const set of [1, 2, 3]) await note(shareOf(set, 8, [set, set + 4]), 700n);
  assert.equal(await endOf(shareOf(4, 8, [0])), 250n, 'up to where the division before was whole');
  const other = { ...policy, resolutionNanos: 120_000_000_000n };
  assert.equal(await marks.read(other, one, never), null);
});

test('who leads no longer, or by a placement that stands no longer, writes no mark', async () => {
  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  const marks = new RollupMarks(kv, cluster);
  const leadership = { share: ofAll, createRevision: 5 };
  assert.equal(await marks.write(policy, 1n, leadership, never), false);
  const share: RollupShare = { ...ofAll, holds: { ...ofAll.holds, equals: 7 } as never };
  assert.equal(await marks.write(policy, 1n, { share, createRevision: 0 }, never), false);
  assert.equal(await marks.read(policy, ofAll, never), null);
});

test('who comes for the first time begins where a policy has begun', async () => {
  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  const marks = new RollupMarks(kv, cluster);
  const [one, two] = [shareOf(1, 4, [0, 1]), shareOf(2, 4, [2, 3])];
  for (const end of [100n, 900n]) {
    assert.ok(await marks.write(policy, end, { share: one, createRevision: 0 }, never));
  }
  assert.equal(await marks.read(policy, two, never), 100n);
  assert.equal(await marks.read(policy, one, never), 900n);
});
