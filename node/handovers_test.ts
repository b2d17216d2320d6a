import assert from 'node:assert/strict';
import { test } from 'node:test';
import { environmentDefault, zoneDefault } from '#cluster/kv/keys.ts';
import { MemoryKvStore } from '#cluster/kv/memory.ts';
import type { NodeHealth, NodeService } from '#cluster/node/service.ts';
import {
  initPlacement,
  markShardsAvailable,
  replaceInstances,
} from '#cluster/placement/algorithm.ts';
import { finishHandovers } from '#cluster/placement/handover.ts';
import type { InstanceInfo, Placement } from '#cluster/placement/placement.ts';
import { PlacementStore } from '#cluster/placement/store.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { silentLog } from '#lib/log.ts';
import { Handovers } from './handovers.ts';
import { ShardTable } from './storage/namespace/shards.ts';

const never = new AbortController().signal;
const name = { environment: environmentDefault, zone: zoneDefault };
const standsKey = 'the announcement of the process';

function info(id: string): InstanceInfo {
  const isolationGroup = id === 'd' ? 'c' : id;
  const address = { endpoint: `${id}:9000`, hostname: id, port: 9000 };
  const rest = { zone: 'embedded', weight: 1, shardSetId: 0, debugPort: 0 };
  return { id, isolationGroup, ...address, ...rest };
}

/** Two shards of a, b and c, which c has handed over to d: step 1. */
function step1(): Placement {
  const markAll = (placement: Placement): Placement =>
    placement.instances.reduce(
      (all, { id }) => markShardsAvailable(all, id, () => true),
      placement,
    );
  const shape = { numShards: 2, replicaFactor: 3 };
  const base = markAll(initPlacement(['a', 'b', 'c'].map(info), shape));
  return markAll(replaceInstances(base, ['c'], [info('d')], { force: false }));
}

class Test {
  readonly store: PlacementStore = new PlacementStore(
    new MemoryKvStore({ clock: realEnv.clock }).client(),
    name,
    realEnv.random,
  );
  /** Versions that instances say; who is not in it cannot be reached. */
  readonly says: Map<string, number> = new Map();
  readonly asked: string[] = [];
  readonly ofFormerRelease: Set<string> = new Set();
  readonly #table: ShardTable;
  readonly handovers: Handovers;

  constructor(instanceId: string) {
    this.#table = new ShardTable(instanceId);
    this.handovers = new Handovers({
      instanceId,
      clock: realEnv.clock,
      log: silentLog,
      shards: this.#table,
      placements: this.store,
      nodeServiceOf: ({ id }) => ({ health: () => this.#health(id) }) as unknown as NodeService,
      isStanding: () => ({ key: standsKey, target: 'modRevision', equals: 0 }),
    });
  }

  static async begin(instanceId: string): Promise<Test> {
    const test = new Test(instanceId);
    await test.store.create(step1(), never);
    await test.adopt();
    return test;
  }

  async adopt(): Promise<void> {
    const { value, version } = await this.store.require(never);
    this.#table.adopt(value, version);
  }

  async ids(): Promise<string> {
    return (await this.store.require(never)).value.instances.map(({ id }) => id).join('');
  }

  async #health(id: string): Promise<NodeHealth> {
    this.asked.push(id);
    const placementVersion = this.says.get(id);
    if (placementVersion === undefined) throw new TsdbError('UNAVAILABLE', 'connection refused');
    const retires = !this.ofFormerRelease.has(id);
    return { instanceId: id, placementVersion, retires } as NodeHealth;
  }
}

test('a giver that knows leaves all its shards at once and asks nobody', async () => {
  const giver = await Test.begin('c');
  assert.equal(await giver.handovers.leave(never), true);
  assert.equal(await giver.ids(), 'abd');
  assert.deepEqual(giver.asked, []);
  assert.equal((await giver.store.require(never)).version, 2);
  for (const id of ['a', 'd']) {
    const other = await Test.begin(id);
    assert.equal(await other.handovers.leave(never), false);
  }
});

test('a taker ends the handover for a giver that is dead, once all others know', async () => {
  const taker = await Test.begin('d');
  taker.says.set('a', 1).set('b', 0);
  assert.equal(await taker.handovers.end(never), false);
  assert.equal(await taker.ids(), 'abcd');
  assert.deepEqual(taker.asked.sort(), ['a', 'b', 'c']);
  taker.says.set('b', 1);
  assert.equal(await taker.handovers.end(never), true);
  assert.equal(await taker.ids(), 'abd');
  await taker.adopt();
  taker.asked.length = 0;
  assert.equal(await taker.handovers.end(never), false);
  assert.deepEqual(taker.asked, []);
});

test('who has not taken the shard ends nothing', async () => {
  const other = await Test.begin('a');
  for (const id of ['b', 'c', 'd']) other.says.set(id, 1);
  assert.equal(await other.handovers.end(never), false);
  assert.deepEqual(other.asked, []);
});

test('what was asked of one version ends nothing in the next one, nor for a process that was replaced', async () => {
  const late = await Test.begin('c');
  await late.store.update((current) => ({ ...current, maxShardSetId: 7 }), never);
  assert.equal(await late.handovers.leave(never), false);
  await late.adopt();
  await late.store.kv.transact(
    [],
    [{ kind: 'put', key: standsKey, value: new Uint8Array(1) }],
    never,
  );
  assert.equal(await late.handovers.leave(never), false);
  assert.equal(await late.ids(), 'abcd');
});

test('a giver of a former release leaves in the version in which its taker is AVAILABLE', async () => {
  const taker = await Test.begin('d');
  const sources = [{ sourceId: 'c' }, { sourceId: '' }];
  assert.deepEqual(await taker.handovers.leavingAtOnce(sources, never), new Map());
  taker.says.set('c', 1);
  assert.deepEqual(await taker.handovers.leavingAtOnce(sources, never), new Map());
  taker.ofFormerRelease.add('c');
  const leaving = await taker.handovers.leavingAtOnce(sources, never);
  assert.deepEqual(leaving, new Map([['c', true]]));
  const ended = finishHandovers(step1(), leaving);
  assert.deepEqual(
    ended.instances.map(({ id }) => id),
    ['a', 'b', 'd'],
  );
});
