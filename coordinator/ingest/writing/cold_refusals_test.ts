import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rowOutcome } from '#cluster/node/service.ts';
import { type Log, silentLog } from '#lib/log.ts';
import { Metrics } from '#lib/metrics.ts';
import { nowSeconds, TestCoordinator } from '../../coordinator_testing.ts';
import { ColdRefusals } from './cold_refusals.ts';

const namespace = (name: string) => ({
  name,
  retentionNanos: 48n * 3_600_000_000_000n,
  bufferPastNanos: 600_000_000_000n,
  bufferFutureNanos: 0n,
  coldWrites: false,
});

test('the log names a namespace at most once a minute, with all that was refused since', () => {
  const lines: object[] = [];
  const log: Log = { ...silentLog, warn: (fields) => void lines.push(fields) };
  let monotonicMillis = 5;
  const coldRefusedSamples = new Metrics().counter('refused', 'Samples.', ['namespace']);
  const refusals = new ColdRefusals({ coldRefusedSamples }, log, {
    monotonicMillis: () => monotonicMillis,
  });
  refusals.note(namespace('a'), 3);
  refusals.note(namespace('b'), 1);
  refusals.note(namespace('a'), 4);
  monotonicMillis += 59_999;
  refusals.note(namespace('a'), 5);
  monotonicMillis += 1;
  refusals.note(namespace('a'), 6);
  assert.deepEqual(lines, [
    { namespace: 'a', samples: 3, bufferPast: '10m0s' },
    { namespace: 'b', samples: 1, bufferPast: '10m0s' },
    { namespace: 'a', samples: 15, bufferPast: '10m0s' },
  ]);
});

test('samples within the retention count when cold writes are off, older ones do not', async () => {
  await using test = await TestCoordinator.openReady();
  test.node.outcomeOf = () => rowOutcome.tooFarPast;
  const now = nowSeconds();
  const rows = [now - 3600, now - 7200, now - 13 * 3600].map((timestamp) => ({
    tags: { a: 'b' },
    timestamp,
    value: 1,
  }));
  const answer = await test.post('/api/v1/json/write', rows);
  assert.equal(answer.status, 400, answer.text);
  const { port } = test.coordinator.metricsServer;
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  assert.match(text, /^tsdb_coordinator_cold_refused_samples_total\{namespace="default"\} 2$/m);
});
