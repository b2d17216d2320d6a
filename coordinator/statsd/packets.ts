/**
 * Packets of UDP: each is read where it comes, as long as this turn of the loop has time for it. What comes on top, and long ones,
 * wait and give way to others; of more than there is room for the last ones are lost.
 */
import type { Clock } from '#lib/env/env.ts';
import { Turns } from '#lib/turns/turns.ts';
import { Datagrams } from '../ingest/streams/datagrams.ts';
import { readInTurns } from './read_in_turns.ts';

/** A longer packet may take longer than others should wait. */
const atOnceBytesMax = 4096;

export class Packets implements AsyncDisposable {
  readonly #turns: Turns;
  readonly #waiting: Datagrams;
  readonly #read: (lines: Uint8Array) => void;
  readonly #reading: Promise<void>;
  /** Of those that wait, or are read in turns. */
  #isBehind = false;

  /**
   * @param read takes whole lines
   * @param onDropped called for each packet that is lost
   */
  constructor(
    clock: Pick<Clock, 'monotonicMillis'>,
    read: (lines: Uint8Array) => void,
    onDropped: () => void,
  ) {
    this.#turns = Turns.of(clock);
    this.#read = read;
    this.#waiting = new Datagrams(onDropped);
    this.#reading = this.#readWaiting();
  }

  add(packet: Uint8Array): void {
    const isShort = packet.length <= atOnceBytesMax;
    if (isShort && !this.#isBehind && this.#turns.atOnce(() => this.#read(packet))) return;
    this.#isBehind = true;
    this.#waiting.add(packet);
  }

  async #readWaiting(): Promise<void> {
    // What came is read also when all stops.
    const work = this.#turns.begin(new AbortController().signal, 'write');
    for await (const text of this.#waiting.texts()) {
      await readInTurns(text, work, this.#read);
      this.#isBehind = !this.#waiting.isEmpty;
    }
  }

  /** Resolves when all that came is read. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#waiting.end();
    await this.#reading;
  }
}
