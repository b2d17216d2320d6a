/** Of `coordinator`: the ways in that have settings of their own, and where writes are passed on to. */
import { forwardedRequestsMax } from '../schema/coordinator_schema.ts';
import type { CoordinatorSection, ListenAddress, StatsdSection } from '../schema/sections.ts';
import type {
  CarbonConfig,
  OpenTsdbConfig,
  StatsdConfig,
  OtlpConfig,
  ForwardingConfig,
} from './types.ts';

export function otlpOf(
  section: CoordinatorSection['otlp'],
  listen: (address: ListenAddress) => ListenAddress,
): OtlpConfig {
  const { grpcListenAddress } = section;
  return {
    translationStrategy: section.translationStrategy,
    promotedAttributes: new Set(section.promoteResourceAttributes),
    promotesAll: section.promoteAllResourceAttributes,
    ignoredAttributes: new Set(section.ignoreResourceAttributes),
    keepsIdentifying: section.keepIdentifyingResourceAttributes,
    promotesScope: section.promoteScopeMetadata,
    convertsHistograms: section.convertHistogramsToNHCB,
    storesDeltas: section.deltaTemporality === 'store',
    grpcListenAddress: grpcListenAddress === undefined ? null : listen(grpcListenAddress),
  };
}

export function carbonOf(
  ingester: NonNullable<CoordinatorSection['carbon']>['ingester'],
  listen: (address: ListenAddress) => ListenAddress,
): CarbonConfig | null {
  if (ingester === undefined) return null;
  return {
    listenAddress: listen(ingester.listenAddress),
    udpEnabled: ingester.udpEnabled,
    pickleListenAddress:
      ingester.pickleListenAddress === undefined ? null : listen(ingester.pickleListenAddress),
    connectionsMax: ingester.maxConnections,
    cleansUp: ingester.rewrite.cleanup,
    rules: {
      ingester: ingester.rules,
      storageSchemas: ingester.storageSchemas ?? null,
      storageAggregation: ingester.storageAggregation ?? null,
    },
  };
}

export function openTsdbOf(
  ingester: NonNullable<CoordinatorSection['opentsdb']>['ingester'],
  listen: (address: ListenAddress) => ListenAddress,
): OpenTsdbConfig | null {
  if (ingester === undefined) return null;
  const { listenAddress, maxConnections: connectionsMax } = ingester;
  return { listenAddress: listen(listenAddress), connectionsMax };
}

export function statsdOf(
  ingester: StatsdSection['ingester'],
  listen: (address: ListenAddress) => ListenAddress,
): StatsdConfig | null {
  if (ingester === undefined) return null;
  const { prefix, legacyNamespace, percentThreshold, histogram, ttl } = ingester.graphite;
  return {
    listenAddress: listen(ingester.listenAddress),
    udpEnabled: ingester.udpEnabled,
    tcpEnabled: ingester.tcpEnabled,
    connectionsMax: ingester.maxConnections,
    flushIntervalMillis: ingester.flushInterval,
    seriesMax: ingester.maxSeries,
    sharing:
      ingester.sharing === undefined
        ? null
        : {
            listenAddress: listen(ingester.sharing.listenAddress),
            advertiseAddress: ingester.sharing.advertiseAddress,
          },
    tags: ingester.tags,
    form:
      ingester.form === 'prometheus'
        ? { type: 'prometheus', mapping: ingester.mapping, labels: ingester.labels ?? {} }
        : {
            type: 'graphite',
            prefix,
            hasLegacyNamespace: legacyNamespace,
            percentThresholds: percentThreshold,
            histograms: histogram,
            ttlMillis: ttl,
          },
  };
}

export function forwardingOf({
  maxConcurrency,
  timeout,
  retry,
  targets,
}: CoordinatorSection['writeForwarding']['promRemoteWrite']): ForwardingConfig | null {
  if (targets.length === 0) return null;
  return {
    // As M3 has it: as many as there may be.
    requestsMax: maxConcurrency || forwardedRequestsMax,
    timeoutMillis: timeout,
    backoff: { firstMillis: retry.initialBackoff, factor: retry.backoffFactor },
    retriesMax: retry.maxRetries,
    targets: targets.map(({ url, method, headers, noRetry, shadow }) => ({
      url: new URL(url).href,
      method,
      headers,
      retries: !noRetry,
      share: shadow?.percent ?? null,
    })),
  };
}
