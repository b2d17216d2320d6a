import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allFeatures, noFeatures } from './features.ts';
import { turningOf } from '#engine/aside/turning_testing.ts';
import type { Expr } from './ast.ts';
import type { Duration } from './durations.ts';
import { PromqlError } from '../words/errors.ts';
import { parseQuery, parseSelectors, queryLengthMax } from './parser.ts';
import { operatorsMax, tokensMax } from '../words/tokens.ts';

const parsed = (query: string): Promise<Expr> => parseQuery(query, noFeatures, turningOf());

/** Of one that is written as a number. */
function millis(duration: Duration): number {
  assert.ok(typeof duration === 'number');
  return duration;
}

/** The shape of an expression, fully in brackets. */
function shape(expr: Expr): string {
  switch (expr.kind) {
    case 'number':
      return String(expr.value);
    case 'string':
      return JSON.stringify(expr.value);
    case 'vectorSelector': {
      const name = expr.matchers.find((matcher) => matcher.name === '__name__')?.value ?? '';
      const offset = expr.offset === 0 ? '' : ` offset ${millis(expr.offset)}`;
      const at =
        expr.at === null ? '' : ` @ ${'millis' in expr.at ? expr.at.millis : expr.at.kind}`;
      return `${name}${at}${offset}`;
    }
    case 'matrixSelector':
      return `${shape(expr.selector)}[${millis(expr.range)}]`;
    case 'subquery':
      return `${shape(expr.expr)}[${millis(expr.range)}:${millis(expr.step)}]`;
    case 'call':
      return `${expr.name}(${expr.args.map(shape).join(', ')})`;
    case 'aggregate':
      return `${expr.operator}(${shape(expr.expr)})`;
    case 'binary':
      return `(${shape(expr.left)} ${expr.operator} ${shape(expr.right)})`;
    case 'unary':
      return `(${expr.operator}${shape(expr.expr)})`;
    case 'paren':
      return shape(expr.expr);
  }
}

const shapes: readonly (readonly [string, string])[] = [
  ['-1^2', '(-(1 ^ 2))'],
  ['2^3^2', '(2 ^ (3 ^ 2))'],
  ['a + b offset 5m', '(a + b offset 300000)'],
  ['a + b offset 5m * c', '(a + (b offset 300000 * c))'],
  ['-metric @ 100', '(-metric @ 100000)'],
  ['-a * b', '((-a) * b)'],
  ['a - b - c', '((a - b) - c)'],
  ['a or b and c', '(a or (b and c))'],
  ['a > b + 1', '(a > (b + 1))'],
  ['a[5m] @ end() offset -10s', 'a @ end offset -10000[300000]'],
  ['x[1800]', 'x[1800000]'],
  ['rate(a[5m])[1h:]', 'rate(a[300000])[3600000:0]'],
  ['1./6.', '(1 / 6)'],
  ['2.e3', '2000'],
  ['1h30m', '5400'],
  ['{"foo.bar", a="b"}', 'foo.bar'],
  ['sum + avg', '(sum + avg)'],
];

for (const [query, wanted] of shapes) {
  test(`parseQuery() reads ${query} as ${wanted}`, async () => {
    assert.equal(shape(await parsed(query)), wanted);
  });
}

const mistakes: readonly (readonly [string, string])[] = [
  ['', '1:1: parse error: no expression found in input'],
  ['1+', '1:3: parse error: unexpected end of input'],
  ['(1))', "1:5: parse error: unexpected right parenthesis ')'"],
  ['foo{', '1:5: parse error: unexpected end of input inside braces'],
  ['{x=""}', '1:1: parse error: vector selector must contain at least one non-empty matcher'],
  ['1 == 1', '1:3: parse error: comparisons between scalars must use BOOL modifier'],
  [
    'rate(avg)',
    '1:6: parse error: expected type range vector in call to function "rate", got instant vector',
  ],
  ['a>b()', '1:3: parse error: unknown function with name "b"'],
  ['mad_over_time(a[5m])', '1:1: parse error: function "mad_over_time" is not enabled'],
  ['foo\n  + bool bar', '2:3: parse error: bool modifier can only be used on comparison operators'],
  ['foo[0s]', '1:5: parse error: duration must be greater than 0'],
];

for (const [query, message] of mistakes) {
  test(`parseQuery() refuses ${JSON.stringify(query)} with place and reason`, async () => {
    await assert.rejects(
      parsed(query),
      (error: unknown) =>
        error instanceof PromqlError && error.kind === 'bad_data' && error.message === message,
    );
  });
}

/** With the places and texts of Prometheus 3.15. */
const infoMistakes: readonly (readonly [string, string])[] = [
  ['info()', '1:1: parse error: expected at least 1 argument(s) in call to "info", got 0'],
  ['info(1, 2, 3)', '1:1: parse error: expected at most 2 argument(s) in call to "info", got 3'],
  ['info(1, x)', '1:9: parse error: expected label selectors only, got vector selector instead'],
  [
    'info(x, target_info{a="b"})',
    '1:9: parse error: expected label selectors only, got vector selector instead',
  ],
  ['info(x, ({a=""}))', '1:9: parse error: expected label selectors only'],
  ['info(x, -{a="b"})', '1:9: parse error: expected label selectors only'],
  ['info(x, sum({a="b"}))', '1:9: parse error: expected label selectors only'],
  [
    '1 + info(x, 2)',
    '1:5: parse error: expected type instant vector in call to function "info", got scalar',
  ],
  [
    'info(x, {a="b"}[5m])',
    '1:1: parse error: expected type instant vector in call to function "info", got range vector',
  ],
  [
    'info(x[5m], {})',
    '1:6: parse error: expected type instant vector in call to function "info", got range vector',
  ],
  ['info({}, {})', '1:6: parse error: vector selector must contain at least one non-empty matcher'],
  [
    'rate({a=~".*"}[5m])',
    '1:6: parse error: vector selector must contain at least one non-empty matcher',
  ],
];

for (const [query, message] of infoMistakes) {
  test(`parseQuery() refuses "${query}" with place and reason`, async () => {
    await assert.rejects(parseQuery(query, allFeatures, turningOf()), { message });
  });
}

test('parseQuery() takes label selectors of info() that match everything, at any time', async () => {
  for (const labels of ['{}', '{a=""}', '{a=~".*",b!~".+"} @ 5 offset 1m', '{"target_info"}']) {
    await parseQuery(`info(x, ${labels})`, allFeatures, turningOf());
  }
});

test('parseSelectors() gives the matchers of each selector, the name first', async () => {
  assert.deepEqual(await parseSelectors(['up{job=~"a|b",x!="y"}', 'down'], turningOf()), [
    [
      { name: '__name__', kind: '=', value: 'up' },
      { name: 'job', kind: '=~', value: 'a|b' },
      { name: 'x', kind: '!=', value: 'y' },
    ],
    [{ name: '__name__', kind: '=', value: 'down' }],
  ]);
  const bad = parseSelectors(['up', 'sum(up)'], turningOf());
  await assert.rejects(bad, /expected type vector selector/);
});

test('string literals know the escape sequences of Go', async () => {
  const value = async (query: string): Promise<string | null> => {
    const expr = await parsed(query);
    return expr.kind === 'string' ? expr.value : null;
  };
  assert.equal(await value(String.raw`"a\n\x41\101é\U0001F600\""`), 'a\nAAé😀"');
  assert.equal(await value('`a\\n`'), 'a\\n');
  assert.equal(await value(String.raw`"é\xc3\xa9 \u00e9"`), 'éé é');
  await assert.rejects(value(String.raw`"\c"`), /unknown escape sequence U\+0063 'c'/);
});

test('parseQuery() gives up a long text at its first error, in time that grows with its length', async () => {
  const cases: readonly (readonly [text: string, message: RegExp])[] = [
    ['up '.repeat(tokensMax), /^1:4: parse error: unexpected identifier "up"$/],
    [`sum(rate(up[5m])${' '.repeat(5_000)}`, /parse error: unclosed left parenthesis$/],
    [`${'('.repeat(9_000)}1${')'.repeat(9_000)}`, /^1:\d+: parse error: unexpected "\("$/],
    [`${'1^'.repeat(50_000)}1`, /^1:\d+: parse error: /],
    ['"'.repeat(2 * tokensMax), /^1:3: parse error: unexpected string "\\"\\""$/],
    ['.'.repeat(200_000), /^1:1: parse error: unexpected character: '.'$/],
  ];
  for (const [text, message] of cases) {
    await assert.rejects(parsed(text), { code: 'BAD_REQUEST', message });
  }
});

test('parseQuery() takes a long text that is right', async () => {
  const values = Array.from({ length: 20_000 }, (_, index) => `node-${index}`).join('|');
  assert.equal((await parsed(`sum by (job) (rate(up{node=~"${values}"}[5m]))`)).kind, 'aggregate');
});

test('parseQuery() takes a thousand operators, and says of more that they are too many', async () => {
  const terms = (count: number, term: string, operator: string) =>
    Array.from({ length: count }, () => term).join(operator);
  const long = `up{job="${'x'.repeat(60)}"}`;
  for (const [term, operator] of [
    ['1', '+'],
    ['1', ' ^ '],
    ['abs(up)', '^'],
    [long, ' or '],
    [long, '\n* on (a, b) group_left (c) '],
    ['up', '== bool '],
  ] as const) {
    const most = operator.includes('^') ? operatorsMax / 2 : operatorsMax;
    assert.equal((await parsed(terms(most + 1, term, operator))).kind, 'binary');
    for (const count of [most + 2, 2_000, 20_000, 500_000]) {
      const query = terms(count, term, operator);
      if (query.length > queryLengthMax) continue;
      await assert.rejects(parsed(query), {
        code: 'BAD_REQUEST',
        message: /^\d+:\d+: parse error: more than 1000 operators in each other's operands$/,
      });
    }
  }
  // Side by side they are as many as fit: none is inside of another.
  const sum = terms(100, '1', '+');
  assert.equal(
    (await parsed(`max by (a) (label_join(up, "x", ${terms(500, `"a+b"`, ',')}))`)).kind,
    'aggregate',
  );
  assert.equal((await parsed(terms(90, `(${sum})`, '+'))).kind, 'binary');
  // One inside of the other they add up.
  const nested = (depth: number) => `${`(${sum}+`.repeat(depth)}1${')'.repeat(depth)}`;
  await parsed(nested(10));
  await assert.rejects(parsed(nested(11)), /more than 1000 operators/);
});

test('texts without an end are told at once, however long they are', async () => {
  for (const quote of ['"', "'", '`']) {
    for (const piece of ['\\"', "\\'", 'x']) {
      const started = process.threadCpuUsage();
      const query = `up{a=${quote}${piece.repeat(400_000)}`;
      await assert.rejects(parsed(query), { code: 'BAD_REQUEST' });
      assert.ok(process.threadCpuUsage(started).user < 3e6, `${quote} ${piece}`);
    }
  }
});

test('parseQuery() bounds how deep expressions are nested', async () => {
  const nested: readonly ((depth: number) => string)[] = [
    (depth) => `${'('.repeat(depth)}1${')'.repeat(depth)}`,
    (depth) => `${'abs('.repeat(depth)}up${')'.repeat(depth)}`,
    (depth) => `${'-'.repeat(depth)}up`,
    (depth) => `max_over_time(${'('.repeat(depth - 2)}up${')'.repeat(depth - 2)}[1m:1s])`,
  ];
  for (const query of nested) {
    await parsed(query(300));
    const message = /nested more than 300 times$/;
    await assert.rejects(parsed(query(301)), { code: 'BAD_REQUEST', message });
    await assert.rejects(parsed(query(1300)), { code: 'BAD_REQUEST' });
  }
});
