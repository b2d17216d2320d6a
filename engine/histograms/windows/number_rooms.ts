/**
 * Room for the numbers of histograms, which is used again: each series that a query reads needs some hundred kilobytes for
 * a moment, and what the garbage collector does about them would cost as much as what is computed.
 */

/** Smaller ones are cheap enough. */
const roomNumbersMin = 1 << 10;
/** Larger ones are rare, and go back to the system. */
const roomNumbersMax = 1 << 18;
/** What is kept for the next reader, of all sizes together: 16 MiB. */
const keptNumbersMax = 1 << 21;

/** Rooms that nobody uses, by the logarithm of their size. */
const kept: Float64Array[][] = [];
let keptNumbers = 0;

/** Rooms of one reader, until it is done with all of them. */
export class NumberRooms implements Disposable {
  readonly #taken: Float64Array[] = [];

  /** @returns zeros */
  take(length: number): Float64Array {
    if (length < roomNumbersMin || length > roomNumbersMax) return new Float64Array(length);
    const size = Math.ceil(Math.log2(length));
    const known = kept[size]?.pop();
    const room = known ?? new Float64Array(2 ** size);
    this.#taken.push(room);
    const numbers = room.subarray(0, length);
    if (known !== undefined) {
      keptNumbers -= room.length;
      numbers.fill(0);
    }
    return numbers;
  }

  /** Nobody looks at what was taken any more. */
  [Symbol.dispose](): void {
    for (const room of this.#taken.splice(0)) {
      if (keptNumbers + room.length > keptNumbersMax) continue;
      keptNumbers += room.length;
      (kept[Math.log2(room.length)] ??= []).push(room);
    }
  }
}
