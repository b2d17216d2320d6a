/**
 * What the requests of a server may hold in memory together. While there is no room, those that
 * come too slowly give theirs to others.
 */
import { TsdbError } from '../../errors.ts';

/** While there is no room, bodies that come more slowly than this give way to others. */
export const slowBytesPerSecond: number = 16 << 10;
/** Of the room, this part is left to small bodies, unless one large one needs it all. */
const smallPart = 1 / 8;
/** So much more than is needed is made free when slow bodies give way. */
const sparePart = 1 / 64;
/** How long no slow one is looked for when none was left. */
const lookMillis = 10;
export const smallBodyBytes: number = 1 << 20;

/**
 * Bytes that requests may hold in memory together, counted from when they come until their request
 * is answered; shared by the endpoints of a server.
 */
export class BytesInFlight {
  readonly #bytesMax: number;
  #held = 0;
  /** Bodies that are not whole yet. */
  readonly #coming = new Set<ComingBody>();
  #noneSlowUntilMillis = 0;

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
    if (this.#held + bytes > max) this.#cutSlow(body, max - bytes);
    if (this.#held + bytes > max) return false;
    this.#held += bytes;
    return true;
  }

  /**
   * Those that hold most first, until there is room, and a little more: thousands of small ones are
   * not looked through again for each that comes.
   */
  #cutSlow(besides: ComingBody, heldMax: number): void {
    const now = performance.now();
    if (now < this.#noneSlowUntilMillis) return;
    const slow: ComingBody[] = [];
    for (const body of this.#coming) {
      if (body !== besides && body.bytes > 0 && body.isSlow(now)) slow.push(body);
    }
    slow.sort((one, other) => other.bytes - one.bytes);
    const error = new TsdbError(
      'RESOURCE_EXHAUSTED',
      `the body came too slowly while others waited for its room: fewer than ${slowBytesPerSecond} bytes a second`,
    );
    const sparedMax = heldMax - this.#bytesMax * sparePart;
    for (const body of slow) {
      if (this.#held <= sparedMax) return;
      if (this.#coming.has(body)) body.cut(error);
    }
    this.#noneSlowUntilMillis = now + lookMillis;
  }

  /** It is whole, or nobody waits for it any more; what it holds stays taken. */
  ended(body: ComingBody): void {
    this.#coming.delete(body);
  }

  goesOn(body: ComingBody): void {
    this.#coming.add(body);
  }

  give(bytes: number): void {
    this.#held -= bytes;
  }
}

/** What of a body has come. */
export class ComingBody {
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

  /** There is more to come after all. */
  goesOn(): void {
    this.#lastMillis = performance.now();
    this.#inFlight.goesOn(this);
  }

  /** Some of what was taken is no longer needed. */
  give(bytes: number): void {
    this.bytes -= bytes;
    this.#inFlight.give(bytes);
  }
}
