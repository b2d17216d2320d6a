/**
 * Writes that are passed on to other receivers of remote write, as by M3's `writeForwarding`: bodies as they came, once the
 * cluster has answered them. No sender waits for it, and what a receiver does not take in time it does not get (docs/FORWARDING.md).
 */
import type { RemoteWriteVersion } from '#engine/write_decoder/core.ts';
import type { ForwardingConfig } from '#lib/config/resolve/types.ts';
import type { Env } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { type ApiRequest, eitherHeader } from '../http/http_api.ts';
import { Told } from '../ingest/streams/told.ts';
import { mapTagsHeader, metricsTypeHeader } from '../ingest/write_headers.ts';
import type { ForwardingMetrics } from './metrics.ts';
import { Target } from './target.ts';
import { Places } from '../http/places.ts';

/**
 * How many coordinators have passed a body on; receivers that pass it on to each other would never end. M3 passes on what
 * begins with `M3-`.
 */
const hopsHeader = 'Forwarding-Hops';
const hopsMax = 4;

/** Headers of writes that say what is made of them; M3's names are known here and there. */
const passedHeaders = [mapTagsHeader, metricsTypeHeader, 'Write-Type'];
const typeHeader = 'Prometheus-Metric-Type';

export interface ForwardingOptions {
  readonly config: ForwardingConfig;
  readonly env: Env;
  readonly log: Log;
  readonly metrics: ForwardingMetrics;
  /** Of the product. */
  readonly version: string;
}

export class Forwarding implements Disposable {
  readonly #targets: readonly Target[];
  readonly #userAgent: string;
  readonly #stop = new AbortController();

  constructor({ config, env, log, metrics, version }: ForwardingOptions) {
    const shadows = new Places(1);
    this.#userAgent = `tsdb/${version}`;
    this.#targets = config.targets.map((target) => {
      const told = new Told('writes are not passed on', env.clock, log);
      return new Target({ config, target, env, metrics, told, shadows }, this.#stop.signal);
    });
  }

  /** Drops what is on its way, and what waits for it. */
  [Symbol.dispose](): void {
    this.#stop.abort(new TsdbError('CANCELLED', 'the process is stopping'));
  }

  /** Of bodies that are on their way or wait for it. */
  get heldBytes(): number {
    return this.#targets.reduce((sum, { heldBytes }) => sum + heldBytes, 0);
  }

  /**
   * Passes a body on to each of the targets; returns at once.
   * @param given kept until it was sent
   */
  forward(request: ApiRequest, given: Uint8Array, version: RemoteWriteVersion): void {
    const hops = hopsOf(request);
    // One that is a small part of a larger buffer would keep all of that.
    const bytes = given.buffer.byteLength > 2 * given.length ? new Uint8Array(given) : given;
    const headers = this.#headersOf(request, version, hops + 1);
    for (const target of this.#targets) {
      if (hops >= hopsMax) target.refuse(`it was passed on ${hops} times: is there a circle?`);
      else target.take({ bytes, version, headers });
    }
  }

  #headersOf(
    request: ApiRequest,
    version: RemoteWriteVersion,
    hops: number,
  ): Record<string, string> {
    const headers: Record<string, string> = {
      'Content-Encoding': 'snappy',
      'Content-Type':
        version === 2
          ? 'application/x-protobuf;proto=io.prometheus.write.v2.Request'
          : 'application/x-protobuf',
      'X-Prometheus-Remote-Write-Version': version === 2 ? '2.0.0' : '0.1.0',
      'User-Agent': this.#userAgent,
      [`M3-${hopsHeader}`]: String(hops),
    };
    for (const name of passedHeaders) {
      const value = eitherHeader(request, name);
      if (value !== '') headers[`M3-${name}`] = value;
    }
    const type = request.header(typeHeader.toLowerCase());
    if (type !== '') headers[typeHeader] = type;
    return headers;
  }
}

/** What is no count is as many as there may be. */
function hopsOf(request: ApiRequest): number {
  const text = eitherHeader(request, hopsHeader);
  if (text === '') return 0;
  return /^\d{1,3}$/.test(text) ? Number(text) : hopsMax;
}
