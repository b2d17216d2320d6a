import assert from 'node:assert/strict';
import { test } from 'node:test';
import { unlimitedReadBytes } from '#lib/read_memory/read_memory.ts';
import type { ApiRequest } from '../http/http_api.ts';
import {
  type QuerySettings,
  rangeMillisMaxOf,
  type ReadOptions,
  readOptionsOf,
} from './options.ts';

const settings: QuerySettings = {
  timeoutMillis: 30_000,
  lookbackMillis: 300_000,
  seriesMax: 100,
  rangeMillisMax: 0,
  requireExhaustive: true,
};

const request = (headers: Record<string, string> = {}): ApiRequest => ({
  method: 'GET',
  pathParameters: {},
  urlParameters: new URLSearchParams(),
  header: (name) => headers[name] ?? '',
  signal: new AbortController().signal,
  readMemory: unlimitedReadBytes,
});

const optionsOf = (url: string, headers: Record<string, string> = {}): ReadOptions =>
  readOptionsOf(request(headers), new URLSearchParams(url), settings);

test('the tightest limit on series counts, whoever says it', () => {
  const of = (url: string, headers: Record<string, string> = {}): number =>
    optionsOf(url, headers).limits.seriesMax;
  assert.equal(of(''), 100);
  assert.equal(of('limit=7'), 7);
  assert.equal(of('limit=700'), 100);
  assert.equal(of('limit=0'), 100);
  assert.equal(of('seriesLimit=8&limit=2'), 8);
  assert.equal(of('seriesLimit=8', { 'm3-limit-max-series': '3' }), 3);
  assert.equal(of('seriesLimit=2', { 'm3-limit-max-series': '3' }), 2);
  assert.equal(of('', { 'tsdb-limit-max-series': '4', 'm3-limit-max-series': '3' }), 3);
  assert.equal(of('docsLimit=5&limit=6'), 5);
  assert.equal(of('limit=6', { 'm3-limit-max-docs': '4' }), 4);
  assert.throws(() => of('limit=1.5'), /^TsdbError: limit: not a whole number: 1\.5/);
  assert.throws(
    () => of('', { 'm3-limit-max-series': '-1' }),
    /^TsdbError: header M3-Limit-Max-Series: not a whole number: -1/,
  );
});

test('an answer in part is asked for by a header before a parameter', () => {
  const of = (url: string, headers: Record<string, string> = {}): boolean =>
    optionsOf(url, headers).limits.requireExhaustive;
  assert.equal(of(''), true);
  assert.equal(of('requireExhaustive=false'), false);
  assert.equal(of('requireExhaustive=false', { 'm3-limit-require-exhaustive': 'true' }), true);
  assert.equal(of('requireExhaustive=true', { 'm3-limit-require-exhaustive': 'false' }), false);
  const both = { 'm3-limit-require-exhaustive': 'false', 'tsdb-limit-require-exhaustive': 'true' };
  assert.equal(of('', both), true);
});

test('the shortest deadline counts, and the shortest range', () => {
  const timeout = (url: string, headers: Record<string, string> = {}): number =>
    optionsOf(url, headers).timeoutMillis;
  assert.equal(timeout(''), 30_000);
  assert.equal(timeout('timeout=2m'), 120_000);
  assert.equal(timeout('timeout=2m', { 'm3-timeout': '10s' }), 10_000);
  assert.throws(
    () => timeout('', { 'm3-timeout': '0' }),
    /header M3-Timeout: must be at least 1ms/,
  );
  const range = (url: string, headers: Record<string, string>): number =>
    rangeMillisMaxOf(request(headers), new URLSearchParams(url), settings);
  assert.equal(range('', {}), 0);
  assert.equal(range('rangeLimit=1h', { 'm3-limit-max-range': '1m' }), 60_000);
});

test('levels of consistency are those of the specification, and any other is refused', () => {
  const of = (headers: Record<string, string>, url = ''): unknown =>
    optionsOf(url, headers).limits.consistency;
  assert.equal(of({}), undefined);
  assert.equal(of({}, 'readConsistencyLevel=one'), 'one');
  const all = { 'm3-read-consistency-level': 'all' };
  assert.equal(of(all, 'readConsistencyLevel=one'), 'all', 'headers come first, as in M3');
  assert.throws(
    () => of({}, 'readConsistencyLevel=most'),
    /^TsdbError: readConsistencyLevel: none of none, one, .*: most/,
  );
  assert.equal(of({ 'm3-read-consistency-level': 'unstrict_all' }), 'unstrict_all');
  assert.throws(
    () => of({ 'm3-read-consistency-level': 'MOST' }),
    /^TsdbError: header M3-Read-Consistency-Level: none of none, one, .*: MOST/,
  );
  assert.throws(
    () => of({ ...all, 'tsdb-read-consistency-level': 'one' }),
    /header \S+ and header \S+ differ/,
  );
});

test('related queries are times of others that change nothing, in the form that M3 has', () => {
  const of = (value: string, more: Record<string, string> = {}) =>
    optionsOf('', { 'm3-related-queries': value, ...more });
  const pair = '1635160222:1635166222';
  assert.deepEqual(of(pair).limits.seriesMax, optionsOf('').limits.seriesMax);
  of(`${pair};1635161222.5:1635161222.5`);
  for (const [value, message] of [
    [
      '1635160222',
      /^TsdbError: header M3-Related-Queries: not start:end in Unix seconds: 1635160222/,
    ],
    [`${pair};`, /not start:end in Unix seconds/],
    ['2m:6m', /^TsdbError: header M3-Related-Queries: not unix seconds or .*: "2m"/],
    ['1635160222:6m', /: "6m"/],
    ['1635166222:1635160222', /its start is after its end: 1635166222:1635160222/],
  ] as const) {
    assert.throws(() => of(value), message, value);
  }
  assert.throws(
    () => of(pair, { 'tsdb-metrics-type': 'unaggregated' }),
    /header M3-Related-Queries: TSDB-Metrics-Type is given, too/,
  );
});

test('rows of one time are told apart in no other way than the one that replicas have', () => {
  const of = (value: string) => optionsOf('', { 'm3-iterate-equal-timestamp-strategy': value });
  of('iterate_last_pushed');
  assert.throws(() => of('iterate_highest_value'), /not supported but iterate_last_pushed/);
  for (const name of ['iterateEqualTimestampStrategy', 'iterateEqualTimestampStrategyHeader']) {
    optionsOf(`${name}=iterate_last_pushed`, {});
    assert.throws(
      () => optionsOf(`${name}=iterate_lowest_value`, {}),
      new RegExp(`^TsdbError: ${name}: not supported but iterate_last_pushed`),
    );
  }
});
