import assert from 'node:assert/strict';
import { test } from 'node:test';
import { finishHandovers, retiredOwners } from './handover.ts';
import {
  type Placement,
  placementFromJson,
  placementProblem,
  placementToJson,
} from './placement.ts';
import { placementFromStored, placementToStored } from './stored.ts';

type States = Record<string, string>;

/** One shard: 'A' AVAILABLE, 'L' LEAVING, 'I' INITIALIZING, with the source after it. */
function placementOf(states: States, replicaFactor = 3): Placement {
  const name = { A: 'AVAILABLE', L: 'LEAVING', I: 'INITIALIZING' } as Record<string, string>;
  const instances = Object.entries(states).map(([id, text]) => [
    id,
    {
      id,
      isolationGroup: text[1] ?? id,
      zone: 'embedded',
      weight: 1,
      endpoint: `${id}:9000`,
      hostname: id,
      port: 9000,
      shards: [{ id: 0, state: name[text[0]!], sourceId: text[1] ?? '' }],
    },
  ]);
  const json = { instances: Object.fromEntries(instances), replicaFactor, numShards: 1 };
  return placementFromJson({ ...json, isSharded: true });
}

const step1 = { a: 'A', b: 'A', c: 'L', d: 'Ac' };
const step2 = { a: 'A', b: 'A', d: 'A' };

function statesOf({ instances }: Placement): States {
  return Object.fromEntries(
    instances.map(({ id, shards }) => [id, `${shards[0]!.state[0]}${shards[0]!.sourceId}`]),
  );
}

const retired = (states: States) =>
  [...retiredOwners(placementOf(states))].map(([shard, ids]) => [shard, [...ids]]);

test('an owner is retired once nobody is about to take the shard from it', () => {
  assert.deepEqual(retired({ a: 'A', b: 'A', c: 'A' }), []);
  assert.deepEqual(retired({ a: 'A', b: 'A', c: 'L', d: 'Ic' }), []);
  assert.deepEqual(retired(step1), [[0, ['c']]]);
  assert.deepEqual(retired({ a: 'A', b: 'L', c: 'L', d: 'Ac', e: 'Ib' }), [[0, ['c']]]);
  // As a release without step 1 may leave it.
  assert.deepEqual(retired({ a: 'A', b: 'A', c: 'L', d: 'I' }), [[0, ['c']]]);
});

test('a giver leaves when it, or all others, know that it is not read any more', () => {
  const placement = placementOf(step1);
  const after = (known: Record<string, boolean>) =>
    statesOf(finishHandovers(placement, new Map(Object.entries(known))));
  for (const known of [
    { c: true },
    { a: false, b: false, c: true, d: true },
    { a: true, b: true, d: true },
    { a: true, b: true, c: false, d: true },
  ]) {
    assert.deepEqual(after(known), step2);
  }
  for (const known of [
    {},
    { a: true, b: true },
    { a: true, d: true },
    { a: true, b: false, d: true },
    { a: true, b: true, c: false, d: false },
  ]) {
    assert.equal(finishHandovers(placement, new Map(Object.entries(known))), placement);
  }
});

test('with one replica a giver that can be reached must know itself', () => {
  const placement = placementOf({ c: 'L', d: 'Ac' }, 1);
  const isDue = (known: Record<string, boolean>) =>
    finishHandovers(placement, new Map(Object.entries(known))) !== placement;
  assert.equal(isDue({ c: false, d: true }), false);
  assert.equal(isDue({ c: true, d: true }), true);
  assert.equal(isDue({ d: true }), true);
});

test('of two givers of a shard each waits for the other, unless it knows itself', () => {
  const placement = placementOf({ a: 'A', b: 'L', c: 'L', d: 'Ac', e: 'Ab' });
  const after = (...ids: string[]) =>
    statesOf(finishHandovers(placement, new Map(ids.map((id) => [id, true]))));
  assert.deepEqual(after('a', 'd', 'e'), statesOf(placement));
  assert.deepEqual(after('b'), { a: 'A', c: 'L', d: 'Ac', e: 'A' });
  assert.deepEqual(after('a', 'c', 'd', 'e'), { a: 'A', d: 'A', e: 'A' });
});

test('what a release without step 1 leaves of a handover ends too', () => {
  const orphan = placementOf({ a: 'A', b: 'A', c: 'L', d: 'I' });
  const known = new Map([['c', true]]);
  assert.deepEqual(statesOf(finishHandovers(orphan, known)), { a: 'A', b: 'A', d: 'I' });
});

test('a placement in step 1 is valid, and is stored and printed as it is', () => {
  const placement = placementOf(step1);
  assert.equal(placementProblem(placement), null);
  assert.equal(placementProblem(placementOf(step2)), null);
  const wire = (json: object): unknown => JSON.parse(JSON.stringify(json));
  assert.deepEqual(placementFromStored(wire(placementToStored(placement, null)), []), placement);
  const [shard] = placementToJson(placement).instances['d']!.shards;
  assert.deepEqual([shard!.state, shard!.sourceId], ['AVAILABLE', 'c']);
  assert.match(placementProblem(placementOf({ a: 'A', b: 'A', c: 'A', d: 'Lc' }))!, /has a source/);
  assert.match(placementProblem(placementOf({ a: 'A', b: 'A', d: 'Ac' }))!, /no LEAVING source/);
  assert.match(placementProblem(placementOf({ ...step2, c: 'L' }))!, /has no receiver/);
});
