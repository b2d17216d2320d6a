/**
 * One receiver to which writes are passed on. Bodies are sent in the order in which they came, many at a time; what waits is limited
 * for each receiver, so that one that is away costs the others nothing.
 */
import type { RemoteWriteVersion } from '#engine/write_decoder/core.ts';
import { BrokenInvariant } from '#lib/assert.ts';
import type { ForwardingConfig, ForwardingTargetConfig } from '#lib/config/resolve/types.ts';
import type { Env } from '#lib/env/env.ts';
import { type HttpClientResponse, httpRequest } from '#lib/env/http.ts';
import { backOff, WorkSignal } from '#lib/env/wait.ts';
import { badRequest, messageOf, shownText, TsdbError } from '#lib/errors.ts';
import { Turns } from '#lib/turns/turns.ts';
import type { Places } from '../http/places.ts';
import type { Told } from '../ingest/streams/told.ts';
import type { ForwardingMetrics } from './metrics.ts';
import { shadowBody } from './shadow.ts';

/** Bodies that are sent or wait, with their headers, of one target. */
const heldBytesMax: number = 64 << 20;
const heldMax = 10_000;
/** Who takes version 2 says in it how many samples were written. */
const writtenHeader = 'x-prometheus-remote-write-samples-written';
/** Of the receiver's answer. */
const answerBytesMax: number = 64 << 10;
const shownCharacters = 200;

export interface ForwardedBody {
  readonly bytes: Uint8Array;
  readonly version: RemoteWriteVersion;
  readonly headers: Readonly<Record<string, string>>;
}

export interface TargetOptions {
  readonly config: ForwardingConfig;
  readonly target: ForwardingTargetConfig;
  readonly env: Env;
  readonly metrics: ForwardingMetrics;
  readonly told: Told;
  /** Of bodies of which a share is made, of all targets: each is decoded, and may be 32 MiB then. */
  readonly shadows: Places;
}

export class Target {
  readonly #options: TargetOptions;
  /** Without what may be secret in its URL. */
  readonly #name: string;
  readonly #signal: AbortSignal;
  readonly #waiting: ForwardedBody[] = [];
  #running = 0;
  heldBytes = 0;

  /** @param signal ends what is on its way */
  constructor(options: TargetOptions, signal: AbortSignal) {
    this.#options = options;
    const { host, pathname } = new URL(options.target.url);
    this.#name = host + pathname;
    this.#signal = signal;
    signal.addEventListener('abort', () => this.#dropWaiting(), { once: true });
  }

  /** Returns at once. */
  take(body: ForwardedBody): void {
    const held = heldBytesOf(body);
    if (this.#waiting.length >= heldMax || this.heldBytes + held > heldBytesMax) {
      this.refuse('more waits for it than is kept');
      return;
    }
    if (this.#signal.aborted) {
      this.#count('dropped', 1);
      return;
    }
    this.heldBytes += held;
    this.#waiting.push(body);
    this.#sendNext();
  }

  refuse(reason: string): void {
    this.#count('dropped', 1);
    this.#options.told.note(this.#name, 1, reason);
  }

  #dropWaiting(): void {
    const { length } = this.#waiting;
    for (const body of this.#waiting.splice(0)) this.heldBytes -= heldBytesOf(body);
    if (length > 0) this.#count('dropped', length);
  }

  #count(result: 'sent' | 'failed' | 'dropped', bodies: number): void {
    this.#options.metrics.bodies.increase(bodies, { target: this.#name, result });
  }

  #sendNext(): void {
    while (this.#running < this.#options.config.requestsMax && this.#waiting.length > 0) {
      void this.#send(this.#waiting.shift()!);
    }
  }

  async #send(body: ForwardedBody): Promise<void> {
    this.#running += 1;
    try {
      const bytes = await this.#shadowOf(body);
      if (bytes === null) return;
      await this.#untilTaken(bytes, body);
      this.#count('sent', 1);
    } catch (error) {
      if (error instanceof BrokenInvariant) throw error;
      if (this.#signal.aborted) {
        this.#count('dropped', 1);
        return;
      }
      this.#count('failed', 1);
      this.#options.told.note(this.#name, 1, messageOf(error));
    } finally {
      this.#running -= 1;
      this.heldBytes -= heldBytesOf(body);
      this.#sendNext();
    }
  }

  /** Null when nothing of it is for this target. */
  async #shadowOf({ bytes, version }: ForwardedBody): Promise<Uint8Array | null> {
    const { env, target, shadows } = this.#options;
    if (target.share === null) return bytes;
    await shadows.take(this.#signal);
    try {
      const work = Turns.of(env.clock).begin(this.#signal, 'write');
      return await shadowBody(bytes, version, target.share, work);
    } finally {
      shadows.give();
    }
  }

  async #untilTaken(bytes: Uint8Array, body: ForwardedBody): Promise<void> {
    const { config, target, env, metrics } = this.#options;
    const retriesMax = target.retries ? config.retriesMax : 0;
    for (let attempt = 0; ; attempt++) {
      try {
        await this.#attempt(bytes, body);
        return;
      } catch (error) {
        this.#signal.throwIfAborted();
        const mayPass = error instanceof TsdbError && error.code !== 'BAD_REQUEST';
        if (!mayPass || attempt >= retriesMax) throw error;
        await backOff(env, config.backoff, attempt, this.#signal);
        metrics.retries.increase(1, { target: this.#name });
      }
    }
  }

  /** @throws {TsdbError} BAD_REQUEST for what the receiver will never take */
  async #attempt(bytes: Uint8Array, { headers, version }: ForwardedBody): Promise<void> {
    const { config, target, env } = this.#options;
    const request = {
      method: target.method,
      headers: { ...headers, ...target.headers },
      body: bytes,
      responseBytesMax: answerBytesMax,
    };
    const work = new WorkSignal(env, config.timeoutMillis, this.#signal);
    let answer: HttpClientResponse;
    try {
      answer = await httpRequest(target.url, request, work.signal);
    } catch (error) {
      // It names the URL, in which there may be secrets.
      const reason = messageOf(error).replaceAll(target.url, this.#name);
      throw new TsdbError('UNAVAILABLE', reason);
    } finally {
      work.end();
    }
    if (answer.status >= 200 && answer.status < 300) {
      // One that does not know version 2 finds nothing in such a body, and takes it for empty.
      if (version === 1 || answer.headers[writtenHeader] !== undefined) return;
      throw badRequest('the receiver does not say what it wrote, as it does who knows version 2');
    }
    const mayPass = answer.status === 429 || answer.status >= 500;
    throw new TsdbError(mayPass ? 'UNAVAILABLE' : 'BAD_REQUEST', textOf(answer));
  }
}

function heldBytesOf({ bytes, headers }: ForwardedBody): number {
  let held = bytes.length;
  for (const name in headers) held += name.length + headers[name]!.length;
  return held;
}

function textOf({ status, body }: HttpClientResponse): string {
  const text = new TextDecoder().decode(body).slice(0, shownCharacters).trim();
  return text === '' ? `status ${status}` : `status ${status}: ${shownText(text)}`;
}
