/**
 * What reads take while they are made and until their answers have left: together at most one number
 * of bytes. A read says how much it needs before it takes it, and again when it needs more; where
 * there is no room it waits, those that have begun before those that have not. So many reads at once
 * make each other wait, and do not take the process down.
 *
 * Small reads pass: an eighth of the room is theirs alone, and they do not stand in line behind
 * large ones. Of a read that begins nobody knows what it will need: so half of this eighth is for
 * first bytes alone, lest large ones fill all of it with their beginnings and wait. While somebody
 * waits, answers that their clients do not take give way.
 */
import { ChildSignal } from '../env/wait.ts';
import { badRequest, TsdbError } from '../errors.ts';
import type { Leaving, MonotonicClock } from './leaving.ts';

/** What a read takes beside its answer, at least: its first bytes, with which one of few series ends. */
const readBytesFloor: number = 64 << 10;
/** Reads that wait to begin; more are refused at once. */
export const readsWaitingMax = 1_000;
/** Longest wait of a read for memory. */
export const readWaitMillisMax = 5_000;
/** So often it is looked meanwhile whether somebody has to give way. */
const lookMillis = 1_000;
/** Of the room, this part is left to small reads. */
const smallPart = 1 / 8;
/** Of this part, so much is left to reads that have their first bytes and no more. */
const firstPart = 1 / 2;
/** A small read takes so much at most, and a smaller share of a small room. */
const smallBytesMax: number = 1 << 20;
const smallestPart = 1 / 64;
/** An answer gives way when its client would need longer to take what is held for it. */
export const leavingMillisMax = 30_000;

export interface ReadMemoryClock extends MonotonicClock {
  sleep(millis: number, signal: AbortSignal): Promise<void>;
}

export interface ReadMemoryOptions {
  readonly clock: ReadMemoryClock;
  /** All reads together. */
  readonly bytesMax: number;
  /** Whose memory it is and what sets it, for messages: 'answers may take (an eighth of db.memoryMax)'. */
  readonly allowance: string;
}

/** Memory of a part of a read; the whole of it is a `ReadReservation`. */
export interface ReadBytes {
  /** Takes so many bytes more, if that goes at once. */
  tryGrow(bytes: number): boolean;
  /**
   * Waits until it may take so many bytes more.
   * @throws {TsdbError} BAD_REQUEST when it never may, RESOURCE_EXHAUSTED when it takes too long
   */
  grow(bytes: number, signal: AbortSignal): Promise<void>;
  give(bytes: number): void;
}

/** Memory of a request. */
export interface RequestBytes extends ReadBytes {
  /** How often it has waited. */
  readonly waits: number;
  /** From now on it fails where it would wait. */
  refuseWaits(): void;
}

/** Bytes that a read may take; to be disposed of when nobody needs its answer any more. */
export interface ReadReservation extends RequestBytes, Disposable {
  readonly bytes: number;
  /** Of these, what it has asked for: not what is left of its first bytes. */
  readonly usedBytes: number;
  /** More no read may take. */
  readonly bytesMax: number;
  /**
   * Waits until it may take so many bytes in all.
   * @throws {TsdbError} as `grow`
   */
  growTo(bytes: number, signal: AbortSignal): Promise<void>;
  /** Gives back what is above. */
  shrinkTo(bytes: number): void;
  /** It is made, and on its way: it may be cut off while others wait. */
  leaves(leaving: Leaving): void;
}

/** This process has no memory for a read now. */
export class ReadRefused extends TsdbError {
  constructor(message: string) {
    super('RESOURCE_EXHAUSTED', message);
  }
}

const isOver = new TsdbError('CANCELLED', 'the read is over');
const mayNotWait = new ReadRefused(
  'the read would have to wait for memory that others have, and asks not to wait (Limit-Require-No-Wait)',
);

/** Without a limit. */
export const unlimitedReadBytes: RequestBytes = {
  waits: 0,
  refuseWaits: () => {},
  tryGrow: () => true,
  grow: async () => {},
  give: () => {},
};

interface Waiting {
  readonly reservation: Reservation;
  readonly bytes: number;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

export class ReadMemory {
  readonly #clock: ReadMemoryClock;
  readonly #allowance: string;
  readonly bytesMax: number;
  /** Most that one read may take. */
  readonly largeMax: number;
  readonly #smallMax: number;
  /** Taken in all before the last bytes are left to first ones. */
  readonly #beforeFirst: number;
  #bytes = 0;
  /** Reads that have begun. */
  readonly #active = new Set<Reservation>();
  /** Reads of them that need more. */
  readonly #growing: Waiting[] = [];
  readonly #entering: Waiting[] = [];
  /** Reads that were refused, for metrics. */
  refused = 0;
  /** Answers that were cut off since their clients did not take them. */
  cut = 0;

  constructor({ clock, bytesMax, allowance }: ReadMemoryOptions) {
    this.#clock = clock;
    this.#allowance = allowance;
    this.bytesMax = bytesMax;
    this.largeMax = Math.floor(bytesMax * (1 - smallPart));
    this.#smallMax = Math.min(smallBytesMax, Math.floor(bytesMax * smallestPart));
    this.#beforeFirst = Math.floor(bytesMax * (1 - smallPart * firstPart));
  }

  /** Taken now. */
  get bytes(): number {
    return this.#bytes;
  }

  get waiting(): number {
    return this.#growing.length + this.#entering.length;
  }

  /** Of a read that takes nothing yet: it begins when it asks for memory first. */
  begin(): ReadReservation {
    return new Reservation(this);
  }

  /**
   * Waits until a read may begin.
   * @param bytes that it will probably take; it asks again for more
   * @throws {TsdbError} RESOURCE_EXHAUSTED when it takes too long, or too many wait
   */
  async enter(bytes: number, signal: AbortSignal): Promise<ReadReservation> {
    const reservation = new Reservation(this);
    const first = Math.min(Math.max(bytes, readBytesFloor), this.largeMax);
    await this.grow(reservation, first, signal);
    return reservation;
  }

  tryGrow(reservation: Reservation, bytes: number): boolean {
    const inLine = reservation.taken === 0 ? this.waiting : this.#growing.length;
    if (inLine > 0 && !this.#isSmall(reservation, bytes)) return false;
    if (!this.#fits(reservation, bytes)) return false;
    this.#take(reservation, bytes);
    return true;
  }

  async grow(reservation: Reservation, bytes: number, signal: AbortSignal): Promise<void> {
    const inAll = reservation.taken + bytes;
    if (inAll > this.largeMax) {
      throw badRequest(
        `cannot read: the answer takes ${inAll} bytes, more than the ${this.largeMax} of one: ${this.bytesMax} bytes are what ${this.#allowance}; ask for fewer series or less time`,
      );
    }
    if (this.tryGrow(reservation, bytes)) return;
    if (reservation.taken === 0) {
      if (this.#entering.length >= readsWaitingMax) throw this.#exhausted();
      await this.#wait(this.#entering, reservation, bytes, signal);
      return;
    }
    // Nobody would ever give anything back.
    if (this.#wouldAllWait(reservation)) throw this.#exhausted();
    await this.#wait(this.#growing, reservation, bytes, signal);
  }

  give(reservation: Reservation, bytes: number): void {
    reservation.taken -= bytes;
    this.#bytes -= bytes;
    this.#wake();
  }

  leave(reservation: Reservation): void {
    this.#active.delete(reservation);
    // Parts of a read that has failed may still wait.
    for (const queue of [this.#growing, this.#entering]) {
      const its = queue.filter((waiting) => waiting.reservation === reservation);
      for (const waiting of its) {
        queue.splice(queue.indexOf(waiting), 1);
        waiting.reject(isOver);
      }
    }
    this.give(reservation, reservation.taken);
    // Those that are left may all wait for more: the last one of them makes room.
    if (this.#growing.length > 0 && this.#wouldAllWait(null)) {
      this.#growing.pop()!.reject(this.#exhausted());
    }
  }

  /** Whether every read that has begun waits for more, and no answer is leaving. */
  #wouldAllWait(besides: Reservation | null): boolean {
    const waiting = new Set(this.#growing.map(({ reservation }) => reservation));
    if (besides !== null) waiting.add(besides);
    for (const each of this.#active) if (!waiting.has(each)) return false;
    return true;
  }

  #isSmall(reservation: Reservation, bytes: number): boolean {
    return reservation.taken + bytes <= this.#smallMax;
  }

  #take(reservation: Reservation, bytes: number): void {
    if (reservation.taken === 0) this.#active.add(reservation);
    reservation.taken += bytes;
    this.#bytes += bytes;
  }

  #fits(reservation: Reservation, bytes: number): boolean {
    let max = this.largeMax;
    if (this.#isSmall(reservation, bytes)) {
      max = reservation.taken + bytes <= readBytesFloor ? this.bytesMax : this.#beforeFirst;
    }
    return this.#bytes + bytes <= max;
  }

  #wake(): void {
    if (this.waiting === 0) return;
    for (const onlySmall of [true, false]) {
      for (const queue of [this.#growing, this.#entering]) {
        for (let at = 0; at < queue.length; ) {
          const { reservation, bytes, resolve } = queue[at]!;
          const isMeant = !onlySmall || this.#isSmall(reservation, bytes);
          if (isMeant && this.#fits(reservation, bytes)) {
            queue.splice(at, 1);
            this.#take(reservation, bytes);
            resolve();
          } else if (onlySmall) at += 1;
          else return;
        }
      }
    }
  }

  async #wait(
    queue: Waiting[],
    reservation: Reservation,
    bytes: number,
    signal: AbortSignal,
  ): Promise<void> {
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiting = { reservation, bytes, resolve, reject };
    queue.push(waiting);
    const until = new ChildSignal(signal);
    const giveUp = (): void => {
      const at = queue.indexOf(waiting);
      if (at < 0) return;
      queue.splice(at, 1);
      reject(signal.aborted ? signal.reason : this.#exhausted());
      this.#wake();
    };
    this.#waitAndLook(bytes, until.signal).then(giveUp, giveUp);
    try {
      await promise;
    } finally {
      until.end();
    }
  }

  async #waitAndLook(bytes: number, signal: AbortSignal): Promise<void> {
    for (let millis = 0; millis < readWaitMillisMax; millis += lookMillis) {
      this.#cutSlow(bytes);
      await this.#clock.sleep(lookMillis, signal);
    }
  }

  /** Makes room for so many bytes by ending the answers that their clients take most slowly. */
  #cutSlow(bytes: number): void {
    const slow: { readonly reservation: Reservation; readonly millis: number }[] = [];
    for (const reservation of this.#active) {
      const millis = reservation.millisToLeave();
      if (millis > leavingMillisMax) slow.push({ reservation, millis });
    }
    slow.sort((a, b) => b.millis - a.millis);
    let missing = this.#bytes + bytes - this.largeMax;
    for (const { reservation } of slow) {
      if (missing <= 0) return;
      missing -= reservation.taken;
      this.cut += 1;
      reservation.cutOff(
        new TsdbError(
          'RESOURCE_EXHAUSTED',
          'the answer was taken too slowly while others waited for its memory',
        ),
      );
    }
  }

  #exhausted(): ReadRefused {
    this.refused += 1;
    return new ReadRefused(
      `cannot read now: other reads take ${this.#bytes} of the ${this.bytesMax} bytes that ${this.#allowance}`,
    );
  }
}

class Reservation implements ReadReservation {
  readonly #memory: ReadMemory;
  /** Of the memory. */
  taken = 0;
  /** Asked for; what is left of the first bytes is used before more is taken. */
  #used = 0;
  /** Of these, what is waited for. */
  #awaited = 0;
  #leaving: Leaving | null = null;
  #isOver = false;
  #refusesWaits = false;
  waits = 0;

  constructor(memory: ReadMemory) {
    this.#memory = memory;
  }

  get bytes(): number {
    return this.taken;
  }

  get usedBytes(): number {
    return this.#used;
  }

  get bytesMax(): number {
    return this.#memory.largeMax;
  }

  tryGrow(bytes: number): boolean {
    if (this.#isOver) return false;
    const more = this.#more(bytes);
    if (more > 0 && !this.#memory.tryGrow(this, more)) return false;
    this.#used += bytes;
    return true;
  }

  async grow(bytes: number, signal: AbortSignal): Promise<void> {
    if (this.tryGrow(bytes)) return;
    if (this.#isOver) throw isOver;
    if (this.#refusesWaits) throw mayNotWait;
    this.waits += 1;
    const more = this.#more(bytes);
    this.#used += bytes;
    this.#awaited += more;
    try {
      await this.#memory.grow(this, more, signal);
    } catch (error) {
      this.#used -= bytes;
      throw error;
    } finally {
      this.#awaited -= more;
    }
  }

  refuseWaits(): void {
    this.#refusesWaits = true;
  }

  /** To be taken for so many bytes more. */
  #more(bytes: number): number {
    const has = this.taken + this.#awaited;
    return Math.max(this.#used + bytes, has === 0 ? readBytesFloor : 0) - has;
  }

  give(bytes: number): void {
    this.#used -= bytes;
    this.#keep(this.#used - this.#awaited);
  }

  async growTo(bytes: number, signal: AbortSignal): Promise<void> {
    if (bytes > this.#used) await this.grow(bytes - this.#used, signal);
  }

  shrinkTo(bytes: number): void {
    this.#used = Math.min(this.#used, bytes + this.#awaited);
    this.#keep(bytes);
  }

  #keep(bytes: number): void {
    const kept = Math.max(bytes, readBytesFloor);
    if (kept < this.taken && !this.#isOver) this.#memory.give(this, this.taken - kept);
  }

  leaves(leaving: Leaving): void {
    this.#leaving = leaving;
  }

  millisToLeave(): number {
    return this.#leaving?.millisFor(this.taken) ?? 0;
  }

  cutOff(error: TsdbError): void {
    const leaving = this.#leaving;
    this.#leaving = null;
    leaving?.cut(error);
  }

  [Symbol.dispose](): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#memory.leave(this);
  }
}
