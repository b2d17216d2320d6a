/** Sorting and joining, a part at a time. */

/** Work that gives way, as `Work` of turns.ts. */
export interface Pausing {
  /** Counts work; true when it is time for `await pause()`. */
  spend(units: number): boolean;
  pause(): Promise<void>;
}

/** Things that are sorted in one go. */
const sortedAtOnce = 1024;
/** About what one comparison takes, in units of work. */
const compareUnits = 50;

/**
 * As `items.toSorted(compare)`: parts are sorted, and then merged.
 * @param units about what a comparison takes
 */
export async function sortPaced<Item>(
  items: readonly Item[],
  compare: (a: Item, b: Item) => number,
  work: Pausing,
  units: number = compareUnits,
): Promise<Item[]> {
  const atOnce = Math.max(2, Math.floor((sortedAtOnce * compareUnits) / units));
  let sorted: Item[] = [];
  for (let from = 0; from < items.length; from += atOnce) {
    const part = items.slice(from, from + atOnce).sort(compare);
    for (const item of part) sorted.push(item);
    if (work.spend(part.length * units * 10)) await work.pause();
  }
  for (let width = atOnce; width < sorted.length; width *= 2) {
    const merged: Item[] = [];
    for (let from = 0; from < sorted.length; from += 2 * width) {
      const middle = Math.min(from + width, sorted.length);
      const past = Math.min(middle + width, sorted.length);
      let left = from;
      let right = middle;
      while (left < middle || right < past) {
        const isLeft =
          right >= past || (left < middle && compare(sorted[left]!, sorted[right]!) <= 0);
        merged.push(sorted[isLeft ? left++ : right++]!);
        if (work.spend(units)) await work.pause();
      }
    }
    sorted = merged;
  }
  return sorted;
}

/** What is in one of two lists without twins, each sorted by `compare`: one such list of both. */
export async function unitePaced<Item>(
  a: readonly Item[],
  b: readonly Item[],
  compare: (a: Item, b: Item) => number,
  work: Pausing,
): Promise<Item[]> {
  const united: Item[] = [];
  let left = 0;
  let right = 0;
  while (left < a.length || right < b.length) {
    const order = left === a.length ? 1 : right === b.length ? -1 : compare(a[left]!, b[right]!);
    united.push(order <= 0 ? a[left]! : b[right]!);
    if (order <= 0) left += 1;
    if (order >= 0) right += 1;
    if (work.spend(compareUnits)) await work.pause();
  }
  return united;
}
