/**
 * Stands in front of the API server or the coordinator and does to requests what a scenario asks
 * for; what nothing is asked of is passed on as it is.
 */
import * as http from 'node:http';
import * as https from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';

/** The bridge's own address, where pods reach this machine. */
export const bridgeAddress = '10.244.0.1';

export type Effect =
  /** The connection breaks, and nothing was delivered. */
  | { readonly kind: 'drop' }
  /** The request is delivered and the answer is not. */
  | { readonly kind: 'reply lost' }
  | { readonly kind: 'delay'; readonly millis: number }
  | {
      readonly kind: 'answer';
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: string;
    };

export interface Rule {
  /** Of `METHOD /path?query`. */
  readonly request: RegExp;
  readonly effect: Effect;
  /** How often; without end when not given. */
  readonly times?: number;
}

interface Live extends Rule {
  hits: number;
}

export interface ProxyOptions {
  readonly port: number;
  /** Asked for each request, as it may move. */
  readonly upstream: () => Promise<URL>;
  /** Certificate and key of the proxy, and what its upstream is known by; plain HTTP without. */
  readonly tls?: { readonly cert: Buffer; readonly key: Buffer; readonly ca: Buffer };
}

export class FaultProxy {
  readonly #options: ProxyOptions;
  readonly #server: http.Server;
  readonly #sockets = new Set<Duplex>();
  readonly #agent: http.Agent;
  #rules: Live[] = [];
  /** `METHOD /path` of every request, without the query, in order. */
  readonly requests: string[] = [];

  private constructor(options: ProxyOptions) {
    this.#options = options;
    const handle = (request: http.IncomingMessage, response: http.ServerResponse): void => {
      this.#serve(request, response).catch(() => response.destroy());
    };
    const { tls } = options;
    this.#server = tls === undefined ? http.createServer(handle) : https.createServer(tls, handle);
    this.#server.on(tls === undefined ? 'connection' : 'secureConnection', (socket: Duplex) => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
    });
    this.#agent = tls === undefined ? new http.Agent() : new https.Agent({ ca: tls.ca });
  }

  static async open(options: ProxyOptions): Promise<FaultProxy> {
    const proxy = new FaultProxy(options);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    proxy.#server.once('error', reject).listen(options.port, bridgeAddress, resolve);
    await promise;
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** @returns how often it has happened so far, when asked */
  on(rule: Rule): () => number {
    const live = { ...rule, hits: 0 };
    this.#rules.push(live);
    return () => live.hits;
  }

  /** All requests are passed on from now on. */
  clear(): void {
    this.#rules = [];
  }

  /** Breaks every connection: watches end in the middle. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async close(): Promise<void> {
    this.cut();
    this.#agent.destroy();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#server.close(() => resolve());
    await promise;
  }

  async #serve(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const what = `${request.method} ${request.url}`;
    this.requests.push(what.split('?')[0]!);
    const rule = this.#rules.find(
      (one) => one.request.test(what) && one.hits < (one.times ?? Infinity),
    );
    const effect: Effect | null = rule?.effect ?? null;
    if (rule !== undefined) rule.hits++;
    if (effect?.kind === 'drop') {
      request.socket.destroy();
      return;
    }
    if (effect?.kind === 'answer') {
      request.resume();
      response.writeHead(effect.status, { 'content-type': 'application/json', ...effect.headers });
      response.end(effect.body ?? '{}');
      return;
    }
    if (effect?.kind === 'delay') await delay(effect.millis);
    await this.#passOn(request, response, effect?.kind === 'reply lost');
  }

  async #passOn(
    request: http.IncomingMessage,
    response: http.ServerResponse,
    isReplyLost: boolean,
  ): Promise<void> {
    const base = await this.#options.upstream();
    const transport = this.#options.tls === undefined ? http : https;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const options = { method: request.method, headers: request.headers, agent: this.#agent };
    const onward = transport.request(new URL(request.url ?? '/', base), options, (answer) => {
      if (isReplyLost) {
        // Only when it has an answer was it carried out.
        answer.resume().once('end', () => {
          request.socket.destroy();
          resolve();
        });
        return;
      }
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      response.flushHeaders();
      answer.pipe(response);
      answer.once('end', resolve).once('error', reject);
    });
    onward.once('error', reject);
    response.once('close', () => onward.destroy());
    request.pipe(onward);
    await promise;
  }
}
