import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { rowOutcome } from '#cluster/node/service.ts';
import { attributes, bodyOf } from '#engine/otlp/otlp_testing.ts';
import { connectGrpc } from '#lib/env/grpc.ts';
import { framed, RawCall, RawClient } from '#lib/env/grpc/raw_testing.ts';
import { grpcStatus } from '#lib/env/grpc/status.ts';
import { TsdbError } from '#lib/errors.ts';
import { nowSeconds, TestCoordinator } from '../coordinator_testing.ts';
import { statusOfMessage } from './answers_testing.ts';

const path = '/opentelemetry.proto.collector.metrics.v1.MetricsService/Export';
const settings = '{otlp: {grpcListenAddress: "127.0.0.1:0"}}';

const body = (value: number): Uint8Array =>
  bodyOf([
    {
      name: 'g',
      gauge: {
        dataPoints: [
          {
            timeUnixNano: `${nowSeconds()}000000000`,
            asDouble: value,
            attributes: attributes({ k: 'v' }),
          },
          { asDouble: value },
        ],
      },
    },
  ]);

const tagsOf = (test: TestCoordinator): string[] =>
  test.node
    .seriesOf('default')
    .map(({ decoded }) => decoded.map(({ name, value }) => `${name}=${value}`).join(','));

test('an export is written, and its answer says what was refused', async () => {
  await using test = await TestCoordinator.openReady(settings);
  const target = `127.0.0.1:${test.coordinator.otlp!.port}`;
  using client = connectGrpc({ target, answerBytesMax: 1 << 20 });
  const answer = await client.unary(path, body(1), AbortSignal.timeout(10_000));
  assert.match(
    Buffer.from(answer).toString(),
    /1 of 2 samples were refused.*time_unix_nano: not set/,
  );
  assert.deepEqual(tagsOf(test), ['__name__=g,k=v']);
});

test('an export may be compressed as collectors do', async () => {
  await using test = await TestCoordinator.openReady(settings);
  using client = new RawClient(test.coordinator.otlp!.port);
  const call = new RawCall(client.session, path, { 'grpc-encoding': 'gzip' });
  call.stream.end(framed(gzipSync(body(1)), 1));
  assert.equal((await call.ended).status, String(grpcStatus.ok));
  assert.deepEqual(tagsOf(test), ['__name__=g,k=v']);
  const bad = new RawCall(client.session, path, { 'grpc-encoding': 'gzip' });
  bad.stream.end(framed('no gzip', 1));
  assert.equal((await bad.ended).status, String(grpcStatus.invalidArgument));
  const unknown = new RawCall(client.session, path, { 'grpc-encoding': 'snappy' });
  unknown.stream.end(framed('x', 1));
  assert.equal((await unknown.ended).status, String(grpcStatus.unimplemented));
});

test('what passes says when to come again', async () => {
  await using test = await TestCoordinator.openReady(settings);
  using client = new RawClient(test.coordinator.otlp!.port);
  for (const status of [grpcStatus.resourceExhausted, grpcStatus.unavailable]) {
    if (status === grpcStatus.resourceExhausted) {
      test.node.outcomeOf = () => rowOutcome.resourceExhausted;
    } else test.node.failure = new TsdbError('UNAVAILABLE', 'the node stops');
    const call = new RawCall(client.session, path);
    call.stream.end(framed(body(1)));
    const { headers, status: ended } = await call.ended;
    assert.equal(ended, String(status));
    const details = Buffer.from(String(headers['grpc-status-details-bin']), 'base64');
    assert.equal(statusOfMessage(details).code, status);
    assert.match(details.toString('latin1'), /type\.googleapis\.com\/google\.rpc\.RetryInfo/);
  }
});
