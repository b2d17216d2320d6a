import assert from 'node:assert/strict';
import { test } from 'node:test';
import { roundTo } from '../math/rounding.ts';
import { fillIn } from './fill_in.ts';
import { formatted, withPrefix } from './formatted.ts';
import { floatText, shortNumber } from './number_text.ts';

test('shortNumber() has six digits, and an exponent where they are not enough', () => {
  const texts = [0, -2.5, 100, 99.9, 1234567, 1e-5, 0.0001, 0.1 + 0.2, 999999.5, Infinity].map(
    shortNumber,
  );
  assert.deepEqual(texts, [
    '0',
    '-2.5',
    '100',
    '99.9',
    '1.23457e+06',
    '1e-05',
    '0.0001',
    '0.3',
    '1e+06',
    'inf',
  ]);
});

test('floatText() has all digits, and always a fraction or an exponent', () => {
  const texts = [2, 0.1, -1, 1e16, 123456789, 1.5e-7, NaN].map(floatText);
  assert.deepEqual(texts, ['2.0', '0.1', '-1.0', '1e+16', '123456789.0', '1.5e-07', 'nan']);
});

test('formatted() puts a value into a text as C does', () => {
  assert.equal(formatted('%d of 100%%', 42.9), '42 of 100%');
  assert.equal(formatted('total %.1f', 500), 'total 500.0');
  assert.equal(formatted('[%08.2f|', -3.14159), '[-0003.14|');
  assert.equal(formatted('%e', 12345.678), '1.234568e+04');
  assert.throws(() => formatted('nothing', 1), /needs one place for the value/);
  assert.throws(() => formatted('%999999999f', 1), /unknown form/);
});

test('withPrefix() divides by the greatest unit that fits', () => {
  assert.equal(withPrefix(4170, 'si'), '4.17k');
  assert.equal(withPrefix(-3 * 1024 ** 3, 'binary'), '-3.00Gi');
  assert.equal(withPrefix(12, 'binary'), '12.00');
});

test('roundTo() rounds what is exactly between two to the even one', () => {
  assert.deepEqual(
    [0.5, 1.5, 2.5, -0.5, -1.5].map((value) => roundTo(value, 0)),
    [0, 2, 2, -0, -2],
  );
  assert.equal(roundTo(0.125, 2), 0.12);
  assert.equal(roundTo(0.375, 2), 0.38);
  // A little below and a little above a half in binary.
  assert.equal(roundTo(1.005, 2), 1);
  assert.equal(roundTo(2.675, 2), 2.67);
  assert.equal(roundTo(0.615, 2), 0.61);
  assert.equal(roundTo(1250, -2), 1200);
  assert.equal(roundTo(1e300, 6), 1e300);
  assert.equal(roundTo(NaN, 2), NaN);
});

test('fillIn() refuses what becomes too long', () => {
  assert.equal(fillIn('a.%.b.%', '%', 'x'), 'a.x.b.x');
  assert.throws(() => fillIn('%'.repeat(1000), '%', 'x'.repeat(1000)), /becomes longer than/);
});
