import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allDialects } from '../lines/names.ts';
import { LineReader } from '../lines/reader.ts';
import { mappingOf } from '../mapping/file.ts';
import { PrometheusSeries } from './prometheus.ts';

class Statsd {
  readonly series: PrometheusSeries;
  readonly #reader: LineReader;

  constructor(mapping?: object, seriesMax = 1000, labels: Record<string, string> = {}) {
    this.series = new PrometheusSeries(mappingOf(mapping, 'mapping'), labels, seriesMax);
    this.#reader = new LineReader(this.series, allDialects, 1);
  }

  send(nowMillis: number, ...lines: string[]): void {
    this.series.nowMillis = nowMillis;
    this.#reader.read(Buffer.from(lines.join('\n')));
  }

  /** Sorted, of series whose names have this. */
  flush(nowMillis: number, has = ''): string[] {
    for (const isAny of this.series.forgetIdle(nowMillis)) if (isAny) this.#reader.forget();
    return [...this.series.lines(() => nowMillis)]
      .flatMap((lines) => [...lines])
      .map((line) => line.trimEnd())
      .filter((line) => line.includes(has))
      .sort();
  }

  refused(): Record<string, number> {
    const all: Record<string, number> = {};
    const counter = {
      increase: (by = 1, labels: Record<string, string> = {}) => (all[labels['reason'] ?? ''] = by),
    };
    const none = { increase: () => {} };
    this.series.counts.tell({
      lines: none,
      samples: none,
      refusedSamples: counter,
      refusedParts: none,
      packets: none,
      lateFlushes: none,
    } as never);
    return all;
  }
}

test('counters grow from a 0 at their first event, by their rates; gauges are set and changed', () => {
  const statsd = new Statsd();
  statsd.send(
    1000,
    'web.hits:1|c',
    'web.hits:2|c|@0.1|#dc:eu',
    'web.hits:1|c',
    'load:5|g',
    'load:-2|g',
    'load:+1.5|g',
  );
  assert.deepEqual(statsd.flush(10_000), [
    'load 4.5 10000',
    'web_hits 0 1000',
    'web_hits 2 10000',
    'web_hits{dc="eu"} 0 1000',
    'web_hits{dc="eu"} 20 10000',
  ]);
  statsd.send(11_000, 'web.hits:5|c');
  assert.deepEqual(statsd.flush(20_000, 'web_hits '), ['web_hits 7 20000']);
});

test('timers are summaries in seconds, whose quantiles forget; histograms as rules say', () => {
  const statsd = new Statsd({
    mappings: [
      {
        match: 'h.*',
        name: 'h',
        labels: { what: '$1' },
        observer_type: 'histogram',
        buckets: [0.1, 1],
      },
    ],
  });
  for (let i = 1; i <= 100; i++) statsd.send(1000, `t:${i}|ms`, `h.a:${i * 20}|ms|@0.5`);
  statsd.send(1000, 'h.a:0.1|h');
  const flushed = statsd.flush(10_000);
  const value = (name: string): number => {
    const line = flushed.find((each) => each.startsWith(`${name} `) && each.endsWith(' 10000'));
    return Number(line?.split(' ')[1]);
  };
  assert.ok(Math.abs(value('t{quantile="0.5"}') - 0.05) < 0.0006);
  assert.ok(Math.abs(value('t{quantile="0.99"}') - 0.099) < 0.0011);
  assert.equal(value('t_count'), 100);
  assert.ok(Math.abs(value('t_sum') - 5.05) < 1e-9);
  assert.deepEqual(
    flushed.filter((line) => line.startsWith('h_bucket') && line.endsWith(' 10000')),
    [
      'h_bucket{what="a",le="+Inf"} 201 10000',
      'h_bucket{what="a",le="0.1"} 11 10000',
      'h_bucket{what="a",le="1"} 101 10000',
    ],
  );
  assert.ok(flushed.includes('h_bucket{what="a",le="1"} 0 1000'));
  assert.deepEqual(statsd.flush(700_000, 't{quantile="0.5"}'), ['t{quantile="0.5"} NaN 700000']);
  assert.deepEqual(statsd.flush(700_001, 't_count'), ['t_count 100 700001']);
});

test('sets are how many members came since the last flush', () => {
  const statsd = new Statsd();
  statsd.send(1, 'users:a|s', 'users:b|s', 'users:a|s');
  assert.deepEqual(statsd.flush(10_000), ['users 2 10000']);
  statsd.send(1, 'users:a|s');
  assert.deepEqual(statsd.flush(20_000), ['users 1 20000']);
  assert.deepEqual(statsd.flush(30_000), ['users 0 30000']);
});

test('what cannot be kept is counted by its reason, and changes nothing', () => {
  const statsd = new Statsd({ mappings: [{ match: 'noise', action: 'drop' }] }, 4);
  statsd.send(
    1,
    'a:1|c',
    'a:-1|c',
    'a:1|g',
    't:1|ms',
    't_count:1|c',
    't:1|ms|#quantile:x',
    'noise:1|c',
    't:NaN|ms',
    'g:1|g',
    'g2:1|g',
    'g3:1|g',
    'g3:1|g',
    'bad',
    '_e{5,4}:title|text|#a:b',
    '_sc|check|0',
  );
  assert.deepEqual(statsd.refused(), {
    negative_counter: 1,
    conflicting_type: 2,
    reserved_label: 1,
    dropped_by_mapping: 1,
    not_finite: 1,
    too_many_series: 2,
    malformed_line: 1,
    event: 1,
    service_check: 1,
  });
  assert.equal(statsd.series.seriesCount, 4);
  assert.deepEqual(statsd.flush(10, 'a '), ['a 0 1', 'a 1 10']);
});

test('a series goes when nothing came of it for its time, and begins anew', () => {
  const statsd = new Statsd({ defaults: { ttl: '1m' } });
  statsd.send(0, 'a:1|c', 'b:1|c');
  assert.equal(statsd.flush(10_000).length, 4);
  statsd.send(30_000, 'b:1|c');
  assert.deepEqual(statsd.flush(60_000), ['b 2 60000']);
  statsd.send(70_000, 'a:1|g');
  assert.deepEqual(statsd.flush(80_000), ['a 1 80000', 'b 2 80000']);
});

test('a series whose time is shorter than a flush is written before it goes', () => {
  const statsd = new Statsd({ defaults: { ttl: '1s' } });
  statsd.send(0, 'a:1|c', 's:x|s', 't:5|ms');
  assert.deepEqual(statsd.flush(10_000, 'a '), ['a 0 0', 'a 1 10000']);
  statsd.send(10_500, 'a:1|c');
  // The others were written, and nothing came of them since.
  assert.deepEqual(statsd.flush(20_000), ['a 2 20000']);
  assert.equal(statsd.series.seriesCount, 1);
  assert.deepEqual(statsd.flush(30_000), []);
});

test('labels are written as they came, and those of rules win unless it is said otherwise', () => {
  const mappings = [{ match: 'm', name: 'm', labels: { dc: 'rule', empty: '' } }];
  for (const [honor, dc] of [
    [false, 'rule'],
    [true, 'line\\\\\\"'],
  ] as const) {
    const statsd = new Statsd({ defaults: { honor_labels: honor }, mappings });
    statsd.send(0, 'm:1|g|#dc:line\\"');
    assert.deepEqual(statsd.flush(1), [`m{dc="${dc}"} 1 1`]);
  }
});

test('labels of the configuration are of all metrics that have none of that name', () => {
  const statsd = new Statsd(undefined, 10, { pod: 'a', env: 'prod' });
  statsd.send(0, 'm:1|g', 'm:2|g|#env:dev');
  assert.deepEqual(statsd.flush(1), ['m{env="dev",pod="a"} 2 1', 'm{env="prod",pod="a"} 1 1']);
});

test('sums stay numbers, and a 0 is not far before the first rows', () => {
  const statsd = new Statsd();
  statsd.send(0, 'c:1e308|c', 'c:1e308|c', 't:1e308|h', 't:1e308|h');
  assert.deepEqual(statsd.refused(), { not_finite: 2 });
  assert.deepEqual(statsd.flush(3_600_000, 'c '), ['c 0 3540000', 'c 1e+308 3600000']);
  assert.deepEqual(statsd.flush(3_600_001, 't_sum'), ['t_sum 1e+308 3600001']);
});

test('of two rules that make one series each has its own scale', () => {
  const statsd = new Statsd({
    mappings: [
      { match: 'a.ms', name: 'lat', scale: 0.001 },
      { match: 'a.s', name: 'lat' },
    ],
  });
  statsd.send(0, 'a.ms:500|g');
  assert.deepEqual(statsd.flush(1), ['lat 0.5 1']);
  for (let i = 0; i < 2; i++) {
    statsd.send(0, 'a.s:5|g');
    assert.deepEqual(statsd.flush(2), ['lat 5 2']);
  }
});
