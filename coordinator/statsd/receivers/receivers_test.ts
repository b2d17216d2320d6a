/** Which coordinators keep which series, and from when on. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hashOf, membersAt, nextReceivers, ownerOf } from './receivers.ts';

const names = Array.from({ length: 30_000 }, (_, i) => `requests{path="/${i}"}`);

function ownersOf(members: readonly string[]): string[] {
  const seeds = Int32Array.from(members, hashOf);
  return names.map((name) => members[ownerOf(hashOf(name), seeds)]!);
}

test('each keeps about as many series, and one more or less moves its own alone', () => {
  const three = ownersOf(['10.0.0.1:8127', '10.0.0.2:8127', '10.0.0.3:8127']);
  const counts = Map.groupBy(three, (owner) => owner);
  assert.equal(counts.size, 3);
  for (const [owner, { length }] of counts) {
    assert.ok(Math.abs(length - 10_000) < 500, `${owner}: ${length}`);
  }
  const two = ownersOf(['10.0.0.1:8127', '10.0.0.3:8127']);
  for (const [i, owner] of three.entries()) {
    if (owner !== '10.0.0.2:8127') assert.equal(two[i], owner);
  }
});

test('the first ones hold at once, the next ones from a whole interval on that all have heard of', () => {
  const first = nextReceivers(null, null, ['b', 'a', 'b'], 5_000, 2_000, 10_000)!;
  assert.deepEqual(first, { version: 1, members: ['a', 'b'], before: [], fromMillis: 0 });
  assert.equal(nextReceivers(first, first, ['a', 'b'], 6_000, 2_000, 10_000), null);
  const second = nextReceivers(first, first, ['b', 'c'], 19_000, 2_000, 10_000)!;
  assert.deepEqual(second, {
    version: 2,
    members: ['b', 'c'],
    before: ['a', 'b'],
    fromMillis: 30_000,
  });
  assert.deepEqual(membersAt(second, 29_999), ['a', 'b']);
  assert.deepEqual(membersAt(second, 30_000), ['b', 'c']);
  // Others cannot be chosen before these hold.
  assert.equal(nextReceivers(second, second, ['b'], 29_999, 2_000, 10_000), null);
  assert.equal(nextReceivers(second, second, ['b'], 30_000, 2_000, 10_000)!.fromMillis, 40_000);
  assert.equal(nextReceivers(second, second, [], 30_000, 2_000, 10_000), null);
});

test('receivers that a clock far ahead has chosen are not waited for', () => {
  const ahead = { version: 3, members: ['a', 'b'], before: ['a'], fromMillis: 3_600_000 };
  const next = nextReceivers(ahead, ahead, ['a', 'b'], 5_000, 2_000, 10_000);
  assert.deepEqual(next, {
    version: 4,
    members: ['a', 'b'],
    before: ['a'],
    fromMillis: 10_000,
  });
});

test('a store that went back is told again who keeps series', () => {
  const old = { version: 3, members: ['a'], before: [], fromMillis: 0 };
  const known = { version: 7, members: ['a', 'b'], before: ['a'], fromMillis: 1_000 };
  const next = nextReceivers(old, known, ['a', 'b'], 5_000, 2_000, 10_000)!;
  assert.deepEqual(next, {
    version: 8,
    members: ['a', 'b'],
    before: ['a', 'b'],
    fromMillis: 10_000,
  });
  assert.equal(nextReceivers(null, known, ['a', 'b'], 5_000, 2_000, 10_000)!.version, 8);
});
