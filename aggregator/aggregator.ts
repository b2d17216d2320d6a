/**
 * An aggregator as a part of a process (docs/AGGREGATION.md, Aggregators): makes its shard set's share of the rollups of a
 * cluster while it leads there, and parts of outputs for others; gRPC on 6000, status on 6001, metrics on 6002. It stores
 * nothing, and what it knows another one reads anew.
 */
import { RulesFollower } from '#cluster/aggregation_rules/sets/follower.ts';
import { ruleSetTag } from '#cluster/aggregation_rules/sets/over_time.ts';
import type { ClusterName } from '#cluster/kv/keys.ts';
import type { Kv } from '#cluster/kv/kv.ts';
import { Companion } from '#cluster/namespaces/companion.ts';
import { droppedNamespace } from '#cluster/namespaces/companions.ts';
import { droppedCompanion } from '#cluster/namespaces/dropped.ts';
import { readySamples } from '#cluster/namespaces/samples.ts';
import { NamespaceStore } from '#cluster/namespaces/store.ts';
import { PeerClocks } from '#cluster/node/peer_clocks.ts';
import type { NodeService } from '#cluster/node/service.ts';
import type { Instance } from '#cluster/placement/placement.ts';
import { AggregatorsFollower } from '#cluster/rollups/aggregators_follower.ts';
import { rollupMetrics } from '#cluster/rollups/metrics.ts';
import { PartsMaker } from '#cluster/rollups/parts/maker.ts';
import { partsMethod } from '#cluster/rollups/parts/methods.ts';
import { PartsPeers } from '#cluster/rollups/parts/peers.ts';
import { RollupRows } from '#cluster/rollups/parts/rows.ts';
import { SharedParts } from '#cluster/rollups/parts/shared.ts';
import { Rollups } from '#cluster/rollups/rollups.ts';
import { shareCountOf, shareOfInstance } from '#cluster/rollups/share.ts';
import { proveNamespace } from '#cluster/session/prove.ts';
import { Session } from '#cluster/session/session.ts';
import type { Topology } from '#cluster/topology/topology.ts';
import type { AggregatorConfig } from '#lib/config/config.ts';
import type { Env } from '#lib/env/env.ts';
import { type GrpcServer, serveGrpc } from '#lib/env/grpc.ts';
import type { HttpServer } from '#lib/env/http.ts';
import { assert } from '#lib/assert.ts';
import type { FormatLevels } from '#lib/format_level.ts';
import type { Log } from '#lib/log.ts';
import type { Metrics } from '#lib/metrics.ts';
import { tracedMethods } from '#lib/tracing/grpc.ts';
import type { Tracing } from '#lib/tracing/tracing.ts';
import { serveMetrics } from '#lib/process/metrics_server.ts';
import { AsideRows } from './aside_rows.ts';
import { serveStatus } from './status.ts';
import { writeBytesMax, writeMethod } from './write_wire.ts';

export interface AggregatorOptions {
  readonly config: AggregatorConfig;
  /** Of this process in the placement of aggregators. */
  readonly id: string;
  readonly env: Env;
  readonly log: Log;
  /** Stays the caller's, as everything here that can be closed. */
  readonly kv: Kv;
  readonly cluster: ClusterName;
  /** Of storage. */
  readonly topology: Topology;
  readonly nodeOf: (instance: Instance) => NodeService;
  /** As of `SessionOptions`. */
  readonly formats: FormatLevels;
  readonly metrics: Metrics;
  /** Of reads and writes. Default: none. */
  readonly tracing?: Tracing | null;
}

export interface Aggregator extends AsyncDisposable {
  readonly grpc: GrpcServer;
  readonly status: HttpServer;
  readonly metricsServer: HttpServer;
}

/** How long a proof that a quorum of nodes has a namespace may take. */
const proofMillisMax = 10_000;
/** Of calls that are open when it is told to end: others are asked for their answers. */
const stopGraceMillis = 2_000;

/** @throws {Error} of the system when an address cannot be used */
export async function startAggregator(options: AggregatorOptions): Promise<Aggregator> {
  const { config, id, env, log, kv, cluster, topology } = options;
  await using stack = new AsyncDisposableStack();
  const { client } = config;
  const session = new Session({
    topology,
    nodeOf: options.nodeOf,
    formats: options.formats,
    env,
    log,
    tracing: options.tracing ?? null,
    levels: {
      writeConsistency: client.writeConsistencyLevel,
      readConsistency: client.readConsistencyLevel,
    },
    writeTimeoutMillis: client.writeTimeoutMillis,
    fetchTimeoutMillis: client.fetchTimeoutMillis,
  });
  const stop = new AbortController();
  stack.defer(() => stop.abort());
  // What time it is by storage nodes: of a pair that disagrees nobody knows who is right.
  const peerClocks = new PeerClocks(env, log, '');
  const placement = () => topology.view.placement;
  void peerClocks.follow({ placement, nodeServiceOf: options.nodeOf }, stop.signal);
  const rules = stack.use(new RulesFollower({ kv, cluster, env, log }).start());
  const aggregators = stack.use(new AggregatorsFollower({ kv, cluster, env, log }).start());
  const maker = new PartsMaker({
    rows: new RollupRows({ session, topology, clock: env.clock, time: peerClocks }),
    rules,
    topology,
    clock: env.clock,
    random: env.random,
    stop: stop.signal,
    bufferPastNanos: () =>
      readySamples(topology.view.namespaces)
        .map(({ options: of }) => of.retentionOptions.bufferPastNanos)
        .reduce((a, b) => (b > a ? b : a), 0n),
  });
  const peers = stack.use(new PartsPeers());
  const share = () => {
    const { known } = aggregators;
    return known === null ? null : shareOfInstance(cluster, known, id);
  };
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
    share,
    shareCount: () => shareCountOf(aggregators.known),
    parts: (policy, { placement, shards }) => {
      assert(placement !== null, 'an aggregator makes rollups by a placement');
      peers.retain(placement);
      return new SharedParts({
        policy,
        id,
        placement,
        shards,
        topology,
        own: maker,
        peerOf: (instance, outputs) => peers.peerOf(instance, outputs),
        clock: env.clock,
        log,
      });
    },
  });
  const dropped = new Companion(
    {
      topology,
      store: new NamespaceStore(kv, cluster, env.clock),
      prove: (namespace, signal) =>
        proveNamespace(session, namespace, env.clock.deadline(proofMillisMax, signal)),
      clock: env.clock,
      log,
      signal: stop.signal,
    },
    droppedNamespace,
    () => droppedCompanion(topology.view.namespaces),
  );
  const aside = new AsideRows({
    session,
    companion: dropped,
    idScheme: config.idScheme,
    // As coordinators have them.
    tagRules: { nameValidation: config.nameValidation, allowed: new Set([ruleSetTag]) },
    clock: env.clock,
    metrics: options.metrics,
  });
  const isReady = (): boolean =>
    topology.view.isLoaded && rules.known.knownNanos !== null && aggregators.known !== null;
  const grpc = stack.use(
    await serveGrpc({
      ...config.listenAddress,
      methods: tracedMethods(
        [partsMethod(maker), writeMethod((series, signal) => aside.write(series, signal))],
        options.tracing ?? null,
      ),
      requestBytesMax: writeBytesMax,
      stopGraceMillis,
    }),
  );
  const status = stack.use(
    await serveStatus({
      address: config.httpListenAddress,
      allowedHosts: config.allowedHosts,
      log,
      status: () => ({
        leads: rollups.leads,
        canLead: share() !== null && isReady(),
      }),
      isReady,
      resign: () => rollups.resign(),
    }),
  );
  const metricsServer = stack.use(
    await serveMetrics({
      address: config.metricsListenAddress,
      path: config.metricsPath,
      metrics: options.metrics,
      log,
      allowedHosts: config.allowedHosts,
    }),
  );
  stack.use(rollups.start());
  const open = stack.move();
  return { grpc, status, metricsServer, [Symbol.asyncDispose]: () => open.disposeAsync() };
}
