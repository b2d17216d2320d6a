/**
 * Says in the log that storage nodes refuse the versions of this process: until somebody mends its
 * clock nothing that comes through it is written.
 */
import type { Clock } from '#lib/env/env.ts';
import type { Log } from '#lib/log.ts';

const saidMillisMin = 60_000;

export class ClockRefusals {
  readonly #log: Log;
  readonly #clock: Pick<Clock, 'monotonicMillis'>;
  /** Attempts since the last line of the log. */
  #attempts = 0;
  #saidMillis = Number.NEGATIVE_INFINITY;

  constructor(log: Log, clock: Pick<Clock, 'monotonicMillis'>) {
    this.#log = log;
    this.#clock = clock;
  }

  /** An attempt failed for it; said at most once a minute. @param errors of the instances */
  note(errors: readonly string[]): void {
    this.#attempts += 1;
    const nowMillis = this.#clock.monotonicMillis();
    if (nowMillis - this.#saidMillis < saidMillisMin) return;
    this.#log.error(
      { attempts: this.#attempts, errors: errors.join('; ') },
      'the clock of this process is ahead: storage nodes refuse its writes until it is set right',
    );
    this.#attempts = 0;
    this.#saidMillis = nowMillis;
  }
}
