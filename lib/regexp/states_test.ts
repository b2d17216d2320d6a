import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededRandom } from '#test/seeded_random.ts';
import { compileAnchored, SearchRegexp } from './regexp.ts';
import { HeldStates, heldBytesMax, heldStates, type StatesOwner } from './states.ts';

class Owner implements StatesOwner {
  readonly memoryBytes = 10;
  statesBytes: number;

  constructor(statesBytes: number) {
    this.statesBytes = statesBytes;
  }

  dropStates(): void {
    this.statesBytes = 0;
  }
}

test('those that grew longest ago lose their states first', () => {
  const held = new HeldStates(100);
  const [a, b, c] = [new Owner(30), new Owner(20), new Owner(10)];
  for (const owner of [a, b, a]) held.note(owner);
  assert.equal(held.bytes, 70);
  held.note(c);
  assert.equal(held.bytes, 90);
  a.statesBytes = 45;
  held.note(a);
  assert.deepEqual([a.statesBytes, b.statesBytes, c.statesBytes, held.bytes], [45, 0, 10, 75]);
});

test('one alone may be larger than all are to be', () => {
  const held = new HeldStates(100);
  const [a, b] = [new Owner(30), new Owner(200)];
  held.note(a);
  held.note(b);
  assert.deepEqual([a.statesBytes, b.statesBytes, held.bytes], [0, 200, 210]);
  held.note(a);
  assert.deepEqual([b.statesBytes, held.bytes], [0, 10]);
});

test('the states of a search count, too', () => {
  const before = heldStates.bytes;
  const search = new SearchRegexp('(a|b)*a(a|b){5}c');
  assert.ok(search.test(`${'ab'.repeat(200)}aaaaaac`));
  assert.ok(search.statesBytes > 0);
  assert.ok(heldStates.bytes >= before + search.statesBytes);
  search.dropStates();
  assert.ok(!search.test('ab'.repeat(200)), 'they are made again');
});

test('the states of many patterns stay within their limit, and every test is right', () => {
  const random = new SeededRandom(5);
  const text = Array.from({ length: 3_000 }, () => random.pick(['a', 'b'])).join('');
  const patterns = Array.from({ length: 60 }, (_, i) =>
    compileAnchored(`(a|b)*a(a|b){${14 + (i % 3)}}(c|d${i})?`),
  );
  let most = 0;
  for (let round = 0; round < 2; round++) {
    for (const [i, pattern] of patterns.entries()) {
      for (let cut = 0; cut < 6; cut++) {
        const some = text.slice(cut * 400);
        assert.equal(pattern.test(some), some.at(-15 - (i % 3)) === 'a');
      }
      most = Math.max(most, heldStates.bytes);
    }
  }
  assert.ok(most > heldBytesMax / 2 && most <= heldBytesMax, `${most}`);
});
