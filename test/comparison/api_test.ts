/** Endpoints beside queries, held against those of Prometheus over the same series. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { customSchema, type Histogram, resetHint } from '#engine/typed/histogram.ts';
import { bitsOfDouble } from '#engine/typed/typed_value.ts';
import type { SeriesToWrite } from '#engine/write_decoder/remote_write_testing.ts';
import { functions } from '#coordinator/promql/functions/table.ts';
import { hasSuites, readSuite } from '../conformance/suites.ts';
import { SeededRandom } from '../seeded_random.ts';
import { toolOrSkip } from '../tools.ts';
import { differenceOf } from './answers.ts';
import { Peers } from './peers.ts';
import { intervalMillis, makeSeries, rowsEach } from './series.ts';

const prometheus = toolOrSkip('prometheus', 'endpoints are not compared with it');

const nowMillis = Date.now();
const staleMarker = 0x7ff0000000000002n;

const noBuckets = { indexes: new Int32Array(0), counts: new Float64Array(0) };

const exponential: Histogram = {
  isFloat: false,
  schema: 1,
  hint: resetHint.unknown,
  zeroThreshold: 0.001,
  count: 21,
  zeroCount: 2,
  sumBits: bitsOfDouble(18.4),
  customBounds: new Float64Array(0),
  positive: { indexes: Int32Array.of(-3, -2, 5), counts: Float64Array.of(1, 4, 3) },
  negative: { indexes: Int32Array.of(0, 2), counts: Float64Array.of(5, 6) },
};

const custom: Histogram = {
  ...exponential,
  schema: customSchema,
  zeroThreshold: 0,
  zeroCount: 0,
  count: 9,
  customBounds: Float64Array.of(0.1, 0.5, 2.5, 1e6),
  positive: { indexes: Int32Array.of(0, 2, 4), counts: Float64Array.of(1, 3, 5) },
  negative: noBuckets,
};

function series(): SeriesToWrite[] {
  const at = (seconds: number): number => nowMillis - seconds * 1000 + 7;
  const tagsOf = (labels: Record<string, string>) =>
    Object.entries(labels).map(([name, value]) => ({ name, value }));
  const float = (
    labels: Record<string, string>,
    ...rows: [seconds: number, value: number | bigint][]
  ): SeriesToWrite => ({
    tags: tagsOf(labels),
    samples: rows.map(([seconds, value]) => ({ timestampMillis: at(seconds), value })),
  });
  const histogram = (
    labels: Record<string, string>,
    ...rows: [seconds: number, histogram: Histogram][]
  ): SeriesToWrite => ({
    tags: tagsOf(labels),
    samples: [],
    histograms: rows.map(([seconds, each]) => ({ timestampMillis: at(seconds), histogram: each })),
  });
  const values = [0, -0, 1, -1, 0.1, 123456, 1e6, 1e21, 1e-5, -2.5e-7, 3.25e8, NaN, Infinity];
  return [
    ...values.map((value, index) =>
      float({ __name__: 'odd_values', place: String(index) }, [40, 5], [30, value]),
    ),
    float({ __name__: 'odd_values', place: 'low' }, [30, -Infinity]),
    float({ __name__: 'odd_values', place: 'maximum' }, [30, Number.MAX_VALUE]),
    float({ __name__: 'job:requests:rate5m', instance: 'a:1', job: 'api' }, [120, 1.5]),
    ...['0.5', '1', '1e400', '+Inf'].map((le, index) =>
      float({ __name__: 'bounds_bucket', le }, [30, 2 * (index + 1)]),
    ),
    float({ __name__: 'ended', job: 'api' }, [60, 1], [30, staleMarker]),
    float({ __name__: 'came_back', job: 'api' }, [60, 1], [40, staleMarker], [30, 2]),
    float({ __name__: 'too_old', job: 'api' }, [600, 1]),
    float({ __name__: 'just_within', job: 'api' }, [270, 1]),
    float({ __name__: 'in_the_future', job: 'api' }, [20, 4], [-240, 5]),
    float(
      { __name__: 'texts', a: 'quoted "x"', b: 'back\\slash', c: 'two\nlines', d: 'é€😀' },
      [30, 1],
    ),
    float({ __name__: 'http.requests', 'http.status': '200', größe: 'groß' }, [30, 1]),
    float({ __name__: 'http_requests', 'http.status': '500', 'z 😀': 'x', _a: '_' }, [30, 2]),
    float({ __name__: '1 😱\n"name"', job: 'api' }, [30, 3]),
    // Names that look like what stands between names.
    float({ __name__: 'odd_names', 'a=b"': 'c', 'x"': '{', 'y,': '}', 'd="e",f': 'g' }, [30, 4]),
    float({ __name__: 'odd_names', 'a=b': 'c' }, [30, 5]),
    histogram({ __name__: 'latency.custom', 'a.b': 'c' }, [30, custom]),
    float({ Before: 'name', __name__: 'capital', job: 'api' }, [30, 1]),
    histogram({ __name__: 'latency_native', job: 'a' }, [40, exponential], [30, exponential]),
    histogram({ __name__: 'latency_native', job: 'b' }, [
      30,
      { ...exponential, isFloat: true, count: 21.5 },
    ]),
    histogram({ __name__: 'latency_native', job: 'c' }, [
      30,
      { ...exponential, hint: resetHint.gauge },
    ]),
    float({ __name__: 'latency_native', job: 'd' }, [30, 8]),
    histogram({ __name__: 'latency_native', job: 'e' }, [30, { ...exponential, schema: -2 }]),
    histogram({ __name__: 'latency_custom', job: 'a' }, [30, custom]),
    histogram({ __name__: 'latency_custom', job: 'b' }, [30, { ...custom, hint: resetHint.gauge }]),
    histogram({ __name__: 'latency_custom', job: 'c' }, [
      30,
      {
        ...custom,
        customBounds: Float64Array.of(1),
        count: 3,
        positive: { indexes: Int32Array.of(1), counts: Float64Array.of(3) },
      },
    ]),
  ];
}

/** Every kind of node, and every function with as few arguments as it takes. */
const expressions = [
  ...[...functions].map(([name, { args, optional }]) => {
    const sample = { scalar: '2', string: '"text"', vector: 'a', matrix: 'a[5m]' };
    const given = args.slice(0, args.length - Math.abs(optional)).map((type) => sample[type]);
    return `${name}(${given.join(', ')})`;
  }),
  'round(a, 0.5)',
  'label_join(a, "to", ",", "b", "c", "d")',
  '{"a name", b=~"x|y"}',
  '{b!="", "a name"}',
  '{__name__="a", b=""}',
  'a{__name__!~"b"}',
  'a{"lab el"="x", b!~"\\x80"}',
  'sum without ("lab el", b) (a)',
  'topk by () (3, a)',
  'count_values("to", a)',
  'limit_ratio(-0.5, a)',
  '-a ^ 2 * +b',
  '-1 + +2 ^ -Inf',
  '(a + on (b, c) group_left (d) b) > bool ignoring () c',
  'a / ignoring (b) group_right fill_left (-1) fill_right (2.5) b',
  'a + fill (0) b',
  'a and on () b or c unless ignoring (d) e',
  'a </ 5 >/ 2',
  '1 == bool 2 atan2 3',
  'a[5m] offset -1h30m @ 1.5',
  'a @ end() offset 2',
  'rate(a[1h:] @ start() offset 1d)',
  'max_over_time(a[1h30m:15s] offset -(2 * 5m))',
  'a[(5m + step()) / 2] offset (-range() + 3)',
  'a[min_of(step(), 5m)] offset max_of(1m, -(step()))',
  'a[-(-5m)]',
  'a[2 ^ 3 ^ 1s % 7]',
  'a anchored + b smoothed',
  'rate(a[5m] anchored) / rate(b[1m] smoothed)',
  "'it\\'s'",
  '`raw "text"`',
  '{"a", "b"}',
  '5m + -1h30m * 90',
  'a + ignoring () group_left () fill (1e30) b',
  'a + on () fill_left (1e-7) fill_right (1234567) b',
  '"\\a\\x00\\u200b\\u00ad\\U000e0001 \\u3000é€😀"',
  `a{${'b="some value of a label",'.repeat(3)}c="é"}[5m] offset 5m`,
  `sum(avg_over_time((${'a{b="some value of a label"} + '.repeat(4)}c)[5m:] offset 1m)) / max_over_time(a[5m:1m])`,
  `-(${'a{b="some value of a label"} * '.repeat(5)}c)`,
  '0x1F + 1e-9 + 1_000 + 1e30',
  'histogram_quantiles(a, "q", 0.5, 0.9)',
];

const ofLabels = [
  'absent(nothing{job!="x",job="a"})',
  'absent(nothing{job="a",job!="x"})',
  'absent(nothing{job=~"x",job="a",z!="1",b="2"})',
  'absent_over_time(nothing{a=~"b",a="c"}[5m])',
  'absent_over_time(nothing{a="b",a=~"c"}[5m])',
  'absent(nothing{a="b",a="b",c=""})',
  'absent((nothing{a!="",a="b"}))',
  'absent({"nothing","a b"="b"})',
  'label_join(odd_values, "", "x", "")',
  'label_join(odd_values, "place", "-", "nope")',
  'label_replace(odd_values, "a", "${x}-$x-${1}-$1_-$$-$", "place", "(?P<x>1?)(.*)")',
  'label_replace(odd_values, "__name__", "", "place", "1(.*)")',
  'label_replace({"http.requests"}, "a.b", "$1", "http.status", "(.).*")',
  'label_join({"http.requests"}, "größe", ".", "größe", "http.status")',
  'topk(1e20, odd_values)',
];

/** What a generated query hardly ever has: tiny durations, bounds that are none, labels that become the same, sorting in time. */
const ofEdges = [
  'max_over_time(odd_values{place="8"}[3m:(0.0002*1)])',
  'rate(odd_values[0.0002*1])',
  'absent_over_time(odd_values[0.0002*1])',
  'sum_over_time(odd_values[(0.0002*1):1m])',
  'histogram_quantile(0.1, bounds_bucket)',
  'histogram_fraction(0, 1, bounds_bucket)',
  'histogram_count(latency_custom{job="a"})',
  '{__name__=~"just_within|came_back"} * on () group_left () vector(2)',
  '{__name__=~"just_within|came_back"} > on () group_left () vector(9)',
  '{__name__=~"just_within|came_back"} * on (__name__) group_left () {__name__=~"just_within|came_back"}',
  '{__name__=~"just_within|came_back"} > bool on (__name__) group_left () {__name__=~"just_within|came_back"}',
  '{__name__=~"just_within|came_back"} > on (__name__) group_left () {__name__=~"just_within|came_back"}',
  'sort(odd_values)',
  'sort_desc(odd_values @ end())',
  'last_over_time(sort(odd_values)[1m:1m])',
  'last_over_time(sort(odd_values)[1m:1m] @ 60)',
  'last_over_time(sort(odd_values)[30s:1m] @ 60)',
  'last_over_time(sort(odd_values)[1m:30s])',
];

/** Queries whose samples are counted. */
const counted = [
  '1 + 2',
  'up',
  'up + on (job, instance) memory_bytes',
  'sum by (job) (rate(requests_total[2m]))',
  'rate(requests_total[37s])',
  'rate(requests_total[10m] offset 3m)',
  'requests_total @ 1 + up',
  'up @ end() + up offset 1m',
  'sum(rate(requests_total[5m] @ start())) + up',
  'histogram_count(latency_seconds)',
  'histogram_sum(rate(latency_seconds[3m]))',
  'ended or up',
  'absent_over_time(nothing_there[5m])',
  'max_over_time(up[10m:1m])',
  'max_over_time(sum(rate(requests_total[2m]))[10m:30s])',
  'max_over_time(sum(rate(requests_total[2m]))[50s:30s] offset 2m)',
  'max_over_time(avg_over_time(memory_bytes[2m:20s])[5m:1m])',
  'topk(scalar(count(up)), memory_bytes)',
  'quantile_over_time(0.5, memory_bytes[2m])',
  'timestamp(up)',
  'timestamp(latency_seconds)',
  'label_replace(up, "a", "$1", "job", "(.*)")',
  'up and requests_total unless memory_bytes',
  'requests_total[5m]',
  'up[5m:30s]',
  'rate(requests_total[5m])[5m:30s]',
  'rate(requests_total[2m] anchored)',
  'rate(requests_total[2m] smoothed)',
  'memory_bytes smoothed',
  'count_values("value", up)',
  'vector(time())',
  'scalar(up{job="api", instance="a"})',
];

/** The same of histograms whose buckets count: Prometheus has empty ones among them, which are not there here. */
const countedByBuckets = [
  'latency_seconds',
  'rate(latency_seconds[3m])',
  'histogram_quantile(0.9, sum(rate(latency_seconds[3m])))',
  'rate(size_bytes[2m])',
  'count_over_time(mixed[4m])',
  'mixed',
  'max_over_time(rate(latency_seconds[2m])[5m:1m])',
  'latency_seconds[5m]',
];

if (prometheus !== null) {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-comparison-'));
  let peers: Peers;
  before(async () => {
    peers = await Peers.start(folder, prometheus, true);
    await peers.write(series());
  });
  after(async () => {
    await peers[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  const delimited =
    'application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited';
  const accepts = [
    '',
    '*/*',
    'text/plain',
    'text/plain;version=1.0.0',
    'application/json',
    'text/plain;version=0.0.4;escaping=allow-utf-8',
    'text/plain;version=0.0.4;escaping=dots',
    'text/plain;version=0.0.4;escaping=values',
    `${delimited};escaping=allow-utf-8`,
    `${delimited};escaping=dots`,
    'application/openmetrics-text;version=1.0.0;escaping=dots;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2',
    'text/plain;escaping=nonsense;q=0.9, text/*;q=0.1',
    delimited,
    `${delimited};escaping=values;q=0.7,text/plain;version=0.0.4;q=0.3`,
    `${delimited};q=0.1,text/plain;version=0.0.4;q=0.3`,
  ];

  test('federate answers with the bytes of Prometheus in each format', async () => {
    const queries = [
      // Where labels stand before a name, Prometheus' order of equal names is by chance.
      'match[]={__name__=~".%2B",Before=""}',
      'match[]=capital',
      'match[]=odd_values{place=~"1.*"}&match[]={job="api",Before=""}&match[]=odd_values',
      'match[]=latency_native',
      'match[]=nothing_there',
      '',
    ];
    for (const query of queries) {
      for (const accept of accepts) {
        const headers = accept === '' ? { Accept: '' } : { Accept: accept };
        const { theirs, ours } = await peers.send(`/federate?${query}`, { headers });
        const what = `${query} as ${accept}`;
        assert.equal(ours.status, theirs.status, what);
        assert.equal(ours.contentType, theirs.contentType, what);
        assert.equal(ours.bytes.toString('latin1'), theirs.bytes.toString('latin1'), what);
      }
    }
  });

  test('labels, their values and series are those of Prometheus for names of any text', async () => {
    const match = `match[]=${encodeURIComponent('{"http.status"=~".+"}')}`;
    for (const path of [
      `labels?${match}`,
      'label/U__http_2e_status/values',
      'label/http.status/values',
      'label/U__gr_f6__df_e/values',
      `label/${encodeURIComponent('z 😀')}/values`,
      `label/__name__/values?${match}`,
      'label/U__/values',
      'label/U__open_2e/values',
      `series?${match}`,
      'series?match[]=odd_names{"a=b"!=""}',
      'label/U__a_3d_b_22_/values',
      `label/${encodeURIComponent('y,')}/values`,
    ]) {
      const { theirs, ours } = await peers.send(`/api/v1/${path}`, {});
      assert.equal(ours.status, theirs.status, path);
      const data = (text: string) => JSON.parse(text).data;
      assert.deepEqual(data(ours.text), data(theirs.text), path);
    }
  });

  test('stats count the samples of each step as Prometheus does', async () => {
    const startMillis = nowMillis - (rowsEach + 4) * intervalMillis;
    await peers.write(makeSeries(new SeededRandom(7), startMillis));
    const [start, end] = [startMillis / 1000 + 600, startMillis / 1000 + 1500];
    const different: unknown[] = [];
    for (const query of counted) {
      for (const times of [{ time: `${end}` }, { start: `${start}`, end: `${end}`, step: '100' }]) {
        const { theirs, ours } = await peers.ask({ query, ...times, stats: 'all' });
        if (theirs.status === 'error' && ours.status === 'error') continue;
        const [their, own] = [samplesOf(theirs), samplesOf(ours)];
        if (!isDeepStrictEqual(own, their)) different.push({ query, times, their, own });
      }
    }
    assert.deepEqual(different, []);
    for (const query of countedByBuckets) {
      const { theirs, ours } = await peers.ask({ query, time: `${end}`, stats: 'true' });
      const [their, own] = [samplesOf(theirs), samplesOf(ours)] as Record<string, number>[];
      for (const name of ['totalQueryableSamples', 'samplesRead']) {
        assert.ok(own![name]! <= their![name]! && own![name]! > 0.8 * their![name]!, query);
      }
    }
  });

  test('stats has the fields of Prometheus, and says which values it will not take for long', async () => {
    for (const stats of ['true', 'all', '1']) {
      const { theirs, ours } = await peers.ask({
        query: 'up + 1',
        time: `${nowMillis / 1000}`,
        stats,
      });
      const shapeOf = (answer: any) => ({
        timings: Object.keys(answer.data.stats.timings),
        samples: Object.keys(answer.data.stats.samples),
        warnings: answer.warnings,
      });
      assert.deepEqual(shapeOf(ours), shapeOf(theirs), stats);
    }
    const { ours } = await peers.ask({ query: 'up', time: `${nowMillis / 1000}` });
    assert.ok(!('stats' in (ours as any).data));
  });

  test('label functions and absent make the labels of Prometheus', async () => {
    const time = `${nowMillis / 1000}`;
    for (const query of ofLabels) {
      const { theirs, ours } = await peers.ask({ query, time });
      assert.equal(differenceOf(theirs, ours, null), null, query);
    }
  });

  test('at the edges of the language the answers are those of Prometheus, at one time and over some', async () => {
    const end = nowMillis / 1000;
    for (const query of ofEdges) {
      for (const times of [
        { time: `${end}` },
        { start: `${end - 60}`, end: `${end}`, step: '30' },
        { start: `${end - 20}`, end: `${end}`, step: '30' },
        { start: `${end}`, end: `${end}`, step: '30' },
      ]) {
        const { theirs, ours } = await peers.ask({ query, ...times });
        const what = `${query} ${JSON.stringify(times)}`;
        assert.equal(differenceOf(theirs, ours, null), null, what);
      }
    }
  });

  test('features name what of the language there is, as Prometheus does', async () => {
    const { theirs, ours } = await peers.send('/api/v1/features', {});
    const [their, own] = [JSON.parse(theirs.text).data, JSON.parse(ours.text).data];
    for (const part of ['promql', 'promql_functions', 'promql_operators']) {
      assert.deepEqual(own[part], their[part], part);
    }
    for (const word of Object.keys(own.api)) assert.ok(word in their.api, word);
  });

  test('parse_query and format_query answer with the tree and the text of Prometheus', async () => {
    const different: unknown[] = [];
    for (const query of [...expressions, ...expressionsOfPrometheus()]) {
      for (const path of ['/api/v1/parse_query', '/api/v1/format_query']) {
        const body = new URLSearchParams({ query });
        const { theirs, ours } = await peers.send(path, { method: 'POST', body });
        const [their, own] = [JSON.parse(theirs.text), JSON.parse(ours.text)];
        if (isDeepStrictEqual([theirs.status, their.data], [ours.status, own.data])) continue;
        different.push({ path, query, their, own });
      }
    }
    assert.deepEqual(different, []);
  });
}

/** But for how many were held at once, which is its own of each engine. */
function samplesOf(answer: any): unknown {
  const { peakSamples: _, ...samples } = answer.data?.stats?.samples ?? {};
  return samples;
}

/** Of its own tests, where they are. */
function expressionsOfPrometheus(): string[] {
  const suite = 'promql-parse.json';
  if (!hasSuites(suite)) return [];
  const { cases } = readSuite<{ cases: readonly { readonly expr: string }[] }>(suite);
  return cases.map(({ expr }) => expr);
}
