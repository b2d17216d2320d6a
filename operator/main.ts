/** The operator: waits for its lease, then keeps every TSDBCluster as its resource says. */
import type { ServerResponse } from 'node:http';
import { hostname } from 'node:os';
import { httpLimitsDefault, listenHttp } from '#lib/env/http.ts';
import { standardAnswer } from '#lib/command_line.ts';
import { realEnv } from '#lib/env/real.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { type LogLevel, openLog, plainLog } from '#lib/log.ts';
import { Metrics } from '#lib/metrics.ts';
import { stopSignal } from '#lib/process/stop.ts';
import { version } from '#lib/version.ts';
import { applyDefinitions } from './apply_definitions.ts';
import { ClusterMetrics } from './cluster_metrics.ts';
import { failpointExitCode, openFailpoints } from './action/failpoints.ts';
import { Controller } from './controller.ts';
import { noSnapshotExitCode, snapshotCommands } from './etcd_snapshots/commands.ts';
import type { Snapshot } from './etcd_snapshots/folder.ts';
import { afterLastDuty } from './ending/kube_namespace.ts';
import { Health } from './health.ts';
import { podRights, podRightsOf } from './overlay/pod_rules.ts';
import { KubeApi, KubeError } from './kube/kube_api.ts';
import { leadWhileElected } from './kube/lease.ts';
import { operatorMetrics } from './metrics.ts';
import { WorkQueue } from './queue.ts';
import { watchChanges } from './kube/watches.ts';

process.title = 'tsdb-operator';
const variable = (name: string, fallback: string): string => process.env[name] ?? fallback;
/** @throws when it is no whole number from 1: with none no cluster would ever have its turn */
function rolloutsMaxOf(text: string): number {
  const count = Number(text);
  if (text.trim() !== '' && Number.isInteger(count) && count >= 1) return count;
  throw new Error(
    `TSDB_OPERATOR_ROLLOUTS_MAX is not a whole number from 1: ${JSON.stringify(text)}`,
  );
}
const images = {
  node: variable('TSDB_NODE_IMAGE', 'tsdb-node:latest'),
  coordinator: variable('TSDB_COORDINATOR_IMAGE', 'tsdb-coordinator:latest'),
  aggregator: variable('TSDB_AGGREGATOR_IMAGE', 'tsdb-aggregator:latest'),
  etcd: variable('TSDB_ETCD_IMAGE', 'quay.io/coreos/etcd:v3.6.7'),
  operator: variable('TSDB_OPERATOR_IMAGE', 'tsdb-operator:latest'),
};
const podNamespace = variable('POD_NAMESPACE', 'default');
const leaseName = variable('TSDB_OPERATOR_LEASE', 'tsdb-operator');
/** Comma-separated namespaces to look after; empty for all. */
const watched = variable('WATCH_NAMESPACE', '')
  .split(',')
  .filter((name) => name !== '');
const log = openLog(
  { ...plainLog, level: variable('LOG_LEVEL', 'info') as LogLevel },
  { service: 'tsdb-operator' },
);

const stop = stopSignal();

async function main(): Promise<void> {
  const env = realEnv;
  const failpoints = openFailpoints(variable('TSDB_OPERATOR_FAILPOINTS', ''), {
    env,
    log,
    exit: () => process.exit(failpointExitCode),
  });
  const podsMay = podRightsOf(variable('TSDB_OPERATOR_PODS_MAY', ''));
  const api = await KubeApi.connect();
  const health = new Health(env);
  const metrics = new Metrics();
  metrics.collectProcess();
  const figures = operatorMetrics(metrics);
  api.onAnswer = (method, status) => {
    health.noteContact();
    figures.requests.increase(1, { method, code: String(status) });
  };
  const clusters = new ClusterMetrics(metrics);
  /** Until the lease is ours nothing may be written. */
  let mayWrite = (): void => {
    throw new Error('this process does not hold the lease');
  };
  const fenced = failpoints.client(api.fenced(() => mayWrite()));
  const controller = new Controller({
    api: fenced,
    env,
    log,
    images,
    operatorId: `${podNamespace}/${leaseName}`,
    podsMay,
    rolloutsMax: rolloutsMaxOf(variable('TSDB_OPERATOR_ROLLOUTS_MAX', '1')),
    mayWrite: () => mayWrite(),
    failpoints,
    onPass: (key, cluster) => clusters.note(key, cluster),
    onFailure: ({ kind }) => figures.failedActions.increase(1, { action: kind }),
  });
  const queue = new WorkQueue({
    env,
    log,
    retryAfterMillisOf: (error) => (error instanceof KubeError ? error.retryAfterMillis : 0),
    work: async (key, signal) => {
      const startedAt = env.clock.monotonicMillis();
      try {
        const after = await controller.reconcile(key, signal);
        figures.reconciled.increase(1, { result: 'success' });
        return after;
      } catch (error) {
        figures.reconciled.increase(1, { result: 'error' });
        throw error;
      } finally {
        figures.reconcileSeconds.observe((env.clock.monotonicMillis() - startedAt) / 1000);
      }
    },
  });
  figures.observeQueue(() => queue.depth);
  let leading = false;
  figures.observeLeader(() => leading);
  await using _server = await listenHttp({
    host: '0.0.0.0',
    limits: httpLimitsDefault,
    port: Number(variable('TSDB_OPERATOR_PORT', '8080')),
    onError: (error: unknown) => log.warn({ error: messageOf(error) }, 'request failed'),
    handler: async (request, response) => {
      if (request.url === '/metrics') {
        response.setHeader('content-type', metrics.contentType);
        response.end(await metrics.text());
      } else if (request.url === '/healthz') answerHealth(response, health.liveProblem);
      else if (request.url === '/readyz') answerHealth(response, health.readyProblem);
      else response.writeHead(404).end('paths: /metrics /healthz /readyz\n');
    },
  });
  log.info(
    { images, podsMay: [...podsMay], watched: watched.length === 0 ? 'all namespaces' : watched },
    'started',
  );
  await leadWhileElected(
    {
      api: failpoints.client(api),
      env,
      log,
      namespace: podNamespace,
      name: leaseName,
      identity: `${hostname()}_${Buffer.from(env.random.bytes(6)).toString('hex')}`,
    },
    async (signal, requireLease) => {
      mayWrite = requireLease;
      leading = true;
      const onKey = (key: string) => queue.add(key);
      const onListed = health.noteWatch.bind(health);
      const watching = watchChanges(
        { api, env, log, namespaces: watched, onKey, onListed },
        signal,
      );
      await Promise.all([queue.run(signal), watching]);
      leading = false;
    },
    afterLastDuty(stop, { api, env, log, namespace: podNamespace }),
  );
  api.close();
  log.info({}, 'stopped');
  // A lost lease ends the process: a new one starts without anything remembered.
  if (!stop.aborted) process.exitCode = 1;
}

function answerHealth(response: ServerResponse, problem: string | null): void {
  if (problem === null) response.end('ok\n');
  else response.writeHead(503).end(`${problem}\n`);
}

/** What it did, or why not, is left for the operator to read in the status of the pod. */
async function runInJob(run: Promise<Snapshot | null>): Promise<void> {
  const leave = async (text: string): Promise<void> => {
    const path = variable('TSDB_TERMINATION_MESSAGE', '/dev/termination-log');
    await using file = await realEnv.disk.open(path, 'append');
    await file.write(0, [new TextEncoder().encode(text)]);
  };
  try {
    const snapshot = await run;
    if (snapshot === null) return;
    log.info({ ...snapshot }, 'snapshot');
    await leave(JSON.stringify(snapshot));
  } catch (error) {
    await leave(messageOf(error));
    throw error;
  }
}

const usage = `tsdb-operator [COMMAND]   the Kubernetes operator

  apply-crds   brings the definitions of its resources to this version, and ends
  keep-etcd-snapshot FOLDER INCOMING COUNT, fetch-etcd-snapshot FOLDER SNAPSHOT TARGET,
  finish-etcd-restore TARGET   what its jobs run on snapshots of etcd

  -h, --help   this text
  --version    the version

Environment:
  TSDB_NODE_IMAGE, TSDB_COORDINATOR_IMAGE, TSDB_AGGREGATOR_IMAGE, TSDB_ETCD_IMAGE
                                                             images of what it runs
  TSDB_OPERATOR_IMAGE   its own, which jobs on snapshots of etcd run
  WATCH_NAMESPACE       namespaces to look after, comma-separated; all when not given
  POD_NAMESPACE         where its lease is; default when not given
  TSDB_OPERATOR_LEASE   name of the lease; tsdb-operator when not given
  TSDB_OPERATOR_ROLLOUTS_MAX   clusters that are rolled out at a time because the operator has changed; 1 when not given
  TSDB_OPERATOR_PODS_MAY   what podTemplates may do beside what all may, comma-separated: ${podRights.join(', ')}; nothing when not given
  TSDB_OPERATOR_PORT    of /metrics, /healthz and /readyz; 8080 when not given
  TSDB_OPERATOR_FAILPOINTS   failures on purpose at its writes, for tests: docs/OPERATOR.md
  LOG_LEVEL             debug, info, warn or error; info when not given`;
const args = process.argv.slice(2);
const answer = standardAnswer(args, 'tsdb-operator', usage, version);
if (answer !== null) {
  console.log(answer);
  process.exit(0);
}
const [command, ...others] = args;
const onSnapshots = command === undefined ? undefined : snapshotCommands.get(command);
const isKnown = command === undefined || command === 'apply-crds' || onSnapshots !== undefined;
const argumentNames = onSnapshots?.arguments ?? [];
if (!isKnown || others.length > argumentNames.length) {
  console.error(
    `unknown argument: ${isKnown ? others[argumentNames.length] : command}; see --help`,
  );
  process.exit(2);
}
if (others.length < argumentNames.length) {
  console.error(`${command} takes ${argumentNames.join(' ')}; see --help`);
  process.exit(2);
}
try {
  if (onSnapshots !== undefined) await runInJob(onSnapshots.run(realEnv, others));
  else if (command === 'apply-crds') await applyDefinitions(realEnv.disk, log, stop);
  else await main();
} catch (error) {
  log.error({ error: messageOf(error), stack: (error as Error).stack }, 'operator failed');
  const isOfRequest =
    error instanceof TsdbError && (error.code === 'NOT_FOUND' || error.code === 'BAD_REQUEST');
  process.exitCode = onSnapshots !== undefined && isOfRequest ? noSnapshotExitCode : 1;
}
