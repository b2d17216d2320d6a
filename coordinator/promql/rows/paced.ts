/** What is done to many things, a part at a time. */
import type { Work } from '#lib/env/turns.ts';

/** About what it takes to look at the labels of a series, in units of work. */
export const labelsUnits = 200;
/** Things that are sorted in one go. */
const sortedAtOnce = 1024;

/** As `items.map(map)`, with labels of series. */
export async function mapPaced<Item, Mapped>(
  items: readonly Item[],
  map: (item: Item, index: number) => Mapped,
  work: Work,
): Promise<Mapped[]> {
  const mapped: Mapped[] = [];
  for (let index = 0; index < items.length; index++) {
    mapped.push(map(items[index]!, index));
    if (work.spend(labelsUnits)) await work.pause();
  }
  return mapped;
}

/** As `items.forEach(visit)`, with labels of series. */
export async function visitPaced<Item>(
  items: readonly Item[],
  visit: (item: Item, index: number) => void,
  work: Work,
): Promise<void> {
  for (let index = 0; index < items.length; index++) {
    visit(items[index]!, index);
    if (work.spend(labelsUnits)) await work.pause();
  }
}

/** As `items.toSorted(compare)`: parts are sorted, and then merged. */
export async function sortPaced<Item>(
  items: readonly Item[],
  compare: (a: Item, b: Item) => number,
  work: Work,
): Promise<Item[]> {
  let sorted: Item[] = [];
  for (let from = 0; from < items.length; from += sortedAtOnce) {
    const part = items.slice(from, from + sortedAtOnce).sort(compare);
    for (const item of part) sorted.push(item);
    if (work.spend(part.length * labelsUnits)) await work.pause();
  }
  for (let width = sortedAtOnce; width < sorted.length; width *= 2) {
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
        if (work.spend(labelsUnits / 4)) await work.pause();
      }
    }
    sorted = merged;
  }
  return sorted;
}
