/**
 * Keeps a query polite: it gives way to others, ends when it is cancelled, stays under its sample
 * limit, and waits for memory that others have.
 */
import type { ReadBytes } from '#lib/read_memory/read_memory.ts';
import type { Work } from '#lib/turns/turns.ts';
import { executionError } from '../words/errors.ts';

/** Of a value in a row. */
const sampleBytes = 8;
/** Of a value and whether it is there. */
export const markedRowBytes = 9;

export class Pacer {
  readonly work: Work;
  readonly #samplesMax: number;
  readonly #memory: ReadBytes;
  #samples: number;
  /** Asked for, and not there yet. */
  #missingBytes: number;

  /**
   * @param samplesMax samples that the query may hold in memory at once
   * @param memory of which its rows are
   */
  constructor(work: Work, samplesMax: number, memory: ReadBytes) {
    this.work = work;
    this.#samplesMax = samplesMax;
    this.#memory = memory;
    this.#samples = 0;
    this.#missingBytes = 0;
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

  /**
   * Counts samples that are held from now on; true when `await room()` has to come before they are.
   * @throws {PromqlError} when the query would hold more than its limit
   */
  hold(samples: number, bytesOfSample: number = sampleBytes): boolean {
    this.#samples += samples;
    if (this.#samples > this.#samplesMax) {
      throw executionError(
        `query processing would load too many samples into memory in query execution (limit ${this.#samplesMax})`,
      );
    }
    return this.take(samples * bytesOfSample);
  }

  /** Counts memory of anything else; true when `await room()` has to come before it is taken. */
  take(bytes: number): boolean {
    if (this.#memory.tryGrow(this.#missingBytes + bytes)) {
      this.#missingBytes = 0;
      return false;
    }
    this.#missingBytes += bytes;
    return true;
  }

  /** Takes memory for rows of values and marks, as Graphite's language and M3QL have them. */
  get rowMemory(): { take: (rows: number) => Promise<void>; give: (rows: number) => void } {
    return {
      take: async (rows) => {
        if (this.take(markedRowBytes * rows)) await this.room();
      },
      give: (rows) => {
        this.give(markedRowBytes * rows);
      },
    };
  }

  /** Gives back what was taken and is needed no more. */
  give(bytes: number): void {
    this.#memory.give(bytes);
  }

  /**
   * Waits for memory that others have.
   * @throws {TsdbError} BAD_REQUEST when it is more than there is, RESOURCE_EXHAUSTED when it takes
   *   too long
   */
  async room(): Promise<void> {
    const bytes = this.#missingBytes;
    this.#missingBytes = 0;
    await this.work.outside(this.#memory.grow(bytes, this.work.signal));
  }
}
