import assert from 'node:assert/strict';
import { test } from 'node:test';
import { References } from './references.ts';

/** Rows of these slots, all of generation 1 unless told. */
function resolved(
  references: References,
  slots: number[],
  generations: number[] = slots.map(() => 1),
): { slots: number[]; generations: number[]; unknown: number[] } {
  const columns = { slots: Uint32Array.from(slots), generations: Uint32Array.from(generations) };
  references.reserve(Math.max(...slots));
  const unknown = new Uint32Array(slots.length);
  const count = references.resolve(slots.length, columns.slots, columns.generations, unknown);
  return {
    slots: [...columns.slots],
    generations: [...columns.generations],
    unknown: [...unknown.subarray(0, count)],
  };
}

test('rows of known series get the slot and generation of the node, others stay as they are', () => {
  const references = new References();
  references.learn(1, 'epoch', [3, 70_000], [1, 1], Uint32Array.of(4_000_000_000, 7, 5, 65_535));
  assert.deepEqual(resolved(references, [3, 4, 70_000, 3]), {
    slots: [4_000_000_000, 4, 5, 4_000_000_000],
    generations: [7, 1, 65_535, 7],
    unknown: [1],
  });
});

test('a slot that has another series now has no reference', () => {
  const references = new References();
  references.learn(1, 'epoch', [3], [1], Uint32Array.of(9, 2));
  assert.deepEqual(resolved(references, [3], [2]).unknown, [0]);
  references.learn(2, 'epoch', [3], [2], Uint32Array.of(10, 2));
  assert.deepEqual(resolved(references, [3, 3], [1, 2]), {
    slots: [3, 10],
    generations: [1, 2],
    unknown: [0],
  });
});

test('a series that the node refused or does not know any more has no reference', () => {
  const references = new References();
  references.learn(1, 'epoch', [1, 2], [1, 1], Uint32Array.of(0, 0, 6, 1));
  references.forget(2);
  references.forget(1_000_000);
  assert.deepEqual(resolved(references, [1, 2]).unknown, [0, 1]);
});

test('generations that do not fit into 16 bits are never mistaken for others', () => {
  const references = new References();
  references.learn(
    1,
    'epoch',
    [1, 2, 3],
    [65_536, 65_537, 1],
    Uint32Array.of(5, 1, 6, 1, 7, 65_537),
  );
  assert.deepEqual(resolved(references, [1, 2, 3], [65_536, 65_537, 1]).unknown, [0, 1, 2]);
  assert.deepEqual(resolved(references, [1, 2, 3], [0, 1, 1]).unknown, [0, 1, 2]);
});

test('dictionary entries of a batch are noted for slots without a reference, and forgotten after it', () => {
  const references = new References();
  references.learn(1, 'epoch', [1], [1], Uint32Array.of(5, 1));
  references.reserve(2);
  assert.equal(references.entryOf(2), -1);
  // Slot 1 has a reference, but of the series before.
  assert.equal(references.entryOf(1), -1);
  references.setEntry(2, 0);
  references.setEntry(1, 1);
  assert.deepEqual([references.entryOf(1), references.entryOf(2)], [1, 0]);
  references.clearEntry(1);
  references.clearEntry(2);
  assert.deepEqual([references.entryOf(1), references.entryOf(2)], [-1, -1]);
  assert.deepEqual(resolved(references, [1, 2]).unknown, [0, 1]);
});

test('a new epoch forgets all, an answer of an older one to an older request is passed over', () => {
  const references = new References();
  references.learn(1, 'old', [1], [1], Uint32Array.of(5, 1));
  references.learn(3, 'new', [2], [1], Uint32Array.of(6, 1));
  references.learn(2, 'old', [1], [1], Uint32Array.of(5, 1));
  assert.equal(references.epoch, 'new');
  assert.deepEqual(resolved(references, [1, 2]), {
    slots: [1, 6],
    generations: [1, 1],
    unknown: [0],
  });
});
