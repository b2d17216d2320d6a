import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededRandom } from '#test/seeded_random.ts';
import { Leases } from './leases.ts';

test('leases end in the order of their times, whatever is granted, renewed and revoked', () => {
  const random = new SeededRandom(7);
  const leases = new Leases();
  const twin = new Map<bigint, { ttlSeconds: number; expiryMillis: number }>();
  const expiredOfTwin = (nowMillis: number): bigint | null => {
    const over = [...twin].filter(([, { expiryMillis }]) => expiryMillis <= nowMillis);
    over.sort(([a, left], [b, right]) => left.expiryMillis - right.expiryMillis || Number(a - b));
    return over[0]?.[0] ?? null;
  };
  let ended = 0;
  for (let nowMillis = 0; nowMillis < 300_000; nowMillis += 100) {
    const id = BigInt(random.below(200));
    const known = twin.get(id);
    const choice = random.below(5);
    if (known === undefined) {
      const ttlSeconds = 1 + random.below(20);
      leases.grant(id, ttlSeconds, nowMillis);
      twin.set(id, { ttlSeconds, expiryMillis: nowMillis + ttlSeconds * 1000 });
    } else if (choice < 3) {
      const isOver = known.expiryMillis <= nowMillis;
      assert.equal(leases.renew(id, nowMillis), isOver ? null : known.ttlSeconds);
      if (!isOver) known.expiryMillis = nowMillis + known.ttlSeconds * 1000;
    } else {
      leases.remove(id);
      twin.delete(id);
    }
    // Now and then they come together.
    if (random.below(30) > 0) continue;
    for (;;) {
      const over = leases.expired(nowMillis);
      assert.equal(over, expiredOfTwin(nowMillis));
      if (over === null) break;
      leases.remove(over);
      twin.delete(over);
      ended += 1;
    }
  }
  assert.ok(ended > 100, `${ended}`);
  assert.equal(leases.count, twin.size);
});

test('to see whether one has ended no more than one of a hundred thousand is looked at', () => {
  const leases = new Leases();
  for (let i = 0; i < 100_000; i++) leases.grant(BigInt(i), 10 + ((i * 7) % 1_000), 0);
  let looks = 0;
  const look = (): number => {
    looks += 1;
    return 9_999;
  };
  const now = { [Symbol.toPrimitive]: look } as unknown as number;
  assert.equal(leases.expired(now), null);
  assert.equal(looks, 1);
  assert.equal(leases.expired(10_000), 0n);
});
