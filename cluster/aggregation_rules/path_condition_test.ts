import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pathCondition, unfulfilled } from './path_condition.ts';
import { pathPatterns } from './path_patterns.ts';

const condition = (kind: 'pattern' | 'contains', text: string) =>
  pathCondition({ kind, text, order: 0, continues: false }, 'path');

test('a pattern is looked for anywhere in a path, and a text is in it', () => {
  const matches = (pattern: string, path: string) => condition('pattern', pattern).matches(path);
  assert.ok(matches('web\\d', 'servers.web1.cpu'));
  assert.ok(!matches('^web', 'servers.web1.cpu'));
  assert.ok(matches('(?i)CPU$', 'servers.web1.cpu'));
  assert.ok(condition('contains', 'b1.c').matches('servers.web1.cpu'));
  assert.ok(!condition('contains', 'web.').matches('servers.web1.cpu'));
  assert.ok(!matches('a', 'a'.repeat(1_025)), 'too long to be tried on each rule');
});

test('tags of paths tell what cannot match', () => {
  const implied = (pattern: string) =>
    condition('pattern', pattern).implied.map(({ name, pattern: { values, prefix } }) =>
      values === null ? `${name}^${prefix}` : `${name}=${values.join()}`,
    );
  assert.deepEqual(implied('^servers\\.web[0-9]+\\.(cpu|mem)$'), ['__g0__=servers', '__g1__^web']);
  assert.deepEqual(implied('^servers\\.(a|b)'), ['__g0__=servers', '__g1__^']);
  assert.deepEqual(implied('^servers\\.we?'), ['__g0__=servers', '__g1__^w']);
  for (const pattern of [
    '^a|b',
    'servers',
    '^(?i)a',
    '^[ab]',
    '^a*',
    '^\\Qa',
    '^é?',
    '^[[:alpha:](]|a',
  ])
    assert.deepEqual(implied(pattern), ['__g0__^'], pattern);
});

test('what cannot be matched, or in no bounded time, is refused with field and pattern', () => {
  for (const [text, reason] of [
    ['', /^path: it is empty/],
    ['a(?=b)', /^path: error parsing regexp: .*`a\(\?=b\)`/],
    ['(a', /^path: error parsing regexp: .*`\(a`/],
    ['x'.repeat(5_000), /^path: longer than 4096 characters/],
    ['(abcdefghij){400}', /^path: cannot (compile|match) regexp: takes too long/],
  ] as const) {
    assert.throws(() => condition('pattern', text).check(), {
      code: 'BAD_REQUEST',
      message: reason,
    });
  }
});

test('a pattern is compiled when it is needed, once for all rules of its text', () => {
  const text = '^needed\\.once$';
  const before = pathPatterns.compiledCount;
  const [one, other] = [condition('pattern', text), condition('pattern', text)];
  // An escaped dot is one.
  assert.equal(one.programSize, text.length - 1);
  assert.equal(pathPatterns.compiledCount, before);
  assert.equal(one.check(), true);
  assert.ok(!pathPatterns.has(text), 'who checks keeps nothing');
  assert.equal(one.prepare(), true);
  assert.equal(other.prepare(), false);
  assert.equal(other.check(), false);
  assert.ok(one.matches('needed.once') && other.matches('needed.once'));
  assert.equal(pathPatterns.compiledCount, before + 2);
  assert.equal(condition('contains', 'needed').check(), false);
});

test('one that there is no room for is kept as it is written, and fulfilled by none', () => {
  const written = condition('pattern', 'a{10}b');
  assert.ok(written.matches('aaaaaaaaaab'));
  const refused = unfulfilled(written);
  assert.ok(!refused.matches('aaaaaaaaaab') && !refused.check() && !refused.prepare());
  assert.deepEqual([refused.text, refused.programSize], ['a{10}b', written.programSize]);
});
