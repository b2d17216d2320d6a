/** Where the answer of a read goes on, in this process, and whose memory it is until it has left. */
import type { Leaving } from './leaving.ts';
import type { ReadBytes, ReadMemory, ReadReservation } from './read_memory.ts';

export interface Delivery {
  /** Of who joins answers: this one is its memory as it comes. What fails gives back what it took. */
  readonly memory?: ReadBytes;
  /** Of a listener that sends the answer on: resolves when its memory is free again. */
  readonly sent?: Promise<unknown>;
  /** How it leaves, together with `sent`. */
  readonly leaving?: Leaving;
}

/**
 * Reads with memory that is given back when the answer has left, or is its taker's.
 * @throws {TsdbError} as `ReadMemory`
 */
export async function readHeld<T>(
  readMemory: ReadMemory,
  { memory, sent, leaving }: Delivery,
  signal: AbortSignal,
  read: (reservation: ReadReservation) => Promise<T>,
): Promise<T> {
  const reservation = await readMemory.enter(0, signal);
  let isSending = false;
  try {
    const answer = await read(reservation);
    if (memory !== undefined) await memory.grow(reservation.usedBytes, signal);
    if (sent !== undefined) {
      isSending = true;
      if (leaving !== undefined) reservation.leaves(leaving);
      const end = (): void => reservation[Symbol.dispose]();
      sent.then(end, end);
    }
    return answer;
  } finally {
    if (!isSending) reservation[Symbol.dispose]();
  }
}
