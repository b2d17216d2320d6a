/**
 * Settings that both sections have: logs, metrics, the way to the key-value store, the session of
 * the cluster.
 */
import * as z from 'zod';
import type {
  ClientSection,
  DiscoveryConfigSection,
  DiscoverySection,
  HostIdSection,
  LoggingSection,
  MetricsSection,
  ServiceSection,
} from './sections.ts';
import {
  address,
  documented,
  durationMillis,
  endpoint,
  isEmpty,
  notSupported,
  oneOf,
  text,
  timeoutMillis,
  tunings,
} from './values.ts';

/** Logs of the process. */
export const logging: z.ZodType<LoggingSection> = documented(
  z.strictObject({
    level: oneOf(['debug', 'info', 'warn', 'error']).default('info'),
    encoding: oneOf(['json', 'console']).optional(),
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

const discoveryShape = z
  .strictObject({
    type: oneOf(['tsdb_single_node', 'tsdb_cluster']),
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

/** How a process finds its cluster. */
export const discovery: z.ZodType<DiscoverySection> = documented(discoveryShape, {
  kind: 'shared',
  name: 'discovery',
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

/** The place of discovery in configurations of M3: below `config:`. */
export const discoveryConfig: z.ZodType<DiscoveryConfigSection> = z.strictObject({
  discovery: discovery.optional(),
  service: service.optional(),
  services: notSupported('several key-value services: name one by discovery'),
  seedNodes: notSupported('a list of seed nodes: the embedded key-value store is of one node'),
  static: notSupported('a static topology: use discovery type tsdb_cluster'),
});

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
export const clientGiven: z.ZodType<ClientSection> = documented(
  z.strictObject({
    writeConsistencyLevel: oneOf(['one', 'majority', 'all']).default('majority'),
    readConsistencyLevel: oneOf([
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
      'iterateEqualTimestampStrategy',
      'asyncWriteWorkerPoolSize',
      'asyncWriteMaxConcurrency',
      'proto',
    ),
    asyncTopologyInitializers: notSupported('writes to a second cluster', isEmpty),
  }),
  { kind: 'shared', name: 'client' },
);

export const client: z.ZodType<ClientSection> = clientGiven.prefault({});
