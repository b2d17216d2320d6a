/** What is done to many things, a part at a time. */
import type { Work } from '#lib/turns/turns.ts';

/** About what it takes to look at the labels of a series, in units of work (lib/turns/turns.ts). */
export const labelsUnits = 200;
/** Of a name that is looked for in them. */
const nameUnits = 50;

/** The same when these names are looked for in them. */
export function namesUnits(names: readonly string[]): number {
  return labelsUnits + nameUnits * names.length;
}

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
