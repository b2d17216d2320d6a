import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededRandom } from '#test/seeded_random.ts';
import { pickOf } from '#test/sim/mutate.ts';
import { SeriesCache } from './series_cache.ts';

const viewOf = (bytes: Uint8Array): DataView =>
  new DataView(bytes.buffer, bytes.byteOffset, bytes.length);

test('an entry is found by its bytes, what it belongs to and the word beside them, in any order, until there is too much', () => {
  for (let seed = 1; seed <= 10; seed++) {
    const pick = pickOf(seed);
    const cache = new SeriesCache(new SeededRandom(seed), 100_000);
    let known = new Map<string, { readonly entry: number; readonly slots: number[] }>();
    let forgotten = 0;
    for (let round = 0; round < 60; round++) {
      if (cache.makeRoom()) {
        known = new Map();
        forgotten += 1;
      }
      cache.begin();
      for (let i = 0; i < 200; i++) {
        const bytes = new Uint8Array(pick(2) === 0 ? pick(40) : pick(3));
        for (let at = Math.max(0, bytes.length - 2); at < bytes.length; at++) bytes[at] = pick(9);
        const [parent, extra] = [pick(3), pick(3)];
        const name = `${parent} ${extra} ${bytes.join()}`;
        const within = new Uint8Array(bytes.length + 20).fill(pick(256));
        const start = pick(20);
        within.set(bytes, start);
        const end = start + bytes.length;
        const found = cache.find(viewOf(within), parent, extra, start, end);
        const expected = known.get(name);
        assert.equal(found, expected?.entry ?? 0, `seed ${seed}: ${name}`);
        if (expected !== undefined) {
          assert.equal(cache.slotCount(found), expected.slots.length);
          const slots = expected.slots.map((_, index) => cache.slot(found, index));
          assert.deepEqual(slots, expected.slots);
          assert.deepEqual(
            slots.map((_, index) => cache.generation(found, index)),
            slots.map((slot) => slot + 1),
          );
          continue;
        }
        const entry = cache.add(parent, extra, bytes.length);
        const slots = Array.from({ length: pick(4) }, () => pick(1 << 20));
        assert.equal(cache.slotCount(entry), 0);
        if (slots.length > 0) cache.reserveSlots(entry, slots.length);
        for (const [index, slot] of slots.entries()) cache.setSlot(entry, index, slot, slot + 1);
        known.set(name, { entry, slots });
      }
    }
    assert.ok(forgotten > 0);
  }
});

test('the longest key is found, one of another byte at its end is another', () => {
  const cache = new SeriesCache(new SeededRandom(7), 1 << 20);
  const bytes = new Uint8Array(65_535).fill(1);
  assert.equal(cache.find(viewOf(bytes), 0, 0, 0, bytes.length), 0);
  const entry = cache.add(0, 0, bytes.length);
  assert.equal(cache.find(viewOf(bytes), 0, 0, 0, bytes.length), entry);
  bytes[65_534] = 2;
  assert.equal(cache.find(viewOf(bytes), 0, 0, 0, bytes.length), 0);
});

test('memory grows with what is known, beyond the budget, too', () => {
  const cache = new SeriesCache(new SeededRandom(7), 1 << 16);
  const key = Buffer.alloc(1000);
  const entries: number[] = [];
  for (let i = 0; i < 40_000; i++) {
    key.writeUInt32LE(i);
    assert.equal(cache.find(viewOf(key), 0, 0, 0, 1000), 0);
    const entry = cache.add(0, 0, 1000);
    cache.reserveSlots(entry, 1);
    cache.setSlot(entry, 0, i, 1);
    entries.push(entry);
  }
  assert.ok(cache.bytes > 2_000_000);
  for (const [i, entry] of entries.entries()) assert.equal(cache.slot(entry, 0), i);
  assert.equal(cache.makeRoom(), true);
  assert.equal(cache.find(viewOf(key), 0, 0, 0, 1000), 0);
});
