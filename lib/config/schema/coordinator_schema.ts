/** Section `coordinator:` of the configuration, as a schema with its defaults. */
import * as z from 'zod';
import { haReplicaTag } from '../../tags.ts';
import { promqlFeatureNames } from './promql_features.ts';
import type { CoordinatorSection } from './sections.ts';
import {
  clientGiven,
  discovery,
  logging,
  metrics,
  namesFitIds,
  seriesNames,
  service,
  tracing,
} from './shared_schema.ts';
import {
  address,
  addressByDiscovery,
  bytes,
  count,
  countPositive,
  durationMillis,
  documented,
  durationPositive,
  flag,
  formatSize,
  hostNames,
  isDisabled,
  isEmpty,
  isFalse,
  isZero,
  notSupported,
  oneOf,
  text,
  timeoutMillis,
  tuning,
  tunings,
} from './values.ts';

const keepNaNs = notSupported('NaN in results of the pipe engine', isFalse);
const limitsOfGraphite = notSupported('limits of Graphite alone: see limits.perQuery', isDisabled);
const shifts = notSupported('ranges of Graphite that are moved', isZero);
const isLocalOnly = (value: unknown): boolean =>
  typeof value === 'object' &&
  value !== null &&
  Object.values(value).every((each) => each === 'local_only');

const tagOptions = z
  .strictObject({
    ...seriesNames,
    metricName: z
      .literal('__name__', 'not supported: another name than __name__ for the metric name')
      .optional(),
    bucketName: z.literal('le', 'not supported: another name than le for buckets').optional(),
    filters: notSupported('a filter on the tags of writes', isEmpty),
    allowTagNameDuplicates: notSupported('tag names that appear twice', isFalse),
    allowTagValueEmpty: notSupported('empty tag values', isFalse),
  })
  .superRefine(namesFitIds)
  .prefault({});

/** Series of a selector that says no limit. */
export const fetchedSeriesDefault = 100_000;

const perQuery = z
  .strictObject({
    maxFetchedSeries: count().default(fetchedSeriesDefault),
    maxFetchedRange: durationMillis.default(0),
    requireExhaustive: flag.default(true),
    maxFetchedDocs: notSupported('a limit on documents: use maxFetchedSeries', (v) => v === 0),
    instanceMultiple: tuning,
  })
  .prefault({});

/** One that is there and forces nothing was to keep somebody out, and would let everybody in. */
const restrictTags = z
  .strictObject({
    match: z
      .array(
        z.strictObject({
          name: text,
          type: oneOf(['EQUAL', 'NOTEQUAL', 'REGEXP', 'NOTREGEXP', 'EXISTS', 'NOTEXISTS']),
          value: documented(z.string(), { kind: 'value', type: 'text' }).default(''),
        }),
      )
      .max(64)
      .default([]),
    strip: z.array(text).optional(),
  })
  .refine(
    ({ match, strip = [] }) => match.length + strip.length > 0,
    'forces nothing, without match and strip',
  );

const query = z
  .strictObject({
    timeout: timeoutMillis().default(30_000),
    defaultEngine: z
      .literal('prometheus', 'not supported: an engine other than prometheus')
      .default('prometheus'),
    prometheus: z
      .strictObject({
        maxSamplesPerQuery: countPositive().default(100_000_000),
        features: z.array(oneOf(promqlFeatureNames)).default([]),
        convert: tuning,
      })
      .prefault({}),
    consolidation: tuning,
    requireLabelsEndpointStartEndTime: notSupported('labels with a required range', isFalse),
    requireSeriesEndpointStartEndTime: notSupported('series with a required range', isFalse),
    restrictTags: restrictTags.optional(),
  })
  .prefault({});

/** Carbon's listener, which is there when the section is. */
const carbonIngester = z.strictObject({
  listenAddress: addressByDiscovery(7204),
  udpEnabled: flag.default(false),
  pickleListenAddress: address.optional(),
  maxConnections: countPositive(1_000_000).default(5_000),
  rewrite: z.strictObject({ cleanup: flag.default(false) }).prefault({}),
  // What they say is checked where they are used.
  rules: documented(z.unknown(), { kind: 'value', type: 'rules of Carbon' }).optional(),
  // Ours: Carbon's own files.
  storageSchemas: text.optional(),
  storageAggregation: text.optional(),
  ...tunings('maxConcurrency'),
});

/** Ours: OpenTSDB's listener, which is there when the section is. */
const openTsdbIngester = z.strictObject({
  listenAddress: addressByDiscovery(4242),
  maxConnections: countPositive(1_000_000).default(5_000),
});

/** statsd's listener, which is there when the section is. */
const percent = documented(
  z
    .number()
    .min(-100)
    .max(100)
    .refine((value) => value !== 0, 'must not be 0'),
  { kind: 'value', type: 'number -100 to 100' },
);

const bin = documented(
  z.union([
    z.number(),
    z.literal('inf').transform(() => Number.POSITIVE_INFINITY),
  ]) as unknown as z.ZodType<number>,
  { kind: 'value', type: 'number, or inf' },
);

const statsdGraphite = z
  .strictObject({
    prefix: text.default('stats'),
    legacyNamespace: flag.default(true),
    percentThreshold: z.array(percent).max(32).default([90]),
    histogram: z
      .array(
        z.strictObject({
          metric: documented(z.string(), { kind: 'value', type: 'text' }).default(''),
          bins: z.array(bin).max(100),
        }),
      )
      .max(100)
      .default([]),
    ttl: durationMillis.default(0),
  })
  .prefault({});

const statsdTags = z
  .strictObject({
    dogstatsd: flag.default(true),
    influxdb: flag.default(true),
    librato: flag.default(true),
    signalfx: flag.default(true),
  })
  .prefault({});

/** Windows of flushes end so soon that who keeps a series can change. */
const sharedFlushMillisMax = 60_000;

const statsdIngester = z
  .strictObject({
    listenAddress: addressByDiscovery(8125),
    udpEnabled: flag.default(true),
    tcpEnabled: flag.default(true),
    maxConnections: countPositive(1_000_000).default(5_000),
    flushInterval: durationPositive(3_600_000).default(10_000),
    maxSeries: countPositive(100_000_000).default(1_000_000),
    form: oneOf(['prometheus', 'graphite']).default('prometheus'),
    labels: documented(
      z.record(
        z.string().regex(/^(?!__)[a-zA-Z_][a-zA-Z0-9_]*$/, 'no name of a label'),
        z.string().min(1, 'must not be empty'),
      ),
      { kind: 'value', type: 'labels' },
    ).optional(),
    tags: statsdTags,
    // What it says is checked where it is used.
    mapping: documented(z.unknown(), { kind: 'value', type: 'mapping' }).optional(),
    graphite: statsdGraphite,
    sharing: z
      .strictObject({
        listenAddress: addressByDiscovery(8127),
        advertiseAddress: address,
      })
      .optional(),
  })
  .superRefine(({ sharing, flushInterval }, context) => {
    if (sharing === undefined || flushInterval <= sharedFlushMillisMax) return;
    context.addIssue({
      code: 'custom',
      path: ['flushInterval'],
      message: 'must be a minute at most where coordinators share series',
    });
  });

/** Prometheus' pairs: several replicas that send the same. */
const haPairs = z
  .strictObject({
    enabled: flag.default(false),
    clusterLabel: text.default('cluster'),
    replicaLabel: text.default(haReplicaTag),
    takeoverTimeout: durationPositive(86_400_000).default(30_000),
    updateInterval: durationPositive(86_400_000).default(15_000),
    maxClusters: countPositive(100_000).default(1_000),
  })
  .superRefine(({ takeoverTimeout, updateInterval, clusterLabel, replicaLabel }, context) => {
    if (updateInterval >= takeoverTimeout) {
      context.addIssue({
        code: 'custom',
        path: ['updateInterval'],
        message: 'must be shorter than takeoverTimeout',
      });
    }
    if (clusterLabel === replicaLabel) {
      context.addIssue({
        code: 'custom',
        path: ['replicaLabel'],
        message: 'must be another label than clusterLabel',
      });
    }
  })
  .prefault({});

function isHttpUrl(value: string): boolean {
  return /^https?:$/.test(URL.parse(value)?.protocol ?? '');
}

/** Writes that are passed on to other receivers, with M3's names. */
const forwardingTarget = z.strictObject({
  url: documented(
    z
      .string()
      .refine(isHttpUrl, 'not an address such as "http://other:7201/api/v1/prom/remote/write"'),
    { kind: 'value', type: 'URL' },
  ),
  method: oneOf(['POST', 'PUT']).default('POST'),
  headers: documented(z.record(z.string(), z.string()), {
    kind: 'value',
    type: 'mapping of texts',
  }).default({}),
  noRetry: flag.default(false),
  shadow: z
    .strictObject({
      percent: documented(z.number().min(0).max(1), { kind: 'value', type: 'number 0 to 1' }),
      hash: z.literal('xxhash', 'not supported: a hash other than xxhash').optional(),
    })
    .optional(),
});

/** Of one target, which is sent to over so many connections. */
export const forwardedRequestsMax = 1_000;
const forwardingMillisMax = 3_600_000;

const promRemoteWriteForwarding = z
  .strictObject({
    maxConcurrency: count(forwardedRequestsMax).default(100),
    timeout: durationPositive(forwardingMillisMax).default(15_000),
    retry: z
      .strictObject({
        initialBackoff: durationPositive(forwardingMillisMax).default(2_000),
        backoffFactor: documented(z.number().min(1).max(10), {
          kind: 'value',
          type: 'number 1 to 10',
        }).default(2),
        maxRetries: count(10).default(1),
        forever: notSupported('bodies that are kept for ever', isFalse),
        ...tunings('jitter', 'maxBackoff'),
      })
      .prefault({}),
    targets: z.array(forwardingTarget).max(16).default([]),
  })
  .prefault({});

/** OpenTelemetry metrics; names are those of Prometheus' section `otlp`. */
const otlp = z
  .strictObject({
    translationStrategy: oneOf([
      'UnderscoreEscapingWithSuffixes',
      'UnderscoreEscapingWithoutSuffixes',
      'NoUTF8EscapingWithSuffixes',
      'NoTranslation',
    ]).default('UnderscoreEscapingWithSuffixes'),
    promoteResourceAttributes: z.array(text).default([]),
    promoteAllResourceAttributes: flag.default(false),
    ignoreResourceAttributes: z.array(text).default([]),
    keepIdentifyingResourceAttributes: flag.default(false),
    promoteScopeMetadata: flag.default(false),
    convertHistogramsToNHCB: flag.default(false),
    deltaTemporality: oneOf(['refuse', 'store']).default('refuse'),
    grpcListenAddress: address.optional(),
  })
  .superRefine((section, context) => {
    const { promoteAllResourceAttributes: all } = section;
    const issue = (path: string, message: string): void =>
      context.addIssue({ code: 'custom', path: [path], message });
    if (all && section.promoteResourceAttributes.length > 0) {
      issue('promoteResourceAttributes', 'must be empty with promoteAllResourceAttributes');
    }
    if (!all && section.ignoreResourceAttributes.length > 0) {
      issue('ignoreResourceAttributes', 'must be empty without promoteAllResourceAttributes');
    }
  })
  .prefault({});

const clusterOfCoordinator = z.strictObject({
  client: clientGiven.optional(),
  // Those of the key-value store are read and written, whatever a file says.
  ...tunings('newDirectoryMode', 'namespaces'),
});

/**
 * Longest compressed body that the write decoder takes, which a test holds equal to its own word
 * for it.
 */
export const writeBodyBytesMax: number = 38 * 2 ** 20;

/** With less, hardly a dashboard could be read. */
const readBytesInFlightMin = 2 ** 20;

/** A block. */
const exemplarRetentionMillisMin = 30 * 60_000;

/** What the write decoder kernel can be given. */
const writeDecoderBytesMin = 2 * 2 ** 20;
const writeDecoderBytesMax = 3 * 2 ** 30;

/** Section `coordinator:`, or the whole file of a coordinator that runs by itself. */
export const coordinatorSchema: z.ZodType<CoordinatorSection> = z
  .strictObject({
    listenAddress: addressByDiscovery(7201),
    allowedHosts: hostNames,
    metrics,
    logging,
    tagOptions,
    clusters: z.array(clusterOfCoordinator).max(1, 'not supported: several clusters').default([]),
    discovery: discovery.optional(),
    query,
    limits: z
      .strictObject({
        perQuery,
        // Ours: what one coordinator takes at a time before it refuses more.
        maxWriteBodyBytes: bytes(1, writeBodyBytesMax).default(writeBodyBytesMax),
        maxWriteBytesInFlight: bytes(1).default(256 * 2 ** 20),
        maxReadBytesInFlight: bytes(readBytesInFlightMin).optional(),
        maxConnections: countPositive(1_000_000).default(20_000),
        maxComputedDatapoints: tuning,
        global: notSupported('limits over all queries'),
      })
      .superRefine(({ maxWriteBodyBytes, maxWriteBytesInFlight }, context) => {
        if (maxWriteBytesInFlight >= maxWriteBodyBytes) return;
        context.addIssue({
          code: 'custom',
          path: ['maxWriteBytesInFlight'],
          message: `must be at least maxWriteBodyBytes, ${formatSize(maxWriteBodyBytes)}`,
        });
      })
      .prefault({}),
    // Ours: what comes with samples, in namespaces of their own.
    exemplars: z
      .strictObject({
        enabled: flag.default(true),
        maxPerSecond: countPositive(1_000_000).default(200),
        retention: durationPositive().default(24 * 3_600_000),
      })
      .superRefine(({ retention }, context) => {
        if (retention >= exemplarRetentionMillisMin) return;
        context.addIssue({
          code: 'custom',
          path: ['retention'],
          message: 'must be at least 30m',
        });
      })
      .prefault({}),
    metadata: z
      .strictObject({
        enabled: flag.default(true),
        maxEntries: countPositive(10_000_000).default(100_000),
      })
      .prefault({}),
    lookbackDuration: durationPositive().default(300_000),
    memoryMax: bytes(writeDecoderBytesMin, writeDecoderBytesMax).default(512 * 2 ** 20),
    backend: z.literal('tsdb', 'not supported: a backend other than tsdb').optional(),
    local: z.strictObject({ namespaces: tuning }).optional(),
    resultOptions: z
      // M3's files have the second.
      .strictObject({ keepNaNs, keepNans: keepNaNs })
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
        etcd: service.optional(),
      })
      .optional(),
    writeForwarding: z.strictObject({ promRemoteWrite: promRemoteWriteForwarding }).prefault({}),
    // Ours: what Graphite has in storage-schemas.conf.
    graphite: z
      .strictObject({ step: durationPositive().default(60_000) })
      .superRefine(({ step }, context) => {
        if (step % 1000 === 0) return;
        context.addIssue({ code: 'custom', path: ['step'], message: 'must be whole seconds' });
      })
      .prefault({}),
    downsample: z
      .strictObject({
        // What they say is checked where they are used.
        rules: documented(z.unknown(), { kind: 'value', type: 'rules' }).optional(),
        matcher: z
          .strictObject({
            namespaceTag: z
              .literal('__m3_namespace__', 'not supported: another tag than __m3_namespace__')
              .optional(),
            ...tunings('cache', 'requireNamespaceWatchOnInit'),
          })
          .optional(),
        ...tunings(
          'aggregationTypes',
          'bufferPastLimits',
          'counterElemPool',
          'remoteAggregator',
          'entryTTL',
          'gaugeElemPool',
          'timerElemPool',
          'untimedRollups',
        ),
      })
      .optional(),
    ingest: notSupported('ingestion from the aggregator'),
    otlp,
    haPairs,
    statsd: z.strictObject({ ingester: statsdIngester.optional() }).optional(),
    carbon: z
      .strictObject({
        ingester: carbonIngester.optional(),
        limitsFind: limitsOfGraphite,
        limitsRender: limitsOfGraphite,
        shiftTimeStart: shifts,
        shiftTimeEnd: shifts,
        shiftStepsStart: shifts,
        shiftStepsEnd: shifts,
        shiftStepsStartWhenAtResolutionBoundary: shifts,
        shiftStepsEndWhenAtResolutionBoundary: shifts,
        shiftStepsStartWhenEndAtResolutionBoundary: shifts,
        shiftStepsEndWhenStartAtResolutionBoundary: shifts,
        renderPartialStart: notSupported('points of which a part is asked for', isFalse),
        renderPartialEnd: notSupported('points of which a part is asked for', isFalse),
        renderSeriesAllNaNs: notSupported('series without a value in answers', isFalse),
        compileEscapeAllNotOnlyQuotes: notSupported('escapes of M3 in targets', isFalse),
        findResultsIncludeBothExpandableAndLeaf: notSupported(
          'paths of a folder and a metric at once as two results',
          isFalse,
        ),
        ...tunings('aggregateNamespacesAllData'),
      })
      .optional(),
    opentsdb: z.strictObject({ ingester: openTsdbIngester.optional() }).optional(),
    middleware: notSupported('middleware settings'),
    rpc: notSupported('queries over several zones', isDisabled),
    storeMetricsType: notSupported('storing the type of metrics', isFalse),
    multiProcess: notSupported('several processes: run several coordinators', isDisabled),
    filter: notSupported('filters between local and remote storage', isLocalOnly),
    tracing,
    prometheusRemoteBackend: notSupported('a remote backend'),
    schema: notSupported('values typed by a schema'),
  })
  .superRefine(({ otlp: { translationStrategy }, tagOptions }, context) => {
    const escapes = translationStrategy.startsWith('UnderscoreEscaping');
    if (escapes || tagOptions.nameValidation === 'utf8') return;
    context.addIssue({
      code: 'custom',
      path: ['otlp', 'translationStrategy'],
      message: 'needs tagOptions.nameValidation utf8: names are not escaped',
    });
  });
