/** Slots of series that are out of the index and not yet free in the store. */
export class LeavingSlots {
  readonly #pages: (Uint32Array | undefined)[] = [];
  count = 0;

  has(slot: number): boolean {
    const page = this.#pages[slot >>> pageBits];
    return page !== undefined && (page[(slot & slotMask) >>> 5]! & (1 << (slot & 31))) !== 0;
  }

  add(slot: number): void {
    const page = (this.#pages[slot >>> pageBits] ??= new Uint32Array(pageWords));
    page[(slot & slotMask) >>> 5]! |= 1 << (slot & 31);
    this.count += 1;
  }

  delete(slot: number): void {
    this.#pages[slot >>> pageBits]![(slot & slotMask) >>> 5]! &= ~(1 << (slot & 31));
    this.count -= 1;
    if (this.count === 0) this.#pages.length = 0;
  }
}

const pageBits = 15;
const slotMask = (1 << pageBits) - 1;
const pageWords = 1 << (pageBits - 5);
