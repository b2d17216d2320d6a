/**
 * Bodies of HTTP requests: how they are collected. A client that sends slowly, or in the smallest
 * of pieces, costs itself its request and nobody else theirs.
 */
import type * as http from 'node:http';
import { TsdbError } from '../errors.ts';
import { freeBytes } from './in_flight/freed_bytes.ts';
import { Beginnings } from './in_flight/beginnings.ts';
import { BytesInFlight } from './in_flight/bytes_in_flight.ts';

/** A body of unknown length may come in so many pieces, and one more for each so many bytes. */
const piecesMax = 4096;
const pieceBytesMean = 64;
/** Room for the first pieces of a body. */
const firstRoomBytes: number = 16 << 10;
/**
 * Room of a body of known length is so many times what has come, and then all of it. What is only announced takes no memory, but
 * V8 counts it, and collects all of its heap again and again while five hundred announce 15 MiB.
 */
const roomGrowth = 4;

/** Of each turn of the loop what is done with bodies may take so long, when there are many. */
const sliceMillis = 10;
/** So few begin at once, as those of some writers that send at full speed: a turn of the loop for each costs, too. */
const fewBodies = 16;
/** Not those that are longer: compressed, they may be a million rows, which are decoded in one go. */
const shortBytes: number = 32 << 10;
/** Of this process: they come, or wait to be begun with. */
let bodies = 0;
/** Of all servers of this process: they share its loop. */
const beginnings = new Beginnings(sliceMillis);

/** Parts of a body of known length that are so long stay as they came until it is begun with. */
const keptPartBytesMin: number = 16 << 10;

/**
 * Collects the body of a request in one buffer. With a Content-Length long parts are put together when it is begun with,
 * for a thousand bodies may come in one turn of the loop; short ones are written to a buffer that grows with them. A body in one
 * part is not written at all.
 *
 * @param inFlight the body's memory is taken from it as it comes, for what is only announced takes
 *   none, and stays taken: give back `taken` when done
 * @throws {TsdbError} BAD_REQUEST over the limit, in too many pieces, or when the body is cut off;
 *   RESOURCE_EXHAUSTED when `inFlight` has no room, or too little came while others needed its room;
 *   the signal's reason when aborted. Nothing is taken then.
 */
export async function readBody(
  request: http.IncomingMessage,
  options: { readonly bytesMax: number; readonly inFlight?: BytesInFlight },
  signal: AbortSignal,
): Promise<{ readonly body: Uint8Array; readonly taken: number }> {
  const { bytesMax, inFlight = new BytesInFlight(Number.POSITIVE_INFINITY) } = options;
  const declared = declaredLength(request);
  if (declared !== null && declared > bytesMax) throw bodyTooLarge(bytesMax);
  const collected = new CollectedBody(declared, bytesMax);
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const coming = inFlight.begin(bytesMax, (error) => finish(error));
  const finish = (error: unknown): void => {
    request.off('data', onData);
    request.off('end', onEnd);
    request.off('close', onClose);
    signal.removeEventListener('abort', onAbort);
    coming.ended();
    if (error === null) {
      resolve();
      return;
    }
    inFlight.give(coming.bytes);
    collected.forget();
    // The rest of the body is read and dropped, so that the answer reaches the client.
    if (error instanceof TooManyPieces) dropPieces(request);
    else request.resume();
    reject(error as Error);
  };
  const onData = (part: Buffer): void => {
    try {
      const wanted = collected.roomFor(part);
      coming.take(wanted - coming.bytes, part.length);
      collected.add(part, wanted);
    } catch (error) {
      finish(error);
    }
  };
  const cutOff = (): TsdbError => new TsdbError('BAD_REQUEST', 'the request body is cut off');
  const onEnd = (): void =>
    finish(declared !== null && collected.length < declared ? cutOff() : null);
  const onClose = (): void => finish(cutOff());
  const onAbort = (): void => finish(signal.reason);
  if (signal.aborted) finish(signal.reason);
  else {
    request.on('data', onData);
    request.on('end', onEnd);
    request.on('close', onClose);
    signal.addEventListener('abort', onAbort, { once: true });
  }
  bodies++;
  try {
    await promise;
    // A thousand bodies may end in one turn of the loop, and what is done with each begins right here.
    const { length } = collected;
    if (!mayBeginAtOnce(length)) await beginnings.turn(request.socket, length <= shortBytes);
  } finally {
    bodies--;
  }
  return { body: collected.bytes(), taken: coming.bytes };
}

/** Those that began at once in this turn of the loop. */
let begunAtOnce = 0;

/** @param length of the body */
function mayBeginAtOnce(length: number): boolean {
  if (bodies > fewBodies || begunAtOnce >= fewBodies || length > shortBytes) return false;
  if (begunAtOnce++ === 0) {
    setImmediate(() => {
      begunAtOnce = 0;
    });
  }
  return true;
}

/** Bodies in so many pieces that reading them on is what costs: their connections are not kept for long. */
const inPieces = new WeakSet<http.IncomingMessage>();

export function isInPieces(request: http.IncomingMessage): boolean {
  return inPieces.has(request);
}

/** With a listener a piece is dropped where it comes: without one, and paused too, it waits in a queue for a tick. */
function dropPieces(request: http.IncomingMessage): void {
  inPieces.add(request);
  request.on('data', () => {});
}

function declaredLength(request: http.IncomingMessage): number | null {
  const header = request.headers['content-length'];
  return header === undefined ? null : Number(header);
}

function bodyTooLarge(bytesMax: number): TsdbError {
  return new TsdbError('BAD_REQUEST', `the request body is larger than ${bytesMax} bytes`);
}

class TooManyPieces extends TsdbError {}

class CollectedBody {
  readonly #declared: number | null;
  readonly #bytesMax: number;
  /** Parts so far as they came, one where the length is not known: they may hold on to more than their bytes, of which they are most. */
  #parts: Buffer[] = [];
  #whole: Buffer | null = null;
  #pieces = 0;
  length = 0;

  constructor(declared: number | null, bytesMax: number) {
    this.#declared = declared;
    this.#bytesMax = bytesMax;
  }

  /** @returns bytes of memory in all, once the part is added. @throws {TsdbError} BAD_REQUEST */
  roomFor(part: Buffer): number {
    const length = this.length + part.length;
    // Only pages that were written take memory.
    if (this.#declared !== null) return length;
    if (length > this.#bytesMax) throw bodyTooLarge(this.#bytesMax);
    if (++this.#pieces > piecesMax + length / pieceBytesMean) {
      throw new TooManyPieces(
        'BAD_REQUEST',
        `the request body comes in too many pieces: ${this.#pieces} for ${length} bytes`,
      );
    }
    const room = this.#whole?.length ?? 0;
    if (length <= room) return room;
    if (this.#pieces === 1 && part.length >= 2 * firstRoomBytes) return length;
    return Math.min(this.#bytesMax, Math.max(firstRoomBytes, 2 * length));
  }

  /** @param part nobody else's any more. @param room as `roomFor` says */
  add(part: Buffer, room: number): void {
    const { length } = part;
    if (this.#whole === null && this.#isKept(length, room)) this.#parts.push(part);
    else {
      const wanted = this.#declared === null ? room : this.#roomOf(this.length + length);
      if (this.#whole === null || this.#whole.length < wanted) this.#moveTo(wanted);
      part.copy(this.#whole!, this.length);
      freeBytes(part);
    }
    this.length += length;
  }

  /** Of a body of known length. */
  #roomOf(length: number): number {
    const room = this.#whole?.length ?? 0;
    if (length <= room) return room;
    return Math.min(this.#declared!, Math.max(firstRoomBytes, roomGrowth * length));
  }

  #isKept(length: number, room: number): boolean {
    if (this.#declared === null) return this.length === 0 && room === length;
    return length >= keptPartBytesMin || this.length + length === this.#declared;
  }

  /** Writes what has come to a buffer of so many bytes. */
  #moveTo(bytes: number): void {
    const larger = Buffer.allocUnsafeSlow(bytes);
    let end = 0;
    for (const part of this.#whole === null
      ? this.#parts
      : [this.#whole.subarray(0, this.length)]) {
      part.copy(larger, end);
      end += part.length;
      freeBytes(part);
    }
    this.#whole = larger;
    this.#parts = [];
  }

  bytes(): Uint8Array {
    const [first] = this.#parts;
    if (first !== undefined && this.#parts.length === 1) return first;
    if (first !== undefined) this.#moveTo(this.length);
    return (this.#whole ?? Buffer.alloc(0)).subarray(0, this.length);
  }

  forget(): void {
    this.#parts = [];
    this.#whole = null;
  }
}
