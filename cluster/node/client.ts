/** `NodeService` over gRPC, and the connections of a process to the nodes of its placement. */
import type { Env } from '#lib/env/env.ts';
import { connectGrpc, type GrpcClient, type GrpcTls } from '#lib/env/grpc.ts';
import { ChildSignal } from '#lib/env/wait.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { Delivery } from '#lib/read_memory/delivery.ts';
import { unlimitedReadBytes } from '#lib/read_memory/read_memory.ts';
import { tracedClient } from '#lib/tracing/grpc.ts';
import type { Tracing } from '#lib/tracing/tracing.ts';
import { BundleJoiner, bundleBytes } from './bundle_pages.ts';
import { wirePageBytesMax } from '../limits.ts';
import type {
  AggregateRequest,
  AggregateResponse,
  CompareRowsRequest,
  CompareRowsResponse,
  FetchByIdRequest,
  FetchRequest,
  FetchResponse,
  Introduction,
  NodeHealth,
  NodeService,
  StatisticsRequest,
  StatisticsResponse,
  StreamDifferentRequest,
  StreamShardPage,
  StreamShardRequest,
  WriteRequest,
  WriteResponse,
} from './service.ts';
import {
  type AggregatePage,
  aggregatePageWire,
  aggregateRequestWire,
  statisticsRequestWire,
  statisticsResponseWire,
  fetchByIdRequestWire,
  type FetchPage,
  fetchPageWire,
  fetchRequestWire,
  healthRequestWire,
  healthResponseWire,
  compareRowsRequestWire,
  compareRowsResponseWire,
  nodePaths,
  streamDifferentRequestWire,
  streamShardPageWire,
  streamShardRequestWire,
  truncateRequestWire,
  truncateResponseWire,
  writeRequestWire,
  writeResponseWire,
} from './wire.ts';
import type { Instance, Placement } from '../placement/placement.ts';

/** Largest message of an answer: a page, whose columns may be a little larger than asked for. */
const answerBytesMax: number = 2 * wirePageBytesMax + (8 << 20);

const healthCheckMillis = 4_000;
const healthFailuresMax = 4;

export interface NodeClientOptions {
  /** 'host:port' of the node's gRPC listener. */
  readonly target: string;
  readonly tls?: GrpcTls;
  /** Default `connectGrpc`; simulations have a network of their own. */
  readonly connect?: (target: string) => GrpcClient;
  /** Nodes are told in which span they are called. Default: none. */
  readonly tracing?: Tracing | null;
}

/** One node over gRPC. Connects when first used, and again whenever the connection was lost. */
export class NodeClient implements NodeService, Disposable {
  readonly #client: GrpcClient;

  constructor({ target, tls, connect, tracing = null }: NodeClientOptions) {
    const client =
      connect?.(target) ??
      connectGrpc({ target, answerBytesMax, ...(tls === undefined ? {} : { tls }) });
    this.#client = tracedClient(client, tracing);
  }

  async write(request: WriteRequest, signal: AbortSignal): Promise<WriteResponse> {
    const bytes = writeRequestWire.encode(request);
    return writeResponseWire.decode(await this.#client.unary(nodePaths.write, bytes, signal));
  }

  fetch(
    request: FetchRequest,
    signal: AbortSignal,
    delivery: Delivery = {},
  ): Promise<FetchResponse> {
    const bytes = fetchRequestWire.encode(request);
    return this.#fetchPages(nodePaths.fetch, bytes, signal, delivery);
  }

  fetchById(
    request: FetchByIdRequest,
    signal: AbortSignal,
    delivery: Delivery = {},
  ): Promise<FetchResponse> {
    const bytes = fetchByIdRequestWire.encode(request);
    return this.#fetchPages(nodePaths.fetchById, bytes, signal, delivery);
  }

  aggregate(
    request: AggregateRequest,
    signal: AbortSignal,
    delivery: Delivery = {},
  ): Promise<AggregateResponse> {
    return heldOrGiven(delivery, signal, async (take) => {
      const tags: { name: string; values: string[] }[] = [];
      let last: AggregatePage['last'] = null;
      const bytes = aggregateRequestWire.encode(request);
      for await (const message of this.#stream(nodePaths.aggregate, bytes, signal)) {
        await take(textFactor * message.length);
        const page = aggregatePageWire.decode(message);
        for (const { name, values } of page.tags) {
          const before = tags.at(-1);
          if (before?.name === name) for (const value of values) before.values.push(value);
          else tags.push({ name, values: [...values] });
        }
        last = page.last;
      }
      if (last === null) throw cutOff(nodePaths.aggregate);
      return { tags, ...last };
    });
  }

  async statistics(request: StatisticsRequest, signal: AbortSignal): Promise<StatisticsResponse> {
    const bytes = statisticsRequestWire.encode(request);
    const answer = await this.#client.unary(nodePaths.statistics, bytes, signal);
    return statisticsResponseWire.decode(answer);
  }

  async truncate(namespace: string, signal: AbortSignal): Promise<number> {
    const bytes = truncateRequestWire.encode(namespace);
    return truncateResponseWire.decode(await this.#client.unary(nodePaths.truncate, bytes, signal));
  }

  streamShard(request: StreamShardRequest, signal: AbortSignal): AsyncIterable<StreamShardPage> {
    return this.#pages(nodePaths.streamShard, streamShardRequestWire.encode(request), signal);
  }

  async compareRows(
    request: CompareRowsRequest,
    signal: AbortSignal,
  ): Promise<CompareRowsResponse> {
    const bytes = compareRowsRequestWire.encode(request);
    const answer = await this.#client.unary(nodePaths.compareRows, bytes, signal);
    return compareRowsResponseWire.decode(answer);
  }

  streamDifferent(
    request: StreamDifferentRequest,
    signal: AbortSignal,
  ): AsyncIterable<StreamShardPage> {
    const bytes = streamDifferentRequestWire.encode(request);
    return this.#pages(nodePaths.streamDifferent, bytes, signal);
  }

  async health(signal: AbortSignal, of: Introduction | null = null): Promise<NodeHealth> {
    const bytes = healthRequestWire.encode(of);
    return healthResponseWire.decode(await this.#client.unary(nodePaths.health, bytes, signal));
  }

  [Symbol.dispose](): void {
    this.#client[Symbol.dispose]();
  }

  async *#pages(
    path: string,
    request: Uint8Array,
    signal: AbortSignal,
  ): AsyncGenerator<StreamShardPage> {
    const joiner = new BundleJoiner();
    let isOpen = false;
    for await (const message of this.#stream(path, request, signal)) {
      const { part, more } = streamShardPageWire.decode(message);
      joiner.add(part);
      isOpen = more;
      if (!more) yield { bundle: joiner.finish() };
    }
    if (isOpen) throw cutOff(path);
  }

  #fetchPages(
    path: string,
    request: Uint8Array,
    signal: AbortSignal,
    delivery: Delivery,
  ): Promise<FetchResponse> {
    return heldOrGiven(delivery, signal, async (take) => {
      const joiner = new BundleJoiner();
      let last: FetchPage['last'] = null;
      let taken = 0;
      for await (const message of this.#stream(path, request, signal)) {
        await take(message.length);
        taken += message.length;
        const page = fetchPageWire.decode(message);
        joiner.add(page.part);
        last = page.last;
      }
      if (last === null) throw cutOff(path);
      // Joined, they are there twice for a moment.
      if (joiner.partCount > 1) {
        await take(taken);
        taken *= 2;
      }
      const bundle = joiner.finish();
      await take(bundleBytes(bundle) - taken);
      return { bundle, ...last };
    });
  }

  async *#stream(
    path: string,
    request: Uint8Array,
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array> {
    const call = this.#client.stream(path, signal);
    // A call that fails says so to its reader too, with the server's reason.
    call.send(request).catch(() => {});
    call.end();
    yield* call.messages;
  }
}

/** What names and values take as texts, for each byte on the wire. */
const textFactor = 4;

/** Takes bytes of who joins answers as one comes, and gives them back when it fails. */
async function heldOrGiven<T>(
  { memory = unlimitedReadBytes }: Delivery,
  signal: AbortSignal,
  read: (take: (bytes: number) => Promise<void>) => Promise<T>,
): Promise<T> {
  let taken = 0;
  const take = async (bytes: number): Promise<void> => {
    if (bytes < 0) memory.give(-bytes);
    else if (!memory.tryGrow(bytes)) await memory.grow(bytes, signal);
    taken += bytes;
  };
  try {
    return await read(take);
  } catch (error) {
    memory.give(taken);
    throw error;
  }
}

function cutOff(path: string): TsdbError {
  return new TsdbError('UNAVAILABLE', `${path}: the answer ended before its last page`);
}

/** What tells of changes of the placement, as `Topology` does. */
export interface PlacementSource {
  subscribe(listener: (view: { readonly placement: Placement | null }) => void): Disposable;
}

export interface NodeConnectionsOptions {
  readonly env: Env;
  readonly log: Log;
  readonly tls?: GrpcTls;
  /** As in `NodeClientOptions`. */
  readonly connect?: (target: string) => GrpcClient;
  /** Nodes are told in which span they are called. Default: none. */
  readonly tracing?: Tracing | null;
}

interface Connection {
  readonly endpoint: string;
  readonly client: NodeClient;
  readonly service: NodeService;
  readonly stop: AbortController;
  failures: number;
  /** Why requests are refused at once, or null. */
  problem: string | null;
  /** Asked for since the last check. */
  isUsed: boolean;
}

/**
 * A connection to each instance, made when first asked for, checked every four seconds. After four
 * failed checks requests fail at once, until a check succeeds again: a node that hangs must not
 * cost every request its whole deadline. The checks end with the instance: who asks for one that is
 * not in the placement, as by an older view of it, has a connection as long as he asks.
 */
export class NodeConnections implements Disposable {
  readonly #options: NodeConnectionsOptions;
  readonly #connections = new Map<string, Connection>();
  #following: Disposable | null = null;
  /** Endpoints of the placement by instance; null as long as none was seen. */
  #placed: ReadonlyMap<string, string> | null = null;

  constructor(options: NodeConnectionsOptions) {
    this.#options = options;
  }

  nodeOf(instance: Instance): NodeService {
    const known = this.#connections.get(instance.id);
    if (known?.endpoint === instance.endpoint) {
      known.isUsed = true;
      return known.service;
    }
    this.#close(instance.id);
    const connection = this.#connect(instance);
    this.#connections.set(instance.id, connection);
    return connection.service;
  }

  /** Closes the connections to instances that leave the placement, as it changes. */
  follow(topology: PlacementSource): this {
    this.#following = topology.subscribe(({ placement }) => this.#retain(placement));
    return this;
  }

  [Symbol.dispose](): void {
    this.#following?.[Symbol.dispose]();
    for (const id of this.#connections.keys()) this.#close(id);
  }

  #retain(placement: Placement | null): void {
    this.#placed = new Map(placement?.instances.map(({ id, endpoint }) => [id, endpoint]));
    for (const [id, { endpoint }] of this.#connections) {
      if (!this.#isPlaced(id, endpoint)) this.#close(id);
    }
  }

  #isPlaced(id: string, endpoint: string): boolean {
    return this.#placed === null || this.#placed.get(id) === endpoint;
  }

  #connect({ id, endpoint }: Instance): Connection {
    const { env, log, ...security } = this.#options;
    const client = new NodeClient({ target: endpoint, ...security });
    const stop = new AbortController();
    const connection: Connection = {
      endpoint,
      client,
      stop,
      failures: 0,
      problem: null,
      isUsed: true,
      service: guarded(client, () => connection.problem),
    };
    const check = async () => {
      if (!connection.isUsed && !this.#isPlaced(id, endpoint)) return this.#close(id);
      connection.isUsed = false;
      const problem = await healthProblem(client, id, env, stop.signal);
      if (stop.signal.aborted) return;
      connection.failures = problem === null ? 0 : connection.failures + 1;
      const refused = connection.failures >= healthFailuresMax ? problem : null;
      if ((refused === null) !== (connection.problem === null)) {
        const state = refused === null ? 'can be reached again' : 'cannot be reached';
        log.warn({ instance: id, endpoint, problem: refused }, `storage node ${state}`);
      }
      connection.problem = refused;
    };
    env.clock.every(healthCheckMillis, check, () => {}, stop.signal);
    return connection;
  }

  #close(id: string): void {
    const connection = this.#connections.get(id);
    if (connection === undefined) return;
    this.#connections.delete(id);
    connection.stop.abort(new TsdbError('CANCELLED', 'the connection is closed'));
    connection.client[Symbol.dispose]();
  }
}

async function healthProblem(
  client: NodeClient,
  id: string,
  env: Env,
  signal: AbortSignal,
): Promise<string | null> {
  const stop = new ChildSignal(signal);
  try {
    const health = await client.health(env.clock.deadline(healthCheckMillis, stop.signal));
    // An address may have been given to another node.
    return health.instanceId === id
      ? null
      : `instance ${health.instanceId} answers at its endpoint`;
  } catch (error) {
    return messageOf(error);
  } finally {
    stop.end();
  }
}

/** The service while there is no problem; with one, every request fails at once with it. */
function guarded(client: NodeClient, problemNow: () => string | null): NodeService {
  const check = () => {
    const problem = problemNow();
    if (problem !== null) {
      throw new TsdbError('UNAVAILABLE', `health checks fail: ${problem}`);
    }
    return client;
  };
  return {
    write: async (request, signal) => check().write(request, signal),
    fetch: async (request, signal, delivery) => check().fetch(request, signal, delivery),
    fetchById: async (request, signal, delivery) => check().fetchById(request, signal, delivery),
    aggregate: async (request, signal, delivery) => check().aggregate(request, signal, delivery),
    statistics: async (request, signal) => check().statistics(request, signal),
    truncate: async (namespace, signal) => check().truncate(namespace, signal),
    streamShard: (request, signal) => check().streamShard(request, signal),
    compareRows: async (request, signal) => check().compareRows(request, signal),
    streamDifferent: (request, signal) => check().streamDifferent(request, signal),
    health: (signal, of) => client.health(signal, of),
  };
}
