import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TsdbError } from '../errors.ts';
import { compileAnchored, regexpLengthMax } from './regexp.ts';
import { fuzz } from './regexp_fuzz.ts';

function badPattern(pattern: string): string {
  try {
    compileAnchored(pattern);
  } catch (error) {
    assert.ok(error instanceof TsdbError && error.code === 'BAD_REQUEST');
    return error.message;
  }
  return assert.fail(`no error for ${pattern}`);
}

test('compileAnchored() matches whole texts only', () => {
  for (const pattern of ['foo', 'fo+', 'f(o|0)o', '^foo$', 'foo|zap', 'fo[o]']) {
    const regexp = compileAnchored(pattern);
    assert.ok(regexp.test('foo'), pattern);
    assert.ok(!regexp.test('xfoo'), pattern);
    assert.ok(!regexp.test('foox'), pattern);
    assert.ok(!regexp.test(''), pattern);
  }
  assert.ok(compileAnchored('a|ab').test('ab'));
  assert.ok(!compileAnchored('a|bc').test('ac'), 'the anchors hold for each alternative');
});

test('compileAnchored() takes escaped punctuation as it is, and the braces that RE2 takes', () => {
  assert.ok(compileAnchored('a\\_b\\-c\\@').test('a_b-c@'));
  assert.ok(compileAnchored('a{b}').test('a{b}'));
  assert.ok(compileAnchored('a]}').test('a]}'));
  assert.ok(compileAnchored('\\Qa.b\\E').test('a.b'));
});

test('compileAnchored() lets the dot match line ends', () => {
  assert.ok(compileAnchored('a.*b').test('a\n\nb'));
  assert.ok(compileAnchored('a.b').test('a\nb'));
});

test('compileAnchored() counts a character beyond the basic plane as one', () => {
  assert.ok(compileAnchored('.').test('😀'));
  assert.ok(compileAnchored('.+x').test('😀x'));
  assert.ok(!compileAnchored('.+.+').test('😀'));
});

test('compileAnchored() names reason, place and pattern of a mistake', () => {
  assert.match(badPattern('a(b'), /missing closing \).*`a\(b`/);
  assert.match(
    badPattern('ab[z-a]'),
    /invalid character class range at position 3 \(`z-a`\): `ab\[z-a\]`/,
  );
  assert.match(badPattern('a**'), /invalid nested repetition operator at position 1/);
  assert.match(badPattern('x(?=a)'), /invalid or unsupported Perl syntax at position 1/);
  assert.match(badPattern('(a)\\1'), /invalid escape sequence at position 3/);
  assert.match(badPattern('a)'), /unexpected \)/);
  assert.match(badPattern('a\\'), /trailing backslash/);
});

test('compileAnchored() refuses patterns that are too long or compile too large', () => {
  assert.match(badPattern('a'.repeat(regexpLengthMax + 1)), /longer than/);
  assert.match(badPattern('(((([a-z]{10}){10}){10}){10})'), /repeat count|instructions/);
  assert.match(badPattern('([a-z]{1000}x){40}'), /repeat count|instructions/);
});

test('compileAnchored() is linear where backtracking would be exponential', () => {
  const text = `${'a'.repeat(20_000)}b`;
  assert.ok(!compileAnchored('(a+)+').test(text));
  assert.ok(!compileAnchored('(a|a)*(a|aa)*c').test(text));
});

test('a regexp tells the texts it can match', () => {
  assert.deepEqual(compileAnchored('foo|bar|foo').set, ['foo', 'bar']);
  assert.deepEqual(compileAnchored('a(b|c)d(e|)').set, ['abde', 'abd', 'acde', 'acd']);
  assert.deepEqual(compileAnchored('10\\.0\\.0\\.1:9100').set, ['10.0.0.1:9100']);
  assert.deepEqual(compileAnchored('').set, ['']);
  assert.equal(compileAnchored('a.*').set, null);
  assert.equal(compileAnchored('ab.*|ac').literalPrefix, 'a');
  assert.equal(compileAnchored('.*').matches, 'everything');
  assert.equal(compileAnchored('x|.*').matches, 'everything');
  assert.equal(compileAnchored('|.+').matches, 'everything');
  assert.equal(compileAnchored('(.+)').matches, 'notEmpty');
  assert.equal(compileAnchored('a.*').matches, 'some');
});

test('replace() expands templates as Go does', () => {
  const regexp = compileAnchored('(?P<host>[^:]+):(\\d+)(x)?');
  const expand = (template: string) => regexp.replace('node-1:9100', template);
  assert.equal(expand('$1'), 'node-1');
  assert.equal(expand('${host}/$2'), 'node-1/9100');
  assert.equal(expand('$host-$0'), 'node-1-node-1:9100');
  assert.equal(expand('$1x'), '', 'the name is the longest run of letters, digits and _');
  assert.equal(expand('${1}x'), 'node-1x');
  assert.equal(expand('$3|$4|$unknown|$01'), '|||');
  assert.equal(expand('$$1 $ ${ ${} $-'), '$1 $ ${ ${} $-');
  assert.equal(regexp.replace('node-1', '$1'), null);
});

test('replace() works for patterns that are matched without the engine', () => {
  assert.equal(compileAnchored('(foo|bar)').replace('bar', 'is-$1'), 'is-bar');
  assert.equal(compileAnchored('(.*)-(.*)').replace('a-b-c', '$2:$1'), 'c:a-b');
  assert.equal(compileAnchored('foo').replace('bar', 'x'), null);
  assert.equal(compileAnchored('(a|ab)(c|bcd)').replace('abcd', '$1,$2'), 'a,bcd');
});

test('compileAnchored() agrees with V8 on patterns that both read the same', () => {
  for (let seed = 1; seed <= 20; seed++) fuzz(seed, 40);
});
