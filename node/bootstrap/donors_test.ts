import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withAssignments } from '#cluster/placement/assignments.ts';
import type { Placement, ShardState } from '#cluster/placement/placement.ts';
import { placementOf } from '../storage/database_testing.ts';
import { donorPlan } from './donors.ts';

const states = (all: Record<string, ShardState>, sourceId = ''): Placement =>
  placementOf(Object.fromEntries(Object.entries(all).map(([id, state]) => [id, { 0: state }])), {
    numShards: 1,
    replicaFactor: 3,
    sourceId,
  });
const ids = (plan: ReturnType<typeof donorPlan>) => [
  plan.candidates.map(({ id }) => id),
  plan.needed,
  plan.areAll,
];

test('a moving shard is taken from its source alone', () => {
  const placement = states(
    { a: 'LEAVING', b: 'AVAILABLE', c: 'AVAILABLE', d: 'INITIALIZING' },
    'a',
  );
  assert.deepEqual(ids(donorPlan(placement, 'd', { id: 0, sourceId: 'a' }, false)), [
    ['a'],
    1,
    false,
  ]);
});

test('when the source has failed, two of the other replicas hold every acknowledged write', () => {
  const all = { a: 'LEAVING', b: 'AVAILABLE', c: 'AVAILABLE', d: 'INITIALIZING' } as const;
  const shard = { id: 0, sourceId: 'a' };
  assert.deepEqual(ids(donorPlan(states(all, 'a'), 'd', shard, true)), [['b', 'c'], 2, false]);
  const { c: _, ...fewer } = all;
  assert.deepEqual(ids(donorPlan(states(fewer, 'a'), 'd', shard, true)), [['a'], 1, false]);
});

test('a shard without a source is taken from the replicas that are available', () => {
  const shard = { id: 0, sourceId: '' };
  const reset = states({ a: 'INITIALIZING', b: 'AVAILABLE', c: 'AVAILABLE' });
  assert.deepEqual(ids(donorPlan(reset, 'a', shard, false)), [['b', 'c'], 2, true]);
  const lost = states({ a: 'INITIALIZING', b: 'INITIALIZING', c: 'AVAILABLE' });
  assert.deepEqual(ids(donorPlan(lost, 'a', shard, false)), [['c'], 1, true]);
  const givenUp = states({ a: 'INITIALIZING', b: 'INITIALIZING', c: 'INITIALIZING' });
  assert.deepEqual(ids(donorPlan(givenUp, 'a', shard, false)), [['b', 'c'], 2, true]);
  assert.equal(donorPlan(givenUp, 'a', shard, false).areRemains, true);
  const fresh = withAssignments(null, givenUp, 'first');
  const [first] = fresh.instances[0]!.shards;
  assert.deepEqual(ids(donorPlan(fresh, 'a', { ...first!, assignment: 'later' }, false))[0], [
    'b',
    'c',
  ]);
  assert.deepEqual(ids(donorPlan(fresh, 'a', first!, false)), [[], 0, true]);
  // Two that had the shard gave it up; the third was named with the placement, and never came.
  const late = withAssignments(
    withAssignments(null, states({ a: 'AVAILABLE', b: 'AVAILABLE', c: 'INITIALIZING' }), 'first'),
    givenUp,
    'later',
  );
  const planOfLate = donorPlan(late, 'c', late.instances[2]!.shards[0]!, false);
  assert.equal(late.instances[2]!.shards[0]!.assignment, 'first');
  assert.deepEqual(ids(planOfLate), [['a', 'b'], 2, true]);
  assert.equal(planOfLate.areRemains, true);
  const coverings = [reset, lost].map((all) => donorPlan(all, 'a', shard, false).areCovering);
  assert.deepEqual(coverings, [true, false]);
});
