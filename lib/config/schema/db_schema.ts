/** Section `db:` of the configuration, as a schema with its defaults. */
import * as z from 'zod';
import type { DbSection } from './sections.ts';
import {
  client,
  discovery,
  discoveryConfig,
  hostId,
  logging,
  metrics,
  tracing,
} from './shared_schema.ts';
import {
  address,
  addressByDiscovery,
  bytes,
  count,
  documented,
  durationMillis,
  flag,
  hostNames,
  isFalse,
  notSupported,
  oneOf,
  text,
  timeoutMillis,
  tuning,
  tunings,
  withoutEffect,
} from './values.ts';

const proto = z
  .strictObject({
    enabled: flag.default(true),
    schema_registry: z
      .record(text, z.strictObject({ schemaFilePath: text, messageName: text }))
      .default({}),
  })
  .prefault({});

const commitlog = z
  .strictObject({
    sync: oneOf(['always', 'interval']).default('always'),
    flushEvery: durationMillis.default(1_000),
    flushMaxBytes: bytes().default(524_288),
    ...tunings('queue', 'queueChannel', 'blockSize', 'retentionPeriod'),
  })
  .prefault({});

const filesystem = z
  .strictObject({
    filePathPrefix: text.optional(),
    ...tunings(
      'throughputLimitMbps',
      'writeBufferSize',
      'dataReadBufferSize',
      'infoReadBufferSize',
      'seekReadBufferSize',
      'throughputCheckEvery',
      'newFileMode',
      'newDirectoryMode',
      'mmap',
      'force_index_summaries_mmap_memory',
      'forceIndexSummariesMmapMemory',
      'force_bloom_filter_mmap_memory',
      'forceBloomFilterMmapMemory',
      'bloomFilterFalsePositivePercent',
    ),
  })
  .prefault({});

const bootstrap = z
  .strictObject({
    mode: documented(
      z
        .enum(['default', 'prefer_peers', 'exclude_commitlog'])
        .refine((mode) => mode === 'default', {
          message: 'not supported: another order of bootstrap than default',
        }),
      { kind: 'value', type: 'default' },
    ).default('default'),
    bootstrappers: documented(
      z
        .array(z.enum(['filesystem', 'commitlog', 'peers', 'uninitialized_topology']))
        .transform(() => withoutEffect)
        .optional(),
      { kind: 'withoutEffect' },
    ),
    ...tunings(
      'fs',
      'filesystem',
      'commitlog',
      'peers',
      'cacheSeriesMetadata',
      'indexSegmentConcurrency',
      'verify',
    ),
  })
  .prefault({});

/** How much queries may do within a time; 0 is no limit. */
const lookbackLimit = z
  .strictObject({ value: count().default(0), lookback: durationMillis.default(15_000) })
  .prefault({});

const nodeLimits = z
  .strictObject({
    maxOutstandingWriteRequests: count().default(0),
    maxOutstandingReadRequests: count().default(0),
    writeNewSeriesPerSecond: count().default(0),
    maxOutstandingRepairedBytes: tuning,
    maxEncodersPerBlock: tuning,
    maxRecentlyQueriedSeriesDiskBytesRead: lookbackLimit,
    maxRecentlyQueriedSeriesDiskRead: lookbackLimit,
    maxRecentlyQueriedSeriesBlocks: lookbackLimit,
    maxRecentlyQueriedMetadata: lookbackLimit,
  })
  .prefault({});

/** Comparisons with the other replicas, of namespaces that say so. */
const repair = z
  .strictObject({
    enabled: flag.default(true),
    type: oneOf(['default', 'only_compare']).default('default'),
    strategy: oneOf(['default', 'full_sweep']).default('default'),
    throttle: timeoutMillis().default(90_000),
    checkInterval: timeoutMillis().default(60_000),
    ...tunings(
      'concurrency',
      'force',
      'debugShadowComparisonsEnabled',
      'debugShadowComparisonsPercentage',
    ),
  })
  .prefault({});

/** What a placement or a registry took away without a handover or a deletion. */
const parking = z.strictObject({ keepFor: durationMillis.default(48 * 3_600_000) }).prefault({});

/** What is kept in memory of filesets. */
const cache = z
  .strictObject({
    series: z
      .strictObject({
        policy: oneOf(['none', 'recently_read', 'lru', 'all']).default('lru'),
        lru: z
          .strictObject({ maxBlocks: count().optional(), eventsChannelSize: tuning })
          .prefault({}),
      })
      .prefault({}),
    ...tunings('postingsList', 'regexp'),
  })
  .prefault({});

/** Of all stores of a node together, of which there are 255 at most with 3 GiB each. */
export const storeBytesMax: number = 512 * 2 ** 30;
const storeBytesMin = 8 * 2 ** 20;

/** Section `db:`. */
export const dbSchema: z.ZodType<DbSection> = z.strictObject({
  listenAddress: addressByDiscovery(9000),
  clusterListenAddress: addressByDiscovery(9001),
  httpNodeListenAddress: addressByDiscovery(9002),
  httpClusterListenAddress: addressByDiscovery(9003),
  // What it serves costs the whole process, so nothing but itself opens it.
  debugListenAddress: address.default({ host: '127.0.0.1', port: 9004 }),
  allowedHosts: hostNames,
  hostID: hostId.optional(),
  client,
  discovery: discovery.optional(),
  config: discoveryConfig.optional(),
  filesystem,
  fs: notSupported('the section is called filesystem'),
  commitlog,
  bootstrap,
  limits: nodeLimits,
  cache,
  repair,
  parking,
  tick: z
    .strictObject({
      minimumInterval: timeoutMillis().default(10_000),
      ...tunings('seriesBatchSize', 'perSeriesSleepDuration'),
    })
    .prefault({}),
  logging,
  metrics,
  // Ours: the embedded key-value store of a single node, and the memory that series may take.
  kv: z
    .strictObject({ listenAddress: address.default({ host: '127.0.0.1', port: 2379 }) })
    .prefault({}),
  memoryMax: bytes(storeBytesMin, storeBytesMax).optional(),
  writeNewSeriesLimitPerSecond: count().optional(),
  ...tunings(
    'pooling',
    'gcPercentage',
    'blockRetrieve',
    'hashing',
    'index',
    'tchannel',
    'wide',
    'writeNewSeriesAsync',
    'writeNewSeriesBackoffDuration',
    'debug',
  ),
  coordinator: notSupported('the section stands beside "db:", not below it'),
  replication: notSupported('replication between clusters'),
  proto,
  tracing,
  transforms: notSupported('transformation of writes'),
  forceColdWritesEnabled: notSupported('cold writes for all namespaces at once', isFalse),
});
