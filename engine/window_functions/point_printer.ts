/** Points of a series as JSON pairs of value and time, by the kernel of engine/window_functions/kernel/json.ts. */
import { instantiateWindows } from './instance.ts';
import type { WindowsExports } from './windows_exports.ts';

/** Points that are handed over at once. */
const slicePoints = 4096;
const outBytes = 65_536;

const stateAt = 64;
const valuesAt = 128;
const presentAt: number = valuesAt + slicePoints * 8;
const outAt: number = presentAt + slicePoints;
const outEnd: number = outAt + outBytes;

/** Points at `startSeconds + i * stepSeconds`. */
export interface PrintedPoints {
  readonly values: Float64Array;
  /** 1 where there is a value. */
  readonly present: Uint8Array;
  readonly startSeconds: number;
  readonly stepSeconds: number;
}

export class PointPrinter {
  readonly #kernel: WindowsExports;
  readonly #bytes: Uint8Array;
  readonly #values: Float64Array;
  readonly #state: Uint32Array;

  constructor() {
    const { memory, kernel } = instantiateWindows();
    const { buffer } = memory;
    this.#kernel = kernel;
    this.#bytes = new Uint8Array(buffer);
    this.#values = new Float64Array(buffer, valuesAt, slicePoints);
    this.#state = new Uint32Array(buffer, stateAt, 2);
  }

  /**
   * Prints `, [value, time]` for some points from `first` on; values that are absent or NaN are null.
   * @param leavesOutNulls nothing is printed for those
   * @param numberText of numbers that the kernel leaves to others: infinite, very large or small
   * @param write gets the text in pieces, which hold until it returns
   * @returns the point to go on with
   */
  print(
    { values, present, startSeconds, stepSeconds }: PrintedPoints,
    first: number,
    leavesOutNulls: boolean,
    numberText: (value: number) => string,
    write: (piece: Uint8Array) => void,
  ): number {
    const past = Math.min(first + slicePoints, values.length);
    const count = past - first;
    this.#values.set(values.subarray(first, past));
    this.#bytes.set(present.subarray(first, past), presentAt);
    const start = startSeconds + first * stepSeconds;
    const leftOut = leavesOutNulls ? 1 : 0;
    for (let point = 0; point < count; ) {
      const area = [valuesAt, presentAt, point, count] as const;
      this.#kernel.printPoints(...area, start, stepSeconds, leftOut, outAt, outEnd, stateAt);
      const [next, bytes] = this.#state as unknown as [number, number];
      if (bytes > 0) write(this.#bytes.subarray(outAt, outAt + bytes));
      // Either there is no more room, or a number is not the kernel's.
      if (next === point) {
        write(
          Buffer.from(`, [${this.#valueText(point, numberText)}, ${start + point * stepSeconds}]`),
        );
      }
      point = next === point ? next + 1 : next;
    }
    return past;
  }

  #valueText(point: number, numberText: (value: number) => string): string {
    const value = this.#values[point]!;
    const isNull = this.#bytes[presentAt + point] === 0 || Number.isNaN(value);
    return isNull ? 'null' : numberText(value);
  }
}
