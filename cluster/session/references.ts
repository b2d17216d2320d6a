/**
 * References that one node gave to the series of one series table in one namespace: slot → (node
 * slot, node generation), valid while the slot has the same series and the node the same epoch.
 */

/**
 * By slot two words: the node's slot, and both generations (that of the series table in the upper
 * half; 0 = there is no reference). While a batch is packed the first word of a slot without a
 * reference holds the ordinal + 1 of its dictionary entry. Every row of every write looks its slot
 * up at random, so the fewer bytes the better.
 */
const wordsPerSlot = 2;
/**
 * A slot that was given to more series than that keeps no reference: its rows name their series in
 * full.
 */
const generationMax = 0xffff;
const firstSlots = 1024;
/**
 * Rows whose words are read ahead together, so that the waits for them overlap: 62 → 20 ns a row
 * with a million series.
 */
const rowsTouched = 64;

export class References {
  /** The node's reference epoch; '' before its first answer. */
  epoch = '';
  /** Number of the latest request whose answer set the epoch. */
  #epochRequest = 0;
  #words: Uint32Array;
  #isDropped = false;
  readonly #onBytes: (difference: number) => void;
  /** Takes what is read only to have it near. */
  readonly #touched = new Uint32Array(1);

  /** @param onBytes told how many more bytes are taken now, or fewer */
  constructor(onBytes: (difference: number) => void = () => {}) {
    this.#onBytes = onBytes;
    this.#words = new Uint32Array(firstSlots * wordsPerSlot);
    onBytes(this.#words.byteLength);
  }

  get bytes(): number {
    return this.#words.byteLength;
  }

  /** Bytes once there is room for slots up to this one. */
  bytesWith(slotMax: number): number {
    return this.#wordsWith(slotMax) * Uint32Array.BYTES_PER_ELEMENT;
  }

  /** Makes room for slots up to this one. */
  reserve(slotMax: number): void {
    const words = this.#words;
    const needed = this.#wordsWith(slotMax);
    if (needed === words.length) return;
    const larger = new Uint32Array(needed);
    larger.set(words);
    if (!this.#isDropped) this.#onBytes(larger.byteLength - words.byteLength);
    this.#words = larger;
  }

  #wordsWith(slotMax: number): number {
    const { length } = this.#words;
    const needed = (slotMax + 1) * wordsPerSlot;
    return needed <= length ? length : Math.max(needed, Math.ceil(length * 1.5));
  }

  /** Forgets all, and learns nothing any more: what is on its way still goes by it. */
  drop(): void {
    if (this.#isDropped) return;
    this.#onBytes(-this.#words.byteLength);
    this.#isDropped = true;
    this.#words = new Uint32Array(firstSlots * wordsPerSlot);
    this.epoch = '';
  }

  /**
   * Replaces slots and generations of the series table by the node's, where there is a reference.
   * The hot loop of a write.
   *
   * @param slots and `generations` of the series table, by row; of a row without a reference they
   * stay
   * @param unknown gets the rows that have none
   * @returns the number of those
   */
  resolve(
    rowCount: number,
    slots: Uint32Array,
    generations: Uint32Array,
    unknown: Uint32Array,
  ): number {
    const words = this.#words;
    let unknownCount = 0;
    let touched = 0;
    for (let start = 0; start < rowCount; start += rowsTouched) {
      const end = Math.min(rowCount, start + rowsTouched);
      for (let row = start; row < end; row++) touched ^= words[slots[row]! * wordsPerSlot]!;
      for (let row = start; row < end; row++) {
        const entry = slots[row]! * wordsPerSlot;
        const both = words[entry + 1]!;
        if (both !== 0 && both >>> 16 === generations[row]) {
          slots[row] = words[entry]!;
          generations[row] = both & generationMax;
        } else {
          unknown[unknownCount++] = row;
        }
      }
    }
    this.#touched[0] = touched;
    return unknownCount;
  }

  /**
   * Ordinal of the dictionary entry in the batch that is packed, of a slot without a reference; -1
   * when it has none yet.
   */
  entryOf(slot: number): number {
    const words = this.#words;
    const entry = slot * wordsPerSlot;
    return words[entry + 1] === 0 ? words[entry]! - 1 : -1;
  }

  /** Of a slot without a reference, or with one of the series before. */
  setEntry(slot: number, ordinal: number): void {
    const words = this.#words;
    const entry = slot * wordsPerSlot;
    words[entry] = ordinal + 1;
    words[entry + 1] = 0;
  }

  clearEntry(slot: number): void {
    this.#words[slot * wordsPerSlot] = 0;
  }

  /** Forgets the reference of a slot that the node does not know any more. */
  forget(slot: number): void {
    this.#words.fill(0, slot * wordsPerSlot, (slot + 1) * wordsPerSlot);
  }

  /**
   * Takes an answer's epoch and references.
   *
   * @param request number of the request; an answer of another epoch to an older request comes from
   *   a node that has started again since, and is passed over
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
    if (this.#isDropped) return;
    if (epoch !== this.epoch) {
      if (request < this.#epochRequest) return;
      this.#words.fill(0);
      this.epoch = epoch;
    }
    this.#epochRequest = Math.max(this.#epochRequest, request);
    const count = Math.min(slots.length, references.length >>> 1);
    for (let i = 0; i < count; i++) {
      const slot = slots[i]!;
      this.reserve(slot);
      const words = this.#words;
      const entry = slot * wordsPerSlot;
      const generation = generations[i]!;
      const nodeGeneration = references[2 * i + 1]!;
      const isKept = nodeGeneration !== 0 && Math.max(generation, nodeGeneration) <= generationMax;
      words[entry] = isKept ? references[2 * i]! : 0;
      words[entry + 1] = isKept ? ((generation << 16) | nodeGeneration) >>> 0 : 0;
    }
  }
}
