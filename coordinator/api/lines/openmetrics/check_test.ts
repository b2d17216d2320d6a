import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TsdbError } from '#lib/errors.ts';
import { OpenMetricsCheck, openMetricsBytesMax } from './check.ts';

/** Null where the text is OpenMetrics. */
function problemOf(text: string | Uint8Array): string | null {
  const check = new OpenMetricsCheck();
  try {
    for (const _ of check.add(Buffer.from(text)));
    check.end();
    return null;
  } catch (error) {
    assert.ok(error instanceof TsdbError);
    return error.message;
  }
}

const textOf = (lines: readonly string[]): string => [...lines, '# EOF', ''].join('\n');

test('what libraries write is taken', () => {
  const lines = [
    '# HELP go_gc_duration_seconds A summary, "quoted" and with \u2028 in it.',
    '# TYPE go_gc_duration_seconds summary',
    '# UNIT go_gc_duration_seconds seconds',
    'go_gc_duration_seconds{quantile="0.0"} 4.9351e-05',
    'go_gc_duration_seconds{quantile="0.5"} NaN',
    'go_gc_duration_seconds_sum 1.7560473e+07',
    'go_gc_duration_seconds_count 2693',
    '# TYPE rpc counter',
    'rpc_total{code="200"} 3.0 1.520879607789e+09 # {id="a"} 1.0 1.520879607789e+09',
    'rpc_created{code="200"} 1.52e+09 1.520879607789e+09',
    'rpc_total{code="400"} 1.0',
    '# TYPE target info',
    'target_info{service="x"} 1.0',
    '# TYPE "my.name" gauge',
    '{"my.name",zone="a","other.label"="b"} 1',
    '{"other.name"} 2',
    '# TYPE queue gaugehistogram',
    'queue_bucket{le="-1"} 1',
    'queue_bucket{le="+Inf"} 2',
    'queue_gcount 2',
    'queue_gsum -3',
  ];
  assert.equal(problemOf(textOf(lines)), null);
});

test('what is none is refused by line and reason', () => {
  const cases: [lines: string[], reason: string][] = [
    [['a 1', 'a 2'], 'line 2: a sample is there twice'],
    [['a{b=""} 1', 'a 2'], 'line 2: a sample is there twice'],
    [['a{b="1",b="2"} 1'], 'line 1: label b appears twice'],
    [['a{__name__="b"} 1'], 'line 1: label __name__ appears twice'],
    [['{"a","b"} 1'], 'line 1: two names of a metric'],
    [['a{"b"} 1'], 'line 1: two names of a metric'],
    [
      ['# TYPE a counter', 'a_total 1', 'a_created 1', 'a 1'],
      'two metric families have the name a',
    ],
    [
      ['# TYPE a counter', 'a_total 1', 'b 1', 'a_total 2'],
      'two metric families have the name a_total',
    ],
    [['# TYPE a histogram', 'a_bucket{le="+Inf"} 1.5'], 'line 2: a_bucket is not a whole number'],
    [['# TYPE a histogram', 'a_bucket{le="x"} 1'], 'line 2: le is not a number'],
    [
      ['# TYPE a histogram', 'a_bucket{le="+Inf"} 2', 'a_count 3', 'a_sum 1'],
      'the count is not that',
    ],
    [['# TYPE a_s info', '# UNIT a_s s', 'a_s_info 1'], 'no info has a unit'],
    [['# a comment'], 'line 1: expected HELP, TYPE or UNIT'],
    [['a 1', '', 'b 1'], 'line 2: empty'],
    [['a 1\r'], 'line 1: expected the end of the line'],
    [[`a{b="${'x'.repeat(1 << 20)}"} 1`], 'line 1: longer than 1048576 bytes'],
  ];
  for (const [lines, reason] of cases) {
    const problem = problemOf(textOf(lines));
    assert.ok(
      problem?.startsWith('not OpenMetrics: ') && problem.includes(reason),
      `${reason}: ${problem}`,
    );
  }
  const notUtf8 = Buffer.from('a{b="\xff"} 1\n# EOF\n', 'latin1');
  assert.match(problemOf(notUtf8)!, /line 1: not UTF-8/);
  assert.match(problemOf(new Uint8Array(openMetricsBytesMax + 1))!, /longer than 16777216 bytes/);
});
