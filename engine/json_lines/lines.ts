/** The lines of a text that comes in chunks. */

/** Longest line. */
export const jsonLineBytesMax: number = 1 << 20;
const lineFeed = 0x0a;
const noBytes = new Uint8Array(0);

/** `none`: more text has to come first. */
export type NextLine = 'none' | 'blank' | 'too long' | 'line';

export class Lines {
  /** What the line that was taken last stands in. */
  bytes: Uint8Array = noBytes;
  view: DataView = new DataView(noBytes.buffer);
  start = 0;
  end = 0;
  /** That were begun. */
  count = 0;
  /** That were taken, of all lines. */
  takenBytes = 0;
  #at = 0;
  #isEnd = false;
  /** The rest of a line that is too long is passed over. */
  #isPassing = false;

  /** @param chunk not changed any more: it may be kept. What came before has been taken, but for the rest of a line. */
  add(chunk: Uint8Array): void {
    const rest = this.bytes.subarray(this.#at);
    this.bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    const { buffer, byteOffset, length } = this.bytes;
    this.view = new DataView(buffer, byteOffset, length);
    this.#at = 0;
  }

  /** Nothing comes any more. */
  finish(): void {
    this.#isEnd = true;
  }

  /** Takes the next line. */
  next(): NextLine {
    const start = this.#at;
    const { bytes } = this;
    if (start === bytes.length) return 'none';
    const found = bytes.indexOf(lineFeed, start);
    const isWhole = found >= 0 || this.#isEnd;
    const end = found >= 0 ? found : bytes.length;
    const isTooLong = end - start > jsonLineBytesMax;
    const isRest = this.#isPassing;
    if (!isRest) {
      if (!isWhole && !isTooLong) return 'none';
      this.count += 1;
    }
    this.#isPassing = (isRest || isTooLong) && !isWhole;
    this.#at = found >= 0 ? found + 1 : bytes.length;
    this.takenBytes += this.#at - start;
    this.start = start;
    this.end = end;
    if (isRest) return 'blank';
    if (isTooLong) return 'too long';
    return isBlank(bytes, start, end) ? 'blank' : 'line';
  }
}

function isBlank(bytes: Uint8Array, start: number, end: number): boolean {
  for (let at = start; at < end; at++) if (bytes[at]! > 0x20) return false;
  return true;
}
