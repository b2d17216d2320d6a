/**
 * Which requests begin: as many at a time as the limits allow, and not before this node knows their
 * placement and their namespace.
 */
import type { OfNamespace } from '#cluster/node/service.ts';
import type { QueryLimits } from '#cluster/metadata/runtime_limits.ts';
import type { Clock } from '#lib/env/env.ts';
import { ChildSignal } from '#lib/env/wait.ts';
import { TsdbError } from '#lib/errors.ts';

/**
 * Longest wait for a placement version or a namespace that a request names and this node has not
 * seen yet.
 */
export const placementWaitMillisMax = 2_000;

/** 0 = no limit. */
export interface RequestLimits {
  readonly outstandingWritesMax: number;
  readonly outstandingReadsMax: number;
  readonly newSeriesPerSecondMax: number;
  /** What queries may do over a time; without it all. */
  readonly query?: QueryLimits;
}

/** The placement that this node has adopted. */
export interface AdoptedPlacement {
  readonly version: number;
}

export class Admission {
  readonly #clock: Clock;
  readonly #adopted: AdoptedPlacement;
  /** May be changed at any time, by `Database.setLimits`. */
  limits: RequestLimits;
  #waiters: { isOver: () => boolean; resolve: () => void }[] = [];
  /** Reads the namespaces of the cluster anew: a request names one that was made since. */
  onUnknownNamespace: () => void = () => {};
  /** Under way. */
  readonly outstanding: { writes: number; reads: number } = { writes: 0, reads: 0 };
  /** Counts of this process, for metrics. */
  readonly refused: { writes: number; reads: number } = { writes: 0, reads: 0 };

  constructor(clock: Clock, adopted: AdoptedPlacement, limits: RequestLimits) {
    this.#clock = clock;
    this.#adopted = adopted;
    this.limits = limits;
  }

  /**
   * Does the work unless as much is under way as the limits allow. @throws {TsdbError}
   * RESOURCE_EXHAUSTED
   */
  async limited<T>(kind: 'writes' | 'reads', work: () => Promise<T>): Promise<T> {
    const { outstanding } = this;
    const { outstandingWritesMax, outstandingReadsMax } = this.limits;
    const max = kind === 'writes' ? outstandingWritesMax : outstandingReadsMax;
    if (max > 0 && outstanding[kind] >= max) {
      this.refused[kind] += 1;
      throw new TsdbError('RESOURCE_EXHAUSTED', `server is overloaded: ${max} ${kind} under way`);
    }
    outstanding[kind] += 1;
    try {
      return await work();
    } finally {
      outstanding[kind] -= 1;
    }
  }

  /**
   * Waits until this node has adopted a placement that the caller has seen already.
   * @throws {TsdbError} UNAVAILABLE when it takes too long
   */
  async placementVersion(version: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (version <= this.#adopted.version) return;
    await this.#until(() => version <= this.#adopted.version, signal);
    if (version > this.#adopted.version) {
      throw new TsdbError(
        'UNAVAILABLE',
        `placement version ${version} is not known here yet, but ${this.#adopted.version}`,
      );
    }
  }

  /**
   * Waits until this node knows a namespace by the number that the caller knows, or a higher one.
   * @param numberNow the number that it is known by here
   * @throws {TsdbError} UNAVAILABLE when it takes too long
   */
  async namespaceNumber(
    { namespace, namespaceNumber: number = 0 }: OfNamespace,
    numberNow: () => number,
    signal: AbortSignal,
  ): Promise<void> {
    if (number <= numberNow()) return;
    this.onUnknownNamespace();
    await this.#until(() => number <= numberNow(), signal);
    if (number > numberNow()) {
      throw new TsdbError(
        'UNAVAILABLE',
        `namespace was made again, which is not known here yet: ${namespace}`,
      );
    }
  }

  /**
   * Waits until this node knows the schema that rows are of.
   * @param isKnown whether it does, or has heard of a later one
   */
  async schema(isKnown: () => boolean, signal: AbortSignal): Promise<void> {
    if (isKnown()) return;
    this.onUnknownNamespace();
    await this.#until(isKnown, signal);
  }

  /** Waits until it holds after a change of the topology, or long enough. */
  async #until(isOver: () => boolean, signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiter = { isOver, resolve };
    this.#waiters.push(waiter);
    const stop = new ChildSignal(signal);
    const timeout = this.#clock.sleep(placementWaitMillisMax, stop.signal);
    try {
      await Promise.race([promise, timeout.catch(() => {})]);
    } finally {
      stop.end();
      this.#waiters = this.#waiters.filter((other) => other !== waiter);
    }
    signal.throwIfAborted();
  }

  /** Called when a placement or namespaces were adopted. */
  wake(): void {
    for (const { isOver, resolve } of this.#waiters) if (isOver()) resolve();
  }
}
