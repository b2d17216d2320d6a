import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  blockOverlaps,
  blockStartOf,
  isBlockExpired,
  missOfWindow,
  rowNanosMax,
  sideOfWindow,
  type WriteRules,
  writeWindow,
} from './block_time.ts';

test('blockStartOf() rounds down to a multiple of the block size, before 1970 too', () => {
  const starts = [0n, 1n, 9n, 10n, 11n, -1n, -9n, -10n, -11n].map((at) => blockStartOf(at, 10n));
  assert.deepEqual(starts, [0n, 0n, 0n, 10n, 10n, -10n, -10n, -10n, -20n]);
});

test('blockOverlaps() leaves the ends out that are left out', () => {
  const overlaps = (startNanos: bigint, endNanos: bigint) =>
    blockOverlaps(10n, 10n, { startNanos, endNanos });
  assert.equal(overlaps(0n, 10n), false);
  assert.equal(overlaps(0n, 11n), true);
  assert.equal(overlaps(19n, 30n), true);
  assert.equal(overlaps(20n, 30n), false);
});

test('isBlockExpired() asks that the last time of the block is past retention', () => {
  assert.equal(isBlockExpired(10n, 10n, 100n, 119n), false);
  assert.equal(isBlockExpired(10n, 10n, 100n, 120n), true);
});

const rules: WriteRules = {
  bufferPastNanos: 10n,
  bufferFutureNanos: 5n,
  retentionNanos: 100n,
  coldWrites: false,
};

test('writeWindow() goes back as far as the buffer, with cold writes as far as the retention', () => {
  assert.deepEqual(writeWindow(rules, 1000n), { startNanos: 990n, endNanos: 1005n });
  assert.deepEqual(writeWindow({ ...rules, coldWrites: true }, 1000n), {
    startNanos: 900n,
    endNanos: 1005n,
  });
  const short = { ...rules, retentionNanos: 3n, coldWrites: true };
  assert.equal(writeWindow(short, 1000n).startNanos, 990n);
});

test('writeWindow() holds no time that a store does not take', () => {
  const long = { ...rules, retentionNanos: 2n ** 63n, coldWrites: true };
  const { startNanos, endNanos } = writeWindow(long, rowNanosMax - 1n);
  assert.equal(startNanos, 1n - rowNanosMax);
  assert.equal(endNanos, rowNanosMax);
});

test('sideOfWindow() and missOfWindow() tell which limit a time missed, and by how much', () => {
  const window = writeWindow(rules, 1000n);
  const sides = [989n, 990n, 1004n, 1005n].map((nanos) => sideOfWindow(window, nanos));
  assert.deepEqual(sides, ['tooFarPast', 'inside', 'inside', 'tooFarFuture']);
  assert.deepEqual(missOfWindow(window, 980n, 'tooFarPast'), { limitNanos: 990n, offByNanos: 10n });
  assert.deepEqual(missOfWindow(window, 1006n, 'tooFarFuture'), {
    limitNanos: 1005n,
    offByNanos: 1n,
  });
});
