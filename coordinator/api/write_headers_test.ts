/** M3's headers of writes through the API. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  encodeRemoteWrite,
  encodeRemoteWriteV2,
} from '#engine/write_decoder/remote_write_testing.ts';
import { nowSeconds, type TestAnswer, TestCoordinator } from '../coordinator_testing.ts';

const remotePath = '/api/v1/compat/remote/write';
const v2 = { 'Content-Type': 'application/x-protobuf;proto=io.prometheus.write.v2.Request' };

const tagsOf = (tags: Record<string, string>) =>
  Object.entries(tags).map(([name, value]) => ({ name, value }));

const mapped = (...tagMappers: object[]): Record<string, string> => ({
  'M3-Map-Tags-JSON': JSON.stringify({ tagMappers }),
});

const write = (tag: string, value: string) => ({ write: { tag, value } });

function bodyOf(series: readonly Record<string, string>[]): Uint8Array {
  const timestampMillis = nowSeconds() * 1000;
  return encodeRemoteWrite(
    series.map((tags) => ({ tags: tagsOf(tags), samples: [{ timestampMillis, value: 1 }] })),
  );
}

/** Tags of all series, and how many rows each has. */
const stored = (test: TestCoordinator): string[] =>
  test.node
    .seriesOf('default')
    .map(({ decoded, rows }) =>
      [...decoded.map(({ name, value }) => `${name}=${value}`), rows.size].join(' '),
    )
    .sort();

const ok = ({ status, text }: TestAnswer): void =>
  assert.ok(status === 200 || status === 204, text);

test('tags are written, dropped and replaced in the order of the header', async () => {
  await using test = await TestCoordinator.openReady();
  const series = [
    { __name__: 'cpu', host: 'a', dc: 'old' },
    { __name__: 'cpu', host: 'b', zone: 'z1' },
    { __name__: 'mem', host: 'c', tenant: 'given' },
  ];
  const headers = mapped(
    write('tenant', 'é one'),
    { drop: { tag: 'zone' } },
    { dropWithValue: { tag: 'host', value: 'c' } },
    { dropWithValue: { tag: 'host', value: 'x' } },
    { replace: { tag: 'dc', old: 'old', new: 'new' } },
    { replace: { tag: '__name__', old: 'mem', new: 'memory' } },
  );
  const latin = Buffer.from(headers['M3-Map-Tags-JSON']!).toString('latin1');
  for (let again = 0; again < 2; again++) {
    ok(await test.post(remotePath, bodyOf(series), { 'M3-Map-Tags-JSON': latin }));
  }
  assert.deepEqual(
    stored(test).map((text) => text.replace(/ \d$/, '')),
    [
      '__name__=cpu dc=new host=a tenant=é one',
      '__name__=cpu host=b tenant=é one',
      '__name__=memory tenant=é one',
    ],
  );
});

test('every mapping is its own, and a body without one is as it is', async () => {
  await using test = await TestCoordinator.openReady();
  const body = bodyOf([{ __name__: 'up', job: 'x' }]);
  for (const tenant of ['a', 'b', 'c', 'd', 'e', 'a']) {
    ok(await test.post(remotePath, body, mapped(write('tenant', tenant))));
  }
  ok(await test.post(remotePath, body));
  ok(await test.post(remotePath, body, mapped()));
  assert.deepEqual(
    stored(test),
    [
      ...['a', 'b', 'c', 'd', 'e'].map((tenant) => `__name__=up job=x tenant=${tenant} 1`),
      '__name__=up job=x 1',
    ].sort(),
  );
});

test('exemplars, histograms of version 2.0 and lines of Influx have the tags, too', async () => {
  await using test = await TestCoordinator.openReady();
  const timestampMillis = nowSeconds() * 1000;
  const body = encodeRemoteWriteV2([
    {
      tags: tagsOf({ __name__: 'up' }),
      samples: [{ timestampMillis, value: 1 }],
      exemplars: [{ labels: tagsOf({ trace: 'x' }), value: 1, timestampMillis }],
    },
  ]);
  ok(await test.post(remotePath, body, { ...v2, ...mapped(write('tenant', 'a')) }));
  ok(
    await test.post(
      '/api/v1/influxdb/write',
      Buffer.from('cpu,host=a usage=1,idle=2\nmem,host=b used=3\n'),
      mapped(write('host', 'z')),
    ),
  );
  assert.deepEqual(stored(test), [
    '__name__=cpu_idle host=z 1',
    '__name__=cpu_usage host=z 1',
    '__name__=mem_used host=z 1',
    '__name__=up tenant=a 1',
  ]);
});

test('rows that are bad are named with the tags that they were to get, and the others are written', async () => {
  await using test = await TestCoordinator.openReady();
  const series = [{ __name__: 'good' }, { __name__: 'bad', 'no-name': 'x' }];
  const answer = await test.post(remotePath, bodyOf(series), mapped(write('tenant', 'a')));
  assert.equal(answer.status, 400);
  assert.match(
    answer.json.error,
    /1 of 2 samples were refused, .*: \{.*tenant="a".*tag name does not match/,
  );
  assert.deepEqual(stored(test), ['__name__=good tenant=a 1']);
});

test('headers of writes that make no sense are refused, and change nothing', async () => {
  await using test = await TestCoordinator.openReady();
  const body = bodyOf([{ __name__: 'up' }]);
  for (const [headers, message] of [
    [{ 'M3-Map-Tags-JSON': '{' }, /^header M3-Map-Tags-JSON: the request body is not JSON/],
    [{ 'TSDB-Map-Tags-JSON': '{"mappers":[]}' }, /unknown field: mappers/],
    [mapped({}), /tagMappers\[0\]: not exactly one of write, drop, dropWithValue and replace: 0/],
    [mapped({ write: { tag: 'a', value: 'b' }, drop: { tag: 'c' } }), /not exactly one of .*: 2/],
    [mapped({ write: { tag: 'a' } }), /tagMappers\[0\]\.write\.value: missing/],
    [mapped(write('__type__', 'x')), /tagMappers\[0\]\.write\.tag: tag names that begin with "__"/],
    [mapped({ rename: { tag: 'a' } }), /unknown field: tagMappers\[0\]\.rename/],
    [{ ...mapped(write('a', 'b')), 'TSDB-Map-Tags-JSON': '{"tagMappers":[]}' }, /differ/],
    [
      { 'M3-Write-Type': 'aggregate' },
      /^header M3-Write-Type: not supported: a mapping rule with drop/,
    ],
    [{ 'TSDB-Write-Type': 'x' }, /neither default nor aggregate: x/],
    [{ 'Prometheus-Metric-Type': 'count' }, /none of counter, gauge, .*: count/],
    [{ 'M3-Metrics-Type': 'aggregated', 'M3-Storage-Policy': '1m:40d' }, /not supported here/],
  ] as const) {
    const answer = await test.post(remotePath, body, headers);
    assert.equal(answer.status, 400, JSON.stringify(headers));
    assert.match(answer.json.error, message);
  }
  assert.deepEqual(stored(test), []);
  const passed = {
    'M3-Write-Type': 'default',
    'Prometheus-Metric-Type': 'counter',
    'M3-Metrics-Type': 'unaggregated',
  };
  ok(await test.post(remotePath, body, passed));
  const others = await test.post(
    '/api/v1/json/write',
    { tags: { a: 'b' }, timestamp: nowSeconds(), value: 1 },
    mapped(),
  );
  assert.equal(others.status, 400);
});
