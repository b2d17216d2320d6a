/**
 * The time by which data is taken for expired. What a wrong clock has removed is gone for good, so
 * this one does not follow a jump ahead at once: it goes on at the pace of the monotonic clock, and
 * takes the new time when that has stood for a while. Until then data is kept, and served, a little
 * longer. A time that the median of the peers' clocks says is wrong is never taken, however long it
 * stands: that median takes its place.
 */
import type { Clock } from '#lib/env/env.ts';
import type { Log } from '#lib/log.ts';
import type { UnixNanos } from '#lib/time.ts';

/** A jump ahead must stand for so long. */
export const retentionHoldMillis = 3_600_000;

/** Clocks that are being corrected run faster by less than this. */
const slackMillis = 2_000;
const slackShare = 0.001;

const nanosPerMilli = 1_000_000;

/** What the machine's clock shows, or an earlier time where peers say that it is ahead. */
export interface PlausibleTime {
  earliestNanos(): UnixNanos;
}

export class RetentionClock {
  readonly #clock: Clock;
  readonly #time: PlausibleTime;
  readonly #log: Log;
  readonly #holdMillis: number;
  /** The time that was given last, and the monotonic clock then. */
  #lastNanos: UnixNanos;
  #lastMonotonicMillis: number;
  /** Monotonic time since when the clock is ahead of what it should show; null when it is not. */
  #aheadSinceMillis: number | null = null;

  /** @param holdMillis 0 follows the clock at once */
  constructor(clock: Clock, time: PlausibleTime, log: Log, holdMillis: number) {
    this.#clock = clock;
    this.#time = time;
    this.#log = log;
    this.#holdMillis = holdMillis;
    this.#lastNanos = time.earliestNanos();
    this.#lastMonotonicMillis = clock.monotonicMillis();
  }

  /**
   * The clock may have been set, or jumped, while no process ran: the last time that one knew is
   * where this one goes on.
   */
  startFrom(nanos: UnixNanos): void {
    if (this.#holdMillis === 0 || nanos >= this.#lastNanos) return;
    this.#lastNanos = nanos;
    this.#lastMonotonicMillis = this.#clock.monotonicMillis();
    // Nobody needs to be told that time has passed.
    this.#aheadSinceMillis = this.#lastMonotonicMillis;
  }

  nowNanos(): UnixNanos {
    const nowNanos = this.#time.earliestNanos();
    const monotonicMillis = this.#clock.monotonicMillis();
    const passedMillis = monotonicMillis - this.#lastMonotonicMillis;
    const passedNanos = BigInt(Math.round(passedMillis * nanosPerMilli));
    const expectedNanos = this.#lastNanos + passedNanos;
    const aheadMillis = Number(nowNanos - expectedNanos) / nanosPerMilli;
    this.#lastMonotonicMillis = monotonicMillis;
    if (aheadMillis <= slackMillis + passedMillis * slackShare || this.#holdMillis === 0) {
      this.#aheadSinceMillis = null;
      this.#lastNanos = nowNanos;
      return nowNanos;
    }
    const seconds = Math.round(aheadMillis / 1000);
    if (this.#aheadSinceMillis === null) {
      this.#aheadSinceMillis = monotonicMillis;
      const fields = { seconds, acceptedAfterSeconds: this.#holdMillis / 1000 };
      this.#log.warn(fields, 'the clock is ahead of where it was: nothing expires by it yet');
    }
    if (monotonicMillis - this.#aheadSinceMillis >= this.#holdMillis) {
      this.#log.info({ seconds }, 'the clock has stood ahead for long: data expires by it now');
      this.#aheadSinceMillis = null;
      this.#lastNanos = nowNanos;
      return nowNanos;
    }
    this.#lastNanos = expectedNanos;
    return expectedNanos;
  }
}
