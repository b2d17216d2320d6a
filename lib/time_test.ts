import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatDurationNanos, parseDurationNanos, parseTimestampNanos } from './time.ts';

test('parseDurationNanos() reads Go durations, and days and weeks', () => {
  assert.equal(parseDurationNanos('48h', 'x'), 172_800_000_000_000n);
  assert.equal(parseDurationNanos('1h30m', 'x'), 5_400_000_000_000n);
  assert.equal(parseDurationNanos('1.5s', 'x'), 1_500_000_000n);
  assert.equal(parseDurationNanos('2d', 'x'), 172_800_000_000_000n);
  assert.equal(parseDurationNanos('-5m', 'x'), -300_000_000_000n);
});

test('parseDurationNanos() names field, reason and value', () => {
  for (const bad of ['', '5', 'abc', '5x', '1h5', '.s', '999999999w']) {
    assert.throws(() => parseDurationNanos(bad, 'retentionTime'), /retentionTime: .*/);
  }
});

test('formatDurationNanos() prints as Go does', () => {
  assert.equal(formatDurationNanos(172_800_000_000_000n), '48h0m0s');
  assert.equal(formatDurationNanos(600_000_000_000n), '10m0s');
  assert.equal(formatDurationNanos(1_500_000_000n), '1.5s');
  assert.equal(formatDurationNanos(0n), '0s');
  assert.equal(formatDurationNanos(1_500_000n), '1.5ms');
});

test('parseTimestampNanos() reads unix seconds and RFC 3339 exactly', () => {
  assert.equal(parseTimestampNanos('1700000000', 't'), 1_700_000_000_000_000_000n);
  assert.equal(parseTimestampNanos('1700000000.123456789', 't'), 1_700_000_000_123_456_789n);
  assert.equal(parseTimestampNanos('-1.5', 't'), -1_500_000_000n);
  assert.equal(
    parseTimestampNanos('2023-11-14T22:13:20.000000001Z', 't'),
    1_700_000_000_000_000_001n,
  );
  assert.equal(parseTimestampNanos('2023-11-15T00:13:20+02:00', 't'), 1_700_000_000_000_000_000n);
  assert.throws(() => parseTimestampNanos('tomorrow', 'start'), /start: .*"tomorrow"/);
  assert.throws(() => parseTimestampNanos('2023-13-01T00:00:00Z', 'start'), /start/);
});
