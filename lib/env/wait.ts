/** Waiting that ends with its signal. */
import { TsdbError } from '../errors.ts';
import { deriveAccount } from '../turns/accounts.ts';
import type { Env } from './env.ts';

/** Settles as the promise does, or rejects with the signal's reason, whichever is first. */
export function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason as Error);
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    promise.then(
      (value) => {
        signal.removeEventListener('abort', onAbort);
        resolve(value);
      },
      (error: unknown) => {
        signal.removeEventListener('abort', onAbort);
        reject(error as Error);
      },
    );
  });
}

export interface Backoff {
  readonly firstMillis: number;
  readonly factor: number;
}

/**
 * Sleeps before retry `attempt` (0 for the first): half of the step and up to as much again at
 * random.
 */
export function backOff(
  env: Env,
  backoff: Backoff,
  attempt: number,
  signal: AbortSignal,
): Promise<void> {
  const stepMillis = backoff.firstMillis * backoff.factor ** attempt;
  return env.clock.sleep(Math.ceil(stepMillis * (0.5 + env.random.fraction())), signal);
}

/**
 * A signal for one piece of work: it aborts with its caller's, and after a time with
 * DEADLINE_EXCEEDED. `release` lets the caller's go, so that work may finish after it; `end` ends
 * both and frees the timer.
 */
export class WorkSignal {
  readonly signal: AbortSignal;
  readonly #caller: AbortSignal;
  readonly #stop = new AbortController();
  readonly #onAbort = () => this.#stop.abort(this.#caller.reason);

  constructor(env: Env, timeoutMillis: number, caller: AbortSignal) {
    this.#caller = caller;
    deriveAccount(this.#stop.signal, caller);
    if (caller.aborted) this.#onAbort();
    else caller.addEventListener('abort', this.#onAbort, { once: true });
    this.signal = env.clock.deadline(timeoutMillis, this.#stop.signal);
  }

  release(): void {
    this.#caller.removeEventListener('abort', this.#onAbort);
  }

  end(reason: Error = workIsOver): void {
    this.release();
    this.#stop.abort(reason);
  }
}

/**
 * A signal that aborts with its parent's, and when it is ended, which lets go of the parent:
 * `AbortSignal.any` with a controller of one's own does this at several times the cost, and its
 * parents remember it until it is collected.
 */
export class ChildSignal {
  readonly #parent: AbortSignal;
  readonly #own = new AbortController();
  readonly #onAbort = (): void => this.#own.abort(this.#parent.reason);

  constructor(parent: AbortSignal) {
    this.#parent = parent;
    deriveAccount(this.#own.signal, parent);
    if (parent.aborted) this.#onAbort();
    else parent.addEventListener('abort', this.#onAbort, { once: true });
  }

  get signal(): AbortSignal {
    return this.#own.signal;
  }

  end(reason: Error = workIsOver): void {
    this.#parent.removeEventListener('abort', this.#onAbort);
    this.#own.abort(reason);
  }
}

const workIsOver = new TsdbError('CANCELLED', 'the work is over');

/**
 * Signals for many short pieces of work with the same timeout: one timer serves all of them, and a
 * piece that ends in time aborts nothing. For writes, of which there are thousands a second.
 */
export class WorkSignals {
  readonly #env: Env;
  readonly #timeoutMillis: number;
  /** In the order in which they began, so that the first one ends first. */
  readonly #running = new Set<TimedWork>();
  #isTimed = false;

  constructor(env: Env, timeoutMillis: number) {
    this.#env = env;
    this.#timeoutMillis = timeoutMillis;
  }

  begin(caller: AbortSignal): TimedWork {
    const endMillis = this.#env.clock.monotonicMillis() + this.#timeoutMillis;
    const work = new TimedWork(caller, endMillis, this.#running);
    if (!this.#isTimed) this.#waitForFirst(this.#timeoutMillis);
    return work;
  }

  #waitForFirst(millis: number): void {
    this.#isTimed = true;
    const timer = this.#env.clock.deadline(millis, new AbortController().signal);
    timer.addEventListener('abort', () => this.#expire(), { once: true });
  }

  #expire(): void {
    this.#isTimed = false;
    const now = this.#env.clock.monotonicMillis();
    for (const work of this.#running) {
      const leftMillis = work.endMillis - now;
      if (leftMillis > 0) {
        this.#waitForFirst(leftMillis);
        return;
      }
      work.expire(this.#timeoutMillis);
    }
  }
}

/**
 * A signal that aborts with its caller's until `release`, and at the end of its time until `end`.
 */
export class TimedWork {
  readonly endMillis: number;
  readonly #caller: AbortSignal;
  readonly #running: Set<TimedWork>;
  readonly #stop = new AbortController();
  readonly #onAbort = () => this.#stop.abort(this.#caller.reason);

  /** @param running it is in there until it ends */
  constructor(caller: AbortSignal, endMillis: number, running: Set<TimedWork>) {
    this.#caller = caller;
    this.endMillis = endMillis;
    this.#running = running;
    running.add(this);
    deriveAccount(this.#stop.signal, caller);
    if (caller.aborted) this.#onAbort();
    else caller.addEventListener('abort', this.#onAbort, { once: true });
  }

  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  release(): void {
    this.#caller.removeEventListener('abort', this.#onAbort);
  }

  end(): void {
    this.#running.delete(this);
  }

  expire(timeoutMillis: number): void {
    this.end();
    const reason = `deadline of ${timeoutMillis} ms exceeded`;
    this.#stop.abort(new TsdbError('DEADLINE_EXCEEDED', reason));
  }
}
