/** What is counted of exemplars and metadata. */
import type { CounterMetric, Metrics } from '#lib/metrics.ts';

/** Why something was not stored. */
export type DropReason =
  | 'bad'
  | 'budget'
  | 'busy'
  | 'disabled'
  | 'failed'
  | 'limit'
  | 'not_ready'
  | 'time'
  | 'upgrade';

export interface CompanionMetrics {
  readonly writtenExemplars: CounterMetric;
  /** Label: reason. */
  readonly droppedExemplars: CounterMetric;
  readonly writtenMetadata: CounterMetric;
  /** Label: reason. */
  readonly droppedMetadata: CounterMetric;
}

export function companionMetrics(metrics: Metrics): CompanionMetrics {
  return {
    writtenExemplars: metrics.counter(
      'tsdb_coordinator_written_exemplars_total',
      'Exemplars that were acknowledged.',
    ),
    droppedExemplars: metrics.counter(
      'tsdb_coordinator_dropped_exemplars_total',
      'Exemplars of remote writes that were not stored.',
      ['reason'],
    ),
    writtenMetadata: metrics.counter(
      'tsdb_coordinator_written_metadata_total',
      'Entries of metadata that were written: once in two hours while they come.',
    ),
    droppedMetadata: metrics.counter(
      'tsdb_coordinator_dropped_metadata_total',
      'Entries of metadata of remote writes that were not stored.',
      ['reason'],
    ),
  };
}
