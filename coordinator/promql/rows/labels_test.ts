import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeTags } from '#lib/tags.ts';
import { LabelNames, Labels } from './labels.ts';

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
  const names = new LabelNames(['x', 'y']);
  assert.notEqual(a.keyOn(names), b.keyOn(names));
  assert.equal(a.keyWithout(new Set(['y'])), Labels.of([{ name: 'x', value: 'ab' }]).key);
});

test('long lists of names keep and tell apart what short ones do', () => {
  const more = Array.from({ length: 100 }, (_, i) => `l${i}`);
  const all = [
    stored([...tags, { name: 'l7', value: '1' }]),
    stored([...tags, { name: 'l70', value: '1' }]),
    stored([...tags, { name: 'l7', value: '' }]),
    stored(tags),
    stored(tags.slice(1)),
  ];
  const short = new LabelNames(['job', 'l7', 'l70', 'none']);
  const long = new LabelNames(['job', ...more]);
  for (const a of all) {
    assert.equal(a.keep(long).key, a.keep(short).key);
    for (const b of all) {
      assert.equal(a.keyOn(long) === b.keyOn(long), a.keyOn(short) === b.keyOn(short));
    }
  }
});

test('withOf() takes what the others have, and takes away what they do not have', () => {
  const others = Labels.of([
    { name: 'job', value: 'db' },
    { name: 'rack', value: '7' },
    { name: 'unasked', value: '1' },
  ]);
  const labels = stored(tags).withOf(new Set(['job', 'rack', 'Zone']), others);
  assert.equal(labels.toString(), '{__name__="up", job="db", rack="7"}');
});

test('with() replaces, adds, and takes away by an empty value', () => {
  const labels = stored(tags).with('job', 'db').with('a', '1').with('Zone', '');
  assert.equal(labels.toString(), '{__name__="up", a="1", job="db"}');
});
