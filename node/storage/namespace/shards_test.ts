import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Instance, Placement, ShardState } from '#cluster/placement/placement.ts';
import { ShardTable } from './shards.ts';

function placementOf(shards: Record<string, Record<number, ShardState>>, sourceId = ''): Placement {
  const instances = Object.entries(shards).map(
    ([id, states], index): Instance => ({
      id,
      isolationGroup: id,
      zone: 'embedded',
      weight: 1,
      endpoint: `${id}:9000`,
      hostname: id,
      port: 9000,
      shardSetId: index,
      debugPort: 0,
      shards: Object.entries(states).map(([shard, state]) => ({
        id: Number(shard),
        state,
        sourceId: state === 'INITIALIZING' ? sourceId : '',
        cutoverNanos: 0n,
        cutoffNanos: 0n,
      })),
    }),
  );
  return {
    instances,
    replicaFactor: 1,
    numShards: 2,
    isSharded: true,
    isMirrored: false,
    maxShardSetId: 0,
    cutoverTimeNanos: 0n,
  };
}

test('a shard table names the shards that came and went', () => {
  const table = new ShardTable('a');
  assert.deepEqual(table.adopt(null, 0), { added: [], removed: [], handedOver: [] });
  const first = table.adopt(placementOf({ a: { 0: 'INITIALIZING', 1: 'INITIALIZING' } }), 1);
  assert.deepEqual(
    first.added.map(({ id }) => id),
    [0, 1],
  );
  table.adopt(placementOf({ a: { 0: 'AVAILABLE', 1: 'AVAILABLE' } }), 2);
  assert.equal(table.get(1)?.state, 'AVAILABLE');
  assert.deepEqual(table.adopt(placementOf({ a: { 0: 'AVAILABLE' } }), 3), {
    added: [],
    removed: [1],
    handedOver: [],
  });
  assert.equal(table.get(1), undefined);
});

/** A shard on its way from `a` to `b`, as it is assigned by this ID. */
function handover(
  giver: ShardState | null,
  taker: ShardState,
  more: { assignment?: string; endpoint?: string } = {},
): Placement {
  const { assignment = 'one', endpoint = 'b:9000' } = more;
  const placement = placementOf({ a: giver === null ? {} : { 0: giver }, b: { 0: taker } });
  const [a, b] = placement.instances as [Instance, Instance];
  const sourceId = giver === 'LEAVING' ? 'a' : '';
  const shards = b.shards.map((shard) => ({ ...shard, sourceId, assignment }));
  return { ...placement, instances: [a, { ...b, endpoint, shards }] };
}

test('only who was seen taking a shard has taken it over', () => {
  const moving = handover('LEAVING', 'INITIALIZING');
  const retired = handover('LEAVING', 'AVAILABLE');
  const left = handover(null, 'AVAILABLE');
  const first = placementOf({ a: { 0: 'AVAILABLE' } });
  const handedOver = (...steps: Placement[]): readonly number[] => {
    const table = new ShardTable('a');
    const changes = [first, ...steps].map((placement, i) => table.adopt(placement, i + 1));
    assert.deepEqual(changes.at(-1)!.removed, [0]);
    return changes.at(-1)!.handedOver;
  };
  assert.deepEqual(handedOver(moving, retired, left), [0]);
  assert.deepEqual(handedOver(moving, retired, retired, left), [0]);
  assert.deepEqual(handedOver(left), [], 'one change says so');
  assert.deepEqual(handedOver(retired, left), [], 'it was not seen on its way');
  assert.deepEqual(handedOver(moving, left), [], 'nobody was read in its place');
  assert.deepEqual(handedOver(moving, retired, placementOf({ b: {} })), [], 'nobody has it');
  const other = { assignment: 'other' };
  const elsewhere = { endpoint: 'evil:9000' };
  assert.deepEqual(handedOver(moving, handover('LEAVING', 'AVAILABLE', other), left), []);
  assert.deepEqual(handedOver(moving, retired, handover(null, 'AVAILABLE', other)), []);
  assert.deepEqual(handedOver(moving, retired, handover(null, 'AVAILABLE', elsewhere)), []);
  assert.deepEqual(handedOver(moving, retired, handover(null, 'INITIALIZING')), []);
  assert.deepEqual(handedOver(moving, first, retired, left), [], 'it came back in between');
});

test('a placement that was deleted and made anew counts from 1 again', () => {
  const table = new ShardTable('a');
  table.adopt(placementOf({ a: { 0: 'LEAVING' }, b: { 0: 'INITIALIZING' } }, 'a'), 5);
  assert.equal(table.writerIsStale(0, 4), true);
  const change = table.adopt(placementOf({ a: { 1: 'AVAILABLE' } }), 1);
  assert.deepEqual(change.removed, [0]);
  assert.equal(table.version, 1);
  assert.equal(table.writerIsStale(1, 1), false);
  assert.equal(table.readerIsStale(1, 1), false);
  assert.equal(table.writerVersionMax, 1);
});

test('a donor refuses writers that do not know the new owner of a moving shard', () => {
  const table = new ShardTable('a');
  table.adopt(placementOf({ a: { 0: 'AVAILABLE', 1: 'AVAILABLE' } }), 2);
  assert.equal(table.writerIsStale(0, 2), false);
  table.adopt(
    placementOf({ a: { 0: 'LEAVING', 1: 'AVAILABLE' }, b: { 0: 'INITIALIZING' } }, 'a'),
    3,
  );
  assert.equal(table.writerIsStale(0, 2), true);
  assert.equal(table.writerIsStale(0, 3), false);
  assert.equal(table.writerIsStale(1, 2), false);
});

test('the end of a move refuses nobody: the owners were known before', () => {
  const table = new ShardTable('b');
  table.adopt(placementOf({ a: { 0: 'LEAVING' }, b: { 0: 'INITIALIZING' } }, 'a'), 3);
  table.adopt(placementOf({ a: { 0: 'LEAVING' }, b: { 0: 'AVAILABLE' } }, 'a'), 4);
  table.adopt(placementOf({ b: { 0: 'AVAILABLE' } }), 5);
  assert.equal(table.writerIsStale(0, 3), false);
});

test('once another one is read in its place a giver is retired, and older readers are stale', () => {
  const step1 = placementOf(
    { a: { 0: 'LEAVING', 1: 'AVAILABLE' }, b: { 0: 'AVAILABLE' }, c: { 0: 'AVAILABLE' } },
    'a',
  );
  for (const id of ['a', 'b', 'c']) {
    const table = new ShardTable(id);
    table.adopt(placementOf({ a: { 0: 'AVAILABLE', 1: 'AVAILABLE' }, c: { 0: 'AVAILABLE' } }), 2);
    const moving = { 0: 'LEAVING', 1: 'AVAILABLE' } as const;
    table.adopt(
      placementOf({ a: moving, b: { 0: 'INITIALIZING' }, c: { 0: 'AVAILABLE' } }, 'a'),
      3,
    );
    assert.equal(table.readerIsStale(0, 2), false);
    table.adopt(step1, 4);
    assert.equal(table.get(0)!.isRetired, id === 'a');
    assert.equal(table.readerIsStale(0, 3), true);
    assert.equal(table.readerIsStale(0, 4), false);
    assert.equal(table.readerIsStale(1, 3), false);
    table.adopt(placementOf({ b: { 0: 'AVAILABLE' }, c: { 0: 'AVAILABLE' } }), 5);
    assert.equal(table.readerIsStale(0, 4), false);
  }
});

test('what was before its start a node does not know: older readers and writers are stale', () => {
  const table = new ShardTable('a');
  table.adopt(placementOf({ a: { 0: 'AVAILABLE' } }), 7);
  assert.equal(table.readerIsStale(0, 6), true);
  assert.equal(table.writerIsStale(0, 6), true);
  assert.equal(table.readerIsStale(0, 7), false);
  assert.equal(table.writerIsStale(0, 7), false);
  // Whoever names no placement counts nobody.
  assert.equal(table.readerIsStale(0, 0), false);
  assert.equal(table.writerIsStale(0, 0), false);
});

test('after a restart in the middle of a move older writers are refused too', () => {
  const table = new ShardTable('a');
  table.adopt(placementOf({ a: { 0: 'LEAVING' }, b: { 0: 'INITIALIZING' } }, 'a'), 7);
  assert.equal(table.writerIsStale(0, 6), true);
});
