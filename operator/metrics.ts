/** Everything that the operator counts. */
import type { CounterMetric, HistogramMetric, Metrics } from '#lib/metrics.ts';

export interface OperatorMetrics {
  /** By `result`: success or error. */
  readonly reconciled: CounterMetric;
  readonly reconcileSeconds: HistogramMetric;
  /** By `method` and `code`. */
  readonly requests: CounterMetric;
  /** By `action`. */
  readonly failedActions: CounterMetric;
  observeQueue(depth: () => number): void;
  observeLeader(leading: () => boolean): void;
}

export function operatorMetrics(metrics: Metrics): OperatorMetrics {
  return {
    reconciled: metrics.counter('tsdb_operator_reconcile_total', 'Passes over a cluster.', [
      'result',
    ]),
    reconcileSeconds: metrics.histogram(
      'tsdb_operator_reconcile_seconds',
      'Duration of a pass over a cluster.',
    ),
    requests: metrics.counter(
      'tsdb_operator_kubernetes_requests_total',
      'Requests that the API server of Kubernetes answered.',
      ['method', 'code'],
    ),
    failedActions: metrics.counter(
      'tsdb_operator_action_failures_total',
      'Actions that failed and are tried again.',
      ['action'],
    ),
    observeQueue(depth) {
      metrics.gauge('tsdb_operator_queue_depth', 'Clusters waiting or in work.', [], depth);
    },
    observeLeader(leading) {
      metrics.gauge('tsdb_operator_leader', '1 while this process holds the lease.', [], () =>
        leading() ? 1 : 0,
      );
    },
  };
}
