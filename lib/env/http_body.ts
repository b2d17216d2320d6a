/**
 * Bodies of requests: how they are collected, and what all of them may hold. A client that sends
 * slowly, or in the smallest of pieces, costs itself its request and nobody else theirs.
 */
import type * as http from 'node:http';
import { TsdbError } from '../errors.ts';

/** While there is no room, bodies that come more slowly than this give way to others. */
export const slowBytesPerSecond: number = 16 << 10;
/** Of the room, this part is left to small bodies, unless one large one needs it all. */
const smallPart = 1 / 8;
export const smallBodyBytes: number = 1 << 20;
/** A body of unknown length may come in so many pieces, and one more for each so many bytes. */
const piecesMax = 4096;
const pieceBytesMean = 64;
/** Room for the first pieces of a body of unknown length. */
const firstRoomBytes: number = 16 << 10;

/**
 * Bytes that requests may hold in memory together, counted from when they come until their request
 * is answered; shared by the endpoints of a server.
 */
export class BytesInFlight {
  readonly #bytesMax: number;
  #held = 0;
  /** Bodies that are not whole yet. */
  readonly #coming = new Set<ComingBody>();

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#held;
  }

  /** A body begins to come, of at most so many bytes. */
  begin(bodyBytesMax: number, cut: (error: TsdbError) => void): ComingBody {
    const body = new ComingBody(this, bodyBytesMax, cut);
    this.#coming.add(body);
    return body;
  }

  /** False when there is no room, not even that of bodies that come slowly. */
  take(body: ComingBody, bytes: number): boolean {
    const isSmall = body.bytes + bytes <= smallBodyBytes;
    const bytesMax = this.#bytesMax;
    const max = isSmall ? bytesMax : Math.max(bytesMax * (1 - smallPart), body.bytesMax);
    while (this.#held + bytes > max) {
      const slowest = this.#slowest(body);
      if (slowest === null) return false;
      slowest.cut(
        new TsdbError(
          'RESOURCE_EXHAUSTED',
          `the body came too slowly while others waited for its room: fewer than ${slowBytesPerSecond} bytes a second`,
        ),
      );
    }
    this.#held += bytes;
    return true;
  }

  /** Of the slow ones the one that holds most. */
  #slowest(besides: ComingBody): ComingBody | null {
    const now = performance.now();
    let most: ComingBody | null = null;
    for (const body of this.#coming) {
      if (body === besides || body.bytes === 0 || !body.isSlow(now)) continue;
      if (most === null || body.bytes > most.bytes) most = body;
    }
    return most;
  }

  /** It is whole, or nobody waits for it any more; what it holds stays taken. */
  ended(body: ComingBody): void {
    this.#coming.delete(body);
  }

  give(bytes: number): void {
    this.#held -= bytes;
  }
}

/** What of a body has come. */
class ComingBody {
  readonly #inFlight: BytesInFlight;
  readonly bytesMax: number;
  readonly cut: (error: TsdbError) => void;
  /** Taken for it. */
  bytes = 0;
  #lastMillis: number = performance.now();
  #secondStartedMillis: number = this.#lastMillis;
  #bytesOfSecond = 0;
  /** Of the last whole second; unknown in the first one. */
  #bytesPerSecond: number = Number.POSITIVE_INFINITY;

  constructor(inFlight: BytesInFlight, bytesMax: number, cut: (error: TsdbError) => void) {
    this.#inFlight = inFlight;
    this.bytesMax = bytesMax;
    this.cut = cut;
  }

  /** @param taken of memory, for @param came that have come */
  take(taken: number, came: number): void {
    if (!this.#inFlight.take(this, taken)) {
      throw new TsdbError(
        'RESOURCE_EXHAUSTED',
        'too many bytes of requests in flight, retry later',
      );
    }
    this.bytes += taken;
    this.#lastMillis = performance.now();
    const millis = this.#lastMillis - this.#secondStartedMillis;
    if (millis >= 1000) {
      this.#bytesPerSecond = (this.#bytesOfSecond * 1000) / millis;
      this.#bytesOfSecond = 0;
      this.#secondStartedMillis = this.#lastMillis;
    }
    this.#bytesOfSecond += came;
  }

  /** Nothing came for a second, or little in the one before. */
  isSlow(nowMillis: number): boolean {
    return nowMillis - this.#lastMillis >= 1000 || this.#bytesPerSecond < slowBytesPerSecond;
  }

  ended(): void {
    this.#inFlight.ended(this);
  }
}

/**
 * Collects the body of a request in one buffer. With a Content-Length the bytes are written once,
 * where they stay, or not at all when they come in one part; without one the buffer grows with
 * them.
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
    request.resume();
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
  await promise;
  return { body: collected.bytes(), taken: coming.bytes };
}

function declaredLength(request: http.IncomingMessage): number | null {
  const header = request.headers['content-length'];
  return header === undefined ? null : Number(header);
}

function bodyTooLarge(bytesMax: number): TsdbError {
  return new TsdbError('BAD_REQUEST', `the request body is larger than ${bytesMax} bytes`);
}

class CollectedBody {
  readonly #declared: number | null;
  readonly #bytesMax: number;
  /** The only part so far, as it came: it may hold on to more than its bytes, of which it is most. */
  #first: Buffer | null = null;
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
    // What is announced is written to where it stays: only pages that were written take memory.
    if (this.#declared !== null) return length;
    if (length > this.#bytesMax) throw bodyTooLarge(this.#bytesMax);
    if (++this.#pieces > piecesMax + length / pieceBytesMean) {
      throw new TsdbError(
        'BAD_REQUEST',
        `the request body comes in too many pieces: ${this.#pieces} for ${length} bytes`,
      );
    }
    const room = this.#whole?.length ?? 0;
    if (length <= room) return room;
    if (this.#pieces === 1 && part.length >= 2 * firstRoomBytes) return length;
    return Math.min(this.#bytesMax, Math.max(firstRoomBytes, 2 * length));
  }

  /** @param room as `roomFor` says */
  add(part: Buffer, room: number): void {
    const isOnly = this.length === 0 && (part.length === this.#declared || room === part.length);
    if (isOnly) this.#first = part;
    else {
      const wanted = this.#declared ?? room;
      if (this.#whole === null || this.#whole.length < wanted) {
        const larger = Buffer.allocUnsafeSlow(wanted);
        const former = this.#whole ?? this.#first;
        former?.copy(larger, 0, 0, this.length);
        this.#whole = larger;
        this.#first = null;
      }
      part.copy(this.#whole, this.length);
    }
    this.length += part.length;
  }

  bytes(): Uint8Array {
    return this.#first ?? (this.#whole ?? Buffer.alloc(0)).subarray(0, this.length);
  }

  forget(): void {
    this.#first = null;
    this.#whole = null;
  }
}
