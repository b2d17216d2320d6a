import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { silentLog } from '#lib/log.ts';
import { SeededRandom } from '#test/seeded_random.ts';
import { MemoryKvStore } from '../kv/memory.ts';
import { Topology } from '../topology/topology.ts';
import {
  addInstances,
  initPlacement,
  markShardsAvailable,
  removeInstances,
  replaceInstances,
  resetInstance,
} from './algorithm.ts';
import {
  assignmentsToStored,
  isSameAssignment,
  withAssignments,
  withStoredAssignments,
} from './assignments.ts';
import type { InstanceInfo, Placement, Shard } from './placement.ts';
import { PlacementStore } from './store.ts';

const signal = new AbortController().signal;
const cluster = { environment: 'default_env', zone: 'embedded' };
const unforced = { force: false };

function info(id: string, isolationGroup = id): InstanceInfo {
  return {
    id,
    isolationGroup,
    zone: 'embedded',
    weight: 1,
    endpoint: `${id}:9000`,
    hostname: id,
    port: 9000,
    shardSetId: 0,
    debugPort: 0,
  };
}

function settled(placement: Placement): Placement {
  const instances = placement.instances.map((instance) => ({
    ...instance,
    shards: instance.shards.map((shard): Shard => ({ ...shard, state: 'AVAILABLE', sourceId: '' })),
  }));
  return { ...placement, instances };
}

const three = settled(
  initPlacement(
    ['a', 'b', 'c'].map((id) => info(id)),
    { numShards: 4, replicaFactor: 3 },
  ),
);
const first = withAssignments(null, three, 'first');

function shardsOf(placement: Placement, id: string): readonly Shard[] {
  return placement.instances.find((instance) => instance.id === id)?.shards ?? [];
}

test('a shard that goes to and fro is assigned anew each time', () => {
  const d = info('d', 'c');
  const moving = withAssignments(first, replaceInstances(first, ['c'], [d], unforced), '1');
  assert.deepEqual(
    shardsOf(moving, 'd').map(({ assignment }) => assignment),
    ['1', '1', '1', '1'],
  );
  const back = withAssignments(moving, addInstances(moving, [info('c')], { force: true }), '2');
  assert.deepEqual(shardsOf(back, 'd'), []);
  const again = withAssignments(back, removeInstances(back, ['c'], unforced), '3');
  const [before] = shardsOf(moving, 'd');
  const [after] = shardsOf(again, 'd');
  assert.equal(before!.sourceId, after!.sourceId);
  assert.equal(isSameAssignment(before!, after!), false);
});

test('who takes a shard that nobody ever had begins as the first ones do', () => {
  const force = { force: true };
  const made = initPlacement(
    ['a', 'b', 'c'].map((id) => info(id)),
    { numShards: 4, replicaFactor: 3 },
  );
  const fresh = withAssignments(null, made, 'first');
  const assignmentsOf = (placement: Placement, id: string) =>
    new Set(shardsOf(placement, id).map(({ assignment }) => assignment));
  const d = info('d', 'c');
  const replaced = withAssignments(fresh, replaceInstances(fresh, ['c'], [d], force), '1');
  assert.deepEqual(assignmentsOf(replaced, 'd'), new Set(['first']));
  const begun = withAssignments(
    replaced,
    markShardsAvailable(replaced, 'a', () => true),
    '2',
  );
  const had = withAssignments(begun, resetInstance(begun, 'a'), '3');
  assert.deepEqual(assignmentsOf(had, 'a'), new Set(['3']));
  const e = info('e', 'c');
  const late = withAssignments(had, replaceInstances(had, ['d'], [e], force), '4');
  assert.deepEqual(assignmentsOf(late, 'e'), new Set(['4']));
});

test('what goes on keeps its assignment while others move', () => {
  const four = addInstances(first, [info('d')], unforced);
  const moving = withAssignments(first, four, '1');
  const other = withAssignments(moving, removeInstances(moving, ['a'], { force: true }), '2');
  const begun = new Map(shardsOf(moving, 'd').map((shard) => [shard.id, shard]));
  const kept = shardsOf(other, 'd').filter(
    (shard) => begun.get(shard.id)?.sourceId === shard.sourceId,
  );
  assert.ok(kept.length > 0);
  for (const shard of kept) assert.equal(shard.assignment, '1');
});

test('what is stored is read again, and a placement without it has no assignments', () => {
  const moving = addInstances(first, [info('d')], unforced);
  const assigned = withAssignments(first, moving, 'x');
  const json: unknown = JSON.parse(JSON.stringify(assignmentsToStored(assigned, null)));
  assert.deepEqual(withStoredAssignments(moving, json, []), assigned);
  assert.deepEqual(
    shardsOf(withStoredAssignments(moving, { instances: {} }, []), 'd')[0]!.assignment,
    undefined,
  );
  const bad = { instances: { a: { assignments: [{ id: 'x', shards: '3-1' }] } } };
  assert.throws(() => withStoredAssignments(moving, bad, []), /not ranges of shards.*3-1/);
});

test('a watch sees a placement with its assignments, and one of a former release with the old ones', async () => {
  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  const placements = new PlacementStore(kv, cluster, new SeededRandom(1));
  await placements.create(three, signal);
  await using topology = new Topology({ kv, cluster, env: realEnv, log: silentLog }).start();
  await topology.whenLoaded(signal);
  const add = (current: Placement) => addInstances(current, [info('d')], unforced);
  await placements.update(add, signal);
  const ofD = () => shardsOf(topology.view.placement!, 'd');
  const { placement } = await topology.until(
    ({ placementVersion }) => placementVersion === 2,
    signal,
  );
  const [{ assignment }] = shardsOf(placement!, 'd') as [Shard];
  assert.match(assignment!, /^[0-9a-f]{16}$/);
  // It puts the placement alone.
  const item = (await kv.get(placements.key, signal))!;
  await kv.transact([], [{ kind: 'put', key: item.key, value: item.value }], signal);
  await topology.until(({ placementVersion }) => placementVersion === 3, signal);
  assert.equal(ofD()[0]!.assignment, assignment);
  assert.equal(shardsOf((await placements.require(signal)).value, 'd')[0]!.assignment, assignment);
});
