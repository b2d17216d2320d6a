/** The cluster that rows are taken over to: its coordinator's API. */
import type { UpgradeStatus } from '#cluster/admin/upgrade.ts';
import type { Clock } from '#lib/env/env.ts';
import { badRequest, messageOf, TsdbError } from '#lib/errors.ts';
import { typedRowsFormatLevel } from '#lib/format_level.ts';
import { legacyTagRules, type TagRules } from '#lib/tags.ts';
import { reasonOf, servicePath, urlBelow } from '../coordinator.ts';
import { askedMillisOf, elsewhereOf, isPassing, Pauses, retryText } from '../retry.ts';
import type { WriteBody } from './write_bodies.ts';

/** What a write of a body has come to. */
export interface Written {
  /** Rows that are refused for good; the others are written. */
  readonly refused: number;
  /** Why, in the coordinator's words; '' for none. */
  readonly reason: string;
}

const requestMillisMax = 120_000;

/** A namespace that takes rows. */
export interface TakingNamespace {
  readonly name: string;
  /** Of no other one of its name; 0 when the coordinator does not say it. */
  readonly number: number;
  readonly coldWrites: boolean;
  readonly retentionNanos: bigint;
  readonly bufferPastNanos: bigint;
}

export class Target {
  readonly #url: string;
  readonly #clock: Pick<Clock, 'deadline' | 'sleep' | 'monotonicMillis'>;
  readonly #signal: AbortSignal;
  readonly #onRetry: (reason: string) => void;
  /** Before that a wrong address is more likely than one that is away. */
  #hasAnswered = false;

  /** @param onRetry is told why a request is sent again */
  constructor(
    url: string,
    clock: Pick<Clock, 'deadline' | 'sleep' | 'monotonicMillis'>,
    signal: AbortSignal,
    onRetry: (reason: string) => void,
  ) {
    urlBelow(url, '');
    this.#url = url;
    this.#clock = clock;
    this.#signal = signal;
    this.#onRetry = onRetry;
  }

  /** @throws {TsdbError} UNAVAILABLE when it was tried for a quarter of an hour, BAD_REQUEST for what is no refusal of rows */
  async write({ path, headers, bytes, rows }: WriteBody): Promise<Written> {
    const { status, text } = await this.#send('POST', path, {
      headers,
      body: bytes,
      isWrite: true,
    });
    if (status < 300) return { refused: 0, reason: '' };
    const counted = /(\d+) of (\d+) samples were refused/.exec(text);
    if (status === 400 && counted !== null) {
      return { refused: Number(counted[1]), reason: reasonOf(text) };
    }
    throw badRequest(
      `cannot write ${rows} rows: ${this.#url} answers ${status}: ${reasonOf(text)}`,
    );
  }

  /** The READY ones that take samples. @throws {TsdbError} as `write` */
  async namespaces(): Promise<readonly TakingNamespace[]> {
    const { status, text } = await this.#send('GET', `${servicePath}/namespace?numbers=1`);
    if (status !== 200) {
      throw badRequest(`cannot read namespaces: ${this.#url} answers ${status}: ${reasonOf(text)}`);
    }
    const { registry, numbers = {} } = JSON.parse(text) as {
      registry: { namespaces: Record<string, Registered> };
      numbers?: Readonly<Record<string, number>>;
    };
    return Object.entries(registry.namespaces).flatMap(([name, options]) => {
      const { stagingState, aggregationOptions, retentionOptions, coldWritesEnabled } = options;
      const isSamples = aggregationOptions?.aggregations?.every(({ aggregated }) => !aggregated);
      if (stagingState?.status !== 'READY' || isSamples === false || name.startsWith('_'))
        return [];
      return [
        {
          name,
          number: numbers[name] ?? 0,
          coldWrites: coldWritesEnabled === true,
          retentionNanos: BigInt(retentionOptions.retentionPeriodNanos),
          bufferPastNanos: BigInt(retentionOptions.bufferPastNanos),
        },
      ];
    });
  }

  /** Whether it keeps native histograms: before the end of an upgrade it drops them. @throws {TsdbError} as `write` */
  async takesHistograms(): Promise<boolean> {
    const { status, text } = await this.#send('GET', `${servicePath}/upgrade`);
    if (status !== 200) {
      throw badRequest(
        `cannot read the status of the upgrade: ${this.#url} answers ${status}: ${reasonOf(text)}`,
      );
    }
    const { formatLevel } = JSON.parse(text) as Pick<UpgradeStatus, 'formatLevel'>;
    return formatLevel.finished >= typedRowsFormatLevel;
  }

  /** Which tags it takes. @throws {TsdbError} as `write` */
  async tagRules(): Promise<TagRules> {
    const { status, text } = await this.#send('GET', '/api/v1/status/config');
    if (status !== 200) {
      throw badRequest(`cannot read settings: ${this.#url} answers ${status}: ${reasonOf(text)}`);
    }
    const isUtf8 = text.includes('metric_name_validation_scheme: utf8');
    return { ...legacyTagRules, nameValidation: isUtf8 ? 'utf8' : 'legacy' };
  }

  /** The answer to a query of rows. @throws {TsdbError} as `write` */
  async read(path: string, form: URLSearchParams): Promise<string> {
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    const { status, text } = await this.#send('POST', path, { headers, body: form.toString() });
    if (status === 200) return text;
    throw badRequest(`cannot read back: ${this.#url} answers ${status}: ${reasonOf(text)}`);
  }

  /** Sends again what fails for a passing reason. */
  async #send(
    method: 'GET' | 'POST',
    path: string,
    more: {
      headers?: Readonly<Record<string, string>>;
      body?: Uint8Array<ArrayBuffer> | string;
      isWrite?: true;
    } = {},
  ): Promise<{ status: number; text: string }> {
    const pauses = new Pauses(this.#clock, this.#signal);
    for (;;) {
      let reason: string;
      let askedMillis = 0;
      try {
        const signal = this.#clock.deadline(requestMillisMax, this.#signal);
        const { body, headers = {} } = more;
        const response = await fetch(urlBelow(this.#url, path), {
          method,
          headers,
          signal,
          // Elsewhere a write would be asked for without its rows, and answered with 200.
          redirect: 'manual',
          ...(body === undefined ? {} : { body: body }),
        });
        const text = await response.text();
        const { status } = response;
        const elsewhere = elsewhereOf(response);
        if (elsewhere !== null) {
          throw badRequest(
            `${this.#url} answers ${status}: it is at ${elsewhere}: name that address`,
          );
        }
        this.#hasAnswered = true;
        if (!isPassing(status)) return { status, text };
        reason = `${status}: ${reasonOf(text)}`;
        askedMillis = askedMillisOf(response);
      } catch (error) {
        const { code } = error as { readonly code?: unknown };
        if (this.#signal.aborted || code === 'BAD_REQUEST') throw error;
        // Of an answer that is too long as a text each attempt is.
        if (code === 'ERR_STRING_TOO_LONG') throw error;
        // What fetch throws says the reason in its cause.
        reason = messageOf((error as { readonly cause?: unknown }).cause ?? error);
      }
      if (!this.#hasAnswered && method === 'GET' && askedMillis === 0) {
        throw new TsdbError('UNAVAILABLE', `no coordinator answers at ${this.#url}: ${reason}`);
      }
      if (pauses.isOver) {
        throw new TsdbError(
          'UNAVAILABLE',
          `${this.#url} has not taken a request for ${retryText}: ${reason}${more.isWrite ? '; the import goes on from here when it is called again' : ''}`,
        );
      }
      this.#onRetry(reason);
      await pauses.wait(askedMillis);
    }
  }
}

interface Registered {
  readonly stagingState?: { readonly status: string } | null;
  readonly aggregationOptions?: {
    readonly aggregations?: readonly { readonly aggregated: boolean }[];
  } | null;
  readonly coldWritesEnabled?: boolean;
  readonly retentionOptions: {
    readonly retentionPeriodNanos: string;
    readonly bufferPastNanos: string;
  };
}
