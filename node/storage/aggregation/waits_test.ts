import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SliceKey } from './notes.ts';
import { pauseMillisOf, Waits } from './waits.ts';

const minute = 60_000;
const kept = (minutes: number) => ({ retentionNanos: BigInt(minutes * minute) * 1_000_000n });

test('slices wait for an eighth of the time for which the rows are kept that go first, ten minutes at most', () => {
  assert.equal(pauseMillisOf([kept(8), kept(16)]), minute);
  assert.equal(pauseMillisOf([kept(16), kept(8)]), minute);
  assert.equal(pauseMillisOf([kept(2 * 1440), kept(1440)]), 10 * minute);
});

test('a slice waits as long as there is a reason, and not for ever', () => {
  const waits = new Waits();
  const key = '7/1 0' as SliceKey;
  assert.equal(waits.isToWait(key, true, 1_000, 500), true);
  assert.equal(waits.isToWait(key, true, 1_499, 500), true);
  assert.equal(waits.isToWait(key, true, 1_500, 500), false);
  assert.equal(waits.isToWait(key, false, 1_600, 500), false);
  assert.equal(waits.isToWait(key, true, 1_700, 500), true);
  // Nobody asked for it in a whole round.
  waits.endRound();
  waits.endRound();
  assert.equal(waits.isToWait(key, true, 9_000, 500), true);
});
