/** Text that comes in pieces and is read from its begin. Large pieces are kept as they come, small ones are put together. */
import { freeBytes } from '#lib/env/in_flight/freed_bytes.ts';

const smallBytesMax = 4096;
const roomBytes: number = 16 << 10;

const noBytes = new Uint8Array(0);

export class TextPieces {
  readonly #pieces: Uint8Array[] = [];
  /** Of the first piece, which have been read. */
  #readBytes = 0;
  #length = 0;
  /** For small pieces behind the last one; up to `#usedBytes` it is used. */
  #room: Uint8Array = noBytes;
  #usedBytes = 0;
  /** The last piece stands in the room, from there on. */
  #lastFrom = -1;

  get length(): number {
    return this.#length;
  }

  /** @param piece nobody else's any more: it is kept, and its memory freed with `drop` */
  add(piece: Uint8Array): void {
    const isOnly = this.#length === 0;
    this.#length += piece.length;
    if (isOnly || piece.length > smallBytesMax) {
      this.#pieces.push(piece);
      this.#lastFrom = -1;
      return;
    }
    if (this.#room.length - this.#usedBytes < piece.length) {
      this.#room = new Uint8Array(roomBytes);
      this.#usedBytes = 0;
      this.#lastFrom = -1;
    }
    this.#room.set(piece, this.#usedBytes);
    if (this.#lastFrom < 0) {
      this.#lastFrom = this.#usedBytes;
      this.#pieces.push(noBytes);
    }
    this.#usedBytes += piece.length;
    const last = this.#room.subarray(this.#lastFrom, this.#usedBytes);
    this.#pieces[this.#pieces.length - 1] = last;
  }

  /** The first so many bytes, or all. */
  first(bytes: number): Uint8Array[] {
    const some: Uint8Array[] = [];
    let left = Math.min(bytes, this.#length);
    let from = this.#readBytes;
    for (let at = 0; left > 0; at++) {
      const piece = this.#pieces[at]!.subarray(from, from + left);
      some.push(piece);
      left -= piece.length;
      from = 0;
    }
    return some;
  }

  /** The first so many bytes are not needed any more. */
  drop(bytes: number): void {
    this.#length -= bytes;
    this.#readBytes += bytes;
    let count = 0;
    while (count < this.#pieces.length && this.#readBytes >= this.#pieces[count]!.length) {
      this.#readBytes -= this.#pieces[count]!.length;
      count += 1;
    }
    for (const piece of this.#pieces.splice(0, count)) freeBytes(piece);
    if (this.#pieces.length > 0) return;
    this.#room = noBytes;
    this.#usedBytes = 0;
    this.#lastFrom = -1;
  }

  /** @returns bytes before the first one of this value; -1 when there is none */
  indexOf(byte: number): number {
    let before = 0;
    for (const piece of this.first(this.#length)) {
      const at = piece.indexOf(byte);
      if (at >= 0) return before + at;
      before += piece.length;
    }
    return -1;
  }
}
