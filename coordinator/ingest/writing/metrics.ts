/** What ingestion counts of its rows and of the identities that it remembers. */
import type { WriteDecoder } from '#engine/write_decoder/write_decoder.ts';
import type { CounterMetric, Metrics } from '#lib/metrics.ts';

export interface IngestMetrics {
  /** Label: format. Rows that every ready namespace acknowledged. */
  readonly writtenSamples: CounterMetric;
  /** Label: format. Those of them that are native histograms. */
  readonly writtenHistograms: CounterMetric;
  /** Labels: format, reason ('bad', 'passing', 'clock'). */
  readonly refusedSamples: CounterMetric;
  /** Label: namespace. Of the bad ones, those that cold writes would take. */
  readonly coldRefusedSamples: CounterMetric;
  /** Label: kept ('windows', 'nothing'). Rows that aggregation rules drop; they are acknowledged. */
  readonly droppedSamples: CounterMetric;
  /** Native histograms that came before the upgrade to a release that keeps them was finished. */
  readonly droppedHistograms: CounterMetric;
}

/** @param decoder is asked when metrics are scraped */
export function ingestMetrics(metrics: Metrics, decoder: WriteDecoder): IngestMetrics {
  metrics.gauge(
    'tsdb_coordinator_front_series',
    'Series that the coordinator has named and checked and still remembers.',
    [],
    () => decoder.seriesCount,
  );
  metrics.gauge(
    'tsdb_coordinator_front_memory_bytes',
    'Memory of the identities of series that pass through writes.',
    [],
    () => decoder.memoryBytes,
  );
  return {
    writtenSamples: metrics.counter(
      'tsdb_coordinator_written_samples_total',
      'Samples that every ready namespace acknowledged.',
      ['format'],
    ),
    writtenHistograms: metrics.counter(
      'tsdb_coordinator_written_histograms_total',
      'Of the written samples those that are native histograms.',
      ['format'],
    ),
    refusedSamples: metrics.counter(
      'tsdb_coordinator_refused_samples_total',
      'Samples that were refused: bad ones for good, others may be sent again, of clock once ours is right.',
      ['format', 'reason'],
    ),
    coldRefusedSamples: metrics.counter(
      'tsdb_coordinator_cold_refused_samples_total',
      'Samples that were refused as older than bufferPast and that cold writes would take.',
      ['namespace'],
    ),
    droppedSamples: metrics.counter(
      'tsdb_coordinator_dropped_samples_total',
      'Samples that aggregation rules drop: kept for windows alone, or as nothing.',
      ['kept'],
    ),
    droppedHistograms: metrics.counter(
      'tsdb_coordinator_dropped_histograms_total',
      'Native histograms of remote writes that were not stored, since the upgrade of the cluster is not finished.',
    ),
  };
}
