/** Rows of a series, as they are read and as they are handed on. */

export interface Rows {
  readonly timestampNanos: BigInt64Array<ArrayBuffer>;
  readonly values: Float64Array<ArrayBuffer>;
}

/** Inclusive and exclusive. */
export interface NanosRange {
  readonly startNanos: bigint;
  readonly endNanos: bigint;
}

/** All times that there are, but for the very last nanosecond. */
export const allTimes: NanosRange = { startNanos: -(2n ** 63n), endNanos: 2n ** 63n - 1n };

const two32 = 2 ** 32;

/** Rows by their times, of equal ones the last. */
export function sortedRows({ timestampNanos, values }: Rows): Rows {
  const words = new Int32Array(timestampNanos.buffer);
  // Its sign is that of the difference, though not each digit.
  const apart = (a: number, b: number): number =>
    (words[2 * a + 1]! - words[2 * b + 1]!) * two32 +
    ((words[2 * a]! >>> 0) - (words[2 * b]! >>> 0));
  const count = timestampNanos.length;
  let ascends = true;
  for (let row = 1; row < count && ascends; row += 1) ascends = apart(row, row - 1) > 0;
  if (ascends) return { timestampNanos, values };
  const order = Uint32Array.from({ length: count }, (_, row) => row).sort(apart);
  const last = order.filter((row, at) => at + 1 === count || apart(order[at + 1]!, row) !== 0);
  // Bits of values move as whole numbers do.
  const bits = new BigUint64Array(values.buffer);
  const sortedBits = BigUint64Array.from(last, (row) => bits[row]!);
  return {
    timestampNanos: BigInt64Array.from(last, (row) => timestampNanos[row]!),
    values: new Float64Array(sortedBits.buffer),
  };
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
