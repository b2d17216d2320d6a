import type { WindowRequest } from './windows.ts';

/**
 * First and past-the-last row of every step's window; kept while the next series has the same
 * times.
 */
export class WindowIndex {
  #times: Float64Array;
  #rowCount: number;
  #request: WindowRequest | null;
  starts: Int32Array;
  ends: Int32Array;

  constructor() {
    this.#times = new Float64Array(0);
    this.#rowCount = -1;
    this.#request = null;
    this.starts = new Int32Array(0);
    this.ends = new Int32Array(0);
  }

  locate(
    request: WindowRequest,
    times: Float64Array,
    rowCount: number,
  ): { starts: Int32Array; ends: Int32Array } {
    if (this.#isSame(request, times, rowCount)) return this;
    if (this.starts.length < request.stepCount) {
      this.starts = new Int32Array(request.stepCount);
      this.ends = new Int32Array(request.stepCount);
    }
    let start = 0;
    let end = 0;
    let reference = request.referenceStartMillis;
    for (let step = 0; step < request.stepCount; step++) {
      const opening = reference - request.rangeMillis;
      while (end < rowCount && times[end]! <= reference) end++;
      while (start < end && times[start]! <= opening) start++;
      this.starts[step] = start;
      this.ends[step] = end;
      reference += request.referenceStepMillis;
    }
    if (this.#times.length < rowCount) this.#times = new Float64Array(rowCount * 2);
    this.#times.set(times.subarray(0, rowCount));
    this.#rowCount = rowCount;
    this.#request = request;
    return this;
  }

  #isSame(request: WindowRequest, times: Float64Array, rowCount: number): boolean {
    if (this.#request !== request || this.#rowCount !== rowCount) return false;
    const known = this.#times;
    for (let i = 0; i < rowCount; i++) if (known[i] !== times[i]) return false;
    return true;
  }
}
