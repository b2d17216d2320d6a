/**
 * Keeps the k largest of what is offered; NaN is the least, and of equal values the first stays.
 */
export class BoundedHeap {
  readonly rows: Int32Array;
  readonly #keys: Float64Array;
  #limit: number;
  size: number;

  constructor(capacity: number) {
    this.rows = new Int32Array(capacity);
    this.#keys = new Float64Array(capacity);
    this.#limit = 0;
    this.size = 0;
  }

  reset(limit: number): void {
    this.#limit = Math.max(0, limit);
    this.size = 0;
  }

  #isLess(a: number, b: number): boolean {
    return a < b || (a !== a && b === b);
  }

  offer(row: number, key: number): void {
    if (this.size < this.#limit) {
      let at = this.size++;
      while (at > 0) {
        const parent = (at - 1) >> 1;
        if (!this.#isLess(key, this.#keys[parent]!)) break;
        this.#keys[at] = this.#keys[parent]!;
        this.rows[at] = this.rows[parent]!;
        at = parent;
      }
      this.#keys[at] = key;
      this.rows[at] = row;
      return;
    }
    if (this.size === 0 || !this.#isLess(this.#keys[0]!, key)) return;
    this.#sift(row, key);
  }

  /** Puts a pair in the place of the least. */
  #sift(row: number, key: number): void {
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= this.size) break;
      if (child + 1 < this.size && this.#isLess(this.#keys[child + 1]!, this.#keys[child]!)) {
        child++;
      }
      if (!this.#isLess(this.#keys[child]!, key)) break;
      this.#keys[at] = this.#keys[child]!;
      this.rows[at] = this.rows[child]!;
      at = child;
    }
    this.#keys[at] = key;
    this.rows[at] = row;
  }

  /** Greatest first, NaN last. */
  sortedRows(): number[] {
    const pairs = Array.from({ length: this.size }, (_, i) => ({
      row: this.rows[i]!,
      key: this.#keys[i]!,
    }));
    pairs.sort((a, b) => {
      if (this.#isLess(b.key, a.key)) return -1;
      if (this.#isLess(a.key, b.key)) return 1;
      return a.row - b.row;
    });
    return pairs.map((pair) => pair.row);
  }
}
