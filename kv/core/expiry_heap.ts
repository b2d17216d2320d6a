/**
 * What ends at some time, the first one at the top: a binary heap in which each one knows its place, so that
 * one whose time changes, or that goes early, moves by a few steps. Leases are renewed far more often than
 * they end.
 */

export interface Ending {
  readonly id: bigint;
  expiryMillis: number;
  /** Where it is in the heap, which alone sets it. */
  place: number;
}

export class ExpiryHeap<Item extends Ending> {
  readonly #items: Item[] = [];

  /** The one that ends first, of several the one with the least id. */
  get first(): Item | undefined {
    return this.#items[0];
  }

  add(item: Item): void {
    this.#put(item, this.#items.length);
    this.#rise(item);
  }

  remove(item: Item): void {
    const last = this.#items.pop()!;
    if (last === item) return;
    this.#put(last, item.place);
    this.moved(last);
  }

  /** Its time has changed. */
  moved(item: Item): void {
    this.#rise(item);
    this.#sink(item);
  }

  #rise(item: Item): void {
    while (item.place > 0) {
      const { place } = item;
      const parent = this.#items[(place - 1) >>> 1]!;
      if (!endsBefore(item, parent)) return;
      this.#put(item, parent.place);
      this.#put(parent, place);
    }
  }

  #sink(item: Item): void {
    for (;;) {
      const { place } = item;
      const left = this.#items[2 * place + 1];
      const right = this.#items[2 * place + 2];
      if (left === undefined) return;
      const child = right !== undefined && endsBefore(right, left) ? right : left;
      if (!endsBefore(child, item)) return;
      this.#put(item, child.place);
      this.#put(child, place);
    }
  }

  #put(item: Item, place: number): void {
    this.#items[place] = item;
    item.place = place;
  }
}

function endsBefore(left: Ending, right: Ending): boolean {
  if (left.expiryMillis !== right.expiryMillis) return left.expiryMillis < right.expiryMillis;
  return left.id < right.id;
}
