/** Not more rows than so many a second. */
import type { Clock } from '#lib/env/env.ts';

export class RateLimit {
  readonly #perSecondMax: number;
  readonly #clock: Pick<Clock, 'monotonicMillis' | 'sleep'>;
  /** When the rows that were taken are paid for. */
  #freeMillis: number;

  /** @param perSecondMax Infinity for no limit */
  constructor(perSecondMax: number, clock: Pick<Clock, 'monotonicMillis' | 'sleep'>) {
    this.#perSecondMax = perSecondMax;
    this.#clock = clock;
    this.#freeMillis = clock.monotonicMillis();
  }

  /** Waits until rows that were taken before are paid for. */
  async take(rows: number, signal: AbortSignal): Promise<void> {
    const now = this.#clock.monotonicMillis();
    const waitMillis = this.#freeMillis - now;
    this.#freeMillis = Math.max(this.#freeMillis, now) + (1000 * rows) / this.#perSecondMax;
    if (waitMillis > 0) await this.#clock.sleep(waitMillis, signal);
  }
}
