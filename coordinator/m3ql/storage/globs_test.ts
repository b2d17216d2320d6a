import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileAnchored } from '#lib/regexp/regexp.ts';
import { parseGlob } from './globs.ts';

test('parseGlob() tells texts and what is anything from the rest', () => {
  assert.deepEqual(parseGlob('web1.cpu-x/y'), { kind: 'text', text: 'web1.cpu-x/y' });
  assert.deepEqual(parseGlob('^a$'), { kind: 'text', text: '^a$' });
  assert.deepEqual(parseGlob(''), { kind: 'text', text: '' });
  assert.deepEqual(parseGlob('**'), { kind: 'any' });
});

test('a glob takes whole values', () => {
  const cases: readonly (readonly [string, readonly string[], readonly string[]])[] = [
    ['web*', ['web', 'web1', 'web.a'], ['xweb', 'we']],
    ['w?b', ['web', 'w.b'], ['wb', 'weeb']],
    ['[a-c]1', ['a1', 'c1'], ['d1', 'a', '-1']],
    ['[^a-c]1', ['d1'], ['a1', '1']],
    ['[!ab]', ['c', '!'], ['a', 'b']],
    ['[]a]', [']', 'a'], ['b']],
    ['[a^]', ['a', '^'], ['b']],
    ['{a,b*,{c,d}e}', ['a', 'b1', 'ce', 'de'], ['c', 'e', 'a,b']],
    ['a.b{1}', ['a.b1'], ['axb1']],
    ['\\*\\{\\\\', ['*{\\'], ['a{\\']],
    ['a\\b*', ['a\\b1'], ['ab1']],
    ['x(y)|z+*', ['x(y)|z+1'], ['xy', 'z']],
  ];
  for (const [text, taken, others] of cases) {
    const glob = parseGlob(text);
    assert.equal(glob.kind, 'regexp', text);
    const regexp = compileAnchored(glob.kind === 'regexp' ? glob.regexp : '');
    for (const value of taken) assert.ok(regexp.test(value), `${text} takes ${value}`);
    for (const value of others) assert.ok(!regexp.test(value), `${text} does not take ${value}`);
  }
});

test('what is no glob says why', () => {
  const cases: readonly (readonly [string, string])[] = [
    ['a[b', 'has a "[" without a "]"'],
    ['a[]', 'has a "[" without a "]"'],
    ['{a', 'has a "{" without a "}"'],
    ['a}{', 'has a "}" without a "{"'],
    ['a,b', 'has a "," outside of braces'],
    ['[z-a]', 'has a range that goes backwards, "z-a"'],
    ['{'.repeat(21), 'has more than 20 "{" inside of each other'],
    [`${'a'.repeat(8_192)}*`, 'is longer than 8192 characters'],
  ];
  for (const [text, reason] of cases) assert.deepEqual(parseGlob(text), { kind: 'wrong', reason });
});
