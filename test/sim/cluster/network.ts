/**
 * The network of a simulated cluster, below the messages of gRPC: bytes go from process to process,
 * late, out of order, or not at all; connections break when a process ends. Errors are those that
 * `lib/env/grpc.ts` gives.
 */
import type {
  GrpcCall,
  GrpcClient,
  GrpcClientStream,
  GrpcMethod,
  GrpcStream,
  GrpcUnary,
} from '#lib/env/grpc.ts';
import { BrokenInvariant } from '#lib/assert.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { SeededRandom } from '#test/seeded_random.ts';
import type { SimulatedProcess } from './process.ts';
import type { SimulatedTime, SimulatedTimer } from './time.ts';

/** After so long without an answer to its pings a connection is given up (`lib/env/grpc.ts`). */
const keepaliveMillis = 15_000;
const pingMillis = 3_000;
/** A message that a cut way does not take is sent again after so long. */
const retransmitMillis = 700;
/** Messages of a stream that are on their way before its sender waits. */
const streamWindow = 8;

interface Listener {
  readonly process: SimulatedProcess;
  readonly methods: ReadonlyMap<string, GrpcMethod>;
}

/** Whether the way of a message is cut. Names are those of processes. */
export type Cut = (from: string, to: string) => boolean;

export class SimulatedNetwork {
  readonly #time: SimulatedTime;
  readonly #random: SeededRandom;
  /** By target; the last one is connected to. */
  readonly #listeners = new Map<string, Listener[]>();
  readonly #cuts = new Set<Cut>();
  /** Milliseconds that a message takes; faults replace it. */
  millis: (from: string, to: string) => number;
  /** Of a thousand requests, how many arrive twice. */
  duplicatesPerThousand = 0;
  /** Told of a broken invariant in a handler: its process would end. */
  onFatal: (process: SimulatedProcess, error: unknown) => void = () => {};
  /** Messages that arrived, those that a cut way did not take, and requests that arrived twice. */
  readonly counts: { arrived: number; cut: number; duplicated: number } = {
    arrived: 0,
    cut: 0,
    duplicated: 0,
  };

  constructor(time: SimulatedTime, random: SeededRandom) {
    this.#time = time;
    this.#random = random;
    this.millis = () => this.usualMillis();
  }

  usualMillis(): number {
    const random = this.#random;
    return random.below(50) === 0 ? 1 + random.below(40) : 0.1 + random.fraction();
  }

  /** Cuts ways. @returns what joins them again */
  cut(isCut: Cut): () => void {
    this.#cuts.add(isCut);
    return () => void this.#cuts.delete(isCut);
  }

  /** How long a message takes; null while its way is cut. */
  route(from: string, to: string): number | null {
    for (const isCut of this.#cuts) if (isCut(from, to)) return null;
    return this.millis(from, to);
  }

  /** @param isPreferred whether it is connected to before those that listen there already */
  listen(
    target: string,
    process: SimulatedProcess,
    methods: readonly GrpcMethod[],
    isPreferred = true,
  ): void {
    const listener = {
      process,
      methods: new Map(methods.map((method) => [method.path, method])),
    };
    const others = (): Listener[] => this.#listeners.get(target) ?? [];
    this.#listeners.set(target, isPreferred ? [...others(), listener] : [listener, ...others()]);
    process.onEnd.add(() => {
      this.#listeners.set(
        target,
        others().filter((each) => each !== listener),
      );
    });
  }

  /** A connection of a process to what listens at the target, now or later. */
  connect(process: SimulatedProcess, target: string): GrpcClient {
    const connection: Connection = { calls: new Set(), closedBy: null };
    return {
      unary: (path, request, signal) =>
        this.#unary(new Call(this, process, target, path, signal, connection), request),
      stream: (path, signal) => {
        signal.throwIfAborted();
        return this.#stream(new Call(this, process, target, path, signal, connection));
      },
      [Symbol.dispose]: () => {
        connection.closedBy ??= new TsdbError('CANCELLED', `${target}: the connection is closed`);
        for (const call of connection.calls) call.giveUp();
      },
    };
  }

  /**
   * Carries a message, as soon as its way is not cut.
   * @param isOver whether its connection was given up meanwhile: then it does not arrive
   */
  carry(from: string, to: string, arrive: () => void, isOver: () => boolean = () => false): void {
    const millis = this.route(from, to);
    if (millis === null) this.counts.cut += 1;
    this.#time.after(millis ?? retransmitMillis, () => {
      if (isOver()) return;
      if (millis === null) {
        this.carry(from, to, arrive, isOver);
        return;
      }
      this.counts.arrived += 1;
      arrive();
    });
  }

  listenerOf(target: string): Listener | undefined {
    return this.#listeners.get(target)?.at(-1);
  }

  #unary(call: Call, request: Uint8Array): Promise<Uint8Array> {
    const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>();
    call.onFailure = reject;
    const bytes = request.slice();
    const answer = (result: Uint8Array): void => {
      call.end();
      resolve(result);
    };
    call.begin((server, method) => {
      const unary = method as GrpcUnary;
      const isTwice = this.#random.below(1000) < this.duplicatesPerThousand;
      if (isTwice) {
        this.counts.duplicated += 1;
        call.handle((other) => unary.handle(bytes.slice(), other)).catch(() => {});
      }
      call
        .handle((serverCall) => unary.handle(bytes, serverCall))
        .then(
          (result) => call.toClient(server, () => answer(result.slice())),
          (error: unknown) => call.failAtServer(server, error),
        );
    });
    return promise;
  }

  #stream(call: Call): GrpcClientStream {
    const requests = new MessageQueue();
    const answers = new MessageQueue();
    const waiting: Uint8Array[] = [];
    let isEnded = false;
    let isOpen = false;
    call.onFailure = (error) => answers.fail(error);
    const flush = (): void => {
      if (!isOpen) return;
      for (const message of waiting.splice(0)) requests.push(message);
      if (isEnded) requests.finish();
    };
    call.begin((server, method) => {
      isOpen = true;
      flush();
      const { serverCall } = call;
      serverCall.signal.addEventListener('abort', () => {
        requests.fail(serverCall.signal.reason as Error);
      });
      let underWay = 0;
      let last = 0;
      let wake = (): void => {};
      // Messages of one stream keep their order.
      const inOrder = (arrive: () => void): void => {
        const mine = (last += 1);
        call.toClient(server, () => arrivals.take(mine, arrive));
      };
      const arrivals = new InOrder();
      const send = async (message: Uint8Array): Promise<void> => {
        const copy = message.slice();
        while (underWay >= streamWindow) {
          await new Promise<void>((resolve) => {
            wake = resolve;
            serverCall.signal.addEventListener('abort', () => resolve(), { once: true });
          });
          serverCall.signal.throwIfAborted();
        }
        serverCall.signal.throwIfAborted();
        underWay += 1;
        inOrder(() => {
          underWay -= 1;
          wake();
          answers.push(copy);
        });
      };
      const handled = call.handle(() =>
        (method as GrpcStream).handle(requests.messages(), send, serverCall),
      );
      handled.then(
        () =>
          inOrder(() => {
            call.end();
            answers.finish();
          }),
        (error: unknown) => {
          const failure = call.errorOfServer(server, error);
          if (failure !== null) inOrder(() => call.fail(failure));
        },
      );
    });
    return {
      send: async (message) => {
        call.throwIfOver();
        waiting.push(message.slice());
        flush();
      },
      end() {
        isEnded = true;
        flush();
      },
      messages: {
        async *[Symbol.asyncIterator]() {
          try {
            yield* answers.messages();
          } finally {
            call.cancel();
          }
        },
      },
    };
  }
}

/** Hands messages on in the order of their numbers, from 1. */
class InOrder {
  #next = 1;
  readonly #early = new Map<number, () => void>();

  take(number: number, arrive: () => void): void {
    this.#early.set(number, arrive);
    for (;;) {
      const next = this.#early.get(this.#next);
      if (next === undefined) return;
      this.#early.delete(this.#next);
      this.#next += 1;
      next();
    }
  }
}

/** Of one client to one target. */
interface Connection {
  /** Those under way. */
  readonly calls: Set<Call>;
  closedBy: TsdbError | null;
}

/** One call, from its client's side to its server's. */
class Call {
  onFailure: (error: Error) => void = () => {};
  /** What a handler knows of this call. */
  readonly serverCall: GrpcCall;
  readonly #network: SimulatedNetwork;
  readonly #client: SimulatedProcess;
  readonly #target: string;
  readonly #path: string;
  readonly #signal: AbortSignal;
  readonly #connection: Connection;
  readonly #left = new AbortController();
  /** Handlers at work: a call that came twice has two. */
  #handlers = 0;
  #hasLeft = false;
  #isOver = false;
  /** The connection was given up: nothing of it arrives any more. */
  #isBroken = false;
  #server: SimulatedProcess | null = null;
  #ping: SimulatedTimer | null = null;
  readonly #onServerEnd = (): void => this.#breakOff();
  readonly #onClientEnd = (): void => this.#tellServer();

  constructor(
    network: SimulatedNetwork,
    client: SimulatedProcess,
    target: string,
    path: string,
    signal: AbortSignal,
    connection: Connection,
  ) {
    this.#network = network;
    this.#client = client;
    this.#target = target;
    this.#path = path;
    this.#signal = signal;
    this.#connection = connection;
    const { signal: left } = this.#left;
    this.serverCall = { signal: left, peer: client.name, encoding: '', metadata: () => undefined };
  }

  get serverName(): string {
    return this.#target.split(':')[0]!;
  }

  /** Its signal has aborted, or its connection was closed. */
  readonly giveUp = (): void => {
    this.fail(this.#signal.aborted ? (this.#signal.reason as Error) : this.#connection.closedBy!);
    this.#tellServer();
  };

  /** Sends the beginning of the call; it breaks when nothing comes back for too long. */
  begin(arrive: (server: SimulatedProcess, method: GrpcMethod) => void): void {
    if (this.#signal.aborted || this.#connection.closedBy !== null) {
      queueMicrotask(this.giveUp);
      return;
    }
    this.#signal.addEventListener('abort', this.giveUp, { once: true });
    this.#connection.calls.add(this);
    this.#watch();
    const client = this.#client;
    client.onEnd.add(this.#onClientEnd);
    const arrived = (): void => {
      const listener = this.#network.listenerOf(this.#target);
      if (listener === undefined) {
        const refused = (): void => this.fail(this.#failure('UNAVAILABLE', 'connection refused'));
        this.#network.carry(this.serverName, client.name, refused, () => this.#isBroken);
        return;
      }
      if (this.#hasLeft) return;
      const method = listener.methods.get(this.#path);
      if (method === undefined) throw new Error(`no such method: ${this.#path}`);
      this.#server = listener.process;
      listener.process.onEnd.add(this.#onServerEnd);
      arrive(listener.process, method);
    };
    this.#network.carry(client.name, this.serverName, arrived, () => this.#isBroken);
  }

  /** Has the call handled: only then it matters whether the client leaves. */
  async handle<T>(act: (serverCall: GrpcCall) => Promise<T>): Promise<T> {
    this.#handlers += 1;
    try {
      return await act(this.serverCall);
    } finally {
      this.#handlers -= 1;
    }
  }

  toClient(server: SimulatedProcess, arrive: () => void): void {
    if (!server.isAlive) return;
    const arrived = (): void => {
      if (!this.#isOver && this.#client.isAlive) arrive();
    };
    this.#network.carry(server.name, this.#client.name, arrived, () => this.#isBroken);
  }

  failAtServer(server: SimulatedProcess, error: unknown): void {
    const failure = this.errorOfServer(server, error);
    if (failure !== null) this.toClient(server, () => this.fail(failure));
  }

  /** As the client gets it; null when the server has ended. */
  errorOfServer(server: SimulatedProcess, error: unknown): Error | null {
    if (!server.isAlive) return null;
    if (error instanceof BrokenInvariant) {
      this.#network.onFatal(server, error);
      return null;
    }
    const code = error instanceof TsdbError ? error.code : 'INTERNAL';
    return this.#failure(code, messageOf(error));
  }

  end(): void {
    this.#finish();
    this.#leave();
  }

  fail(error: Error): void {
    if (this.#isOver || !this.#client.isAlive) return;
    this.#finish();
    this.onFailure(error);
  }

  /** Nothing can befall it any more. */
  #finish(): void {
    this.#isOver = true;
    this.#ping?.cancel();
    this.#signal.removeEventListener('abort', this.giveUp);
    this.#connection.calls.delete(this);
    this.#server?.onEnd.delete(this.#onServerEnd);
  }

  /** The server's side is over too. */
  #leave(): void {
    if (this.#hasLeft) return;
    this.#hasLeft = true;
    this.#client.onEnd.delete(this.#onClientEnd);
    if (this.#handlers > 0) this.#left.abort(clientLeft);
  }

  cancel(): void {
    if (this.#isOver) return;
    this.end();
    this.#tellServer();
  }

  throwIfOver(): void {
    if (this.#isOver) throw this.#failure('UNAVAILABLE', 'the call is over');
  }

  #tellServer(): void {
    const leave = (): void => this.#leave();
    this.#network.carry(this.#client.name, this.serverName, leave, () => this.#isBroken);
  }

  /** Gives the call up when its way has been cut for too long; both sides see that. */
  #watch(): void {
    let cutMillis = 0;
    const check = (): void => {
      if (this.#isOver) return;
      const there = this.#network.route(this.#client.name, this.serverName);
      const back = this.#network.route(this.serverName, this.#client.name);
      cutMillis = there === null || back === null ? cutMillis + pingMillis : 0;
      if (cutMillis < keepaliveMillis) {
        this.#ping = this.#client.after(pingMillis, check);
        return;
      }
      this.#isBroken = true;
      this.fail(this.#failure('UNAVAILABLE', 'connection lost'));
      this.#leave();
    };
    this.#ping = this.#client.after(pingMillis, check);
  }

  #breakOff(): void {
    const reset = (): void => this.fail(this.#failure('UNAVAILABLE', 'connection reset'));
    this.#network.carry(this.serverName, this.#client.name, reset, () => this.#isBroken);
  }

  #failure(code: TsdbError['code'], details: string): TsdbError {
    return new TsdbError(code, `${this.#target} ${this.#path}: ${details}`);
  }
}

const clientLeft = new TsdbError('CANCELLED', 'the client left or its deadline is over');

/** Messages on their way to one reader. */
class MessageQueue {
  readonly #messages: Uint8Array[] = [];
  #isFinished = false;
  #failure: Error | null = null;
  #wake: () => void = () => {};

  push(message: Uint8Array): void {
    this.#messages.push(message);
    this.#wake();
  }

  finish(): void {
    this.#isFinished = true;
    this.#wake();
  }

  fail(error: Error): void {
    this.#failure ??= error;
    this.#wake();
  }

  async *messages(): AsyncGenerator<Uint8Array> {
    for (;;) {
      const message = this.#messages.shift();
      if (message !== undefined) {
        yield message;
        continue;
      }
      if (this.#failure !== null) throw this.#failure;
      if (this.#isFinished) return;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}
