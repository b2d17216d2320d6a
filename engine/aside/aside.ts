/**
 * Does what cannot be divided in a thread of its own, so that it holds up nobody but others of its
 * kind: one job at a time, of the piece of work first that has had least of that time. A job that is
 * cancelled, or out of time, ends with its thread.
 */
import { Worker } from 'node:worker_threads';
import type { Clock } from '#lib/env/env.ts';
import { type ErrorCode, messageOf, TsdbError } from '#lib/errors.ts';
import type { Work } from '#lib/turns/turns.ts';
import { type AnswerOf, doJob, type Job } from './jobs.ts';

/** Jobs that wait; more are refused. */
export const asideWaitingMax = 1_000;
/** A thread without a job is kept for so long. */
const idleMillisMax = 30_000;

export interface AsideRequest {
  readonly id: number;
  readonly job: Job;
}

export interface AsideReply {
  readonly id: number;
  readonly answer: unknown;
  readonly error: { readonly code: ErrorCode; readonly message: string } | null;
}

export interface Aside {
  /**
   * @throws {TsdbError} as the job does, RESOURCE_EXHAUSTED when too many wait; the reason of the work's
   * signal
   */
  run<One extends Job>(job: One, work: Work): Promise<AnswerOf<One>>;
}

/** How a query takes its turns with others. */
export interface Turning {
  readonly work: Work;
  readonly aside: Aside;
}

/** On the loop itself: for the simulator, whose time stands meanwhile, and for tests. */
export const onTheLoop: Aside = {
  run: async (job, work) => {
    work.signal.throwIfAborted();
    return doJob(job);
  },
};

interface Waiting {
  readonly job: Job;
  readonly work: Work;
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: unknown) => void;
  /** It waits no more. */
  readonly begin: () => void;
}

/** One thread, which is started with its first job. */
export class AsideThread implements Aside, AsyncDisposable {
  readonly #clock: Clock;
  readonly #waiting: Waiting[] = [];
  /** Milliseconds of the thread that each piece of work has had. */
  readonly #attained = new WeakMap<Work, number>();
  #worker: Worker | null = null;
  #isBusy = false;
  #count = 0;
  #idle: AbortController | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Jobs that wait. */
  get waiting(): number {
    return this.#waiting.length;
  }

  run<One extends Job>(job: One, work: Work): Promise<AnswerOf<One>> {
    if (this.#waiting.length >= asideWaitingMax) {
      const message = `too many queries are about much at once: ${asideWaitingMax} wait`;
      return Promise.reject(new TsdbError('RESOURCE_EXHAUSTED', message));
    }
    const { signal } = work;
    if (signal.aborted) return Promise.reject(signal.reason);
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        const at = this.#waiting.indexOf(waiting);
        if (at < 0) return;
        this.#waiting.splice(at, 1);
        reject(signal.reason);
      };
      const waiting: Waiting = {
        job,
        work,
        resolve: resolve as Waiting['resolve'],
        reject,
        begin: () => signal.removeEventListener('abort', leave),
      };
      signal.addEventListener('abort', leave, { once: true });
      this.#waiting.push(waiting);
      void this.#next();
    });
  }

  async #next(): Promise<void> {
    if (this.#isBusy) return;
    const chosen = this.#choose();
    if (chosen === null) return;
    this.#isBusy = true;
    try {
      await this.#do(chosen);
    } finally {
      this.#isBusy = false;
    }
    void this.#next();
  }

  #choose(): Waiting | null {
    let least = -1;
    for (let at = 0; at < this.#waiting.length; at++) {
      if (least < 0 || this.#hasHad(at) < this.#hasHad(least)) least = at;
    }
    return least < 0 ? null : this.#waiting.splice(least, 1)[0]!;
  }

  #hasHad(at: number): number {
    return this.#attained.get(this.#waiting[at]!.work) ?? 0;
  }

  async #do({ job, work, resolve, reject, begin }: Waiting): Promise<void> {
    begin();
    const startedMillis = this.#clock.monotonicMillis();
    const { signal } = work;
    const { promise, resolve: settle } = Promise.withResolvers<void>();
    const worker = this.#thread();
    const id = ++this.#count;
    const onMessage = (reply: AsideReply): void => {
      if (reply.id !== id) return;
      if (reply.error === null) resolve(reply.answer);
      else reject(new TsdbError(reply.error.code, reply.error.message));
      settle();
    };
    const onEnd = (error: unknown): void => {
      this.#forget(worker);
      reject(new TsdbError('UNAVAILABLE', `the thread of long work ended: ${messageOf(error)}`));
      settle();
    };
    const onAbort = (): void => {
      this.#forget(worker);
      void worker.terminate();
      reject(signal.reason);
      settle();
    };
    worker.on('message', onMessage);
    worker.on('error', onEnd);
    worker.on('exit', onEnd);
    signal.addEventListener('abort', onAbort, { once: true });
    worker.postMessage({ id, job } satisfies AsideRequest);
    try {
      await promise;
    } finally {
      worker.off('message', onMessage);
      worker.off('error', onEnd);
      worker.off('exit', onEnd);
      signal.removeEventListener('abort', onAbort);
      const had = this.#attained.get(work) ?? 0;
      this.#attained.set(work, had + this.#clock.monotonicMillis() - startedMillis);
      this.#rest();
    }
  }

  #thread(): Worker {
    this.#idle?.abort();
    this.#idle = null;
    if (this.#worker === null) {
      const worker = new Worker(new URL('worker.ts', import.meta.url), { name: 'aside' });
      // Nobody waits for an idle one; the next job gets another one.
      worker.on('error', () => {});
      worker.on('exit', () => this.#forget(worker));
      this.#worker = worker;
    }
    this.#worker.ref();
    return this.#worker;
  }

  #forget(worker: Worker): void {
    if (this.#worker === worker) this.#worker = null;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#idle?.abort();
    const worker = this.#worker;
    this.#worker = null;
    await worker?.terminate();
  }

  /** Its memory may have grown by what it did. */
  #rest(): void {
    const worker = this.#worker;
    if (worker === null) return;
    worker.unref();
    const idle = new AbortController();
    this.#idle = idle;
    this.#clock.deadline(idleMillisMax, idle.signal).addEventListener('abort', () => {
      if (idle.signal.aborted) return;
      this.#forget(worker);
      void worker.terminate();
    });
  }
}
