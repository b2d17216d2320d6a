/**
 * The coordinator as a part of a process: the API on 7201 and the metrics on 7203, over a cluster
 * that is reached through the key-value store and the nodes' services.
 */
import { configuredRules } from '#cluster/aggregation_rules/carbon/configured.ts';
import type { ClusterName } from '#cluster/kv/keys.ts';
import type { RulesTarget } from '#cluster/admin/aggregation_rules.ts';
import { RulesFollower } from '#cluster/aggregation_rules/sets/follower.ts';
import { ruleSetTag } from '#cluster/aggregation_rules/sets/over_time.ts';
import { lookingFirst } from '#cluster/kv/looking_first.ts';
import { DeletionLog } from '#cluster/metadata/deletion_log.ts';
import { LiveLevels } from '#cluster/metadata/live_levels.ts';
import { writtenVersionOf } from '#cluster/metadata/written_version.ts';
import type { Kv } from '#cluster/kv/kv.ts';
import {
  droppedNamespace,
  exemplarsCompanion,
  exemplarsNamespace,
  metadataCompanion,
  metadataNamespace,
} from '#cluster/namespaces/companions.ts';
import { droppedCompanion, droppedRetentionNanos } from '#cluster/namespaces/dropped.ts';
import {
  keepDroppedLongEnough,
  promiseNamespaces,
  type PromiseTarget,
} from '#cluster/admin/promises.ts';
import { isReady } from '#cluster/namespaces/namespaces.ts';
import { NamespaceStore } from '#cluster/namespaces/store.ts';
import type { NodeService } from '#cluster/node/service.ts';
import type { Instance, InstanceInfo } from '#cluster/placement/placement.ts';
import { proveNamespace } from '#cluster/session/prove.ts';
import { Session } from '#cluster/session/session.ts';
import type { OwnNode } from '#cluster/session/types.ts';
import type { Topology } from '#cluster/topology/topology.ts';
import type { Aside, Turning } from '#engine/aside/aside.ts';
import type { TcpServer } from '#lib/env/senders/tcp.ts';
import { LabelSeries } from '#engine/json_lines/series.ts';
import { OtlpReader } from '#engine/otlp/reader.ts';
import { WriteDecoder } from '#engine/write_decoder/write_decoder.ts';
import type { CoordinatorConfig } from '#lib/config/config.ts';
import { type FormatLevels, resolutionsFormatLevel } from '#lib/format_level.ts';
import type { Env } from '#lib/env/env.ts';
import type { GrpcServer } from '#lib/env/grpc/server.ts';
import type { HttpServer } from '#lib/env/http.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { Metrics } from '#lib/metrics.ts';
import { serveMetrics } from '#lib/process/metrics_server.ts';
import type { ReadMemory } from '#lib/read_memory/read_memory.ts';
import { nanosPerMilli } from '#lib/time.ts';
import type { Tracing } from '#lib/tracing/tracing.ts';
import { Turns } from '#lib/turns/turns.ts';
import { type TagRules, typeAndUnitTags } from '#lib/tags.ts';
import type { NamespaceReadiness } from './api/ops.ts';
import type { QuerySettings } from './reads/options.ts';
import { Companion } from '#cluster/namespaces/companion.ts';
import { ExemplarWriter } from './companions/exemplar_writer.ts';
import { MetadataWriter } from './companions/metadata_writer.ts';
import { companionMetrics } from './companions/metrics.ts';
import { Fanout, readableNamespace } from './select/fanout.ts';
import { DroppedRows } from './ingest/writing/dropped_rows.ts';
import { AggregatorsFollower } from '#cluster/rollups/aggregators_follower.ts';
import { rollupMetrics } from '#cluster/rollups/metrics.ts';
import { Rollups } from '#cluster/rollups/rollups.ts';
import { shareCountOf, shareOfCoordinators } from '#cluster/rollups/share.ts';
import { EventStore, findEventsOf, refuseEvents } from './graphite/events/event_store.ts';
import { GraphiteFinder } from './graphite/storage/finder.ts';
import { PathReadings } from './graphite/storage/path_readings.ts';
import { SeriesReader } from './graphite/storage/reader.ts';
import { graphiteReading } from './graphite/storage/reading.ts';
import { storedTagNames } from './graphite/storage/tag_matchers.ts';
import type { ApiRequest } from './http/http_api.ts';
import { type ForcedTags, forcedLists, isForcing } from './forced_tags/forced_tags.ts';
import { forcedTo } from './forced_tags/storage.ts';
import { forcedTags, forcedTagsOf } from './forced_tags/header.ts';
import { choiceOf } from './reads/namespace_choice.ts';
import { type CarbonListener, carbonMetrics, listenCarbon } from './carbon/listener.ts';
import { listenOpenTsdb, openTsdbMetrics } from './opentsdb/listener.ts';
import { listenStatsd, type StatsdListener } from './statsd/listener.ts';
import { statsdMetrics } from './statsd/series/metrics.ts';
import { Forwarding } from './forwarding/forwarding.ts';
import { forwardingMetrics } from './forwarding/metrics.ts';
import { haPairsMetrics, startHaPairs } from './ha_pairs/ha_pairs.ts';
import { Ingest, type IngestNotes } from './ingest/ingest.ts';
import { verdictBy } from './ingest/verdict.ts';
import type { IngestNamespace, IngestNamespaces } from './ingest/writing/namespaces.ts';
import type { DroppedRoute } from './ingest/writing/part_writer.ts';
import { listenOtlp } from './otlp/grpc.ts';
import { apiMetrics } from './http/metrics.ts';
import { ingestMetrics } from './ingest/writing/metrics.ts';
import { streamMetrics, Streams } from './ingest/streams/streams.ts';
import { selectMetrics } from './select/metrics.ts';
import type { ChosenStorage } from './select/storage.ts';
import { featuresOf } from './promql/parse/features.ts';
import { parseSelectors, PromqlEngine } from './promql/engine.ts';
import { routesOf } from './api/routes.ts';
import { publishRules } from './configured_rules.ts';
import { openApiServer } from './http/server.ts';
import { takesWrites } from './readiness.ts';
import { ingestNamespaceOf, ReadyNamespaces } from './ready_namespaces.ts';
import { peerClocksOf } from './writer_clock.ts';

export interface CoordinatorOptions {
  readonly config: CoordinatorConfig;
  readonly env: Env;
  readonly log: Log;
  /** For what cannot be divided. */
  readonly aside: Aside;
  /** Of all reads of the API. */
  readonly sessionMemory: ReadMemory;
  /** Stays the caller's, as everything here that can be closed. */
  readonly kv: Kv;
  readonly cluster: ClusterName;
  readonly topology: Topology;
  /** The service of an instance, in this process or over gRPC; keeps its connections. */
  readonly nodeOf: (instance: Instance) => NodeService;
  /** When there is one in this process. */
  readonly ownNode?: OwnNode;
  /** As of `SessionOptions`. */
  readonly formats?: FormatLevels;
  /** What database/create with type local puts into the placement; null for the default. */
  readonly localInstance: InstanceInfo | null;
  /** Served on the metrics listener; the node of a combined process registers its own here. */
  readonly metrics: Metrics;
  /** Of requests; null for none. */
  readonly tracing: Tracing | null;
  /** Of the product. */
  readonly version: string;
}

export interface Coordinator extends AsyncDisposable {
  readonly api: HttpServer;
  readonly metricsServer: HttpServer;
  readonly session: Session;
  /** Null when it is not configured. */
  readonly carbon: CarbonListener | null;
  readonly openTsdb: TcpServer | null;
  readonly statsd: StatsdListener | null;
  /** OTLP over gRPC; null when it is not configured. */
  readonly otlp: GrpcServer | null;
}

/** What is known of series that come by OTLP, and in lines of JSON, takes so small parts of the memory for identities. */
const otlpMemoryPart = 4;
const jsonLinesMemoryPart = 16;

/** How long a proof that a quorum of nodes has a namespace may take, as in the reference system. */
const proofMillisMax = 10_000;

/** Readiness is asked by probes, which give up earlier. */
const readinessMillisMax = 3_000;

/**
 * Opens the API and the metrics. Both answer from the start: without a placement or a ready
 * namespace, writes and queries get 503 until there is one.
 * @throws {Error} of the system when an address cannot be used
 */
export async function startCoordinator(options: CoordinatorOptions): Promise<Coordinator> {
  const { config, env, log, topology } = options;
  // Before anything is opened: it may be refused.
  const ownRules = await configuredRules(
    { own: config.aggregationRules, carbon: config.carbon?.rules ?? null },
    'coordinator.',
    env.disk,
  );
  const features = featuresOf(config.promqlFeatures);
  const tagRules: TagRules = {
    nameValidation: config.nameValidation,
    allowed: new Set([ruleSetTag, ...(features.typeAndUnitLabels ? typeAndUnitTags : [])]),
  };
  const storedName = storedTagNames(config.nameValidation);
  const decoder = new WriteDecoder({
    random: env.random,
    memoryBytesMax: config.memoryBytesMax,
    verdictOf: verdictBy(config.idScheme, tagRules),
    plainQuoted: config.idScheme === 'quoted',
    typeAndUnitLabels: features.typeAndUnitLabels,
  });
  const aside = options.aside;
  const { client } = config;
  const { kv, cluster } = options;
  const levels = new LiveLevels({ kv, cluster, env, log }, client);
  const session = new Session({
    topology,
    nodeOf: options.nodeOf,
    ...(options.ownNode === undefined ? {} : { ownNode: options.ownNode }),
    ...(options.formats === undefined ? {} : { formats: options.formats }),
    env,
    log,
    levels,
    tracing: options.tracing,
    writeTimeoutMillis: client.writeTimeoutMillis,
    fetchTimeoutMillis: client.fetchTimeoutMillis,
  });
  const peerClocks = peerClocksOf(env, log, options.metrics);
  const writtenVersion = (): number => writtenVersionOf(session, peerClocks, env.clock);
  const checkClock = (what: string): void => peerClocks.checkNotAhead(what);
  const readable = new ReadyNamespaces(topology);
  const rules = new RulesFollower({ kv, cluster, env, log }).start();
  const aggregators = new AggregatorsFollower({ kv, cluster, env, log }).start();
  const stop = new AbortController();
  const prove = (namespace: string, signal: AbortSignal): Promise<void> =>
    proveNamespace(session, namespace, env.clock.deadline(proofMillisMax, signal));
  const companionParts = {
    topology,
    store: new NamespaceStore(options.kv, options.cluster, env.clock),
    prove,
    clock: env.clock,
    log,
    signal: stop.signal,
  };
  const exemplars = new Companion(companionParts, exemplarsNamespace, () =>
    exemplarsCompanion(BigInt(config.exemplars.retentionMillis) * nanosPerMilli),
  );
  const metadata = new Companion(companionParts, metadataNamespace, metadataCompanion);
  const dropped = new Companion(companionParts, droppedNamespace, () =>
    droppedCompanion(topology.view.namespaces),
  );
  const noteMetrics = companionMetrics(options.metrics);
  const ofIngest = ingestMetrics(options.metrics, decoder);
  const ofPairs = haPairsMetrics(options.metrics, () => pairs?.clusterCount ?? 0);
  const pairs =
    config.haPairs === null
      ? null
      : startHaPairs(
          {
            config: config.haPairs,
            decoder,
            kv: options.kv,
            cluster: options.cluster,
            env,
            log,
            metrics: ofPairs,
          },
          stop.signal,
        );
  const ingestNamespaces: IngestNamespaces = {
    ready: () => readable.list,
    registry: () => {
      const { namespacesRevision: revision, lineageId } = topology.view;
      return { revision, lineageId };
    },
    refresh: (signal) => topology.refresh(signal),
  };
  const notes: IngestNotes = {
    exemplars: new ExemplarWriter(
      config.exemplars,
      session,
      exemplars,
      noteMetrics,
      env.clock,
      stop.signal,
    ),
    metadata: new MetadataWriter(
      config.metadata,
      session,
      metadata,
      noteMetrics,
      env.clock,
      config.idScheme,
      stop.signal,
    ),
  };
  const ingestOf = (route: DroppedRoute | null): Ingest =>
    new Ingest(
      decoder,
      session,
      ingestNamespaces,
      notes,
      ofIngest,
      env.clock,
      log,
      route,
      tagRules,
      pairs?.pairs ?? null,
    );
  const ingest = ingestOf({
    rows: new DroppedRows(
      () => rules.known.sets,
      () => readable.resolutions,
      env.clock,
    ),
    namespace: () => takerOf(dropped, session),
  });
  const ofForwarding = forwardingMetrics(options.metrics, () => forwarding?.heldBytes ?? 0);
  const forwarding =
    config.forwarding === null
      ? null
      : new Forwarding({
          config: config.forwarding,
          env,
          log,
          metrics: ofForwarding,
          version: options.version,
        });
  const streams = new Streams(decoder, ingest, ofIngest, env.clock, log);
  const otlp = {
    ingest,
    reader: new OtlpReader(
      decoder,
      {
        ...config.otlp,
        typeAndUnitLabels: features.typeAndUnitLabels,
        lookbackMillis: config.lookbackMillis,
      },
      env.random,
      config.memoryBytesMax / otlpMemoryPart,
    ),
  };
  const jsonLinesBytesMax = config.memoryBytesMax / jsonLinesMemoryPart;
  const jsonLines = {
    ingest,
    series: new LabelSeries(decoder, tagRules, env.random, jsonLinesBytesMax),
    tagRules,
  };
  options.metrics.gauge(
    'tsdb_coordinator_json_lines_memory_bytes',
    'Memory of what is known of series that come in lines of JSON.',
    [],
    () => jsonLines.series.memoryBytes,
  );
  options.metrics.gauge(
    'tsdb_coordinator_otlp_memory_bytes',
    'Memory of what is known of series that come by OTLP.',
    [],
    () => otlp.reader.memoryBytes,
  );
  const turningOf = (signal: AbortSignal): Turning => ({
    work: Turns.of(env.clock).begin(signal),
    aside,
  });
  const storage = new Fanout(
    session,
    {
      samples: () => readable.list,
      windows: () => readable.resolutions,
      dropped: () => (dropped.isReady ? ingestNamespaceOf(dropped.namespace!) : null),
      madeAfterNanos: () => droppedRetentionNanos(topology.view.namespaces),
    },
    selectMetrics(options.metrics),
    turningOf,
    env.clock,
    () => rules.known.sets,
  );
  const forced = forcedTags(config.restrictTags);
  const forcedFor = (request: ApiRequest): ForcedTags => forcedTagsOf(request, forced);
  const storageFor = (request: ApiRequest): ChosenStorage =>
    forcedTo(storage.chosen(choiceOf(request)), forcedFor(request));
  const settings: QuerySettings = {
    timeoutMillis: config.queryTimeoutMillis,
    lookbackMillis: config.lookbackMillis,
    seriesMax: config.fetchedSeriesMax,
    rangeMillisMax: config.fetchedRangeMillisMax,
    requireExhaustive: config.requireExhaustive,
  };
  const events = new EventStore(options.kv, options.cluster);
  const routes = routesOf({
    admin: {
      kv: options.kv,
      ownKv: lookingFirst(options.kv, (signal) => topology.refresh(signal)),
      clock: env.clock,
      random: env.random,
      cluster: options.cluster,
      localInstance: options.localInstance,
      writtenVersion,
      checkClock,
      prove,
      isAnswering: (instance, signal) =>
        isAnswering(options.nodeOf(instance), env.clock.deadline(proofMillisMax, signal)),
      nodeOf: options.nodeOf,
    },
    ingest,
    undropped: ingestOf(null),
    otlp,
    jsonLines,
    datadog: { ingest, tagRules },
    remoteWrite: { ingest, forwarding },
    put: { ingest, tagRules },
    writeBodyBytesMax: config.writeBodyBytesMax,
    query: {
      engine: new PromqlEngine(storage, { clock: env.clock, features, aside }),
      storageFor,
      settings,
      samplesMax: config.querySamplesMax,
      perStepStats: features.perStepStats,
      clock: env.clock,
      m3ql: {
        source: (request, limits, pacer, reading) =>
          new SeriesReader({ storage: storageFor(request), limits, pacer, reading }),
        settings,
        samplesMax: config.querySamplesMax,
        stepSeconds: config.graphiteStepSeconds,
        clock: env.clock,
        random: env.random,
        turningOf,
      },
    },
    forced,
    labels: { storageFor, parseSelectors, turningOf, settings, clock: env.clock },
    graphite: {
      render: {
        source: (request, limits, pacer) =>
          new SeriesReader({
            storage: storageFor(request),
            limits,
            pacer,
            reading: graphiteReading(
              new PathReadings(rules.known.sets, env.clock.nowNanos(), config.graphiteStepSeconds),
              storedName,
            ),
          }),
        eventsFor: (request) =>
          isForcing(forcedFor(request))
            ? refuseEvents
            : findEventsOf(events, (signal) => turningOf(signal).work),
        settings,
        samplesMax: config.querySamplesMax,
        clock: env.clock,
        random: env.random,
        turningOf,
      },
      events: { store: events, clock: env.clock, timeoutMillis: settings.timeoutMillis, turningOf },
      find: {
        source: (request, limits, range, work) =>
          new GraphiteFinder({ storage: storageFor(request), limits, range, work }),
        settings,
        clock: env.clock,
        turningOf,
      },
      tags: {
        storage: storageFor,
        settings,
        storedName,
        clock: env.clock,
        turningOf,
      },
      tagWrites: {
        storageFor: (request) => ({
          labelNames: (lists, ...of) =>
            storage.storedLabelNames(forcedLists(lists, forcedFor(request)), ...of),
        }),
        clock: env.clock,
        timeoutMillis: settings.timeoutMillis,
      },
    },
    messages: {
      storageFor,
      parseSelectors,
      turningOf,
      settings,
      clock: env.clock,
    },
    export: { storageFor, parseSelectors, turningOf, settings, clock: env.clock },
    read: {
      storageFor,
      settings,
      samplesMax: config.querySamplesMax,
      clock: env.clock,
      features,
      turningOf,
    },
    status: {
      clock: env.clock,
      namespaces: () => {
        // Says when none is known yet.
        void readable.list;
        const { namespaces } = topology.view;
        return [...namespaces.values()].filter(isReady).map(({ name }) => name);
      },
      statistics: (named, limit, signal) => {
        const namespace = named ?? readableNamespace(readable.list).name;
        return session.statistics({ namespace, limit, metricName: '__name__' }, signal);
      },
    },
    deletions: {
      log: new DeletionLog(options.kv, options.cluster, writtenVersion),
      topology,
      forcedFor,
      parseSelectors,
      turningOf,
      clock: env.clock,
      checkClock,
      noteDeletion: (version) => session.noteDeletion(version),
    },
    companions: {
      session,
      forcedFor,
      exemplars,
      metadata,
      familiesMax: config.metadata.entriesMax,
      samplesMax: config.querySamplesMax,
      features,
      turningOf,
      settings,
      clock: env.clock,
    },
    compat: {
      features,
      turningOf: (signal) => turningOf(env.clock.deadline(config.queryTimeoutMillis, signal)),
      version: options.version,
    },
    info: {
      clock: env.clock,
      startedMillis: env.clock.nowMillis(),
      retentionMillis: () => {
        if (!topology.view.isLoaded || readable.list.length === 0) return null;
        return Number(readableNamespace(readable.list).retentionNanos / nanosPerMilli);
      },
      settings: { ...config, features: config.promqlFeatures },
    },
    ops: {
      clock: env.clock,
      startedMillis: env.clock.monotonicMillis(),
      knowsCluster: () => topology.view.isLoaded,
      readiness: (signal) => readinessOf(options, session, readable, signal),
    },
    page: {
      version: options.version,
      metricsPort: config.metricsListenAddress.port,
      metricsPath: config.metricsPath,
    },
  });
  let carbon: CarbonListener | null = null;
  let otlpServer: GrpcServer | null = null;
  const ofCarbon = carbonMetrics(options.metrics, () => carbon?.connectionCount ?? 0);
  streamMetrics(options.metrics, streams);
  let openTsdb: TcpServer | null = null;
  openTsdbMetrics(options.metrics, () => openTsdb?.connectionCount ?? 0);
  let statsd: StatsdListener | null = null;
  const ofStatsd = statsdMetrics(options.metrics, {
    connectionCount: () => statsd?.connectionCount ?? 0,
    seriesCount: () => statsd?.seriesCount ?? 0,
    memberCount: () => statsd?.memberCount ?? 0,
    waitingBytes: () => statsd?.waitingBytes ?? 0,
  });
  const api = await openApiServer({
    address: config.listenAddress,
    allowedHosts: config.allowedHosts,
    connectionsMax: config.connectionsMax,
    writeBytesInFlightMax: config.writeBytesInFlightMax,
    readMemory: options.sessionMemory,
    routes,
    log,
    metrics: apiMetrics(options.metrics, options.sessionMemory),
    monotonicMillis: () => env.clock.monotonicMillis(),
    tracing: options.tracing,
  });
  try {
    const metricsServer = await serveMetrics({
      address: config.metricsListenAddress,
      path: config.metricsPath,
      metrics: options.metrics,
      log,
      allowedHosts: config.allowedHosts,
    });
    const placement = () => topology.view.placement;
    keepPromises(options, stop.signal);
    const publishing =
      ownRules === null
        ? Promise.resolve()
        : publishRules(rulesTargetOf(options), ownRules, log, stop.signal);
    const rollups = new Rollups({
      kv,
      cluster,
      env,
      time: peerClocks,
      log,
      topology,
      session,
      rules,
      idScheme: config.idScheme,
      metrics: rollupMetrics(options.metrics),
      share: () => {
        const { known } = aggregators;
        return known === null ? null : shareOfCoordinators(cluster, known);
      },
      shareCount: () => shareCountOf(aggregators.known),
    }).start();
    if (config.carbon !== null) {
      const { clock } = env;
      carbon = await listenCarbon({
        config: config.carbon,
        streams,
        clock,
        log,
        metrics: ofCarbon,
      });
    }
    if (config.opentsdb !== null) {
      const { clock } = env;
      const { version } = options;
      openTsdb = await listenOpenTsdb({ config: config.opentsdb, streams, clock, log, version });
    }
    if (config.statsd !== null) {
      const of = { config: config.statsd, streams, env, log, metrics: ofStatsd };
      statsd = await listenStatsd({ ...of, sharing: { kv, cluster } }, stop.signal);
    }
    const { grpcListenAddress } = config.otlp;
    if (grpcListenAddress !== null) {
      otlpServer = await listenOtlp(
        grpcListenAddress,
        otlp,
        config.writeBytesInFlightMax,
        options.tracing,
      );
    }
    void peerClocks.follow({ placement, nodeServiceOf: options.nodeOf }, stop.signal);
    return {
      api,
      metricsServer,
      session,
      carbon,
      openTsdb,
      statsd,
      otlp: otlpServer,
      [Symbol.asyncDispose]: async () => {
        await Promise.all([
          carbon?.[Symbol.asyncDispose](),
          openTsdb?.[Symbol.asyncDispose](),
          statsd?.[Symbol.asyncDispose](),
          otlpServer?.[Symbol.asyncDispose](),
        ]);
        stop.abort();
        // What it has accepted is answered: a query ends by itself after its timeout.
        await Promise.all([api.close(config.queryTimeoutMillis), metricsServer.close()]);
        forwarding?.[Symbol.dispose]();
        await Promise.all([publishing, rollups[Symbol.asyncDispose]()]);
        await rules[Symbol.asyncDispose]();
        await aggregators[Symbol.asyncDispose]();
        await levels[Symbol.asyncDispose]();
      },
    };
  } catch (error) {
    await carbon?.[Symbol.asyncDispose]();
    await openTsdb?.[Symbol.asyncDispose]();
    await statsd?.[Symbol.asyncDispose]();
    stop.abort();
    await api.close();
    forwarding?.[Symbol.dispose]();
    await rules[Symbol.asyncDispose]();
    await aggregators[Symbol.asyncDispose]();
    await levels[Symbol.asyncDispose]();
    throw error;
  }
}

/** How often it is looked whether promises of namespaces are missing, and dropped samples are kept for long enough. */
const promisesMillis = 5_000;

/** Promises since when namespaces have every row, which reads go by (#cluster/namespaces/samples.ts). */
function keepPromises(options: CoordinatorOptions, signal: AbortSignal): void {
  const { env, topology, nodeOf, log } = options;
  const { clock } = env;
  const kv = lookingFirst(options.kv, (until) => topology.refresh(until));
  const target: PromiseTarget = {
    namespaces: new NamespaceStore(kv, options.cluster, clock),
    topology,
    clock,
    nodeOf,
  };
  clock.every(
    promisesMillis,
    async () => void (await promiseNamespaces(target, clock.deadline(proofMillisMax, signal))),
    (error) =>
      log.debug({ error: messageOf(error) }, 'cannot promise since when namespaces are whole'),
    signal,
  );
  clock.every(
    promisesMillis,
    () => keepDroppedLongEnough(target, clock.deadline(proofMillisMax, signal)),
    (error) =>
      log.debug({ error: messageOf(error) }, 'cannot have dropped samples be kept for longer'),
    signal,
  );
}

/** What rules drop goes into it; null while it is not ready, or nodes of an earlier release would make no windows of it. */
function takerOf(dropped: Companion, session: Session): IngestNamespace | null {
  if (session.formatLevel < resolutionsFormatLevel || !dropped.prepare()) return null;
  return ingestNamespaceOf(dropped.namespace!);
}

function rulesTargetOf({ kv, cluster, env, topology }: CoordinatorOptions): RulesTarget {
  const own = lookingFirst(kv, (until) => topology.refresh(until));
  return { kv: own, cluster, clock: env.clock, random: env.random };
}

async function isAnswering(node: NodeService, signal: AbortSignal): Promise<boolean> {
  try {
    await node.health(signal);
    return true;
  } catch (error) {
    if (error instanceof TsdbError) return false;
    throw error;
  }
}

async function readinessOf(
  { env, topology, nodeOf }: CoordinatorOptions,
  session: Session,
  readable: ReadyNamespaces,
  signal: AbortSignal,
): Promise<readonly NamespaceReadiness[]> {
  if (!topology.view.isLoaded) {
    throw new TsdbError('UNAVAILABLE', 'the key-value store has not been read yet');
  }
  const deadline = env.clock.deadline(readinessMillisMax, signal);
  if (readable.list.length === 0) return [];
  const { list } = readable;
  const isRead = async ({ name }: IngestNamespace): Promise<boolean> => {
    try {
      await proveNamespace(session, name, deadline);
      return true;
    } catch (error) {
      if (error instanceof TsdbError) return false;
      throw error;
    }
  };
  const [areWritesTaken, ...areRead] = await Promise.all([
    takesWrites(topology, nodeOf, deadline),
    ...list.map(isRead),
  ]);
  return list.map(({ name, retentionNanos }, index) => {
    const readyToRead = areRead[index]!;
    return { name, retentionNanos, readyToRead, readyToWrite: readyToRead && areWritesTaken };
  });
}
