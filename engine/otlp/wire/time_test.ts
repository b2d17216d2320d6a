import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pickOf } from '#test/sim/mutate.ts';
import { millisAt, startMillisAt } from './time.ts';

test('nanoseconds are cut to milliseconds as whole numbers of 64 bits are', () => {
  const pick = pickOf(1);
  const view = new DataView(new ArrayBuffer(8));
  for (let i = 0; i < 200_000; i++) {
    const millis = BigInt(pick(2 ** 44));
    const nanos = BigInt.asUintN(
      64,
      millis * 1_000_000n + BigInt([0, -1, 1, 999_999, pick(1_000_000)][i % 5]!),
    );
    view.setBigUint64(0, nanos, true);
    assert.equal(millisAt(view, 0), Number(nanos / 1_000_000n), String(nanos));
  }
});

test('a start beyond what nanoseconds of 64 bits with a sign can say is none', () => {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, 9_223_372_036_854_775_807n, true);
  assert.equal(startMillisAt(view, 0), 9_223_372_036_854);
  view.setBigUint64(0, 9_223_372_036_855_000_000n, true);
  assert.equal(startMillisAt(view, 0), 0);
});
