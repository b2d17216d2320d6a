import assert from 'node:assert/strict';
import { test } from 'node:test';
import { jsonDepthMax, parseJson, readJson } from './text.ts';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const parse = (text: string): unknown => parseJson(bytes(text));

test('parseJson() gives what JSON.parse gives', () => {
  for (const text of [
    'null',
    '"a\\"b: [{"',
    '[]',
    '{"a":{"b":[1,{"c":"x:y"}]},"b":"\\\\"}',
    '{"__proto__":{"x":1},"constructor":2}',
    '[{"a":1},{"a":1}]',
    '{"0":1,"1":2,"a":{"0":1}}',
  ]) {
    assert.deepEqual(parse(text), JSON.parse(text), text);
  }
});

test('parseJson() says at once that a text is nested too deep', () => {
  const deep = (count: number) => '['.repeat(count) + ']'.repeat(count);
  assert.doesNotThrow(() => parse(deep(jsonDepthMax)));
  const started = performance.now();
  for (const text of [
    deep(8_000_000),
    '['.repeat(8_000_000),
    `{"tags":{"a":"b"},"value":${deep(1_000_000)}}`,
    '{"a":'.repeat(1_000_000),
  ]) {
    assert.throws(() => parse(text), {
      code: 'BAD_REQUEST',
      message: /^the request body is nested more than 256 deep: at byte \d+$/,
    });
  }
  assert.ok(performance.now() - started < 3_000, 'texts of 8 million brackets took half a minute');
  // Brackets of strings do not count.
  assert.equal(parse(`"${'['.repeat(1000)}"`), '['.repeat(1000));
});

test('parseJson() names a key that stands twice, whatever its escapes', () => {
  const refused = (text: string, key: string) =>
    assert.throws(() => parse(text), {
      code: 'BAD_REQUEST',
      message: `key is given twice: ${JSON.stringify(key)}`,
    });
  refused('{"value":1,"value":2}', 'value');
  refused('{"a":1,"\\u0061":2}', 'a');
  refused('{"x":[{"b":{"c":1,"d":{},"c":1}}]}', 'c');
  refused('{"__proto__":1,"__proto__":1}', '__proto__');
  refused(`{"${'k'.repeat(500)}":1,"${'k'.repeat(500)}":1}`, `${'k'.repeat(100)}…`);
});

test('readJson() tells which elements of a list have a key twice', () => {
  const { value, twice } = readJson(
    bytes('[{"a":1},{"a":1,"a":2,"b":1,"b":1},[{"a":1}],{"t":{"x":"1,2","x":"2"}},5]'),
  );
  assert.equal((value as unknown[]).length, 5);
  assert.deepEqual(
    [...twice],
    [
      [1, 'a'],
      [3, 'x'],
    ],
  );
});

test('what is no JSON, or not UTF-8, is refused with a short text', () => {
  for (const body of [
    bytes('{'),
    bytes('"abc'),
    bytes('"\\'),
    bytes(`{"a":${'x'.repeat(100_000)}}`),
    bytes(':'.repeat(1000)),
    bytes(']]]]'),
    Uint8Array.of(0x22, 0xff, 0x22),
    bytes(''),
  ]) {
    assert.throws(
      () => parseJson(body),
      (error: Error) =>
        error.message.startsWith('the request body is not JSON: ') && error.message.length < 300,
    );
  }
});

test('a reviver sees numbers as they were written', () => {
  const reviver = (_key: string, value: unknown, { source }: { source?: string }) =>
    typeof value === 'number' ? source : value;
  assert.deepEqual(parseJson(bytes('{"a":9007199254740993}'), { reviver }), {
    a: '9007199254740993',
  });
});
