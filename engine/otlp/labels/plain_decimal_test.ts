import assert from 'node:assert/strict';
import { test } from 'node:test';
import { plainDecimal } from './plain_decimal.ts';

test('numbers have their shortest digits and no power of ten', () => {
  const cases: [number, string][] = [
    [0, '0'],
    [-0, '-0'],
    [0.005, '0.005'],
    [10, '10'],
    [1e-7, '0.0000001'],
    [-1.25e-9, '-0.00000000125'],
    [1e21, '1000000000000000000000'],
    [1.5e22, '15000000000000000000000'],
    [Infinity, '+Inf'],
    [-Infinity, '-Inf'],
    [Number.NaN, 'NaN'],
  ];
  for (const [value, text] of cases) {
    assert.equal(plainDecimal(value), text);
    if (Number.isFinite(value)) assert.equal(Number(plainDecimal(value)), value);
  }
});
