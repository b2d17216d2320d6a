import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from '#test/property_testing.ts';
import { writeReplicasRequired } from '../consistency.ts';
import { rowOutcome } from '../../node/service.ts';
import { Ownership } from '../../topology/ownership.ts';
import type { Placement, Shard } from '../../placement/placement.ts';
import { Acknowledgements } from './acknowledgements.ts';
import { writeOutcome } from './write_result.ts';

function placementOf(
  numShards: number,
  replicaFactor: number,
  shardsOf: Record<string, Partial<Shard>[]>,
): Placement {
  const instances = Object.entries(shardsOf).map(([id, shards]) => ({
    id,
    shards: shards.map((shard) => ({ id: 0, state: 'AVAILABLE', sourceId: '', ...shard })),
  }));
  return { numShards, replicaFactor, instances } as unknown as Placement;
}

/** Three replicas a shard; shard 1 moves from c to d, shard 2 from b to d, shard 4 has moved so. */
const moving = placementOf(5, 3, {
  a: [{ id: 0 }, { id: 1 }, { id: 2 }, { id: 3 }, { id: 4 }],
  b: [{ id: 0 }, { id: 1 }, { id: 2, state: 'LEAVING' }, { id: 3 }, { id: 4, state: 'LEAVING' }],
  c: [{ id: 0 }, { id: 1, state: 'LEAVING' }, { id: 2 }, { id: 4 }],
  d: [
    { id: 1, state: 'INITIALIZING', sourceId: 'c' },
    { id: 2, state: 'INITIALIZING', sourceId: 'b' },
    { id: 3, state: 'INITIALIZING' },
    { id: 4, state: 'AVAILABLE', sourceId: 'b' },
  ],
});

test('shards with the same owners in the same roles are one class, pairs are one replica', () => {
  const ownership = new Ownership(moving);
  assert.equal(ownership.classes.length, 5);
  assert.equal(
    new Ownership(placementOf(9, 1, { a: Array.from({ length: 9 }, (_, id) => ({ id })) })).classes
      .length,
    1,
  );
  const masks = (shard: number) =>
    ownership.classes[ownership.classOfShard[shard]!]!.replicas.map(({ mask }) => mask);
  assert.deepEqual(masks(0), [1, 2, 4]);
  assert.deepEqual(masks(1), [1, 2, 4 | 8]);
  // Without a source an INITIALIZING owner is none.
  assert.deepEqual(masks(3), [1, 2]);
  assert.deepEqual(masks(4), [1, 4, 2 | 8]);
  assert.deepEqual(
    ownership.readableShards.map((shards) => [...shards]),
    [[0, 1, 2, 3, 4], [0, 1, 2, 3], [0, 1, 2, 4], [4]],
  );
  assert.deepEqual(ownership.readsWhole, [true, false, true, false]);
});

type Answer = 'written' | 'refused' | 'failed' | 'out';

/** What one row's outcome must be, straight from the words of the design. */
function expected(shard: number, required: number, answers: Record<string, Answer>): string {
  const owners = moving.instances.filter(({ shards }) => shards.some(({ id }) => id === shard));
  const replicas = owners.flatMap((owner) => {
    const { state, sourceId } = owner.shards.find(({ id }) => id === shard)!;
    if (state === 'LEAVING' || (state === 'INITIALIZING' && sourceId === '')) return [];
    return [sourceId === '' ? [answers[owner.id]!] : [answers[owner.id]!, answers[sourceId]!]];
  });
  const count = (holds: (replica: Answer[]) => boolean) => replicas.filter(holds).length;
  if (count((replica) => replica.every((answer) => answer === 'written')) >= required)
    return 'written';
  const canStill = (replica: Answer[]) => replica.every((a) => a === 'written' || a === 'out');
  if (count(canStill) >= required) return 'undecided';
  const isRefused = (replica: Answer[]) => replica.includes('refused');
  if (count(isRefused) > 0 && replicas.length - count(isRefused) < required) return 'refused';
  const all = owners.map(({ id }) => answers[id]!);
  return all.includes('refused') && all.includes('out') ? 'undecided' : 'failed';
}

test('whatever instances answer by row, each row is counted as the design says', () => {
  const answer = fc.constantFrom<Answer>('written', 'refused', 'failed', 'out');
  const answers = fc.record({ a: answer, b: answer, c: answer, d: answer });
  const row = fc.record({ shard: fc.nat({ max: 4 }), answers });
  const level = fc.constantFrom('one', 'majority', 'all' as const);
  fc.assert(
    fc.property(
      fc.array(row, { minLength: 1, maxLength: 8 }),
      level,
      fc.boolean(),
      (rows, consistency, uniform) => {
        const ownership = new Ownership(moving);
        const required = writeReplicasRequired(consistency, 3);
        // An instance that has not answered has not answered for any row; a uniform one answers for
        // all alike.
        const given = rows.map((each) => ({
          ...each,
          answers: Object.fromEntries(
            Object.entries(each.answers).map(([id, own]) => {
              const first = rows[0]!.answers[id as 'a'];
              return [id, uniform || first === 'out' ? first : own === 'out' ? 'failed' : own];
            }),
          ) as Record<string, Answer>,
        }));
        const count = new Acknowledgements(ownership, required, {
          rowCount: rows.length,
          picked: null,
          slots: Uint32Array.from(rows, (_, i) => i),
          idHash: Uint32Array.from(rows, ({ shard }) => shard),
        });
        for (const target of count.targets) {
          const { id } = moving.instances[target.instanceIndex]!;
          const positions = target.rows ?? Uint32Array.from(rows.keys());
          assert.equal(positions.length, target.rowCount);
          const own = [...positions].map((at) => given[at]!.answers[id]!);
          if (own[0] === 'out') continue;
          if (own.every((each) => each === 'written')) count.wrote(target);
          else if (own.every((each) => each === 'failed')) {
            count.failedWhole(target, writeOutcome.unavailable);
          } else {
            const code = {
              written: 0,
              refused: rowOutcome.tooFarPast,
              failed: rowOutcome.stalePlacement,
              out: 0,
            };
            count.answered(
              target,
              Uint8Array.from(own, (each) => code[each]),
            );
          }
        }
        const verdicts = given.map((each) => expected(each.shard, required, each.answers));
        assert.equal(count.isDecided(), !verdicts.includes('undecided'), verdicts.join());
        if (!count.isDecided()) return;
        const outcomes = Array.from({ length: rows.length }, () => 'written');
        const unwritten = count.unwritten();
        for (const [i, at] of (unwritten?.rows ?? []).entries()) {
          const outcome = unwritten!.outcomes[i];
          outcomes[at] = outcome === writeOutcome.tooFarPast ? 'refused' : 'failed';
        }
        assert.deepEqual(outcomes, verdicts);
      },
    ),
    { numRuns: 2000 },
  );
});
