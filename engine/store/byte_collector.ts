/**
 * Bytes that come in parts and are kept as one piece; each is copied once when the whole was
 * foreseen.
 */
export class ByteCollector {
  #bytes: Uint8Array<ArrayBuffer>;
  length: number;

  constructor() {
    this.#bytes = new Uint8Array(0);
    this.length = 0;
  }

  /** Says how many bytes are to come in all, as far as one can tell. What is said again and again, a little more each time, is not copied as often. */
  expect(bytes: number): void {
    if (bytes <= this.#bytes.length) return;
    this.#grow(Math.ceil(this.length === 0 ? bytes : Math.max(bytes, 1.5 * this.#bytes.length)));
  }

  /** Takes a copy. */
  append(part: Uint8Array): void {
    const end = this.length + part.length;
    if (end > this.#bytes.length) this.#grow(Math.max(end, 2 * this.#bytes.length));
    this.#bytes.set(part, this.length);
    this.length = end;
  }

  /** All of it; borrowed until the next part comes. */
  view(): Uint8Array<ArrayBuffer> {
    return this.#bytes.subarray(0, this.length);
  }

  #grow(bytes: number): void {
    // Not filled with zeros first, which costs as much as the copy that follows.
    const larger = new Uint8Array(Buffer.allocUnsafeSlow(bytes).buffer);
    larger.set(this.#bytes.subarray(0, this.length));
    this.#bytes = larger;
  }
}
