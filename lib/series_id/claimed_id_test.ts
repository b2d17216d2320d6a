import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeTags, type Tag } from '../tags.ts';
import { ownerOfId, rightfulName } from './claimed_id.ts';
import { idOfTags } from './from_tags.ts';
import { type IdScheme, idSchemeCode } from './scheme.ts';
import { checkedId } from './series_name.ts';

const none = new Uint8Array(0);
const upOfNode: Tag[] = [
  { name: '__name__', value: 'up' },
  { name: 'job', value: 'no"de' },
];
const other: Tag[] = [{ name: '__name__', value: 'down' }];

function nameOf(id: string, tags: readonly Tag[], idScheme: number = idSchemeCode.explicit) {
  const name = { idScheme, tags: encodeTags(tags), explicitId: Buffer.from(id) };
  return rightfulName(name, Buffer.from(id));
}

test('an ID that a scheme makes is that of the series with these tags, and of no other', () => {
  for (const scheme of ['quoted', 'prepend_meta', 'legacy'] as IdScheme[]) {
    const id = idOfTags(upOfNode, scheme);
    const same = nameOf(id, upOfNode)!;
    assert.equal(same.idScheme, idSchemeCode[scheme], scheme);
    assert.equal(same.explicitId.length, 0);
    assert.deepEqual(Buffer.from(checkedId(same)!).toString(), id);
    assert.equal(nameOf(id, other), null, scheme);
    assert.equal(nameOf(id, []), null, scheme);
  }
});

test('what only looks like an ID of a scheme names a series of its own', () => {
  const texts = [
    'foo',
    '{}',
    '!',
    '{__name__="up"',
    '{b="1",a="2"}', // not in the order of a scheme
    '{a="1",a="2"}',
    '{a="\\q"}', // an escape that no scheme makes
    '1,1!a',
    '01,1!ab',
    'a=1',
    'a=,',
    '=1,',
    'x'.repeat(70_000),
    `a=${'x'.repeat(70_000)},`,
  ];
  for (const text of texts) {
    assert.equal(ownerOfId(Buffer.from(text)), null, text.slice(0, 20));
    assert.equal(nameOf(text, other)!.idScheme, idSchemeCode.explicit, text.slice(0, 20));
  }
});

test('a scheme-made ID of odd names is that of no others: quotes in names are escaped', () => {
  const odd = [{ name: 'a="x",b', value: 'y' }];
  const series = { idScheme: idSchemeCode.quoted, tags: encodeTags(odd), explicitId: none };
  const id = Buffer.from(idOfTags(odd, 'quoted'));
  assert.equal(id.toString(), '{a=\\"x\\",b="y"}');
  assert.deepEqual(rightfulName(series, id), series);
});
