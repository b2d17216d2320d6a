import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { rowOutcome } from '#cluster/node/service.ts';
import { nowSeconds, TestCoordinator } from '../coordinator_testing.ts';
import { MessageWriter } from '#engine/prometheus_messages/message_writer.ts';

const v1 = '/datadog/api/v1/series';
const v2 = '/api/v2/series';
const now = nowSeconds();

interface WireSeries {
  readonly metric: string;
  readonly resources?: readonly (readonly [type: string, name: string])[];
  readonly tags?: readonly string[];
  readonly points: readonly (readonly [seconds: number, value: number])[];
}

function payload(all: readonly WireSeries[]): Uint8Array {
  const message = new MessageWriter();
  const text = (value: string): Uint8Array => Buffer.from(value);
  for (const { metric, resources = [], tags = [], points } of all) {
    const series = new MessageWriter();
    for (const [type, name] of resources) {
      const resource = new MessageWriter();
      resource.bytesField(1, text(type));
      resource.bytesField(2, text(name));
      series.bytesField(1, resource.finish());
    }
    series.bytesField(2, text(metric));
    for (const tag of tags) series.bytesField(3, text(tag));
    for (const [seconds, value] of points) {
      const point = new MessageWriter();
      const words = new Uint32Array(Float64Array.of(value).buffer);
      point.doubleField(1, words[0]!, words[1]!);
      point.int64Field(2, seconds);
      series.bytesField(4, point.finish());
    }
    series.int64Field(5, 3);
    series.bytesField(7, text('System'));
    series.int64Field(8, 10);
    message.bytesField(1, series.finish());
  }
  return message.finish();
}

/** Each series as text with its seconds and values. */
function stored(test: TestCoordinator): string[] {
  return test.node
    .seriesOf('default')
    .map(({ decoded, rows }) => {
      const tags = decoded.map(({ name, value }) => `${name}=${value}`).join(' ');
      const values = [...rows].map(([nanos, bits]) => {
        const value = new Float64Array(BigUint64Array.of(bits as bigint).buffer)[0]!;
        return `${Number(nanos) / 1e9 - now}:${value}`;
      });
      return `${tags} | ${values.join(' ')}`;
    })
    .toSorted((a, b) => (a < b ? -1 : 1));
}

test('series of version 1 become series with plain names', async () => {
  await using test = await TestCoordinator.openReady();
  const answer = await test.post(v1, {
    series: [
      {
        metric: 'system.load.1',
        points: [
          [now - 10, 0.5],
          [now, 2],
        ],
        type: 'gauge',
        interval: 10,
        host: 'web-1',
        device: 'sda',
        tags: [
          'env:prod',
          'kube_service:b',
          'kube_service:a',
          'production',
          'empty:',
          'url:http://x',
          'host:other',
          'device:sda',
          '1st-key:v',
        ],
      },
      { metric: 'bare', points: [[now, 1]] },
      { metric: 'nothing', points: [] },
    ],
  });
  assert.deepEqual([answer.status, answer.text], [202, '{"status":"ok"}']);
  assert.deepEqual(stored(test), [
    '__name__=bare | 0:1',
    '__name__=system_load_1 _st_key=v device=sda env=prod exported_host=other host=web-1 kube_service=a,b production=no_label_value url=http://x | -10:0.5 0:2',
  ]);
});

test('series of version 2 are the same as JSON and as agents send them', async () => {
  const series = {
    metric: 'system.net.bytes',
    resources: [['host', 'web-1'] as const, ['pod', 'p"1'] as const],
    tags: ['env:prod', 'kü:ü'],
    points: [[now - 1, 1.25] as const, [now, -3] as const],
  };
  const json = {
    series: [
      {
        ...series,
        type: 3,
        unit: 'byte',
        metadata: { origin: { product: 1 } },
        resources: series.resources.map(([type, name]) => ({ type, name })),
        points: series.points.map(([timestamp, value]) => ({ timestamp, value })),
      },
    ],
  };
  const text = Buffer.from(JSON.stringify(json));
  const wire = payload([series]);
  const protobuf = { 'Content-Type': 'application/x-protobuf' };
  const bodies: [Uint8Array, Record<string, string>][] = [
    [text, { 'Content-Type': 'application/json' }],
    [deflateSync(text), { 'Content-Type': 'application/json', 'Content-Encoding': 'deflate' }],
    [wire, protobuf],
    [deflateSync(wire), { ...protobuf, 'Content-Encoding': 'deflate' }],
    [gzipSync(wire), { ...protobuf, 'Content-Encoding': 'gzip' }],
    [zstdCompressSync(wire), { ...protobuf, 'Content-Encoding': 'zstd' }],
  ];
  for (const [body, headers] of bodies) {
    await using test = await TestCoordinator.openReady();
    const answer = await test.post(v2, body, headers);
    assert.deepEqual([answer.status, answer.text], [202, '{"errors":[]}'], answer.text);
    assert.deepEqual(stored(test), [
      '__name__=system_net_bytes env=prod host=web-1 k__=ü pod=p"1 | -1:1.25 0:-3',
    ]);
  }
});

test('bad series and points are named, and the others are written', async () => {
  await using test = await TestCoordinator.openReady();
  const points = [[now, 1]];
  const answer = await test.post(v1, {
    series: [
      { metric: 'good', points },
      { points },
      { metric: 'm', points: 1 },
      { metric: 'm', points: [[now, '1'], [now], [1e12, 1], [now, 2]] },
      { metric: '', points },
      { metric: 'm', points, tags: ['__x:y'] },
      { metric: 'm', points, tags: ['__name__:y'] },
      { metric: 'm', points, tags: [1] },
      { metric: 'm', points, host: 5 },
      { metric: 'many', points, tags: Array.from({ length: 1025 }, (_, i) => `t${i}:x`) },
      3,
    ],
  });
  assert.equal(answer.status, 400);
  const [error] = answer.json.errors;
  for (const reason of [
    /^12 of 14 samples were refused, the others were written: /,
    /series\[1\]\.metric: not a text: nothing/,
    /series\[2\]\.points: not a list: 1/,
    /series\[3\]\.points\[0\]: not \[seconds, value\] that are numbers in range: \[\d+,"1"\]/,
    /series\[3\]\.points\[1\]/,
    /series\[3\]\.points\[2\]/,
    /\{__name__=""\}: metric: it is empty/,
    /begin with "__" are reserved: "__x"/,
    /begin with "__" are reserved: "__name__"/,
    /series\[7\]\.tags: not a text: 1/,
    /series\[8\]\.host: not a text: 5/,
    /many: more than 1024 tags and resources: 1025/,
    /series\[10\]: not an object: 3/,
  ]) {
    assert.match(error, reason);
  }
  assert.deepEqual(stored(test), ['__name__=good | 0:1', '__name__=m | 0:2']);
});

/** A series whose resource or point has a field a hundred times. */
function repeated(part: number, key: number): Uint8Array {
  const fields = Buffer.alloc(200, Uint8Array.of(key, 0));
  const body = Buffer.concat([Uint8Array.of(part * 8 + 2, 200, 1), fields]);
  return Buffer.concat([Uint8Array.of(10, (body.length & 127) | 128, body.length >> 7), body]);
}

test('bodies that are none change nothing', async () => {
  await using test = await TestCoordinator.openReady();
  const protobuf = { 'Content-Type': 'application/x-protobuf' };
  const good = payload([{ metric: 'm', points: [[now, 1]] }]);
  const many = Array.from({ length: 100_001 }, () => [now, 1] as const);
  const cases: [string, Uint8Array, Record<string, string>, RegExp][] = [
    [v1, Buffer.from('{"series":'), {}, /not JSON/],
    [v1, Buffer.from('{"metrics":[]}'), {}, /series: not a list of series: nothing/],
    [v1, Buffer.from('[]'), {}, /series: not a list/],
    [v1, good, protobuf, /not JSON/],
    [v2, Buffer.concat([good, Uint8Array.of(10, 50, 1)]), protobuf, /MetricPayload: cut off/],
    [v2, payload([{ metric: 'm', points: many }]), protobuf, /more than 100000 points/],
    [v2, gzipSync(Buffer.alloc(6 << 20)), { 'Content-Encoding': 'gzip' }, /longer than 5242880/],
    [v2, repeated(1, 10), protobuf, /MetricPayload: more than 64 fields in a resource/],
    [v2, repeated(4, 16), protobuf, /MetricPayload: more than 64 fields in a point/],
    [v2, good, { 'Content-Encoding': 'br' }, /Content-Encoding: none of gzip, deflate and zstd/],
  ];
  for (const [path, body, headers, reason] of cases) {
    const answer = await test.post(path, body, headers);
    assert.equal(answer.status, 400, answer.text);
    assert.match(answer.json.errors[0], reason);
  }
  assert.equal(test.node.writeCount, 0);
});

test('points that nodes refuse are told, and what passes is asked for again', async () => {
  await using test = await TestCoordinator.openReady();
  test.node.outcomeOf = () => rowOutcome.tooFarPast;
  const body = { series: [{ metric: 'm', points: [[now, 1]] }] };
  const refused = await test.post(v1, body);
  assert.equal(refused.status, 400);
  assert.match(
    refused.json.errors[0],
    /^1 of 1 samples were refused: \{__name__="m"\} at .*too far in past/,
  );
  await using none = await TestCoordinator.open();
  const answer = await none.post(v1, body);
  assert.equal(answer.status, 503);
  assert.match(answer.json.errors[0], /not yet initialized/);
});

test('what agents and clients ask beside series is answered; sketches are refused', async () => {
  await using test = await TestCoordinator.openReady();
  for (const prefix of ['', '/datadog']) {
    const valid = await test.get(`${prefix}/api/v1/validate?api_key=x`);
    assert.deepEqual([valid.status, valid.json], [200, { valid: true }]);
    for (const path of ['/intake/', '/api/v1/check_run', '/api/v1/metadata', '/api/v2/events']) {
      const taken = await test.post(`${prefix}${path}`, deflateSync('{}'), {
        'Content-Encoding': 'deflate',
      });
      assert.deepEqual([taken.status, taken.json], [202, { status: 'ok' }]);
    }
    const sketches = await test.post(`${prefix}/api/beta/sketches`, Uint8Array.of(1));
    assert.equal(sketches.status, 400);
    assert.match(sketches.json.errors[0], /sketches are not taken/);
  }
  // Prometheus' endpoint stays what it is.
  const form = { 'Content-Type': 'application/x-www-form-urlencoded' };
  const series = await test.post('/api/v1/series', 'match[]=up', form);
  assert.deepEqual(series.json, { status: 'success', data: [] });
});
