/**
 * What became of each request: a request is one slice of the series at one step, so that a byte
 * stands for two thousand samples.
 */
import { seriesOfSlice } from './soak_data.ts';

/** States of a request. What was sent and not acknowledged may be there or not. */
export const notSent = 0;
const sent = 1;
export const acknowledged = 2;

export class Ledger {
  readonly #states: Uint8Array[];
  readonly stepsMax: number;

  constructor(slices: number, stepsMax: number) {
    this.stepsMax = stepsMax;
    this.#states = Array.from({ length: slices }, () => new Uint8Array(stepsMax));
  }

  noteSent(slice: number, step: number): void {
    const states = this.#states[slice]!;
    if (states[step] === notSent) states[step] = sent;
  }

  noteAcknowledged(slice: number, step: number): void {
    this.#states[slice]![step] = acknowledged;
  }

  /** States of steps `from` to before `end`, as they are now. */
  statesOf(slice: number, from: number, end: number): Uint8Array {
    return this.#states[slice]!.slice(from, end);
  }

  /** One after the newest step of a slice that was sent. */
  endOf(slice: number): number {
    return this.#states[slice]!.findLastIndex((state) => state !== notSent) + 1;
  }

  /** Samples of all requests that were sent, whatever became of them. */
  samplesSent(seriesCount: number): number {
    let samples = 0;
    this.#states.forEach((states, slice) => {
      const ofRequest = Math.min(seriesOfSlice, seriesCount - slice * seriesOfSlice);
      for (const each of states) if (each !== notSent) samples += ofRequest;
    });
    return samples;
  }
}
