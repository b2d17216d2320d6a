/**
 * The debug listener, 9004:
 *
 *     GET /debug/pprof/profile?seconds=5   CPU profile (.cpuprofile); one of a kind at a time
 *     GET /debug/pprof/heap?seconds=5      heap profile (.heapprofile)
 *     GET /debug/dump                      JSON: host, placement, namespaces, shards, commit log, memory
 *     GET /metrics                         metrics of this process
 */
import { type Instance, placementToJson } from '#cluster/placement/placement.ts';
import type { SampleStore } from '#engine/store/sample_store.ts';
import type { Env } from '#lib/env/env.ts';
import {
  type HttpRequest,
  type HttpResponse,
  type HttpServer,
  httpLimitsDefault,
  listenHttp,
} from '#lib/env/http.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { Metrics } from '#lib/metrics.ts';
import { Profiler, ProfilerBusy } from '#lib/process/profiler.ts';
import type { Commitlog } from '../persist/commitlog/commitlog.ts';
import type { DoubtLedger } from '../doubt/ledger.ts';
import { runsOf } from '../persist/doubt_file.ts';
import type { NodeIdentity } from '../identity/node_identity.ts';
import type { NamespaceState } from '../storage/namespace/namespace.ts';
import type { ShardTable } from '../storage/namespace/shards.ts';
import type { ParkedData } from '../storage/parking/parked_data.ts';
import type { Reads } from '../storage/read/reads.ts';
import type { Sequencer } from '../storage/write/sequencer.ts';
import type { Writes } from '../storage/write/writes.ts';

/** Longest CPU or heap profile of the debug server, in seconds. */
const profileSecondsMax = 300;

/** What a dump tells. */
export interface DumpedParts {
  readonly doubts: Pick<DoubtLedger, 'all'>;
  readonly parked: Pick<ParkedData, 'entries'>;
  readonly instanceId: string;
  readonly identity: NodeIdentity;
  readonly dataFolder: string;
  readonly isBootstrapped: boolean;
  readonly shards: ShardTable;
  readonly namespaces: ReadonlyMap<string, NamespaceState>;
  readonly store: Pick<SampleStore, 'seriesCount' | 'sampleCount' | 'memoryBytes'>;
  readonly commitlog: Commitlog;
  readonly sequencer: Sequencer;
  readonly writes: Pick<Writes, 'counts'>;
  readonly reads: Pick<Reads, 'counts'>;
}

export interface DebugServerOptions {
  readonly host: string;
  readonly port: number;
  /** As of `HttpServerOptions`. */
  readonly allowedHosts: readonly string[] | null;
  readonly env: Env;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly node: DumpedParts;
}

interface Answer {
  readonly contentType: string;
  readonly body: string;
}

const json = 'application/json';

export function serveDebug(options: DebugServerOptions): Promise<HttpServer> {
  const profiler = new Profiler(options.env.clock);
  return listenHttp({
    host: options.host,
    port: options.port,
    limits: httpLimitsDefault,
    handler: (request, response, signal) => handle(options, profiler, request, response, signal),
    onError: (error) => options.log.error({ err: error }, 'a debug request failed'),
    allowedHosts: options.allowedHosts,
    // Profiles and dumps; whatever else is asked for is not there.
    isCostly: (path) => path !== '/metrics',
    refuse: (response, { status, reason }) => sendError(response, status, reason),
  });
}

async function handle(
  options: DebugServerOptions,
  profiler: Profiler,
  request: HttpRequest,
  response: HttpResponse,
  signal: AbortSignal,
): Promise<void> {
  try {
    const { contentType, body } = await answer(options, profiler, request, signal);
    response.writeHead(200, { 'Content-Type': contentType });
    response.end(body);
  } catch (error) {
    if (!(error instanceof TsdbError)) throw error;
    const isBusy = error instanceof ProfilerBusy;
    const headers = isBusy ? { 'Retry-After': String(error.retryAfterSeconds) } : {};
    sendError(response, error.httpStatus, error.message, headers);
  }
}

function sendError(
  response: HttpResponse,
  status: number,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, { 'Content-Type': json, ...headers });
  response.end(`${JSON.stringify({ status: 'error', error: message })}\n`);
}

async function answer(
  options: DebugServerOptions,
  profiler: Profiler,
  request: HttpRequest,
  signal: AbortSignal,
): Promise<Answer> {
  const url = new URL(request.url ?? '/', 'http://debug');
  if (request.method !== 'GET') throw badRequest(`takes GET requests: ${request.method}`);
  switch (url.pathname) {
    case '/debug/pprof/profile':
      return { contentType: json, body: await profiler.cpu(millisOf(url), signal) };
    case '/debug/pprof/heap':
      return { contentType: json, body: await profiler.heap(millisOf(url), signal) };
    case '/debug/dump':
      return { contentType: json, body: `${JSON.stringify(dump(options.node), null, 2)}\n` };
    case '/metrics':
      return { contentType: options.metrics.contentType, body: await options.metrics.text() };
    default:
      throw new TsdbError('NOT_FOUND', `there is nothing at ${url.pathname}`);
  }
}

function millisOf(url: URL): number {
  const text = url.searchParams.get('seconds') ?? '5';
  const seconds = Number(text);
  if (!(seconds > 0 && seconds <= profileSecondsMax)) {
    throw badRequest(`seconds must be more than 0 and at most ${profileSecondsMax}: ${text}`);
  }
  return seconds * 1000;
}

/** What the node knows of itself. */
function dump(node: DumpedParts): object {
  const { shards, store, commitlog, sequencer, instanceId, identity, dataFolder, doubts } = node;
  const { placement } = shards;
  const mine: Instance | undefined = placement?.instances.find(({ id }) => id === instanceId);
  return {
    host: {
      instanceId,
      endpoint: mine?.endpoint ?? null,
      incarnation: identity.incarnation,
      boot: identity.boot,
      dataFolder,
      bootstrapped: node.isBootstrapped,
    },
    placement:
      placement === null
        ? null
        : { version: shards.version, placement: placementToJson(placement) },
    namespaces: [...node.namespaces.values()].map((namespace) => ({
      name: namespace.name,
      series: namespace.index.seriesCount,
      terms: namespace.index.termCount,
      indexBytes: namespace.index.memoryBytes,
      blockStarts: namespace.index.blockStarts.map(String),
      readyShards: [...namespace.readyShards].sort((a, b) => a - b),
    })),
    doubts: doubts.all.map(({ cause, foundNanos, namespace, blocks }) => ({
      cause,
      found: String(foundNanos),
      namespace,
      blockStartsByShard: Object.fromEntries(
        [...blocks].map(([shard, starts]) => [shard, runsOf(starts)]),
      ),
    })),
    parked: node.parked.entries.map((entry) => ({
      number: entry.number,
      namespace: entry.info?.namespace ?? null,
      reason: entry.info?.reason ?? null,
      shards: [...entry.shards].sort((a, b) => a - b),
      keptSeconds: Math.round(entry.kept.millis / 1000),
    })),
    shards: shards.all(),
    store: { series: store.seriesCount, samples: store.sampleCount, bytes: store.memoryBytes },
    commitlog: {
      ...commitlog.counts,
      segments: commitlog.segments().map(({ number, bytes, newestMillis }) => ({
        number,
        bytes,
        newestMillis: Object.fromEntries(newestMillis),
      })),
    },
    writes: {
      ...sequencer.counts,
      ...node.writes.counts,
      ...node.reads.counts,
      waitingBytes: sequencer.waitingBytes,
    },
  };
}
