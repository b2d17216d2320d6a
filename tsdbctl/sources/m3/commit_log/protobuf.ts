/**
 * Whether rows of a commit log have protobuf messages for values: those are then in the annotations,
 * and each value is 0. Annotations of numbers tell of the series, and stay the same.
 */
import { adler32 } from '../bytes/adler32.ts';
import type { LogEntry } from './entries.ts';

export class ProtobufWatch {
  #hasNumbers = false;
  #hasMessages = false;
  /** Sums of the first annotations of series. */
  readonly #first = new Map<number, number>();

  /** So far. */
  get isProtobuf(): boolean {
    return !this.#hasNumbers && this.#hasMessages;
  }

  see(series: number, { valueHigh, valueLow, annotation }: LogEntry): void {
    if (this.#hasNumbers) return;
    if (valueHigh !== 0 || valueLow !== 0 || annotation.length === 0) {
      this.#hasNumbers = true;
      this.#first.clear();
      return;
    }
    const sum = adler32(annotation);
    const first = this.#first.get(series);
    if (first === undefined) this.#first.set(series, sum);
    else if (first !== sum) this.#hasMessages = true;
  }
}
