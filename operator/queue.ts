/**
 * Keys to work on: each at most once in the queue and once in work; a key added while in work runs
 * again afterwards; a failed one comes back with a growing delay.
 */
import type { Env } from '#lib/env/env.ts';
import { messageOf } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';

const backoffMillisMin = 500;
const backoffMillisMax = 120_000;
/** They wait for servers more than they work; one that does not answer holds up nobody else. */
const workersDefault = 32;

export interface WorkQueueOptions {
  readonly env: Env;
  readonly log: Log;
  /** Resolves to the milliseconds after which to look again, or null to wait for a change. */
  readonly work: (key: string, signal: AbortSignal) => Promise<number | null>;
  readonly workers?: number;
  /** The least time to wait after this error, as the server asks for it; 0 for any. */
  readonly retryAfterMillisOf?: (error: unknown) => number;
}

export class WorkQueue {
  readonly #options: WorkQueueOptions;
  readonly #waiting = new Set<string>();
  readonly #working = new Set<string>();
  /** Times at which keys are due again, by monotonic milliseconds. */
  readonly #dueAt = new Map<string, number>();
  readonly #failures = new Map<string, number>();
  readonly #sleepers = new Set<AbortController>();

  constructor(options: WorkQueueOptions) {
    this.#options = options;
  }

  add(key: string): void {
    this.#waiting.add(key);
    this.#wake();
  }

  /** Keys waiting or in work: a metric. */
  get depth(): number {
    return this.#waiting.size + this.#working.size;
  }

  /** Works until the signal aborts, then until running work has ended. */
  async run(signal: AbortSignal): Promise<void> {
    const workers = Array.from({ length: this.#options.workers ?? workersDefault }, () =>
      this.#worker(signal),
    );
    await Promise.all(workers);
  }

  async #worker(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const key = this.#take();
      if (key === null) {
        await this.#idle(signal);
        continue;
      }
      this.#working.add(key);
      await this.#workOn(key, signal);
      this.#working.delete(key);
      this.#wake();
    }
  }

  async #workOn(key: string, signal: AbortSignal): Promise<void> {
    const { env, log, retryAfterMillisOf } = this.#options;
    try {
      const afterMillis = await this.#options.work(key, signal);
      this.#failures.delete(key);
      if (afterMillis !== null) this.#addAfter(key, afterMillis);
    } catch (error) {
      if (signal.aborted) return;
      const count = this.#failures.get(key) ?? 0;
      this.#failures.set(key, count + 1);
      const delayMillis = Math.max(
        Math.min(backoffMillisMin * 2 ** Math.min(count, 20), backoffMillisMax),
        retryAfterMillisOf?.(error) ?? 0,
      );
      log.warn({ key, error: messageOf(error), retryAfterMillis: delayMillis }, 'reconcile failed');
      this.#addAfter(key, delayMillis * (0.75 + env.random.fraction() / 2));
    }
  }

  #addAfter(key: string, millis: number): void {
    const due = this.#options.env.clock.monotonicMillis() + millis;
    const known = this.#dueAt.get(key);
    if (known === undefined || due < known) this.#dueAt.set(key, due);
  }

  #wake(): void {
    for (const sleeper of this.#sleepers) sleeper.abort();
  }

  #take(): string | null {
    const now = this.#options.env.clock.monotonicMillis();
    for (const [key, due] of this.#dueAt) {
      if (due > now) continue;
      this.#dueAt.delete(key);
      this.#waiting.add(key);
    }
    for (const key of this.#waiting) {
      if (this.#working.has(key)) continue;
      this.#waiting.delete(key);
      this.#dueAt.delete(key);
      return key;
    }
    return null;
  }

  async #idle(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options.env;
    const now = clock.monotonicMillis();
    const next = Math.min(1000, ...[...this.#dueAt.values()].map((due) => Math.max(1, due - now)));
    const sleeper = new AbortController();
    this.#sleepers.add(sleeper);
    await clock.sleep(next, AbortSignal.any([signal, sleeper.signal])).catch(() => {});
    this.#sleepers.delete(sleeper);
  }
}
