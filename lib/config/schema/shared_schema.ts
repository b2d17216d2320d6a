/**
 * Settings that both sections have: logs, metrics, the way to the key-value store, the session of
 * the cluster.
 */
import * as z from 'zod';
import { type NameValidation, nameValidations } from '../../tags.ts';
import type {
  ClientSection,
  DiscoveryConfigSection,
  DiscoverySection,
  HostIdSection,
  LoggingSection,
  MetricsSection,
  ServiceSection,
  TracingSection,
} from './sections.ts';
import {
  address,
  documented,
  durationMillis,
  endpoint,
  flag,
  isEmpty,
  notSupported,
  oneOf,
  text,
  timeoutMillis,
  tuning,
  tunings,
} from './values.ts';

/** How IDs are made, and which names may be written. */
export const seriesNames: {
  readonly idScheme: z.ZodDefault<z.ZodType<'quoted' | 'prepend_meta' | 'legacy'>>;
  readonly nameValidation: z.ZodDefault<z.ZodType<NameValidation>>;
} = {
  idScheme: oneOf(['quoted', 'prepend_meta', 'legacy']).default('quoted'),
  nameValidation: oneOf(nameValidations).default('legacy'),
};

/** That an ID of the scheme tells its tags from others, whatever their names are. */
export function namesFitIds(
  { idScheme, nameValidation }: { readonly idScheme: string; readonly nameValidation: string },
  context: { addIssue(issue: { code: 'custom'; path: string[]; message: string }): void },
): void {
  if (idScheme !== 'legacy' || nameValidation === 'legacy') return;
  context.addIssue({
    code: 'custom',
    path: ['nameValidation'],
    message: 'must be legacy with the ID scheme legacy, whose IDs are told by their names',
  });
}

/** Logs of the process. */
export const logging: z.ZodType<LoggingSection> = documented(
  z.strictObject({
    level: oneOf(['debug', 'info', 'warn', 'error']).default('info'),
    encoding: oneOf(['json', 'console']).optional(),
    encoderConfig: z
      .strictObject({
        messageKey: text.default('msg'),
        levelKey: text.default('level'),
        timeKey: text.default('time'),
        levelEncoder: oneOf(['lowercase', 'capital']).default('lowercase'),
        timeEncoder: oneOf([
          'iso8601',
          'rfc3339',
          'rfc3339nano',
          'epoch',
          'millis',
          'nanos',
        ]).default('iso8601'),
        ...tunings(
          'nameKey',
          'callerKey',
          'functionKey',
          'stacktraceKey',
          'lineEnding',
          'durationEncoder',
          'callerEncoder',
          'nameEncoder',
          'consoleSeparator',
          'skipLineEnding',
        ),
      })
      .prefault({}),
    ...tunings('file', 'fields'),
  }),
  { kind: 'shared', name: 'logging' },
).prefault({});

/** Metrics of the process itself. */
export const metrics: z.ZodType<MetricsSection> = documented(
  z.strictObject({
    prometheus: z
      .strictObject({
        handlerPath: text.default('/metrics'),
        listenAddress: address.optional(),
        ...tunings('timerType', 'defaultHistogramBuckets', 'defaultSummaryObjectives', 'onError'),
      })
      .prefault({}),
    ...tunings('scope', 'sanitization', 'samplingRate', 'extended'),
    m3: notSupported('metrics are offered in the Prometheus text format only'),
  }),
  { kind: 'shared', name: 'metrics' },
).prefault({});

/** Spans of requests. */
export const tracing: z.ZodType<TracingSection | undefined> = documented(
  z
    .strictObject({
      serviceName: text.optional(),
      backend: z
        .literal('opentelemetry', 'not supported: a backend other than opentelemetry')
        .optional(),
      opentelemetry: z
        .strictObject({
          serviceName: text.optional(),
          endpoint,
          insecure: flag.default(false),
          attributes: documented(z.record(z.string(), z.string()), {
            kind: 'value',
            type: 'mapping of texts',
          }).default({}),
          samplingFraction: documented(z.number().min(0).max(1), {
            kind: 'value',
            type: 'number 0 to 1',
          }).default(1),
        })
        .optional(),
      jaeger: notSupported('spans in the form of Jaeger, which takes those of OpenTelemetry'),
      lightstep: notSupported('spans in the form of Lightstep, which takes those of OpenTelemetry'),
    })
    .superRefine(({ backend, opentelemetry }, context) => {
      if (backend === undefined || opentelemetry !== undefined) return;
      const message = 'is required with this backend';
      context.addIssue({ code: 'custom', path: ['opentelemetry'], message });
    }),
  { kind: 'shared', name: 'tracing' },
).optional();

const tls = documented(
  z
    .strictObject({
      caCrtPath: text,
      crtPath: text.optional(),
      keyPath: text.optional(),
    })
    .superRefine((value, context) => {
      if ((value.crtPath === undefined) === (value.keyPath === undefined)) return;
      const path = [value.crtPath === undefined ? 'crtPath' : 'keyPath'];
      context.addIssue({ code: 'custom', path, message: 'is required beside the other one' });
    }),
  { kind: 'shared', name: 'tls' },
);

/** Where the cluster's key-value store is. */
const tsdbCluster = z.strictObject({
  env: text.default('default_env'),
  zone: text.default('embedded'),
  endpoints: z.array(endpoint).min(1, 'needs at least one address of the key-value store'),
  tls: tls.optional(),
  ...tunings('keepAlive', 'cacheDir', 'autoSyncInterval'),
});

/** The older way to name the key-value store, in client.config.service and db.config.service. */
export const service: z.ZodType<ServiceSection> = documented(
  z.strictObject({
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
  }),
  { kind: 'shared', name: 'service' },
);

/** M3's list of them, of which there may be one. */
const servicesOf = z
  .array(z.strictObject({ service, ...tunings('async', 'clientOverrides') }))
  .max(1, 'not supported: several key-value services')
  .optional();

/** Of the store that a node embeds in M3; a single one is what we have. */
const seedNodes = z.strictObject({
  initialCluster: z
    .array(z.strictObject({ hostID: text, endpoint: text, clusterState: tuning }))
    .length(1, 'not supported: seed nodes that are several: run etcd beside the nodes'),
  ...tunings(
    'rootDir',
    'initialAdvertisePeerUrls',
    'advertiseClientUrls',
    'listenPeerUrls',
    'listenClientUrls',
    'clientTransportSecurity',
    'peerTransportSecurity',
  ),
});

const staticTopology = notSupported(
  'a static topology: use type tsdb_cluster with tsdbCluster.endpoints',
);

const discoveryShape = z
  .strictObject({
    type: oneOf(['tsdb_single_node', 'tsdb_cluster']).optional(),
    tsdbCluster: tsdbCluster.optional(),
    m3AggregatorCluster: notSupported('a discovery of aggregators: use tsdbCluster'),
    // As M3's older files have it.
    config: z
      .strictObject({
        service: service.optional(),
        services: servicesOf,
        seedNodes: seedNodes.optional(),
        static: staticTopology,
        statics: staticTopology,
      })
      .optional(),
  })
  .superRefine((value, context) => {
    const issue = (path: readonly string[], message: string): void =>
      context.addIssue({ code: 'custom', path: [...path], message });
    const { config } = value;
    if (config === undefined && value.type === undefined) issue(['type'], 'is required');
    if (config !== undefined) {
      if (value.type !== undefined) issue(['type'], 'has no meaning beside config');
      if (value.tsdbCluster !== undefined) issue(['tsdbCluster'], 'has no meaning beside config');
      const named = [config.service, ...(config.services ?? [])].filter(Boolean).length;
      if (named !== 1) issue(['config'], 'must name one key-value store, by service');
    }
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

/** How a process finds its cluster. */
export const discovery: z.ZodType<DiscoverySection> = documented(discoveryShape, {
  kind: 'shared',
  name: 'discovery',
});

/** The place of discovery in configurations of M3: below `config:`. */
export const discoveryConfig: z.ZodType<DiscoveryConfigSection> = documented(
  z.strictObject({
    discovery: discovery.optional(),
    service: service.optional(),
    services: servicesOf,
    seedNodes: seedNodes.optional(),
    static: staticTopology,
    statics: staticTopology,
  }),
  { kind: 'shared', name: 'discoveryConfig' },
);

/** Which instance of a placement a process is. */
export const hostId: z.ZodType<HostIdSection> = documented(
  z
    .strictObject({
      resolver: oneOf(['config', 'hostname', 'environment', 'file']).default('config'),
      value: text.optional(),
      envVarName: text.optional(),
      file: z.strictObject({ path: text, timeout: durationMillis.optional() }).optional(),
      hostname: notSupported('a format of the host name: use resolver environment'),
    })
    .superRefine((value, context) => {
      const needs = (given: unknown, path: string, reason: string): void => {
        if (given === undefined)
          context.addIssue({ code: 'custom', path: [path], message: reason });
      };
      if (value.resolver === 'config')
        needs(value.value, 'value', 'is required by resolver config');
      if (value.resolver === 'environment') {
        needs(value.envVarName, 'envVarName', 'is required by resolver environment');
      }
      if (value.resolver === 'file') needs(value.file, 'file', 'is required by resolver file');
    }),
  { kind: 'shared', name: 'hostID' },
);

/** The session to the storage nodes. */
const clientShape = z.strictObject({
  writeConsistencyLevel: oneOf(['one', 'majority', 'all']).default('majority'),
  readConsistencyLevel: oneOf([
    'none',
    'one',
    'unstrict_majority',
    'majority',
    'unstrict_all',
    'all',
  ]).default('unstrict_majority'),
  writeTimeout: timeoutMillis().default(10_000),
  fetchTimeout: timeoutMillis().default(15_000),
  config: discoveryConfig.optional(),
  ...tunings(
    'connectTimeout',
    'writeRetry',
    'fetchRetry',
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
    'asyncWriteWorkerPoolSize',
    'asyncWriteMaxConcurrency',
    'proto',
  ),
  iterateEqualTimestampStrategy: notSupported(
    'a choice among rows of one time but iterate_last_pushed: the one that was written last counts',
    (value) => value === 'iterate_last_pushed',
  ),
  asyncTopologyInitializers: notSupported('writes to a second cluster', isEmpty),
});

export const clientGiven: z.ZodType<ClientSection> = documented(clientShape, {
  kind: 'shared',
  name: 'client',
});

export const client: z.ZodType<ClientSection> = clientGiven.prefault({});

/** The same of an aggregator, whose section of M3 is about other aggregators. */
export const aggregatorClient: z.ZodType<ClientSection> = documented(
  z.strictObject({
    ...clientShape.shape,
    ...tunings(
      'type',
      'placementKV',
      'placementWatcher',
      'hashType',
      'shardCutoverWarmupDuration',
      'shardCutoffLingerDuration',
      'encoder',
      'flushSize',
      'flushWorkerCount',
      'maxTimerBatchSize',
      'maxBatchSize',
      'batchFlushDeadline',
      'queueSize',
      'queueDropType',
      'forwarding',
      'connection',
      'm3msg',
    ),
  }),
  { kind: 'shared', name: 'aggregatorClient' },
).prefault({});
