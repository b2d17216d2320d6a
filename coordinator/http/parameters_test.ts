import assert from 'node:assert/strict';
import { test } from 'node:test';
import { unlimitedReadBytes } from '#lib/read_memory/read_memory.ts';
import { type ApiCall, parametersOf } from './http_api.ts';
import {
  durationMillis,
  headerText,
  millisOfNanos,
  millisOfParameter,
  timestampParameter,
} from './parameters.ts';

function request(
  url: string,
  headers: Record<string, string> = {},
  form: string | null = null,
): ApiCall {
  const type = form === null ? {} : { 'content-type': 'application/x-www-form-urlencoded' };
  const all: Record<string, string> = { ...type, ...headers };
  return {
    method: form === null ? 'GET' : 'POST',
    pathParameters: {},
    urlParameters: new URLSearchParams(url),
    header: (name) => all[name] ?? '',
    hasHeader: (name) => all[name] !== undefined,
    body: async () => Buffer.from(form ?? ''),
    signal: new AbortController().signal,
    readMemory: unlimitedReadBytes,
  };
}

test('parametersOf() puts the form before the URL and decodes both', async () => {
  const both = await parametersOf(request('a=url&b=2', {}, 'a=form+%2B+%C3%A9'));
  assert.equal(both.get('a'), 'form + é');
  assert.deepEqual(both.getAll('a'), ['form + é', 'url']);
  assert.equal(both.get('b'), '2');
});

test('durationMillis() takes Go durations and seconds', () => {
  assert.equal(durationMillis('1m30s', 'step'), 90_000);
  assert.equal(durationMillis('1d', 'step'), 86_400_000);
  assert.equal(durationMillis('0.25', 'step'), 250);
  assert.equal(durationMillis('1e2', 'step'), 100_000);
  assert.equal(durationMillis('500us', 'step'), 0.5);
  assert.throws(() => durationMillis('ten', 'step'), /step: .*"ten"/);
});

test('timestampParameter() knows now, defaults and missing ones', () => {
  const at = (text: string, absent: bigint | null = null): bigint =>
    timestampParameter(new URLSearchParams(text), 't', 77n, absent);
  assert.equal(at('t=now'), 77n);
  assert.equal(at('t=1.5'), 1_500_000_000n);
  assert.equal(at('', 5n), 5n);
  assert.throws(() => at(''), /missing required parameter: t/);
});

test('millisOfNanos() rounds down on both sides of zero', () => {
  assert.equal(millisOfNanos(1_999_999n), 1);
  assert.equal(millisOfNanos(-1n), -1);
  assert.equal(millisOfNanos(-1_000_000n), -1);
});

test('headerText() leaves nothing that would break a header', () => {
  assert.equal(headerText('a\r\nb\u00e9'), 'a??b?');
});

test('millisOfParameter() rounds seconds as Prometheus does, and cuts off what dates have beyond milliseconds', () => {
  const cases: readonly [text: string, millis: number][] = [
    ['1795670676.5555', 1_795_670_676_556],
    ['1795670676.5554', 1_795_670_676_555],
    ['0.0005', 1],
    ['-0.0005', -1],
    ['17e-1', 1700],
    ['2026-11-26T05:00:00.5559Z', Date.parse('2026-11-26T05:00:00.555Z')],
    ['now', 42],
  ];
  for (const [text, millis] of cases) {
    const parameters = new URLSearchParams({ t: text });
    const nanos = timestampParameter(parameters, 't', 42_900_000n, null);
    assert.equal(millisOfParameter(parameters, 't', nanos), millis, text);
  }
});
