/** The embedded key-value store: etcd's v3 gRPC API on one port, for the single node. */
import type { Env } from '#lib/env/env.ts';
import {
  type GrpcCall,
  type GrpcMethod,
  GrpcStatusError,
  grpcStatus,
  serveGrpc,
} from '#lib/env/grpc.ts';
import type { ProtoCodec, ProtoMessage } from '#lib/env/proto.ts';
import { murmur3 } from '#lib/hashing/hash.ts';
import type { Log } from '#lib/log.ts';
import type { Metrics } from '#lib/metrics.ts';
import { Turns } from '#lib/turns/turns.ts';
import { kvLimits } from './core/limits.ts';
import { LeaseList } from './lease_list.ts';
import { LocalClient } from './local.ts';
import {
  answerMessageOf,
  bytesOfText,
  deleteRequestOf,
  encodedInParts,
  encodedRange,
  grpcErrorOf,
  putRequestOf,
  rangeRequestOf,
  schema,
  txnRequestOf,
} from './messages.ts';
import type { MvccOptions } from './core/mvcc.ts';
import { everything, KvError } from './core/requests.ts';
import { rangeInTurns } from './range.ts';
import { drawId, openStorage } from './storage/storage.ts';
import { Store } from './store.ts';
import { WatchStream, WatchTotals } from './watch.ts';

/** What we say to clients that ask; the API is that of this etcd. */
const versionSpoken = '3.6.0';
const raftTerm = 1;

export interface EmbeddedKvOptions {
  /** Holds the store's files and nothing else; made when missing. */
  readonly folder: string;
  /** @default '127.0.0.1' */
  readonly host?: string;
  /** 0 takes a free one. @default 2379 */
  readonly port?: number;
  readonly env: Env;
  readonly log: Log;
  readonly metrics?: Metrics;
  /** Lower limits of history and space, for tests. */
  readonly mvcc?: Partial<MvccOptions>;
}

export interface EmbeddedKv extends AsyncDisposable {
  readonly port: number;
  /** 'host:port', for a client of this machine. */
  readonly endpoint: string;
  /** The store for callers in this process. */
  readonly local: LocalClient;
}

/**
 * Opens the store and serves it. Disposing of it refuses new calls, ends the open ones and closes
 * the files; everything acknowledged is on disk at any time, so a kill loses nothing.
 * @throws {TsdbError} UNAVAILABLE when the port is taken, or the folder is used by another process
 * or damaged
 */
export async function openEmbeddedKv(options: EmbeddedKvOptions): Promise<EmbeddedKv> {
  const { folder, host = '127.0.0.1', port = 2379, env, log, metrics } = options;
  const storage = await openStorage(folder, env);
  await using stack = new AsyncDisposableStack();
  stack.use(storage);
  const commitSeconds = metrics?.histogram(
    'tsdb_kv_commit_seconds',
    'Time of one disk transaction of the embedded key-value store.',
  );
  const store = await Store.open({
    storage,
    env,
    log,
    ...(commitSeconds === undefined ? {} : { commitSeconds }),
    ...(options.mvcc === undefined ? {} : { mvcc: options.mvcc }),
  });
  stack.use(store);
  const service = new Service(store, env, log);
  if (metrics !== undefined) service.register(metrics);
  const server = await serveGrpc({
    host,
    port,
    methods: service.methods(),
    requestBytesMax: kvLimits.requestBytesMax + kvLimits.requestFrameBytes,
    stopGraceMillis: kvLimits.stopGraceMillis,
    limits: { bytesInFlightMax: kvLimits.requestBytesInFlightMax },
  });
  stack.use(server);
  service.clientUrl = `http://${host}:${server.port}`;
  log.info({ folder, host, port: server.port }, 'key-value store listens (etcd v3 API)');
  const owned = stack.move();
  return {
    port: server.port,
    endpoint: `${host}:${server.port}`,
    local: new LocalClient(store, env),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Of a key, besides its value: lib/turns/turns.ts. */
const hashUnits = 300;
/** Of a key of a lease. */
const leaseKeyUnits = 200;

type UnaryHandler = (message: ProtoMessage, call: GrpcCall) => Promise<ProtoMessage>;
/** @returns the answer, encoded */
type Handler = (message: ProtoMessage, answer: ProtoCodec, call: GrpcCall) => Promise<Uint8Array>;

class Service {
  clientUrl = '';
  readonly #store: Store;
  readonly #env: Env;
  readonly #log: Log;
  readonly #totals = new WatchTotals();
  readonly #leaseList: LeaseList;

  constructor(store: Store, env: Env, log: Log) {
    this.#store = store;
    this.#env = env;
    this.#log = log;
    const header = () => this.#headerNow();
    this.#leaseList = new LeaseList({ store, clock: env.clock, header });
  }

  register(metrics: Metrics): void {
    const store = this.#store;
    const totals = this.#totals;
    const gauge = (name: string, help: string, read: () => number) =>
      metrics.gauge(`tsdb_kv_${name}`, help, [], read);
    gauge('revision', 'Newest durable revision.', () => store.committedRevision);
    gauge(
      'compact_revision',
      'Oldest revision still readable.',
      () => store.reader.compactRevision,
    );
    gauge('keys', 'Keys kept, deleted ones in history included.', () => store.reader.keyCount);
    gauge('leases', 'Leases granted and not ended.', () => store.reader.leaseCount);
    gauge(
      'stored_bytes',
      'Bytes of keys and values, history included.',
      () => store.reader.storedBytes,
    );
    gauge('watchers', 'Open watches.', () => totals.watchers);
  }

  methods(): GrpcMethod[] {
    const unary = Object.entries(this.#unaryHandlers()).map(([name, handle]) => {
      const encoding: Handler = async (message, answer, call) =>
        answer.encode(await handle(message, call));
      return [name, encoding] as const;
    });
    const encoded = Object.entries(this.#encodingHandlers());
    const methods = [...unary, ...encoded].map(([name, handle]): GrpcMethod => {
      const path = `/etcdserverpb.${name}`;
      return {
        kind: 'unary',
        path,
        handle: async (bytes, call) => {
          try {
            if (bytes.length > kvLimits.requestBytesMax) throw new KvError('requestTooLarge');
            const { request, answer } = schema.method(path);
            return await handle(request.decode(bytes), answer, call);
          } catch (error) {
            throw error instanceof KvError ? grpcErrorOf(error) : error;
          }
        },
      };
    });
    return [...methods, this.#watchMethod(), this.#keepAliveMethod()];
  }

  #header(revision: number): ProtoMessage {
    return { ...this.#store.identity, revision, raftTerm };
  }

  #headerNow(): ProtoMessage {
    return this.#header(this.#store.committedRevision);
  }

  #unaryHandlers(): Record<string, UnaryHandler> {
    return {
      ...this.#keyHandlers(),
      ...this.#leaseHandlers(),
      ...this.#maintenanceHandlers(),
      'Auth/AuthStatus': async () => ({
        header: this.#headerNow(),
        enabled: false,
        authRevision: 1,
      }),
      'Auth/AuthEnable': async () => refuseAuth('cannot be enabled on the embedded store'),
      'Auth/AuthDisable': async () => ({ header: this.#headerNow() }),
      'Auth/Authenticate': async () => refuseAuth('is not enabled'),
    };
  }

  /** Of answers that may be long, and are encoded in turns with other work. */
  #encodingHandlers(): Record<string, Handler> {
    return {
      'KV/Range': (message, codec, call) => this.#range(message, codec, call),
      'Lease/LeaseTimeToLive': (message, codec, call) => this.#timeToLive(message, codec, call),
      'Lease/LeaseLeases': (_, codec) => this.#leaseList.encoded(codec),
    };
  }

  async #range(
    message: ProtoMessage,
    codec: ProtoCodec,
    { signal }: GrpcCall,
  ): Promise<Uint8Array> {
    const request = rangeRequestOf(message);
    const work = Turns.of(this.#env.clock).begin(signal, 'kv');
    const answer = await rangeInTurns(this.#store, request, work);
    return encodedRange(answer, this.#header(answer.revision), codec, work);
  }

  #keyHandlers(): Record<string, UnaryHandler> {
    const store = this.#store;
    return {
      'KV/Put': async (message) => {
        const request = putRequestOf(message);
        const answer = await store.perform((core) => core.put(request));
        return answerMessageOf(answer, this.#header(answer.revision));
      },
      'KV/DeleteRange': async (message) => {
        const request = deleteRequestOf(message);
        const answer = await store.perform((core) => core.deleteRange(request));
        return answerMessageOf(answer, this.#header(answer.revision));
      },
      'KV/Txn': async (message) => {
        const request = txnRequestOf(message);
        const answer = await store.perform((core) => core.txn(request));
        return answerMessageOf(answer, this.#header(answer.revision));
      },
      'KV/Compact': async (message) => {
        await store.compact(Number(message['revision']), message['physical']);
        return { header: this.#headerNow() };
      },
    };
  }

  #leaseHandlers(): Record<string, UnaryHandler> {
    const store = this.#store;
    return {
      'Lease/LeaseGrant': async (message) => {
        const asked = message['id'] as bigint;
        const id = asked === 0n ? drawId(this.#env) : asked;
        const ttl = await store.perform((core, nowMillis) =>
          core.leaseGrant(id, Number(message['ttl']), nowMillis),
        );
        return { header: this.#headerNow(), id, ttl };
      },
      'Lease/LeaseRevoke': async (message) => {
        await store.perform((core) => core.leaseRevoke(message['id']));
        return { header: this.#headerNow() };
      },
    };
  }

  async #timeToLive(
    message: ProtoMessage,
    codec: ProtoCodec,
    { signal }: GrpcCall,
  ): Promise<Uint8Array> {
    const id = message['id'] as bigint;
    const work = Turns.of(this.#env.clock).begin(signal, 'kv');
    const asked = this.#store.perform((core, nowMillis) => ({
      info: core.leaseInfo(id, nowMillis),
      keys: message['keys'] ? core.leaseKeys(id) : [],
    }));
    const { info, keys } = await work.outside(asked);
    if (info === null) return codec.encode({ header: this.#headerNow(), id, ttl: -1 });
    const { remainingSeconds: ttl, ttlSeconds: grantedTtl } = info;
    const answer = { header: this.#headerNow(), id, ttl, grantedTtl };
    const keysOf = (some: readonly string[]) => ({ keys: some.map(bytesOfText) });
    return encodedInParts(codec, answer, keys, keysOf, work, leaseKeyUnits);
  }

  #maintenanceHandlers(): Record<string, UnaryHandler> {
    const store = this.#store;
    return {
      'Cluster/MemberList': async () => ({
        header: this.#headerNow(),
        members: [{ id: store.identity.memberId, name: 'embedded', clientUrls: [this.clientUrl] }],
      }),
      'Maintenance/Alarm': async () => ({ header: this.#headerNow(), alarms: [] }),
      'Maintenance/Status': async () => {
        const { fileBytes, usedBytes } = await store.size();
        const revision = store.committedRevision;
        return {
          header: this.#header(revision),
          version: versionSpoken,
          dbSize: fileBytes,
          dbSizeInUse: usedBytes,
          dbSizeQuota: kvLimits.storedBytesMax,
          leader: store.identity.memberId,
          raftIndex: revision,
          raftTerm,
          raftAppliedIndex: revision,
        };
      },
      'Maintenance/Defragment': async () => ({ header: this.#headerNow() }),
      'Maintenance/Hash': async (_, { signal }) => {
        const { hash } = await this.#hashAt(0, signal);
        return { header: this.#headerNow(), hash };
      },
      'Maintenance/HashKV': async (message, { signal }) => ({
        header: this.#headerNow(),
        ...(await this.#hashAt(Number(message['revision']), signal)),
      }),
    };
  }

  /**
   * A hash of all keys as they were at the revision: equal stores have equal ones. Not etcd's hash.
   */
  async #hashAt(
    revision: number,
    signal: AbortSignal,
  ): Promise<{ hash: number; compactRevision: number; hashRevision: number }> {
    const work = Turns.of(this.#env.clock).begin(signal, 'kv');
    const found = await rangeInTurns(this.#store, { ...everything, revision }, work);
    let hash = 0;
    for (const item of found.items) {
      const facts = [item.modRevision, item.createRevision, item.version, item.leaseId].join(' ');
      for (const part of [item.key, facts]) hash = murmur3(bytesOfText(part), hash);
      hash = murmur3(item.value, hash);
      if (work.spend(hashUnits + item.value.length)) await work.pause();
    }
    const { compactRevision } = this.#store.reader;
    return { hash, compactRevision, hashRevision: revision > 0 ? revision : found.revision };
  }

  #keepAliveMethod(): GrpcMethod {
    const path = '/etcdserverpb.Lease/LeaseKeepAlive';
    return {
      kind: 'stream',
      path,
      handle: async (requests, send) => {
        const { request, answer } = schema.method(path);
        try {
          for await (const bytes of requests) {
            const id = request.decode(bytes)['id'] as bigint;
            const ttl = await this.#store.perform((core, nowMillis) =>
              core.leaseRenew(id, nowMillis),
            );
            await send(answer.encode({ header: this.#headerNow(), id, ttl: ttl ?? 0 }));
          }
        } catch (error) {
          throw error instanceof KvError ? grpcErrorOf(error) : error;
        }
      },
    };
  }

  #watchMethod(): GrpcMethod {
    const path = '/etcdserverpb.Watch/Watch';
    const totals = this.#totals;
    return {
      kind: 'stream',
      path,
      handle: async (requests, send, call: GrpcCall) => {
        const { request, answer } = schema.method(path);
        if (totals.streams >= kvLimits.watchStreamsMax) {
          throw grpcErrorOf(new KvError('tooManyRequests'));
        }
        totals.streams += 1;
        const failed = new AbortController();
        const stream = new WatchStream({
          store: this.#store,
          clock: this.#env.clock,
          totals,
          header: (revision) => this.#header(revision),
          codec: answer,
          send,
          signal: AbortSignal.any([call.signal, failed.signal]),
        });
        // A client that ends its side still gets its changes; only a failure ends the stream.
        const taking = (async () => {
          for await (const bytes of requests) await stream.take(request.decode(bytes));
        })();
        taking.catch((error: unknown) => failed.abort(error));
        try {
          await stream.run();
          failed.signal.throwIfAborted();
          call.signal.throwIfAborted();
        } finally {
          totals.streams -= 1;
          this.#log.debug({ peer: call.peer }, 'watch stream ended');
        }
      },
    };
  }
}

function refuseAuth(reason: string): never {
  throw new GrpcStatusError(grpcStatus.failedPrecondition, `etcdserver: authentication ${reason}`);
}
