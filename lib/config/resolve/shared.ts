/** What several kinds of process have: addresses, logs, traces, sessions, the name of the host. */
import type { LogOptions } from '../../log.ts';
import type {
  ClientSection,
  HostIdSection,
  ListenAddress,
  LoggingSection,
  TracingSection,
} from '../schema/sections.ts';
import type { ClientConfig, DiscoveryConfig, HostIdConfig, TracingConfig } from './types.ts';
import { hostByDiscovery, hostOfCluster, hostOfSingleNode } from '../schema/values.ts';

export const listenHostVariable = 'TSDB_LISTEN_HOST';

/**
 * Where a process listens: at the host of the environment, else at that of the file, else at one
 * that those who have to reach it can reach.
 */
export function listenIn(
  { type }: DiscoveryConfig,
  hostGiven: string | null,
): (address: ListenAddress) => ListenAddress {
  const hostUnnamed = type === 'tsdb_single_node' ? hostOfSingleNode : hostOfCluster;
  return ({ host, port }) => {
    const hostOfFile = host === hostByDiscovery ? hostUnnamed : host;
    return { host: hostGiven ?? hostOfFile, port };
  };
}

export function loggingOf({ level, encoding, encoderConfig }: LoggingSection): LogOptions {
  const { messageKey, levelKey, timeKey, levelEncoder, timeEncoder } = encoderConfig;
  return {
    level,
    encoding: encoding ?? null,
    messageKey,
    levelKey,
    timeKey,
    hasCapitalLevels: levelEncoder === 'capital',
    time: timeEncoder.startsWith('rfc3339') ? 'iso8601' : (timeEncoder as LogOptions['time']),
  };
}

/** @param name of the service, unless the section has one */
export function tracingOf(section: TracingSection | undefined, name: string): TracingConfig | null {
  const { opentelemetry } = section ?? {};
  if (opentelemetry === undefined) return null;
  return {
    endpoint: opentelemetry.endpoint.replace(/^https?:\/\//, '').replace(/\/$/, ''),
    isInsecure: opentelemetry.insecure || opentelemetry.endpoint.startsWith('http://'),
    serviceName: opentelemetry.serviceName ?? section?.serviceName ?? name,
    attributes: opentelemetry.attributes,
    samplingFraction: opentelemetry.samplingFraction,
  };
}

export const defaultClient: ClientSection = {
  writeConsistencyLevel: 'majority',
  readConsistencyLevel: 'unstrict_majority',
  writeTimeout: 10_000,
  fetchTimeout: 15_000,
};

export function resolveClient(section: ClientSection): ClientConfig {
  return {
    writeConsistencyLevel: section.writeConsistencyLevel,
    readConsistencyLevel: section.readConsistencyLevel,
    writeTimeoutMillis: section.writeTimeout,
    fetchTimeoutMillis: section.fetchTimeout,
  };
}

/**
 * SPEC.txt: the host ID equals the host name unless a resolver is configured; a single node has a
 * name.
 */
export function resolveHostId(
  section: HostIdSection | undefined,
  discovery: DiscoveryConfig,
): HostIdConfig {
  if (section === undefined) {
    const single = discovery.type === 'tsdb_single_node';
    return single ? { resolver: 'config', value: 'tsdb_local' } : { resolver: 'hostname' };
  }
  switch (section.resolver) {
    case 'config':
      return { resolver: 'config', value: section.value! };
    case 'hostname':
      return { resolver: 'hostname' };
    case 'environment':
      return { resolver: 'environment', envVarName: section.envVarName! };
    case 'file': {
      const { path, timeout } = section.file!;
      return { resolver: 'file', path, timeoutMillis: timeout ?? 0 };
    }
    default:
      return section.resolver satisfies never;
  }
}
