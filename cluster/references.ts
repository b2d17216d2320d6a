/**
 * References that one node gave to the series of one series table in one namespace: slot → (node slot,
 * node generation), valid while the slot has the same series and the node the same epoch. They lie in pages, so that
 * more slots never copy what is there.
 */

/**
 * By slot: generation in the series table, node slot, node generation (0 = none), and while a batch is packed the ordinal + 1
 * of its dictionary entry. Four words, so that they lie in one line of the cache.
 */
const wordsPerSlot = 4;
const pageBits = 13;
const pageSlots = 1 << pageBits;
const slotMask = pageSlots - 1;

export class References {
  /** The node's reference epoch; '' before its first answer. */
  epoch = '';
  /** Number of the latest request whose answer set the epoch. */
  private epochRequest = 0;
  private pages: Uint32Array[] = [];

  /** Makes room for slots up to this one. */
  reserve(slotMax: number): void {
    while (this.pages.length <= slotMax >>> pageBits) {
      this.pages.push(new Uint32Array(pageSlots * wordsPerSlot));
    }
  }

  /**
   * Replaces slots and generations of the series table by the node's, where there is a reference. The hot loop of a write.
   *
   * @param slots and `generations` of the series table, by row; of a row without a reference they stay
   * @param unknown gets the rows that have none
   * @returns the number of those
   */
  resolve(
    rowCount: number,
    slots: Uint32Array,
    generations: Uint32Array,
    unknown: Uint32Array,
  ): number {
    const { pages } = this;
    let unknownCount = 0;
    for (let row = 0; row < rowCount; row++) {
      const slot = slots[row]!;
      const words = pages[slot >>> pageBits]!;
      const entry = (slot & slotMask) << 2;
      const nodeGeneration = words[entry + 2]!;
      if (nodeGeneration !== 0 && words[entry] === generations[row]) {
        slots[row] = words[entry + 1]!;
        generations[row] = nodeGeneration;
      } else {
        unknown[unknownCount++] = row;
      }
    }
    return unknownCount;
  }

  /** Ordinal of the slot's dictionary entry in the batch that is packed, or -1. */
  entryOf(slot: number): number {
    return this.pages[slot >>> pageBits]![((slot & slotMask) << 2) + 3]! - 1;
  }

  setEntry(slot: number, ordinal: number): void {
    this.pages[slot >>> pageBits]![((slot & slotMask) << 2) + 3] = ordinal + 1;
  }

  clearEntry(slot: number): void {
    this.pages[slot >>> pageBits]![((slot & slotMask) << 2) + 3] = 0;
  }

  /** Forgets the reference of a slot that the node does not know any more. */
  forget(slot: number): void {
    const words = this.pages[slot >>> pageBits];
    if (words !== undefined) words[((slot & slotMask) << 2) + 2] = 0;
  }

  /**
   * Takes an answer's epoch and references.
   *
   * @param request number of the request; an answer of another epoch to an older request comes from a
   *   node that has started again since, and is passed over
   * @param slots and `generations` of the dictionary entries, in their order
   * @param references node slot and generation for each
   */
  learn(
    request: number,
    epoch: string,
    slots: ArrayLike<number>,
    generations: ArrayLike<number>,
    references: Uint32Array,
  ): void {
    if (epoch !== this.epoch) {
      if (request < this.epochRequest) return;
      this.pages = [];
      this.epoch = epoch;
    }
    this.epochRequest = Math.max(this.epochRequest, request);
    const count = Math.min(slots.length, references.length >>> 1);
    for (let i = 0; i < count; i++) {
      const slot = slots[i]!;
      this.reserve(slot);
      const words = this.pages[slot >>> pageBits]!;
      const entry = (slot & slotMask) << 2;
      words[entry] = generations[i]!;
      words[entry + 1] = references[2 * i]!;
      words[entry + 2] = references[2 * i + 1]!;
    }
  }
}
