import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TsdbError } from '#lib/errors.ts';
import { compileAnchored } from '#lib/regexp/regexp.ts';
import { parsePathPattern, pathMatchers, pathTest } from './path_pattern.ts';

/** Whether the matchers of a pattern, and its test, take a path. */
function takes(pattern: string, path: string): boolean {
  const parsed = parsePathPattern(pattern);
  const nodes = path.split('.');
  const isFound = pathMatchers(parsed).every(({ name, kind, value }) => {
    const node = nodes[Number(/\d+/.exec(name)![0])] ?? '';
    const isEqual = kind.endsWith('~') ? compileAnchored(value).test(node) : node === value;
    return kind.startsWith('!') ? !isEqual : isEqual;
  });
  return isFound && (pathTest(parsed)?.takes(path) ?? true);
}

test('a pattern takes paths of as many nodes', () => {
  const taken: [pattern: string, paths: string[]][] = [
    ['a.b', ['a.b']],
    ['a.*', ['a.b', 'a.*', 'a.b-c']],
    ['*', ['a']],
    ['web?.cpu', ['web1.cpu', 'weba.cpu']],
    ['web[1-3].cpu', ['web1.cpu', 'web3.cpu']],
    ['web[!1-3].cpu', ['web4.cpu', 'webx.cpu']],
    ['{web,db}*.cpu', ['web.cpu', 'db12.cpu']],
    ['a{b,c{d,e}}f', ['abf', 'acdf', 'acef']],
    ['a+(b)|c$.^d', ['a+(b)|c$.^d']],
    ['a.**', ['a.b', 'a.b.c', 'a.b.c.d']],
    ['**.c', ['a.c', 'a.b.c', 'a.b.d.c']],
    ['a**c', ['abc', 'a.b.c', 'ac']],
    ['a.b**.*', ['a.b.c', 'a.bx.y.z']],
  ];
  const all = [...new Set(taken.flatMap(([, paths]) => paths))];
  for (const [pattern, paths] of taken) {
    for (const path of paths) assert.ok(takes(pattern, path), `${pattern} takes ${path}`);
    const [first] = paths;
    assert.ok(!takes(pattern, `z${first}`) || pattern.startsWith('*'), pattern);
    if (!pattern.includes('**')) assert.ok(!takes(pattern, `${first}.more`), pattern);
  }
  assert.deepEqual(
    all.filter((path) => takes('a.**', path)),
    all.filter((path) => path.startsWith('a.')),
  );
});

test('a node is never nothing', () => {
  for (const pattern of ['foo.{bar,}', 'foo.{,b*}', 'foo.*{,x}']) {
    assert.ok(takes(pattern, 'foo.bar'), pattern);
    assert.ok(!takes(pattern, 'foo'), pattern);
  }
});

test('what is no pattern is refused with its reason', () => {
  for (const [pattern, reason] of [
    ['a{b', /unbalanced "\{"/],
    ['a}b', /unbalanced "\}"/],
    ['a[b', /unbalanced "\["/],
    ['a,b', /"," outside of braces/],
    ['x'.repeat(9000), /longer than 8192 characters/],
  ] as const) {
    assert.throws(
      () => parsePathPattern(pattern),
      (error) => error instanceof TsdbError && reason.test(error.message),
      pattern,
    );
  }
});

test('tests that would hold up others are refused, whatever stands before them', () => {
  const testOf = (pattern: string) => pathTest(parsePathPattern(pattern))!;
  const hosts = `{${Array.from({ length: 300 }, (_, k) => `host${k}`).join()}}`;
  // Nodes before the first `**` are the index's alone.
  assert.ok(testOf(`servers.${hosts}.**`).units(500) < 100_000);
  assert.ok(testOf(`servers.${hosts}.**.cpu`).takes('servers.host7.a.b.cpu'));
  assert.ok(testOf('servers.**.cpu.*').units(200) > 0);
  assert.throws(
    () => testOf(`**a${'?'.repeat(500)}`).units(10_000),
    /cannot match regexp: takes too long for a text of 10000 characters: \.\*a\[\^\.\]/,
  );
  assert.throws(
    () => testOf(`**a${'?'.repeat(8_000)}`),
    /cannot compile regexp: takes too long: \.\*a\[\^\.\]/,
  );
});
