import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { rowOutcome } from '#cluster/node/service.ts';
import { attributes, bodyOf } from '#engine/otlp/otlp_testing.ts';
import { statusOfMessage } from './answers_testing.ts';
import { nowSeconds, TestCoordinator } from '../coordinator_testing.ts';

const path = '/api/v1/otlp/v1/metrics';
const protobuf = { 'Content-Type': 'application/x-protobuf' };
const json = { 'Content-Type': 'application/json' };

const resource = { 'service.name': 'shop', 'service.instance.id': 'a' };

function sumOf(name: string, seconds: number, value: number, more: object = {}): object {
  return {
    name,
    sum: {
      aggregationTemporality: 2,
      isMonotonic: true,
      dataPoints: [
        {
          startTimeUnixNano: `${seconds - 60}000000000`,
          timeUnixNano: `${seconds}000000000`,
          asDouble: value,
          attributes: attributes({ path: '/' }),
          ...more,
        },
      ],
    },
  };
}

const valueOf = (bits: unknown): number =>
  new Float64Array(BigUint64Array.of(bits as bigint).buffer)[0]!;

/** Series of the node with the values of their rows. */
function stored(test: TestCoordinator): Record<string, number[]> {
  return Object.fromEntries(
    test.node.seriesOf('default').map(({ decoded, rows }) => {
      const tags = decoded.map(({ name, value }) => `${name}=${value}`).join(',');
      return [tags, [...rows.values()].map(valueOf)];
    }),
  );
}

test('a body of protobuf is written, whatever its encoding, with the start times of sums', async () => {
  await using test = await TestCoordinator.openReady();
  const now = nowSeconds();
  const body = bodyOf([sumOf('http.requests', now, 7)], resource);
  for (const [encoding, bytes] of [
    ['identity', body],
    ['gzip', gzipSync(body)],
    ['zstd', zstdCompressSync(body)],
  ] as const) {
    for (const each of [path, '/v1/metrics']) {
      const answer = await test.post(each, bytes, { ...protobuf, 'Content-Encoding': encoding });
      assert.deepEqual(
        [answer.status, answer.bytes.length],
        [200, 0],
        `${encoding} ${answer.text}`,
      );
      assert.equal(answer.headers['content-type'], 'application/x-protobuf');
    }
  }
  assert.deepEqual(stored(test), {
    '__name__=http_requests_total,instance=a,job=shop,path=/': [7],
  });
  const [series] = test.node.seriesOf('default');
  assert.deepEqual([...series!.startNanos.values()], [BigInt(now - 60) * 1_000_000_000n]);
});

test('a body of JSON is written, and answered as JSON', async () => {
  await using test = await TestCoordinator.openReady();
  const now = nowSeconds();
  const answer = await test.post(
    path,
    {
      resourceMetrics: [
        {
          resource: { attributes: attributes(resource), unknownField: 1 },
          scopeMetrics: [{ metrics: [sumOf('jobs', now, 3)] }],
        },
      ],
    },
    json,
  );
  assert.deepEqual([answer.status, answer.json], [200, {}], answer.text);
  assert.deepEqual(stored(test), { '__name__=jobs_total,instance=a,job=shop,path=/': [3] });
});

test('bad points are counted and named, and the others written', async () => {
  await using test = await TestCoordinator.openReady();
  const now = nowSeconds();
  const limit = BigInt(now - 3600) * 1_000_000_000n;
  test.node.outcomeOf = (nanos) => (nanos < limit ? rowOutcome.tooFarPast : rowOutcome.written);
  const metrics = [
    sumOf('good', now, 1),
    sumOf('old', 1_000_000, 1),
    sumOf('timeless', now, 1, { timeUnixNano: '0' }),
    { name: 'delta', sum: { aggregationTemporality: 1, dataPoints: [{}, {}] } },
    {
      name: 'late',
      histogram: {
        aggregationTemporality: 2,
        dataPoints: [
          { timeUnixNano: '1000000000', count: '1', bucketCounts: ['1', '0'], explicitBounds: [1] },
        ],
      },
    },
  ];
  const body = { resourceMetrics: [{ scopeMetrics: [{ metrics }] }] };
  const answer = await test.post(path, body, json);
  assert.equal(answer.status, 200);
  const { rejectedDataPoints, errorMessage } = answer.json.partialSuccess;
  // One histogram is three rows.
  assert.equal(rejectedDataPoints, '5');
  assert.match(errorMessage, /metric timeless_total: time_unix_nano: not set/);
  assert.match(errorMessage, /metric delta: aggregation_temporality: delta is not stored here/);
  assert.match(errorMessage, /old_total.*too far in (?:the )?past/);
  const written = Object.entries(stored(test)).filter(([, values]) => values.length > 0);
  assert.deepEqual(written, [['__name__=good_total,path=/', [1]]]);
});

test('points of delta temporality are stored as they are when they are asked for, once however often they are sent', async () => {
  await using test = await TestCoordinator.openReady('{otlp: {deltaTemporality: store}}');
  const now = nowSeconds();
  const pointOf = (seconds: number, value: number): object => ({
    startTimeUnixNano: `${seconds - 10}000000000`,
    timeUnixNano: `${seconds}000000000`,
    asInt: String(value),
  });
  const dataPoints = [pointOf(now - 10, 4), pointOf(now, 5)];
  const body = bodyOf([
    { name: 'd', sum: { aggregationTemporality: 1, isMonotonic: true, dataPoints } },
  ]);
  for (let i = 0; i < 2; i++) {
    const answer = await test.post(path, body, protobuf);
    assert.deepEqual([answer.status, answer.bytes.length], [200, 0]);
  }
  assert.deepEqual(stored(test), { '__name__=d_total': [4, 5] });
  const [series] = test.node.seriesOf('default');
  const seconds = [...series!.startNanos.values()].map(
    (nanos) => Number(nanos / 1_000_000_000n) - now,
  );
  assert.deepEqual(seconds, [-20, -10]);
});

test('what cannot be read is refused in the form of the request, and nothing of it is written', async () => {
  await using test = await TestCoordinator.openReady();
  const now = nowSeconds();
  const good = bodyOf([sumOf('a', now, 1)]);
  // Another resource follows whose bytes are not all there.
  const cut = Buffer.concat([good, good.subarray(0, -3)]);
  const ofProtobuf = await test.post(path, cut, protobuf);
  assert.equal(ofProtobuf.status, 400);
  assert.deepEqual(statusOfMessage(ofProtobuf.bytes), {
    code: 3,
    message: 'cannot read OTLP body: the protobuf message is malformed',
  });
  const bad = {
    resourceMetrics: [
      { scopeMetrics: [{ metrics: [{ gauge: { dataPoints: [{ asInt: 'x' }] } }] }] },
    ],
  };
  const ofJson = await test.post(path, bad, json);
  assert.deepEqual(
    [ofJson.status, ofJson.json],
    [
      400,
      {
        code: 3,
        message:
          'cannot read OTLP body: resourceMetrics[0].scopeMetrics[0].metrics[0].gauge.dataPoints[0].asInt: not a whole number: "x"',
      },
    ],
  );
  const unpacked = await test.post(path, good, { ...protobuf, 'Content-Encoding': 'gzip' });
  assert.equal(unpacked.status, 400);
  assert.equal((await test.post(path, good, { 'Content-Type': 'text/plain' })).status, 415);
  assert.deepEqual(stored(test), {});
});

test('a body that is longer than a part is written whole, or not at all when it is malformed', async () => {
  await using test = await TestCoordinator.openReady();
  const now = nowSeconds();
  const dataPoints = Array.from({ length: 3000 }, (_, i) => ({
    timeUnixNano: `${now}000000000`,
    asDouble: i,
    attributes: attributes({ i: String(i) }),
  }));
  const body = bodyOf([{ name: 'g', gauge: { dataPoints } }]);
  const answer = await test.post(path, Buffer.concat([body, Buffer.of(0x0a, 5, 0)]), protobuf);
  assert.equal(answer.status, 400);
  assert.deepEqual(stored(test), {});
  assert.equal((await test.post(path, body, protobuf)).status, 200);
  assert.equal(test.node.seriesOf('default').length, 3000);
});

test('what passes is answered with a time to come again', async () => {
  await using test = await TestCoordinator.openReady();
  const body = bodyOf([sumOf('a', nowSeconds(), 1)]);
  test.node.outcomeOf = () => rowOutcome.resourceExhausted;
  const full = await test.post(path, body, protobuf);
  assert.deepEqual([full.status, full.headers['retry-after']], [429, '5']);
  assert.equal(statusOfMessage(full.bytes).code, 8);
  await using empty = await TestCoordinator.open();
  const unready = await empty.post(path, body, protobuf);
  assert.deepEqual([unready.status, unready.headers['retry-after']], [503, '5']);
});

test('labels and names are as the configuration has them', async () => {
  const otlp =
    '{translationStrategy: NoTranslation, promoteResourceAttributes: [host.name], promoteScopeMetadata: true, keepIdentifyingResourceAttributes: true}';
  await using test = await TestCoordinator.openReady(
    `{tagOptions: {nameValidation: utf8}, otlp: ${otlp}}`,
  );
  const body = bodyOf(
    [sumOf('http.requests', nowSeconds(), 1)],
    { ...resource, 'host.name': 'web-1' },
    { name: 'lib', version: '2', attributes: attributes({ k: 'v' }) },
  );
  const answer = await test.post(path, body, protobuf);
  assert.deepEqual([answer.status, answer.text], [200, '']);
  assert.deepEqual(Object.keys(stored(test)).sort(), [
    '__name__=http.requests,host.name=web-1,instance=a,job=shop,otel_scope_k=v,otel_scope_name=lib,otel_scope_version=2,path=/',
    '__name__=target_info,host.name=web-1,instance=a,job=shop,service.instance.id=a,service.name=shop',
  ]);
});

test('metadata of metrics are stored', async () => {
  await using test = await TestCoordinator.openReady();
  const metric = {
    ...sumOf('http.requests', nowSeconds(), 1),
    description: 'Requests.',
    unit: 's',
  };
  const body = bodyOf([metric]);
  for (let attempt = 0; attempt < 100; attempt++) {
    assert.equal((await test.post(path, body, protobuf)).status, 200);
    const { data } = (await test.get('/api/v1/metadata')).json;
    if (Object.keys(data).length === 0) continue;
    assert.deepEqual(data, {
      http_requests_seconds_total: [{ type: 'counter', help: 'Requests.', unit: 'seconds' }],
    });
    return;
  }
  assert.fail('no metadata came');
});
