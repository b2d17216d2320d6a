/** Waiting that ends with its signal. */
import type { Env } from '#lib/env/env.ts';

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

/** Sleeps before retry `attempt` (0 for the first): half of the step and up to as much again at random. */
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
 * A signal for one piece of work: it aborts with its caller's, and after a time with DEADLINE_EXCEEDED. `release`
 * lets the caller's go, so that work may finish behind it; `end` ends both and frees the timer.
 */
export class WorkSignal {
  readonly signal: AbortSignal;
  private readonly caller: AbortSignal;
  private readonly stop = new AbortController();
  private readonly onAbort = () => this.stop.abort(this.caller.reason);

  constructor(env: Env, timeoutMillis: number, caller: AbortSignal) {
    this.caller = caller;
    if (caller.aborted) this.onAbort();
    else caller.addEventListener('abort', this.onAbort, { once: true });
    this.signal = env.clock.deadline(timeoutMillis, this.stop.signal);
  }

  release(): void {
    this.caller.removeEventListener('abort', this.onAbort);
  }

  end(reason: Error): void {
    this.release();
    this.stop.abort(reason);
  }
}
