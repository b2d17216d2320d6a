/**
 * How many new series a second the node takes; those above are refused and retried by their
 * writers.
 */
import type { Clock } from '#lib/env/env.ts';

export class SeriesRate {
  readonly #clock: Clock;
  /** 0 = no limit. */
  #perSecondMax: number;
  #left: number;
  #filledAtMillis: number;

  constructor(clock: Clock, perSecondMax: number) {
    this.#clock = clock;
    this.#perSecondMax = perSecondMax;
    this.#left = perSecondMax;
    this.#filledAtMillis = clock.monotonicMillis();
  }

  /** Changes the limit for the series that come; 0 = none. */
  setLimit(perSecondMax: number): void {
    if (perSecondMax === this.#perSecondMax) return;
    this.#perSecondMax = perSecondMax;
    this.#left = Math.min(this.#left, perSecondMax);
  }

  /** Series that were refused, for metrics. */
  refused = 0;

  /** Whether one more may be made now. */
  take(): boolean {
    if (this.#perSecondMax === 0) return true;
    if (this.#left < 1) {
      const now = this.#clock.monotonicMillis();
      const more = ((now - this.#filledAtMillis) / 1000) * this.#perSecondMax;
      this.#left = Math.min(this.#perSecondMax, this.#left + more);
      this.#filledAtMillis = now;
    }
    if (this.#left < 1) {
      this.refused += 1;
      return false;
    }
    this.#left -= 1;
    return true;
  }
}
