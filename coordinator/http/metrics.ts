/** What the API counts of its requests. */
import type { CounterMetric, HistogramMetric, Metrics } from '#lib/metrics.ts';

export interface ApiMetrics {
  /** Labels: path (as in the table of routes), status. */
  readonly requests: CounterMetric;
  /** Label: path. */
  readonly requestSeconds: HistogramMetric;
}

export function apiMetrics(metrics: Metrics): ApiMetrics {
  return {
    requests: metrics.counter(
      'tsdb_coordinator_requests_total',
      'HTTP requests by route and status.',
      ['path', 'status'],
    ),
    requestSeconds: metrics.histogram(
      'tsdb_coordinator_request_seconds',
      'Time from the end of the headers to the end of the answer.',
      ['path'],
    ),
  };
}
