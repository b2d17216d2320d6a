/**
 * The storage node as a process. With a `coordinator:` section it is also the coordinator, with
 * single-node discovery also the key-value store.
 */
import { join, resolve } from 'node:path';
import { inspect } from 'node:util';
import { clusterNameOf, openClusterKv } from '#cluster/kv/connection.ts';
import { NodeConnections } from '#cluster/node/client.ts';
import { openSessionMemory } from '#lib/read_memory/session_memory.ts';
import type { Instance } from '#cluster/placement/placement.ts';
import { Topology } from '#cluster/topology/topology.ts';
import { startCoordinator } from '#coordinator/coordinator.ts';
import { AsideThread } from '#engine/aside/aside.ts';
import { openEmbeddedKv } from '#kv/server.ts';
import {
  type Config,
  ConfigError,
  configPathsOf,
  dataDirectoryDefault,
  dataDirectoryDefaultVariable,
  type DbConfig,
  type ListenAddress,
  loadConfig,
} from '#lib/config/config.ts';
import { withListenSetting } from '#lib/config/listen_settings.ts';
import { storeBytesMax } from '#lib/config/schema/db_schema.ts';
import { saveCompiledCode } from '#lib/process/compile_cache.mjs';
import { httpLimitsDefault, listenHttp } from '#lib/env/http.ts';
import { realEnv } from '#lib/env/real.ts';
import { standardAnswer } from '#lib/command_line.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { terminalText } from '#lib/log_text.ts';
import { type Log, openLog } from '#lib/log.ts';
import { Metrics } from '#lib/metrics.ts';
import { machineMemoryBytes } from '#lib/process/machine_memory.ts';
import { ownHostId } from '#lib/process/own_host_id.ts';
import { withSourcePlaces } from '#lib/process/source_places.ts';
import { aborted, stopSignal } from '#lib/process/stop.ts';
import { openTracing } from '#lib/tracing/open.ts';
import { version } from '#lib/version.ts';
import { readKnownStore } from '../identity/known_store.ts';
import { identityFile } from '../identity/node_identity.ts';
import { startNode } from '../start.ts';
import { claimDataFolder } from './data_folder.ts';

process.title = 'tsdb-node';
const env = realEnv;
/** How long after the start compiled code is saved for the next one. */
const compiledCodeMillis = 3_000;

const stop = stopSignal();

const usage = `tsdb-node [-f FILE]...   the storage node; with a section coordinator: also the HTTP API

  -f, --file FILE   configuration in YAML (docs/CONFIGURATION.md); of several files the later ones
                    go over the earlier ones. Without it: a single node with all defaults
  -h, --help        this text
  --version         the version

Environment: TSDB_DATA_DIR (data folder), TSDB_LISTEN_HOST (host part of the listen addresses: a
single node is for this machine only, 0.0.0.0 opens it to others)`;

async function configured() {
  const named = configPathsOf(process.argv.slice(2));
  const paths = named.length > 0 ? named : [join(import.meta.dirname, '../single_node.yml')];
  // Without a configuration file the data are beside the sources, where a newcomer finds them.
  const environment =
    named.length > 0 ? process.env : { ...process.env, [dataDirectoryDefaultVariable]: './data' };
  return loadConfig(paths, 'node', environment, (path) => env.disk.readFile(path));
}

/** Half of what the machine has, or the container; no more than can be set. */
function defaultMemoryBytes(): number {
  return Math.min(Math.floor(machineMemoryBytes() / 2), storeBytesMax);
}

/** Says which folder is used and why, and what a newcomer may miss. */
async function explainConfig({ db, coordinator }: Config, log: Log): Promise<void> {
  const { dataDirectory, dataDirectoryFrom } = db!;
  log.info({ folder: resolve(dataDirectory), from: dataDirectoryFrom }, 'data folder');
  const other = join(dataDirectoryDefault, identityFile);
  if (
    dataDirectoryFrom === dataDirectoryDefaultVariable &&
    (await env.disk.size(other).catch(() => null)) !== null
  ) {
    log.warn(
      { folder: dataDirectoryDefault },
      'the data of this folder are not used: db.filesystem.filePathPrefix names it if they should be',
    );
  }
  if (coordinator === null) {
    log.info(
      {},
      'the configuration has no section coordinator:, so there is no HTTP API on 7201; the line "coordinator: {}" adds it',
    );
  }
}

async function main(): Promise<void> {
  const config = await configured();
  try {
    await run(config);
  } catch (error) {
    throw withListenSetting(error, config);
  }
}

async function run(config: Config): Promise<void> {
  const { db } = config;
  if (db === null) throw new ConfigError(['the section db: is missing']);
  const log = openLog(db.logging, { service: 'tsdb-node' });
  const fatal = (error: unknown) => {
    const stack = withSourcePlaces(String((error as Error).stack));
    log.error({ error: messageOf(error), stack }, 'fatal');
    process.exit(1);
  };
  process.on('uncaughtException', fatal);
  process.on('unhandledRejection', fatal);
  for (const note of config.notes) log.info({}, note);
  await explainConfig(config, log);

  await using stack = new AsyncDisposableStack();
  stack.use(await claimDataFolder(env.disk, db.dataDirectory, log, stop));
  const instanceId = await ownHostId(db.hostId, env, stop);
  const metrics = new Metrics();
  metrics.collectProcess();
  const isSingle = db.discovery.type === 'tsdb_single_node';
  const embedded = isSingle
    ? stack.use(
        await openEmbeddedKv({
          folder: join(db.dataDirectory, 'kv'),
          host: db.kvListenAddress.host,
          port: db.kvListenAddress.port,
          env,
          log: log.child({ room: 'kv' }),
          metrics,
        }),
      )
    : null;
  const local = embedded?.local ?? null;
  const kv = stack.use(await openClusterKv(db.discovery, local, env, log));
  const cluster = clusterNameOf(db.discovery);
  const remembered = () => readKnownStore(env.disk, log, db.dataDirectory);
  const topology = stack.use(new Topology({ kv, cluster, env, log, remembered }).start());
  const tracing = stack.use(
    await openTracing(db.tracing ?? config.coordinator?.tracing ?? null, version, {
      clock: env.clock,
      log,
    }),
  );
  const connections = stack.use(new NodeConnections({ env, log, tracing }).follow(topology));
  const nodeServiceOf = (instance: Instance) => connections.nodeOf(instance);
  const aside = stack.use(new AsideThread(env.clock));
  const bytesMax = config.coordinator?.readBytesInFlightMax ?? null;
  const sessionMemory = openSessionMemory(env.clock, bytesMax);
  const node = stack.use(
    await startNode({
      env,
      aside,
      sessionMemory,
      log: log.child({ room: 'node' }),
      metrics,
      config: db,
      instanceId,
      memoryBytesMax: db.memoryBytesMax ?? defaultMemoryBytes(),
      kv,
      cluster,
      topology,
      nodeServiceOf,
      tracing,
      onFatal: fatal,
    }),
  );
  const nodeOf = (instance: Instance) =>
    instance.id === instanceId ? node.service : connections.nodeOf(instance);
  if (config.coordinator !== null) {
    const { port } = db.listenAddress;
    stack.use(
      await startCoordinator({
        config: config.coordinator,
        env,
        aside,
        sessionMemory,
        log: log.child({ room: 'coordinator' }),
        kv,
        cluster,
        topology,
        nodeOf,
        ownNode: node.database,
        formats: node.database.formats,
        localInstance: {
          id: instanceId,
          isolationGroup: 'local',
          zone: cluster.zone,
          weight: 1,
          endpoint: `127.0.0.1:${port}`,
          hostname: 'localhost',
          port,
          shardSetId: 0,
          debugPort: 0,
        },
        metrics,
        tracing,
        version,
      }),
    );
    if (isSingle) greet(config.coordinator.listenAddress, db);
  } else if (db.metricsListenAddress !== null) {
    stack.use(await serveMetrics(db, metrics, log));
  }
  log.info({ instance: instanceId, data: db.dataDirectory, version }, 'started');
  // When the first requests were served; at a clean stop it is saved anyway.
  env.clock.sleep(compiledCodeMillis, stop).then(saveCompiledCode, () => {});
  await aborted(stop);
  log.info({}, 'stopping');
}

async function serveMetrics(db: DbConfig, metrics: Metrics, log: Log): Promise<AsyncDisposable> {
  return listenHttp({
    ...db.metricsListenAddress!,
    limits: httpLimitsDefault,
    allowedHosts: db.allowedHosts,
    onError: (error) => log.warn({ error: messageOf(error) }, 'metrics not served'),
    handler: async (request, response) => {
      if (request.url !== db.metricsPath) {
        response.writeHead(404).end(`metrics are at ${db.metricsPath}\n`);
        return;
      }
      response.setHeader('content-type', metrics.contentType);
      response.end(await metrics.text());
    },
  });
}

/** What a newcomer wants to know first: plain text for copying, so not as log records. */
function greet(api: ListenAddress, db: DbConfig): void {
  const url = `http://127.0.0.1:${api.port}`;
  const ports = [db.httpNodeListenAddress, db.httpClusterListenAddress].map(({ port }) => port);
  const from = /^(?:localhost|::1|127\..*)$/.test(api.host)
    ? 'this machine alone; TSDB_LISTEN_HOST=0.0.0.0, or listenAddress settings, let others in'
    : 'other machines too, and there are no passwords';
  const grpcPorts = [db.listenAddress, db.clusterListenAddress].map(({ port }) => port);
  process.stdout.write(`
  tsdb ${version}, a single node. Data: ${db.dataDirectory}
  API, PromQL          ${url}
  remote write         ${url}/api/v1/compat/remote/write
  node JSON, gRPC      ${ports.join(', ')}; ${grpcPorts.join(', ')}
  key-value (etcd v3)  ${db.kvListenAddress.port}
  reached from         ${from}

  make a database      curl -X POST ${url}/api/v1/database/create -d '{"type":"local","namespaceName":"default","retentionTime":"12h","coldWritesEnabled":true}'
  open it for traffic  curl -X POST ${url}/api/v1/services/tsdb/namespace/ready -d '{"name":"default"}'
  write a sample       curl -X POST ${url}/api/v1/json/write -d '{"tags":{"__name__":"up","job":"me"},"timestamp":'$(date +%s)',"value":1}'
  query it             curl '${url}/api/v1/query?query=up'

`);
}

const answer = standardAnswer(process.argv.slice(2), 'tsdb-node', usage, version);
if (answer !== null) {
  console.log(answer);
  process.exit(0);
}
try {
  await main();
  process.exit(0);
} catch (error) {
  // Asked to end before it had begun.
  if (stop.aborted && (error as Error).name === 'AbortError') process.exit(0);
  if (error instanceof ConfigError) {
    for (const problem of error.problems) console.error(terminalText(problem));
  } else if (error instanceof TsdbError || (error as { syscall?: unknown }).syscall !== undefined) {
    // Of the world, not of the program: where it happened in the code helps nobody.
    console.error(terminalText(`cannot start: ${messageOf(error)}`));
  } else console.error(terminalText(withSourcePlaces(inspect(error))));
  process.exit(1);
}
