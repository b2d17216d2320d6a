import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeTags } from '#lib/tags.ts';
import { Labels } from './labels.ts';

const tags = [
  { name: '__name__', value: 'up' },
  { name: 'Zone', value: 'größer' },
  { name: 'job', value: 'api' },
];

function stored(pairs: readonly { name: string; value: string }[]): Labels {
  const bytes = Buffer.concat([Buffer.from([1, 2, 3]), encodeTags(pairs), Buffer.from([9])]);
  return Labels.fromBytes(bytes, 3, bytes.length - 1);
}

test('labels from canonical bytes and from texts are the same', () => {
  assert.equal(stored(tags).key, Labels.of(tags).key);
  assert.equal(stored(tags).compare(Labels.of(tags)), 0);
  assert.deepEqual(stored(tags).tags, Labels.of(tags).tags);
});

test('get() finds a value without decoding the others', () => {
  assert.equal(stored(tags).get('Zone'), 'größer');
  assert.equal(stored(tags).get('job'), 'api');
  assert.equal(stored(tags).get('jo'), '');
});

test('withoutName() also drops the type and the unit', () => {
  const described = [...tags, { name: '__type__', value: 'counter' }];
  const wanted = Labels.of(tags.slice(1)).key;
  assert.equal(stored(tags).withoutName().key, wanted);
  assert.equal(stored(described).withoutName().key, wanted);
  assert.equal(Labels.of(described).withoutName().key, wanted);
});

test('keys for matching tell apart what only joins to the same text', () => {
  const a = Labels.of([
    { name: 'x', value: 'ab' },
    { name: 'y', value: 'c' },
  ]);
  const b = Labels.of([
    { name: 'x', value: 'a' },
    { name: 'y', value: 'bc' },
  ]);
  assert.notEqual(a.keyOn(['x', 'y']), b.keyOn(['x', 'y']));
  assert.equal(a.keyWithout(new Set(['y'])), Labels.of([{ name: 'x', value: 'ab' }]).key);
});

test('with() replaces, adds, and takes away by an empty value', () => {
  const labels = stored(tags).with('job', 'db').with('a', '1').with('Zone', '');
  assert.equal(labels.toString(), '{__name__="up", a="1", job="db"}');
});
