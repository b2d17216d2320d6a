/**
 * The key-value interface over etcd's v3 API: a real etcd, or the embedded one. The one place that
 * knows the etcd3 package, of which we use the lower clients: its retries, circuit breakers,
 * watcher and lease hide the errors that the interface promises. One client is held for each
 * endpoint; calls stay with the endpoint that answered last and go on to the next when it does not.
 */
import {
  type ICallable,
  type ICompare,
  type IKeyValue,
  type IOptions,
  type IRequestOp,
  type IWatchResponse,
  Etcd3,
} from 'etcd3';
import type { Env } from '#lib/env/env.ts';
import { grpcSecurityOf } from '#lib/env/grpc.ts';
import { ChangingCertificates, type ClientCertificates } from '#lib/env/grpc_certificates.ts';
import { type ErrorCode, messageOf, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type {
  Compare,
  KeyValue,
  Kv,
  KvLease,
  Listing,
  Operation,
  TransactionResult,
  WatchBatch,
} from './kv.ts';
import { RevisionCompacted } from './kv.ts';
import { keepLease } from './lease.ts';
import { transactionGroups } from './transaction_groups.ts';

export const etcdLimits = {
  /** A call that is not answered in this time fails, or is sent to the next endpoint. */
  callTimeoutMillis: 5_000,
  keepaliveMillis: 10_000,
  keepaliveTimeoutMillis: 5_000,
  watchRetryMillisMin: 50,
  watchRetryMillisMax: 2_000,
  /** Kubernetes brings a changed Secret to the pods within a minute or two. */
  tlsLookMillis: 5_000,
} as const;

export interface EtcdKvOptions {
  /** 'host:port', 'http://host:port' or 'https://host:port', each; at least one. */
  readonly endpoints: readonly string[];
  /** Needed for endpoints that speak TLS with a private authority. */
  readonly tls?: ClientCertificates;
  /** Asked every now and then for those that are to be used from now on. */
  readonly readTls?: () => Promise<ClientCertificates>;
  readonly auth?: { readonly username: string; readonly password: string };
  readonly env: Env;
  readonly log: Log;
}

/** Connects when first used. @throws {TsdbError} BAD_REQUEST when an endpoint is malformed */
export function openEtcdKv(options: EtcdKvOptions): Kv {
  return new EtcdKv(options);
}

/** Fails a call as it fails, at once: retrying is decided here, where it is known what is safe. */
const passThrough = {
  execute: async <Answer>(task: () => Answer | Promise<Answer>): Promise<Answer> => task(),
} as unknown as NonNullable<NonNullable<IOptions['faultHandling']>['global']>;

/** What the package does not type of a streaming call. */
interface RawStream<Request, Answer> extends AsyncIterable<Answer> {
  write(request: Request): void;
  cancel(): void;
  on(event: 'error', listener: () => void): void;
}

/** How far a watch is. */
interface WatchPlace {
  nextRevision: number;
  /** Whether its last stream failed, and the next one has brought nothing yet. */
  isInterrupted: boolean;
}

class EtcdKv implements Kv {
  readonly #clients: readonly Etcd3[];
  readonly #options: EtcdKvOptions;
  readonly #closed = new AbortController();
  #current = 0;

  constructor(options: EtcdKvOptions) {
    this.#options = options;
    if (options.endpoints.length === 0) {
      throw new TsdbError('BAD_REQUEST', 'cannot connect to etcd: endpoints are empty: []');
    }
    const { tls, env } = options;
    const certificates = tls === undefined ? null : new ChangingCertificates(tls);
    this.#clients = options.endpoints.map((endpoint) => clientOf(endpoint, certificates, options));
    if (certificates === null || options.readTls === undefined) return;
    let problem = '';
    const look = async (): Promise<void> => {
      if (certificates.replace(await options.readTls!())) {
        options.log.info({}, 'certificates for etcd have changed');
      }
      problem = '';
    };
    // Between two writes of whoever changes them they do not belong together; once is enough to say.
    const onError = (error: unknown): void => {
      if (messageOf(error) === problem) return;
      problem = messageOf(error);
      options.log.warn(
        { error: problem },
        'certificates for etcd cannot be used; the old ones are',
      );
    };
    env.clock.every(etcdLimits.tlsLookMillis, look, onError, this.#closed.signal);
  }

  async get(key: string, signal: AbortSignal): Promise<KeyValue | null> {
    const answer = await this.#read(
      (client, deadline) => client.kv.range({ key: Buffer.from(key) }, { deadline }),
      signal,
    );
    const found = answer.kvs[0];
    return found === undefined ? null : keyValueOf(found);
  }

  async list(prefix: string, signal: AbortSignal): Promise<Listing> {
    const range = rangeOfPrefix(prefix);
    const answer = await this.#read(
      (client, deadline) => client.kv.range(range, { deadline }),
      signal,
    );
    return { items: answer.kvs.map(keyValueOf), revision: Number(answer.header.revision) };
  }

  async transact(
    compares: readonly Compare[],
    operations: readonly Operation[],
    signal: AbortSignal,
  ): Promise<TransactionResult> {
    const groups = transactionGroups(operations.map(operationOf));
    const success: IRequestOp[] =
      groups.length === 1
        ? [...groups[0]!]
        : groups.map((group) => ({
            request_txn: { compare: [], success: [...group], failure: [] },
          }));
    const request = { compare: compares.map(compareOf), success };
    const answer = await this.#call(
      (client, deadline) => client.kv.txn(request, { deadline }),
      wasNeverSent,
      signal,
    );
    return { succeeded: answer.succeeded, revision: Number(answer.header.revision) };
  }

  async *watch(
    prefix: string,
    fromRevision: number,
    signal: AbortSignal,
  ): AsyncGenerator<WatchBatch, void, void> {
    const stop = AbortSignal.any([signal, this.#closed.signal]);
    const place: WatchPlace = { nextRevision: fromRevision, isInterrupted: false };
    let retryMillis: number = etcdLimits.watchRetryMillisMin;
    while (!stop.aborted) {
      const before = place.nextRevision;
      try {
        yield* this.#watchOnce(prefix, place, stop);
      } catch (error) {
        if (error instanceof RevisionCompacted) throw error;
        if (stop.aborted) break;
        await this.#recoverFrom(error, prefix, place, stop);
      }
      if (place.nextRevision !== before) retryMillis = etcdLimits.watchRetryMillisMin;
      else retryMillis = Math.min(2 * retryMillis, etcdLimits.watchRetryMillisMax);
      const { clock, random } = this.#options.env;
      await clock.sleep(retryMillis * (0.5 + random.fraction()), stop).catch(() => {});
    }
    if (!signal.aborted && this.#closed.signal.aborted) throw this.#closed.signal.reason;
  }

  async lease(ttlSeconds: number, signal: AbortSignal): Promise<KvLease> {
    const { clock } = this.#options.env;
    const grantedMillis = clock.monotonicMillis();
    const granted = await this.#call(
      (client, deadline) => client.leaseClient.leaseGrant({ TTL: ttlSeconds }, { deadline }),
      // A second grant is harmless: the first one, if there is one, expires.
      isUnavailable,
      signal,
    );
    return keepLease({
      id: granted.ID,
      ttlSeconds: Number(granted.TTL),
      grantedMillis,
      clock,
      closed: this.#closed.signal,
      renew: (timeoutMillis, stop) => this.#renewLease(granted.ID, timeoutMillis, stop),
      revoke: async () => {
        try {
          await this.#call(
            (client, deadline) => client.leaseClient.leaseRevoke({ ID: granted.ID }, { deadline }),
            isUnavailable,
            this.#closed.signal,
          );
        } catch (error) {
          if (!(error instanceof TsdbError && error.code === 'NOT_FOUND')) throw error;
        }
      },
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed.abort(new TsdbError('UNAVAILABLE', 'the key-value client is closed'));
    for (const client of this.#clients) client.close();
  }

  /** One stream of the watch; moves `place` after what was handed out. */
  async *#watchOnce(
    prefix: string,
    place: WatchPlace,
    stop: AbortSignal,
  ): AsyncGenerator<WatchBatch, void, void> {
    const stream = await this.#openStream<object, IWatchResponse>('Watch', 'watch');
    const cancel = () => stream.cancel();
    stop.addEventListener('abort', cancel, { once: true });
    try {
      stop.throwIfAborted();
      stream.write({
        create_request: {
          ...rangeOfPrefix(prefix),
          start_revision: place.nextRevision,
          progress_notify: true,
        },
      });
      for await (const answer of stream) {
        const compactRevision = Number(answer.compact_revision);
        if (compactRevision > 0) throw new RevisionCompacted(compactRevision);
        if (answer.canceled) throw new TsdbError('UNAVAILABLE', answer.cancel_reason);
        if (place.isInterrupted) {
          place.isInterrupted = false;
          this.#options.log.info({ prefix }, 'watch goes on');
        }
        const headerRevision = Number(answer.header.revision);
        if (answer.created) {
          // Without a start the watch begins here, and a resumed one must too.
          if (place.nextRevision <= 0) place.nextRevision = headerRevision + 1;
          continue;
        }
        const events = answer.events.map(eventOf);
        const last = answer.events.at(-1);
        if (last === undefined) {
          // A progress report: nothing of ours happened up to this revision.
          place.nextRevision = Math.max(place.nextRevision, headerRevision + 1);
          continue;
        }
        const revision = Number(last.kv.mod_revision);
        place.nextRevision = revision + 1;
        yield { revision, events };
      }
    } finally {
      stop.removeEventListener('abort', cancel);
      stream.cancel();
    }
  }

  /** Moves on to the next endpoint, and lets the package renew a login that is no longer good. */
  async #recoverFrom(
    error: unknown,
    prefix: string,
    place: WatchPlace,
    stop: AbortSignal,
  ): Promise<void> {
    // Once for as long as it lasts: a watch of each prefix tries every other second.
    if (!place.isInterrupted) {
      const because = { prefix, error: messageOf(error) };
      this.#options.log.warn(because, 'watch was interrupted; resuming');
    }
    place.isInterrupted = true;
    this.#moveOn();
    if (this.#options.auth === undefined) return;
    await this.get(prefix === '' ? '\0' : prefix, stop).catch(() => {});
  }

  async #renewLease(id: string, timeoutMillis: number, stop: AbortSignal): Promise<number> {
    const timeout = this.#options.env.clock.deadline(timeoutMillis, stop);
    const stream = await this.#openStream<object, { TTL: string }>('Lease', 'leaseKeepAlive');
    const cancel = () => stream.cancel();
    timeout.addEventListener('abort', cancel, { once: true });
    try {
      timeout.throwIfAborted();
      stream.write({ ID: id });
      for await (const answer of stream) return Number(answer.TTL);
      throw new TsdbError('UNAVAILABLE', 'the keep-alive stream ended without an answer');
    } catch (error) {
      if (!stop.aborted) this.#moveOn();
      throw error;
    } finally {
      timeout.removeEventListener('abort', cancel);
      stream.cancel();
    }
  }

  /**
   * A stream that ends with an error when its member has no leader: without asking for that, a
   * watch on a member cut off from the others would be silent for ever.
   */
  async #openStream<Request, Answer>(
    service: 'Watch' | 'Lease',
    method: string,
  ): Promise<RawStream<Request, Answer>> {
    this.#closed.signal.throwIfAborted();
    const client = this.#clients[this.#current]!;
    const { pool } = client as unknown as { pool: ICallable<unknown> };
    const stream = await pool.withConnection(service, ({ client: stub, metadata }) => {
      metadata.set('hasleader', 'true');
      type Open = Record<string, (given: typeof metadata) => RawStream<Request, Answer>>;
      return (stub as unknown as Open)[method]!(metadata);
    });
    // Errors reach the iteration; this keeps the one of a cancelled stream from ending the process.
    stream.on('error', () => {});
    return stream;
  }

  #read<Answer>(
    attempt: (client: Etcd3, deadline: number) => Promise<Answer>,
    signal: AbortSignal,
  ): Promise<Answer> {
    return this.#call(attempt, isUnavailable, signal);
  }

  /**
   * Tries each endpoint once, and the first once more, as long as `mayRetry` says of the error. Of
   * endpoints some may be of members that are not there: what one says that is there is told.
   */
  async #call<Answer>(
    attempt: (client: Etcd3, deadline: number) => Promise<Answer>,
    mayRetry: (error: TsdbError) => boolean,
    signal: AbortSignal,
  ): Promise<Answer> {
    const stop = AbortSignal.any([signal, this.#closed.signal]);
    let told: TsdbError | null = null;
    for (let tried = 1; ; tried += 1) {
      stop.throwIfAborted();
      const index = this.#current;
      try {
        const deadline = this.#options.env.clock.nowMillis() + etcdLimits.callTimeoutMillis;
        return await raceAbort(attempt(this.#clients[index]!, deadline), stop);
      } catch (error) {
        if (stop.aborted) throw stop.reason;
        const failure = errorOf(error, this.#options.endpoints[index]!);
        if (isUnavailable(failure) && this.#current === index) this.#moveOn();
        if (!mayRetry(failure)) throw failure;
        if (told === null || !isUnnamed(failure)) told = failure;
        if (tried > this.#clients.length) throw told;
      }
    }
  }

  #moveOn(): void {
    this.#current = (this.#current + 1) % this.#clients.length;
  }
}

function clientOf(
  endpoint: string,
  certificates: ChangingCertificates | null,
  options: EtcdKvOptions,
): Etcd3 {
  if (!/^(https?:\/\/)?[^/\s]+:\d+$/.test(endpoint)) {
    const value = JSON.stringify(endpoint);
    throw new TsdbError(
      'BAD_REQUEST',
      `cannot connect to etcd: endpoint is not host:port: ${value}`,
    );
  }
  const { auth } = options;
  const isSecure = certificates !== null || endpoint.startsWith('https:');
  const target = endpoint.replace(/^https?:\/\//, '');
  const security = isSecure ? grpcSecurityOf(target, certificates ?? {}) : null;
  if (auth !== undefined && security?.options['grpc.ssl_target_name_override'] !== undefined) {
    // The package logs in over a connection of its own that takes no options.
    throw new TsdbError(
      'BAD_REQUEST',
      `cannot connect to etcd: endpoint must have a name for TLS with users: ${endpoint}`,
    );
  }
  const client = new Etcd3({
    hosts: isSecure ? `https://${target}` : target,
    grpcOptions: {
      'grpc.max_receive_message_length': -1,
      'grpc.max_send_message_length': -1,
      'grpc.keepalive_time_ms': etcdLimits.keepaliveMillis,
      'grpc.keepalive_timeout_ms': etcdLimits.keepaliveTimeoutMillis,
      'grpc.initial_reconnect_backoff_ms': 100,
      'grpc.max_reconnect_backoff_ms': 1_000,
      ...security?.options,
    },
    faultHandling: { global: passThrough, host: () => passThrough },
    ...(auth === undefined ? {} : { auth: { ...auth } }),
  });
  if (security !== null) {
    const { pool } = client as unknown as { pool: SecuredPool };
    for (const host of pool.hosts) host.channelCredentials = security.credentials;
    pool.authenticator.credentials = security.credentials;
  }
  return client;
}

/** The package takes certificates but no check of a server that is known by its address. */
interface SecuredPool {
  readonly hosts: { channelCredentials: unknown }[];
  readonly authenticator: { credentials: unknown };
}

/**
 * Rejects with the signal's reason as soon as it aborts; the call goes on to its deadline unheard.
 */
async function raceAbort<Answer>(call: Promise<Answer>, signal: AbortSignal): Promise<Answer> {
  const { promise, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason as Error);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    if (signal.aborted) onAbort();
    return await Promise.race([call, promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

/** gRPC status to our codes; what is not here is UNAVAILABLE. */
const codeOfStatus: Readonly<Record<number, ErrorCode>> = {
  3: 'BAD_REQUEST',
  5: 'NOT_FOUND',
  6: 'CONFLICT',
  7: 'BAD_REQUEST',
  8: 'RESOURCE_EXHAUSTED',
  9: 'BAD_REQUEST',
  11: 'BAD_REQUEST',
  12: 'BAD_REQUEST',
  16: 'BAD_REQUEST',
};

/**
 * The package keeps of gRPC's errors only the text, which has the status in it: '14 UNAVAILABLE:
 * …'.
 */
function errorOf(error: unknown, endpoint: string): TsdbError {
  if (error instanceof TsdbError) return error;
  const text = messageOf(error);
  const status = Number(/\b(\d{1,2}) [A-Z_]+: /.exec(text)?.[1] ?? 14);
  const code = codeOfStatus[status] ?? 'UNAVAILABLE';
  return new TsdbError(code, `etcd ${endpoint}: ${text}`, { cause: error });
}

function isUnavailable(error: TsdbError): boolean {
  return error.code === 'UNAVAILABLE';
}

/** Whether there is no such host. */
function isUnnamed(error: TsdbError): boolean {
  return /Name resolution failed/.test(error.message);
}

/** Whether the request cannot have reached a server, so that even a write may be sent again. */
function wasNeverSent(error: TsdbError): boolean {
  return /No connection established|Name resolution failed/.test(error.message);
}

/** Half open range of all keys with the prefix, as etcd wants it. */
function rangeOfPrefix(prefix: string): { key: Buffer; range_end: Buffer } {
  const key = Buffer.from(prefix);
  if (key.length === 0) return { key: Buffer.from([0]), range_end: Buffer.from([0]) };
  const end = Buffer.from(key);
  // UTF-8 has no byte 0xff, so the last byte can always be raised.
  end[end.length - 1]! += 1;
  return { key, range_end: end };
}

function compareOf(compare: Compare): ICompare {
  const base = { key: Buffer.from(compare.key), result: 'Equal' } as const;
  switch (compare.target) {
    case 'version':
      return { ...base, target: 'Version', version: compare.equals };
    case 'createRevision':
      return { ...base, target: 'Create', create_revision: compare.equals };
    case 'modRevision':
      return { ...base, target: 'Mod', mod_revision: compare.equals };
    case 'value':
      return { ...base, target: 'Value', value: Buffer.from(compare.equals) };
  }
}

function operationOf(operation: Operation): IRequestOp {
  switch (operation.kind) {
    case 'put':
      return {
        request_put: {
          key: Buffer.from(operation.key),
          value: Buffer.from(operation.value),
          lease: operation.leaseId ?? '0',
        },
      };
    case 'delete':
      return { request_delete_range: { key: Buffer.from(operation.key) } };
    case 'deletePrefix':
      return { request_delete_range: rangeOfPrefix(operation.prefix) };
  }
}

function keyValueOf(pair: IKeyValue): KeyValue {
  return {
    key: pair.key.toString(),
    value: new Uint8Array(pair.value),
    createRevision: Number(pair.create_revision),
    modRevision: Number(pair.mod_revision),
    version: Number(pair.version),
    leaseId: pair.lease,
  };
}

function eventOf(event: IWatchResponse['events'][number]): WatchBatch['events'][number] {
  return String(event.type) === 'Delete'
    ? {
        kind: 'delete',
        key: event.kv.key.toString(),
        modRevision: Number(event.kv.mod_revision),
      }
    : { kind: 'put', item: keyValueOf(event.kv) };
}
