/** What comes of a stream while what came before it is written. */
import type { Clock } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';
import { loopTurn } from '#lib/turns/turns.ts';
import type { LineText } from '../line_text.ts';

/** Of all streams, what is gathered beside the chunk that each may hold. */
const gatheredBytesMax: number = 32 << 20;
/** More is on its way behind a chunk of so many bytes, and is waited for so long: a write costs the same for ten times the rows. */
const fullChunkBytes: number = 32 << 10;
const lingerMillis = 10;

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
  readonly #clock: Pick<Clock, 'sleep'>;
  readonly #signal: AbortSignal;
  readonly #text: LineText;
  readonly #all: GatheredBytes;
  #bytes = 0;
  #failure: { readonly error: unknown } | null = null;
  /** Asked for and not there yet. */
  #next: Promise<IteratorResult<Uint8Array>> | null = null;

  /** @param text takes the chunks */
  constructor(
    chunks: AsyncIterable<Uint8Array>,
    text: LineText,
    all: GatheredBytes,
    clock: Pick<Clock, 'sleep'>,
    signal: AbortSignal,
  ) {
    this.#chunks = chunks[Symbol.asyncIterator]();
    this.#clock = clock;
    this.#signal = signal;
    this.#text = text;
    this.#all = all;
  }

  /**
   * Waits for a chunk, and takes those that have come with it as far as they are read at once. A stream that fails has broken off:
   * what came before is whole.
   * @returns after an end nothing comes any more
   * @throws the signal's reason when aborted, unless the stream was cancelled: what is there may still be written
   */
  async more(): Promise<Gathering> {
    this.#note(0);
    try {
      return await this.#take();
    } catch (error) {
      // Others are of this program, not of the stream.
      if (!(error instanceof TsdbError)) throw error;
      if (error.code !== 'CANCELLED') {
        this.#signal.throwIfAborted();
        this.#failure = { error };
      }
      return 'broken off';
    }
  }

  /** @throws what the stream failed with, but for CANCELLED */
  throwFailure(): void {
    if (this.#failure !== null) throw this.#failure.error;
  }

  /** Nothing of it is held any more. */
  release(): void {
    this.#note(0);
  }

  async #take(): Promise<Gathering> {
    let result: IteratorResult<Uint8Array> | null = await (this.#next ?? this.#chunks.next());
    let lingers: Promise<null> | null = null;
    while (result !== null && result.done !== true) {
      this.#next = null;
      const { length } = result.value;
      this.#text.add(result.value);
      this.#note(this.#bytes + length);
      if (this.#text.isEnough || !this.#all.isRoom) return 'more';
      this.#next = this.#chunks.next();
      if (length >= fullChunkBytes) lingers ??= this.#linger();
      result = await Promise.race([this.#next, lingers ?? twoTurns()]);
    }
    return result === null ? 'more' : 'end';
  }

  /** What is there is written when the stream is stopped, too: the write tells whether it may be. */
  #linger(): Promise<null> {
    const over = (): null => null;
    return this.#clock.sleep(lingerMillis, this.#signal).then(over, over);
  }

  #note(bytes: number): void {
    this.#all.add(bytes - this.#bytes);
    this.#bytes = bytes;
  }
}

/** What is there already comes before the loop has looked at its sockets once more. */
async function twoTurns(): Promise<null> {
  await loopTurn();
  await loopTurn();
  return null;
}
