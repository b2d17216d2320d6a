import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rowOutcome } from '#cluster/node/service.ts';
import { encodeRemoteWriteV2 } from '#engine/write_decoder/remote_write_testing.ts';
import { encodeSnappy } from '#engine/write_decoder/snappy.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import type { Tag } from '#lib/tags.ts';
import { Turns } from '#lib/turns/turns.ts';
import { nowSeconds, TestCoordinator } from '../coordinator_testing.ts';
import { MessageWriter, writeLabels } from '#engine/prometheus_messages/message_writer.ts';
import { rowsOfJson } from './json/write.ts';

const path = '/api/v1/json/write';
const remotePath = '/api/v1/compat/remote/write';
const v2 = {
  'Content-Type': 'application/x-protobuf;proto=io.prometheus.write.v2.Request',
  'Content-Encoding': 'snappy',
  'X-Prometheus-Remote-Write-Version': '2.0.0',
};

interface RemoteSeries {
  readonly tags: readonly Tag[];
  readonly samples: readonly { readonly millis: number; readonly bits: bigint }[];
}

function bitsOf(value: number): bigint {
  return new BigUint64Array(new Float64Array([value]).buffer)[0]!;
}

/** A remote-write body, as Prometheus makes it. */
function remoteWriteBody(all: readonly RemoteSeries[]): Uint8Array {
  const body = new MessageWriter();
  for (const { tags, samples } of all) {
    const series = new MessageWriter();
    writeLabels(series, tags);
    for (const { millis, bits } of samples) {
      const sample = new MessageWriter();
      sample.doubleField(1, Number(bits & 0xffff_ffffn), Number(bits >> 32n));
      sample.int64Field(2, millis);
      series.bytesField(2, sample.finish());
    }
    body.bytesField(1, series.finish());
  }
  return encodeSnappy(body.finish());
}

const tagsOf = (tags: Record<string, string>): Tag[] =>
  Object.entries(tags).map(([name, value]) => ({ name, value }));

const staleMarkerBits = 0x7ff0_0000_0000_0002n;

test('json/write takes numbers and text for the time, and one object or a list', async () => {
  await using test = await TestCoordinator.openReady();
  const now = nowSeconds();
  const tags = { __name__: 'm', host: 'a' };
  const bodies = [
    { tags, timestamp: now, value: 1 },
    { tags, timestamp: String(now + 1), value: 2 },
    { tags, timestamp: new Date((now + 2) * 1000).toISOString(), value: 3 },
    { tags, timestamp: now + 3.25, value: 4 },
    [
      { tags, timestamp: now + 4, value: 5 },
      { tags: { ...tags, host: 'b' }, timestamp: now + 4, value: 6 },
    ],
  ];
  for (const body of bodies) {
    const answer = await test.post(path, body);
    assert.deepEqual([answer.status, answer.text], [200, ''], answer.text);
  }
  const [a, b] = test.node.seriesOf('default');
  const start = BigInt(now) * 1_000_000_000n;
  assert.deepEqual(
    [...a!.rows].map(([nanos, bits]) => [nanos - start, bits]),
    [
      [0n, bitsOf(1)],
      [1_000_000_000n, bitsOf(2)],
      [2_000_000_000n, bitsOf(3)],
      [3_250_000_000n, bitsOf(4)],
      [4_000_000_000n, bitsOf(5)],
    ],
  );
  assert.equal(b!.rows.size, 1);
});

test('a body that is encoded is refused by the name of its encoding', async () => {
  await using test = await TestCoordinator.openReady();
  const body = JSON.stringify({ tags: { __name__: 'cpu' }, timestamp: 1, value: 1 });
  for (const encoding of ['gzip', 'snappy', 'br']) {
    const { status, json } = await test.post(path, body, { 'Content-Encoding': encoding });
    assert.equal(status, 400);
    assert.match(json.error, new RegExp(`header Content-Encoding: .*without ${encoding}`));
  }
  const form = { 'Content-Type': 'application/x-www-form-urlencoded', 'Content-Encoding': 'gzip' };
  const query = await test.post('/api/v1/query', 'query=1', form);
  assert.deepEqual([query.status, query.json.errorType], [400, 'bad_data']);
});

test('json/write refuses what JSON.parse would take for something else, row by row', async () => {
  await using test = await TestCoordinator.openReady();
  const now = nowSeconds();
  const good = `{"tags":{"__name__":"good"},"timestamp":${now},"value":1}`;
  const long = 'k'.repeat(100_000);
  const bad: [string, RegExp][] = [
    [
      `{"tags":{"a":"b"},"timestamp":${now},"value":1,"value":2}`,
      /key is given twice: \\"value\\"/,
    ],
    [`{"tags":{"a":"1","a":"2"},"timestamp":${now},"value":1}`, /key is given twice: \\"a\\"/],
    [`{"tags":{"a":"b"},"timestamp":${now},"value":1e400}`, /value: out of range/],
    [`{"tags":{"a":"b"},"timestamp":${now},"value":-1e400}`, /value: out of range/],
    [`{"tags":{"a":"b"},"timestamp":1e400,"value":1}`, /timestamp: out of range/],
    [`{"tags":{"a":"\\ud800x"},"timestamp":${now},"value":1}`, /tags\.a: not Unicode.*\\\\ud800x/],
    [`{"tags":{"\\udc00":"x"},"timestamp":${now},"value":1}`, /not Unicode/],
    [`{"${long}":1,"tags":{"a":"b"},"timestamp":${now},"value":1}`, /unknown field: kkk/],
    [`{"tags":{"${long}":1},"timestamp":${now},"value":1}`, /tags\.kkk/],
    [`{"tags":{"${long}-":"1"},"timestamp":${now},"value":1}`, /does not match/],
    [`{"tags":{"a":"b"},"timestamp":"${long}","value":1}`, /timestamp: not unix seconds/],
    [
      `{"tags":{"a":"b"},"timestamp":${now},"value":[${'1,'.repeat(5_000)}1]}`,
      /value: not a number/,
    ],
  ];
  for (const [row, reason] of bad) {
    const { status, text } = await test.post(path, row);
    assert.equal(status, 400, row.slice(0, 100));
    assert.match(text, reason);
    assert.ok(text.length < 1000, text.slice(0, 100));
  }
  const rows = [bad[0]![0], good, bad[1]![0]];
  const answer = await test.post(path, `[${rows.join(',')}]`);
  assert.equal(answer.status, 400);
  assert.match(
    answer.text,
    /2 of 3 samples were refused, the others were written: row 0: .*"value\\"; row 2: .*"a\\"/,
  );
  assert.equal(test.node.seriesOf('default').length, 1);
});

test('bodies that are nested without end are refused at once', async () => {
  await using test = await TestCoordinator.openReady();
  const deep = '['.repeat(8_000_000) + ']'.repeat(8_000_000);
  const bodies: [string, string][] = [
    [path, deep],
    [path, `{"tags":{"a":"b"},"timestamp":1,"value":${deep.slice(1, -1)}}`.slice(0, 16_000_000)],
    ['/api/v1/database/create', '{"namespaceName":'.repeat(200_000)],
    ['/api/v1/kvstore', `{"key":"x","value":${'{"a":'.repeat(300_000)}`],
  ];
  for (const [to, body] of bodies) {
    const started = performance.now();
    const { status, text } = await test.post(to, body);
    assert.equal(status, 400);
    assert.match(
      text,
      /nested more than 256 deep|more than 10000 values|longer than 4194304 bytes/,
    );
    assert.ok(performance.now() - started < 5_000);
  }
  const twice = await test.post(
    '/api/v1/database/create',
    '{"namespaceName":"a","namespaceName":"b"}',
  );
  assert.equal(twice.status, 400);
  assert.match(twice.text, /key is given twice: .*namespaceName/);
});

test('rowsOfJson() keeps the digits of a time that a float would round', async () => {
  const nanosOf = async (timestamp: unknown): Promise<bigint> => {
    const body = JSON.stringify({ tags: { a: 'b' }, timestamp, value: 0 });
    const work = Turns.of(realEnv.clock).begin(new AbortController().signal);
    return (await rowsOfJson(Buffer.from(body), work)).rows.floats[0]!.timestampNanos;
  };
  assert.equal(await nanosOf(1_534_952_005.123), 1_534_952_005_123_000_000n);
  assert.equal(await nanosOf('1534952005.123456789'), 1_534_952_005_123_456_789n);
  assert.equal(await nanosOf(-5), -5_000_000_000n);
  assert.equal(await nanosOf(0), 0n);
  assert.equal(await nanosOf(2.5e-7), 250n);
});

test('json/write names what is wrong with a row', async () => {
  await using test = await TestCoordinator.openReady();
  const good = { tags: { a: 'b' }, timestamp: nowSeconds(), value: 1 };
  const cases: [object, RegExp][] = [
    [{ ...good, tags: undefined }, /missing required field: tags/],
    [{ ...good, timestamp: undefined }, /missing required field: timestamp/],
    [{ ...good, value: undefined }, /missing required field: value/],
    [{ ...good, tags: {} }, /at least one tag/],
    [{ ...good, tags: { a: 1 } }, /tags\.a: not a string: 1/],
    [{ ...good, tags: ['a'] }, /tags: not an object/],
    [{ ...good, tags: { 'bad-name': 'x' } }, /does not match .*"bad-name"/],
    [{ ...good, tags: { __secret: 'x' } }, /reserved: "__secret"/],
    [{ ...good, tags: { a: '' } }, /tag value is empty: a/],
    [{ ...good, timestamp: 'soon' }, /timestamp: .*"soon"/],
    [{ ...good, timestamp: true }, /timestamp: not a number or text: true/],
    [{ ...good, timestamp: 1e300 }, /timestamp: out of range/],
    [{ ...good, timestamp: '9999-12-31T23:59:59Z' }, /timestamp: .*out of range.*"9999-/],
    [{ ...good, timestamp: 1e10 }, /timestamp: .*out of range.*"10000000000"/],
    [{ ...good, value: '1' }, /value: not a number, or an object: "1"/],
    [{ ...good, extra: 1 }, /unknown field: extra/],
  ];
  for (const [body, reason] of cases) {
    const answer = await test.post(path, body);
    assert.equal(answer.status, 400, JSON.stringify(body));
    assert.match(answer.json.error, reason);
  }
  assert.equal(test.node.writeCount, 0);
});

test('a list keeps its good rows and names its bad ones', async () => {
  await using test = await TestCoordinator.openReady();
  const now = nowSeconds();
  const answer = await test.post(path, [
    { tags: { a: 'good' }, timestamp: now, value: 1 },
    { tags: { 'b-d': 'x' }, timestamp: now, value: 1 },
    { tags: { a: 'b' }, timestamp: now },
  ]);
  assert.equal(answer.status, 400);
  assert.match(answer.json.error, /^2 of 3 samples were refused, the others were written: /);
  assert.match(answer.json.error, /row 2: missing required field: value/);
  assert.match(answer.json.error, /\{b-d="x"\}: tag name does not match/);
  assert.equal(test.node.seriesOf('default').length, 1);
});

test('remote write stores samples bit for bit, stale markers too', async () => {
  await using test = await TestCoordinator.openReady();
  const millis = nowSeconds() * 1000;
  const body = remoteWriteBody([
    {
      tags: tagsOf({ __name__: 'up', job: 'node' }),
      samples: [
        { millis, bits: bitsOf(1) },
        { millis: millis + 1, bits: staleMarkerBits },
      ],
    },
  ]);
  const answer = await test.post(remotePath, body, {
    'Content-Type': 'application/x-protobuf',
    'Content-Encoding': 'snappy',
    'X-Prometheus-Remote-Write-Version': '0.1.0',
  });
  assert.deepEqual([answer.status, answer.text], [200, '']);
  const [series] = test.node.seriesOf('default');
  assert.deepEqual([...series!.rows.values()], [bitsOf(1), staleMarkerBits]);
});

test('nothing is said of others when every sample is refused', async () => {
  await using test = await TestCoordinator.openReady();
  const millis = nowSeconds() * 1000;
  const samples = [{ millis, bits: bitsOf(1) }];
  const body = remoteWriteBody([{ tags: tagsOf({ 'b-d': 'x' }), samples }]);
  const answer = await test.post(remotePath, body);
  assert.equal(answer.status, 400);
  assert.match(answer.json.error, /^1 of 1 samples were refused: \{b-d="x"\}: tag name does not/);
  assert.equal(test.node.writeCount, 0);
});

test('remote write keeps good rows and names bad series, a limited number of them', async () => {
  await using test = await TestCoordinator.openReady();
  const millis = nowSeconds() * 1000;
  const samples = [{ millis, bits: bitsOf(1) }];
  const bad = Array.from({ length: 50 }, (_, i) => ({
    tags: tagsOf({ __name__: 'm', [`bad-${i}`]: 'x' }),
    samples,
  }));
  const good = { tags: tagsOf({ __name__: 'm' }), samples };
  const answer = await test.post(remotePath, remoteWriteBody([good, ...bad]));
  assert.equal(answer.status, 400);
  assert.match(answer.json.error, /^50 of 51 samples were refused/);
  assert.match(answer.json.error, /"bad-19"/);
  assert.doesNotMatch(answer.json.error, /"bad-20"/);
  assert.match(answer.json.error, /and 30 more$/);
  assert.equal(test.node.seriesOf('default').length, 1);
  assert.equal(test.node.seriesOf('default')[0]!.rows.size, 1);
});

test('rows that the nodes refuse for their time are named with series and time', async () => {
  await using test = await TestCoordinator.openReady();
  const now = nowSeconds();
  const limit = BigInt(now) * 1_000_000_000n;
  test.node.outcomeOf = (nanos) => (nanos < limit ? rowOutcome.tooFarPast : rowOutcome.written);
  const tags = tagsOf({ __name__: 'm', host: 'h' });
  const samples = [
    { millis: now * 1000 - 1, bits: bitsOf(1) },
    { millis: now * 1000, bits: bitsOf(2) },
  ];
  const answer = await test.post(remotePath, remoteWriteBody([{ tags, samples }]));
  assert.equal(answer.status, 400);
  const expected = `1 of 2 samples were refused, the others were written: {__name__="m", host="h"} at ${now - 1}.999: datapoint too far in past: off_by=`;
  assert.equal(answer.json.error.slice(0, expected.length), expected);
  assert.match(answer.json.error, /off_by=\d+m?s, past_limit=\d+(\.\d+)?$/);
  assert.equal(test.node.seriesOf('default')[0]!.rows.size, 1);
});

test('a row that is past the retention of one namespace is not refused where another one keeps it', async () => {
  await using test = await TestCoordinator.openReady();
  const namespacePath = '/api/v1/services/tsdb/namespace';
  const retentionOptions = {
    retentionPeriodDuration: '1h',
    blockSizeDuration: '10m',
    bufferPastDuration: '5m',
    bufferFutureDuration: '2m',
  };
  const options = { retentionOptions, coldWritesEnabled: true };
  await test.post(namespacePath, { name: 'short', options });
  assert.equal((await test.post(`${namespacePath}/ready`, { name: 'short' })).status, 200);
  await test.topology.until(
    ({ namespaces }) => namespaces.get('short')?.options.stagingStatus === 'READY',
    AbortSignal.timeout(5_000),
  );
  const now = nowSeconds();
  const hourAgo = BigInt(now - 3_600) * 1_000_000_000n;
  const refuses = (name: string) => (nanos: bigint, namespace: string) =>
    nanos < hourAgo && (name === '' || namespace === name)
      ? rowOutcome.tooFarPast
      : rowOutcome.written;
  const body = [now, now - 7_200].map((timestamp) => ({
    tags: { __name__: 'm' },
    timestamp,
    value: 1,
  }));
  test.node.outcomeOf = refuses('short');
  const taken = await test.post(path, body);
  assert.equal(taken.status, 200, taken.text);
  // Whoever keeps rows longest says that it is too old for all.
  for (const name of ['', 'default']) {
    test.node.outcomeOf = refuses(name);
    const refused = await test.post(path, body);
    assert.equal(refused.status, 400, refused.text);
    assert.match(refused.json.error, /^1 of 2 samples were refused/);
  }
});

test('a passing failure of any row asks the client to try again, bad rows or not', async () => {
  await using test = await TestCoordinator.openReady(
    '{clusters: [{client: {writeTimeout: 300ms}}]}',
  );
  const tags = tagsOf({ __name__: 'm' });
  const millis = nowSeconds() * 1000;
  const body = remoteWriteBody([
    { tags, samples: [{ millis, bits: 0n }] },
    { tags: tagsOf({ 'b-d': 'x' }), samples: [{ millis, bits: 0n }] },
  ]);
  test.node.outcomeOf = () => rowOutcome.resourceExhausted;
  const full = await test.post(path, { tags: { a: 'b' }, timestamp: nowSeconds(), value: 1 });
  assert.equal(full.status, 429, full.text);
  assert.equal(full.headers['retry-after'], '5');
  const v2 = {
    'Content-Type': 'application/x-protobuf;proto=io.prometheus.write.v2.Request',
  };
  const bodyV2 = encodeRemoteWriteV2([{ tags, samples: [{ timestampMillis: millis, value: 0n }] }]);
  for (const [bytes, headers] of [
    [body, {}],
    [bodyV2, v2],
  ] as const) {
    // Prometheus would drop a batch that gets 429.
    const answer = await test.post(remotePath, bytes, headers);
    assert.equal(answer.status, 503, answer.text);
    assert.match(answer.json.error, /a limit of the storage nodes is reached/);
    assert.equal(answer.headers['retry-after'], '5');
  }
  test.node.failure = new TsdbError('UNAVAILABLE', 'disk is full');
  const down = await test.post(remotePath, body);
  assert.equal(down.status, 503, down.text);
  assert.equal(down.headers['retry-after'], '5');
});

test('remote write 2.0 says in all its failures that nothing was written, version 1 in none', async () => {
  await using test = await TestCoordinator.openReady(
    '{clusters: [{client: {writeTimeout: 300ms}}]}',
  );
  const samples = [{ timestampMillis: nowSeconds() * 1000, value: 1 }];
  const good = encodeRemoteWriteV2([{ tags: tagsOf({ __name__: 'm' }), samples }]);
  const kinds = ['samples', 'histograms', 'exemplars'];
  const failed = async (status: number, body: Uint8Array, headers: Record<string, string>) => {
    const answer = await test.post(remotePath, body, headers);
    assert.equal(answer.status, status, answer.text);
    return kinds.map((kind) => answer.headers[`x-prometheus-remote-write-${kind}-written`]);
  };
  const nothing = ['0', '0', '0'];
  assert.deepEqual(await failed(400, Uint8Array.of(4, 255, 255), v2), nothing);
  assert.deepEqual(await failed(400, good, { ...v2, 'M3-Map-Tags-JSON': '{' }), nothing);
  test.node.outcomeOf = () => rowOutcome.resourceExhausted;
  assert.deepEqual(await failed(503, good, v2), nothing);
  test.node.failure = new TsdbError('UNAVAILABLE', 'disk is full');
  assert.deepEqual(await failed(503, good, v2), nothing);
  const first = remoteWriteBody([
    { tags: tagsOf({ __name__: 'm' }), samples: [{ millis: nowSeconds() * 1000, bits: 0n }] },
  ]);
  assert.deepEqual(await failed(503, first, {}), [undefined, undefined, undefined]);
});

test('what nodes refuse for the clock of the coordinator names it, and may be sent again', async () => {
  await using test = await TestCoordinator.openReady(
    '{clusters: [{client: {writeTimeout: 300ms}}]}',
  );
  const millis = nowSeconds() * 1000;
  const samples = [{ millis, bits: 0n }];
  const body = remoteWriteBody([{ tags: tagsOf({ __name__: 'm' }), samples }]);
  test.node.failure = new TsdbError('FAILED_PRECONDITION', '3600.0 s ahead of the median');
  const row = { tags: { a: 'b' }, timestamp: nowSeconds(), value: 1 };
  for (const answer of [await test.post(remotePath, body), await test.post(path, row)]) {
    assert.equal(answer.status, 503, answer.text);
    assert.equal(answer.headers['retry-after'], '5');
    assert.match(
      answer.json.error,
      /: the clock of this coordinator is ahead of those of the storage nodes: .*3600\.0 s ahead of the median/,
    );
  }
});

test('remote write 2.0 stores the same rows and says how many', async () => {
  await using test = await TestCoordinator.openReady();
  const millis = nowSeconds() * 1000;
  const samples = [
    { timestampMillis: millis, value: 1 },
    { timestampMillis: millis + 1, value: staleMarkerBits },
  ];
  const good = { tags: tagsOf({ __name__: 'up', job: 'node' }), samples };
  const answer = await test.post(remotePath, encodeRemoteWriteV2([good]), v2);
  assert.deepEqual([answer.status, answer.text], [204, '']);
  assert.equal(answer.headers['x-prometheus-remote-write-samples-written'], '2');
  assert.equal(answer.headers['x-prometheus-remote-write-histograms-written'], '0');
  const first = await test.post(
    remotePath,
    remoteWriteBody([{ tags: good.tags, samples: [{ millis: millis + 2, bits: bitsOf(3) }] }]),
  );
  assert.equal(first.status, 200);
  const [series, ...others] = test.node.seriesOf('default');
  assert.deepEqual([...series!.rows.values()], [bitsOf(1), staleMarkerBits, bitsOf(3)]);
  assert.equal(others.length, 0);

  const bad = { tags: tagsOf({ __name__: 'up', 'b-d': 'x' }), samples: samples.slice(1) };
  const partly = await test.post(remotePath, encodeRemoteWriteV2([bad, good]), v2);
  assert.equal(partly.status, 400);
  assert.match(
    partly.json.error,
    /^1 of 3 samples were refused, the others were written: \{__name__="up", b-d=/,
  );
  assert.equal(partly.headers['x-prometheus-remote-write-samples-written'], '2');

  const nameless = { tags: tagsOf({ job: 'x' }), samples: samples.slice(1) };
  const named = await test.post(remotePath, encodeRemoteWriteV2([nameless, good]), v2);
  assert.equal(named.status, 400);
  assert.match(
    named.json.error,
    /^1 of 3 samples were refused.*no metric name: __name__; the first without a name is \{job="x"\}$/,
  );
  assert.equal(named.headers['x-prometheus-remote-write-samples-written'], '2');
});

test('remote write refuses what it cannot read', async () => {
  await using test = await TestCoordinator.openReady();
  const body = remoteWriteBody([]);
  const v3 = { 'Content-Type': 'application/x-protobuf;proto=io.prometheus.write.v3.Request' };
  const unknown = await test.post(remotePath, body, v3);
  assert.equal(unknown.status, 415);
  assert.match(unknown.json.error, /^Content-Type: .*write\.v3/);
  const json = await test.post(remotePath, body, { 'Content-Type': 'application/json' });
  assert.equal(json.status, 415);
  const gzip = await test.post(remotePath, body, { 'Content-Encoding': 'gzip' });
  assert.equal(gzip.status, 415);
  assert.match(gzip.json.error, /only snappy is served: gzip/);
  const garbage = await test.post(remotePath, Uint8Array.of(4, 255, 255));
  assert.equal(garbage.status, 400);
  assert.match(garbage.json.error, /cannot read remote write body/);
});

test('however the message of remote write is spelled, it is that one, or none', async () => {
  await using test = await TestCoordinator.openReady();
  const message = 'io.prometheus.write.v2.Request';
  const samples = [{ timestampMillis: nowSeconds() * 1000, value: 1 }];
  const send = async (parameters: string): Promise<[number, unknown]> => {
    const body = encodeRemoteWriteV2([{ tags: tagsOf({ __name__: 'up' }), samples }]);
    const type = { 'Content-Type': `application/x-protobuf${parameters}` };
    const { status, headers } = await test.post(remotePath, body, type);
    return [status, headers['x-prometheus-remote-write-samples-written']];
  };
  for (const parameters of [
    `;proto=${message}`,
    ` ; proto = ${message}`,
    `; PROTO="${message}"`,
    `;x=y;proto=${message};`,
  ]) {
    assert.deepEqual(await send(parameters), [204, '1'], parameters);
  }
  for (const parameters of [
    ';;',
    `;proto:${message}`,
    `;proto=${message};proto=prometheus.WriteRequest`,
    ';proto=',
  ]) {
    assert.deepEqual(await send(parameters), [415, undefined], parameters);
  }
});

test('every write goes to every ready namespace', async () => {
  await using test = await TestCoordinator.openReady();
  await test.post('/api/v1/database/create', { namespaceName: 'long', retentionTime: '48h' });
  await test.post('/api/v1/namespace/ready', { name: 'long' });
  const { signal } = new AbortController();
  await test.topology.until(
    (view) => view.namespaces.get('long')?.options.stagingStatus === 'READY',
    signal,
  );
  const answer = await test.post(path, { tags: { a: 'b' }, timestamp: nowSeconds(), value: 7 });
  assert.equal(answer.status, 200, answer.text);
  for (const name of ['default', 'long']) {
    assert.equal(test.node.seriesOf(name)[0]?.rows.size, 1, name);
  }
});

test('labels of types and units are written where they are asked for', async () => {
  const row = {
    tags: { __name__: 'sent', __type__: 'counter', __unit__: 'bytes' },
    timestamp: Math.floor(Date.now() / 1000),
    value: 1,
  };
  await using plain = await TestCoordinator.openReady();
  const refused = await plain.post(path, JSON.stringify(row));
  assert.equal(refused.status, 400);
  assert.match(refused.json.error, /tag names that begin with "__" are reserved: "__type__"/);
  await using asked = await TestCoordinator.openReady(
    '{query: {prometheus: {features: [type-and-unit-labels]}}}',
  );
  assert.equal((await asked.post(path, JSON.stringify(row))).status, 200);
  const other = { ...row, tags: { ...row.tags, __other__: 'x' } };
  assert.equal((await asked.post(path, JSON.stringify(other))).status, 400);

  const samples = [{ timestampMillis: nowSeconds() * 1000, value: 1 }];
  const metadata = { type: 2, help: '', unit: 'metres' };
  const tags = tagsOf({ __name__: 'height' });
  for (const test of [plain, asked]) {
    const answer = await test.post(
      remotePath,
      encodeRemoteWriteV2([{ tags, samples, metadata }]),
      v2,
    );
    assert.equal(answer.status, 204, answer.text);
  }
  const query = '/api/v1/query?query=height';
  const metricOf = async (test: TestCoordinator) =>
    (await test.get(query)).json.data.result[0].metric;
  assert.deepEqual(await metricOf(plain), { __name__: 'height' });
  const labelled = { __name__: 'height', __type__: 'gauge', __unit__: 'metres' };
  assert.deepEqual(await metricOf(asked), labelled);
});
