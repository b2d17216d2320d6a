/**
 * A storage node with its listeners, which are open from the start and answer 'not bootstrapped'
 * until the data of the disk is loaded. What joins it with a key-value store, a coordinator and a
 * configuration is main.ts.
 */
import type { Aside } from '#engine/aside/aside.ts';
import type { ClusterName } from '#cluster/kv/keys.ts';
import type { Kv } from '#cluster/kv/kv.ts';
import { DeletionLog } from '#cluster/metadata/deletion_log.ts';
import { LiveLevels } from '#cluster/metadata/live_levels.ts';
import { Truncations } from '#cluster/metadata/truncations.ts';
import { writtenVersionOf } from '#cluster/metadata/written_version.ts';
import { NamespaceStore } from '#cluster/namespaces/store.ts';
import { nodeMethods as grpcMethods, nodeRequestBytesMax } from '#cluster/node/methods.ts';
import type { NodeService } from '#cluster/node/service.ts';
import type { Instance } from '#cluster/placement/placement.ts';
import { Session } from '#cluster/session/session.ts';
import type { Topology } from '#cluster/topology/topology.ts';
import type { DbConfig } from '#lib/config/config.ts';
import type { Env } from '#lib/env/env.ts';
import { type GrpcServer, serveGrpc } from '#lib/env/grpc.ts';
import { BytesInFlight } from '#lib/env/in_flight/bytes_in_flight.ts';
import type { Log } from '#lib/log.ts';
import type { Metrics } from '#lib/metrics.ts';
import type { ReadMemory } from '#lib/read_memory/read_memory.ts';
import { ConfiguredSchemas, readConfiguredSchemas } from './configured_schemas.ts';
import { ClusterService } from './listeners/cluster_service.ts';
import { serveDebug } from './listeners/debug_server.ts';
import { ClusterBackend } from './listeners/json/cluster_backend.ts';
import { clusterMethods, nodeMethods } from './listeners/json/methods.ts';
import { NodeBackend } from './listeners/json/node_backend.ts';
import { jsonBytesInFlightMax, serveJson } from './listeners/json/server.ts';
import { configuredQueryLimits } from './live_limits.ts';
import { registerGrpcMetrics } from './metrics.ts';
import { segmentBytesMax } from './persist/commitlog/commitlog.ts';
import { NodeRuntime } from './runtime.ts';
import { tracedMethods } from '#lib/tracing/grpc.ts';
import type { Tracing } from '#lib/tracing/tracing.ts';
import type { Database } from './storage/database.ts';
import { pageBytesMaxDefault } from './storage/filesets/file_cache.ts';

export interface StartNodeOptions {
  readonly env: Env;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly config: Pick<
    DbConfig,
    | 'listenAddress'
    | 'clusterListenAddress'
    | 'httpNodeListenAddress'
    | 'httpClusterListenAddress'
    | 'debugListenAddress'
    | 'allowedHosts'
    | 'client'
    | 'dataDirectory'
    | 'commitlog'
    | 'outstandingWritesMax'
    | 'outstandingReadsMax'
    | 'newSeriesPerSecondMax'
    | 'queryLimits'
    | 'cache'
    | 'repair'
    | 'parkedKeepMillis'
    | 'schemas'
    | 'tickMinimumMillis'
  >;
  /** As in the placement. */
  readonly instanceId: string;
  readonly memoryBytesMax: number;
  /** Data of filesets that are kept in memory. */
  readonly pageBytesMax?: number;
  readonly kv: Kv;
  readonly cluster: ClusterName;
  readonly topology: Topology;
  /** Of calls. Default: none. */
  readonly tracing?: Tracing | null;
  /** As of `DatabaseOptions`. */
  readonly aside?: Aside;
  /** Of reads of the cluster through this node. */
  readonly sessionMemory: ReadMemory;
  /** The service of another instance, over the network; asked for each request. */
  readonly nodeServiceOf: (instance: Instance) => NodeService;
  /** Called with a broken invariant of the background; the process must end. */
  readonly onFatal: (error: unknown) => void;
}

/** Ports that are really open. */
export interface NodePorts {
  readonly grpcNode: number;
  readonly grpcCluster: number;
  readonly jsonNode: number;
  readonly jsonCluster: number;
  readonly debug: number;
}

export interface RunningNode extends AsyncDisposable {
  readonly database: Database;
  /** This node for callers in the same process. */
  readonly service: NodeService;
  /** The whole cluster, with this node reached without a network. */
  readonly session: Session;
  readonly ports: NodePorts;
}

/** How long open gRPC calls may go on when the node stops. */
const grpcGraceMillis = 2_000;

/**
 * Starts a node: opens its data folder and its listeners, and returns. The data is loaded, and the
 * cluster followed, after that; `database.isBootstrapped` tells when all of it is there.
 * @throws {Error} when the data folder cannot be used or an address cannot be listened on
 */
export async function startNode(options: StartNodeOptions): Promise<RunningNode> {
  const { env, log, metrics, config, topology, instanceId } = options;
  const schemas = await readConfiguredSchemas(config.schemas, env.disk);
  await using owned = new AsyncDisposableStack();
  const runtime = owned.use(
    await NodeRuntime.start({
      env,
      log,
      metrics,
      kv: options.kv,
      cluster: options.cluster,
      topology,
      instanceId,
      dataFolder: config.dataDirectory,
      memoryBytesMax: options.memoryBytesMax,
      ...(options.aside === undefined ? {} : { aside: options.aside }),
      pageBytesMax: options.pageBytesMax ?? config.cache.pageBytesMax ?? pageBytesMaxDefault,
      cachePolicy: config.cache.policy,
      commitlog: {
        sync: config.commitlog.sync,
        syncEveryMillis: config.commitlog.flushEveryMillis,
        syncBytesMax: config.commitlog.flushBytesMax,
        segmentBytesMax,
      },
      limits: {
        outstandingWritesMax: config.outstandingWritesMax,
        outstandingReadsMax: config.outstandingReadsMax,
        newSeriesPerSecondMax: config.newSeriesPerSecondMax,
        query: configuredQueryLimits(config.queryLimits),
      },
      rehearses: true,
      tickMillis: config.tickMinimumMillis,
      repair: config.repair,
      parkedKeepMillis: config.parkedKeepMillis,
      nodeServiceOf: options.nodeServiceOf,
      onFatal: options.onFatal,
    }),
  );
  const { database } = runtime;
  if (schemas.size > 0) {
    const namespaces = new NamespaceStore(options.kv, options.cluster, env.clock);
    const target = { namespaces, clock: env.clock, random: env.random };
    owned.use(new ConfiguredSchemas(schemas, target, topology, env.clock, log));
  }
  const { client } = config;
  const nodeOf = (instance: Instance): NodeService =>
    instance.id === instanceId ? database : options.nodeServiceOf(instance);
  const { kv, cluster } = options;
  const levels = owned.use(new LiveLevels({ kv, cluster, env, log }, client));
  const session = new Session({
    topology,
    nodeOf,
    ownNode: database,
    formats: database.formats,
    env,
    log,
    levels,
    tracing: options.tracing ?? null,
    writeTimeoutMillis: client.writeTimeoutMillis,
    fetchTimeoutMillis: client.fetchTimeoutMillis,
  });
  const { peerClocks, versions } = database;
  const writtenVersion = (): number =>
    Math.max(versions.highest, writtenVersionOf(session, peerClocks, env.clock));
  const truncations = new Truncations({
    log: new DeletionLog(options.kv, options.cluster, writtenVersion),
    clock: env.clock,
    topology,
    nodeOf,
    checkClock: (what) => peerClocks.checkNotAhead(what),
    noteDeletion: (version) => session.noteDeletion(version),
  });
  database.onTruncate = async (name, signal) => void (await truncations.truncate(name, signal));
  const clusterService = new ClusterService(
    session,
    options.sessionMemory,
    topology,
    truncations,
    database,
  );
  const grpc = (address: { host: string; port: number }, service: NodeService) =>
    serveGrpc({
      ...address,
      methods: tracedMethods(grpcMethods(service, env.clock), options.tracing ?? null),
      requestBytesMax: nodeRequestBytesMax,
      stopGraceMillis: grpcGraceMillis,
    });
  const grpcNode: GrpcServer = owned.use(await grpc(config.listenAddress, database));
  const grpcCluster = owned.use(await grpc(config.clusterListenAddress, clusterService));
  registerGrpcMetrics(metrics, [grpcNode, grpcCluster]);
  const inFlight = new BytesInFlight(jsonBytesInFlightMax);
  const { allowedHosts } = config;
  const jsonNode = owned.use(
    await serveJson({
      ...config.httpNodeListenAddress,
      allowedHosts,
      backend: new NodeBackend(database, () => runtime.repairs.demand(), runtime.limits),
      methods: nodeMethods,
      inFlight,
      clock: env.clock,
      log,
    }),
  );
  const jsonCluster = owned.use(
    await serveJson({
      ...config.httpClusterListenAddress,
      allowedHosts,
      backend: new ClusterBackend(session, options.sessionMemory, topology, truncations),
      methods: clusterMethods,
      inFlight,
      clock: env.clock,
      log,
    }),
  );
  const debug = owned.use(
    await serveDebug({
      ...config.debugListenAddress,
      allowedHosts,
      env,
      log,
      metrics,
      node: database,
    }),
  );
  const ports = {
    grpcNode: grpcNode.port,
    grpcCluster: grpcCluster.port,
    jsonNode: jsonNode.port,
    jsonCluster: jsonCluster.port,
    debug: debug.port,
  };
  log.info({ instanceId, dataFolder: config.dataDirectory, ...ports }, 'storage node listens');
  const moved = owned.move();
  return {
    database,
    service: database,
    session,
    ports,
    [Symbol.asyncDispose]: () => moved.disposeAsync(),
  };
}
