/** `aggregator`: what a node of the clustered aggregator is told. */
import type { AggregatorSection } from '../schema/sections.ts';
import type { AggregatorConfig } from './types.ts';
import { hostByDiscovery } from '../schema/values.ts';
import { singleNode, resolveDiscovery, placesOf, ofDiscovery, ofService } from './discovery.ts';
import type { SectionReader } from './reader.ts';
import { listenIn, loggingOf, tracingOf, resolveClient, resolveHostId } from './shared.ts';

export function resolveAggregator(
  section: AggregatorSection,
  listenHost: string | null,
  reader: SectionReader,
): AggregatorConfig {
  const discovery = resolveDiscovery(
    [
      [['aggregator', 'discovery'], ofDiscovery(section.discovery)],
      [['aggregator', 'kvClient', 'etcd'], ofService(section.kvClient?.etcd)],
      ...placesOf(['aggregator', 'client', 'config'], section.client.config),
    ],
    singleNode,
    reader,
  );
  const listen = listenIn(discovery, listenHost);
  return {
    listenAddress: listen(
      section.m3msg?.server?.listenAddress ??
        section.rawtcp?.listenAddress ??
        section.listenAddress,
    ),
    httpListenAddress: listen(section.http?.listenAddress ?? section.httpListenAddress),
    metricsListenAddress: listen(
      section.metrics.prometheus.listenAddress ?? { host: hostByDiscovery, port: 6002 },
    ),
    allowedHosts: section.allowedHosts ?? null,
    metricsPath: section.metrics.prometheus.handlerPath,
    logging: loggingOf(section.logging),
    tracing: tracingOf(section.tracing, 'tsdb-aggregator'),
    hostId:
      section.hostID === undefined
        ? { resolver: 'hostname' }
        : resolveHostId(section.hostID, discovery),
    idScheme: section.tagOptions.idScheme,
    nameValidation: section.tagOptions.nameValidation,
    discovery,
    client: resolveClient(section.client),
  };
}
