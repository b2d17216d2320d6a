import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TsdbError } from './errors.ts';
import { fieldPath, fieldsBySpelling, shownJson } from './json_fields.ts';

const lower = (key: string) => key.toLowerCase();

test('a field is found by the one spelling of its reader, and given once', () => {
  const fields = fieldsBySpelling<unknown>({ RangeStart: 1, id: null }, '', lower);
  assert.deepEqual(
    [...fields],
    [
      ['rangestart', 1],
      ['id', null],
    ],
  );
  assert.throws(
    () => fieldsBySpelling<unknown>({ id: 1, ID: 2 }, 'tags[0]', lower),
    new TsdbError('BAD_REQUEST', 'tags[0].ID: field is given twice'),
  );
});

test('what is no object is refused with its path and value', () => {
  const cases: [unknown, string, string][] = [
    [[12345678901234567890n], 'query', 'query: not a JSON object: ["12345678901234567890"]'],
    [null, '', 'request body: not a JSON object: null'],
    [undefined, 'a', 'a: not a JSON object: nothing'],
  ];
  for (const [value, path, message] of cases) {
    assert.throws(
      () => fieldsBySpelling(value, path, lower),
      new TsdbError('BAD_REQUEST', message),
    );
  }
});

test('paths join, and long values are cut', () => {
  assert.equal(fieldPath('', 'id'), 'id');
  assert.equal(fieldPath('shards[0]', 'id'), 'shards[0].id');
  assert.equal(shownJson(7n), '7');
  assert.equal(shownJson('x'.repeat(500)), `"${'x'.repeat(199)}…`);
});
