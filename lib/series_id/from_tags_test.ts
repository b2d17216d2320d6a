import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededRandom } from '#test/seeded_random.ts';
import {
  derivedIdOf,
  idOfTags,
  legacyIdBytes,
  nodeTag,
  pathOfTags,
  plainId,
  seriesIdOf,
} from './from_tags.ts';
import { checkedId } from './series_name.ts';
import { idSchemeCode } from './scheme.ts';
import { decodeTags, encodeTags } from '../tags.ts';

const tags = [
  { name: '__name__', value: 'up' },
  { name: 'job', value: 'a"b\\c\n' },
];

test('idOfTags() renders the three schemes', () => {
  assert.equal(idOfTags(tags, 'quoted'), '{__name__="up",job="a\\"b\\\\c\\n"}');
  assert.equal(idOfTags(tags, 'prepend_meta'), '8,2,3,6!__name__upjoba"b\\c\n');
  assert.equal(idOfTags(tags, 'legacy'), '__name__=up,job=a"b\\c\n,');
});

test('the ID of a path is its nodes, and of nothing else', () => {
  const nodes = (...values: string[]) =>
    values.map((value, node) => ({ name: `__g${node}__`, value }));
  const deep = nodes(...Array.from({ length: 12 }, (_, i) => `n${i}`)).toSorted((a, b) =>
    a.name < b.name ? -1 : 1,
  );
  assert.equal(deep[1]!.name, '__g10__');
  assert.equal(pathOfTags(deep), 'n0.n1.n2.n3.n4.n5.n6.n7.n8.n9.n10.n11');
  assert.equal(idOfTags(nodes('servers', 'web 1'), 'path'), 'servers.web 1');
  const none = new Uint8Array(0);
  const { path } = idSchemeCode;
  for (const tags of [
    nodes('a'),
    nodes('servers', 'web 1', 'ü'),
    nodes(...'a b c d e f g h i j'.split(' ')),
    deep,
  ]) {
    const id = checkedId({ idScheme: path, tags: encodeTags(tags), explicitId: none });
    assert.equal(Buffer.from(id!).toString(), pathOfTags(tags));
  }
  for (const tags of [
    [],
    [{ name: '__name__', value: 'a' }],
    [...nodes('a'), { name: 'job', value: 'b' }],
    [{ name: '__g1__', value: 'a' }],
    [{ name: '__g00__', value: 'a' }],
    nodes('a', 'b.c'),
    nodes('a', ''),
  ]) {
    assert.equal(pathOfTags(tags), null);
    assert.equal(checkedId({ idScheme: path, tags: encodeTags(tags), explicitId: none }), null);
  }
});

test('paths of any depth and damaged tags come to what their texts come to', () => {
  const random = new SeededRandom(1);
  const names = [
    '__g0__',
    '__g1__',
    '__g2__',
    '__g9__',
    '__g10__',
    '__g11__',
    '__g00__',
    '__g_0__',
    '__gx__',
    'a',
    '',
  ];
  const none = new Uint8Array(0);
  const idOf = (tags: Uint8Array) =>
    checkedId({ idScheme: idSchemeCode.path, tags, explicitId: none });
  for (let run = 0; run < 3_000; run += 1) {
    const isPath = random.below(2) === 0;
    const depth = random.pick([1, 2, 9, 10, 11, 12, 30, 99, 100, 101]);
    const tags = Array.from({ length: isPath ? depth : random.below(5) }, (_, node) => ({
      name: isPath ? nodeTag(node) : random.pick(names),
      value: random.pick(['a', 'web 1', 'x', 'ü', isPath ? 'y' : 'a.b', isPath ? 'z' : '']),
    }));
    const isUnique = new Set(tags.map(({ name }) => name)).size === tags.length;
    const isNamed = tags.every(({ name }) => name !== '');
    const bytes = encodeTags(tags);
    const path = isUnique && isNamed ? pathOfTags(tags) : null;
    const id = idOf(bytes);
    assert.equal(id === null ? null : Buffer.from(id).toString(), path);
    const damaged = bytes.slice(0, random.below(bytes.length + 1));
    if (damaged.length > 0) damaged[random.below(damaged.length)] = random.below(256);
    const plain = plainId(damaged, idSchemeCode.path);
    if (plain !== null)
      assert.equal(Buffer.from(plain).toString(), pathOfTags(decodeTags(damaged)));
  }
});

test('the quoted scheme escapes quotes, backslashes and what is not printable, as M3 does', () => {
  const quoted = (value: string) => idOfTags([{ name: 'n', value }], 'quoted');
  assert.equal(quoted('say "hi"\\'), '{n="say \\"hi\\"\\\\"}');
  assert.equal(quoted('\n\r\t'), '{n="\\n\\r\\t"}');
  assert.equal(quoted('\x07\b\v\f\0\x1b\x7f'), '{n="\\a\\b\\v\\f\\x00\\x1b\\u007f"}');
  assert.equal(quoted('Zürich \x85\u200b😀'), '{n="Zürich \\u0085\\u200b😀"}');
  assert.equal(quoted('\u{e000}\u{fd195}\u{10ffff}'), '{n="\\ue000\\U000fd195\\U0010ffff"}');
  assert.equal(quoted('C:\\new'), '{n="C:\\\\new"}', 'M3 has it as it is, like a newline');
  assert.equal(idOfTags([{ name: 'a"\\\0é', value: '' }], 'quoted'), '{a\\"\\\\\\x00é=""}');
});

test('IDs from canonical bytes are those from tags', () => {
  const none = new Uint8Array(0);
  const bytes = encodeTags(tags);
  for (const scheme of ['quoted', 'prepend_meta', 'legacy'] as const) {
    const id = Buffer.from(idOfTags(tags, scheme));
    assert.deepEqual(Buffer.from(derivedIdOf(bytes, idSchemeCode[scheme])), id);
    assert.deepEqual(Buffer.from(seriesIdOf(idSchemeCode[scheme], bytes, none)!), id);
  }
  assert.deepEqual(Buffer.from(legacyIdBytes(bytes)), Buffer.from(idOfTags(tags, 'legacy')));
  assert.equal(seriesIdOf(idSchemeCode.explicit, none, bytes), bytes);
  assert.equal(seriesIdOf(9, bytes, none), null);
  assert.throws(() => derivedIdOf(bytes, 0), /not one that derives IDs: 0/);
});
