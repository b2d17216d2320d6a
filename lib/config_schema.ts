/**
 * What a configuration may say: the sections `coordinator:` and `db:` with their defaults, as one schema.
 * This is the one place that knows zod. Settings of M3 fall into three kinds: those that we have, those
 * that tune a mechanism that we do not need (taken and noted), and those for features that are not there
 * (refused, because ignoring them would surprise).
 */
import { z } from 'zod';
import type { CoordinatorSection, DbSection, ListenAddress } from './config_sections.ts';
import { parseDurationNanos } from './time.ts';

/** Stands in the schema's output for a setting that was taken without effect. */
export const withoutEffect: unique symbol = Symbol('without effect');

/** A setting that tunes a mechanism of the reference system which does not exist here. */
const tuning = z
  .unknown()
  .transform(() => withoutEffect)
  .optional();

/** Keys for a schema's shape; their values are of no interest, so their types are not kept. */
function tunings(...names: string[]): object {
  return Object.fromEntries(names.map((name) => [name, tuning]));
}

/** A setting of a feature that is not there; `off` tells the values that ask for nothing. */
function notSupported(
  feature: string,
  off: (value: unknown) => boolean = () => false,
): z.ZodOptional<z.ZodType> {
  return z
    .unknown()
    .superRefine((value, context) => {
      if (value === undefined || off(value)) return;
      context.addIssue({ code: 'custom', message: `not supported: ${feature}` });
    })
    .optional();
}

const isFalse = (value: unknown): boolean => value === false;
const isEmpty = (value: unknown): boolean => Array.isArray(value) && value.length === 0;
const isDisabled = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && 'enabled' in value && value.enabled === false;

const text: z.ZodType<string> = z.string().min(1, 'must not be empty');
const flag: z.ZodType<boolean> = z.boolean();
const count = (most = Number.MAX_SAFE_INTEGER): z.ZodType<number> =>
  z.number().int().min(0).max(most);
const countPositive = (most = Number.MAX_SAFE_INTEGER): z.ZodType<number> =>
  z.number().int().min(1).max(most);

/** A Go duration, as milliseconds (a fraction for less than one). */
const durationMillis: z.ZodType<number> = z
  .union([z.string(), z.literal(0)])
  .transform((value, context) => {
    if (value === 0) return 0;
    try {
      const nanos = parseDurationNanos(value, 'duration');
      if (nanos >= 0n) return Number(nanos) / 1e6;
      context.addIssue({ code: 'custom', message: 'must not be negative' });
    } catch {
      context.addIssue({ code: 'custom', message: 'not a duration such as "48h", "30m" or "10s"' });
    }
    return z.NEVER;
  }) as unknown as z.ZodType<number>;

/** Bytes, as a number or as text with a unit: "512KiB", "4GiB". */
const bytes: z.ZodType<number> = z.union([z.number(), z.string()]).transform((value, context) => {
  const match = /^(\d+)\s*(B|KiB|MiB|GiB|KB|MB|GB)?$/.exec(String(value).trim());
  const unit = {
    B: 1,
    KB: 1e3,
    MB: 1e6,
    GB: 1e9,
    KiB: 2 ** 10,
    MiB: 2 ** 20,
    GiB: 2 ** 30,
  }[match?.[2] ?? 'B']!;
  const size = match === null ? Number.NaN : Number(match[1]) * unit;
  if (Number.isSafeInteger(size)) return size;
  context.addIssue({ code: 'custom', message: 'not a size such as 4096, "64MiB" or "2GiB"' });
  return z.NEVER;
}) as unknown as z.ZodType<number>;

/**
 * Host and port of text such as "0.0.0.0:7201", ":7201", "[::1]:7201".
 * @returns null when it is not one
 */
export function parseAddress(address: string): ListenAddress | null {
  const match = /^(?:\[([0-9a-fA-F:.%a-z]+)\]|([^:\s[\]/]*)):(\d{1,5})$/.exec(address);
  if (match === null || Number(match[3]) > 65_535) return null;
  return { host: match[1] ?? match[2] ?? '', port: Number(match[3]) };
}

const address: z.ZodType<ListenAddress> = z
  .preprocess(
    // Older configurations write {type: config, value: "0.0.0.0:7201"}.
    (value) =>
      typeof value === 'object' && value !== null && (value as { type?: unknown }).type === 'config'
        ? (value as { value?: unknown }).value
        : value,
    z.string(),
  )
  .transform((value, context) => {
    const parsed = parseAddress(value);
    if (parsed !== null) return { host: parsed.host || '0.0.0.0', port: parsed.port };
    context.addIssue({ code: 'custom', message: 'not an address such as "0.0.0.0:7201"' });
    return z.NEVER;
  }) as unknown as z.ZodType<ListenAddress>;

/** "host:port", with or without a scheme, kept as text. */
const endpoint: z.ZodType<string> = z.string().refine(
  (value) => {
    const parsed = parseAddress(value.replace(/^https?:\/\//, '').replace(/\/$/, ''));
    return parsed !== null && parsed.host !== '';
  },
  { message: 'not an address such as "etcd-0:2379"' },
);

const logging = z
  .strictObject({
    level: z.enum(['debug', 'info', 'warn', 'error']).default('info'),
    ...tunings('encoding', 'file', 'fields'),
  })
  .prefault({});

const prometheusMetrics = z
  .strictObject({
    handlerPath: text.default('/metrics'),
    listenAddress: address.optional(),
    ...tunings('timerType', 'defaultHistogramBuckets', 'defaultSummaryObjectives', 'onError'),
  })
  .prefault({});

const metrics = z
  .strictObject({
    prometheus: prometheusMetrics,
    ...tunings('scope', 'sanitization', 'samplingRate', 'extended'),
    m3: notSupported('metrics are offered in the Prometheus text format only'),
  })
  .prefault({});

const tls = z.strictObject({
  caCrtPath: text.optional(),
  crtPath: text.optional(),
  keyPath: text.optional(),
});

/** Where the cluster's key-value store is. */
const tsdbCluster = z.strictObject({
  env: text.default('default_env'),
  zone: text.default('embedded'),
  endpoints: z.array(endpoint).min(1, 'needs at least one address of the key-value store'),
  tls: tls.optional(),
  ...tunings('keepAlive', 'cacheDir', 'autoSyncInterval'),
});

const discovery = z
  .strictObject({
    type: z.enum(['tsdb_single_node', 'tsdb_cluster']),
    tsdbCluster: tsdbCluster.optional(),
    aggregatorCluster: notSupported('the clustered aggregator'),
    config: notSupported('a static topology: use type tsdb_cluster with tsdbCluster.endpoints'),
  })
  .superRefine((value, context) => {
    if (value.type === 'tsdb_cluster' && value.tsdbCluster === undefined) {
      context.addIssue({
        code: 'custom',
        path: ['tsdbCluster'],
        message: 'is required by type tsdb_cluster, with its endpoints',
      });
    }
    if (value.type === 'tsdb_single_node' && value.tsdbCluster !== undefined) {
      context.addIssue({
        code: 'custom',
        path: ['tsdbCluster'],
        message: 'has no meaning with type tsdb_single_node, which embeds its key-value store',
      });
    }
  });

/** The older way to name the key-value store, in client.config.service and db.config.service. */
const service = z
  .strictObject({
    env: text.default('default_env'),
    zone: text.default('embedded'),
    service: text.optional(),
    etcdClusters: z
      .array(
        z.strictObject({
          zone: text.optional(),
          endpoints: z.array(endpoint).min(1),
          tls: tls.optional(),
          ...tunings('keepAlive', 'autoSyncInterval'),
        }),
      )
      .length(1, 'must name one key-value cluster'),
    ...tunings('cacheDir', 'watchWithRevision', 'newDirectoryMode', 'requestTimeout', 'retry'),
  })
  .optional();

const discoveryConfig = z.strictObject({
  discovery: discovery.optional(),
  service,
  services: notSupported('several key-value services: name one by discovery'),
  seedNodes: notSupported('a list of seed nodes: the embedded key-value store is of one node'),
  static: notSupported('a static topology: use discovery type tsdb_cluster'),
});

const retry = z
  .strictObject({
    initialBackoff: durationMillis.optional(),
    backoffFactor: z.number().min(1).optional(),
    maxBackoff: durationMillis.optional(),
    maxRetries: count(100).optional(),
    jitter: flag.optional(),
    forever: notSupported('retries without end', isFalse),
  })
  .prefault({});

const writeLevels = ['one', 'majority', 'all'] as const;
const readLevels = ['one', 'unstrict_majority', 'majority', 'unstrict_all', 'all'] as const;

const client = z
  .strictObject({
    writeConsistencyLevel: z.enum(writeLevels).default('majority'),
    readConsistencyLevel: z.enum(readLevels).default('unstrict_majority'),
    writeTimeout: durationMillis.default(10_000),
    fetchTimeout: durationMillis.default(15_000),
    connectTimeout: durationMillis.default(20_000),
    writeRetry: retry,
    fetchRetry: retry,
    config: discoveryConfig.optional(),
    ...tunings(
      'connectConsistencyLevel',
      'backgroundHealthCheckFailLimit',
      'backgroundHealthCheckFailThrottleFactor',
      'backgroundHealthCheckInterval',
      'backgroundHealthCheckFailThrottle',
      'hashing',
      'maxConnectionCount',
      'minConnectionCount',
      'hostQueueWorkerPoolSize',
      'writeBatchSize',
      'fetchBatchSize',
      'writeShardsInitializing',
      'shardsLeavingCountTowardsConsistency',
      'shardsLeavingAndInitializingCountTowardsConsistency',
      'useV2BatchAPIs',
      'iterateEqualTimestampStrategy',
    ),
    asyncTopologyInitializers: notSupported('writes to a second cluster', isEmpty),
    asyncWriteWorkerPoolSize: tuning,
    asyncWriteMaxConcurrency: tuning,
    proto: notSupported('values typed by a schema', isDisabled),
  })
  .prefault({});

const hostId = z
  .strictObject({
    resolver: z.enum(['config', 'hostname', 'environment', 'file']).default('config'),
    value: text.optional(),
    envVarName: text.optional(),
    file: z.strictObject({ path: text, timeout: durationMillis.optional() }).optional(),
    hostname: z.strictObject({ format: text }).optional(),
  })
  .superRefine((value, context) => {
    const needs = (given: unknown, path: string, reason: string): void => {
      if (given === undefined) context.addIssue({ code: 'custom', path: [path], message: reason });
    };
    if (value.resolver === 'config') needs(value.value, 'value', 'is required by resolver config');
    if (value.resolver === 'environment') {
      needs(value.envVarName, 'envVarName', 'is required by resolver environment');
    }
    if (value.resolver === 'file') needs(value.file, 'file', 'is required by resolver file');
    if (value.hostname !== undefined) {
      context.addIssue({
        code: 'custom',
        path: ['hostname'],
        message: 'not supported: a format of the host name; use resolver environment',
      });
    }
  });

const commitlog = z
  .strictObject({
    sync: z.enum(['always', 'interval']).default('always'),
    flushEvery: durationMillis.default(1_000),
    flushMaxBytes: bytes.default(524_288),
    queue: z
      .strictObject({
        calculationType: z.enum(['fixed', 'percpu']).default('fixed'),
        size: countPositive(100_000_000).default(2_097_152),
      })
      .prefault({}),
    ...tunings('queueChannel', 'blockSize', 'retentionPeriod'),
  })
  .prefault({});

const filesystem = z
  .strictObject({
    filePathPrefix: text.optional(),
    throughputLimitMbps: z.number().min(0).default(1000),
    ...tunings(
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
    mode: z.enum(['default', 'prefer_peers', 'exclude_commitlog']).default('default'),
    bootstrappers: z
      .array(z.enum(['filesystem', 'commitlog', 'peers', 'uninitialized_topology']))
      .transform(() => withoutEffect)
      .optional(),
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

const nodeLimits = z
  .strictObject({
    maxOutstandingWriteRequests: count().default(0),
    maxOutstandingReadRequests: count().default(0),
    writeNewSeriesPerSecond: count().default(0),
    maxOutstandingRepairedBytes: tuning,
    maxEncodersPerBlock: tuning,
    maxRecentlyQueriedSeriesDiskBytesRead: notSupported('a limit over a look-back time'),
    maxRecentlyQueriedSeriesDiskRead: notSupported('a limit over a look-back time'),
    maxRecentlyQueriedSeriesBlocks: notSupported('a limit over a look-back time'),
    maxRecentlyQueriedMetadata: notSupported('a limit over a look-back time'),
  })
  .prefault({});

/** Section `db:`. */
const dbSchema = z.strictObject({
  listenAddress: address.default({ host: '0.0.0.0', port: 9000 }),
  clusterListenAddress: address.default({ host: '0.0.0.0', port: 9001 }),
  httpNodeListenAddress: address.default({ host: '0.0.0.0', port: 9002 }),
  httpClusterListenAddress: address.default({ host: '0.0.0.0', port: 9003 }),
  debugListenAddress: address.default({ host: '0.0.0.0', port: 9004 }),
  hostID: hostId.optional(),
  client,
  discovery: discovery.optional(),
  config: discoveryConfig.optional(),
  filesystem,
  fs: notSupported('the section is called filesystem'),
  commitlog,
  bootstrap,
  limits: nodeLimits,
  tick: z
    .strictObject({
      minimumInterval: durationMillis.default(10_000),
      ...tunings('seriesBatchSize', 'perSeriesSleepDuration'),
    })
    .prefault({}),
  logging,
  metrics,
  // Ours: the embedded key-value store of a single node, and the memory that series may take.
  kv: z
    .strictObject({ listenAddress: address.default({ host: '127.0.0.1', port: 2379 }) })
    .prefault({}),
  memoryMax: bytes.optional(),
  writeNewSeriesLimitPerSecond: count().optional(),
  ...tunings(
    'pooling',
    'gcPercentage',
    'blockRetrieve',
    'cache',
    'hashing',
    'index',
    'tchannel',
    'wide',
    'writeNewSeriesAsync',
    'writeNewSeriesBackoffDuration',
    'debug',
  ),
  coordinator: notSupported('the section stands beside "db:", not below it'),
  repair: notSupported('repair', isDisabled),
  replication: notSupported('replication between clusters'),
  proto: notSupported('values typed by a schema', isDisabled),
  tracing: notSupported('tracing'),
  transforms: notSupported('transformation of writes'),
  forceColdWritesEnabled: notSupported('cold writes for all namespaces at once', isFalse),
});

const tagOptions = z
  .strictObject({
    idScheme: z.enum(['quoted', 'prepend_meta', 'legacy']).default('quoted'),
    metricName: z
      .literal('__name__', 'not supported: another name than __name__ for the metric name')
      .optional(),
    bucketName: z.literal('le', 'not supported: another name than le for buckets').optional(),
    filters: notSupported('a filter on the tags of writes', isEmpty),
    allowTagNameDuplicates: notSupported('tag names that appear twice', isFalse),
    allowTagValueEmpty: notSupported('empty tag values', isFalse),
  })
  .prefault({});

const perQuery = z
  .strictObject({
    maxFetchedSeries: count().default(100_000),
    maxFetchedRange: durationMillis.default(0),
    requireExhaustive: flag.default(true),
    maxFetchedDocs: notSupported('a limit on documents: use maxFetchedSeries', (v) => v === 0),
    instanceMultiple: tuning,
  })
  .prefault({});

const query = z
  .strictObject({
    timeout: durationMillis.default(30_000),
    defaultEngine: z
      .literal('prometheus', 'not supported: an engine other than prometheus')
      .default('prometheus'),
    prometheus: z
      .strictObject({
        maxSamplesPerQuery: countPositive().default(100_000_000),
        convert: tuning,
      })
      .prefault({}),
    consolidation: tuning,
    requireLabelsEndpointStartEndTime: notSupported('labels with a required range', isFalse),
    requireSeriesEndpointStartEndTime: notSupported('series with a required range', isFalse),
    restrictTags: notSupported('a filter that is laid on every query'),
  })
  .prefault({});

const clusterOfCoordinator = z.strictObject({
  client,
  namespaces: notSupported('a list of namespaces: they are read from the key-value store', isEmpty),
  ...tunings('newDirectoryMode'),
});

/** Section `coordinator:`, or the whole file of a coordinator that runs by itself. */
const coordinatorSchema = z.strictObject({
  listenAddress: address.default({ host: '0.0.0.0', port: 7201 }),
  metrics,
  logging,
  tagOptions,
  clusters: z.array(clusterOfCoordinator).max(1, 'not supported: several clusters').default([]),
  discovery: discovery.optional(),
  query,
  limits: z
    .strictObject({
      perQuery,
      // Ours: what one coordinator takes at a time before it answers 429.
      maxWriteBodyBytes: bytes.default(64 * 2 ** 20),
      maxWriteBytesInFlight: bytes.default(256 * 2 ** 20),
      maxConnections: countPositive(1_000_000).default(20_000),
      maxComputedDatapoints: tuning,
      global: notSupported('limits over all queries'),
    })
    .prefault({}),
  lookbackDuration: durationMillis.default(300_000),
  memoryMax: bytes.default(512 * 2 ** 20),
  backend: z.literal('tsdb', 'not supported: a backend other than tsdb').optional(),
  local: z.strictObject({ namespaces: tuning }).optional(),
  resultOptions: z
    .strictObject({ keepNaNs: notSupported('NaN in results of the pipe engine', isFalse) })
    .optional(),
  ...tunings(
    'readWorkerPoolPolicy',
    'writeWorkerPoolPolicy',
    'decompressWorkerPoolCount',
    'decompressWorkerPoolSize',
    'experimental',
    'debug',
    'cache',
  ),
  clusterManagement: z
    .strictObject({
      placement: z
        .strictObject({
          addAllCandidates: z
            .literal(true, 'not supported: adding one of several candidates')
            .optional(),
        })
        .optional(),
      etcd: service,
    })
    .optional(),
  writeForwarding: notSupported('forwarding of writes'),
  downsample: notSupported('aggregation of metrics'),
  ingest: notSupported('ingestion from the aggregator'),
  carbon: notSupported('dotted-path ingestion'),
  middleware: notSupported('middleware settings'),
  rpc: notSupported('queries over several zones', isDisabled),
  storeMetricsType: notSupported('storing the type of metrics', isFalse),
  multiProcess: notSupported('several processes: run several coordinators', isDisabled),
  filter: notSupported('filters between local and remote storage'),
  tracing: notSupported('tracing'),
  prometheusRemoteBackend: notSupported('a remote backend'),
  schema: notSupported('values typed by a schema'),
});

/** Checks section `coordinator:`. */
export function checkCoordinatorSection(value: unknown): Checked<CoordinatorSection> {
  return check(coordinatorSchema, value);
}

/** Checks section `db:`. */
export function checkDbSection(value: unknown): Checked<DbSection> {
  return check(dbSchema, value);
}

/** One mistake; `path` leads to the value, or to the mapping that holds the unknown key. */
export interface SchemaProblem {
  readonly path: readonly string[];
  readonly reason: string;
}

/** A section with all defaults, or every problem with it. */
export type Checked<Section> =
  | { readonly value: Section }
  | { readonly problems: readonly SchemaProblem[] };

function check<Section>(schema: z.ZodType<Section>, value: unknown): Checked<Section> {
  const result = schema.safeParse(value);
  if (result.success) return { value: result.data };
  return { problems: result.error.issues.flatMap((issue) => problemsOf(issue, value)) };
}

function problemsOf(issue: z.core.$ZodIssue, root: unknown): SchemaProblem[] {
  const path = issue.path.map(String);
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => ({ path: [...path, key], reason: 'unknown key' }));
  }
  const value = valueAt(root, path);
  if (value === undefined) {
    const reason = issue.code === 'custom' ? issue.message : 'is required';
    return [{ path, reason }];
  }
  return [{ path, reason: `${reasonOf(issue)}: ${shown(value, path)}` }];
}

function reasonOf(issue: z.core.$ZodIssue): string {
  if (issue.code === 'invalid_type') {
    return `must be ${kindNames[issue.expected] ?? issue.expected}`;
  }
  if (issue.code === 'invalid_union') return 'has a value of the wrong kind';
  // A message of the schema says more than the one made from the rule.
  if (!/^(?:Invalid|Too)/.test(issue.message)) return issue.message;
  if (issue.code === 'invalid_value')
    return `must be one of ${issue.values.map(String).join(', ')}`;
  if (issue.code === 'too_small') return `must be at least ${issue.minimum}`;
  if (issue.code === 'too_big') return `must be at most ${issue.maximum}`;
  return issue.message;
}

const kindNames: Record<string, string> = {
  string: 'text (put it in quotes)',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  object: 'a mapping',
  array: 'a list',
};

function valueAt(root: unknown, path: readonly string[]): unknown {
  let value = root;
  for (const key of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = (value as Record<string, unknown>)[key];
  }
  return value;
}

/** A value for a message: cut short, and not at all where it may be a secret. */
function shown(value: unknown, path: readonly string[]): string {
  if (/password|token|secret/i.test(path.at(-1) ?? '')) return '(not shown)';
  const json = JSON.stringify(value) ?? String(value);
  return json.length > 100 ? `${json.slice(0, 100)}…` : json;
}
