import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { parsePattern, patternCharactersMax, patternStepsMax } from './pattern.ts';

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

test('an expression that is light takes all that a pattern matches', () => {
  const wider = (pattern: string): string | null => parsePattern(pattern, 'filter').widerRegexp;
  assert.equal(wider('a.b'), 'a\\.b');
  assert.equal(wider('http_*'), 'http_.*');
  assert.equal(wider('*_total'), '.*_total');
  assert.equal(wider('http_*_total'), 'http_.*_total');
  assert.equal(wider('*a+b*'), '.*a\\+b.*');
  assert.equal(wider(`*${'😀'.repeat(40)}*`), `.*${'😀'.repeat(32)}.*`);
  assert.equal(wider('a[bc]?*{d,e}f'), 'a.*f');
  assert.equal(wider('a[bc]d'), 'a.*d');
  assert.equal(wider('*'), null);
  assert.equal(wider('[ab]*{c,d}'), null);
  assert.equal(wider('!a*'), null);
});

/** Calls of what looks at a place of a text, while something is done. */
function countLooks(action: () => void): number {
  const mocked = (['codePointAt', 'startsWith'] as const).map((name) =>
    mock.method(String.prototype, name),
  );
  try {
    action();
    return mocked.reduce((sum, each) => sum + each.mock.callCount(), 0);
  } finally {
    for (const each of mocked) each.mock.restore();
  }
}

test('a long value is not looked at from each of its characters', () => {
  const value = 'ab'.repeat(1_000);
  const pattern = parsePattern(`*${'?'.repeat(500)}[c]`, '');
  const looks = countLooks(() => assert.equal(pattern.matches(value), false));
  assert.ok(looks < 10, String(looks));
  const matching = parsePattern(`*${'?'.repeat(500)}[ab]`, '');
  const all = countLooks(() => assert.equal(matching.matches(value), true));
  assert.ok(all < 2_000, String(all));
});

test('what is behind a "*" begins at any place, also within a character', () => {
  check('*?', ['a', '😀'], ['']);
  check('*??', ['ab', 'a😀', '😀😀'], ['', 'a', '😀']);
  check('*[!😀]', ['a', 'a😀'], ['']);
  check('a?*?{b,😀}', ['axyb', 'ax😀😀'], ['axb', 'ax😀']);
  check('{a,aa}*{aa,a}b', ['aaab', 'aab'], ['ab', 'aaa']);
});

test('a long text is found in a long value with one look at each character', () => {
  const long = (text: string): string => text.repeat(Math.ceil(4_000 / text.length));
  for (const inside of [`b${long('a')}`, long('ab'), `${long('a')}b`, `${long('aab')}c`]) {
    const pattern = parsePattern(`*${inside}*`, '');
    const filler = 'a'.repeat(30_000) + 'ab'.repeat(10_000) + 'aab'.repeat(5_000);
    for (const value of [filler, filler + inside, `${inside}${filler}`, `${filler}${inside}b`]) {
      assert.equal(pattern.matches(value), value.includes(inside), inside.slice(-3));
    }
  }
});

test('what a match may take is known of a pattern', () => {
  const stepsOf = (pattern: string): number => parsePattern(pattern, '').steps;
  for (const pattern of ['a', 'a*', '*a', '*a*', 'a*b', '*', '!a', '{a}']) {
    assert.equal(stepsOf(pattern), 1, pattern);
  }
  assert.equal(stepsOf('?'.repeat(4_000)), 4_000);
  assert.equal(stepsOf('[a-cx-z]?'), 3);
  assert.equal(stepsOf('{a,b,c}*{d,e}'), 5);
  // Each of them can begin at one place more than the one before.
  assert.equal(stepsOf('{,a}'.repeat(3) + '?'), 2 + 4 + 6 + 4);
  assert.ok(stepsOf('{,a}'.repeat(1_000)) > patternStepsMax);
  const names = Array.from({ length: 400 }, (_, i) => `app${i}`);
  assert.equal(stepsOf(`{${names.join()}}-?`), 400 + 3 * 2);
});

test('many places at which texts to choose from begin are each looked at once', () => {
  const pattern = parsePattern(`${'{,a}'.repeat(200)}b`, '');
  const looks = countLooks(() => assert.equal(pattern.matches('a'.repeat(300)), false));
  assert.ok(looks <= pattern.steps + 10, `${looks} of ${pattern.steps}`);
});
