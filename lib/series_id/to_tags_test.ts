import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeTags, encodeTags, type Tag } from '../tags.ts';
import { derivedIdOf } from './from_tags.ts';
import { idSchemeCode } from './scheme.ts';
import { tagsOfId, tellsItsTags } from './to_tags.ts';

const none = new Uint8Array(0);
const { quoted, prepend_meta: prependMeta, legacy } = idSchemeCode;

test('tagsOfId() gives the tags of the schemes back that tell them', () => {
  const all: Tag[][] = [
    [],
    [{ name: '__name__', value: 'up' }],
    [
      { name: 'a', value: '"\\ \n\r\t\x07\x7f\0' },
      { name: 'b', value: 'x="y",}' },
      { name: 'straße', value: 'Zürich \u200b😀' },
      { name: 'ſ"\\\u0001\u007f', value: '\\u0041\\\u{fd195}\u{10ffff}\b\v\f\ufffd' },
    ],
  ];
  for (const tags of all) {
    for (const idScheme of [quoted, prependMeta]) {
      const bytes = encodeTags(tags);
      assert.ok(tellsItsTags({ tags: bytes, idScheme, explicitId: none }));
      const found = tagsOfId(derivedIdOf(bytes, idScheme));
      assert.deepEqual(
        found.map((each) => [each.idScheme, decodeTags(each.tags)]),
        [[idScheme, tags]],
      );
    }
  }
});

test('series whose ID does not tell their tags are told apart, and texts that are no ID', () => {
  const tags = encodeTags([{ name: 'a=b', value: 'x' }]);
  const tells = (idScheme: number, explicitId = none) =>
    tellsItsTags({ tags, idScheme, explicitId });
  assert.equal(tells(quoted), false);
  assert.equal(tells(prependMeta), true);
  assert.equal(tells(prependMeta, Uint8Array.of(1)), false);
  assert.equal(tells(legacy), false);
  for (const text of ['', 'a=x,', '{a="x"', '1!a', '1,5!ax', '{a=x}']) {
    assert.deepEqual(tagsOfId(Buffer.from(text)), [], text);
  }
});
