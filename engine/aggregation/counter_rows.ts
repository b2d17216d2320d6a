/**
 * Windows as rows of a counter: functions over these come to what they would over the samples, but for what these did between
 * the edges of a range and the ends of windows (docs/AGGREGATION.md, Resets).
 */
import type { WindowRows } from './columns.ts';

/**
 * From a window's end back to the rows before the last one, each in a millisecond of its own, as functions and remote read tell
 * them apart. No resolution is below a second.
 */
const firstBeforeEndNanos = 3_000_000n;
const cameToBeforeEndNanos = 2_000_000n;
const lastButOneBeforeEndNanos = 1_000_000n;
/** A window goes on from one that is so many resolutions before it, at most: readers look back further than that. */
const goesOnWindows = 2n;

/** Of one series, chunk after chunk in the order of time. */
export class CounterRows {
  readonly #reachNanos: bigint;
  /** Of the window before. */
  #endNanos: bigint | null = null;
  #last = 0;

  constructor(resolutionNanos: bigint) {
    this.#reachNanos = goesOnWindows * resolutionNanos;
  }

  /**
   * A window in which a counter began again has a row of what it had come to and one of 0, without which a last value above that
   * would hide it; one that began again with its first row has this row, as has one that goes on from no other, which
   * grows from there.
   * @param columns the last numbers, smallest values, resets, first values where resets are not 0
   */
  of(columns: readonly WindowRows[]): WindowRows {
    const [last, min, resets, first] = columns as [WindowRows, WindowRows, WindowRows, WindowRows];
    const windows = last.values.length;
    const endNanos = new BigInt64Array(4 * windows);
    const values = new Float64Array(4 * windows);
    let at = 0;
    for (let i = 0; i < windows; i++) {
      const end = last.endNanos[i]!;
      const cameTo = resets.values[i]!;
      const hasReset = cameTo !== 0;
      // A counter without resets has only grown.
      const began = hasReset ? first.values[i]! : min.values[i]!;
      const next = hasReset ? cameTo : last.values[i]!;
      const before = this.#before(end);
      // Of what comes below the one before functions know without the row.
      if (began >= 0 && began < next && (before === null || (began < before && next >= before))) {
        endNanos[at] = end - (hasReset ? firstBeforeEndNanos : lastButOneBeforeEndNanos);
        values[at++] = began;
      }
      if (hasReset) {
        endNanos[at] = end - cameToBeforeEndNanos;
        values[at++] = cameTo;
        // Of 0, as all are that nothing is written to.
        endNanos[at++] = end - lastButOneBeforeEndNanos;
      }
      endNanos[at] = end;
      values[at++] = last.values[i]!;
      this.#endNanos = end;
      this.#last = last.values[i]!;
    }
    if (at === windows) return last;
    return { endNanos: endNanos.slice(0, at), values: values.slice(0, at) };
  }

  /** The last number that a window goes on from; null when there is none. */
  #before(endNanos: bigint): number | null {
    const before = this.#endNanos;
    return before === null || endNanos - before > this.#reachNanos ? null : this.#last;
  }
}
