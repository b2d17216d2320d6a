/**
 * The window functions in plain TypeScript, with the arithmetic of Prometheus 3: sums are
 * compensated (Neumaier), rates extrapolate to the edges of the window, windows are open on the
 * left.
 */
import { Decoder } from '../store/decoder.ts';
import { isAbsent } from './row.ts';
import type { RowBuffer } from './row.ts';
import type { SeriesBundle } from '../codec/series_bundle.ts';
import type { WindowEvaluator, WindowRequest } from './windows.ts';
import { windowFunctionTable } from './functions.ts';
import type { WindowColumns } from './functions.ts';

export class WindowsTwin implements WindowEvaluator {
  readonly #decoder: Decoder;
  #times: Float64Array;
  #values: Float64Array;
  readonly #index: WindowIndex;

  constructor() {
    this.#decoder = new Decoder();
    this.#times = new Float64Array(0);
    this.#values = new Float64Array(0);
    this.#index = new WindowIndex();
  }

  evaluate(
    request: WindowRequest,
    bundle: SeriesBundle,
    index: number,
    startNanos: bigint,
    endNanos: bigint,
    target: RowBuffer,
    at: number,
  ): number {
    const decoder = this.#decoder;
    const rowCount = decoder.decode(bundle, index, startNanos, endNanos);
    if (request.function === 'instant' || request.function === 'instantTime') {
      this.#instant(request, rowCount, target, at);
      return rowCount;
    }
    const kept = this.#withoutStale(rowCount);
    this.evaluateColumns(request, this.#times, this.#values, kept, target, at);
    return rowCount;
  }

  evaluateColumns(
    request: WindowRequest,
    timestampMillis: Float64Array,
    values: Float64Array,
    rowCount: number,
    target: RowBuffer,
    at: number,
  ): void {
    const { starts, ends } = this.#index.locate(request, timestampMillis, rowCount);
    const columns: WindowColumns = { times: timestampMillis, values, rowCount, starts, ends };
    windowFunctionTable[request.function](columns, request, target, at);
  }

  /** Copies the decoded rows but the stale markers into own columns. */
  #withoutStale(rowCount: number): number {
    if (this.#times.length < rowCount) {
      this.#times = new Float64Array(rowCount * 2);
      this.#values = new Float64Array(rowCount * 2);
    }
    const { timestampMillis, values, valueWords } = this.#decoder;
    const times = this.#times;
    const kept = this.#values;
    let count = 0;
    for (let i = 0; i < rowCount; i++) {
      const value = values[i]!;
      if (value !== value && isAbsent(valueWords, i)) continue;
      times[count] = timestampMillis[i]!;
      kept[count++] = value;
    }
    return count;
  }

  #instant(request: WindowRequest, rowCount: number, target: RowBuffer, at: number): void {
    const { timestampMillis, valueWords } = this.#decoder;
    const { starts, ends } = this.#index.locate(request, timestampMillis, rowCount);
    const { values, words, bits } = target;
    const wantsTime = request.function === 'instantTime';
    const sourceWords = valueWords;
    for (let step = 0; step < request.stepCount; step++) {
      const last = ends[step]! - 1;
      if (last < starts[step]! || isAbsent(sourceWords, last)) {
        bits[at + step] = 0x7ff0000000000002n;
      } else if (wantsTime) {
        values[at + step] = timestampMillis[last]! / 1000;
      } else {
        words[2 * (at + step)] = sourceWords[2 * last]!;
        words[2 * (at + step) + 1] = sourceWords[2 * last + 1]!;
      }
    }
  }
}

/**
 * First and past-the-last row of every step's window; kept while the next series has the same
 * times.
 */
class WindowIndex {
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
