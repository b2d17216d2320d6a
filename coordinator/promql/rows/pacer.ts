/**
 * Keeps a query polite: it yields to the event loop, ends when it is cancelled, and stays under its
 * sample limit.
 */
import { executionError } from '../parse/errors.ts';

/** Steps computed between two yields; about ten milliseconds of the dearest functions. */
const workBetweenPauses = 1_000_000;

export class Pacer {
  readonly #signal: AbortSignal;
  readonly #samplesMax: number;
  #work: number;
  #samples: number;

  /** @param samplesMax samples that the query may hold in memory at once */
  constructor(signal: AbortSignal, samplesMax: number) {
    this.#signal = signal;
    this.#samplesMax = samplesMax;
    this.#work = 0;
    this.#samples = 0;
  }

  /** Samples held so far. */
  get samples(): number {
    return this.#samples;
  }

  /** Counts work that is done inside of a step's computation, such as decoding. */
  note(work: number): void {
    this.#work += work;
  }

  /** Counts work; true when it is time for `await pause()`. */
  spend(steps: number): boolean {
    this.#work += steps + 16;
    return this.#work >= workBetweenPauses;
  }

  /** @throws the signal's reason when the query is cancelled or out of time */
  async pause(): Promise<void> {
    this.#work = 0;
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
    this.#signal.throwIfAborted();
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
