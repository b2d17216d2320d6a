/** Where a number belongs among ascending ones. */

/** Place of the first that is above the limit; the length without one. */
export function firstAbove(ascending: Int32Array | Float64Array, limit: number): number {
  let [low, high] = [0, ascending.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ascending[middle]! <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}
