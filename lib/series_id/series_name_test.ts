import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeTags, sortTags, type Tag } from '#lib/tags.ts';
import { idOfTags, plainQuotedId } from './from_tags.ts';
import { idSchemeCode } from './scheme.ts';
import { checkedId } from './series_name.ts';

const none = new Uint8Array(0);
const quoted = (tags: Uint8Array) =>
  checkedId({ idScheme: idSchemeCode.quoted, tags, explicitId: none });
const layout = (...texts: string[]) =>
  new Uint8Array(
    Buffer.concat(
      texts.map((text) => {
        const bytes = Buffer.from(text);
        return Buffer.concat([Buffer.from([bytes.length & 255, bytes.length >> 8]), bytes]);
      }),
    ),
  );

test('checkedId() gives the quoted ID, with and without characters that need escapes', () => {
  const all: Tag[][] = [
    [],
    [{ name: '__name__', value: 'up' }],
    [
      { name: 'a', value: '' },
      { name: 'ab', value: 'x y' },
      { name: 'b', value: '~!' },
    ],
    [{ name: 'q', value: 'say "hi"\\' }],
    [{ name: 'city', value: 'Zürich' }],
    [{ name: 'straße', value: 'x' }],
    [{ name: 'c', value: 'tab\there\u0001\u007f' }],
    [{ name: 'long', value: 'x'.repeat(30_000) }],
  ];
  for (const tags of all) {
    const id = quoted(encodeTags(tags));
    assert.equal(Buffer.from(id!).toString(), idOfTags(sortTags(tags), 'quoted'));
  }
  assert.notEqual(plainQuotedId(encodeTags(all[2]!)), null);
});

test('checkedId() refuses tags that are not canonical', () => {
  assert.equal(quoted(layout('b', '1', 'a', '2')), null);
  assert.equal(quoted(layout('a', '1', 'a', '2')), null);
  assert.equal(quoted(layout('', '1')), null);
  assert.equal(quoted(layout('ab', '1', 'a', '2')), null);
  assert.equal(quoted(layout('a')), null);
  assert.equal(quoted(layout('a', 'bc').subarray(0, 6)), null);
  assert.equal(quoted(new Uint8Array([1, 0, 0xff, 1, 0, 0x61])), null);
  assert.equal(checkedId({ idScheme: 9, tags: layout('a', 'b'), explicitId: none }), null);
  const explicit = new Uint8Array([1]);
  assert.equal(checkedId({ idScheme: 1, tags: layout('a', 'b'), explicitId: explicit }), null);
  assert.deepEqual(checkedId({ idScheme: 0, tags: none, explicitId: explicit }), explicit);
  assert.equal(checkedId({ idScheme: 0, tags: none, explicitId: none }), null);
});
