/**
 * A clock that stands until the test moves it; what waits for it wakes in the order of its times.
 */
import { setImmediate as turn } from 'node:timers/promises';
import type { Clock, Env } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';

interface Sleeper {
  readonly dueMillis: number;
  readonly wake: () => void;
}

/** 2026-01-01T00:00:00Z. */
const startMillis = Date.UTC(2026, 0, 1);
/** Turns of the event loop after which everything that needed no time has happened. */
const turnsToRest = 20;

export class FakeClock implements Clock {
  readonly #sleepers = new Set<Sleeper>();
  #passedMillis = 0;

  nowMillis(): number {
    return startMillis + Math.floor(this.#passedMillis);
  }

  nowNanos(): bigint {
    return BigInt(this.nowMillis()) * 1_000_000n;
  }

  monotonicMillis(): number {
    return this.#passedMillis;
  }

  sleep(millis: number, signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    if (signal.aborted) reject(signal.reason as Error);
    else {
      const sleeper = { dueMillis: this.#passedMillis + millis, wake: resolve };
      this.#sleepers.add(sleeper);
      const aborted = () => {
        this.#sleepers.delete(sleeper);
        reject(signal.reason as Error);
      };
      signal.addEventListener('abort', aborted, { once: true });
    }
    return promise;
  }

  every(
    millis: number,
    task: () => void | Promise<void>,
    onError: (error: unknown) => void,
    signal: AbortSignal,
  ): void {
    const run = async () => {
      while (!signal.aborted) {
        await this.sleep(millis, signal);
        await Promise.resolve().then(task).catch(onError);
      }
    };
    run().catch(() => {});
  }

  deadline(millis: number, parent: AbortSignal): AbortSignal {
    const timeout = new AbortController();
    const expire = () =>
      timeout.abort(new TsdbError('DEADLINE_EXCEEDED', `deadline of ${millis} ms exceeded`));
    this.#sleepers.add({ dueMillis: this.#passedMillis + millis, wake: expire });
    return AbortSignal.any([parent, timeout.signal]);
  }

  /** The time is later and nothing has run: a process that was stopped and goes on. */
  jump(millis: number): void {
    this.#passedMillis += millis;
  }

  /** Lets this time pass, with all that is due in it. */
  async pass(millis: number): Promise<void> {
    const endMillis = this.#passedMillis + millis;
    for (;;) {
      await rest();
      const next = [...this.#sleepers].reduce<Sleeper | null>(
        (first, one) => (first === null || one.dueMillis < first.dueMillis ? one : first),
        null,
      );
      if (next === null || next.dueMillis > endMillis) break;
      this.#sleepers.delete(next);
      this.#passedMillis = Math.max(this.#passedMillis, next.dueMillis);
      next.wake();
    }
    this.#passedMillis = endMillis;
    await rest();
  }
}

/** Until everything has happened that needs no time. */
export async function rest(): Promise<void> {
  for (let count = 0; count < turnsToRest; count++) await turn();
}

/** With a clock of its own, and jitter that is always in the middle. */
export function fakeEnv(clock: Clock): Env {
  return { ...realEnv, clock, random: { ...realEnv.random, fraction: () => 0.5 } };
}
