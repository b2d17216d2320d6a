/**
 * Limits of the configuration, with those of the key-value store over them; they take effect at
 * once.
 */
import type { ClusterName } from '#cluster/kv/keys.ts';
import type { Kv } from '#cluster/kv/kv.ts';
import {
  noRuntimeLimits,
  type QueryLimits,
  runtimeLimitKeys,
  type RuntimeLimits,
  shareOf,
} from '#cluster/metadata/runtime_limits.ts';
import { RuntimeLimitsFollower } from '#cluster/metadata/runtime_limits_follower.ts';
import type { DbConfig } from '#lib/config/config.ts';
import type { Env } from '#lib/env/env.ts';
import type { Log } from '#lib/log.ts';
import type { RequestLimits } from './storage/admission/admission.ts';
import type { ShardTable } from './storage/namespace/shards.ts';

export interface LiveLimitsOptions {
  readonly kv: Kv;
  readonly cluster: ClusterName;
  readonly env: Env;
  readonly log: Log;
  /** Those of the configuration; that of new series is of the cluster. */
  readonly configured: RequestLimits;
  readonly shards: ShardTable;
  /** Called with what holds, whenever it may have changed. */
  readonly onLimits: (limits: RequestLimits) => void;
}

export class LiveLimits implements AsyncDisposable {
  readonly #options: LiveLimitsOptions;
  readonly #follower: RuntimeLimitsFollower;
  #live: RuntimeLimits = noRuntimeLimits;
  /** Said to this node alone; null for nothing. */
  #newSeriesPerShardMax: number | null = null;

  constructor(options: LiveLimitsOptions) {
    this.#options = options;
    const { kv, cluster, env, log } = options;
    const onChange = (limits: RuntimeLimits): void => {
      const { clusterNewSeriesPerSecondMax } = this.#live;
      if (limits.clusterNewSeriesPerSecondMax !== clusterNewSeriesPerSecondMax) {
        this.#newSeriesPerShardMax = null;
      }
      this.#live = limits;
      this.apply();
    };
    this.#follower = new RuntimeLimitsFollower({
      kv,
      cluster,
      env,
      log,
      keys: runtimeLimitKeys.filter((key) => !key.startsWith('tsdb.client.')),
      onChange,
    });
  }

  /** Follows those of the key-value store, until it is closed. */
  follow(): void {
    this.#follower.start();
  }

  /** Values of the key-value store that were not used, for metrics. */
  get ignored(): number {
    return this.#follower.ignored;
  }

  /** Sets what stands; to be called when the placement has changed too. */
  apply(): void {
    this.#options.onLimits(this.#limits());
  }

  #limits(): RequestLimits {
    const { configured, shards } = this.#options;
    const limits = limitsOf(configured, this.#live, shards.placement, shards.all().length);
    const perShardMax = this.#newSeriesPerShardMax;
    if (perShardMax === null) return limits;
    return { ...limits, newSeriesPerSecondMax: perShardMax * Math.max(1, shards.all().length) };
  }

  /** 0 for no limit. */
  get newSeriesPerShardPerSecondMax(): number {
    const { newSeriesPerSecondMax } = this.#limits();
    return Math.ceil(newSeriesPerSecondMax / Math.max(1, this.#options.shards.all().length));
  }

  /** Holds until the process ends, or the limit of the cluster is changed. @param perShardPerSecondMax 0 for no limit */
  limitNewSeries(perShardPerSecondMax: number): void {
    this.#newSeriesPerShardMax = perShardPerSecondMax;
    this.apply();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#follower[Symbol.asyncDispose]();
  }
}

/** What holds here: a key of the key-value store where it is set, else the configuration. */
export function limitsOf(
  configured: RequestLimits,
  live: RuntimeLimits,
  placement: { readonly numShards: number; readonly replicaFactor: number } | null,
  ownShards: number,
): RequestLimits {
  const query = live.query ?? configured.query;
  return {
    outstandingWritesMax: live.outstandingWritesMax ?? configured.outstandingWritesMax,
    outstandingReadsMax: live.outstandingReadsMax ?? configured.outstandingReadsMax,
    newSeriesPerSecondMax: shareOf(
      live.clusterNewSeriesPerSecondMax ?? configured.newSeriesPerSecondMax,
      placement,
      ownShards,
    ),
    ...(query === undefined ? {} : { query }),
  };
}

export function configuredQueryLimits(configured: DbConfig['queryLimits']): QueryLimits {
  const { seriesBlocks, diskBytesRead, diskRead, metadata } = configured;
  const forceExceeded = false;
  return {
    seriesBlocks: { ...seriesBlocks, forceExceeded },
    diskBytesRead: { ...diskBytesRead, forceExceeded },
    diskRead: { ...diskRead, forceExceeded },
    metadata: { ...metadata, forceExceeded },
  };
}
