import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Introduction, NodeHealth } from '#cluster/node/service.ts';
import {
  initPlacement,
  markShardsAvailable,
  replaceInstances,
} from '#cluster/placement/algorithm.ts';
import type { Instance, Placement } from '#cluster/placement/placement.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { Introductions } from './introductions.ts';

const never = new AbortController().signal;
const own: Introduction = {
  instanceId: 'a',
  incarnation: 'one',
  bootCount: 3,
  mark: 'm2',
  markBefore: 'm1',
  placementVersion: 1,
  lineageId: '',
  asks: false,
  deletionSequence: 0,
};

function instance(id: string): Instance {
  return {
    id,
    isolationGroup: id,
    zone: 'embedded',
    weight: 1,
    endpoint: `${id}:9000`,
    hostname: id,
    port: 9000,
    debugPort: 0,
    shardSetId: 0,
    shards: [],
  };
}

/** Peers of a, of which these vouch for it; the others of the placement are away. */
function introductions(vouchers: readonly string[], others: readonly string[]) {
  const told: Introduction[] = [];
  const made = new Introductions({
    env: realEnv,
    instanceId: 'a',
    nodeServiceOf: ({ id }) => ({
      async health(_, of) {
        if (![...vouchers, ...others].includes(id)) throw new TsdbError('UNAVAILABLE', 'away');
        told.push(of!);
        const vouches = of!.asks && vouchers.includes(id);
        return { instanceId: id, vouches } as NodeHealth;
      },
    }),
  });
  return { made, told };
}

function placementOf(ids: readonly string[], replicaFactor: number): Placement {
  const made = initPlacement(ids.map(instance), { numShards: 4, replicaFactor });
  return ids.reduce((placement, id) => markShardsAvailable(placement, id, () => true), made);
}

const three = placementOf(['a', 'b', 'c'], 3);

test('a folder is known when as many others vouch for it as acknowledge a write', async () => {
  const known = (vouchers: string[], others: string[]): Promise<boolean> =>
    introductions(vouchers, others).made.isVouchedFor(three, own, never);
  assert.equal(await known(['b', 'c'], []), true);
  assert.equal(await known(['b'], ['c']), false);
  assert.equal(await known(['b'], []), false);
});

test('who gave a shard and who took it over are one replica', async () => {
  const moving = replaceInstances(three, ['c'], [instance('d')], { force: false });
  const placement = markShardsAvailable(moving, 'd', () => true);
  const known = (...vouchers: string[]): Promise<boolean> =>
    introductions(vouchers, []).made.isVouchedFor(placement, own, never);
  assert.equal(await known('c', 'd'), false);
  assert.equal(await known('b', 'c'), false);
  assert.equal(await known('b', 'd'), true);
});

test('nobody can vouch for who owns its shards alone, or none', async () => {
  const { made } = introductions(['b', 'c'], []);
  assert.equal(await made.isVouchedFor(placementOf(['a'], 1), own, never), false);
  assert.equal(await made.isVouchedFor(placementOf(['b'], 1), own, never), false);
  assert.equal(await made.isVouchedFor(null, own, never), false);
});

test('all who own shards with a node are told, and who is away hears it the next time', async () => {
  const { made, told } = introductions([], ['c']);
  await made.tell(three, own, never);
  assert.deepEqual(told, [own]);
});
