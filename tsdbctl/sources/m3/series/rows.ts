/** Rows of a series, as they are read and as they are handed on. */
import type { NanosRange } from '../../source.ts';

export interface Rows {
  readonly timestampNanos: BigInt64Array<ArrayBuffer>;
  readonly values: Float64Array<ArrayBuffer>;
}

const two32 = 2 ** 32;

/** Rows by their times, of equal ones the last. */
export function sortedRows({ timestampNanos, values }: Rows): Rows {
  const times = new Int32Array(timestampNanos.buffer);
  const count = timestampNanos.length;
  let ascends = true;
  for (let row = 1; row < count && ascends; row += 1) ascends = apart(times, row, row - 1) > 0;
  if (ascends) return { timestampNanos, values };
  const order = orderOf(times, count);
  const bits = new Int32Array(values.buffer);
  const sortedTimes = new Int32Array(2 * count);
  const sortedBits = new Int32Array(2 * count);
  let kept = 0;
  for (let at = 0; at < count; at += 1) {
    const row = order[at]!;
    if (at + 1 < count && apart(times, order[at + 1]!, row) === 0) continue;
    sortedTimes[2 * kept] = times[2 * row]!;
    sortedTimes[2 * kept + 1] = times[2 * row + 1]!;
    sortedBits[2 * kept] = bits[2 * row]!;
    sortedBits[2 * kept + 1] = bits[2 * row + 1]!;
    kept += 1;
  }
  return {
    timestampNanos: new BigInt64Array(sortedTimes.buffer).slice(0, kept),
    values: new Float64Array(sortedBits.buffer).slice(0, kept),
  };
}

/** Its sign is that of the difference of two times, though not each digit. */
function apart(times: Int32Array, a: number, b: number): number {
  const high = times[2 * a + 1]! - times[2 * b + 1]!;
  return high * two32 + ((times[2 * a]! >>> 0) - (times[2 * b]! >>> 0));
}

/** Places that rows move, for each row; with more another way of sorting is faster. */
const movesPerRowMax = 8;

/** Rows by their times, those of equal times as they are. Most are at their places, or near. */
function orderOf(times: Int32Array, count: number): Uint32Array {
  const order = new Uint32Array(count);
  let moves = movesPerRowMax * count;
  for (let row = 0; row < count; row += 1) {
    let place = row;
    for (; place > 0 && apart(times, order[place - 1]!, row) > 0; place -= 1) {
      order[place] = order[place - 1]!;
      moves -= 1;
    }
    order[place] = row;
    if (moves < 0) {
      return order.map((_, at) => at).sort((a, b) => apart(times, a, b));
    }
  }
  return order;
}

/** Those of the range, of rows by their times. */
export function rowsWithin({ timestampNanos, values }: Rows, range: NanosRange): Rows {
  const from = placeOf(timestampNanos, range.startNanos);
  const to = placeOf(timestampNanos, range.endNanos);
  if (from === 0 && to === timestampNanos.length) return { timestampNanos, values };
  return { timestampNanos: timestampNanos.slice(from, to), values: values.slice(from, to) };
}

/** How many are before the time. */
function placeOf(timestampNanos: BigInt64Array, nanos: bigint): number {
  let from = 0;
  let to = timestampNanos.length;
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (timestampNanos[middle]! < nanos) from = middle + 1;
    else to = middle;
  }
  return from;
}
