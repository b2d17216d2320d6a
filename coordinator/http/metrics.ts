/** What the API counts of its requests. */
import type { CounterMetric, HistogramMetric, Metrics } from '#lib/metrics.ts';
import type { ReadMemory } from '#lib/read_memory/read_memory.ts';

export interface ApiMetrics {
  /** Labels: path (as in the table of routes), status. */
  readonly requests: CounterMetric;
  /** Label: path. */
  readonly requestSeconds: HistogramMetric;
}

/** @param memory of reads */
export function apiMetrics(metrics: Metrics, memory: ReadMemory): ApiMetrics {
  metrics.gauge(
    'tsdb_coordinator_read_bytes',
    'Memory of reads that are under way, and of answers until they have left.',
    [],
    () => memory.bytes,
  );
  metrics.gauge(
    'tsdb_coordinator_reads_waiting',
    'Reads that wait for memory.',
    [],
    () => memory.waiting,
  );
  metrics.countedElsewhere(
    'tsdb_coordinator_reads_over_memory_total',
    'Reads that were refused since others took the memory.',
    () => memory.refused,
  );
  metrics.countedElsewhere(
    'tsdb_coordinator_answers_cut_total',
    'Answers that were cut off since their clients took them slowly while reads waited for memory.',
    () => memory.cut,
  );
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
