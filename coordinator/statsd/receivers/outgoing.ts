/**
 * Lines on their way to the coordinator that keeps their series: gathered, sent one batch after the other, and kept until they are
 * taken. What is sent again has the number that it had, by which it is taken once.
 */
import type { Clock } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';

/** Of one batch. */
export const batchBytesMax: number = 256 << 10;
/** Lines wait so long for others. */
const gatherMillis = 20;
const retryMillis = 200;
const lineFeed = 0x0a;

/** Of all lines that wait, to whomever. */
export interface WaitingRoom {
  readonly bytesMax: number;
  bytes: number;
}

export interface OutgoingOptions {
  readonly clock: Pick<Clock, 'sleep'>;
  readonly room: WaitingRoom;
  /** Hands over a batch. @throws {TsdbError} when it is not known to have been taken */
  readonly send: (lines: Uint8Array, sequence: bigint, signal: AbortSignal) => Promise<void>;
  readonly onSent: (lineCount: number) => void;
}

interface Batch {
  readonly bytes: Uint8Array;
  length: number;
  lines: number;
}

export class Outgoing {
  readonly #options: OutgoingOptions;
  /** Nothing is sent any more. */
  readonly #stop = new AbortController();
  /** Nor is it waited for what is being sent. */
  readonly #end = new AbortController();
  /** Nothing is added to them any more: the first is being sent. */
  readonly #whole: Batch[] = [];
  #filling: Batch | null = null;
  #sequence = 0n;
  /** Ends when all is sent. */
  #sending: Promise<void> | null = null;

  constructor(options: OutgoingOptions) {
    this.#options = options;
  }

  /** @param bytes with a line in [from, end), without its end. @returns false when there is no room */
  add(bytes: Uint8Array, from: number, end: number): boolean {
    const { room } = this.#options;
    if (this.#filling !== null && this.#filling.length + end - from >= batchBytesMax) this.#close();
    if (this.#filling === null) {
      if (room.bytes + batchBytesMax > room.bytesMax) return false;
      room.bytes += batchBytesMax;
      this.#filling = { bytes: new Uint8Array(batchBytesMax), length: 0, lines: 0 };
    }
    const batch = this.#filling;
    let to = batch.length;
    for (let i = from; i < end; i++) batch.bytes[to++] = bytes[i]!;
    batch.bytes[to++] = lineFeed;
    batch.length = to;
    batch.lines++;
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = null;
    });
    return true;
  }

  /** Resolves when nothing waits. */
  async sent(): Promise<void> {
    await this.#sending;
  }

  /**
   * Ends, when it is known whether what is being sent was taken: it must not be taken twice.
   * @param signal is waited for until it aborts
   * @returns what waits, for others
   */
  async takeBack(signal: AbortSignal): Promise<readonly Uint8Array[]> {
    this.#stop.abort();
    if (signal.aborted) this.#end.abort();
    else signal.addEventListener('abort', () => this.#end.abort(), { once: true });
    await this.#sending;
    this.#close();
    this.#options.room.bytes -= batchBytesMax * this.#whole.length;
    return this.#whole.map(({ bytes, length }) => bytes.subarray(0, length));
  }

  #close(): void {
    if (this.#filling !== null) this.#whole.push(this.#filling);
    this.#filling = null;
  }

  async #sendAll(): Promise<void> {
    const { clock, room, onSent } = this.#options;
    const { signal } = this.#stop;
    while (this.#whole.length > 0 || this.#filling !== null) {
      if (this.#whole.length === 0) {
        await clock.sleep(gatherMillis, signal).catch(() => {});
        if (!signal.aborted) this.#close();
      }
      if (signal.aborted) return;
      const { bytes, length, lines } = this.#whole[0]!;
      this.#sequence += 1n;
      while (!(await this.#isTaken(bytes.subarray(0, length)))) {
        if (signal.aborted) return;
        await clock.sleep(retryMillis, signal).catch(() => {});
      }
      this.#whole.shift();
      room.bytes -= batchBytesMax;
      onSent(lines);
    }
  }

  async #isTaken(lines: Uint8Array): Promise<boolean> {
    const { signal } = this.#end;
    try {
      await this.#options.send(lines, this.#sequence, signal);
      return true;
    } catch (error) {
      if (!(error instanceof TsdbError) && !signal.aborted) throw error;
      return false;
    }
  }
}
