/** Pairs of Prometheus as a coordinator has them: elections that are followed, and what is counted. */
import type { ClusterName } from '#cluster/kv/keys.ts';
import type { Kv } from '#cluster/kv/kv.ts';
import type { WriteDecoder } from '#engine/write_decoder/write_decoder.ts';
import type { HaPairsConfig } from '#lib/config/config.ts';
import type { Env } from '#lib/env/env.ts';
import type { Log } from '#lib/log.ts';
import type { Metrics } from '#lib/metrics.ts';
import { HaPairs } from '../ingest/ha_pairs.ts';
import { StoredElections } from './elections.ts';

/** How often clusters that nobody has heard of are looked for. */
const forgetMillis = 3_600_000;

export interface HaPairsOptions {
  readonly config: HaPairsConfig;
  readonly decoder: WriteDecoder;
  readonly kv: Kv;
  readonly cluster: ClusterName;
  readonly env: Env;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** @param signal ends what is followed */
export function startHaPairs(
  { config, decoder, kv, cluster, env, log, metrics }: HaPairsOptions,
  signal: AbortSignal,
): HaPairs {
  const { takeoverMillis, updateMillis, clustersMax } = config;
  const elections = new StoredElections({
    kv,
    cluster,
    env,
    log,
    takeoverMillis,
    updateMillis,
    clustersMax,
    takeovers: metrics.counter(
      'tsdb_coordinator_ha_takeovers_total',
      'Another replica of a cluster of Prometheus was taken, by this coordinator.',
      ['cluster'],
    ),
  });
  metrics.gauge(
    'tsdb_coordinator_ha_clusters',
    'Clusters of Prometheus of which one replica is taken.',
    [],
    () => elections.clusterCount,
  );
  const deduplicated = metrics.counter(
    'tsdb_coordinator_ha_deduplicated_samples_total',
    'Samples, histograms and exemplars of replicas that are not taken.',
    ['cluster'],
  );
  void elections.follow(signal);
  const onError = (error: unknown): void =>
    log.warn({ err: error as Error }, 'clusters of Prometheus cannot be forgotten now');
  env.clock.every(forgetMillis, () => elections.forget(signal), onError, signal);
  const labels = { cluster: config.clusterLabel, replica: config.replicaLabel };
  return new HaPairs(labels, decoder, elections, deduplicated);
}
