import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TsdbError } from '../errors.ts';
import { programSizeOf } from './engine_units.ts';
import { compileAnchored, RegexpCompiler, regexpLengthMax, SearchRegexp } from './regexp.ts';
import { fuzz, fuzzLists } from './regexp_fuzz.ts';

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
  assert.deepEqual([...compileAnchored('foo|bar|foo').set!], ['foo', 'bar']);
  assert.deepEqual([...compileAnchored('a(b|c)d(e|)').set!], ['abde', 'abd', 'acde', 'acd']);
  assert.deepEqual([...compileAnchored('10\\.0\\.0\\.1:9100').set!], ['10.0.0.1:9100']);
  assert.deepEqual([...compileAnchored('').set!], ['']);
  assert.equal(compileAnchored('a.*').set, null);
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

test('lists of literals are as long as a pattern may be, and are compiled in parts', () => {
  const hosts = Array.from({ length: 40_000 }, (_, i) => `host-${i}.example.com`);
  for (const [begin, end] of [
    ['', ''],
    ['^(', ')$'],
    ['(?:', ')'],
  ] as const) {
    const list = hosts.map((host) => host.replaceAll('.', '\\.')).join('|');
    const compiler = new RegexpCompiler(`${begin}${list}${end}`);
    let parts = 1;
    for (; compiler.read() !== null; parts++) continue;
    assert.ok(parts > 50, `${parts}`);
    assert.equal(compiler.engineUnits, 0);
    const regexp = compiler.finish();
    assert.deepEqual([...regexp.set!], hosts);
    assert.ok(regexp.test('host-39999.example.com') && !regexp.test('host-1xexample.com'));
    assert.equal(regexp.matchesEmpty, false);
  }
  assert.deepEqual([...compileAnchored('(a)|(b|)').set!], ['a', 'b', '']);
  assert.deepEqual([...compileAnchored('(a|b)|^c$|d$').set!], ['a', 'b', 'c', 'd']);
  assert.deepEqual([...compileAnchored('(?:)').set!], ['']);
});

test('many globs are compared by what they begin with', () => {
  const globs = Array.from({ length: 5_000 }, (_, i) => `host-${i}.*`);
  const regexp = compileAnchored(`${globs.join('|')}|plain|.+-db`);
  assert.ok(regexp.units(20) < 1_000, `${regexp.units(20)}`);
  for (const text of ['host-4999', 'host-12-x', 'plain', 'a-db', 'host-4999é']) {
    assert.ok(regexp.test(text), text);
    const bytes = Buffer.from(`-${text}-`);
    assert.ok(regexp.testBytes(bytes, 1, bytes.length - 1), text);
  }
  for (const text of ['host-', 'host', '', 'plainer', '-db', 'xhost-1']) {
    assert.ok(!regexp.test(text), text);
  }
});

test('groups and gaps do not multiply without an end', () => {
  // 2 ** 13 alternatives three hundred times: formerly all of them were made.
  const groups = compileAnchored(Array.from({ length: 300 }, () => '(a|b)'.repeat(13)).join('|'));
  assert.equal(groups.set, null);
  assert.ok(groups.test('ab'.repeat(6) + 'a') && !groups.test('ab'));
  // Formerly all gaps before it were copied for each one.
  const gaps = compileAnchored('.*x'.repeat(40_000));
  assert.ok(gaps.test('yx'.repeat(40_000)) && !gaps.test('yx'.repeat(39_999)));
});

test('patterns that take long to compile are told by their text', () => {
  const isDear = (pattern: string): boolean => {
    const compiler = new RegexpCompiler(pattern);
    while (compiler.read() !== null) continue;
    return compiler.isDear;
  };
  const dear = [
    '[^\\p{L}]'.repeat(5_000),
    '(?i)\\p{L}'.repeat(2_000),
    '(?i)[b-\\x{1e942}]',
    '(a|b|c|d)'.repeat(3_000),
    '([a-z]{1000}x){40}',
    '(((a{10}b?){10}c){10}){20}',
    '\\Q(\\E(a{50}b?){100}',
    Array.from({ length: 15_000 }, (_, i) => `a${i}.*b[0-9]`).join('|'),
  ];
  for (const pattern of dear) assert.ok(isDear(pattern), pattern.slice(0, 40));
  assert.match(badPattern('(?i)[b-\\x{1e942}]'.repeat(10_000)), /takes too long/);
  const usual = [
    'host-[0-9]+\\.(eu|us)-(north|south)-[0-9]',
    '(?i)(api|web).*[^a-z0-9]?',
    '\\d{1,3}(\\.\\d{1,3}){3}:\\d+',
    '\\p{Lu}.+',
    '[[:alpha:]_]{1,100}',
    Array.from({ length: 100 }, (_, i) => `pod-${i}-[a-z0-9]+`).join('|'),
  ];
  for (const pattern of usual) assert.ok(!isDear(pattern), pattern.slice(0, 40));
});

test('replace() needs no engine for lists without groups, and makes no endless texts', () => {
  const hosts = Array.from({ length: 50_000 }, (_, i) => `host-${i}`).join('|');
  assert.equal(compileAnchored(hosts).replace('host-7', '<$0>$1'), '<host-7>');
  assert.equal(compileAnchored(hosts).replace('host', '<$0>$1'), null);
  const long = 'x'.repeat(60_000);
  assert.throws(() => compileAnchored('(x+)').replace(long, '$1'.repeat(500_000)), {
    code: 'BAD_REQUEST',
    message: /longer than 65535 characters/,
  });
});

test('compileAnchored() agrees with V8 on patterns that both read the same', () => {
  for (let seed = 1; seed <= 20; seed++) {
    fuzz(seed, 40);
    fuzzLists(seed, 1);
  }
});

test('SearchRegexp finds and replaces parts of a text, and refuses what takes long', () => {
  const regexp = new SearchRegexp('(?P<first>\\w)(\\d+)?');
  assert.ok(regexp.test('- a12'));
  assert.ok(!regexp.test('--'));
  const replaced = regexp.replaceAll('a12-b', (group) => {
    assert.equal(group(3), null);
    assert.equal(group('second'), null);
    return `<${group('first')}${group(2)}>`;
  });
  assert.equal(replaced, '<a12>-<b>');
  assert.equal(
    new SearchRegexp('^a').replaceAll('aaa', () => 'b'),
    'baa',
  );
  assert.equal(
    new SearchRegexp('').replaceAll('ab', () => '.'),
    '.a.b.',
  );
  const isRefused = (read: () => unknown, message: RegExp) =>
    assert.throws(read, (error) => error instanceof TsdbError && message.test(error.message));
  isRefused(() => new SearchRegexp('('), /error parsing regexp/);
  isRefused(
    () => new SearchRegexp('(a{1000}){1000}'),
    /cannot compile|error parsing|takes too long/,
  );
  isRefused(() => regexp.unitsMax(1_000_000), /takes too long for a text of 1000000 characters/);
  const long = new SearchRegexp('a');
  isRefused(() => long.replaceAll('a'.repeat(1000), () => 'b'.repeat(1000)), /becomes longer than/);
});

test('the size of a program is told by the text of a pattern', () => {
  for (const pattern of [
    '^servers\\.web[0-9]+\\.(cpu|mem)$',
    'a{1000}b',
    '(a|b[c-e]+){20}.*d{3,5}',
    '(x{0,30}){20}',
  ]) {
    const real = compileAnchored(pattern).programSize;
    const told = programSizeOf(pattern, 1_000_000);
    assert.ok(told > 0.4 * real && told < 3 * real, `${pattern}: ${told} of ${real}`);
  }
  assert.ok(programSizeOf('((a{1000}){1000}){1000}', 5_000) >= 5_000);
});
