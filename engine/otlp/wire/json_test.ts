import assert from 'node:assert/strict';
import { test } from 'node:test';
import { wireFromOtlpJson } from './json.ts';

const ofMetric = (metric: object): object => ({
  resourceMetrics: [{ scopeMetrics: [{ metrics: [metric] }] }],
});
const place = 'resourceMetrics[0].scopeMetrics[0].metrics[0]';

test('numbers beyond their fields are refused, and none becomes another one', () => {
  for (const [metric, path, reason] of [
    [
      { gauge: { dataPoints: [{ asInt: '9223372036854775808' }] } },
      'gauge.dataPoints[0].asInt',
      /not in -9223372036854775808 to/,
    ],
    [
      { histogram: { dataPoints: [{ count: '-1' }] } },
      'histogram.dataPoints[0].count',
      /not in 0 to/,
    ],
    [
      { exponentialHistogram: { dataPoints: [{ scale: 2147483648 }] } },
      'exponentialHistogram.dataPoints[0].scale',
      /not in -2147483648 to/,
    ],
    [
      { gauge: { dataPoints: [{ asDouble: '1e400' }] } },
      'gauge.dataPoints[0].asDouble',
      /beyond float64/,
    ],
    [
      { gauge: { dataPoints: [{ asDouble: Infinity }] } },
      'gauge.dataPoints[0].asDouble',
      /beyond float64/,
    ],
  ] as const) {
    assert.throws(
      () => wireFromOtlpJson(ofMetric(metric)),
      ({ code, message }: Error & { code: string }) =>
        code === 'BAD_REQUEST' && message.includes(`${place}.${path}: `) && reason.test(message),
      path,
    );
  }
});

test('what is no base64 is refused', () => {
  const bodyOf = (bytesValue: string): object =>
    ofMetric({ gauge: { dataPoints: [{ attributes: [{ key: 'a', value: { bytesValue } }] }] } });
  for (const text of ['A', 'AAAAA', 'A?==']) {
    assert.throws(() => wireFromOtlpJson(bodyOf(text)), /bytesValue: not base64/, text);
  }
  for (const text of ['', 'AA', 'AA==', '-_8', '+/8=']) wireFromOtlpJson(bodyOf(text));
});
