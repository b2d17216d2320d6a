/** `db`: what a storage node is told. */
import type { DbSection, LookbackLimitSection } from '../schema/sections.ts';
import type { DbConfig, LookbackLimitConfig, SchemaConfig } from './types.ts';
import { singleNode, resolveDiscovery, placesOf, ofDiscovery } from './discovery.ts';
import type { SectionReader } from './reader.ts';
import { listenIn, loggingOf, tracingOf, resolveClient, resolveHostId } from './shared.ts';

/** Environment variables that override the files. */
export const dataDirectoryVariable = 'TSDB_DATA_DIR';

/** What stands in for the default of the data folder, so that a file goes over it. */
export const dataDirectoryDefaultVariable = 'TSDB_DATA_DIR_DEFAULT';

export const dataDirectoryDefault = '/var/lib/tsdb';

/** What M3 counts as a block in its cache is a page here. */
const cachedBlockBytes = 64 * 1024;

export function resolveDb(
  section: DbSection,
  listenHost: string | null,
  environment: Readonly<Record<string, string | undefined>>,
  reader: SectionReader,
): DbConfig {
  const metricsAddress = section.metrics.prometheus.listenAddress;
  const discovery = resolveDiscovery(
    [
      [['db', 'discovery'], ofDiscovery(section.discovery)],
      ...placesOf(['db', 'config'], section.config),
      ...placesOf(['db', 'client', 'config'], section.client.config),
    ],
    singleNode,
    reader,
  );
  const listen = listenIn(discovery, listenHost);
  return {
    listenAddress: listen(section.listenAddress),
    clusterListenAddress: listen(section.clusterListenAddress),
    httpNodeListenAddress: listen(section.httpNodeListenAddress),
    httpClusterListenAddress: listen(section.httpClusterListenAddress),
    // Like the embedded store: nobody opens it by accident.
    debugListenAddress: section.debugListenAddress,
    allowedHosts: section.allowedHosts ?? null,
    hostId: resolveHostId(section.hostID, discovery),
    discovery,
    client: resolveClient(section.client),
    ...resolveDataDirectory(section.filesystem.filePathPrefix, environment),
    commitlog: {
      sync: section.commitlog.sync,
      flushEveryMillis: section.commitlog.flushEvery,
      flushBytesMax: section.commitlog.flushMaxBytes,
    },
    outstandingWritesMax: section.limits.maxOutstandingWriteRequests,
    outstandingReadsMax: section.limits.maxOutstandingReadRequests,
    newSeriesPerSecondMax:
      section.limits.writeNewSeriesPerSecond || section.writeNewSeriesLimitPerSecond || 0,
    queryLimits: {
      seriesBlocks: lookbackLimitOf(section.limits.maxRecentlyQueriedSeriesBlocks),
      diskBytesRead: lookbackLimitOf(section.limits.maxRecentlyQueriedSeriesDiskBytesRead),
      diskRead: lookbackLimitOf(section.limits.maxRecentlyQueriedSeriesDiskRead),
      metadata: lookbackLimitOf(section.limits.maxRecentlyQueriedMetadata),
    },
    cache: {
      policy: section.cache.series.policy,
      pageBytesMax:
        section.cache.series.lru.maxBlocks === undefined
          ? null
          : section.cache.series.lru.maxBlocks * cachedBlockBytes,
    },
    repair: {
      enabled: section.repair.enabled,
      type: section.repair.type,
      strategy: section.repair.strategy,
      throttleMillis: section.repair.throttle,
      checkIntervalMillis: section.repair.checkInterval,
    },
    parkedKeepMillis: section.parking.keepFor,
    schemas: schemasOf(section.proto),
    tickMinimumMillis: section.tick.minimumInterval,
    logging: loggingOf(section.logging),
    tracing: tracingOf(section.tracing, 'tsdb-node'),
    metricsListenAddress: metricsAddress === undefined ? null : listen(metricsAddress),
    metricsPath: section.metrics.prometheus.handlerPath,
    // The embedded store has no access control, so only its own setting opens it to others.
    kvListenAddress: section.kv.listenAddress,
    memoryBytesMax: section.memoryMax ?? null,
  };
}

function resolveDataDirectory(
  inFile: string | undefined,
  environment: Readonly<Record<string, string | undefined>>,
): Pick<DbConfig, 'dataDirectory' | 'dataDirectoryFrom'> {
  const places = [
    [environment[dataDirectoryVariable], dataDirectoryVariable],
    [inFile, 'db.filesystem.filePathPrefix'],
    [environment[dataDirectoryDefaultVariable], dataDirectoryDefaultVariable],
  ] as const;
  for (const [dataDirectory, dataDirectoryFrom] of places) {
    if (dataDirectory) return { dataDirectory, dataDirectoryFrom };
  }
  return { dataDirectory: dataDirectoryDefault, dataDirectoryFrom: 'default' };
}

function schemasOf({ enabled, schema_registry: registry }: DbSection['proto']): SchemaConfig[] {
  if (!enabled) return [];
  return Object.entries(registry).map(([namespace, schema]) => ({ namespace, ...schema }));
}

function lookbackLimitOf({ value, lookback }: LookbackLimitSection): LookbackLimitConfig {
  return { limit: value, lookbackMillis: lookback };
}
