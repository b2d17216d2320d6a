/**
 * The configuration as the program uses it: every default filled in, one meaning for each field.
 */
import type { LogOptions } from '../../log.ts';
import type { IdScheme } from '../../series_id/scheme.ts';
import type { NameValidation } from '../../tags.ts';
import type { PromqlFeatureName } from '../schema/promql_features.ts';
import type { ListenAddress, RestrictTags, TranslationStrategy } from '../schema/sections.ts';

/** What all kinds of process read from files. */
export interface Config {
  /** Null when the file has no such section. */
  readonly coordinator: CoordinatorConfig | null;
  readonly db: DbConfig | null;
  readonly aggregator: AggregatorConfig | null;
  /** Settings that were taken and change nothing here: one line each, for the log. */
  readonly notes: readonly string[];
}

/** Carbon's listener. */
export interface CarbonConfig {
  /** Of TCP, and of UDP when it is enabled. */
  readonly listenAddress: ListenAddress;
  readonly udpEnabled: boolean;
  /** Of Carbon's pickles; null for none. */
  readonly pickleListenAddress: ListenAddress | null;
  readonly connectionsMax: number;
  /** Paths are made ones that every tool takes. */
  readonly cleansUp: boolean;
  readonly rules: CarbonRulesConfig;
}

/** Which resolutions paths have, and as what they are read. */
export interface CarbonRulesConfig {
  /** M3's rules as they are written; undefined when there are none. */
  readonly ingester: unknown;
  /** Paths of Carbon's files; null for none. */
  readonly storageSchemas: string | null;
  readonly storageAggregation: string | null;
}

/** OpenTSDB's listener. */
export interface OpenTsdbConfig {
  readonly listenAddress: ListenAddress;
  readonly connectionsMax: number;
}

/** statsd's listener. */
export interface StatsdConfig {
  /** Of UDP and TCP. */
  readonly listenAddress: ListenAddress;
  readonly udpEnabled: boolean;
  readonly tcpEnabled: boolean;
  readonly connectionsMax: number;
  readonly flushIntervalMillis: number;
  readonly seriesMax: number;
  /** Of several coordinators that share series; null for one that keeps all. */
  readonly sharing: StatsdSharingConfig | null;
  readonly tags: {
    readonly dogstatsd: boolean;
    readonly influxdb: boolean;
    readonly librato: boolean;
    readonly signalfx: boolean;
  };
  /** How metrics are written. */
  readonly form:
    | {
        readonly type: 'prometheus';
        /** As it is written; undefined for none. */
        readonly mapping: unknown;
        /** Of all metrics that have none of that name. */
        readonly labels: Readonly<Record<string, string>>;
      }
    | {
        readonly type: 'graphite';
        readonly prefix: string;
        readonly hasLegacyNamespace: boolean;
        readonly percentThresholds: readonly number[];
        readonly histograms: readonly {
          readonly metric: string;
          readonly bins: readonly number[];
        }[];
        readonly ttlMillis: number;
      };
}

/** Coordinators that share the series of statsd. */
export interface StatsdSharingConfig {
  /** Of what others forward. */
  readonly listenAddress: ListenAddress;
  /** Where others reach it. */
  readonly advertiseAddress: ListenAddress;
}

/** Where spans of requests go. */
export interface TracingConfig {
  /** 'host:port' of a collector of OTLP over gRPC. */
  readonly endpoint: string;
  /** Without TLS. */
  readonly isInsecure: boolean;
  readonly serviceName: string;
  /** Of all spans. */
  readonly attributes: Readonly<Record<string, string>>;
  /** Of requests that no other process has begun to trace, 0 to 1. */
  readonly samplingFraction: number;
}

/** A receiver of remote write to which writes are passed on. */
export interface ForwardingTargetConfig {
  readonly url: string;
  readonly method: 'POST' | 'PUT';
  /** Beside those of the write. */
  readonly headers: Readonly<Record<string, string>>;
  readonly retries: boolean;
  /** Of all series that it gets, 0 to 1; null: bodies as they came. */
  readonly share: number | null;
}

export interface ForwardingConfig {
  /** Of each target. */
  readonly requestsMax: number;
  /** Of each attempt. */
  readonly timeoutMillis: number;
  readonly backoff: { readonly firstMillis: number; readonly factor: number };
  readonly retriesMax: number;
  readonly targets: readonly ForwardingTargetConfig[];
}

/** Replicas of Prometheus that send the same. */
export interface HaPairsConfig {
  readonly clusterLabel: string;
  readonly replicaLabel: string;
  readonly takeoverMillis: number;
  readonly updateMillis: number;
  readonly clustersMax: number;
}

/** OpenTelemetry metrics. */
export interface OtlpConfig {
  readonly translationStrategy: TranslationStrategy;
  /** Resource attributes that become labels; all but the ignored ones where all do. */
  readonly promotedAttributes: ReadonlySet<string>;
  readonly promotesAll: boolean;
  readonly ignoredAttributes: ReadonlySet<string>;
  /** In `target_info`. */
  readonly keepsIdentifying: boolean;
  readonly promotesScope: boolean;
  /** Histograms with bounds become native ones with custom buckets. */
  readonly convertsHistograms: boolean;
  /** Points of delta temporality are stored as they are; else refused. */
  readonly storesDeltas: boolean;
  /** Null for no listener of gRPC. */
  readonly grpcListenAddress: ListenAddress | null;
}

export interface CoordinatorConfig {
  readonly listenAddress: ListenAddress;
  readonly metricsListenAddress: ListenAddress;
  /** As of `GuardOptions` in lib/env. */
  readonly allowedHosts: readonly string[] | null;
  readonly metricsPath: string;
  readonly logging: LogOptions;
  /** Null when nothing is traced. */
  readonly tracing: TracingConfig | null;
  readonly idScheme: IdScheme;
  readonly nameValidation: NameValidation;
  readonly discovery: DiscoveryConfig;
  readonly client: ClientConfig;
  readonly queryTimeoutMillis: number;
  readonly querySamplesMax: number;
  readonly promqlFeatures: readonly PromqlFeatureName[];
  readonly lookbackMillis: number;
  /** What is forced on all that is read. */
  readonly restrictTags: RestrictTags;
  /** At least 1. */
  readonly fetchedSeriesMax: number;
  /** 0 = no limit. */
  readonly fetchedRangeMillisMax: number;
  readonly requireExhaustive: boolean;
  readonly writeBodyBytesMax: number;
  readonly writeBytesInFlightMax: number;
  /** Null: a part of the machine's memory. */
  readonly readBytesInFlightMax: number | null;
  readonly connectionsMax: number;
  readonly exemplars: {
    readonly isEnabled: boolean;
    readonly perSecondMax: number;
    /** Of their namespace when it is made. */
    readonly retentionMillis: number;
  };
  readonly metadata: { readonly isEnabled: boolean; readonly entriesMax: number };
  /** Between two rows of Graphite's answers; whole. */
  readonly graphiteStepSeconds: number;
  readonly otlp: OtlpConfig;
  /** Null for no listener. */
  readonly carbon: CarbonConfig | null;
  readonly opentsdb: OpenTsdbConfig | null;
  /** Null for no listener. */
  readonly statsd: StatsdConfig | null;
  /** Null when pairs of Prometheus are not taken. */
  readonly haPairs: HaPairsConfig | null;
  /** Null when there are no targets. */
  readonly forwarding: ForwardingConfig | null;
  /** Aggregation rules as they are written; undefined when there are none. */
  readonly aggregationRules: unknown;
  /** For the table of series that pass through writes. */
  readonly memoryBytesMax: number;
}

export interface AggregatorConfig {
  /** gRPC, of other aggregators and of clients (6000). */
  readonly listenAddress: ListenAddress;
  /** JSON (6001). */
  readonly httpListenAddress: ListenAddress;
  /** 6002 */
  readonly metricsListenAddress: ListenAddress;
  /** As of `GuardOptions` in lib/env. */
  readonly allowedHosts: readonly string[] | null;
  readonly metricsPath: string;
  readonly logging: LogOptions;
  /** Null when nothing is traced. */
  readonly tracing: TracingConfig | null;
  readonly hostId: HostIdConfig;
  readonly idScheme: IdScheme;
  readonly nameValidation: NameValidation;
  readonly discovery: DiscoveryConfig;
  readonly client: ClientConfig;
}

export type LogLevelConfig = 'debug' | 'info' | 'warn' | 'error';
/** Null: lines for people when the standard output is a terminal, else JSON. */
export type LogEncodingConfig = 'json' | 'console' | null;

/** Of a namespace's values. */
export interface SchemaConfig {
  readonly namespace: string;
  readonly schemaFilePath: string;
  /** With its package. */
  readonly messageName: string;
}

export interface DbConfig {
  /** gRPC of this node (9000) and of the cluster through it (9001). */
  readonly listenAddress: ListenAddress;
  readonly clusterListenAddress: ListenAddress;
  /** JSON of this node (9002) and of the cluster through it (9003). */
  readonly httpNodeListenAddress: ListenAddress;
  readonly httpClusterListenAddress: ListenAddress;
  readonly debugListenAddress: ListenAddress;
  /** As of `GuardOptions` in lib/env. */
  readonly allowedHosts: readonly string[] | null;
  readonly hostId: HostIdConfig;
  readonly discovery: DiscoveryConfig;
  readonly client: ClientConfig;
  readonly dataDirectory: string;
  /** The variable or the setting that names it, or 'default'. */
  readonly dataDirectoryFrom: string;
  readonly commitlog: {
    /**
     * 'always': a write is on disk before it is acknowledged. 'interval': up to flushEvery may be
     * lost.
     */
    readonly sync: 'always' | 'interval';
    readonly flushEveryMillis: number;
    readonly flushBytesMax: number;
  };
  /** 0 = no limit. */
  readonly outstandingWritesMax: number;
  /** 0 = no limit. */
  readonly outstandingReadsMax: number;
  /** In the whole cluster; 0 = no limit. */
  readonly newSeriesPerSecondMax: number;
  /** What queries may do over a time. */
  readonly queryLimits: {
    readonly seriesBlocks: LookbackLimitConfig;
    readonly diskBytesRead: LookbackLimitConfig;
    readonly diskRead: LookbackLimitConfig;
    readonly metadata: LookbackLimitConfig;
  };
  readonly cache: {
    readonly policy: 'none' | 'recently_read' | 'lru' | 'all';
    /** Null: the node's default. */
    readonly pageBytesMax: number | null;
  };
  /** How replicas are compared. */
  readonly repair: {
    readonly enabled: boolean;
    readonly type: 'default' | 'only_compare';
    readonly strategy: 'default' | 'full_sweep';
    readonly throttleMillis: number;
    readonly checkIntervalMillis: number;
  };
  /** How long parked data are kept (docs/STORAGE.md). */
  readonly parkedKeepMillis: number;
  /** Deployed to namespaces as soon as these are there. */
  readonly schemas: readonly SchemaConfig[];
  readonly tickMinimumMillis: number;
  readonly logging: LogOptions;
  /** Null when nothing is traced. */
  readonly tracing: TracingConfig | null;
  /**
   * Where metrics are served when no coordinator runs in this process; null for the debug listener.
   */
  readonly metricsListenAddress: ListenAddress | null;
  readonly metricsPath: string;
  /** The embedded key-value store of a single node. */
  readonly kvListenAddress: ListenAddress;
  /** For series in memory; null to derive it from the machine. */
  readonly memoryBytesMax: number | null;
}

export interface LookbackLimitConfig {
  /** 0 = no limit. */
  readonly limit: number;
  readonly lookbackMillis: number;
}

export type DiscoveryConfig =
  | { readonly type: 'tsdb_single_node'; readonly env: string; readonly zone: string }
  | {
      readonly type: 'tsdb_cluster';
      readonly env: string;
      readonly zone: string;
      /** "host:port" of the key-value store's members, perhaps with "https://". */
      readonly endpoints: readonly string[];
      readonly tls: TlsConfig | null;
    };

/** Paths of PEM files. */
export interface TlsConfig {
  readonly caPath: string | null;
  readonly certificatePath: string | null;
  readonly keyPath: string | null;
}

export type HostIdConfig =
  | { readonly resolver: 'config'; readonly value: string }
  | { readonly resolver: 'hostname' }
  | { readonly resolver: 'environment'; readonly envVarName: string }
  | { readonly resolver: 'file'; readonly path: string; readonly timeoutMillis: number };

export interface ClientConfig {
  readonly writeConsistencyLevel: 'one' | 'majority' | 'all';
  readonly readConsistencyLevel:
    | 'none'
    | 'one'
    | 'unstrict_majority'
    | 'majority'
    | 'unstrict_all'
    | 'all';
  readonly writeTimeoutMillis: number;
  readonly fetchTimeoutMillis: number;
}
