/**
 * Time of a simulation: a queue of what happens when. Nothing waits; the clock jumps from one event
 * to the next. After each event everything that follows from it at once (promises) is carried out,
 * so a run is decided by the order of its events alone.
 */

export interface SimulatedTimer {
  cancel(): void;
}

/** Whose events come as long as it lives. */
export interface EventOwner {
  readonly isAlive: boolean;
}

class Event implements SimulatedTimer {
  readonly atMillis: number;
  /** Of two events at one time the one that was asked for first comes first. */
  readonly order: number;
  task: (() => void) | null;
  readonly owner: EventOwner | null;

  constructor(atMillis: number, order: number, task: () => void, owner: EventOwner | null) {
    this.atMillis = atMillis;
    this.order = order;
    this.task = task;
    this.owner = owner;
  }

  cancel(): void {
    this.task = null;
  }
}

/** Events of one turn of the real event loop. */
const eventsPerTurn = 64;

export class SimulatedTime {
  /** Milliseconds since the simulation began. */
  nowMillis = 0;
  /** Events that were carried out. */
  count = 0;
  /** Called before each event, in its time. */
  onEvent: () => void = () => {};
  #order = 0;
  /** A binary heap: the next event first. */
  readonly #events: Event[] = [];
  readonly #waiters = new Set<{ readonly holds: () => boolean; readonly resolve: () => void }>();
  #failure: { readonly error: unknown } | null = null;

  /** Carries the task out after the time, unless its owner has died. */
  after(millis: number, task: () => void, owner: EventOwner | null = null): SimulatedTimer {
    this.#order += 1;
    const event = new Event(this.nowMillis + Math.max(0, millis), this.#order, task, owner);
    this.#push(event);
    return event;
  }

  /** Resolves after the time. */
  sleep(millis: number): Promise<void> {
    return new Promise((resolve) => void this.after(millis, resolve));
  }

  /** Resolves between two events, as soon as this holds. */
  until(holds: () => boolean): Promise<void> {
    return new Promise((resolve) => void this.#waiters.add({ holds, resolve }));
  }

  /** Ends the run: `runUntil` rejects with the error. */
  fail(error: unknown): void {
    this.#failure ??= { error };
  }

  /**
   * Carries out events until the promise has settled.
   * @throws what it rejects with, what an event threw or `fail` was given, and an error when nothing
   *   is left to happen
   */
  async runUntil<T>(promise: Promise<T>): Promise<T> {
    let isSettled = false;
    const settled = promise.finally(() => {
      isSettled = true;
    });
    settled.catch(() => {});
    while (!isSettled && this.#failure === null) {
      await new Promise<void>((resolve) => {
        let left = eventsPerTurn;
        // Promises are carried out between two of these.
        const step = (): void => {
          if (!isSettled && this.#failure === null) this.#step();
          left -= 1;
          if (left === 0) resolve();
        };
        for (let i = 0; i < eventsPerTurn; i += 1) setImmediate(step);
      });
    }
    if (this.#failure !== null) throw this.#failure.error;
    return settled;
  }

  #step(): void {
    if (this.#wakesSomebody()) return;
    for (;;) {
      const event = this.#pop();
      if (event === undefined) {
        this.fail(new Error('the simulation stands still: nothing is left to happen'));
        return;
      }
      const { task, owner } = event;
      if (task === null || owner?.isAlive === false) continue;
      this.nowMillis = event.atMillis;
      this.count += 1;
      this.onEvent();
      try {
        task();
      } catch (error) {
        this.fail(error);
      }
      return;
    }
  }

  #wakesSomebody(): boolean {
    let wakes = false;
    for (const waiter of this.#waiters) {
      if (!waiter.holds()) continue;
      this.#waiters.delete(waiter);
      waiter.resolve();
      wakes = true;
    }
    return wakes;
  }

  #push(event: Event): void {
    const events = this.#events;
    let at = events.length;
    events.push(event);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!isBefore(event, events[parent]!)) break;
      events[at] = events[parent]!;
      at = parent;
    }
    events[at] = event;
  }

  #pop(): Event | undefined {
    const events = this.#events;
    const first = events[0];
    const last = events.pop();
    if (first === undefined || last === undefined || events.length === 0) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= events.length) break;
      if (child + 1 < events.length && isBefore(events[child + 1]!, events[child]!)) child += 1;
      if (!isBefore(events[child]!, last)) break;
      events[at] = events[child]!;
      at = child;
    }
    events[at] = last;
    return first;
  }
}

function isBefore(left: Event, right: Event): boolean {
  if (left.atMillis !== right.atMillis) return left.atMillis < right.atMillis;
  return left.order < right.order;
}
