import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodedTags, utf8 } from '../folder_testing.ts';
import { tagsOfSeries } from './tags.ts';

const none = new Uint8Array();
const tagsOf = (id: string, tags: Uint8Array = none) => {
  const found = tagsOfSeries(utf8(id), tags);
  return found === null ? null : Object.fromEntries(found.map(({ name, value }) => [name, value]));
};

test('tags beside the ID are taken as they are', () => {
  const tags = { __name__: 'up', job: 'späße', __g0__: 'a.b', empty: '' };
  assert.deepEqual(tagsOf('whatever', encodedTags(tags)), tags);
});

test('tags that are damaged, twice or no UTF-8 are none', () => {
  const good = encodedTags({ a: 'b', c: 'd' });
  for (let length = 1; length < good.length; length += 1) {
    assert.equal(tagsOf('{x="y"}', good.subarray(0, length)), null);
  }
  const changed = (at: number, byte: number) => good.with(at, byte);
  assert.equal(tagsOf('', changed(0, 0)), null, 'not the number at the beginning');
  assert.equal(tagsOf('', changed(2, 1)), null, 'bytes are left');
  assert.equal(tagsOf('', changed(2, 3)), null, 'one is missing');
  assert.equal(tagsOf('', changed(6, 0xff)), null, 'no UTF-8');
  assert.equal(tagsOf('', encodedTags({ '': 'b' })), null, 'a name is empty');
  assert.equal(tagsOf('', encodedTags({})), null, 'there are none');
  const twice = Buffer.concat([good.with(2, 4), good.subarray(4)]);
  assert.equal(tagsOf('', new Uint8Array(twice)), null, 'names are twice');
});

test('an ID in quotes has its tags', () => {
  assert.deepEqual(tagsOf('{a="b",c="d"}'), { a: 'b', c: 'd' });
  assert.deepEqual(tagsOf('{a="b"}'), { a: 'b' });
  assert.deepEqual(tagsOf('{a="x=y,z}{",b=""}'), { a: 'x=y,z}{', b: '' });
  assert.deepEqual(tagsOf(String.raw`{a="\"\\\n\t\a\x01\u00ad\U000e0001ü"}`), {
    a: '"\\\n\t\x07\x01\u00ad\u{e0001}ü',
  });
});

test('an ID in quotes that cannot be read has none', () => {
  const ids = ['{}', '{', '{a}', '{a=b}', '{a="b"', '{a="b",}', '{a="b"}x', '{a="b" ,c="d"}'];
  ids.push('{="b"}', '{a="b",a="c"}', '{a="b""}', ' {a="b"}');
  ids.push(...['\\q', '\\x', '\\xff', '\\ud800', '\\U00110000'].map((text) => `{a="${text}"}`));
  for (const id of ids) assert.equal(tagsOf(id), null, id);
  assert.equal(tagsOfSeries(Uint8Array.of(0x7b, 0xff), none), null);
});

test('a path of Graphite is tags of its parts, and any other ID has none', () => {
  assert.deepEqual(tagsOf('servers.dc1.cpu-0:idle'), {
    __g0__: 'servers',
    __g1__: 'dc1',
    __g2__: 'cpu-0:idle',
  });
  for (const id of ['', 'plain', 'a..b', '.a', 'a.', 'a.b c', 'a.b=c', 'a.b,c', 'a.{b}']) {
    assert.equal(tagsOf(id), null, id);
  }
});
