/** The answer to one call: its messages and how it ended. */
import { constants, type ServerHttp2Stream } from 'node:http2';
import { TsdbError } from '../../errors.ts';
import { encodeMessage, type GrpcOutcome, grpcStatus } from './status.ts';
import type { WaitingAnswer, WaitingAnswers } from './waiting_answers.ts';

const headers = {
  ':status': 200,
  'content-type': 'application/grpc+proto',
  'grpc-accept-encoding': 'identity',
};

export interface OutgoingOptions {
  readonly stream: ServerHttp2Stream;
  readonly answers: WaitingAnswers;
  /** The client has not taken the answer in time. */
  readonly onCut: (error: TsdbError) => void;
}

export class OutgoingMessages {
  readonly #stream: ServerHttp2Stream;
  readonly #options: OutgoingOptions;
  #outcome: GrpcOutcome | null = null;

  constructor(options: OutgoingOptions) {
    this.#options = options;
    this.#stream = options.stream;
  }

  get #isGone(): boolean {
    return this.#stream.destroyed || this.#stream.closed;
  }

  /** @param done called when the message is handed to the connection, or cannot be */
  send(message: Uint8Array, done: (error: Error | null) => void): void {
    const stream = this.#stream;
    if (this.#isGone || this.#outcome !== null) {
      done(new TsdbError('CANCELLED', 'the call is over'));
      return;
    }
    if (!stream.headersSent) {
      stream.respond(headers, { waitForTrailers: true });
      stream.once('wantTrailers', () => this.#sendTrailers());
    }
    const prefix = Buffer.alloc(5);
    prefix.writeUInt32BE(message.length, 1);
    const waiting = this.#wait(message.length);
    stream.cork();
    stream.write(prefix);
    stream.write(message, (error) => {
      this.#options.answers.end(waiting);
      done(error ?? null);
    });
    stream.uncork();
  }

  /** After the messages that were sent. Only the first outcome counts. */
  end(outcome: GrpcOutcome): void {
    if (this.#outcome !== null) return;
    this.#outcome = outcome;
    const stream = this.#stream;
    if (this.#isGone) return;
    if (stream.headersSent) {
      stream.end();
      return;
    }
    stream.respond({ ...headers, ...trailersOf(outcome) }, { endStream: true });
    this.#closeSoon();
  }

  #sendTrailers(): void {
    if (this.#isGone) return;
    this.#stream.sendTrailers(trailersOf(this.#outcome!));
    this.#closeSoon();
  }

  /**
   * The client may go on sending its request for ever: it is told that nobody listens. Trailers are
   * handed to the connection in a turn of their own.
   */
  #closeSoon(): void {
    const waiting = this.#wait(0);
    this.#stream.once('close', () => this.#options.answers.end(waiting));
    setImmediate(() => {
      if (!this.#isGone) this.#stream.close(constants.NGHTTP2_NO_ERROR);
    });
  }

  #wait(bytes: number): WaitingAnswer {
    return this.#options.answers.begin(bytes, () => {
      this.#options.onCut(
        new TsdbError('RESOURCE_EXHAUSTED', 'the client did not take its answer in time'),
      );
    });
  }

  /** Without a status: the client does not take what comes before it. */
  reset(): void {
    if (!this.#isGone) this.#stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
  }
}

function trailersOf({ status, message, details }: GrpcOutcome): Record<string, string> {
  const trailer = { 'grpc-status': String(status) };
  if (status === grpcStatus.ok) return trailer;
  const told = { ...trailer, 'grpc-message': encodeMessage(message) };
  if (details === undefined) return told;
  const text = Buffer.from(details).toString('base64').replace(/=+$/, '');
  return { ...told, 'grpc-status-details-bin': text };
}
