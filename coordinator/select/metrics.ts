/** What queries ask of storage, counted. */
import type { CounterMetric, Metrics } from '#lib/metrics.ts';

export interface SelectMetrics {
  /** Label: kind ('select', 'labelNames', 'labelValues', 'joinedValues', 'series'). */
  readonly fetches: CounterMetric;
  /** Label: kind. */
  readonly fetchErrors: CounterMetric;
  readonly fetchedSeries: CounterMetric;
}

export function selectMetrics(metrics: Metrics): SelectMetrics {
  return {
    fetches: metrics.counter(
      'tsdb_coordinator_fetches_total',
      'Questions that queries put to storage.',
      ['kind'],
    ),
    fetchErrors: metrics.counter(
      'tsdb_coordinator_fetch_errors_total',
      'Questions that storage could not answer.',
      ['kind'],
    ),
    fetchedSeries: metrics.counter(
      'tsdb_coordinator_fetched_series_total',
      'Series that storage answered with.',
    ),
  };
}
