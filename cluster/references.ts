/**
 * References that one node gave to the series of one series table in one namespace: slot → (node slot,
 * node generation), valid while the slot has the same series and the node the same epoch.
 */

/** One is spare, so that a slot's words are found by a shift. */
const wordsPerSlot = 4;
const slotsFirst = 1024;

export class References {
  /** The node's reference epoch; '' before its first answer. */
  epoch = '';
  /** Number of the latest request whose answer set the epoch. */
  private epochRequest = 0;
  /** By slot: generation in the series table, node slot, node generation (0 = none). */
  private words = new Uint32Array(slotsFirst * wordsPerSlot);

  /** Makes room for slots up to this one. */
  reserve(slotMax: number): void {
    const needed = (slotMax + 1) * wordsPerSlot;
    if (needed <= this.words.length) return;
    const grown = new Uint32Array(Math.max(needed, this.words.length * 2));
    grown.set(this.words);
    this.words = grown;
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
    const { words } = this;
    let unknownCount = 0;
    for (let row = 0; row < rowCount; row++) {
      const entry = slots[row]! << 2;
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

  /** Forgets the reference of a slot that the node does not know any more. */
  forget(slot: number): void {
    this.words[slot * wordsPerSlot + 2] = 0;
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
    slots: readonly number[],
    generations: readonly number[],
    references: Uint32Array,
  ): void {
    if (epoch !== this.epoch) {
      if (request < this.epochRequest) return;
      this.words.fill(0);
      this.epoch = epoch;
    }
    this.epochRequest = Math.max(this.epochRequest, request);
    const count = Math.min(slots.length, references.length >>> 1);
    for (let i = 0; i < count; i++) {
      const entry = slots[i]! * wordsPerSlot;
      this.words[entry] = generations[i]!;
      this.words[entry + 1] = references[2 * i]!;
      this.words[entry + 2] = references[2 * i + 1]!;
    }
  }
}
