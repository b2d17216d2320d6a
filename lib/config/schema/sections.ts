/**
 * The sections of a configuration as the schema gives them, defaults filled in: durations are
 * milliseconds, sizes bytes. Names are those of the file; `../resolve/` turns them into what the
 * program uses.
 */
import type { PromqlFeatureName } from './promql_features.ts';

export interface ListenAddress {
  /** Of a section '' is `hostByDiscovery`. */
  readonly host: string;
  readonly port: number;
}

export interface TlsSection {
  readonly caCrtPath: string;
  readonly crtPath?: string | undefined;
  readonly keyPath?: string | undefined;
}

export interface DiscoverySection {
  /** Undefined when `config` says where the store is. */
  readonly type?: 'tsdb_single_node' | 'tsdb_cluster' | undefined;
  readonly tsdbCluster?:
    | {
        readonly env: string;
        readonly zone: string;
        readonly endpoints: readonly string[];
        readonly tls?: TlsSection | undefined;
      }
    | undefined;
  readonly config?: StoreSection | undefined;
}

/** Where the key-value store is, as M3's older files have it. */
export interface StoreSection {
  readonly service?: ServiceSection | undefined;
  /** One at most. */
  readonly services?: readonly { readonly service: ServiceSection }[] | undefined;
  /** A store that the node embeds. */
  readonly seedNodes?: object | undefined;
}

export interface ServiceSection {
  readonly env: string;
  readonly zone: string;
  readonly etcdClusters: readonly {
    readonly endpoints: readonly string[];
    readonly tls?: TlsSection | undefined;
  }[];
}

export interface DiscoveryConfigSection extends StoreSection {
  readonly discovery?: DiscoverySection | undefined;
}

export interface ClientSection {
  readonly writeConsistencyLevel: 'one' | 'majority' | 'all';
  readonly readConsistencyLevel:
    | 'none'
    | 'one'
    | 'unstrict_majority'
    | 'majority'
    | 'unstrict_all'
    | 'all';
  readonly writeTimeout: number;
  readonly fetchTimeout: number;
  readonly config?: DiscoveryConfigSection | undefined;
}

export interface MetricsSection {
  readonly prometheus: {
    readonly handlerPath: string;
    readonly listenAddress?: ListenAddress | undefined;
  };
}

export interface LoggingSection {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly encoding?: 'json' | 'console' | undefined;
  readonly encoderConfig: {
    readonly messageKey: string;
    readonly levelKey: string;
    readonly timeKey: string;
    readonly levelEncoder: 'lowercase' | 'capital';
    readonly timeEncoder: 'iso8601' | 'rfc3339' | 'rfc3339nano' | 'epoch' | 'millis' | 'nanos';
  };
}

/** How names of OpenTelemetry become names here, by the words of Prometheus' `translation_strategy`. */
export type TranslationStrategy =
  | 'UnderscoreEscapingWithSuffixes'
  | 'UnderscoreEscapingWithoutSuffixes'
  | 'NoUTF8EscapingWithSuffixes'
  | 'NoTranslation';

/** As M3 has it in `query.restrictTags`, and in a header of requests. */
export interface RestrictTags {
  readonly match: readonly {
    readonly name: string;
    readonly type: 'EQUAL' | 'NOTEQUAL' | 'REGEXP' | 'NOTREGEXP' | 'EXISTS' | 'NOTEXISTS';
    readonly value: string;
  }[];
  /** Names that answers leave out; undefined: those of `match`. */
  readonly strip?: readonly string[] | undefined;
}

export interface CoordinatorSection {
  readonly listenAddress: ListenAddress;
  readonly allowedHosts?: readonly string[] | undefined;
  readonly metrics: MetricsSection;
  readonly logging: LoggingSection;
  readonly tracing?: TracingSection | undefined;
  readonly tagOptions: {
    readonly idScheme: 'quoted' | 'prepend_meta' | 'legacy';
    readonly nameValidation: 'legacy' | 'utf8';
  };
  readonly clusters: readonly { readonly client?: ClientSection | undefined }[];
  readonly discovery?: DiscoverySection | undefined;
  readonly clusterManagement?: { readonly etcd?: ServiceSection | undefined } | undefined;
  readonly query: {
    readonly timeout: number;
    readonly prometheus: {
      readonly maxSamplesPerQuery: number;
      readonly features: readonly PromqlFeatureName[];
    };
    readonly restrictTags?: RestrictTags | undefined;
  };
  readonly limits: {
    readonly perQuery: {
      readonly maxFetchedSeries: number;
      readonly maxFetchedRange: number;
      readonly requireExhaustive: boolean;
    };
    readonly maxWriteBodyBytes: number;
    readonly maxWriteBytesInFlight: number;
    readonly maxReadBytesInFlight?: number | undefined;
    readonly maxConnections: number;
  };
  readonly exemplars: {
    readonly enabled: boolean;
    readonly maxPerSecond: number;
    readonly retention: number;
  };
  readonly metadata: { readonly enabled: boolean; readonly maxEntries: number };
  readonly graphite: { readonly step: number };
  readonly otlp: {
    readonly translationStrategy: TranslationStrategy;
    readonly promoteResourceAttributes: readonly string[];
    readonly promoteAllResourceAttributes: boolean;
    readonly ignoreResourceAttributes: readonly string[];
    readonly keepIdentifyingResourceAttributes: boolean;
    readonly promoteScopeMetadata: boolean;
    readonly convertHistogramsToNHCB: boolean;
    readonly deltaTemporality: 'refuse' | 'store';
    readonly grpcListenAddress?: ListenAddress | undefined;
  };
  readonly carbon?:
    | {
        readonly ingester?:
          | {
              readonly listenAddress: ListenAddress;
              readonly udpEnabled: boolean;
              readonly pickleListenAddress?: ListenAddress | undefined;
              readonly maxConnections: number;
              readonly rewrite: { readonly cleanup: boolean };
              readonly rules?: unknown;
              readonly storageSchemas?: string | undefined;
              readonly storageAggregation?: string | undefined;
            }
          | undefined;
      }
    | undefined;
  readonly opentsdb?:
    | {
        readonly ingester?:
          | { readonly listenAddress: ListenAddress; readonly maxConnections: number }
          | undefined;
      }
    | undefined;
  readonly writeForwarding: {
    readonly promRemoteWrite: {
      readonly maxConcurrency: number;
      readonly timeout: number;
      readonly retry: {
        readonly initialBackoff: number;
        readonly backoffFactor: number;
        readonly maxRetries: number;
      };
      readonly targets: readonly {
        readonly url: string;
        readonly method: 'POST' | 'PUT';
        readonly headers: Readonly<Record<string, string>>;
        readonly noRetry: boolean;
        readonly shadow?: { readonly percent: number } | undefined;
      }[];
    };
  };
  readonly haPairs: {
    readonly enabled: boolean;
    readonly clusterLabel: string;
    readonly replicaLabel: string;
    readonly takeoverTimeout: number;
    readonly updateInterval: number;
    readonly maxClusters: number;
  };
  readonly statsd?: StatsdSection | undefined;
  readonly downsample?: { readonly rules?: unknown } | undefined;
  readonly lookbackDuration: number;
  readonly memoryMax: number;
}

export interface TracingSection {
  readonly serviceName?: string | undefined;
  readonly opentelemetry?:
    | {
        readonly serviceName?: string | undefined;
        readonly endpoint: string;
        readonly insecure: boolean;
        readonly attributes: Readonly<Record<string, string>>;
        readonly samplingFraction: number;
      }
    | undefined;
}

export interface StatsdSection {
  readonly ingester?:
    | {
        readonly listenAddress: ListenAddress;
        readonly udpEnabled: boolean;
        readonly tcpEnabled: boolean;
        readonly maxConnections: number;
        readonly flushInterval: number;
        readonly maxSeries: number;
        readonly sharing?:
          | {
              readonly listenAddress: ListenAddress;
              readonly advertiseAddress: ListenAddress;
            }
          | undefined;
        readonly form: 'prometheus' | 'graphite';
        readonly labels?: Readonly<Record<string, string>> | undefined;
        readonly tags: {
          readonly dogstatsd: boolean;
          readonly influxdb: boolean;
          readonly librato: boolean;
          readonly signalfx: boolean;
        };
        readonly mapping?: unknown;
        readonly graphite: {
          readonly prefix: string;
          readonly legacyNamespace: boolean;
          readonly percentThreshold: readonly number[];
          readonly histogram: readonly {
            readonly metric: string;
            readonly bins: readonly number[];
          }[];
          readonly ttl: number;
        };
      }
    | undefined;
}

/** An aggregator's file of M3 says these beside its section. */
export interface AggregatorSection {
  readonly http?: { readonly listenAddress?: ListenAddress | undefined } | undefined;
  readonly rawtcp?: { readonly listenAddress?: ListenAddress | undefined } | undefined;
  readonly m3msg?:
    | { readonly server?: { readonly listenAddress?: ListenAddress | undefined } | undefined }
    | undefined;
  readonly kvClient?: { readonly etcd: ServiceSection } | undefined;
  readonly listenAddress: ListenAddress;
  readonly httpListenAddress: ListenAddress;
  readonly allowedHosts?: readonly string[] | undefined;
  readonly metrics: MetricsSection;
  readonly logging: LoggingSection;
  readonly tracing?: TracingSection | undefined;
  readonly hostID?: HostIdSection | undefined;
  readonly tagOptions: {
    readonly idScheme: 'quoted' | 'prepend_meta' | 'legacy';
    readonly nameValidation: 'legacy' | 'utf8';
  };
  readonly client: ClientSection;
  readonly discovery?: DiscoverySection | undefined;
}

export interface LookbackLimitSection {
  readonly value: number;
  readonly lookback: number;
}

export interface HostIdSection {
  readonly resolver: 'config' | 'hostname' | 'environment' | 'file';
  readonly value?: string | undefined;
  readonly envVarName?: string | undefined;
  readonly file?: { readonly path: string; readonly timeout?: number | undefined } | undefined;
}

export interface DbSection {
  readonly proto: {
    readonly enabled: boolean;
    readonly schema_registry: Readonly<
      Record<string, { readonly schemaFilePath: string; readonly messageName: string }>
    >;
  };
  readonly listenAddress: ListenAddress;
  readonly clusterListenAddress: ListenAddress;
  readonly httpNodeListenAddress: ListenAddress;
  readonly httpClusterListenAddress: ListenAddress;
  readonly debugListenAddress: ListenAddress;
  readonly allowedHosts?: readonly string[] | undefined;
  readonly hostID?: HostIdSection | undefined;
  readonly client: ClientSection;
  readonly discovery?: DiscoverySection | undefined;
  readonly config?: DiscoveryConfigSection | undefined;
  readonly filesystem: {
    readonly filePathPrefix?: string | undefined;
  };
  readonly commitlog: {
    readonly sync: 'always' | 'interval';
    readonly flushEvery: number;
    readonly flushMaxBytes: number;
  };
  readonly limits: {
    readonly maxOutstandingWriteRequests: number;
    readonly maxOutstandingReadRequests: number;
    readonly writeNewSeriesPerSecond: number;
    readonly maxRecentlyQueriedSeriesDiskBytesRead: LookbackLimitSection;
    readonly maxRecentlyQueriedSeriesDiskRead: LookbackLimitSection;
    readonly maxRecentlyQueriedSeriesBlocks: LookbackLimitSection;
    readonly maxRecentlyQueriedMetadata: LookbackLimitSection;
  };
  readonly cache: {
    readonly series: {
      readonly policy: 'none' | 'recently_read' | 'lru' | 'all';
      readonly lru: { readonly maxBlocks?: number | undefined };
    };
  };
  readonly repair: {
    readonly enabled: boolean;
    readonly type: 'default' | 'only_compare';
    readonly strategy: 'default' | 'full_sweep';
    readonly throttle: number;
    readonly checkInterval: number;
  };
  readonly parking: { readonly keepFor: number };
  readonly tick: { readonly minimumInterval: number };
  readonly logging: LoggingSection;
  readonly tracing?: TracingSection | undefined;
  readonly metrics: MetricsSection;
  readonly kv: { readonly listenAddress: ListenAddress };
  readonly memoryMax?: number | undefined;
  readonly writeNewSeriesLimitPerSecond?: number | undefined;
}
