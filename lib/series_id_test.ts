import assert from 'node:assert/strict';
import { test } from 'node:test';
import { idOfTags } from './series_id.ts';
import { decodeTags, encodeTags, tagsProblem } from './tags.ts';

const tags = [
  { name: '__name__', value: 'up' },
  { name: 'job', value: 'a"b\\c\n' },
];

test('idOfTags() renders the three schemes', () => {
  assert.equal(idOfTags(tags, 'quoted'), '{__name__="up",job="a\\"b\\\\c\\n"}');
  assert.equal(idOfTags(tags, 'prepend_meta'), '8,2,3,6!__name__upjoba"b\\c\n');
  assert.equal(idOfTags(tags, 'legacy'), '__name__=up,job=a"b\\c\n,');
});

test('encodeTags() sorts, and decodeTags() gives the same pairs back', () => {
  const shuffled = [tags[1]!, tags[0]!];
  assert.deepEqual(decodeTags(encodeTags(shuffled)), tags);
  assert.throws(() => decodeTags(encodeTags(tags).subarray(0, 7)), /cut off/);
});

test('tagsProblem() names the tag that is refused', () => {
  assert.equal(tagsProblem(tags), null);
  assert.match(tagsProblem([]) ?? '', /at least one/);
  assert.match(tagsProblem([{ name: '9a', value: 'x' }]) ?? '', /"9a"/);
  assert.match(tagsProblem([{ name: '__address__', value: 'x' }]) ?? '', /reserved.*__address__/);
  assert.match(tagsProblem([{ name: 'a', value: '' }]) ?? '', /empty: a/);
  assert.match(tagsProblem([tags[0]!, tags[0]!]) ?? '', /twice/);
});
