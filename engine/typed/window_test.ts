import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type AggregatedWindow, valueOfWindow, windowLagsMax, windowOfValue } from './window.ts';
import { checkTypedValue, orderOfTypedRows, TypedValueWriter, valueKind } from './typed_value.ts';

const one: AggregatedWindow = {
  deletions: 0n,
  rows: 3,
  lags: 0,
  others: 0,
  last: 2,
  min: -1,
  max: 0,
  sum: 1.5,
  resets: 0,
  lastNumber: 0,
  first: 0,
};

test('a window is read as it was written, be its numbers zero, below zero or no number', () => {
  for (const more of [
    {},
    { deletions: 1_700_000_000_001n, rows: 300, lags: windowLagsMax, others: 128 },
    { last: Number.NaN, min: -0, max: Number.POSITIVE_INFINITY, sum: -0, resets: 1e-300 },
    { last: Number.NaN, lastNumber: -0 },
    { last: Number.NaN, lastNumber: 7 },
    { resets: 9, first: 3.5 },
    { rows: 0, last: 0, min: 0, max: 0, sum: 0 },
  ]) {
    const window = { ...one, ...more };
    const value = valueOfWindow(window);
    checkTypedValue(value);
    assert.deepEqual(windowOfValue(value), window);
  }
});

test('what is no window of floats is refused', () => {
  const histogram = new TypedValueWriter().begin(valueKind.histogram, 0).finish();
  const later = new TypedValueWriter().begin(valueKind.window, 1).finish();
  for (const value of [histogram, later]) {
    assert.throws(() => windowOfValue(value), {
      code: 'BAD_REQUEST',
      message: /no window of floats/,
    });
  }
});

test('a window that has heard of a later deletion stays, then the one of more rows, then that of later ones, and nothing before what was written', () => {
  const rowOf = (value: Uint8Array, version = 5) => ({ value, version, startNanos: 0n });
  const written = rowOf(new TypedValueWriter().begin(valueKind.histogram, 0).finish(), 1);
  const message = rowOf(new TypedValueWriter().begin(valueKind.message, 1).finish(), 1);
  const ascending = [
    rowOf(valueOfWindow({ ...one, rows: 0, last: 9 }), 9),
    rowOf(valueOfWindow({ ...one, rows: 127, lags: 5 })),
    // Its varint is the smaller string of bytes.
    rowOf(valueOfWindow({ ...one, rows: 128 })),
    rowOf(valueOfWindow({ ...one, rows: 128 }), 6),
    rowOf(valueOfWindow({ ...one, rows: 128, last: 3 }), 6),
    rowOf(valueOfWindow({ ...one, rows: 128, lags: 127, others: 9 }), 3),
    rowOf(valueOfWindow({ ...one, rows: 128, lags: 128 }), 2),
    rowOf(valueOfWindow({ ...one, rows: 0, deletions: 1n })),
    rowOf(valueOfWindow({ ...one, deletions: 300n })),
    written,
    message,
  ];
  for (const [i, a] of ascending.entries()) {
    for (const [j, b] of ascending.entries()) {
      assert.equal(Math.sign(orderOfTypedRows(a, b)), Math.sign(i - j), `${i} and ${j}`);
    }
  }
});
