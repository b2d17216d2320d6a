/** Of an odd number of values the one in the middle, of an even one the higher of the two there. */
export function medianOf(all: readonly number[]): number {
  return all.toSorted((a, b) => a - b)[Math.floor(all.length / 2)]!;
}
