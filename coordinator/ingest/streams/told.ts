/** What happens to lines of senders that nobody answers: whoever runs the database sees that it does, and why. */
import type { Clock } from '#lib/env/env.ts';
import type { Log } from '#lib/log.ts';

const tellMillisMin = 10_000;
/** Longest reason in the log. */
const reasonMax = 1000;

export class Told {
  readonly #message: string;
  readonly #clock: Pick<Clock, 'monotonicMillis'>;
  readonly #log: Log;
  #count = 0;
  #toldMillis = -Infinity;

  constructor(message: string, clock: Pick<Clock, 'monotonicMillis'>, log: Log) {
    this.#message = message;
    this.#clock = clock;
    this.#log = log;
  }

  /** Counts it, and tells of it at most every ten seconds. @param reason of the first ones, in words */
  note(format: string, count: number, reason: string): void {
    this.#count += count;
    const nowMillis = this.#clock.monotonicMillis();
    if (nowMillis - this.#toldMillis < tellMillisMin) return;
    const shown = reason.length > reasonMax ? `${reason.slice(0, reasonMax)}…` : reason;
    this.#log.warn({ format, count: this.#count, reason: shown }, this.#message);
    this.#count = 0;
    this.#toldMillis = nowMillis;
  }
}
