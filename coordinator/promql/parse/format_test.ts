import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allFeatures } from './features.ts';
import { turningOf } from '#engine/aside/turning_testing.ts';
import { formatQuery } from './format.ts';
import { parseQuery } from './parser.ts';

const formatted = (query: string): Promise<string> => formatQuery(query, allFeatures, turningOf());

const cases: readonly (readonly [given: string, formatted: string])[] = [
  ['foo/bar', 'foo / bar'],
  ['sum( rate(up{job="a",b=~"x|y"}[5m]) )by(job)', 'sum by (job) (rate(up{b=~"x|y",job="a"}[5m]))'],
  ['sum without()(x)', 'sum without () (x)'],
  ['topk(0x5,  x offset -90m)', 'topk(5, x offset -1h30m)'],
  ['a+on(x)group_left(y)b', 'a + on (x) group_left (y) b'],
  ['a and ignoring(z) b', 'a and ignoring (z) b'],
  ['a  >bool   -1', 'a > bool -1'],
  ['-(a^2)', '-(a ^ 2)'],
  ['max_over_time(x[1w:] @ 17.5)', 'max_over_time(x[1w:] @ 17.500)'],
  ['x[1d12h:30s] @ end() offset 7d', 'x[1d12h:30s] @ end() offset 1w'],
  ["{'köln'='a\\'b'}", '{"köln"="a\'b"}'],
  ['label_replace(x,"a",\'$1\',"b",`(.*)`)', 'label_replace(x, "a", "$1", "b", "(.*)")'],
  ['time( )', 'time()'],
  ['x[5m+2*(step( )-1s)]offset -(range()/2)', 'x[5m + 2 * (step() - 1s)] offset -(range() / 2)'],
  ['x[max_of(1m,step()):min_of( 5s,10s)]', 'x[max_of(1m, step()):min_of(5s, 10s)]'],
  ['x</3', 'x </ 3'],
  ['x+fill(1)y', 'x + fill (1) y'],
  ['x+on()group_left()fill_right(-2)y', 'x + on () group_left () fill_right (-2) y'],
  ['0x1F+1_000+1e9+5m', '31 + 1000 + 1000000000 + 5m'],
  ['x[(5m)] offset (1m)', 'x[(5m)] offset (1m)'],
  ['x{b="1",a="2"}', 'x{a="2",b="1"}'],
  ['x  anchored', 'x anchored'],
  ['x smoothed @ 7 offset 1m', 'x @ 7.000 smoothed offset 1m'],
  ['rate(x{a="b"}[5m]offset 1m  anchored)', 'rate(x{a="b"}[5m] anchored offset 1m)'],
  ['x[5m] @ start() smoothed offset -60s', 'x[5m] smoothed @ start() offset -1m'],
  ['{__name__="x"}/{"x"}', '{__name__="x"} / {__name__="x"}'],
  ['info( x,{} )', 'info(x, {})'],
  [
    'info(x,{"build_info",version=~".+"}@5)',
    'info(x, {__name__="build_info",version=~".+"} @ 5.000)',
  ],
];

for (const [given, wanted] of cases) {
  test(`formatQuery() makes ${wanted} of ${given}`, async () => {
    assert.equal(await formatted(given), wanted);
  });
}

test('formatQuery() breaks what is longer than a line', async () => {
  const long = `rate(${'requests_of_a_service'.repeat(3)}{job="api"}[5m])`;
  assert.equal(
    await formatted(`sum by (code)(${long})/ignoring(code)group_left()sum(${long})`),
    [`  sum by (code) (${long})`, '/ ignoring (code) group_left ()', `  sum(${long})`].join('\n'),
  );
  assert.equal(
    await formatted(`topk(3,${long}+${long})`),
    ['topk(', '  3,', `    ${long}`, '  +', `    ${long}`, ')'].join('\n'),
  );
});

test('formatQuery() gives text with the same meaning', async () => {
  const long = `${'m'.repeat(40)}{a="1"}`;
  const queries = [
    ...cases.map(([given]) => given),
    `(${long} or ${long}) unless on(a) -${long}`,
    `histogram_quantile(0.9, sum by(le)(rate(${long}[1m] offset 5m))) * 2 ^ 3 % max_over_time((${long})[5m:1m])`,
  ];
  const withoutSpans = async (query: string): Promise<string> => {
    const expr = await parseQuery(query, allFeatures, turningOf());
    return JSON.stringify(expr, (key, value: unknown) => {
      if (key === 'matchers') return (value as object[]).map((each) => JSON.stringify(each)).sort();
      return /span$/i.test(key) ? undefined : value;
    });
  };
  for (const query of queries) {
    assert.equal(await withoutSpans(await formatted(query)), await withoutSpans(query), query);
  }
});

test('formatQuery() stays small for a chain of operators that nests to the right', async () => {
  const chain = `${'2 ^ '.repeat(500)}2`;
  const lines = (await formatted(chain)).split('\n');
  assert.ok(lines.length < 100 && lines.every((line) => line.length < chain.length + 100));
});

test('formatQuery() refuses what does not parse', async () => {
  await assert.rejects(formatted('sum('), /parse error/);
});
