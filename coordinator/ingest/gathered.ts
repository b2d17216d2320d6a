/** What comes of a stream while what came before it is written. */
import { loopTurn } from '#lib/turns/turns.ts';
import type { LineText } from './line_text.ts';

export class Gathered {
  readonly #chunks: AsyncIterator<Uint8Array>;
  readonly #text: LineText;
  /** Asked for and not there yet. */
  #next: Promise<IteratorResult<Uint8Array>> | null = null;

  /** @param text takes the chunks */
  constructor(chunks: AsyncIterable<Uint8Array>, text: LineText) {
    this.#chunks = chunks[Symbol.asyncIterator]();
    this.#text = text;
  }

  /**
   * Waits for a chunk, and takes those that have come with it as far as they are read at once.
   * @returns false at the end of the stream, after which nothing comes
   * @throws what the stream throws
   */
  async more(): Promise<boolean> {
    let result: IteratorResult<Uint8Array> | null = await this.#take();
    while (result !== null && result.done !== true) {
      this.#text.add(result.value);
      if (this.#text.isEnough) return true;
      // What is there already comes before a turn of the loop is over.
      this.#next = this.#chunks.next();
      result = await Promise.race([this.#next, loopTurn().then(() => null)]);
      if (result !== null) this.#next = null;
    }
    if (result === null) return true;
    this.#text.end();
    return false;
  }

  #take(): Promise<IteratorResult<Uint8Array>> {
    const next = this.#next ?? this.#chunks.next();
    this.#next = null;
    return next;
  }
}
