/** Requests that fail for a passing reason are sent again. */
import type { Clock } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { formatDurationNanos } from '#lib/time.ts';

/** For so long. */
const retryMillisMax = 15 * 60_000;
const pauseMillisMin = 500;
const pauseMillisMax = 30_000;
/** Of what an answer asks for. */
const askedMillisMax = 120_000;

/** How long a request is sent again, for people. */
export const retryText: string = formatDurationNanos(BigInt(retryMillisMax) * 1_000_000n);

/** Whether a status says that the same request may be answered later. */
export const isPassing = (status: number): boolean => status === 429 || status >= 500;

/** The pause that an answer asks for; 0 for none. Proxies may say it as a date, which is taken for none. */
export function askedMillisOf({ headers }: Pick<Response, 'headers'>): number {
  const asked = 1000 * Number(headers.get('retry-after') ?? 0);
  return asked > 0 ? Math.min(asked, askedMillisMax) : 0;
}

/** Where an answer says that what was asked for is; null when it does not. */
export function elsewhereOf({
  status,
  headers,
}: Pick<Response, 'status' | 'headers'>): string | null {
  return status >= 300 && status < 400 ? headers.get('location') : null;
}

/** Pauses between the attempts of a request, each twice as long as the one before. */
export class Pauses {
  readonly #clock: Pick<Clock, 'sleep' | 'monotonicMillis'>;
  readonly #signal: AbortSignal;
  readonly #startMillis: number;
  #pauseMillis = pauseMillisMin;

  constructor(clock: Pick<Clock, 'sleep' | 'monotonicMillis'>, signal: AbortSignal) {
    this.#clock = clock;
    this.#signal = signal;
    this.#startMillis = clock.monotonicMillis();
  }

  /** Whether it was tried for long enough. */
  get isOver(): boolean {
    return this.#clock.monotonicMillis() - this.#startMillis > retryMillisMax;
  }

  /**
   * @param askedMillis as of `askedMillisOf`; the pause is not shorter
   * @throws {TsdbError} CANCELLED with the reason of the signal
   */
  async wait(askedMillis: number): Promise<void> {
    const millis = Math.max(this.#pauseMillis, askedMillis);
    this.#pauseMillis = Math.min(2 * this.#pauseMillis, pauseMillisMax);
    try {
      await this.#clock.sleep(millis, this.#signal);
    } catch (error) {
      if (!this.#signal.aborted) throw error;
      throw new TsdbError('CANCELLED', messageOf(this.#signal.reason), { cause: error });
    }
  }
}
