/** What is wrong with a text, as Prometheus 3.15 says it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { turningOf } from '#engine/aside/turning_testing.ts';
import { noFeatures } from './features.ts';
import { PromqlError } from '../words/errors.ts';
import { parseQuery } from './parser.ts';

const answers: readonly (readonly [query: string, message: string])[] = [
  // Words.
  ['100..4', '1:1: parse error: bad number or duration syntax: "100.."'],
  ['0deadbeef', '1:1: parse error: bad number or duration syntax: "0de"'],
  ['foo[5y1hs]', '1:5: parse error: unknown unit "hs" in duration "5y1hs"'],
  ['foo[5m1m]', '1:5: parse error: not a valid duration string: "5m1m"'],
  ['foo[5m:1m1]', '1:8: parse error: bad number or duration syntax: "1m1"'],
  ['1 !~ 1', "1:3: parse error: unexpected character after '!': '~'"],
  ['foo{a*"b"}', "1:6: parse error: unexpected character inside braces: '*'"],
  ['foo["5m"]', "1:5: parse error: unexpected character in duration expression: '\"'"],
  ['foo[5s s 5s]', "1:8: parse error: unexpected character: 's', expected ':'"],
  ['"\\400"', '1:1: parse error: escape sequence is an invalid Unicode code point'],
  ['foo{a="x', '1:7: parse error: unterminated quoted string'],
  ['(1))', "1:5: parse error: unexpected right parenthesis ')'"],
  ['unknown(', '1:9: parse error: unclosed left parenthesis'],
  // Where they stand.
  ['foo bar"x', '1:5: parse error: unexpected identifier "bar"'],
  ['GROUP_LEFT', '1:1: parse error: unexpected <GROUP_LEFT>'],
  ['rate(atan2[5m])', '1:6: parse error: unexpected <op:atan2>'],
  ['sum sum sum', '1:5: parse error: unexpected <aggr:sum>'],
  ['sum(on)', '1:5: parse error: unexpected <on> in aggregation'],
  ['sum by (a,)', '1:12: parse error: unexpected end of input in aggregation'],
  [
    'sum by (without) (foo)',
    '1:9: parse error: unexpected <without> in grouping opts, expected label',
  ],
  ['foo + on foo', '1:10: parse error: unexpected identifier "foo" in grouping opts, expected "("'],
  ['foo @ x', '1:7: parse error: unexpected identifier "x" in @, expected timestamp'],
  [
    'foo offset "5m"',
    '1:12: parse error: unexpected string "\\"5m\\"" in offset, expected number, duration, step(), or range()',
  ],
  [
    'foo[5m 5m]',
    '1:8: parse error: unexpected duration "5m" in subquery or range, expected ":" or "]"',
  ],
  [
    'offset offset offset',
    '1:15: parse error: unexpected <offset> in offset, expected number, duration, step(), or range()',
  ],
  ['foo{a!~"("}', '1:5: parse error: error parsing regexp: missing closing ): `(`'],
  ['foo{"a"}', '1:1: parse error: metric name must not be set twice: "foo" or "a"'],
];

for (const [query, message] of answers) {
  test(`parseQuery() says what is wrong with ${query}`, async () => {
    await assert.rejects(parseQuery(query, noFeatures, turningOf()), (error: unknown) => {
      assert.ok(error instanceof PromqlError);
      assert.equal(error.message, message);
      return true;
    });
  });
}

test('a number that no float is as large as is refused', async () => {
  await assert.rejects(parseQuery('1e400', noFeatures, turningOf()), {
    message: '1:1: parse error: error parsing number: value out of range: "1e400"',
  });
});

test("offset is a metric's name where an operand is wanted", async () => {
  for (const query of ['offset', 'offset{a="b"}[5m]', 'offset offset 5m', 'sum(offset + offset)']) {
    await parseQuery(query, noFeatures, turningOf());
  }
});

test('a label of a grouping is one', async () => {
  for (const [text, shown] of [
    ['"\\xff"', '"\\xff"'],
    ['""', '""'],
  ]) {
    await assert.rejects(parseQuery(`sum by (${text}) (up)`, noFeatures, turningOf()), {
      message: `1:9: parse error: invalid label name for grouping: ${shown}`,
    });
  }
});
