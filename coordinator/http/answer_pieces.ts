/** Answers that are made of many small parts and sent in pieces of some 64 KiB. */
import { freeWhenSent } from '#lib/env/in_flight/freed_bytes.ts';

const pieceBytes = 65_536;
/** Room of the first one: most answers need no more, and larger memory is the system's each time. */
const firstPieceBytes = 16_384;

const noBytes = Buffer.alloc(0);

/** Collects texts and bytes until they make a piece. */
export class AnswerPieces {
  #bytes: Buffer;
  #length: number;

  constructor() {
    this.#bytes = Buffer.allocUnsafe(firstPieceBytes);
    this.#length = 0;
  }

  #reserve(count: number): void {
    if (count <= this.#bytes.length - this.#length) return;
    const doubled = this.#bytes.length === 0 ? 2 * pieceBytes : 2 * this.#bytes.length;
    const larger = Buffer.allocUnsafe(Math.max(doubled, this.#length + count));
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }

  add(text: string): void {
    this.#reserve(text.length * 3);
    this.#length += this.#bytes.write(text, this.#length);
  }

  addBytes(bytes: Uint8Array): void {
    this.#reserve(bytes.length);
    this.#bytes.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  get isFull(): boolean {
    return this.#length >= pieceBytes;
  }

  /** What was added since the last one; its memory is freed when it was sent. */
  take(): Uint8Array {
    const piece = this.#bytes.subarray(0, this.#length);
    // The first one is often a part of memory that all share.
    const isWhole = this.#bytes.length === this.#bytes.buffer.byteLength;
    if (this.#length > 0 && isWhole) freeWhenSent(piece);
    this.#bytes = noBytes;
    this.#length = 0;
    return piece;
  }
}

/** The same bytes in pieces of that size, where parts are small. */
export function* inPieces(parts: Iterable<Uint8Array>): Iterable<Uint8Array> {
  const pieces = new AnswerPieces();
  for (const part of parts) {
    pieces.addBytes(part);
    if (pieces.isFull) yield pieces.take();
  }
  yield pieces.take();
}
