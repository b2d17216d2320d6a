/**
 * Keeps a query polite: it gives way to others, ends when it is cancelled, and stays under its
 * sample limit.
 */
import type { Work } from '#lib/turns/turns.ts';
import { executionError } from '../parse/errors.ts';

export class Pacer {
  readonly work: Work;
  readonly #samplesMax: number;
  #samples: number;

  /** @param samplesMax samples that the query may hold in memory at once */
  constructor(work: Work, samplesMax: number) {
    this.work = work;
    this.#samplesMax = samplesMax;
    this.#samples = 0;
  }

  /** Samples held so far. */
  get samples(): number {
    return this.#samples;
  }

  /** Counts work that is done inside of a step's computation, such as decoding. */
  note(work: number): void {
    this.work.note(work);
  }

  /** Counts work; true when it is time for `await pause()`. */
  spend(steps: number): boolean {
    return this.work.spend(steps + 16);
  }

  /** @throws the signal's reason when the query is cancelled or out of time */
  pause(): Promise<void> {
    return this.work.pause();
  }

  /** @throws {PromqlError} when the query would hold more than its limit */
  hold(samples: number): void {
    this.#samples += samples;
    if (this.#samples > this.#samplesMax) {
      throw executionError(
        `query processing would load too many samples into memory in query execution (limit ${this.#samplesMax})`,
      );
    }
  }
}
