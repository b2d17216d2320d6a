import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeTags, encodeTags } from './tags.ts';

test('decodeTags() gives back what encodeTags() took, byte order marks and other characters too', () => {
  const tags = [
    { name: '__name__', value: '\ufeffup' },
    { name: 'empty', value: '' },
    { name: 'host', value: 'ü😀\u0000' },
    { name: '\ufeffname', value: 'x' },
  ];
  assert.deepEqual(decodeTags(encodeTags(tags)), tags);
});

test('decodeTags() refuses bytes that are cut off or not UTF-8', () => {
  const bytes = encodeTags([{ name: 'a', value: 'bc' }]);
  for (let length = 1; length < bytes.length; length++) {
    assert.throws(() => decodeTags(bytes.subarray(0, length)), { code: 'BAD_REQUEST' });
  }
  const wrong = bytes.slice();
  wrong[5] = 0xff;
  assert.throws(() => decodeTags(wrong), { code: 'BAD_REQUEST' });
});
