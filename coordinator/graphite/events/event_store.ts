/**
 * Events of Graphite, such as deployments, in the key-value store, so that all coordinators have the same: a key each, the newest
 * `eventsMax` by their times. They are few and small, are asked for whole, and have no rows.
 */
import { eventsPrefix, type ClusterName } from '#cluster/kv/keys.ts';
import type { KeyValue, Kv } from '#cluster/kv/kv.ts';
import { compareAndSet, decodeStored, encodeJson } from '#cluster/kv/stored_json.ts';
import { badRequest } from '#lib/errors.ts';
import type { ReadBytes } from '#lib/read_memory/read_memory.ts';
import { abortable } from '#lib/turns/abortable.ts';
import type { Work } from '#lib/turns/turns.ts';
import type { Window } from '../calls/window.ts';
import type { FindEvents } from '../evaluate/context.ts';

export interface NewEvent {
  /** Unix seconds. */
  readonly when: number;
  readonly what: string;
  readonly tags: readonly string[];
  readonly data: string;
}

export interface Event extends NewEvent {
  /** From 1 on, in the order in which they came. */
  readonly id: number;
}

/** Which events of some tags: those that have all, or any of them. */
export type TagChoice = 'all' | 'any';

/** Events that are kept. */
export const eventsMax = 1000;
/** Bytes of one as JSON. */
export const eventBytesMax = 8192;

/** Tags that are asked for at a time. */
const askedTagsMax = 100;

/** About what it takes to read one, in units of work (lib/turns/turns.ts). */
const eventUnits = 3_000;
/** What an event of an answer takes in memory, by the bytes that are stored of it: as texts, and as JSON. */
const answerBytesAByte = 4;
const answerBytesAnEvent = 256;

export class EventStore {
  readonly #kv: Kv;
  readonly #prefix: string;
  /** Resolves when all are read who began to before. */
  #read: Promise<void> = Promise.resolve();

  constructor(kv: Kv, cluster: ClusterName) {
    this.#kv = kv;
    this.#prefix = eventsPrefix(cluster);
  }

  /**
   * Of more than `eventsMax` the oldest goes.
   * @throws {TsdbError} BAD_REQUEST when it is too large, or is older than all that are kept; UNAVAILABLE, CONFLICT
   */
  async add(event: NewEvent, work: Work): Promise<void> {
    const { when, what, tags, data } = event;
    const value = encodeJson({ when, what, tags, data });
    if (value.length > eventBytesMax) {
      throw badRequest(`event: more than ${eventBytesMax} bytes: ${value.length}`);
    }
    await compareAndSet(
      this.#kv,
      async () => {
        const events = await this.#events(work, () => true, null);
        const key = this.#keyOf((events.at(-1)?.id ?? 0) + 1);
        const gone = events.toSorted((a, b) => a.when - b.when).slice(0, -(eventsMax - 1));
        const last = gone.at(-1);
        if (last !== undefined && when < last.when) {
          throw badRequest(`when: before the ${eventsMax} events that are kept: ${when}`);
        }
        return {
          compares: [{ key, target: 'version', equals: 0 }],
          operations: [
            { kind: 'put', key, value },
            ...gone.map(({ id }) => ({ kind: 'delete', key: this.#keyOf(id) }) as const),
          ],
          result: undefined,
        };
      },
      work.signal,
    );
  }

  /**
   * Those from the one time to the other, both included, by their times.
   * @param tags null for any
   * @param memory of the answer; null when it is dropped at once
   * @throws {TsdbError} BAD_REQUEST when too many tags are asked for; UNAVAILABLE
   */
  async find(
    { fromSeconds, untilSeconds }: Window,
    tags: readonly string[] | null,
    choice: TagChoice,
    work: Work,
    memory: ReadBytes | null,
  ): Promise<readonly Event[]> {
    // Letters count alike in both cases, as in Graphite.
    const asked = tags === null ? null : new Set(tags.map((tag) => tag.toLowerCase()));
    if (asked !== null && asked.size > askedTagsMax) {
      throw badRequest(`tags: more than ${askedTagsMax}: ${asked.size}`);
    }
    const isFound = (event: Event): boolean =>
      event.when >= fromSeconds &&
      event.when <= untilSeconds &&
      (asked === null || takes(event, asked, choice));
    return (await this.#events(work, isFound, memory)).sort((a, b) => a.when - b.when);
  }

  /** By ascending id. They are read by one after the other: all together they are some megabytes, which a hundred would have at once. */
  async #events(
    work: Work,
    isWanted: (event: Event) => boolean,
    memory: ReadBytes | null,
  ): Promise<Event[]> {
    const { signal } = work;
    const before = this.#read;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#read = before.then(() => promise);
    try {
      await work.outside(abortable(signal, (done) => void before.then(done)));
      const { items } = await work.outside(this.#kv.list(this.#prefix, signal));
      const events: Event[] = [];
      for (const item of items) {
        const event = this.#eventOf(item);
        if (isWanted(event)) {
          const bytes = answerBytesAnEvent + answerBytesAByte * item.value.length;
          if (memory !== null) await work.outside(memory.grow(bytes, signal));
          events.push(event);
        }
        if (work.spend(eventUnits)) await work.pause();
      }
      return events;
    } finally {
      resolve();
    }
  }

  #eventOf(item: KeyValue): Event {
    const id = Number(item.key.slice(this.#prefix.length));
    return { id, ...decodeStored(item, (json) => json as NewEvent).value };
  }

  #keyOf(id: number): string {
    return `${this.#prefix}${String(id).padStart(16, '0')}`;
  }
}

/** @param asked in small letters */
function takes(event: Event, asked: ReadonlySet<string>, choice: TagChoice): boolean {
  const own = new Set(event.tags.map((tag) => tag.toLowerCase()));
  return choice === 'all' ? asked.isSubsetOf(own) : !asked.isDisjointFrom(own);
}

/** For `events()` in targets. */
export function findEventsOf(store: EventStore, workOf: (signal: AbortSignal) => Work): FindEvents {
  return async (tags, window, signal) =>
    (await store.find(window, tags, 'all', workOf(signal), null)).map(({ when }) => when);
}

/** The same of who is forced to some series: events are of no series, so that they are all or nothing. */
export const refuseEvents: FindEvents = () => {
  throw badRequest('events() tells the events of all, and tags are forced on who asks');
};
