/** Since when slices wait for what others do: whoever keeps them from that all the time does not hold a slice up for ever. */
import { windowsWaitNanos } from '#cluster/namespaces/samples.ts';
import type { SliceKey } from './notes.ts';

const nanosPerMilli = 1_000_000n;

/**
 * How long slices wait: for rows of memory, and before they are made once more. As those of their rows have it that are kept
 * shortest: once some of these are gone no slice is made again.
 */
export function pauseMillisOf(used: readonly { readonly retentionNanos: bigint }[]): number {
  const nanos = used.map(({ retentionNanos }) => windowsWaitNanos(retentionNanos));
  return Number(nanos.reduce((a, b) => (b < a ? b : a)) / nanosPerMilli);
}

interface Wait {
  readonly sinceMillis: number;
  /** In which round of looks it was seen last. */
  readonly round: number;
}

export class Waits {
  readonly #waits = new Map<SliceKey, Wait>();
  #round = 0;

  /** Slices that are not asked for between two rounds are forgotten. */
  endRound(): void {
    for (const [key, { round }] of this.#waits) {
      if (round !== this.#round) this.#waits.delete(key);
    }
    this.#round += 1;
  }

  /**
   * @param hasReason whether there is something to wait for now
   * @param nowMillis of a clock that never runs backwards
   * @returns whether to wait; false when it has taken this long since the first time, as long as there is a reason
   */
  isToWait(key: SliceKey, hasReason: boolean, nowMillis: number, millisMax: number): boolean {
    if (!hasReason) {
      this.#waits.delete(key);
      return false;
    }
    const sinceMillis = this.#waits.get(key)?.sinceMillis ?? nowMillis;
    this.#waits.set(key, { sinceMillis, round: this.#round });
    return nowMillis - sinceMillis < millisMax;
  }
}
