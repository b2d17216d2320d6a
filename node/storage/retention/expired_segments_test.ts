import assert from 'node:assert/strict';
import { test } from 'node:test';
import { expiredSegments } from './expired_segments.ts';

const milli = 1_000_000n;
/** Blocks of 10 ms that are kept for 100 ms. */
const rules = new Map([['a', { blockSizeNanos: 10n * milli, retentionNanos: 100n * milli }]]);

function segment(number: number, newest: Record<string, number>) {
  return { number, newestMillis: new Map(Object.entries(newest)) };
}

const numbersOf = (segments: readonly { number: number }[]) => segments.map(({ number }) => number);

test('a segment goes when its newest row is past retention by two blocks', () => {
  const closed = [segment(1, { a: 1000 })];
  assert.deepEqual(numbersOf(expiredSegments(closed, rules, 1120n * milli)), [1]);
  assert.deepEqual(expiredSegments(closed, rules, 1120n * milli - 1n), []);
});

test('a segment stays as long as one before it, and as long as one namespace needs it', () => {
  const kept = new Map([
    ...rules,
    ['b', { blockSizeNanos: 10n * milli, retentionNanos: 1000n * milli }],
  ]);
  const closed = [
    segment(1, { a: 1000 }),
    segment(2, { a: 1000, b: 1000 }),
    segment(3, { a: 900 }),
  ];
  assert.deepEqual(numbersOf(expiredSegments(closed, kept, 1200n * milli)), [1]);
  assert.deepEqual(numbersOf(expiredSegments(closed, kept, 2020n * milli)), [1, 2, 3]);
});

test('nothing is kept of a namespace that is not here, and an empty segment goes', () => {
  const closed = [segment(1, { gone: 1000 }), segment(2, {})];
  assert.deepEqual(numbersOf(expiredSegments(closed, rules, 0n)), [1, 2]);
});
