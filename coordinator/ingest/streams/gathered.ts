/** What comes of a stream while what came before it is written. */
import { TsdbError } from '#lib/errors.ts';
import { loopTurn } from '#lib/turns/turns.ts';
import type { LineText } from '../line_text.ts';

/** Of all streams, what is gathered beside the chunk that each may hold. */
const gatheredBytesMax: number = 32 << 20;

/** How the taking of chunks ended. */
export type Gathering = 'more' | 'end' | 'broken off';

/** What all streams have gathered. */
export class GatheredBytes {
  #bytes = 0;

  get isRoom(): boolean {
    return this.#bytes < gatheredBytesMax;
  }

  add(bytes: number): void {
    this.#bytes += bytes;
  }
}

export class Gathered {
  readonly #chunks: AsyncIterator<Uint8Array>;
  readonly #text: LineText;
  readonly #all: GatheredBytes;
  #bytes = 0;
  /** Asked for and not there yet. */
  #next: Promise<IteratorResult<Uint8Array>> | null = null;

  /** @param text takes the chunks */
  constructor(chunks: AsyncIterable<Uint8Array>, text: LineText, all: GatheredBytes) {
    this.#chunks = chunks[Symbol.asyncIterator]();
    this.#text = text;
    this.#all = all;
  }

  /**
   * Waits for a chunk, and takes those that have come with it as far as they are read at once.
   * @returns after an end nothing comes any more
   * @throws what the stream throws, but for CANCELLED
   */
  async more(): Promise<Gathering> {
    this.#note(0);
    try {
      return await this.#take();
    } catch (error) {
      if (error instanceof TsdbError && error.code === 'CANCELLED') return 'broken off';
      throw error;
    }
  }

  /** Nothing of it is held any more. */
  release(): void {
    this.#note(0);
  }

  async #take(): Promise<Gathering> {
    let result: IteratorResult<Uint8Array> | null = await (this.#next ?? this.#chunks.next());
    while (result !== null && result.done !== true) {
      this.#next = null;
      this.#text.add(result.value);
      this.#note(this.#bytes + result.value.length);
      if (this.#text.isEnough || !this.#all.isRoom) return 'more';
      // What is there already comes before a turn of the loop is over.
      this.#next = this.#chunks.next();
      result = await Promise.race([this.#next, loopTurn().then(() => null)]);
    }
    return result === null ? 'more' : 'end';
  }

  #note(bytes: number): void {
    this.#all.add(bytes - this.#bytes);
    this.#bytes = bytes;
  }
}
