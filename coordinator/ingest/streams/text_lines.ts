/** Lines of a stream that comes in chunks, each with its end; what is longer than a line may be is passed over. */
const lineFeed = 0x0a;

export class TextLines {
  #rest: Uint8Array = new Uint8Array(0);
  #isPassing = false;
  readonly #lineBytesMax: number;

  constructor(lineBytesMax: number) {
    this.#lineBytesMax = lineBytesMax;
  }

  /**
   * Whole lines, as they came.
   * @param onLong called for each line that is too long
   */
  add(chunk: Uint8Array, onLong: () => void): Uint8Array | null {
    let from = 0;
    if (this.#isPassing) {
      from = chunk.indexOf(lineFeed) + 1;
      if (from === 0) return null;
      this.#isPassing = false;
    }
    const end = chunk.lastIndexOf(lineFeed) + 1;
    const lines = end <= from ? null : this.#joined(chunk.subarray(from, end));
    const rest = chunk.subarray(Math.max(from, end));
    if (this.#rest.length + rest.length > this.#lineBytesMax) {
      onLong();
      this.#isPassing = true;
      this.#rest = new Uint8Array(0);
    } else if (rest.length > 0) {
      // A copy: a chunk is larger than its last line.
      this.#rest = Buffer.concat([this.#rest, rest]);
    }
    return lines;
  }

  /** The last line, which has no end; null for none. */
  end(): Uint8Array | null {
    const rest = this.#rest;
    this.#rest = new Uint8Array(0);
    return rest.length === 0 ? null : rest;
  }

  #joined(lines: Uint8Array): Uint8Array {
    if (this.#rest.length === 0) return lines;
    const joined = Buffer.concat([this.#rest, lines]);
    this.#rest = new Uint8Array(0);
    return joined;
  }
}
