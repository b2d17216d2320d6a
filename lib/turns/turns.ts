/**
 * Who of those that share the main loop works next. Reads of any size are done in slices of some
 * milliseconds: between two of them the loop looks at its sockets, so writes and new requests never
 * wait longer than that. The one that has had least so far comes next, of several that had about as much the one
 * that came first: so a small query passes large ones, and small ones do not pass each other. What is done for one request counts
 * together (accounts.ts). Now and then it is the oldest of all, so that none starves. Large ones end one after the
 * other, the oldest first: in equal shares all of them would end late, and hold their memory till
 * then. Of writes, reads, what peers are streamed and the key-value store one comes after the other, however many wait of
 * one kind.
 */

import { type Account, accountOf } from './accounts.ts';

/** Longest stretch of one piece of work, but for what cannot be divided. */
export const sliceMillis = 4;
/** The first slice of a piece, when it has waited for it. */
const firstSliceMillis = 1;
/**
 * What a piece that begins may do at once when others have used up the slice of this turn of the loop: most
 * need no more.
 */
const firstMillisMin = 0.25;
/** Units of work, of a few nanoseconds each, between two looks at the clock. */
const unitsBetweenLooks = 20_000;
/** So much is a slice where the clock stands meanwhile, as in the simulator. */
const unitsOfSlice = 1_000_000;
/** A piece that has had more of the loop is a large one. */
const largeMillis = 100;
/**
 * After so much time that was given to others a slice is the oldest piece's; where all are large, it is that of the one that has had
 * least. By time and not by turns: slices of who has just begun are short.
 */
const millisOfOthers: number = 3 * sliceMillis;

/**
 * The system gives a process one connection of a port in a turn of the loop. Were each turn a slice long,
 * new clients would wait in line for as many slices as there are clients before them: so between two slices
 * the loop turns without one for so long at most, while connections come.
 */
const acceptMillisMax: number = sliceMillis;

/** Of a clock; one object for each process, also for those that are simulated. */
export interface LoopClock {
  /** Never runs backwards. Fractional milliseconds. */
  monotonicMillis(): number;
}

/** Resolves when the loop has looked at its sockets. */
export function loopTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/** Those that wait for a turn of their own, in the order in which they came. */
const ownTurns: (() => void)[] = [];

/**
 * Resolves in a turn of the loop which nobody else has of all who ask for one: for what takes milliseconds and cannot be
 * divided, as the parsing of a text. What waits for `loopTurn` goes on all in the same turn, however many they are.
 */
export function ownTurn(): Promise<void> {
  return new Promise((resolve) => {
    ownTurns.push(resolve);
    if (ownTurns.length === 1) setImmediate(giveTurn);
  });
}

function giveTurn(): void {
  ownTurns.shift()!();
  if (ownTurns.length > 0) setImmediate(giveTurn);
}

/**
 * What comes in of rows, what peers are streamed, what is done for clients of the key-value store, and all else: kinds
 * take turns, so that a thousand pieces of one hold up none of another.
 */
const workKinds = ['write', 'read', 'stream', 'kv'] as const;
export type WorkKind = (typeof workKinds)[number];

/** Those of one kind that wait for their next slice. */
class Queue {
  /** In the order in which they began to wait. */
  readonly #waiting: Waiting[] = [];
  /** Given since the last slice of the other choice. */
  #givenMillis = 0;

  get length(): number {
    return this.#waiting.length;
  }

  add(waiting: Waiting): void {
    this.#waiting.push(waiting);
  }

  takeNext(): Waiting {
    return this.#waiting.splice(this.#choose(), 1)[0]!;
  }

  #choose(): number {
    let least = 0;
    let oldest = 0;
    for (let i = 0; i < this.#waiting.length; i++) {
      const { work } = this.#waiting[i]!;
      // It only has to end.
      if (work.signal.aborted) return i;
      const more = levelOf(work) - levelOf(this.#waiting[least]!.work);
      const isOlder = work.ordinal < this.#waiting[least]!.work.ordinal;
      if (more < 0 || (more === 0 && isOlder)) least = i;
      if (work.ordinal < this.#waiting[oldest]!.work.ordinal) oldest = i;
    }
    const isLarge = this.#waiting[least]!.work.attainedMillis > largeMillis;
    const [usual, other] = isLarge ? [oldest, least] : [least, oldest];
    if (this.#givenMillis >= millisOfOthers) {
      this.#givenMillis = 0;
      return other;
    }
    this.#givenMillis += nextSliceMillis(this.#waiting[usual]!.work);
    return usual;
  }
}

/**
 * Of pieces of one level the oldest comes first. The first one is short: of fifty large ones that have only begun a
 * small one waits for a millisecond each, and for the whole slices of the oldest one between them.
 */
function levelOf({ attainedMillis }: Work): number {
  return attainedMillis < firstSliceMillis ? 0 : 1 + Math.floor(attainedMillis / sliceMillis);
}

/** How long the next slice of a piece is that has waited for it. */
function nextSliceMillis({ attainedMillis }: Work): number {
  return attainedMillis < firstSliceMillis ? firstSliceMillis : sliceMillis;
}

interface Waiting {
  readonly work: Work;
  readonly resolve: () => void;
}

/** The turns of one loop; there is one for each clock, so that simulated processes have their own. */
export class Turns {
  static readonly #ofClock = new WeakMap<LoopClock, Turns>();

  static of(clock: LoopClock): Turns {
    let turns = Turns.#ofClock.get(clock);
    if (turns === undefined) {
      turns = new Turns(clock);
      Turns.#ofClock.set(clock, turns);
    }
    return turns;
  }

  readonly clock: LoopClock;
  readonly #queues: Readonly<Record<WorkKind, Queue>> = {
    write: new Queue(),
    read: new Queue(),
    stream: new Queue(),
    kv: new Queue(),
  };
  /** Place of the kind that had the last turn. */
  #last = 0;
  #isScheduled = false;
  #begun = 0;
  /** A connection has come in this turn of the loop. */
  #hasAccepted = false;
  /** Since when turns are left to connections; null while they are not. */
  #acceptingSinceMillis: number | null = null;
  /** Used by all pieces since the loop looked at its sockets. */
  usedMillis = 0;

  private constructor(clock: LoopClock) {
    this.clock = clock;
  }

  /** Pieces that wait for their next slice. */
  get waiting(): number {
    const { write, read, stream, kv } = this.#queues;
    return write.length + read.length + stream.length + kv.length;
  }

  /** @param signal its piece of work ends with it, at the next slice */
  begin(signal: AbortSignal, kind: WorkKind = 'read'): Work {
    this.schedule();
    const account = accountOf(signal);
    account.ordinal ??= this.#begun++;
    return new Work(this, signal, kind, account, account.ordinal);
  }

  /**
   * Does something small at once, unless the slice of this turn of the loop is used up.
   * @returns whether it is done
   */
  atOnce(piece: () => void): boolean {
    if (this.usedMillis >= sliceMillis) return false;
    this.schedule();
    const startedMillis = this.clock.monotonicMillis();
    piece();
    this.usedMillis += this.clock.monotonicMillis() - startedMillis;
    return true;
  }

  /** Resolves when it is the turn of this one. */
  next(work: Work): Promise<void> {
    return new Promise((resolve) => {
      this.#queues[work.kind].add({ work, resolve });
      this.schedule();
    });
  }

  /** Time that is used counts anew when the loop has looked at its sockets. */
  schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      if (this.#isAccepting() && this.waiting > 0) {
        this.schedule();
        return;
      }
      this.usedMillis = 0;
      if (this.waiting === 0) return;
      const { resolve } = this.#takeNext();
      // What waits comes in the turns of the loop after this one, when its sockets were looked at.
      this.schedule();
      resolve();
    });
  }

  /** For servers: a connection has come, and others may wait behind it. */
  noteConnection(): void {
    this.#hasAccepted = true;
  }

  /** Whether the next slice waits for connections. */
  #isAccepting(): boolean {
    const hasAccepted = this.#hasAccepted;
    this.#hasAccepted = false;
    if (hasAccepted) {
      const now = this.clock.monotonicMillis();
      this.#acceptingSinceMillis ??= now;
      if (now - this.#acceptingSinceMillis < acceptMillisMax) return true;
    }
    this.#acceptingSinceMillis = null;
    return false;
  }

  #takeNext(): Waiting {
    for (;;) {
      this.#last = (this.#last + 1) % workKinds.length;
      const queue = this.#queues[workKinds[this.#last]!];
      if (queue.length > 0) return queue.takeNext();
    }
  }
}

/**
 * A piece of work that gives way: `if (work.spend(n)) await work.pause()` after each n units of some
 * nanoseconds.
 */
export class Work {
  readonly signal: AbortSignal;
  readonly kind: WorkKind;
  /** Ascending in the order in which requests, or pieces that are of none, were begun. */
  readonly ordinal: number;
  readonly #account: Account;
  readonly #turns: Turns;
  #units = 0;
  #unitsOfSlice = 0;
  #sliceMillis: number;
  #startedMillis: number;
  #lookedMillis: number;

  constructor(
    turns: Turns,
    signal: AbortSignal,
    kind: WorkKind,
    account: Account,
    ordinal: number,
  ) {
    this.#turns = turns;
    this.#account = account;
    this.signal = signal;
    this.kind = kind;
    this.ordinal = ordinal;
    this.#startedMillis = turns.clock.monotonicMillis();
    this.#lookedMillis = this.#startedMillis;
    this.#sliceMillis = Math.max(firstMillisMin, sliceMillis - turns.usedMillis);
  }

  get clock(): LoopClock {
    return this.#turns.clock;
  }

  /** Time of the loop that its request has had. */
  get attainedMillis(): number {
    return this.#account.attainedMillis;
  }

  /** Counts work without asking whether it is time. */
  note(units: number): void {
    this.#units += units;
  }

  /** Counts work; true when it is time for `await pause()`. */
  spend(units: number): boolean {
    this.#units += units;
    return this.#units >= unitsBetweenLooks && this.#isDue();
  }

  #isDue(): boolean {
    this.#unitsOfSlice += this.#units;
    this.#units = 0;
    return this.#look() >= this.#sliceMillis || this.#unitsOfSlice >= unitsOfSlice;
  }

  /** @returns milliseconds of this slice */
  #look(): number {
    const now = this.#turns.clock.monotonicMillis();
    const millis = now - this.#lookedMillis;
    this.#lookedMillis = now;
    this.#account.attainedMillis += millis;
    this.#turns.usedMillis += millis;
    return now - this.#startedMillis;
  }

  /**
   * Gives way to the others, and goes on in its next turn.
   * @throws the signal's reason when it is cancelled or out of time
   */
  async pause(): Promise<void> {
    this.#look();
    await this.#turns.next(this);
    this.#restart(nextSliceMillis(this));
    this.signal.throwIfAborted();
  }

  /** Waits for what others do: that is not its own time. */
  async outside<T>(promise: Promise<T>): Promise<T> {
    this.#look();
    try {
      return await promise;
    } finally {
      this.#turns.schedule();
      // What settles at once, as a socket that takes everything, lets nobody else in.
      if (this.#turns.usedMillis >= sliceMillis) {
        await this.#turns.next(this);
        this.#restart(nextSliceMillis(this));
      } else {
        this.#restart(Math.max(firstMillisMin, sliceMillis - this.#turns.usedMillis));
      }
    }
  }

  #restart(millis: number): void {
    this.#units = 0;
    this.#unitsOfSlice = 0;
    this.#sliceMillis = millis;
    this.#startedMillis = this.#turns.clock.monotonicMillis();
    this.#lookedMillis = this.#startedMillis;
  }
}
