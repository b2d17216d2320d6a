/** Datagrams of lines as one text: each ends its last line. While nobody takes the text they wait, as far as there is room. */

/** Of all that wait, with what each takes beside its bytes. */
const waitingBytesMax: number = 8 << 20;
/** What a datagram takes beside its bytes, about. */
const datagramBytes = 256;
/** Of what is taken at once. */
const textBytesMax = 256 * 1024;
const lineFeed: Uint8Array = Uint8Array.of(0x0a);

export class Datagrams {
  #waiting: Uint8Array[] = [];
  #bytes = 0;
  #wake: (() => void) | null = null;
  #isEnd = false;
  readonly #onDropped: () => void;

  /** @param onDropped called for each one that there is no room for */
  constructor(onDropped: () => void) {
    this.#onDropped = onDropped;
  }

  /** None waits. */
  get isEmpty(): boolean {
    return this.#waiting.length === 0;
  }

  add(message: Uint8Array): void {
    if (message.length === 0) return;
    if (this.#bytes + heldBytes(message) > waitingBytesMax) {
      this.#onDropped();
      return;
    }
    this.#waiting.push(message);
    this.#bytes += heldBytes(message);
    this.#wake?.();
  }

  /** Nothing comes any more. */
  end(): void {
    this.#isEnd = true;
    this.#wake?.();
  }

  /** All that wait, as soon as there are any, until the end. */
  async *texts(): AsyncGenerator<Uint8Array> {
    while (true) {
      if (this.#waiting.length > 0) yield this.#take();
      else if (this.#isEnd) return;
      else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        this.#wake = null;
      }
    }
  }

  /** Those that wait are nobody's any more. */
  drop(): void {
    for (const _ of this.#waiting) this.#onDropped();
    this.#waiting = [];
    this.#bytes = 0;
  }

  #take(): Uint8Array {
    let count = 0;
    let bytes = 0;
    while (count < this.#waiting.length && bytes < textBytesMax)
      bytes += heldBytes(this.#waiting[count++]!);
    const taken = this.#waiting.splice(0, count);
    this.#bytes -= bytes;
    return Buffer.concat(taken.flatMap((message) => [message, lineFeed]));
  }
}

function heldBytes(message: Uint8Array): number {
  return message.length + datagramBytes;
}
