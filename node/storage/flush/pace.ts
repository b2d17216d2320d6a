/** The share of the main loop's time that background work takes, measured: it rests in between. */
import type { Clock } from '#lib/env/env.ts';
import type { Pausing } from '#lib/turns/paced.ts';

/** Longest stretch of work before others get a turn. */
const stretchMillisMax = 4;
/** Units of work, of a few nanoseconds each, between two looks at the clock. */
const unitsBetweenLooks = 20_000;

export class Pace {
  readonly #clock: Clock;
  readonly #share: () => number;
  #startedAtMillis: number;

  /** @param share of the time, in (0, 1]; asked for at each rest, 1 while it is urgent */
  constructor(clock: Clock, share: () => number) {
    this.#clock = clock;
    this.#share = share;
    this.#startedAtMillis = clock.monotonicMillis();
  }

  /** Whether enough was done at a stretch. */
  get isDue(): boolean {
    return this.#workedMillis() >= stretchMillisMax;
  }

  /** For work that counts what it does (lib/turns/paced.ts). */
  pausing(signal: AbortSignal): Pausing {
    let units = 0;
    return {
      spend: (more) => {
        units += more;
        if (units < unitsBetweenLooks) return false;
        units = 0;
        return this.isDue;
      },
      pause: () => this.rest(signal),
    };
  }

  #workedMillis(): number {
    return this.#clock.monotonicMillis() - this.#startedAtMillis;
  }

  /** Called between two pieces of work: waits when enough was done at a stretch. */
  async rest(signal: AbortSignal | null): Promise<void> {
    const worked = this.#workedMillis();
    if (worked < stretchMillisMax) return;
    const share = this.#share();
    // One waits for the disk too, so a stretch may look longer than it was: never rest for long.
    const millis = Math.min((worked * (1 - share)) / share, restMillisMax);
    await this.#clock.sleep(millis, signal ?? never);
    this.#startedAtMillis = this.#clock.monotonicMillis();
  }
}

const restMillisMax = 200;
const never = new AbortController().signal;
