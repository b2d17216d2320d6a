/**
 * Which levels of formats those know who have read from this node lately, or written to it: coordinators and clients
 * stand in no placement, so an upgrade that is to be finished knows of them by what they ask.
 */
import type { Clock } from '#lib/env/env.ts';
import { formatLevelFirst, formatLevelNewest } from '#lib/format_level.ts';

/** A coordinator is asked by probes and dashboards more often than this. */
export const readerMemoryMillis = 600_000;

export class ReaderLevels {
  readonly #clock: Clock;
  /** Monotonic milliseconds of the last one of a level below the newest one, by level. */
  readonly #lastOf = new Map<number, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** @param level as in `OfReader` */
  note(level: number | undefined): void {
    if (level === undefined || level >= formatLevelNewest) return;
    this.#lastOf.set(Math.max(level, formatLevelFirst), this.#clock.monotonicMillis());
  }

  /** The lowest one of the last ten minutes. */
  lowest(): number {
    const since = this.#clock.monotonicMillis() - readerMemoryMillis;
    let lowest = formatLevelNewest;
    for (const [level, millis] of this.#lastOf) {
      if (millis >= since) lowest = Math.min(lowest, level);
    }
    return lowest;
  }
}
