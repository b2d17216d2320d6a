/**
 * Which series stand in the dictionary of the open segment of the commit log: one bit a slot, so
 * that what every row of every batch asks stays near the processor whatever number of series there
 * is.
 */
export class RecordedSeries {
  #segment = -1;
  #words = new Uint32Array(2);

  /**
   * What is asked and added from now on is about this segment: another one than before has no
   * series yet.
   */
  begin(segment: number): void {
    if (segment === this.#segment) return;
    this.#segment = segment;
    this.#words.fill(0);
  }

  /** Makes room for slots below this. */
  reserve(slotsEnd: number): void {
    if (slotsEnd <= this.#words.length * 32) return;
    const larger = new Uint32Array(Math.ceil((slotsEnd / 32) * 1.5));
    larger.set(this.#words);
    this.#words = larger;
  }

  /** Notes the series of a reserved slot. @returns whether it was noted before */
  add(slot: number): boolean {
    const words = this.#words;
    const before = words[slot >>> 5]!;
    const bit = 1 << (slot & 31);
    if ((before & bit) !== 0) return true;
    words[slot >>> 5] = before | bit;
    return false;
  }

  /** The slot has another series now. */
  forget(slot: number): void {
    this.#words[slot >>> 5]! &= ~(1 << (slot & 31));
  }
}
