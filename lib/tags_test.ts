import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeTags, encodeTags, type Tag, tagsProblem } from './tags.ts';

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

test('encodeTags() sorts by the bytes of names and writes what a plain encoder writes', () => {
  const plainLayout = (tags: readonly Tag[]): Buffer => {
    const sorted = [...tags].sort((a, b) =>
      Buffer.compare(Buffer.from(a.name), Buffer.from(b.name)),
    );
    const texts = sorted.flatMap(({ name, value }) => [Buffer.from(name), Buffer.from(value)]);
    return Buffer.concat(
      texts.flatMap((text) => [Buffer.from([text.length & 255, text.length >> 8]), text]),
    );
  };
  const letters = ['a', 'Z', '_', '~', 'é', '日', '\uffff', '\ue000', '\u{1f600}', '\ud800'];
  let seed = 1;
  const below = (end: number): number => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) & 0x7fff_ffff;
    return (seed >>> 8) % end;
  };
  const text = (): string => Array.from({ length: below(5) }, () => letters[below(10)]).join('');
  for (let round = 0; round < 2000; round += 1) {
    const names = new Set(Array.from({ length: below(6) }, () => `${below(100)}${text()}`));
    const tags = [...names].map((name) => ({ name, value: text() }));
    assert.deepEqual(Buffer.from(encodeTags(tags)), plainLayout(tags));
  }
  const long = [{ name: 'b', value: '日'.repeat(21_845) }, ...[{ name: 'a', value: 'x' }]];
  assert.deepEqual(Buffer.from(encodeTags(long)), plainLayout(long));
  assert.throws(() => encodeTags([{ name: 'a', value: '日'.repeat(21_846) }]), {
    code: 'BAD_REQUEST',
  });
});

test('encodeTags() sorts, and a layout that is cut off is refused', () => {
  const tags = [
    { name: '__name__', value: 'up' },
    { name: 'job', value: 'a' },
  ];
  assert.deepEqual(decodeTags(encodeTags([tags[1]!, tags[0]!])), tags);
  assert.throws(() => decodeTags(encodeTags(tags).subarray(0, 7)), /cut off/);
});

test('tagsProblem() names the tag that is refused', () => {
  const tags = [{ name: '__name__', value: 'up' }];
  assert.equal(tagsProblem(tags), null);
  assert.match(tagsProblem([]) ?? '', /at least one/);
  assert.match(tagsProblem([{ name: '9a', value: 'x' }]) ?? '', /"9a"/);
  assert.match(tagsProblem([{ name: '__address__', value: 'x' }]) ?? '', /reserved.*__address__/);
  assert.match(tagsProblem([{ name: 'a', value: '' }]) ?? '', /empty: a/);
  assert.match(tagsProblem([tags[0]!, tags[0]!]) ?? '', /twice/);
});

test('tagsProblem() takes any text as a name under utf8, but no reserved one', () => {
  const utf8 = { nameValidation: 'utf8', allowed: new Set(['__type__']) } as const;
  for (const name of [
    'http.status',
    'mit Leerzeichen',
    '9a',
    'größe',
    '😀',
    '__type__',
    '__name__',
  ]) {
    assert.equal(tagsProblem([{ name, value: 'x' }], utf8), null, name);
  }
  assert.match(tagsProblem([{ name: '__address__', value: 'x' }], utf8) ?? '', /reserved/);
  assert.match(tagsProblem([{ name: '', value: 'x' }], utf8) ?? '', /name is empty/);
  assert.match(tagsProblem([{ name: '\ud800', value: 'x' }], utf8) ?? '', /not UTF-8/);
  assert.match(tagsProblem([{ name: 'ä'.repeat(40_000), value: 'x' }], utf8) ?? '', /longer than/);
});
