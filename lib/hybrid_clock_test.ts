import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  derivedVersion,
  HybridClock,
  liveLagMax,
  nextVersion,
  versionAtMillis,
  versionAtNanos,
  versionGrain,
  versionNanos,
  versionsPerMilli,
} from './hybrid_clock.ts';

test('a version is a time in 1/64 milliseconds, from milliseconds as from nanoseconds', () => {
  assert.equal(BigInt(versionsPerMilli) * versionNanos, 1_000_000n);
  for (const millis of [0, 0.5, 1_700_000_000_000, 1_700_000_000_000.25]) {
    const nanos = BigInt(Math.floor(millis)) * 1_000_000n + BigInt((millis % 1) * 1e6);
    assert.equal(BigInt(versionAtMillis(millis)), versionAtNanos(nanos));
  }
  assert.deepEqual([-1n, -15_625n, -15_626n, 15_624n].map(versionAtNanos), [-1n, -1n, -2n, 0n]);
});

test('a derived version is the time of a row that is written soon, else that of its batch in steps', () => {
  const nanos = 1_700_000_000_000_000_000n;
  const atTime = Number(versionAtNanos(nanos));
  for (const lag of [0, 1, 64_000, liveLagMax - 1]) {
    assert.equal(derivedVersion(atTime + lag, nanos), atTime);
  }
  for (const version of [atTime + liveLagMax, atTime - 1, atTime - 2 ** 30]) {
    const expected = version - (version % versionGrain);
    assert.equal(derivedVersion(version, nanos), expected);
  }
  assert.equal(derivedVersion(5, nanos), 0);
  let before = 0;
  for (let version = atTime - 2 ** 22; version < atTime + 2 ** 22; version += 9999) {
    const derived = derivedVersion(version, nanos);
    assert.ok(derived <= version && derived >= before, 'in the order of batches, never above');
    before = derived;
  }
});

test('HybridClock.next() follows the clock, and goes on when that stands or goes back', () => {
  let millis = 1000;
  const clock = new HybridClock({ nowMillis: () => millis });
  assert.deepEqual([clock.next(), clock.next(), clock.next()], [64_000, 64_001, 64_002]);
  millis = 999;
  assert.equal(clock.next(), 64_003);
  millis = 1001.5;
  assert.equal(clock.next(), 64_096);
  assert.equal(nextVersion(1, 0), 64);
  assert.equal(nextVersion(1, 64), 65);
});

test('HybridClock.raise() lets a writer catch up with others, and never takes it back', () => {
  const clock = new HybridClock({ nowMillis: () => 1000 });
  clock.raise(70_000);
  assert.equal(clock.next(), 70_001);
  clock.raise(65_000);
  assert.equal(clock.next(), 70_002);
  clock.raise(2 ** 60);
  assert.equal(clock.last, 70_002);
});

test('HybridClock.nextAfterRefusal() goes back to the clock', () => {
  let millis = 3_600_000;
  const clock = new HybridClock({ nowMillis: () => millis });
  clock.next();
  millis = 1000;
  assert.equal(clock.next(), 3_600_000 * 64 + 1);
  assert.equal(clock.nextAfterRefusal(), 64_000);
  assert.equal(clock.next(), 64_001);
});

test('after a refusal versions do not go back behind what nodes have accepted, as long as they do', () => {
  let millis = 1_000;
  const clock = new HybridClock({ nowMillis: () => millis });
  // The clock is set right after a jump; others lead by half a minute.
  millis = 500_000;
  const jumped = clock.next();
  millis = 2_000;
  clock.raise(64 * 32_000);
  assert.equal(clock.nextAfterRefusal(jumped), 64 * 32_000 + 1);
  // One that was on its way for long, of before that.
  assert.equal(clock.nextAfterRefusal(jumped - 1), 64 * 32_000 + 2);
  clock.raise(64 * 32_000 + 2);
  millis = 40_000;
  assert.equal(clock.next(), 64 * 40_000);

  // Nodes that were ahead themselves are set right, and take nothing that follows what they have.
  clock.raise(64 * 90_000);
  assert.equal(clock.nextAfterRefusal(clock.next()), 64 * 40_000);
  clock.raise(64 * 80_000);
  millis = 500_000;
  const far = clock.next();
  millis = 41_000;
  const led = clock.nextAfterRefusal(far);
  assert.equal(led, 64 * 80_000 + 1);
  assert.equal(clock.nextAfterRefusal(led), 64 * 41_000);
  assert.equal(clock.next(), 64 * 41_000 + 1);
});
