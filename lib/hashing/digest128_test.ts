import assert from 'node:assert/strict';
import { test } from 'node:test';
import { digest128 } from './digest128.ts';

test('a digest is the first half of the SHA-256 of the text as UTF-8', () => {
  // FIPS 180-2, B.1.
  assert.equal(digest128('abc'), 'ba7816bf8f01cfea414140de5dae2223');
  assert.notEqual(digest128('a'), digest128('ä'));
});
