/** The namespaces read anew for those who have met a schema that is not known here yet. */
import type { Clock } from '#lib/env/env.ts';

/** Between two readings: requests that are wrong for good ask, too. */
const pauseMillis = 50;
const readMillisMax = 2_000;
const neverAborted = new AbortController().signal;

export class Renewal {
  readonly #refresh: (signal: AbortSignal) => Promise<unknown>;
  readonly #clock: Pick<Clock, 'deadline' | 'sleep'>;
  /** The next reading, which has not begun. */
  #next: Promise<void> | null = null;
  #last: Promise<void> = Promise.resolve();

  constructor(
    refresh: (signal: AbortSignal) => Promise<unknown>,
    clock: Pick<Clock, 'deadline' | 'sleep'>,
  ) {
    this.#refresh = refresh;
    this.#clock = clock;
  }

  /**
   * Resolves when a reading is over that began after the call, whether it came to anything or not: who asks looks
   * again at what is known.
   */
  async renew(): Promise<void> {
    this.#next ??= this.#read(this.#last);
    return this.#next;
  }

  async #read(last: Promise<void>): Promise<void> {
    await last;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#last = promise;
    this.#next = null;
    const signal = this.#clock.deadline(readMillisMax, neverAborted);
    try {
      await this.#refresh(signal);
    } catch {
      // The store is away; what was known stands.
    } finally {
      void this.#clock.sleep(pauseMillis, neverAborted).then(resolve, resolve);
    }
  }
}
