import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parsePattern, patternCharactersMax } from './pattern.ts';

function check(pattern: string, matched: readonly string[], others: readonly string[]): void {
  const parsed = parsePattern(pattern, 'filter');
  for (const value of matched)
    assert.equal(parsed.matches(value), true, `${pattern} on "${value}"`);
  for (const value of others)
    assert.equal(parsed.matches(value), false, `${pattern} on "${value}"`);
}

test('patterns are plain text, or text with something left open', () => {
  check('foo', ['foo'], ['', 'fo', 'fooo', 'Foo']);
  check('*', ['', 'foo'], []);
  check('foo*', ['foo', 'foobar'], ['fo', 'afoo']);
  check('*foo', ['foo', 'barfoo'], ['foob']);
  check('*foo*', ['foo', 'a foo b'], ['fo']);
  check('foo*bar', ['foobar', 'foo-bar'], ['foo', 'bar', 'foobarz']);
  check('f?o', ['foo', 'f😀o'], ['fo', 'fooo']);
});

test('patterns name characters and texts to choose from', () => {
  check('[abc]1', ['a1', 'c1'], ['d1', '1', 'ab1']);
  check('[a-cx-z]', ['b', 'z'], ['d', 'B']);
  check('[!a-c]x', ['dx', '-x'], ['ax', 'x']);
});

test('a pattern that begins with "!" matches what the rest does not', () => {
  check('!foo*', ['', 'bar'], ['foo', 'foobar']);
  check('foo!', ['foo!'], ['foo']);
});

test('of texts to choose from any may be the one', () => {
  check('{ab,abc}d', ['abd', 'abcd'], ['d', 'abcc']);
  check('*.{jpg,png}', ['a.jpg', '.png'], ['a.gif', 'png']);
  check('{a,b}{1,2}*z', ['a1z', 'b2--z'], ['a3z', 'a1']);
  check('{,a}b', ['b', 'ab'], ['a']);
});

test('an end does not reach into the beginning', () => {
  check('aba*bab', ['ababab', 'abaXbab'], ['abab', 'ababa']);
  check('a?*?b', ['axyb'], ['axb', 'ab']);
});

test('patterns that mean nothing are refused with field, reason and value', () => {
  const refusals: readonly (readonly [string, RegExp])[] = [
    ['!', /^filter: "!" without a pattern/],
    ['**', /more than one "\*"/],
    ['a*b*c', /more than one "\*".*: a\*b\*c$/],
    ['*a*b', /more than one "\*"/],
    ['*a[b]*', /between two "\*"/],
    ['a[bc', /"\[" without "\]"/],
    ['ab]c[d', /"\[" without "\]"/],
    ['a{b', /"\{" without "\}"/],
    ['a{b*}', /"\{" without "\}"/],
    ['[]', /empty "\[\]"/],
    ['{}', /empty "\{\}"/],
    ['[z-a]', /bad range in "\[z-a\]"/],
    ['[a-c-]', /bad range/],
    ['a'.repeat(patternCharactersMax + 1), /longer than 4096/],
  ];
  for (const [pattern, reason] of refusals) {
    assert.throws(() => parsePattern(pattern, 'filter'), { code: 'BAD_REQUEST', message: reason });
  }
});

test('what an index can look up is known of a pattern', () => {
  const known = (pattern: string): unknown => {
    const { values, prefix } = parsePattern(pattern, 'filter');
    return { values, prefix };
  };
  assert.deepEqual(known('foo'), { values: ['foo'], prefix: 'foo' });
  assert.deepEqual(known('a{b,c}'), { values: ['ab', 'ac'], prefix: 'a' });
  assert.deepEqual(known('foo*'), { values: null, prefix: 'foo' });
  assert.deepEqual(known('foo?'), { values: null, prefix: 'foo' });
  assert.deepEqual(known('!foo'), { values: null, prefix: '' });
  assert.deepEqual(known('*foo'), { values: null, prefix: '' });
});
