/** The coordinator's own metrics: all series of the room in one place. */
import type { CounterMetric, HistogramMetric, Metrics } from '#lib/metrics.ts';

export interface CoordinatorMetrics {
  /** Labels: path (as in the table of routes), status. */
  readonly requests: CounterMetric;
  /** Label: path. */
  readonly requestSeconds: HistogramMetric;
  /** Label: format. Rows that every ready namespace acknowledged. */
  readonly writtenSamples: CounterMetric;
  /** Label: reason ('bad', 'passing'). */
  readonly refusedSamples: CounterMetric;
  /** Native histograms that came with writes; they are not stored. */
  readonly droppedHistograms: CounterMetric;
  /** Label: kind ('select', 'labelNames', 'labelValues', 'series'). */
  readonly fetches: CounterMetric;
  readonly fetchErrors: CounterMetric;
  readonly fetchedSeries: CounterMetric;
}

/** Gauges that are read when metrics are scraped. */
export interface CoordinatorGauges {
  readonly writeDecoderSeries: () => number;
  readonly writeDecoderMemoryBytes: () => number;
}

export function coordinatorMetrics(
  metrics: Metrics,
  gauges: CoordinatorGauges,
): CoordinatorMetrics {
  metrics.gauge(
    'tsdb_coordinator_front_series',
    'Series that the coordinator has named and checked and still remembers.',
    [],
    gauges.writeDecoderSeries,
  );
  metrics.gauge(
    'tsdb_coordinator_front_memory_bytes',
    'Memory of the identities of series that pass through writes.',
    [],
    gauges.writeDecoderMemoryBytes,
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
    writtenSamples: metrics.counter(
      'tsdb_coordinator_written_samples_total',
      'Samples that every ready namespace acknowledged.',
      ['format'],
    ),
    refusedSamples: metrics.counter(
      'tsdb_coordinator_refused_samples_total',
      'Samples that were refused: bad ones for good, passing ones may be sent again.',
      ['format', 'reason'],
    ),
    droppedHistograms: metrics.counter(
      'tsdb_coordinator_dropped_histograms_total',
      'Native histograms of remote writes, which are not stored.',
    ),
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
