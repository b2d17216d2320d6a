/** What is counted of writes that are passed on. */
import type { CounterMetric, Metrics } from '#lib/metrics.ts';

export interface ForwardingMetrics {
  /** Labels: target; result, one of `sent`, `failed`, `dropped`. */
  readonly bodies: CounterMetric;
  /** Label: target. */
  readonly retries: CounterMetric;
}

/** @param heldBytes asked when metrics are scraped */
export function forwardingMetrics(metrics: Metrics, heldBytes: () => number): ForwardingMetrics {
  metrics.gauge(
    'tsdb_coordinator_forwarding_bytes',
    'Bodies of writes that are on their way to other receivers, or wait for it.',
    [],
    heldBytes,
  );
  return {
    bodies: metrics.counter(
      'tsdb_coordinator_forwarded_writes_total',
      'Bodies of remote write that were passed on, or were not: the target failed, or too many waited for it.',
      ['target', 'result'],
    ),
    retries: metrics.counter(
      'tsdb_coordinator_forwarding_retries_total',
      'Attempts to pass on a body after its first one.',
      ['target'],
    ),
  };
}
