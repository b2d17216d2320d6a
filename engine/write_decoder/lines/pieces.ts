/** Pieces of a text one after the other, read from its begin to its end. */
export class TextOfPieces {
  readonly #pieces: readonly Uint8Array[];
  readonly length: number;
  /** A piece, and where it begins. */
  #piece = 0;
  #from = 0;

  constructor(pieces: readonly Uint8Array[]) {
    this.#pieces = pieces;
    this.length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  }

  /**
   * Copies bytes of the text, from one on that is not before those of the last time.
   * @returns how many; fewer than asked for at the end
   */
  copyTo(target: Uint8Array, targetAt: number, from: number, bytes: number): number {
    const pieces = this.#pieces;
    while (this.#piece < pieces.length && this.#from + pieces[this.#piece]!.length <= from) {
      this.#from += pieces[this.#piece]!.length;
      this.#piece += 1;
    }
    const end = Math.min(from + bytes, this.length);
    let pieceFrom = this.#from;
    for (let at = this.#piece; pieceFrom < end; at++) {
      const piece = pieces[at]!;
      const first = Math.max(from - pieceFrom, 0);
      const some = piece.subarray(first, end - pieceFrom);
      target.set(some, targetAt + pieceFrom + first - from);
      pieceFrom += piece.length;
    }
    return end - from;
  }
}
