/**
 * The configuration of a process: `-f file` (repeatable, later files over earlier ones), defaults,
 * and the two overrides of the environment. A mistake stops the start; all mistakes are listed at
 * once.
 *
 *     db:                                  coordinator:
 *       discovery: {type: tsdb_cluster,      listenAddress: 0.0.0.0:7201
 *         tsdbCluster: {endpoints: [...]}}   tagOptions: {idScheme: quoted}
 */
import {
  type Checked,
  checkAggregatorSection,
  checkCoordinatorSection,
  checkDbSection,
} from './schema.ts';
import { hostByDiscovery, hostOfCluster, hostOfSingleNode, withoutEffect } from './values.ts';
import type {
  AggregatorSection,
  ClientSection,
  CoordinatorSection,
  DbSection,
  DiscoveryConfigSection,
  DiscoverySection,
  HostIdSection,
  ListenAddress,
  LoggingSection,
  LookbackLimitSection,
  ServiceSection,
  StatsdSection,
  StoreSection,
  TlsSection,
  TracingSection,
} from './sections.ts';
import type {
  AggregatorConfig,
  CarbonConfig,
  OpenTsdbConfig,
  StatsdConfig,
  OtlpConfig,
  ClientConfig,
  Config,
  CoordinatorConfig,
  DbConfig,
  DiscoveryConfig,
  ForwardingConfig,
  HostIdConfig,
  LookbackLimitConfig,
  SchemaConfig,
  TlsConfig,
  TracingConfig,
} from './types.ts';
import { forwardedRequestsMax } from './coordinator_schema.ts';
import { type ConfigFile, type ConfigTree, pathSeparator, readConfigFiles } from './text.ts';
import { messageOf } from '../errors.ts';
import type { LogOptions } from '../log.ts';

export type { ConfigFile } from './text.ts';
export type { ListenAddress } from './sections.ts';
export type {
  CarbonConfig,
  HaPairsConfig,
  StatsdConfig,
  StatsdSharingConfig,
  OtlpConfig,
  CarbonRulesConfig,
  OpenTsdbConfig,
  AggregatorConfig,
  ClientConfig,
  Config,
  CoordinatorConfig,
  DbConfig,
  DiscoveryConfig,
  HostIdConfig,
  SchemaConfig,
  TlsConfig,
} from './types.ts';

/** The configuration cannot be used; `problems` names every mistake with file and line. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(`the configuration has ${problems.length} problem(s):\n  ${problems.join('\n  ')}`);
    this.problems = problems;
  }
}

/** Environment variables that override the files. */
export const dataDirectoryVariable = 'TSDB_DATA_DIR';
/** What stands in for the default of the data folder, so that a file goes over it. */
export const dataDirectoryDefaultVariable = 'TSDB_DATA_DIR_DEFAULT';
export const dataDirectoryDefault = '/var/lib/tsdb';
export const listenHostVariable = 'TSDB_LISTEN_HOST';

export type ConfigRole = 'node' | 'coordinator' | 'aggregator';

/** Of a role whose file may have its settings at the top. */
const sectionNames = ['coordinator', 'db', 'aggregator'];

/**
 * Reads configuration.
 *
 * @param role a coordinator's file, or an aggregator's, may have its settings at the top, without `coordinator:`
 * @throws {ConfigError} with all problems
 */
export function parseConfig(
  files: readonly ConfigFile[],
  role: ConfigRole,
  environment: Readonly<Record<string, string | undefined>>,
): Config {
  const problems: string[] = [];
  const tree = readConfigFiles(files, environment, problems);
  if (problems.length > 0) throw new ConfigError(problems);
  const lifted = role !== 'node' && !sectionNames.some((name) => name in tree.value);
  const sections: Record<string, unknown> = lifted
    ? { [role]: tree.value }
    : role === 'aggregator'
      ? withBeside(tree.value)
      : tree.value;
  const reader = new SectionReader(tree, lifted, problems);
  for (const key of Object.keys(sections)) {
    if (!sectionNames.includes(key)) reader.add([key], 'unknown section');
  }
  const db =
    'db' in sections || role === 'node' ? reader.section('db', sections, checkDbSection) : null;
  const coordinator =
    'coordinator' in sections || role === 'coordinator'
      ? reader.section('coordinator', sections, checkCoordinatorSection)
      : null;
  const aggregator =
    'aggregator' in sections || role === 'aggregator'
      ? reader.section('aggregator', sections, checkAggregatorSection)
      : null;
  if (problems.length > 0) throw new ConfigError(problems);
  const listenHost = environment[listenHostVariable] || null;
  const dbConfig = db === null ? null : resolveDb(db, listenHost, environment, reader);
  const config: Config = {
    coordinator:
      coordinator === null
        ? null
        : resolveCoordinator(coordinator, db, dbConfig, listenHost, reader),
    db: dbConfig,
    aggregator: aggregator === null ? null : resolveAggregator(aggregator, listenHost, reader),
    notes: reader.notes,
  };
  if (problems.length > 0) throw new ConfigError(problems);
  if (role === 'node') noteOtherModes(config, reader);
  return config;
}

/** Settings that stand in the file and belong to a process of another kind. */
function noteOtherModes({ db, coordinator }: Config, reader: SectionReader): void {
  if (db!.discovery.type !== 'tsdb_single_node') {
    reader.noteGiven(['db', 'kv'], 'only discovery type tsdb_single_node embeds a key-value store');
  }
  if (coordinator === null) return;
  for (const key of ['level', 'encoding']) {
    reader.noteGiven(['coordinator', 'logging', key], 'the process logs as db.logging says');
  }
  reader.noteGiven(
    ['db', 'metrics', 'prometheus', 'listenAddress'],
    'metrics are served at coordinator.metrics',
  );
}

/** What M3's file of an aggregator has beside its section belongs into it. */
function withBeside(value: Record<string, unknown>): Record<string, unknown> {
  const { aggregator, ...others } = value;
  if (typeof aggregator !== 'object' || aggregator === null) return value;
  const beside = Object.entries(others).filter(([key]) => besideAggregator.includes(key));
  const rest = Object.entries(others).filter(([key]) => !besideAggregator.includes(key));
  return {
    ...Object.fromEntries(rest),
    aggregator: { ...Object.fromEntries(beside), ...aggregator },
  };
}

const besideAggregator = [
  'logging',
  'metrics',
  'http',
  'rawtcp',
  'm3msg',
  'kvClient',
  'runtimeOptions',
];

class SectionReader {
  readonly #tree: ConfigTree;
  /** The file's top is the coordinator's section. */
  readonly #lifted: boolean;
  readonly #problems: string[];
  readonly notes: string[] = [];

  constructor(tree: ConfigTree, lifted: boolean, problems: string[]) {
    this.#tree = tree;
    this.#lifted = lifted;
    this.#problems = problems;
  }

  section<Section>(
    name: string,
    sections: Record<string, unknown>,
    check: (value: unknown) => Checked<Section>,
  ): Section | null {
    const given = sections[name] ?? {};
    const checked = check(given);
    if ('problems' in checked) {
      for (const { path, reason } of checked.problems) this.add([name, ...path], reason);
      return null;
    }
    this.#noteTunings(checked.value, [name]);
    return checked.value;
  }

  /** Adds a problem at the nearest place that stands in a file. */
  add(path: readonly string[], reason: string): void {
    this.#problems.push(`${this.#where(path)}: ${reason}`);
  }

  /** Notes a setting without effect if it stands in a file. */
  noteGiven(path: readonly string[], reason: string): void {
    if (this.#tree.locations.has(path.join(pathSeparator))) {
      this.notes.push(`${this.#where(path)} has no effect here: ${reason}`);
    }
  }

  #where(path: readonly string[]): string {
    const { locations } = this.#tree;
    const isBeside =
      path[0] === 'aggregator' &&
      besideAggregator.includes(path[1]!) &&
      !locations.has(path.slice(0, 2).join(pathSeparator));
    const inFile = this.#lifted || isBeside ? path.slice(1) : path;
    for (let length = inFile.length; length > 0; length -= 1) {
      const location = locations.get(inFile.slice(0, length).join(pathSeparator));
      if (location !== undefined) return `${location.file}:${location.line}: ${inFile.join('.')}`;
    }
    return inFile.join('.');
  }

  #noteTunings(value: unknown, path: readonly string[]): void {
    if (value === withoutEffect) {
      this.notes.push(`${this.#where(path)} has no effect here`);
    } else if (typeof value === 'object' && value !== null) {
      for (const [key, item] of Object.entries(value)) this.#noteTunings(item, [...path, key]);
    }
  }
}

const singleNode: DiscoveryConfig = {
  type: 'tsdb_single_node',
  env: 'default_env',
  zone: 'embedded',
};

/** The first that is given; naming the store at two places is a mistake when they differ. */
function resolveDiscovery(
  places: readonly (readonly [path: readonly string[], DiscoveryConfig | null])[],
  fallback: DiscoveryConfig,
  reader: SectionReader,
): DiscoveryConfig {
  let chosen: DiscoveryConfig | null = null;
  for (const [path, discovery] of places) {
    if (discovery === null) continue;
    if (chosen !== null && JSON.stringify(chosen) !== JSON.stringify(discovery)) {
      reader.add(path, 'contradicts the discovery that is given at another place');
    }
    chosen ??= discovery;
  }
  return chosen ?? fallback;
}

/** @param name of the service, unless the section has one */
function tracingOf(section: TracingSection | undefined, name: string): TracingConfig | null {
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

function loggingOf({ level, encoding, encoderConfig }: LoggingSection): LogOptions {
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

function ofDiscovery(section: DiscoverySection | undefined): DiscoveryConfig | null {
  if (section === undefined) return null;
  if (section.config !== undefined) return ofStore(section.config);
  if (section.tsdbCluster === undefined) return singleNode;
  const { env, zone, endpoints, tls } = section.tsdbCluster;
  return { type: 'tsdb_cluster', env, zone, endpoints, tls: ofTls(tls) };
}

/** With one seed node the store is the one that the node embeds. */
function ofStore({ service, services, seedNodes }: StoreSection): DiscoveryConfig | null {
  const given = service ?? services?.[0]?.service;
  const found = ofService(given);
  if (seedNodes === undefined) return found;
  const { env, zone } = found ?? singleNode;
  return { ...singleNode, env, zone };
}

function ofService(section: ServiceSection | undefined): DiscoveryConfig | null {
  if (section === undefined) return null;
  const [cluster] = section.etcdClusters;
  return {
    type: 'tsdb_cluster',
    env: section.env,
    zone: section.zone,
    endpoints: cluster!.endpoints,
    tls: ofTls(cluster!.tls),
  };
}

function ofTls(section: TlsSection | undefined): TlsConfig | null {
  if (section === undefined) return null;
  return {
    caPath: section.caCrtPath,
    certificatePath: section.crtPath ?? null,
    keyPath: section.keyPath ?? null,
  };
}

function placesOf(
  path: readonly string[],
  section: DiscoveryConfigSection | undefined,
): (readonly [readonly string[], DiscoveryConfig | null])[] {
  return [
    [[...path, 'discovery'], ofDiscovery(section?.discovery)],
    [[...path, 'service'], section === undefined ? null : ofStore(section)],
  ];
}

function otlpOf(
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

function carbonOf(
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

function openTsdbOf(
  ingester: NonNullable<CoordinatorSection['opentsdb']>['ingester'],
  listen: (address: ListenAddress) => ListenAddress,
): OpenTsdbConfig | null {
  if (ingester === undefined) return null;
  const { listenAddress, maxConnections: connectionsMax } = ingester;
  return { listenAddress: listen(listenAddress), connectionsMax };
}

function statsdOf(
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

/**
 * Where a process listens: at the host of the environment, else at that of the file, else at one
 * that those who have to reach it can reach.
 */
function listenIn(
  { type }: DiscoveryConfig,
  hostGiven: string | null,
): (address: ListenAddress) => ListenAddress {
  const hostUnnamed = type === 'tsdb_single_node' ? hostOfSingleNode : hostOfCluster;
  return ({ host, port }) => {
    const hostOfFile = host === hostByDiscovery ? hostUnnamed : host;
    return { host: hostGiven ?? hostOfFile, port };
  };
}

/** What M3 counts as a block in its cache is a page here. */
const cachedBlockBytes = 64 * 1024;

function resolveDb(
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

/**
 * SPEC.txt: the host ID equals the host name unless a resolver is configured; a single node has a
 * name.
 */
function resolveHostId(
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

function resolveClient(section: ClientSection): ClientConfig {
  return {
    writeConsistencyLevel: section.writeConsistencyLevel,
    readConsistencyLevel: section.readConsistencyLevel,
    writeTimeoutMillis: section.writeTimeout,
    fetchTimeoutMillis: section.fetchTimeout,
  };
}

function resolveCoordinator(
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
    fetchedSeriesMax: perQuery.maxFetchedSeries,
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

function forwardingOf({
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

function resolveAggregator(
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
    discovery,
    client: resolveClient(section.client),
  };
}

const defaultClient: ClientSection = {
  writeConsistencyLevel: 'majority',
  readConsistencyLevel: 'unstrict_majority',
  writeTimeout: 10_000,
  fetchTimeout: 15_000,
};

/**
 * The files of the command line: `-f file`, any number of times.
 * @throws {ConfigError} when there is another argument, or none is given and `required`
 */
export function configPathsOf(args: readonly string[]): string[] {
  const paths: string[] = [];
  for (let index = 0; index < args.length; index += 1) {
    const argument = args[index]!;
    const inline = /^(?:-f|--file)=(.+)$/.exec(argument);
    if (inline !== null) {
      paths.push(inline[1]!);
    } else if ((argument === '-f' || argument === '--file') && index + 1 < args.length) {
      index += 1;
      paths.push(args[index]!);
    } else {
      const what =
        argument === '-f' || argument === '--file'
          ? `${argument} needs a file after it`
          : `unknown argument: ${argument}`;
      throw new ConfigError([`command line: ${what}; usage: -f FILE, --help, --version`]);
    }
  }
  return paths;
}

/**
 * Reads the files of a command line and their configuration.
 * @param readFile such as `env.disk.readFile`
 * @throws {ConfigError} when a file cannot be read, or with all problems in the files
 */
export async function loadConfig(
  paths: readonly string[],
  role: ConfigRole,
  environment: Readonly<Record<string, string | undefined>>,
  readFile: (path: string) => Promise<Uint8Array>,
): Promise<Config> {
  const files: ConfigFile[] = [];
  const problems: string[] = [];
  for (const path of paths) {
    try {
      files.push({
        path,
        text: new TextDecoder('utf-8', { fatal: true }).decode(await readFile(path)),
      });
    } catch (error) {
      problems.push(`${path}: cannot be read: ${messageOf(error)}`);
    }
  }
  if (problems.length > 0) throw new ConfigError(problems);
  return parseConfig(files, role, environment);
}
