/** One HTTPS request whose answer is read as it comes: for watches of the Kubernetes API. */
import * as http from 'node:http';
import * as https from 'node:https';
import { TsdbError } from '../errors.ts';

export interface TlsIdentity {
  readonly ca?: string | Buffer | undefined;
  readonly cert?: string | Buffer | undefined;
  readonly key?: string | Buffer | undefined;
  readonly rejectUnauthorized?: boolean | undefined;
  readonly servername?: string | undefined;
}

export interface StreamResponse {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  /** Breaks off with an error when nothing came for `idleMillisMax`. */
  readonly body: AsyncIterable<Uint8Array>;
}

/** Keeps connections open between requests; one for each identity. */
export class StreamClient {
  readonly #agent: http.Agent;
  readonly #transport: typeof http | typeof https;

  constructor(baseUrl: string, tls: TlsIdentity) {
    const secure = baseUrl.startsWith('https:');
    this.#transport = secure ? https : http;
    this.#agent = secure
      ? new https.Agent({ keepAlive: true, ...definedOf(tls) })
      : new http.Agent({ keepAlive: true });
  }

  /**
   * @param idleMillisMax the longest silence while the answer comes
   * @throws {TsdbError} UNAVAILABLE when the server cannot be reached; the signal's reason when
   * aborted
   */
  request(
    url: string,
    options: {
      readonly method: string;
      readonly headers: Readonly<Record<string, string>>;
      readonly body?: string;
      readonly idleMillisMax: number;
    },
    signal: AbortSignal,
  ): Promise<StreamResponse> {
    const { promise, resolve, reject } = Promise.withResolvers<StreamResponse>();
    // Node frames the body of a DELETE only when its length is given.
    const length =
      options.body === undefined ? {} : { 'content-length': Buffer.byteLength(options.body) };
    const headers = { ...options.headers, ...length };
    const request = this.#transport.request(
      url,
      { method: options.method, headers, agent: this.#agent, signal },
      (response) => {
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: response });
      },
    );
    request.setTimeout(options.idleMillisMax, () => {
      request.destroy(new Error(`nothing came for ${options.idleMillisMax} ms`));
    });
    request.on('error', (error) => {
      if (signal.aborted) reject(signal.reason as Error);
      else {
        const message = `${options.method} ${url}: ${error.message}`;
        reject(new TsdbError('UNAVAILABLE', message, { cause: error }));
      }
    });
    request.end(options.body);
    return promise;
  }

  close(): void {
    this.#agent.destroy();
  }
}

/** The given members that are set: https.Agent takes an undefined `ca` for an empty list. */
function definedOf(tls: TlsIdentity): https.AgentOptions {
  return Object.fromEntries(Object.entries(tls).filter(([, value]) => value !== undefined));
}
