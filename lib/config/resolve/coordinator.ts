/** `coordinator`: what a coordinator is told, by itself or inside of a node. */
import { fetchedSeriesDefault } from '../schema/coordinator_schema.ts';
import type { CoordinatorSection, DbSection } from '../schema/sections.ts';
import type { CoordinatorConfig, DbConfig } from './types.ts';
import { hostByDiscovery } from '../schema/values.ts';
import { singleNode, resolveDiscovery, placesOf, ofDiscovery, ofService } from './discovery.ts';
import type { SectionReader } from './reader.ts';
import { listenIn, loggingOf, tracingOf, defaultClient, resolveClient } from './shared.ts';
import { otlpOf, carbonOf, openTsdbOf, statsdOf, forwardingOf } from './ways_in.ts';

export function resolveCoordinator(
  section: CoordinatorSection,
  db: DbSection | null,
  dbConfig: DbConfig | null,
  listenHost: string | null,
  reader: SectionReader,
): CoordinatorConfig {
  const cluster = section.clusters[0];
  const { perQuery } = section.limits;
  const discovery = resolveDiscovery(
    [
      [['coordinator', 'discovery'], ofDiscovery(section.discovery)],
      ...placesOf(['coordinator', 'clusters', '0', 'client', 'config'], cluster?.client?.config),
      [['coordinator', 'clusterManagement', 'etcd'], ofService(section.clusterManagement?.etcd)],
      ...(db === null ? [] : [[['db', 'discovery'], dbConfig!.discovery] as const]),
    ],
    singleNode,
    reader,
  );
  const listen = listenIn(discovery, listenHost);
  return {
    listenAddress: listen(section.listenAddress),
    metricsListenAddress: listen(
      section.metrics.prometheus.listenAddress ?? { host: hostByDiscovery, port: 7203 },
    ),
    allowedHosts: section.allowedHosts ?? db?.allowedHosts ?? null,
    metricsPath: section.metrics.prometheus.handlerPath,
    logging: loggingOf(section.logging),
    tracing: tracingOf(section.tracing, 'tsdb-coordinator'),
    idScheme: section.tagOptions.idScheme,
    nameValidation: section.tagOptions.nameValidation,
    discovery,
    client: resolveClient(cluster?.client ?? db?.client ?? defaultClient),
    queryTimeoutMillis: section.query.timeout,
    querySamplesMax: section.query.prometheus.maxSamplesPerQuery,
    promqlFeatures: section.query.prometheus.features,
    lookbackMillis: section.lookbackDuration,
    restrictTags: section.query.restrictTags ?? { match: [] },
    // 0 says nothing, as in M3, whose files may have it.
    fetchedSeriesMax: perQuery.maxFetchedSeries || fetchedSeriesDefault,
    fetchedRangeMillisMax: perQuery.maxFetchedRange,
    requireExhaustive: perQuery.requireExhaustive,
    writeBodyBytesMax: section.limits.maxWriteBodyBytes,
    writeBytesInFlightMax: section.limits.maxWriteBytesInFlight,
    readBytesInFlightMax: section.limits.maxReadBytesInFlight ?? null,
    connectionsMax: section.limits.maxConnections,
    exemplars: {
      isEnabled: section.exemplars.enabled,
      perSecondMax: section.exemplars.maxPerSecond,
      retentionMillis: section.exemplars.retention,
    },
    metadata: {
      isEnabled: section.metadata.enabled,
      entriesMax: section.metadata.maxEntries,
    },
    graphiteStepSeconds: section.graphite.step / 1000,
    otlp: otlpOf(section.otlp, listen),
    carbon: carbonOf(section.carbon?.ingester, listen),
    opentsdb: openTsdbOf(section.opentsdb?.ingester, listen),
    statsd: statsdOf(section.statsd?.ingester, listen),
    haPairs: section.haPairs.enabled
      ? {
          clusterLabel: section.haPairs.clusterLabel,
          replicaLabel: section.haPairs.replicaLabel,
          takeoverMillis: section.haPairs.takeoverTimeout,
          updateMillis: section.haPairs.updateInterval,
          clustersMax: section.haPairs.maxClusters,
        }
      : null,
    forwarding: forwardingOf(section.writeForwarding.promRemoteWrite),
    aggregationRules: section.downsample?.rules,
    memoryBytesMax: section.memoryMax,
  };
}
