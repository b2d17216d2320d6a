/**
 * The sequencer of one engine: the position in the commit log is the order of application.
 *
 *     submit → queue → prepare → record ─┬─ write and sync of a group ─→ apply → acknowledge
 *                                        └─ meanwhile the group before it is applied
 *
 * Waiting writes share one write and one sync. Writers that were answered just now are likely to
 * come back at once, so a group waits a moment for as many as there were (`gather`): with a few
 * busy writers this halves the syncs. A single one never waits. A step given to `exclusive` runs
 * between groups, when all that was acknowledged before is applied and nothing is under way.
 */
import type { SampleStore, WriteGroup } from '#engine/store/sample_store.ts';
import { assert } from '#lib/assert.ts';
import type { Clock } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';
import { withRests } from '#lib/turns/steps.ts';
import { loopTurn } from '#lib/turns/turns.ts';
import type { Commitlog } from '../../persist/commitlog/commitlog.ts';
import type { SegmentBuffer } from '../../persist/commitlog/format.ts';

/** A write on its way. */
export interface SequencedWrite<T> {
  /** For the limits of queue and group. */
  readonly bytes: number;
  /**
   * Called once, in the order of the log. What it throws refuses this write alone. Between its steps the
   * main loop looks at its sockets; nothing else is prepared, logged or applied meanwhile.
   */
  prepare(): Iterable<void>;
  /** Adds its records; called again when a segment of the log failed. */
  record(buffer: SegmentBuffer): void;
  /** Makes it readable. Called once, in the order of the log, when its records are in it; steps are those of `prepare`. */
  apply(): Generator<void, T>;
}

interface Waiting {
  readonly bytes: number;
  readonly write: SequencedWrite<unknown> | null;
  readonly step: (() => unknown) | null;
  readonly signal: AbortSignal | null;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** Writes that share one write of the log. */
interface Group {
  readonly writes: readonly Waiting[];
  readonly number: WriteGroup;
}

/** Bytes of writes that wait for the commit log; more are refused with RESOURCE_EXHAUSTED. */
export const writeQueueBytesMax: number = 128 * 1024 * 1024;

/**
 * Bytes of writes that share one write and sync of the commit log, and one stretch of the main
 * loop.
 */
export const writeGroupBytesMax: number = 2 * 1024 * 1024;

/** When so many bytes of a group are applied, the loop looks at its sockets: some 25,000 rows. */
const applyBytesMax: number = 512 * 1024;

export interface SequencerLimits {
  readonly queueBytesMax: number;
  readonly groupBytesMax: number;
}

/**
 * Longest wait for the rest of a group: about what a sync takes on a good disk, and as fine as
 * timers are.
 */
const gatherMillisMax = 1;

export class Sequencer implements AsyncDisposable {
  readonly #commitlog: Commitlog;
  readonly #limits: SequencerLimits;
  readonly #clock: Clock;
  readonly #store: Pick<SampleStore, 'beginGroup' | 'endGroup'>;
  #nextGroup: WriteGroup = 0;
  /** Writers that may be on their way: those of the last group, and those that waited after it. */
  #expected = 0;
  /** Ends the wait of `gather`. */
  #gathered: (() => void) | null = null;
  readonly #never: AbortSignal = new AbortController().signal;
  #queue: Waiting[] = [];
  #queueBytes = 0;
  #running: Promise<void> | null = null;
  #closed = false;
  /** Counts of this process, for metrics. */
  readonly counts: { groups: number; writes: number; refused: number } = {
    groups: 0,
    writes: 0,
    refused: 0,
  };

  /** @param store that the writes are checked against, and applied to */
  constructor(
    commitlog: Commitlog,
    limits: SequencerLimits,
    clock: Clock,
    store: Pick<SampleStore, 'beginGroup' | 'endGroup'>,
  ) {
    this.#store = store;
    this.#commitlog = commitlog;
    this.#limits = limits;
    this.#clock = clock;
  }

  /** Bytes that wait. */
  get waitingBytes(): number {
    return this.#queueBytes;
  }

  /**
   * Puts a write in the log's order; resolves when it is in the log and applied.
   * @param signal ends the wait as long as the write is not begun
   * @throws {TsdbError} RESOURCE_EXHAUSTED when too much waits, UNAVAILABLE when the log takes no
   *   writes, or what `prepare` throws
   */
  submit<T>(write: SequencedWrite<T>, signal: AbortSignal): Promise<T> {
    if (this.#closed) return Promise.reject(stopping());
    if (this.#queueBytes > 0 && this.#queueBytes + write.bytes > this.#limits.queueBytesMax) {
      this.counts.refused += 1;
      return Promise.reject(
        new TsdbError(
          'RESOURCE_EXHAUSTED',
          `cannot write: ${this.#queueBytes} bytes wait for the commit log already`,
        ),
      );
    }
    this.#queueBytes += write.bytes;
    return this.#enqueue<T>(write.bytes, write, null, signal);
  }

  /** Runs a step alone: everything before it is applied, everything after it waits. */
  exclusive<T>(step: () => T | Promise<T>): Promise<T> {
    if (this.#closed) return Promise.reject(stopping());
    return this.#enqueue<T>(0, null, step, null);
  }

  /** Finishes what waits; later writes are refused. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    while (this.#running !== null) await this.#running;
  }

  #enqueue<T>(
    bytes: number,
    write: SequencedWrite<T> | null,
    step: (() => unknown) | null,
    signal: AbortSignal | null,
  ): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.#queue.push({ bytes, write, step, signal, resolve: resolve as never, reject });
    // Starting in a microtask of its own lets writes that arrived together share a group.
    this.#running ??= Promise.resolve().then(() => this.#run());
    if (this.#gathered !== null && this.#isGathered()) this.#gathered();
    return promise;
  }

  #isGathered(): boolean {
    return (
      this.#queue.length >= this.#expected ||
      this.#queue.at(-1)!.step !== null ||
      this.#queueBytes >= this.#limits.groupBytesMax
    );
  }

  /** Resolves when as many writes wait as are expected, or after a moment. */
  async #gather(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#gathered = resolve;
    void this.#clock.sleep(gatherMillisMax, this.#never).then(resolve);
    await promise;
    this.#gathered = null;
  }

  async #run(): Promise<void> {
    let logged: Group | null = null;
    while (this.#queue.length > 0 || logged !== null) {
      const head = this.#queue[0];
      if (head === undefined || head.step !== null || !this.#isGathered()) {
        if (logged !== null) {
          await this.#apply(logged);
          logged = null;
          // Others may have come meanwhile.
        } else if (head!.step !== null) {
          this.#queue.shift();
          await this.#runStep(head!);
        } else {
          await this.#gather();
          this.#expected = this.#queue.length;
        }
        continue;
      }
      const group = await this.#takeGroup();
      const writing = this.#commitlog.write((buffer) => {
        for (const { write } of group.writes) write!.record(buffer);
      });
      // Its failure is met below.
      writing.catch(() => {});
      // The disk works on this group while the one before it is applied.
      if (logged !== null) await this.#apply(logged);
      logged = null;
      try {
        await writing;
        logged = group;
        this.#expected = group.writes.length + this.#queue.length;
      } catch (error) {
        for (const waiting of group.writes) waiting.reject(error);
        this.#store.endGroup(group.number);
      }
    }
    this.#running = null;
  }

  /** Writes from the head of the queue, prepared. */
  async #takeGroup(): Promise<Group> {
    const number = this.#nextGroup;
    this.#nextGroup = number === 0 ? 1 : 0;
    this.#store.beginGroup(number);
    const writes: Waiting[] = [];
    let bytes = 0;
    let taken = 0;
    for (const waiting of this.#queue) {
      if (waiting.write === null) break;
      if (taken > 0 && bytes + waiting.bytes > this.#limits.groupBytesMax) break;
      taken += 1;
      bytes += waiting.bytes;
      this.#queueBytes -= waiting.bytes;
      if (waiting.signal?.aborted) {
        waiting.reject(waiting.signal.reason);
        continue;
      }
      try {
        for (const _ of waiting.write.prepare()) await loopTurn();
        writes.push(waiting);
      } catch (error) {
        waiting.reject(error);
      }
    }
    this.#queue.splice(0, taken);
    this.counts.groups += 1;
    this.counts.writes += writes.length;
    return { writes, number };
  }

  async #apply({ writes, number }: Group): Promise<void> {
    let bytes = 0;
    for (const waiting of writes) {
      assert(waiting.write !== null, 'a group holds writes only');
      if (bytes >= applyBytesMax) {
        await loopTurn();
        bytes = 0;
      }
      bytes += waiting.bytes;
      try {
        waiting.resolve(await withRests(waiting.write.apply(), loopTurn));
      } catch (error) {
        waiting.reject(error);
      }
    }
    this.#store.endGroup(number);
  }

  async #runStep(waiting: Waiting): Promise<void> {
    try {
      await this.#commitlog.sync();
      waiting.resolve(await waiting.step!());
    } catch (error) {
      waiting.reject(error);
    }
  }
}

function stopping(): TsdbError {
  return new TsdbError('UNAVAILABLE', 'cannot write: the node is stopping');
}
