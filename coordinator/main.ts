/**
 * The coordinator as a process of its own: stores nothing; any number of them stand behind a
 * Service.
 */
import { inspect } from 'node:util';
import { clusterNameOf, openClusterKv } from '#cluster/kv/connection.ts';
import { followFinishedFormats } from '#cluster/metadata/finished_formats_follower.ts';
import { NodeConnections } from '#cluster/node/client.ts';
import { openSessionMemory } from '#lib/read_memory/session_memory.ts';
import { Topology } from '#cluster/topology/topology.ts';
import { type Config, ConfigError, configPathsOf, loadConfig } from '#lib/config/config.ts';
import { withListenSetting } from '#lib/config/listen_settings.ts';
import { standardAnswer } from '#lib/command_line.ts';
import { realEnv } from '#lib/env/real.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { terminalText } from '#lib/log_text.ts';
import { formatLevelFirst } from '#lib/format_level.ts';
import { openLog } from '#lib/log.ts';
import { Metrics } from '#lib/metrics.ts';
import { aborted, stopSignal } from '#lib/process/stop.ts';
import { openTracing } from '#lib/tracing/open.ts';
import { version } from '#lib/version.ts';
import { AsideThread } from '#engine/aside/aside.ts';
import { startCoordinator } from './coordinator.ts';

process.title = 'tsdb-coordinator';
const env = realEnv;

/** Of the single node's embedded store, when the configuration names no cluster. */
const singleNodeEndpoint = '127.0.0.1:2379';

const stop = stopSignal();

const usage = `tsdb-coordinator [-f FILE]...   the HTTP API for a cluster, which stores nothing

  -f, --file FILE   configuration in YAML (docs/CONFIGURATION.md); of several files the later ones
                    go over the earlier ones. Without it: the defaults, for a node of this machine
  -h, --help        this text
  --version         the version

Environment: TSDB_LISTEN_HOST (host part of the listen addresses: without a cluster this machine
only, 0.0.0.0 opens it to others)`;

async function main(): Promise<void> {
  const paths = configPathsOf(process.argv.slice(2));
  const config = await loadConfig(paths, 'coordinator', process.env, (path) =>
    env.disk.readFile(path),
  );
  try {
    await run(config);
  } catch (error) {
    throw withListenSetting(error, config);
  }
}

async function run({ coordinator: config, notes }: Config): Promise<void> {
  const { discovery, logging } = config!;
  const log = openLog(logging, { service: 'tsdb-coordinator' });
  const fatal = (error: unknown): void => {
    log.error({ error: messageOf(error), stack: (error as Error).stack }, 'fatal');
    process.exit(1);
  };
  process.on('uncaughtException', fatal);
  process.on('unhandledRejection', fatal);
  for (const note of notes) log.info({}, note);

  await using stack = new AsyncDisposableStack();
  const metrics = new Metrics();
  metrics.collectProcess();
  const kv = stack.use(await openClusterKv(discovery, singleNodeEndpoint, env, log));
  const cluster = clusterNameOf(discovery);
  const stopFollowing = new AbortController();
  let finishedLevel = formatLevelFirst;
  const onLevel = (level: number) => void (finishedLevel = Math.max(finishedLevel, level));
  const following = followFinishedFormats(
    { kv, cluster, env, log, onLevel, onFatal: fatal },
    stopFollowing.signal,
  );
  stack.defer(async () => {
    stopFollowing.abort();
    await following;
  });
  const topology = stack.use(new Topology({ kv, cluster, env, log }).start());
  const tracing = stack.use(await openTracing(config!.tracing, version, { clock: env.clock, log }));
  const connections = stack.use(new NodeConnections({ env, log, tracing }).follow(topology));
  const coordinator = stack.use(
    await startCoordinator({
      config: config!,
      env,
      aside: stack.use(new AsideThread(env.clock)),
      sessionMemory: openSessionMemory(env.clock, config!.readBytesInFlightMax),
      log,
      kv,
      cluster,
      topology,
      nodeOf: (instance) => connections.nodeOf(instance),
      localInstance: null,
      formats: { level: () => finishedLevel },
      metrics,
      tracing,
      version,
    }),
  );
  const { api, metricsServer } = coordinator;
  log.info(
    {
      version,
      api: `${api.host}:${api.port}`,
      metrics: `${metricsServer.host}:${metricsServer.port}`,
    },
    'started',
  );
  await aborted(stop);
  log.info({}, 'stopping');
}

const answer = standardAnswer(process.argv.slice(2), 'tsdb-coordinator', usage, version);
if (answer !== null) {
  console.log(answer);
  process.exit(0);
}
try {
  await main();
  process.exit(0);
} catch (error) {
  if (error instanceof ConfigError) {
    for (const problem of error.problems) console.error(terminalText(problem));
  } else if (error instanceof TsdbError || (error as { syscall?: unknown }).syscall !== undefined) {
    // Of the world, not of the program: where it happened in the code helps nobody.
    console.error(terminalText(`cannot start: ${messageOf(error)}`));
  } else console.error(terminalText(inspect(error)));
  process.exit(1);
}
