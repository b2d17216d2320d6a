/** One call, from its headers until its client and its handler are done with it. */
import type { IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2';
import { TsdbError } from '../../errors.ts';
import type { ComingBody } from '../in_flight/bytes_in_flight.ts';
import { abortable } from '#lib/turns/abortable.ts';
import type { Beginnings } from '../in_flight/beginnings.ts';
import { IncomingMessages } from './incoming.ts';
import type { GrpcCall, GrpcMethod, GrpcUnary } from './method.ts';
import { OutgoingMessages } from './outgoing.ts';
import { type GrpcOutcome, grpcStatus, outcomeOf } from './status.ts';
import type { WaitingAnswers } from './waiting_answers.ts';

const deadlineMillisMax = 2 ** 31 - 1;

/** What a call tells its connection. */
export interface CallConnection {
  readonly peer: string;
  /** So many bytes of a message came. */
  partCame(bytes: number): void;
  messageCame(): void;
  messageLeft(): void;
  /** It takes nothing, not even the end of the call. */
  destroy(): void;
}

export interface CallOptions {
  readonly stream: ServerHttp2Stream;
  readonly headers: IncomingHttpHeaders;
  readonly method: GrpcMethod;
  /** For what the call holds; its headers are taken already. */
  readonly room: ComingBody;
  readonly answers: WaitingAnswers;
  readonly beginnings: Beginnings;
  readonly messageBytesMax: number;
  readonly receiveMillisMax: number;
  readonly timeoutMillis: number | null;
  readonly connection: CallConnection;
  readonly onOver: () => void;
}

/** How long the end of a call that is broken off may take to leave. */
const resetMillisMax = 5_000;

export class Call {
  readonly #options: CallOptions;
  readonly #aborting = new AbortController();
  readonly #incoming: IncomingMessages;
  readonly #outgoing: OutgoingMessages;
  #deadline: NodeJS.Timeout | null = null;
  #isClosed = false;
  #isHandled = false;

  constructor(options: CallOptions) {
    this.#options = options;
    const { stream, room, method, headers } = options;
    this.#incoming = new IncomingMessages({
      stream,
      room,
      messageBytesMax: options.messageBytesMax,
      encoding: headers['grpc-encoding']?.toString(),
      receiveMillisMax: options.receiveMillisMax,
      encodings: (method.kind === 'unary' ? method.encodings : undefined) ?? [],
      isUnary: method.kind === 'unary',
      onPart: (bytes) => options.connection.partCame(bytes),
      onMessage: () => options.connection.messageCame(),
      onFailure: (error) => this.#fail(error),
    });
    this.#outgoing = new OutgoingMessages({
      stream,
      answers: options.answers,
      onCut: (error) => this.#reset(error),
    });
  }

  begin(): void {
    const { stream, timeoutMillis } = this.#options;
    stream.once('close', () => this.#closed());
    if (timeoutMillis !== null) {
      this.#deadline = setTimeout(
        () => this.#deadlineIsOver(),
        Math.min(timeoutMillis, deadlineMillisMax),
      ).unref();
    }
    this.#incoming.begin();
    void this.#run();
  }

  async #run(): Promise<void> {
    let outcome: GrpcOutcome = { status: grpcStatus.ok, message: '' };
    try {
      const { method } = this.#options;
      if (method.kind === 'unary') await this.#answer(method);
      else {
        await this.#turn();
        const send = (message: Uint8Array): Promise<void> => this.#send(message);
        await method.handle(this.#requests(), send, this.#known());
      }
    } catch (error) {
      outcome = outcomeOf(error);
    }
    this.#isHandled = true;
    this.#outgoing.end(outcome);
    this.#incoming.give();
    this.#noteOver();
  }

  async #answer(method: GrpcUnary): Promise<void> {
    const request = await this.#incoming.next();
    if (request === null) throw new TsdbError('UNIMPLEMENTED', `${method.path}: no request came`);
    if ((await this.#incoming.next()) !== null) {
      throw new TsdbError('UNIMPLEMENTED', `${method.path}: takes one request, a second one came`);
    }
    await this.#turn();
    const answer = await method.handle(request, this.#known());
    this.#outgoing.send(answer, () => {});
  }

  async #turn(): Promise<void> {
    await this.#options.beginnings.turn(this.#options.connection);
    this.#aborting.signal.throwIfAborted();
  }

  async *#requests(): AsyncGenerator<Uint8Array, void, undefined> {
    for (;;) {
      const message = await this.#incoming.next();
      if (message === null) return;
      yield message;
      this.#incoming.give();
    }
  }

  async #send(message: Uint8Array): Promise<void> {
    await abortable(this.#aborting.signal, (resolve, reject) => {
      this.#outgoing.send(message, (error) => {
        if (error === null) resolve();
        else reject(error);
      });
    });
    this.#options.connection.messageLeft();
  }

  #known(): GrpcCall {
    const { headers, connection } = this.#options;
    return {
      signal: this.#aborting.signal,
      peer: connection.peer,
      encoding: this.#incoming.isCompressed ? (headers['grpc-encoding']?.toString() ?? '') : '',
      metadata: (name) => {
        const value = headers[name.toLowerCase()];
        return Array.isArray(value) ? value[0] : value;
      },
    };
  }

  /** Its client gives way to others: as of `BytesInFlight`. */
  cut(error: TsdbError): void {
    this.#incoming.cut(error);
  }

  /** A stream would go on for ever; other calls are answered. */
  stop(): void {
    if (this.#options.method.kind === 'unary') return;
    this.#abort(new TsdbError('UNAVAILABLE', 'the server stops'));
  }

  #abort(error: unknown): void {
    this.#aborting.abort(error);
    this.#incoming.close(error);
  }

  /** The client is told at once, whatever the handler does. */
  #fail(error: unknown): void {
    this.#outgoing.end(outcomeOf(error));
    this.#abort(error);
  }

  #deadlineIsOver(): void {
    this.#outgoing.end({
      status: grpcStatus.deadlineExceeded,
      message: 'the deadline of the call is over',
    });
    this.#abort(new TsdbError('CANCELLED', 'the client left or its deadline is over'));
  }

  #reset(error: TsdbError): void {
    const { stream, connection } = this.#options;
    this.#abort(error);
    this.#outgoing.reset();
    setTimeout(() => {
      if (!stream.destroyed) connection.destroy();
    }, resetMillisMax).unref();
  }

  #closed(): void {
    this.#isClosed = true;
    if (!this.#isHandled) {
      this.#abort(new TsdbError('CANCELLED', 'the client left or its deadline is over'));
    }
    this.#noteOver();
  }

  #noteOver(): void {
    if (!this.#isClosed || !this.#isHandled) return;
    if (this.#deadline !== null) clearTimeout(this.#deadline);
    this.#incoming.close(new TsdbError('CANCELLED', 'the call is over'));
    this.#incoming.give();
    this.#options.onOver();
  }
}
