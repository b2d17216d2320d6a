import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  formatDurationNanos,
  parseBoundNanos,
  parseDurationNanos,
  parseTimestampNanos,
} from './time.ts';

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
  assert.equal(parseTimestampNanos(`${'0'.repeat(40)}7`, 't'), 7_000_000_000n);
  assert.equal(
    parseTimestampNanos('2023-11-14T22:13:20.000000001Z', 't'),
    1_700_000_000_000_000_001n,
  );
  assert.equal(parseTimestampNanos('2023-11-15T00:13:20+02:00', 't'), 1_700_000_000_000_000_000n);
  assert.throws(() => parseTimestampNanos('tomorrow', 'start'), /start: .*"tomorrow"/);
  assert.throws(() => parseTimestampNanos('2023-13-01T00:00:00Z', 'start'), /start/);
});

test('parseTimestampNanos() refuses times that 64 bits do not hold, parseBoundNanos() takes the nearest', () => {
  const least = -(2n ** 63n);
  const most = 2n ** 63n - 1n;
  const cases: [string, bigint][] = [
    ['9999-12-31T23:59:59Z', most],
    ['0001-01-01T00:00:00Z', least],
    ['2262-04-11T23:47:16.854775808Z', most],
    ['9223372036.854775808', most],
    ['-62135596800', least],
    ['1e15', most],
    [`1${'0'.repeat(100)}`, most],
    [`-${'9'.repeat(100)}.5`, least],
  ];
  for (const [text, bound] of cases) {
    assert.throws(() => parseTimestampNanos(text, 'time'), /^TsdbError: time: .*out of range.*"/);
    assert.equal(parseBoundNanos(text, 'time'), bound, text);
  }
  for (const text of ['2262-04-11T23:47:16.854775807Z', '9223372036.854775807']) {
    assert.equal(parseTimestampNanos(text, 'time'), most);
  }
  assert.equal(parseBoundNanos('-292273086-05-16T16:47:06Z', 'time'), least);
  assert.equal(parseBoundNanos('292277025-08-18T07:12:54.999999999Z', 'time'), most);
  assert.throws(() => parseBoundNanos('tomorrow', 'start'), /start: .*"tomorrow"/);
});

test('a timestamp of millions of digits is refused by its length, and not repeated whole', () => {
  const text = '9'.repeat(1_000_000);
  const answer = (): unknown => parseTimestampNanos(text, 'time');
  assert.throws(answer, (error: Error) => error.message.length < 300);
});
