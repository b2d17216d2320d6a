/** How an answer leaves: whether who asked for it takes it, or leaves it in our memory. */
import type { TsdbError } from '../errors.ts';

/** A client is not judged by less time of waiting for it. */
const judgedMillisMin = 2_000;
/** After so much waiting, what is longer ago counts half. */
const rememberedMillis = 10_000;

export interface MonotonicClock {
  /** Never runs backwards. Fractional milliseconds. */
  monotonicMillis(): number;
}

/**
 * One answer on its way. Its sender notes when it has to wait for the client, and what the client has
 * taken: only the time between the two is the client's.
 */
export class Leaving {
  readonly #clock: MonotonicClock;
  /** Ends the answer, so that its memory is given back. */
  readonly cut: (error: TsdbError) => void;
  #bytes = 0;
  #waitedMillis = 0;
  #waitingSince: number | null = null;
  /** Which the client has not taken whole yet. */
  #waitingBytes = 0;

  constructor(clock: MonotonicClock, cut: (error: TsdbError) => void) {
    this.#clock = clock;
    this.cut = cut;
  }

  /** No more can be sent before the client has taken so many bytes. */
  waits(bytes: number): void {
    this.#waitingSince ??= this.#clock.monotonicMillis();
    this.#waitingBytes = bytes;
  }

  took(bytes: number): void {
    this.#bytes += bytes;
    if (this.#waitingSince === null) return;
    this.#waitedMillis += this.#clock.monotonicMillis() - this.#waitingSince;
    this.#waitingSince = null;
    if (this.#waitedMillis < rememberedMillis) return;
    this.#waitedMillis /= 2;
    this.#bytes /= 2;
  }

  /**
   * How long the client takes for so many bytes, by what it took and by what it leaves now, whichever is
   * longer; 0 as long as it was hardly waited for.
   */
  millisFor(bytes: number): number {
    const since = this.#waitingSince;
    const nowMillis = since === null ? 0 : this.#clock.monotonicMillis() - since;
    return Math.max(
      millisAt(bytes, this.#bytes, this.#waitedMillis + nowMillis),
      millisAt(bytes, this.#waitingBytes, nowMillis),
    );
  }
}

function millisAt(bytes: number, tookBytes: number, inMillis: number): number {
  return inMillis < judgedMillisMin ? 0 : (bytes * inMillis) / Math.max(1, tookBytes);
}
