import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TsdbError } from '#lib/errors.ts';
import { parseTarget, targetDepthMax, targetLengthMax } from './parser.ts';
import type { Node } from './tree.ts';

/** As a target would be written without spaces, pipes and escapes. */
function textOf(node: Node): string {
  switch (node.kind) {
    case 'path':
      return node.path;
    case 'call': {
      const named = node.named.map(({ name, value }) => `${name}=${textOf(value)}`);
      return `${node.name}(${[...node.positional.map(textOf), ...named].join(',')})`;
    }
    case 'number':
      return `${node.value}${node.isInteger ? '' : 'f'}`;
    case 'string':
      return JSON.stringify(node.value);
    case 'boolean':
      return `${node.value}`;
    case 'select':
      return node.text;
    case 'none':
      return 'None';
    default:
      return node satisfies never;
  }
}

test('parseTarget() reads paths, calls, literals, names of arguments and pipes', () => {
  const cases: readonly (readonly [string, string])[] = [
    ['a.b.c', 'a.b.c'],
    [' a.{b,c*}.[0-9]?.d-e:f ', 'a.{b,c*}.[0-9]?.d-e:f'],
    ['disk.used;rack=a1', 'disk.used;rack=a1'],
    ['a\\(b\\).c', 'a(b).c'],
    ['f()', 'f()'],
    [
      'f( a.b , 1, -2.5, 1e3, "x", \'y"z\', true, None, inf )',
      'f(a.b,1,-2.5f,1000f,"x","y\\"z",true,None,Infinityf)',
    ],
    ['f(12.5.a, true.b, infra.c, none)', 'f(12.5.a,true.b,infra.c,None)'],
    ['f(a.b, limit=3, name="n")', 'f(a.b,limit=3,name="n")'],
    ['a.b | f() | g("x") | h(1)', 'h(g(f(a.b),"x"),1)'],
    ['f(a | g(2), b)', 'f(g(a,2),b)'],
    ['f(a,"it\\"s")', 'f(a,"it\\"s")'],
    ['template(f(a.$1.$x, $y), "b", x="{c,d}", y=3)', 'f(a.b.{c,d},3)'],
  ];
  for (const [text, parsed] of cases) assert.equal(textOf(parseTarget(text)), parsed, text);
});

test('parseTarget() takes values for templates from the request first', () => {
  const variables = new Map([['host', 'web02']]);
  const node = parseTarget('template(servers.$host.cpu, host="web01")', variables);
  assert.equal(textOf(node), 'servers.web02.cpu');
});

test('parseTarget() says what it expected, and where', () => {
  const cases: readonly (readonly [string, RegExp])[] = [
    ['', /expected a path or a function, not the end at position 1/],
    ['f(a', /expected "," or "\)" in f\(…\), not the end at position 4/],
    ['f(a,)', /expected a path or a function, not "\)" at position 5/],
    ['f(a))', /expected the end, not "\)" at position 5/],
    ['a.b |', /expected a function behind "\|", not the end at position 6/],
    ['a.b | c', /expected a function behind "\|", not "c" at position 7/],
    ['a.{b,c', /a brace has no end at position 1/],
    ['f("a', /a string has no end at position 3/],
    ['"a"', /expected a path or a function, not "\\"" at position 1/],
    ['f(a, x=1, 2)', /an argument of f without a name is behind one with at position 11/],
    [
      'template(a.$1, b.c)',
      /an argument of template is neither a string nor a number at position 16/,
    ],
  ];
  for (const [text, message] of cases) {
    assert.throws(
      () => parseTarget(text),
      (error) =>
        error instanceof TsdbError && error.code === 'BAD_REQUEST' && message.test(error.message),
      text,
    );
  }
});

test('parseTarget() bounds length, depth and what templates become', () => {
  const nested = (depth: number) => `${'f('.repeat(depth)}a${')'.repeat(depth)}`;
  assert.doesNotThrow(() => parseTarget(nested(targetDepthMax - 1)));
  assert.throws(() => parseTarget(nested(targetDepthMax)), /more than 100 functions/);
  assert.throws(() => parseTarget(`a${'|f()'.repeat(targetDepthMax)}`), /more than 100 functions/);
  assert.throws(() => parseTarget('a'.repeat(targetLengthMax + 1)), /longer than 65536 characters/);
  const values = `template(${'$x.'.repeat(10_000)}a, x="${'b'.repeat(1_000)}")`;
  assert.throws(() => parseTarget(values), /becomes longer than 65536 characters/);
});

test('parseTarget() bounds variables of templates, and what all templates of a target take', () => {
  const variables = (count: number) =>
    new Map(Array.from({ length: count }, (_, k) => [`x${k}`, 'y'] as const));
  const given = (count: number) =>
    Array.from({ length: count }, (_, k) => `, v${k}="w${k}"`).join('');
  assert.equal(textOf(parseTarget(`template(a.$v99${given(100)})`)), 'a.w99');
  assert.throws(
    () => parseTarget(`template(a.$v99${given(101)})`),
    /template has more than 100 variables at position \d+/,
  );
  const paths = (path: string, count: number) =>
    `group(${Array.from({ length: count }, () => path).join()})`;
  const around = (depth: number, body: string) =>
    `${'template('.repeat(depth)}${body}${')'.repeat(depth)}`;
  // Paths without a variable are not looked at for each of these.
  const plain = parseTarget(around(3, paths('a', 30_000)), variables(100));
  assert.equal(plain.kind === 'call' && plain.positional.length, 30_000);
  for (const [target, count] of [
    [around(20, paths('a', 30_000)), 0],
    [around(1, paths('$y', 20_000)), 100],
    [around(1, paths('$x1.a', 10_000)), 100],
  ] as const) {
    assert.throws(
      () => parseTarget(target, variables(count)),
      /template takes more than 2000000 steps, which are paths times variables/,
    );
  }
  const long = new Map([['x', 'y'.repeat(60_000)]]);
  assert.throws(
    () => parseTarget(around(1, paths('$x.$z', 9_000)), new Map([...long, ['z', '1']])),
    /template takes more than 2000000 steps/,
  );
});

test('templates put in one variable after the other, as Graphite does', () => {
  const text = 'template(a.$1.$10.$b, "$b", "2", "3", "4", "5", "6", "7", "8", "9", "ten", b="c")';
  assert.equal(textOf(parseTarget(text)), 'a.c.c0.c');
});
