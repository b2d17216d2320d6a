/** How many new series a second the node takes; those above are refused and retried by their writers. */
import type { Clock } from '#lib/env/env.ts';

export class SeriesRate {
  private readonly clock: Clock;
  /** 0 = no limit. */
  private readonly perSecondMax: number;
  private left: number;
  private filledAtMillis: number;

  constructor(clock: Clock, perSecondMax: number) {
    this.clock = clock;
    this.perSecondMax = perSecondMax;
    this.left = perSecondMax;
    this.filledAtMillis = clock.monotonicMillis();
  }

  /** Whether one more may be made now. */
  take(): boolean {
    if (this.perSecondMax === 0) return true;
    if (this.left < 1) {
      const now = this.clock.monotonicMillis();
      const more = ((now - this.filledAtMillis) / 1000) * this.perSecondMax;
      this.left = Math.min(this.perSecondMax, this.left + more);
      this.filledAtMillis = now;
    }
    if (this.left < 1) return false;
    this.left -= 1;
    return true;
  }
}
