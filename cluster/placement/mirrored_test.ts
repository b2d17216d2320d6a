import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TsdbError } from '#lib/errors.ts';
import { addMirrored, initMirrored, removeMirrored, replaceMirrored } from './mirrored.ts';
import { type InstanceInfo, type Placement, placementProblem } from './placement.ts';

const instance = (id: string, isolationGroup: string, more: Partial<InstanceInfo> = {}) => ({
  id,
  isolationGroup,
  zone: 'embedded',
  weight: 1,
  endpoint: `${id}:6000`,
  hostname: id,
  port: 6000,
  shardSetId: 0,
  debugPort: 0,
  ...more,
});

const six = ['a1', 'a2', 'b1', 'b2', 'c1', 'c2'].map((id) => instance(id, id[0]!));

/** By set: its members, and how many shards they have. */
function setsOf(placement: Placement): Record<number, string> {
  assert.equal(placementProblem(placement), null);
  assert.ok(placement.isMirrored);
  const sets: Record<number, string> = {};
  for (const [id, members] of Map.groupBy(placement.instances, ({ shardSetId }) => shardSetId)) {
    const shards = new Set(members.map((member) => member.shards.map((shard) => shard.id).join()));
    assert.equal(shards.size, 1, 'members have the same shards');
    assert.ok(members.every((member) => member.shards.every(({ state }) => state === 'AVAILABLE')));
    sets[id] = `${members.map((member) => member.id).join('+')} ${members[0]!.shards.length}`;
  }
  return sets;
}

const refused = (act: () => unknown, text: RegExp): void => {
  assert.throws(act, (error) => error instanceof TsdbError && text.test(error.message));
};

test('instances stand in sets over isolation groups, with the same shards', () => {
  const placement = initMirrored(six, { numShards: 32, replicaFactor: 2 });
  assert.deepEqual(setsOf(placement), { 1: 'a1+b1 11', 2: 'a2+c1 11', 3: 'b2+c2 10' });
  assert.equal(placement.maxShardSetId, 3);
});

test('sets that are named are taken as they are', () => {
  const named = [
    instance('a1', 'a', { shardSetId: 7 }),
    instance('b1', 'b', { shardSetId: 7 }),
    instance('a2', 'a'),
    instance('c1', 'c'),
  ];
  const placement = initMirrored(named, { numShards: 4, replicaFactor: 2 });
  assert.deepEqual(setsOf(placement), { 7: 'a1+b1 2', 8: 'a2+c1 2' });
  const shape = { numShards: 4, replicaFactor: 2 };
  refused(() => initMirrored(named.slice(1), shape), /shard_set_id 7 has 1 instances instead of 2/);
  const same = [named[0]!, instance('a3', 'a', { shardSetId: 7 })];
  refused(() => initMirrored(same, shape), /two instances of one isolation group: a1, a3/);
});

test('what makes no sets is refused', () => {
  const shape = { numShards: 4, replicaFactor: 2 };
  refused(() => initMirrored(six.slice(0, 3), shape), /make no shard sets of 2.*a2 would be left/);
  const heavy = instance('b9', 'b', { weight: 2 });
  refused(() => initMirrored([six[0]!, heavy], shape), /of weight 1 make no shard sets/);
  for (const replicaFactor of [0, 8]) {
    const wrong = { ...shape, replicaFactor };
    refused(() => initMirrored(six, wrong), /replication_factor must be between 1 and 7/);
  }
  const named = (shardSetId: number) => [
    instance('d1', 'd', { shardSetId }),
    instance('e1', 'e', { shardSetId }),
  ];
  refused(() => initMirrored(named(2 ** 32 - 1), shape), /4294967295 is above 1000000000: d1, e1/);
  const last = initMirrored(named(1_000_000_000), shape);
  refused(() => addMirrored(last, six), /numbers of shard sets do not come again/);
});

test('sets are added, and take a share of the shards from the others', () => {
  const placement = initMirrored(six.slice(0, 4), { numShards: 30, replicaFactor: 2 });
  assert.deepEqual(setsOf(placement), { 1: 'a1+b1 15', 2: 'a2+b2 15' });
  const more = addMirrored(
    placement,
    six.slice(4).map((info, i) => ({ ...info, isolationGroup: `c${i}` })),
  );
  assert.deepEqual(setsOf(more), { 1: 'a1+b1 10', 2: 'a2+b2 10', 3: 'c1+c2 10' });
  refused(() => addMirrored(more, [six[0]!]), /a1 already exists/);
  const taken = [instance('d1', 'd', { shardSetId: 2 }), instance('e1', 'e', { shardSetId: 2 })];
  refused(() => addMirrored(more, taken), /shard_set_id 2 is that of other instances: a2, b2/);
});

test('sets leave as a whole, and their numbers do not come back', () => {
  const placement = initMirrored(six, { numShards: 32, replicaFactor: 2 });
  refused(() => removeMirrored(placement, ['a2']), /shard set 2 leaves as a whole, and c1 is not/);
  refused(() => removeMirrored(placement, ['x']), /instance not found: x/);
  const less = removeMirrored(placement, ['c2', 'b2']);
  assert.deepEqual(setsOf(less), { 1: 'a1+b1 16', 2: 'a2+c1 16' });
  const again = addMirrored(less, [instance('b3', 'b'), instance('c3', 'c')]);
  assert.deepEqual(Object.keys(setsOf(again)), ['1', '2', '4']);
  refused(() => removeMirrored(less, ['a1', 'b1', 'a2', 'c1']), /no instance would stay/);
});

test('a candidate takes the place of its predecessor', () => {
  const placement = initMirrored(six, { numShards: 32, replicaFactor: 2 });
  const next = replaceMirrored(placement, ['c1'], [instance('b9', 'b'), instance('c9', 'c')]);
  assert.deepEqual(setsOf(next), { 1: 'a1+b1 11', 2: 'a2+c9 11', 3: 'b2+c2 10' });
  const moved = replaceMirrored(placement, ['c1'], [instance('d1', 'd')]);
  assert.deepEqual(setsOf(moved)[2], 'a2+d1 11');
  refused(
    () => replaceMirrored(placement, ['c1'], [instance('a9', 'a')]),
    /another isolation group than a/,
  );
  refused(() => replaceMirrored(placement, ['c1'], []), /each instance that leaves needs one/);
  // Whoever may take several places leaves to others the only one that they may take.
  const two = [instance('d1', 'd'), instance('a9', 'a')];
  for (const candidates of [two, two.toReversed()]) {
    const both = replaceMirrored(
      placement,
      ['b1', 'c1'],
      candidates.map((one) => (one.id === 'a9' ? { ...one, isolationGroup: 'c' } : one)),
    );
    assert.deepEqual([setsOf(both)[1], setsOf(both)[2]], ['a1+d1 11', 'a2+a9 11']);
  }
  const narrow = [instance('x1', 'x'), instance('a8', 'a')];
  for (const candidates of [narrow, narrow.toReversed()]) {
    const both = replaceMirrored(placement, ['a1', 'c1'], candidates);
    assert.deepEqual([setsOf(both)[1], setsOf(both)[2]], ['a8+b1 11', 'a2+x1 11']);
  }
});
