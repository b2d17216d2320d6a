/**
 * Watches: what changed, from a revision on, in order and without gaps. A watch holds no queue: it
 * holds the next revision it wants, and reads the store's history from there whenever its stream
 * has room. So a slow client costs nothing but its place; when history was compacted past that
 * place, the watch is cancelled with the compaction's revision and the client lists anew.
 */
import type { Clock } from '#lib/env/env.ts';
import type { ProtoCodec, ProtoMessage } from '#lib/env/proto.ts';
import { Turns, type Work } from '#lib/turns/turns.ts';
import { isInRange } from './core/keyspace.ts';
import { kvLimits } from './core/limits.ts';
import {
  encodedInParts,
  messageOfKind,
  pairOf,
  previousOf,
  textOf,
  unitsOfPair,
} from './messages.ts';
import { type Change, isDeletion, KvError, type KeyRange } from './core/requests.ts';
import type { Store } from './store.ts';

/** Of a watch that has nothing to send, and of a change that is looked at for one: lib/turns/turns.ts. */
const watcherUnits = 100;
const changeUnits = 15;
/** To find what a key was before a change, and to send it. */
const previousUnits = 600;

interface Watcher {
  readonly id: bigint;
  readonly range: KeyRange;
  readonly withPuts: boolean;
  readonly withDeletes: boolean;
  readonly withPrevious: boolean;
  readonly withProgress: boolean;
  nextRevision: number;
  /** When something was last sent, for progress reports. */
  sentMillis: number;
}

/** Counts what all streams of a server hold. */
export class WatchTotals {
  streams = 0;
  watchers = 0;
}

interface WatchStreamOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly totals: WatchTotals;
  readonly header: (revision: number) => ProtoMessage;
  /** Of answers. */
  readonly codec: ProtoCodec;
  /** Resolves when the answer is handed to the connection. */
  readonly send: (answer: Uint8Array) => Promise<void>;
  readonly signal: AbortSignal;
}

/** The watches of one call. Requests are taken by `take`; `run` sends until the signal aborts. */
export class WatchStream {
  readonly #options: WatchStreamOptions;
  readonly #work: Work;
  readonly #watchers = new Map<bigint, Watcher>();
  /** Answers to requests, sent before anything else. Bounded: `take` waits until they are sent. */
  #control: ProtoMessage[] = [];
  #progressAsked = false;
  #nextId = 0n;
  #wake = () => {};
  #sent = () => {};
  #stirred = false;

  constructor(options: WatchStreamOptions) {
    this.#options = options;
    this.#work = Turns.of(options.clock).begin(options.signal, 'kv');
  }

  /**
   * Resolves when the request's answer is sent, which keeps a flood of requests in the transport.
   */
  async take(request: ProtoMessage): Promise<void> {
    switch (request['request'] as string | undefined) {
      case 'create':
        this.#create(request['create']);
        break;
      case 'cancel':
        this.#cancel(request['cancel']['watchId']);
        break;
      case 'progress':
        this.#progressAsked = true;
        break;
      case undefined:
      default:
        return;
    }
    this.#stir();
    if (this.#control.length > 0 && !this.#options.signal.aborted) {
      await new Promise<void>((resolve) => {
        this.#sent = resolve;
      });
    }
  }

  #create(request: ProtoMessage): void {
    const { store, totals, clock } = this.#options;
    const revision = store.committedRevision;
    const askedId = request['watchId'] as bigint;
    const refuse = (reason: string) => {
      const base = { header: this.#options.header(revision), created: true, canceled: true };
      this.#control.push({ ...base, watchId: -1, cancelReason: reason });
    };
    if (askedId !== 0n && this.#watchers.has(askedId)) {
      refuse('mvcc: duplicate watch ID provided on the WatchStream');
      return;
    }
    if (
      this.#watchers.size >= kvLimits.watchersOfStreamMax ||
      totals.watchers >= kvLimits.watchersMax
    ) {
      refuse('etcdserver: too many watches');
      return;
    }
    // etcd's clients watch everything from the smallest key on by leaving the key out.
    const key = textOf(request['key']) || '\0';
    const rangeEnd = textOf(request['rangeEnd']);
    if (rangeEnd !== '' && rangeEnd !== '\0' && rangeEnd <= key) {
      refuse('mvcc: watcher range is empty');
      return;
    }
    while (this.#watchers.has(this.#nextId)) this.#nextId += 1n;
    const id = askedId !== 0n ? askedId : this.#nextId;
    if (askedId === 0n) this.#nextId += 1n;
    const filters = request['filters'] as number[];
    const startRevision = Number(request['startRevision']);
    this.#watchers.set(id, {
      id,
      range: { key, rangeEnd },
      withPuts: !filters.includes(0),
      withDeletes: !filters.includes(1),
      withPrevious: request['previous'],
      withProgress: request['progressNotify'],
      nextRevision: startRevision > 0 ? startRevision : revision + 1,
      sentMillis: clock.monotonicMillis(),
    });
    totals.watchers += 1;
    this.#control.push({ header: this.#options.header(revision), watchId: id, created: true });
  }

  #cancel(id: bigint): void {
    if (!this.#remove(id)) return;
    const header = this.#options.header(this.#options.store.committedRevision);
    this.#control.push({ header, watchId: id, canceled: true });
  }

  #remove(id: bigint): boolean {
    const had = this.#watchers.delete(id);
    if (had) this.#options.totals.watchers -= 1;
    return had;
  }

  #stir(): void {
    this.#stirred = true;
    this.#wake();
  }

  /** Sends what the watches are due until the signal aborts or the connection is gone. */
  async run(): Promise<void> {
    const { signal, store, clock } = this.#options;
    using _commits = store.onCommit(() => this.#stir());
    const onAbort = () => this.#stir();
    signal.addEventListener('abort', onAbort, { once: true });
    const over = new AbortController();
    clock.every(
      kvLimits.watchProgressIntervalMillis / 10,
      () => this.#stir(),
      () => {},
      AbortSignal.any([signal, over.signal]),
    );
    try {
      while (!signal.aborted) {
        this.#stirred = false;
        const idle = await this.#sendDue();
        if (idle && !this.#stirred) {
          const woken = new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
          await this.#work.outside(woken);
        }
      }
    } finally {
      over.abort();
      signal.removeEventListener('abort', onAbort);
      for (const id of this.#watchers.keys()) this.#remove(id);
      this.#sent();
    }
  }

  /** One round over all watches. @returns whether none has more to send now */
  async #sendDue(): Promise<boolean> {
    const { store, header, clock } = this.#options;
    const control = this.#control;
    this.#control = [];
    for (const message of control) await this.#send(message);
    this.#sent();
    const through = store.committedRevision;
    let idle = true;
    for (const watcher of this.#watchers.values()) {
      if (this.#work.spend(watcherUnits)) await this.#work.pause();
      // A watch that was made or ended meanwhile is told so before there are changes.
      if (this.#control.length > 0) return false;
      if (await this.#sendChanges(watcher, through)) idle = false;
      const nowMillis = clock.monotonicMillis();
      const quietMillis = nowMillis - watcher.sentMillis;
      if (watcher.withProgress && quietMillis >= kvLimits.watchProgressIntervalMillis) {
        watcher.sentMillis = nowMillis;
        await this.#send({
          header: header(Math.max(through, watcher.nextRevision - 1)),
          watchId: watcher.id,
        });
      }
    }
    if (this.#progressAsked && idle) {
      // Every watch has been sent all up to this revision, which is what the answer says.
      this.#progressAsked = false;
      await this.#send({ header: header(through), watchId: -1 });
    }
    return idle;
  }

  #send(message: ProtoMessage): Promise<void> {
    return this.#sendEncoded(this.#options.codec.encode(message));
  }

  /** The client's time is not that of the stream. */
  #sendEncoded(answer: Uint8Array): Promise<void> {
    return this.#work.outside(this.#options.send(answer));
  }

  /** Sends one message of changes. @returns whether more are left */
  async #sendChanges(watcher: Watcher, through: number): Promise<boolean> {
    const { store, header, clock } = this.#options;
    if (watcher.nextRevision > through) return false;
    let found: ReturnType<Store['reader']['history']>;
    try {
      found = store.reader.history(
        watcher.nextRevision,
        through,
        kvLimits.watchAnswerBytes,
        (change) =>
          isInRange(change.key, watcher.range) &&
          (isDeletion(change) ? watcher.withDeletes : watcher.withPuts),
        watcher.withPrevious,
      );
    } catch (error) {
      if (!(error instanceof KvError && error.kind === 'compacted')) throw error;
      this.#remove(watcher.id);
      await this.#send({
        header: header(through),
        watchId: watcher.id,
        canceled: true,
        compactRevision: store.reader.compactRevision,
        cancelReason: messageOfKind('compacted'),
      });
      return false;
    }
    this.#work.note(found.lookedAt * changeUnits);
    watcher.nextRevision = found.throughRevision + 1;
    if (found.changes.length > 0) {
      watcher.sentMillis = clock.monotonicMillis();
      const message = { header: header(found.throughRevision), watchId: watcher.id };
      await this.#sendEncoded(await this.#encoded(message, found.changes, watcher));
    }
    return watcher.nextRevision <= through;
  }

  #encoded(
    message: ProtoMessage,
    changes: readonly Change[],
    watcher: Watcher,
  ): Promise<Uint8Array> {
    const units = unitsOfPair + (watcher.withPrevious ? previousUnits : 0);
    const eventsOf = (some: readonly Change[]) => ({
      events: some.map((change) => this.#eventOf(change, watcher)),
    });
    return encodedInParts(this.#options.codec, message, changes, eventsOf, this.#work, units);
  }

  #eventOf(change: Change, watcher: Watcher): ProtoMessage {
    const deleted = isDeletion(change);
    return {
      kind: deleted ? 1 : 0,
      pair: deleted
        ? { key: pairOf(change)['key'], modRevision: change.modRevision }
        : pairOf(change),
      previous: watcher.withPrevious
        ? previousOf(this.#options.store.reader.before(change.key, change.modRevision))
        : null,
    };
  }
}
