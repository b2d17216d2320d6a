/** What making rollups comes to, counted. */
import type { CounterMetric, GaugeMetric, Metrics } from '#lib/metrics.ts';

export interface RollupMetrics {
  /** 1 while this process makes them. */
  readonly leads: GaugeMetric;
  /** How many processes make them when all is well; 0 where rules ask for none. */
  readonly shares: GaugeMetric;
  readonly windows: CounterMetric;
  readonly rows: CounterMetric;
  readonly corrections: CounterMetric;
  readonly failures: CounterMetric;
  /** Label: namespace. */
  readonly lagSeconds: GaugeMetric;
}

export function rollupMetrics(metrics: Metrics): RollupMetrics {
  return {
    leads: metrics.gauge(
      'tsdb_rollups_leader',
      'Whether this process makes the rollups of the cluster.',
    ),
    shares: metrics.gauge(
      'tsdb_rollups_shares',
      'How many processes are to make the rollups of the cluster, each a share; 0 where rules ask for none.',
    ),
    windows: metrics.counter('tsdb_rollup_windows_total', 'Windows of which rollups were made.'),
    rows: metrics.counter('tsdb_rollup_rows_total', 'Rows of rollups that were written.'),
    corrections: metrics.counter(
      'tsdb_rollup_corrections_total',
      'Rows of rollups that were written once more, as rows had come late.',
    ),
    failures: metrics.counter(
      'tsdb_rollup_failures_total',
      'How often rollups could not be made, and were tried again.',
    ),
    lagSeconds: metrics.gauge(
      'tsdb_rollup_lag_seconds',
      'For how long a window has been due of which rollups are not made.',
      ['namespace'],
    ),
  };
}
