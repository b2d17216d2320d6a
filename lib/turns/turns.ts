/**
 * Who of those that share the main loop works next. Reads of any size are done in slices of some
 * milliseconds: between two of them the loop looks at its sockets, so writes and new requests never
 * wait longer than that. The one that has had least so far comes next, of several that had about as much the one
 * that came first: so a small query passes large ones, and small ones do not pass each other. What is known to take long
 * is a large one before it has had it: fifty that begin would have a slice each before a small one else. What is done for one request counts
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
/** A piece that has had so much of the loop, or will, is a large one. */
const largeMillis = 100;
/**
 * Of the time between two looks at the clock a piece is counted so much at most. Where it took longer the collector had it, mostly: a
 * small query would be a large one for as long as it lives, and wait seconds for the large ones before it. It stays a small one by this.
 */
const countedMillisMax: number = 4 * sliceMillis;
/** Of a series that is read, at least: a count of 20,000 series took 0.1 s. */
const millisOfSeries = 0.005;
/** Of a read, at least, be it of one series: the asking, the look at the index, the labels. */
const millisOfRead = 0.25;
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

/**
 * Pieces that are cancelled or out of time only have to end: so many of them do it in a turn of the loop beside the one
 * that goes on. Were it one a turn, all others would wait for as many turns as clients have left; and were it all of
 * them, a thousand that leave together would hold up the sockets.
 */
const endingOfTurnMax = 8;

/**
 * Where sockets take long in each turn of the loop, as with bodies of a million rows, one slice a turn would make a small
 * query wait for a dozen such turns. Of what they took beyond the usual, small pieces get so much in the same turn,
 * beside the one slice. In shorter turns they do not: what comes in at full speed would pay for it.
 */
const socketsMillisUsual = 20;
const smallShare = 0.5;
const smallMillisOfTurnMax = 32;
/** A piece that has had no more of the loop, and as far as is known needs no more, is a small one. */
const smallMillis = 20;

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
  #waiting: Waiting[] = [];
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

  /** Those that are cancelled or out of time do not wait here any more. */
  moveEnding(to: Waiting[]): void {
    const isEnding = ({ work }: Waiting): boolean => work.signal.aborted;
    if (!this.#waiting.some(isEnding)) return;
    to.push(...this.#waiting.filter(isEnding));
    this.#waiting = this.#waiting.filter((waiting) => !isEnding(waiting));
  }

  /** Of those that have had little the one that has had least, the oldest of them; null when all have had more. */
  takeSmall(): Waiting | null {
    let least = -1;
    for (let i = 0; i < this.#waiting.length; i++) {
      const { work } = this.#waiting[i]!;
      if (sizeOf(work) > smallMillis) continue;
      const before = least < 0 ? null : this.#waiting[least]!.work;
      const more = before === null ? -1 : levelOf(work) - levelOf(before);
      if (more < 0 || (more === 0 && work.ordinal < before!.ordinal)) least = i;
    }
    return least < 0 ? null : this.#waiting.splice(least, 1)[0]!;
  }

  #choose(): number {
    let least = 0;
    let oldest = 0;
    for (let i = 0; i < this.#waiting.length; i++) {
      const { work } = this.#waiting[i]!;
      const more = levelOf(work) - levelOf(this.#waiting[least]!.work);
      const isOlder = work.ordinal < this.#waiting[least]!.work.ordinal;
      if (more < 0 || (more === 0 && isOlder)) least = i;
      if (work.ordinal < this.#waiting[oldest]!.work.ordinal) oldest = i;
    }
    const isLarge = sizeOf(this.#waiting[least]!.work) >= largeMillis;
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
function levelOf(work: Work): number {
  const millis = sizeOf(work);
  return millis < firstSliceMillis ? 0 : 1 + Math.floor(millis / sliceMillis);
}

function sizeOf({ attainedMillis, foreseenMillis }: Work): number {
  return Math.max(attainedMillis, foreseenMillis);
}

/** How long the next slice of a piece is that has waited for it. */
function nextSliceMillis({ attainedMillis, signal }: Work): number {
  if (signal.aborted) return firstMillisMin;
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
  /** Of all kinds, those that only have to end. */
  readonly #ending: Waiting[] = [];
  /** Place of the kind that had the last turn. */
  #last = 0;
  /** The same of small pieces that went on in a turn of others: were it one place, some kinds would have no turn any more. */
  #lastSmall = 0;
  #isScheduled = false;
  #scheduledMillis = 0;
  #begun = 0;
  /** A connection has come in this turn of the loop. */
  #hasAccepted = false;
  /** Since when turns are left to connections; null while they are not. */
  #acceptingSinceMillis: number | null = null;
  /** Used by all pieces since the loop looked at its sockets. */
  usedMillis = 0;
  /** How often the loop has looked at its sockets while somebody worked. */
  turned = 0;

  private constructor(clock: LoopClock) {
    this.clock = clock;
  }

  /** Pieces that wait for their next slice. */
  get waiting(): number {
    const { write, read, stream, kv } = this.#queues;
    return write.length + read.length + stream.length + kv.length + this.#ending.length;
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
    this.#scheduledMillis = this.clock.monotonicMillis();
    setImmediate(() => {
      this.#isScheduled = false;
      this.turned += 1;
      const areComing = this.#hasAccepted;
      if (this.#isAccepting() && this.waiting > 0) {
        this.schedule();
        return;
      }
      const now = this.clock.monotonicMillis();
      const socketsMillis = now - this.#scheduledMillis - this.usedMillis;
      this.usedMillis = 0;
      if (this.waiting === 0) return;
      for (const kind of workKinds) this.#queues[kind].moveEnding(this.#ending);
      const areLive = this.waiting > this.#ending.length;
      const next = this.#ending.splice(0, endingOfTurnMax);
      // First, for what the others do until they are over would count as its own.
      if (areLive) next.unshift(this.#takeNext());
      // What waits comes in the turns of the loop after this one, when its sockets were looked at.
      this.schedule();
      for (const { resolve } of next) resolve();
      const more = smallShare * (socketsMillis - socketsMillisUsual);
      // New clients wait for as many turns as there are before them, so that a turn is not to be longer.
      if (more <= 0 || areComing) return;
      this.#giveSmallOnes(now + sliceMillis + Math.min(more, smallMillisOfTurnMax));
    });
  }

  /** Small ones go on in this turn of the loop, one after the other, until it is time for the sockets. */
  #giveSmallOnes(untilMillis: number): void {
    // When all is done that the one before does until it gives way.
    queueMicrotask(() => {
      process.nextTick(() => {
        if (this.waiting === 0 || this.clock.monotonicMillis() >= untilMillis) return;
        const next = this.#takeSmall();
        if (next === null) return;
        next.resolve();
        this.#giveSmallOnes(untilMillis);
      });
    });
  }

  /** Kinds take turns here, too. */
  #takeSmall(): Waiting | null {
    for (let tries = 0; tries < workKinds.length; tries++) {
      this.#lastSmall = (this.#lastSmall + 1) % workKinds.length;
      const small = this.#queues[workKinds[this.#lastSmall]!].takeSmall();
      if (small !== null) return small;
    }
    return null;
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
  /** Of the loop, at the last look. */
  #turned: number;

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
    this.#turned = turns.turned;
    this.#sliceMillis = Math.max(firstMillisMin, sliceMillis - turns.usedMillis);
  }

  get clock(): LoopClock {
    return this.#turns.clock;
  }

  /** Time of the loop that its request has had. */
  get attainedMillis(): number {
    return this.#account.attainedMillis;
  }

  get foreseenMillis(): number {
    return this.#account.foreseenMillis;
  }

  /**
   * Whether the slice of this turn of the loop is used up. Who comes to what cannot be divided and is more than a small query
   * needs waits for its own turn then: of many that begin together all would do their first step in the same turn.
   */
  isLate(): boolean {
    this.#look();
    return this.#turns.usedMillis >= sliceMillis;
  }

  /** The same of a request of which another piece has worked in this turn: a query reads many selectors at a time. */
  isLateAgain(): boolean {
    const isAgain = this.#account.turned === this.#turns.turned;
    return this.isLate() && isAgain;
  }

  /** Its request reads so many series. */
  foreseeSeries(count: number): void {
    this.#foresee(count * millisOfSeries);
  }

  /** Its request makes so many reads. */
  foreseeReads(count: number): void {
    this.#foresee(count * millisOfRead);
  }

  #foresee(millis: number): void {
    this.#account.foreseenMillis = Math.max(this.#account.foreseenMillis, millis);
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
    // Where the loop has turned it has waited without `outside`: that was the others' time.
    if (this.#turned === this.#turns.turned) {
      const millis = now - this.#lookedMillis;
      this.#account.attainedMillis += Math.min(millis, countedMillisMax);
      this.#turns.usedMillis += millis;
    }
    this.#lookedMillis = now;
    this.#turned = this.#turns.turned;
    this.#account.turned = this.#turned;
    this.#turns.schedule();
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

  /** Waits for what others do: that is not its own time. What fails is told at once. */
  async outside<T>(promise: Promise<T>): Promise<T> {
    this.#look();
    let settled: T;
    try {
      settled = await promise;
    } catch (error) {
      this.#restart(firstMillisMin);
      throw error;
    }
    this.#turns.schedule();
    // What settles at once, as a socket that takes everything, lets nobody else in.
    if (this.#turns.usedMillis >= sliceMillis) {
      await this.#turns.next(this);
      this.#restart(nextSliceMillis(this));
    } else {
      this.#restart(Math.max(firstMillisMin, sliceMillis - this.#turns.usedMillis));
    }
    return settled;
  }

  #restart(millis: number): void {
    this.#units = 0;
    this.#unitsOfSlice = 0;
    this.#sliceMillis = millis;
    this.#startedMillis = this.#turns.clock.monotonicMillis();
    this.#lookedMillis = this.#startedMillis;
    this.#turned = this.#turns.turned;
  }
}
