/** Pairs of Prometheus as a coordinator has them: elections that are followed, and what is counted. */
import type { ClusterName } from '#cluster/kv/keys.ts';
import type { Kv } from '#cluster/kv/kv.ts';
import type { WriteDecoder } from '#engine/write_decoder/write_decoder.ts';
import type { HaPairsConfig } from '#lib/config/config.ts';
import type { Env } from '#lib/env/env.ts';
import type { Log } from '#lib/log.ts';
import type { CounterMetric, Metrics } from '#lib/metrics.ts';
import { HaPairs } from '../ingest/ha_pairs.ts';
import { StoredElections } from './elections.ts';

/** How often clusters that nobody has heard of are looked for. */
const forgetMillis = 3_600_000;

/** They are there without pairs, too. */
export interface HaPairsMetrics {
  /** Label: cluster. */
  readonly takeovers: CounterMetric;
  /** Label: cluster. */
  readonly deduplicated: CounterMetric;
}

/** @param clusterCount asked when metrics are scraped */
export function haPairsMetrics(metrics: Metrics, clusterCount: () => number): HaPairsMetrics {
  metrics.gauge(
    'tsdb_coordinator_ha_clusters',
    'Clusters of Prometheus of which one replica is taken.',
    [],
    clusterCount,
  );
  return {
    takeovers: metrics.counter(
      'tsdb_coordinator_ha_takeovers_total',
      'Another replica of a cluster of Prometheus was taken, by this coordinator.',
      ['cluster'],
    ),
    deduplicated: metrics.counter(
      'tsdb_coordinator_ha_deduplicated_samples_total',
      'Samples, histograms and exemplars of replicas that are not taken.',
      ['cluster'],
    ),
  };
}

export interface HaPairsOptions {
  readonly config: HaPairsConfig;
  readonly decoder: WriteDecoder;
  readonly kv: Kv;
  readonly cluster: ClusterName;
  readonly env: Env;
  readonly log: Log;
  readonly metrics: HaPairsMetrics;
}

/** Pairs, and how many clusters have one. */
export interface StartedPairs {
  readonly pairs: HaPairs;
  readonly clusterCount: number;
}

/** @param signal ends what is followed */
export function startHaPairs(
  { config, decoder, kv, cluster, env, log, metrics }: HaPairsOptions,
  signal: AbortSignal,
): StartedPairs {
  const { takeoverMillis, updateMillis, clustersMax } = config;
  const { takeovers, deduplicated } = metrics;
  const elections = new StoredElections({
    kv,
    cluster,
    env,
    log,
    takeoverMillis,
    updateMillis,
    clustersMax,
    takeovers,
  });
  void elections.follow(signal);
  const onError = (error: unknown): void =>
    log.warn({ err: error as Error }, 'clusters of Prometheus cannot be forgotten now');
  env.clock.every(forgetMillis, () => elections.forget(signal), onError, signal);
  const labels = { cluster: config.clusterLabel, replica: config.replicaLabel };
  return {
    pairs: new HaPairs(labels, decoder, elections, deduplicated),
    get clusterCount() {
      return elections.clusterCount;
    },
  };
}
