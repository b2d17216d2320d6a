import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TsdbError } from '#lib/errors.ts';
import fc from '#test/property_testing.ts';
import { formatScript } from './format.ts';
import { garbage, generatedScript } from './generated_scripts_testing.ts';
import { parseScript, scriptDepthMax, scriptLengthMax } from './parser.ts';
import type { Argument, Expression, Macro, Script, Span, Value } from './tree.ts';

type Node = Script | Macro | Expression | Argument | Value;

function childrenOf(node: Node): readonly Node[] {
  switch (node.kind) {
    case 'script':
      return [...node.macros, node.pipeline];
    case 'macro':
      return [node.pipeline];
    case 'pipeline':
      return node.expressions;
    case 'call':
      return node.arguments;
    case 'argument':
      return [node.value];
    default:
      return [];
  }
}

function isBadRequest(error: unknown): error is TsdbError {
  return error instanceof TsdbError && error.code === 'BAD_REQUEST';
}

function messageOf(text: string): string {
  try {
    parseScript(text);
  } catch (error) {
    if (isBadRequest(error)) return error.message;
    throw error;
  }
  return '';
}

test('parseScript() says of every node where it stands', () => {
  const text = 'm = fetch name:foo ; # m\n (m | sum "a b" ) | asPercent by:( m ) -.5 # end\n';
  const slices: string[] = [];
  const walk = (node: Node): void => {
    slices.push(`${node.kind} ${text.slice(node.start, node.end)}`);
    childrenOf(node).forEach(walk);
  };
  walk(parseScript(text));
  assert.deepEqual(slices, [
    `script ${text.slice(0, text.indexOf(' # end'))}`,
    'macro m = fetch name:foo ;',
    'pipeline fetch name:foo',
    'call fetch name:foo',
    'argument name:foo',
    'pattern foo',
    'pipeline (m | sum "a b" ) | asPercent by:( m ) -.5',
    'pipeline (m | sum "a b" )',
    'call m',
    'call sum "a b"',
    'argument "a b"',
    'string "a b"',
    'call asPercent by:( m ) -.5',
    'argument by:( m )',
    'pipeline ( m )',
    'call m',
    'argument -.5',
    'number -.5',
  ]);
});

test('nodes stand inside of their parents, one behind the other, and are as they were written', () => {
  fc.assert(
    fc.property(generatedScript, (script) => {
      const text = formatScript(script);
      const walk = (node: Node, outer: Span): void => {
        assert.ok(
          outer.start <= node.start && node.start < node.end && node.end <= outer.end,
          text,
        );
        const slice = text.slice(node.start, node.end);
        if (node.kind === 'call' || node.kind === 'macro') assert.ok(slice.startsWith(node.name));
        else if (node.kind === 'string') assert.equal(slice, `"${node.text}"`);
        else if ('text' in node) assert.equal(slice, node.text);
        let { start } = node;
        for (const child of childrenOf(node)) {
          walk(child, { start, end: node.end });
          start = child.end;
        }
      };
      walk(parseScript(text), { start: 0, end: text.length });
    }),
  );
});

test('words are booleans in any case, numbers without an exponent, else patterns', () => {
  const words = 'true FALSE 0 -5 .5 -1.10 5. 1e3 - -- 1.2.3 -1d truethy true* nan';
  const [call] = parseScript(`f ${words}`).pipeline.expressions;
  assert.ok(call?.kind === 'call');
  assert.deepEqual(
    call.arguments.map(({ value }) => ('value' in value ? value.value : value.kind)),
    [true, false, 0, -5, 0.5, -1.1, ...new Array<string>(9).fill('pattern')],
  );
});

test('parseScript() says where something is wrong, what belongs there and what is likely meant', () => {
  const cases: readonly (readonly [string, string])[] = [
    ['', 'expected a name, a comparison or "(", not the end at line 1, column 1: ""'],
    [
      'fetch name:foo ;',
      'expected an argument, "|" or the end, not ";" at line 1, column 16 (only macros, as in "name = pipeline;", end so): "fetch name:foo ;"',
    ],
    [
      'a = fetch name:foo',
      'expected an argument, "|" or ";", not the end at line 1, column 19 (a macro ends with ";", and a pipeline follows): "a = fetch name:foo"',
    ],
    [
      'fetch name:foo\r\n| sum\n| => 5\n| abs',
      'expected a name, a comparison or "(", not "=" at line 3, column 3 (write ">="): "| => 5"',
    ],
    ['a | =< 5', 'not "=" at line 1, column 5 (write "<="): '],
    ['a | = 5', 'not "=" at line 1, column 5 (write "=="): '],
    ['a || sum', 'not "|" at line 1, column 4 (write one "|"): '],
    ['a | func ()', 'not ")" at line 1, column 11 (a call without arguments has no parentheses)'],
    ['a | -5d', 'not "-5d" at line 1, column 5 (a number is an argument, as in "> 5")'],
    ['"a"', 'not "\\"" at line 1, column 1 (a string is an argument)'],
    ["fetch name:'a'", 'expected a value of "name", not "\'" at line 1, column 12 (strings stand'],
    ['fetch name::a', 'not ":" at line 1, column 12 (write one ":")'],
    ['fetch name:!a', 'not "!" at line 1, column 12 (patterns have no "not"; excludeByTag'],
    ['fetch name:', 'expected a value of "name", not the end at line 1, column 12: '],
    ['fetch name:a <= 5', 'not "<" at line 1, column 14 (write "|" before "<=")'],
    ['fetch == 5', 'not "=" at line 1, column 7 (write "|" before "==")'],
    ['fetch a:b | <> 5', 'not ">" at line 1, column 14 (write "!=")'],
    ['fetch name=foo', 'not "=" at line 1, column 11 (write ":" behind a keyword)'],
    [
      'fetch(name:foo)',
      'or ")", not ":" at line 1, column 11 (a keyword stands behind the name of a',
    ],
    ['fetch name:a:b', 'not ":" at line 1, column 13 (a text with other characters stands in'],
    ['fetch name:\u{1f600}', 'not "\u{1f600}" at line 1, column 12 (a text with other characters'],
    ['a "\u{1f600}" %', 'not "%" at line 1, column 7 (a text with'],
    ['a | > +5', 'not "+" at line 1, column 7 (write no "+")'],
    ['(a) b', 'expected "|" or the end, not "b" at line 1, column 5: '],
    ['a (b', 'expected an argument, "|" or ")", not the end at line 1, column 5: '],
    ['a | b )', 'expected an argument, "|" or the end, not ")" at line 1, column 7: '],
    ['a "b', 'a string has no end at line 1, column 3: "a \\"b"'],
    ['a "b \\" c" | d', 'a string has no end at line 1, column 10 (a backslash is no escape'],
  ];
  for (const [text, message] of cases) {
    const actual = messageOf(text);
    assert.ok(actual.startsWith('cannot parse script: '), text);
    assert.ok(actual.includes(message), `${text}: ${actual}`);
  }
});

test('an error shows what of a long line is near', () => {
  const message = messageOf(`fetch ${'a:b '.repeat(1_000)}! ${'c:d '.repeat(1_000)}`);
  assert.match(message, /at line 1, column 4007 \(.*\): "…(a:b )+! (c:d )+c?:?d?…"$/);
  assert.ok(message.length < 400, message);
});

test('parseScript() bounds length and depth', () => {
  const nested = (depth: number) => `${'('.repeat(depth)}a${')'.repeat(depth)}`;
  assert.doesNotThrow(() => parseScript(nested(scriptDepthMax)));
  assert.match(messageOf(nested(scriptDepthMax + 1)), /more than 100 parentheses.* column 101/);
  assert.match(messageOf('f ('.repeat(scriptDepthMax + 1)), /more than 100 parentheses/);
  assert.doesNotThrow(() => parseScript('(a)|'.repeat(scriptDepthMax * 2) + 'a'));
  assert.doesNotThrow(() => parseScript('a'.repeat(scriptLengthMax)));
  assert.match(messageOf('a'.repeat(scriptLengthMax + 1)), /longer than 65536 characters/);
});

test('garbage is refused with a bad request, or parses to what its form parses to', () => {
  let parsedCount = 0;
  const check = (text: string): void => {
    try {
      const formatted = formatScript(parseScript(text));
      parsedCount += 1;
      assert.equal(formatScript(parseScript(formatted)), formatted);
    } catch (error) {
      assert.ok(isBadRequest(error), `${JSON.stringify(text)}: ${error}`);
      assert.ok(error.message.length < 2_000);
    }
  };
  fc.assert(fc.property(garbage, check), { numRuns: 5_000 });
  assert.ok(parsedCount > 20, `${parsedCount}`);
});

test('a script of the longest length takes time that is linear in it', () => {
  const parts = [
    'a ',
    'a: ',
    'a:b ',
    'a|',
    'a=b;',
    '(a)|',
    '(',
    '"',
    '""',
    '#',
    '#\n',
    'a#\n',
    ' ',
  ];
  parts.push(
    '\r\n',
    '5',
    '.5 ',
    '-',
    'a"b"',
    '>',
    '{',
    '\\"',
    'a=',
    '\u{1f600}',
    '"\u{1f600}"',
    'f(',
  );
  for (const part of parts) {
    for (const start of ['', 'a ', 'a | f b:']) {
      const text = start + part.repeat(Math.floor((scriptLengthMax - start.length) / part.length));
      const before = process.cpuUsage();
      messageOf(text);
      const { user, system } = process.cpuUsage(before);
      // Some 10 ms; what grows with the square takes many seconds.
      assert.ok(user + system < 2_000_000, `${start}${part}…: ${(user + system) / 1000} ms`);
    }
  }
});
