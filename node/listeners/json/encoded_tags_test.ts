import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeTags, encodeTags } from '#lib/tags.ts';
import { m3TagsOf, tagsOfM3 } from './encoded_tags.ts';

const tags = [
  { name: 'city', value: 'new_york' },
  { name: 'fox', value: 'ä🦊' },
];

test('tags have the bytes of M3, in any order', () => {
  const bytes = m3TagsOf(encodeTags(tags));
  // 10101, two tags, then lengths and texts.
  assert.equal(bytes.subarray(0, 10).toString('hex'), '75270200' + '0400' + '63697479');
  assert.deepEqual(decodeTags(tagsOfM3(bytes)), tags);
  const city = encodeTags([tags[0]!]);
  const other = encodeTags([tags[1]!]);
  const reversed = Buffer.concat([bytes.subarray(0, 4), other, city]);
  assert.deepEqual(decodeTags(tagsOfM3(reversed)), tags);
  assert.equal(m3TagsOf(new Uint8Array(0)).length, 0);
  assert.equal(tagsOfM3(Buffer.alloc(0)).length, 0);
});

test('bytes that are no tags are refused', () => {
  const bytes = m3TagsOf(encodeTags(tags));
  const other = Buffer.from(bytes);
  other[0] = 0;
  assert.throws(() => tagsOfM3(other), /does not begin with 10101/);
  const more = Buffer.from(bytes);
  more[2] = 3;
  assert.throws(() => tagsOfM3(more), /has 2 tags, and says 3/);
  assert.throws(() => tagsOfM3(bytes.subarray(0, 12)), { code: 'BAD_REQUEST' });
  const twice = Buffer.concat([
    bytes.subarray(0, 4),
    encodeTags([tags[0]!]),
    encodeTags([tags[0]!]),
  ]);
  assert.throws(() => tagsOfM3(twice), /encodedTags: /);
});
