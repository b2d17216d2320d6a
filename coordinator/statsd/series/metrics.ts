/** What statsd's listener counts. */
import type { CounterMetric, Metrics } from '#lib/metrics.ts';
import type { SharingMetrics } from '../receivers/sharing.ts';

export interface StatsdMetrics {
  readonly lines: CounterMetric;
  /** Label: type. */
  readonly samples: CounterMetric;
  /** Label: reason. */
  readonly refusedSamples: CounterMetric;
  /** Label: reason. Parts of lines that were passed over. */
  readonly refusedParts: CounterMetric;
  readonly packets: CounterMetric;
  readonly droppedPackets: CounterMetric;
  readonly lateFlushes: CounterMetric;
  readonly sharing: SharingMetrics;
}

/** They are there without a listener, too. */
export function statsdMetrics(metrics: Metrics, of: StatsdState): StatsdMetrics {
  metrics.gauge(
    'tsdb_coordinator_statsd_connections',
    "Open connections of statsd's listener.",
    [],
    () => of.connectionCount(),
  );
  metrics.gauge(
    'tsdb_coordinator_statsd_series',
    'Metrics of statsd, with their tags, that are kept and written at each flush.',
    [],
    () => of.seriesCount(),
  );
  metrics.gauge(
    'tsdb_coordinator_statsd_members',
    'Coordinators that share the series of statsd, as this one knows them; 0 when it keeps all.',
    [],
    () => of.memberCount(),
  );
  metrics.gauge(
    'tsdb_coordinator_statsd_waiting_bytes',
    'Room that lines of statsd take which wait for other coordinators.',
    [],
    () => of.waitingBytes(),
  );
  return {
    sharing: {
      forwardedLines: metrics.counter(
        'tsdb_coordinator_statsd_forwarded_lines_total',
        'Lines of statsd that were handed to the coordinator which keeps their series.',
        [],
      ),
      lostLines: metrics.counter(
        'tsdb_coordinator_statsd_lost_lines_total',
        'Lines of statsd that waited in vain, or found no room to wait, for another coordinator.',
        [],
      ),
    },
    lines: metrics.counter('tsdb_coordinator_statsd_lines_total', 'Lines of statsd that came.', []),
    samples: metrics.counter(
      'tsdb_coordinator_statsd_samples_total',
      'Samples of statsd that were taken.',
      ['type'],
    ),
    refusedSamples: metrics.counter(
      'tsdb_coordinator_statsd_refused_samples_total',
      'Samples of statsd, or whole lines, that were not taken.',
      ['reason'],
    ),
    refusedParts: metrics.counter(
      'tsdb_coordinator_statsd_refused_parts_total',
      'Tags and rates of statsd that were passed over; their samples were taken.',
      ['reason'],
    ),
    packets: metrics.counter(
      'tsdb_coordinator_statsd_packets_total',
      'Datagrams of statsd, and parts of streams.',
      [],
    ),
    droppedPackets: metrics.counter(
      'tsdb_coordinator_statsd_dropped_packets_total',
      'Datagrams of statsd that were lost, as more came than could be read.',
      [],
    ),
    lateFlushes: metrics.counter(
      'tsdb_coordinator_statsd_late_flushes_total',
      'Flushes of statsd that were left out, since the one before was not written yet.',
      [],
    ),
  };
}

/** Asked when metrics are scraped. */
export interface StatsdState {
  readonly connectionCount: () => number;
  readonly seriesCount: () => number;
  readonly memberCount: () => number;
  readonly waitingBytes: () => number;
}
