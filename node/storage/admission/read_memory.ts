/**
 * What answers of reads take while they are made and until they have left: together at most a share
 * of the memory of a node. A read says how much it needs before it takes it, and again when it
 * needs more; where there is no room it waits, those that have begun before those that have not. So
 * many queries at once make each other wait, and do not take the process down.
 */
import type { Clock } from '#lib/env/env.ts';
import { ChildSignal } from '#lib/env/wait.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';

/** Part of the node's memory. */
const readPart = 1 / 8;
/** Of a small node too, a read may take this. */
const readBytesMin: number = 16 << 20;
/** What a read takes beside its answer, at least. */
const readBytesFloor: number = 64 << 10;
/** Reads that wait to begin; more are refused at once. */
export const readsWaitingMax = 1_000;
/** Longest wait of a read for memory. */
export const readWaitMillisMax = 5_000;

/** Bytes that a read may take; to be disposed of when nobody needs its answer any more. */
export interface ReadReservation extends Disposable {
  readonly bytes: number;
  /** More no read may take. */
  readonly bytesMax: number;
  /**
   * Waits until it may take so many bytes in all.
   * @throws {TsdbError} BAD_REQUEST when it never may, RESOURCE_EXHAUSTED when it takes too long
   */
  growTo(bytes: number, signal: AbortSignal): Promise<void>;
  /** Gives back what is above. */
  shrinkTo(bytes: number): void;
}

interface Waiting {
  readonly bytes: number;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

export class ReadMemory {
  readonly #clock: Clock;
  readonly bytesMax: number;
  #bytes = 0;
  /** Reads that have begun. */
  #active = 0;
  /** Those of them that need more. */
  readonly #growing: Waiting[] = [];
  readonly #entering: Waiting[] = [];
  /** Reads that were refused, for metrics. */
  refused = 0;

  constructor(clock: Clock, memoryBytesMax: number) {
    this.#clock = clock;
    this.bytesMax = Math.max(readBytesMin, Math.floor(memoryBytesMax * readPart));
  }

  /** Taken now. */
  get bytes(): number {
    return this.#bytes;
  }

  get waiting(): number {
    return this.#growing.length + this.#entering.length;
  }

  /**
   * Waits until a read may begin.
   * @param bytes that it will probably take; it asks again for more
   * @throws {TsdbError} RESOURCE_EXHAUSTED when it takes too long, or too many wait
   */
  async enter(bytes: number, signal: AbortSignal): Promise<ReadReservation> {
    const first = Math.min(Math.max(bytes, readBytesFloor), this.bytesMax);
    if (this.waiting > 0 || !this.#fits(first)) {
      if (this.#entering.length >= readsWaitingMax) throw this.#exhausted();
      await this.#wait(this.#entering, first, signal);
    } else this.#bytes += first;
    this.#active += 1;
    return new Reservation(this, first);
  }

  async grow(bytes: number, signal: AbortSignal): Promise<void> {
    if (this.#growing.length === 0 && this.#fits(bytes)) {
      this.#bytes += bytes;
      return;
    }
    // Nobody would ever give anything back.
    if (this.#growing.length + 1 === this.#active) throw this.#exhausted();
    await this.#wait(this.#growing, bytes, signal);
  }

  give(bytes: number): void {
    this.#bytes -= bytes;
    this.#wake();
  }

  leave(bytes: number): void {
    this.#active -= 1;
    this.give(bytes);
    // Those that are left may all wait for more: the last one of them makes room.
    if (this.#growing.length > 0 && this.#growing.length === this.#active) {
      this.#growing.pop()!.reject(this.#exhausted());
    }
  }

  #fits(bytes: number): boolean {
    return this.#bytes + bytes <= this.bytesMax;
  }

  #wake(): void {
    for (const queue of [this.#growing, this.#entering]) {
      while (queue.length > 0) {
        if (!this.#fits(queue[0]!.bytes)) return;
        const next = queue.shift()!;
        this.#bytes += next.bytes;
        next.resolve();
      }
    }
  }

  async #wait(queue: Waiting[], bytes: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiting = { bytes, resolve, reject };
    queue.push(waiting);
    const until = new ChildSignal(signal);
    const giveUp = (): void => {
      const at = queue.indexOf(waiting);
      if (at < 0) return;
      queue.splice(at, 1);
      reject(signal.aborted ? signal.reason : this.#exhausted());
      this.#wake();
    };
    this.#clock.sleep(readWaitMillisMax, until.signal).then(giveUp, giveUp);
    try {
      await promise;
    } finally {
      until.end();
    }
  }

  #exhausted(): TsdbError {
    this.refused += 1;
    return new TsdbError(
      'RESOURCE_EXHAUSTED',
      `cannot read now: other reads take ${this.#bytes} of the ${this.bytesMax} bytes that answers may (an eighth of db.memoryMax)`,
    );
  }
}

class Reservation implements ReadReservation {
  readonly #memory: ReadMemory;
  bytes: number;
  readonly bytesMax: number;
  #isOver = false;

  constructor(memory: ReadMemory, bytes: number) {
    this.#memory = memory;
    this.bytes = bytes;
    this.bytesMax = memory.bytesMax;
  }

  async growTo(bytes: number, signal: AbortSignal): Promise<void> {
    if (bytes <= this.bytes) return;
    if (bytes > this.bytesMax) {
      throw badRequest(
        `cannot read: the answer takes ${bytes} bytes, more than the ${this.bytesMax} that answers may (an eighth of db.memoryMax); ask for fewer series or less time`,
      );
    }
    await this.#memory.grow(bytes - this.bytes, signal);
    this.bytes = bytes;
  }

  shrinkTo(bytes: number): void {
    const kept = Math.max(bytes, readBytesFloor);
    if (kept >= this.bytes) return;
    const given = this.bytes - kept;
    this.bytes = kept;
    this.#memory.give(given);
  }

  [Symbol.dispose](): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#memory.leave(this.bytes);
  }
}
