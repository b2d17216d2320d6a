import { bootstrappedFrom } from './placement_testing.ts';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from '#test/property_testing.ts';
import {
  type Instance,
  type InstanceInfo,
  instanceById,
  isLeaving,
  isSettled,
  type Placement,
  placementFromJson,
  placementProblem,
  placementToJson,
} from './placement.ts';
import {
  addInstances,
  initPlacement,
  markShardsAvailable,
  removeInstances,
  replaceInstances,
  resetInstance,
  resetInstances,
} from './algorithm.ts';
import { finishHandovers } from './handover.ts';
import { placementFromStored, placementToStored } from './stored.ts';
import { targetLoads } from './draft.ts';

const orderly = { force: false };
const forced = { force: true };

function info(id: string, isolationGroup: string, weight = 1): InstanceInfo {
  return {
    id,
    isolationGroup,
    zone: 'embedded',
    weight,
    endpoint: `${id}:9000`,
    hostname: id,
    port: 9000,
    shardSetId: 0,
    debugPort: 0,
  };
}

const load = (instance: Instance) =>
  instance.shards.filter(({ state }) => state !== 'LEAVING').length;

function readyShards(placement: Placement, id: string): Map<number, string> {
  const shards = instanceById(placement, id)!.shards;
  return new Map(
    shards.filter(({ state }) => state === 'INITIALIZING').map((s) => [s.id, s.sourceId]),
  );
}

/** All owners know of the placement. */
function finish(placement: Placement): Placement {
  return finishHandovers(placement, new Map(placement.instances.map(({ id }) => [id, true])));
}

/** Every instance marks everything that it has, and what is handed over is left. */
function settle(placement: Placement): Placement {
  let next = placement;
  for (const { id } of placement.instances) {
    next = markShardsAvailable(next, id, bootstrappedFrom(readyShards(next, id)));
  }
  next = finish(next);
  assert.ok(isSettled(next));
  return next;
}

function threeGroups(perGroup: number): InstanceInfo[] {
  return ['a', 'b', 'c'].flatMap((group) =>
    Array.from({ length: perGroup }, (_, i) => info(`${group}${i}`, group)),
  );
}

test('initPlacement() gives each instance its share by weight, all INITIALIZING from nowhere', () => {
  const placement = initPlacement(
    [info('a0', 'a'), info('a1', 'a', 3), info('b0', 'b'), info('c0', 'c')],
    { numShards: 64, replicaFactor: 3 },
  );
  assert.equal(placementProblem(placement), null);
  assert.deepEqual(placement.instances.map(load), [16, 48, 64, 64]);
  for (const { shards } of placement.instances) {
    assert.ok(shards.every((shard) => shard.state === 'INITIALIZING' && shard.sourceId === ''));
  }
});

test('initPlacement() gives each shard to the groups and instances with the most left to take', () => {
  const instances = fc
    .array(fc.record({ group: fc.nat(6), weight: fc.integer({ min: 1, max: 4 }) }), {
      minLength: 1,
      maxLength: 30,
    })
    .map((members) => members.map(({ group, weight }, at) => info(`i${at}`, `g${group}`, weight)));
  fc.assert(
    fc.property(
      instances,
      fc.integer({ min: 1, max: 100 }),
      fc.nat(2),
      (infos, numShards, more) => {
        const groups = new Set(infos.map(({ isolationGroup }) => isolationGroup));
        const replicaFactor = Math.min(groups.size, 1 + more);
        const placement = initPlacement(infos, { numShards, replicaFactor });
        const left = new Map(targetLoads(infos, numShards, replicaFactor));
        const leftOf = (group: string): number =>
          infos
            .filter(({ isolationGroup }) => isolationGroup === group)
            .reduce((sum, { id }) => sum + left.get(id)!, 0);
        for (let shard = 0; shard < numShards; shard++) {
          const owners = placement.instances.filter(({ shards }) =>
            shards.some(({ id }) => id === shard),
          );
          const taking = new Set(owners.map(({ isolationGroup }) => isolationGroup));
          assert.equal(taking.size, replicaFactor);
          const least = Math.min(...[...taking].map(leftOf));
          for (const group of groups.difference(taking)) assert.ok(leftOf(group) <= least);
          for (const { id, isolationGroup } of infos) {
            const owner = owners.find((one) => one.isolationGroup === isolationGroup);
            if (owner !== undefined) assert.ok(left.get(id)! <= left.get(owner.id)!);
          }
          for (const { id } of owners) left.set(id, left.get(id)! - 1);
        }
        assert.ok([...left.values()].every((spare) => spare === 0));
      },
    ),
  );
});

test('initPlacement() refuses what cannot be placed and says why', () => {
  const shape = { numShards: 4, replicaFactor: 3 };
  assert.throws(
    () => initPlacement([info('a', 'g1'), info('b', 'g1'), info('c', 'g2')], shape),
    /not enough isolation groups to take shards, please make sure RF is less than number of isolation groups/,
  );
  assert.throws(() => initPlacement([], shape), /at least one instance/);
  assert.throws(
    () => initPlacement([info('a', 'g')], { numShards: 4, replicaFactor: 0 }),
    /replication_factor.*: 0/,
  );
  assert.throws(
    () => initPlacement([info('a', 'g')], { numShards: 0, replicaFactor: 1 }),
    /num_shards.*: 0/,
  );
  assert.throws(
    () => initPlacement([{ ...info('a', 'g'), endpoint: '' }], { numShards: 1, replicaFactor: 1 }),
    /instances\[0\]\.endpoint is empty/,
  );
  assert.throws(
    () => initPlacement([info('a', 'g'), info('a', 'h')], { numShards: 1, replicaFactor: 1 }),
    /an id appears twice/,
  );
  assert.throws(
    () => initPlacement([info('a', 'g', 0)], { numShards: 1, replicaFactor: 1 }),
    /weight must be at least 1: 0/,
  );
});

test('addInstances() adds all candidates, and shards move to them only', () => {
  const before = settle(initPlacement(threeGroups(1), { numShards: 64, replicaFactor: 3 }));
  const after = addInstances(before, [info('a1', 'a'), info('b1', 'b'), info('c1', 'c')], orderly);
  assert.equal(placementProblem(after), null);
  for (const { id, shards } of after.instances) {
    const states = new Set(shards.map(({ state }) => state));
    if (id.endsWith('1')) {
      assert.deepEqual([...states], ['INITIALIZING']);
      assert.equal(shards.length, 32);
      assert.ok(shards.every(({ sourceId }) => sourceId === id.replace('1', '0')));
    } else {
      assert.equal(shards.length, 64);
      assert.equal(shards.filter(({ state }) => state === 'LEAVING').length, 32);
    }
  }
  assert.deepEqual(settle(after).instances.map(load), [32, 32, 32, 32, 32, 32]);
});

test('a change waits until all shards are AVAILABLE, unless forced', () => {
  const fresh = initPlacement(threeGroups(1), { numShards: 8, replicaFactor: 3 });
  assert.throws(
    () => addInstances(fresh, [info('a1', 'a')], orderly),
    /instances do not have all shards available: \[a0, b0, c0\]/,
  );
  assert.throws(() => removeInstances(fresh, ['a0'], orderly), /do not have all shards/);
  const added = addInstances(fresh, [info('a1', 'a')], forced);
  assert.equal(placementProblem(added), null);
  assert.equal(load(instanceById(added, 'a0')!), 4);
});

test('addInstances() refuses an instance that is there, and an endpoint that is taken', () => {
  const placement = settle(initPlacement(threeGroups(1), { numShards: 8, replicaFactor: 3 }));
  assert.throws(() => addInstances(placement, [info('a0', 'a')], orderly), /a0 already exists/);
  assert.throws(
    () => addInstances(placement, [{ ...info('a9', 'a'), endpoint: 'b0:9000' }], orderly),
    /endpoint is the one of instance b0/,
  );
});

test('removeInstances() hands over to the group, and the instance vanishes with its last shard', () => {
  const before = settle(initPlacement(threeGroups(2), { numShards: 32, replicaFactor: 3 }));
  const after = removeInstances(before, ['a1'], orderly);
  assert.equal(placementProblem(after), null);
  assert.ok(isLeaving(instanceById(after, 'a1')!));
  const receiver = instanceById(after, 'a0')!;
  assert.equal(load(receiver), 32);
  const taken = receiver.shards.filter(({ sourceId }) => sourceId === 'a1');
  assert.equal(taken.length, 16);

  const half = new Map(taken.slice(0, 8).map(({ id }) => [id, 'a1']));
  const partly = markShardsAvailable(after, 'a0', bootstrappedFrom(half));
  assert.equal(placementProblem(partly), null);
  assert.equal(instanceById(partly, 'a1')!.shards.length, 16);
  assert.equal(instanceById(finish(partly), 'a1')!.shards.length, 8);
  assert.equal(instanceById(settle(partly), 'a1'), undefined);
});

test('removeInstances() is refused when too few isolation groups stay', () => {
  const placement = settle(initPlacement(threeGroups(1), { numShards: 8, replicaFactor: 3 }));
  assert.throws(() => removeInstances(placement, ['c0'], orderly), /not enough isolation groups/);
  assert.throws(() => removeInstances(placement, ['x'], orderly), /instance not found: x/);
});

test('an instance that was removed by mistake comes back with all its shards AVAILABLE', () => {
  const before = settle(initPlacement(threeGroups(2), { numShards: 32, replicaFactor: 3 }));
  const removed = removeInstances(before, ['b0'], orderly);
  const back = addInstances(removed, [info('b0', 'b')], forced);
  assert.deepEqual(back, before);
});

test('replaceInstances() gives the candidate of the same group everything', () => {
  const before = settle(initPlacement(threeGroups(1), { numShards: 16, replicaFactor: 3 }));
  const candidates = [info('x', 'c'), info('y', 'b')];
  const after = replaceInstances(before, ['b0'], candidates, orderly);
  assert.equal(placementProblem(after), null);
  assert.equal(instanceById(after, 'x'), undefined);
  assert.equal(load(instanceById(after, 'y')!), 16);
  const settled = settle(after);
  assert.deepEqual(
    settled.instances.map(({ id }) => id),
    ['a0', 'c0', 'y'],
  );
});

test('markShardsAvailable() leaves a shard INITIALIZING whose source changed after its bootstrap', () => {
  const base = settle(initPlacement(threeGroups(1), { numShards: 16, replicaFactor: 3 }));
  const added = addInstances(base, [info('d0', 'd')], orderly);
  const bootstrapped = readyShards(added, 'd0');
  // b0 goes, and only a0 and c0 can take over what they were about to hand to d0: d0 takes over
  // from b0.
  const changed = removeInstances(added, ['b0'], forced);
  assert.equal(placementProblem(changed), null);
  const marked = markShardsAvailable(changed, 'd0', bootstrappedFrom(bootstrapped));
  const seen = new Set<string>();
  for (const [shard, source] of bootstrapped) {
    seen.add(source);
    const { state, sourceId } = instanceById(marked, 'd0')!.shards.find(({ id }) => id === shard)!;
    if (source === 'b0') assert.deepEqual([state, sourceId], ['AVAILABLE', 'b0']);
    else {
      assert.deepEqual([state, sourceId], ['INITIALIZING', 'b0']);
      assert.equal(stateAt(marked, source, shard), 'AVAILABLE');
    }
  }
  assert.equal(seen.size, 3);
  assert.throws(
    () => markShardsAvailable(changed, 'nobody', bootstrappedFrom(bootstrapped)),
    /instance not found/,
  );
});

test('what is being handed over is not moved by others, and may come back', () => {
  const base = settle(initPlacement(threeGroups(1), { numShards: 4, replicaFactor: 3 }));
  const moving = replaceInstances(base, ['c0'], [info('c1', 'c')], orderly);
  const ready = bootstrappedFrom(readyShards(moving, 'c1'));
  const marked = markShardsAvailable(moving, 'c1', ready);
  const ofC1 = instanceById(marked, 'c1')!.shards;
  assert.ok(ofC1.every((shard) => shard.state === 'AVAILABLE' && shard.sourceId === 'c0'));
  assert.throws(
    () => replaceInstances(marked, ['c1'], [info('c2', 'c')], forced),
    /shard 0 of c1 is being handed over: c0 has not left it yet/,
  );
  assert.throws(() => removeInstances(marked, ['a0'], orderly), /do not have all shards.*\[c0\]/);
  const grown = addInstances(marked, [info('c2', 'c')], forced);
  assert.equal(instanceById(grown, 'c2')!.shards.length, 0);

  const back = addInstances(marked, [info('c0', 'c')], orderly);
  assert.equal(placementProblem(back), null);
  assert.ok(isLeaving(instanceById(back, 'c1')!));
  const ofC0 = instanceById(back, 'c0')!.shards;
  assert.ok(ofC0.every((shard) => shard.state === 'AVAILABLE' && shard.sourceId === 'c1'));
  assert.deepEqual(finish(back), base);
});

test('resetInstance() of a taker begins its handover again, of a giver ends it', () => {
  const base = settle(initPlacement(threeGroups(1), { numShards: 4, replicaFactor: 3 }));
  const moving = replaceInstances(base, ['c0'], [info('c1', 'c')], orderly);
  const marked = markShardsAvailable(moving, 'c1', bootstrappedFrom(readyShards(moving, 'c1')));
  assert.deepEqual(resetInstance(marked, 'c1'), moving);
  assert.deepEqual(resetInstance(marked, 'c0'), finish(marked));
});

const stateAt = (placement: Placement, instance: string, shard: number) =>
  instanceById(placement, instance)!.shards.find(({ id }) => id === shard)?.state;

test('resetInstance() makes AVAILABLE shards INITIALIZING and gives up what it was handing over', () => {
  const base = settle(initPlacement(threeGroups(1), { numShards: 8, replicaFactor: 3 }));
  const reset = resetInstance(addInstances(base, [info('a1', 'a')], orderly), 'a0');
  assert.equal(placementProblem(reset), null);
  const [a0, a1] = [instanceById(reset, 'a0')!, instanceById(reset, 'a1')!];
  assert.equal(a0.shards.length, 4);
  for (const shard of [...a0.shards, ...a1.shards]) {
    assert.equal(shard.state, 'INITIALIZING');
    assert.equal(shard.sourceId, '');
  }
  assert.equal(resetInstance(reset, 'a0'), reset);
});

test('resetInstance() of some shards leaves the others as they are', () => {
  const base = settle(initPlacement(threeGroups(1), { numShards: 8, replicaFactor: 3 }));
  const moving = addInstances(base, [info('a1', 'a')], orderly);
  const left = instanceById(moving, 'a1')!.shards.map(({ id }) => id);
  const stays = base.instances[0]!.shards.map(({ id }) => id).filter((id) => !left.includes(id));
  const lost = new Set([left[0]!, stays[0]!]);
  const reset = resetInstance(moving, 'a0', (shard) => lost.has(shard));
  assert.equal(placementProblem(reset), null);
  for (const shard of stays) {
    assert.equal(stateAt(reset, 'a0', shard), lost.has(shard) ? 'INITIALIZING' : 'AVAILABLE');
  }
  for (const shard of left) {
    assert.equal(stateAt(reset, 'a0', shard), lost.has(shard) ? undefined : 'LEAVING');
  }
  assert.equal(
    resetInstance(moving, 'a0', () => false),
    moving,
  );
});

test('resetInstances() leaves each shard an owner that has it, unless it is forced', () => {
  const base = settle(initPlacement(threeGroups(1), { numShards: 8, replicaFactor: 3 }));
  const [a, b, c] = base.instances.map(({ id }) => id) as [string, string, string];
  const two = resetInstances(base, [a, b], orderly);
  assert.equal(placementProblem(two), null);
  assert.ok(
    two.instances.every(({ id, shards }) => {
      const isReset = shards.every(
        ({ state, sourceId }) => state === 'INITIALIZING' && sourceId === '',
      );
      return isReset === (id !== c);
    }),
  );
  assert.throws(
    () => resetInstances(base, [a, b, c], orderly),
    /8 shards \(0, 1, 2, 3, 4, …\): .*force/,
  );
  assert.throws(() => resetInstances(two, [c], orderly), /nobody else has all data of 8 shards/);
  assert.doesNotThrow(() => resetInstances(base, [a, b, c], { force: true }));
  assert.throws(() => resetInstances(base, ['nobody'], orderly), /instance not found: nobody/);
  assert.equal(resetInstances(two, [a, b], orderly), two);
});

test('targetLoads() gives a group that is too heavy every shard once', () => {
  const targets = targetLoads(
    [info('a', 'a', 100), info('b', 'b', 1), info('c', 'c', 1), info('d', 'd', 2)],
    60,
    2,
  );
  assert.deepEqual(Object.fromEntries(targets), { a: 60, d: 30, b: 15, c: 15 });
});

test('a placement of 4096 shards on 60 instances is made and changed with few movements', () => {
  const before = settle(initPlacement(threeGroups(20), { numShards: 4096, replicaFactor: 3 }));
  const after = addInstances(before, [info('a20', 'a')], orderly);
  const moved = instanceById(after, 'a20')!.shards.length;
  assert.equal(moved, Math.floor(4096 / 21));
  assert.equal(placementProblem(after), null);
  // etcd takes 1.5 MB a request, which holds the placement twice: itself and its history.
  assert.ok(JSON.stringify(placementToStored(after, null)).length < 200_000);
});

type Step =
  | { kind: 'add'; group: number; weight: number; force: boolean }
  | { kind: 'remove' | 'replace'; pick: number; group: number; force: boolean }
  | { kind: 'mark'; pick: number; share: number }
  | { kind: 'finish'; known: readonly (boolean | null)[] }
  | { kind: 'reset'; pick: number }
  | { kind: 'settle' };

const groups = ['g0', 'g1', 'g2', 'g3'];
const group = fc.nat({ max: groups.length - 1 });
const pick = fc.nat({ max: 20 });
const force = fc.boolean();
const steps = fc.array(
  fc.oneof(
    fc.record({
      kind: fc.constant('add' as const),
      group,
      weight: fc.integer({ min: 1, max: 4 }),
      force,
    }),
    fc.record({ kind: fc.constantFrom('remove' as const, 'replace' as const), pick, group, force }),
    fc.record({ kind: fc.constant('mark' as const), pick, share: fc.integer({ min: 1, max: 3 }) }),
    fc.record({
      kind: fc.constant('finish' as const),
      known: fc.array(fc.constantFrom(true, true, false, null), { minLength: 3, maxLength: 5 }),
    }),
    fc.record({ kind: fc.constant('reset' as const), pick }),
    fc.record({ kind: fc.constant('settle' as const) }),
  ),
  { maxLength: 25 },
);

test('whatever is asked for in whatever order, the rules of a placement hold', () => {
  const shape = fc.record({
    numShards: fc.integer({ min: 1, max: 40 }),
    replicaFactor: fc.integer({ min: 1, max: 3 }),
    weights: fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 4, maxLength: 8 }),
  });
  let changes = 0;
  fc.assert(
    fc.property(shape, steps, ({ numShards, replicaFactor, weights }, sequence) => {
      let next = 0;
      const fresh = (of: number, weight: number) => info(`i${next++}`, groups[of % 4]!, weight);
      let placement = initPlacement(
        weights.map((weight, i) => fresh(i, weight)),
        { numShards, replicaFactor },
      );
      for (const step of sequence) {
        const before = placement;
        try {
          placement = apply(before, step, fresh);
          if (placement !== before) changes++;
        } catch (error) {
          assert.equal((error as { code?: string }).code, 'BAD_REQUEST', String(error));
        }
        assert.equal(placementProblem(placement), null);
        if (step.kind === 'add' && placement !== before) movedOnlyTo(before, placement);
      }
      const settled = settle(placement);
      assert.equal(placementProblem(settled), null);
      for (const each of [placement, settled]) {
        const wire = (json: object) => JSON.parse(JSON.stringify(json)) as unknown;
        assert.deepEqual(placementFromJson(wire(placementToJson(each))), each);
        assert.deepEqual(placementFromStored(wire(placementToStored(each, null)), []), each);
      }
    }),
    { numRuns: 300 },
  );
  assert.ok(changes > 300, `only ${changes} steps changed anything`);
});

function apply(
  placement: Placement,
  step: Step,
  fresh: (group: number, weight: number) => InstanceInfo,
): Placement {
  const chosen = (index: number) => placement.instances[index % placement.instances.length]!;
  switch (step.kind) {
    case 'add':
      return addInstances(placement, [fresh(step.group, step.weight)], step);
    case 'remove':
      return removeInstances(placement, [chosen(step.pick).id], step);
    case 'replace': {
      const leaving = chosen(step.pick);
      return replaceInstances(placement, [leaving.id], [fresh(step.group, leaving.weight)], step);
    }
    case 'mark': {
      const { id } = chosen(step.pick);
      const ready = [...readyShards(placement, id)].filter((_, i) => i % step.share === 0);
      return markShardsAvailable(placement, id, bootstrappedFrom(new Map(ready)));
    }
    case 'finish': {
      const says = placement.instances.map(
        ({ id }, i) => [id, step.known[i % step.known.length]!] as const,
      );
      return finishHandovers(
        placement,
        new Map(says.filter((each): each is readonly [string, boolean] => each[1] !== null)),
      );
    }
    case 'reset':
      return resetInstance(placement, chosen(step.pick).id);
    case 'settle':
      return settle(placement);
    default:
      return step satisfies never;
  }
}

/** No instance that was there before owns a shard that it did not own before. */
function movedOnlyTo(before: Placement, after: Placement): void {
  for (const old of before.instances) {
    const owned = new Set(old.shards.map(({ id }) => id));
    for (const shard of instanceById(after, old.id)?.shards ?? []) assert.ok(owned.has(shard.id));
  }
}

test('with as many groups as replicas, loads stay within one of the share through growth and shrinking', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.boolean(), fc.nat({ max: 2 }), pick), { maxLength: 20 }),
      (sequence) => {
        let next = 0;
        let placement = settle(initPlacement(threeGroups(1), { numShards: 50, replicaFactor: 3 }));
        for (const [grow, of, index] of sequence) {
          const name = ['a', 'b', 'c'][of]!;
          const members = placement.instances.filter((i) => i.isolationGroup === name);
          if (grow) placement = addInstances(placement, [info(`n${next++}`, name)], orderly);
          else if (members.length > 1) {
            const { id } = members[index % members.length]!;
            placement = removeInstances(placement, [id], orderly);
          }
          placement = settle(placement);
        }
        const targets = targetLoads(placement.instances, 50, 3);
        for (const instance of placement.instances) {
          const off = Math.abs(load(instance) - targets.get(instance.id)!);
          assert.ok(off <= 1, `${instance.id} is ${off} off its share`);
        }
      },
    ),
    { numRuns: 100 },
  );
});

test('a stored placement whose shards are damaged is refused by field', () => {
  const placement = initPlacement([info('a', 'a')], { numShards: 4, replicaFactor: 1 });
  const stored = JSON.stringify(placementToStored(placement, null));
  assert.match(stored, /"ids":"0-3"/);
  for (const ids of ['', '3-0', '1,', 'x', '0-99999999']) {
    const damaged: unknown = JSON.parse(stored.replace('"0-3"', JSON.stringify(ids)));
    assert.throws(
      () => placementFromStored(damaged, []),
      /instances\.a\.shards\[0\]\.ids: not ranges/,
    );
  }
});
