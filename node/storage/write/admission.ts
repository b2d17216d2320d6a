/**
 * Which requests begin: as many at a time as the limits allow, and not before this node knows their
 * placement.
 */
import type { QueryLimits } from '#cluster/metadata/runtime_limits.ts';
import type { Clock } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';
import { placementWaitMillisMax } from '../../limits.ts';
import type { ShardTable } from '../namespace/shards.ts';

/** 0 = no limit. */
export interface RequestLimits {
  readonly outstandingWritesMax: number;
  readonly outstandingReadsMax: number;
  readonly newSeriesPerSecondMax: number;
  /** What queries may do over a time; without it all. */
  readonly query?: QueryLimits;
}

export class Admission {
  readonly #clock: Clock;
  readonly #shards: ShardTable;
  /** May be changed at any time, by `Database.setLimits`. */
  limits: RequestLimits;
  #versionWaiters: { version: number; resolve: () => void }[] = [];
  /** Under way. */
  readonly outstanding: { writes: number; reads: number } = { writes: 0, reads: 0 };
  /** Counts of this process, for metrics. */
  readonly refused: { writes: number; reads: number } = { writes: 0, reads: 0 };

  constructor(clock: Clock, shards: ShardTable, limits: RequestLimits) {
    this.#clock = clock;
    this.#shards = shards;
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
    if (version <= this.#shards.version) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiter = { version, resolve };
    this.#versionWaiters.push(waiter);
    const stop = new AbortController();
    const timeout = this.#clock.sleep(
      placementWaitMillisMax,
      AbortSignal.any([signal, stop.signal]),
    );
    try {
      await Promise.race([promise, timeout.catch(() => {})]);
    } finally {
      stop.abort();
      this.#versionWaiters = this.#versionWaiters.filter((other) => other !== waiter);
    }
    signal.throwIfAborted();
    if (version > this.#shards.version) {
      throw new TsdbError(
        'UNAVAILABLE',
        `placement version ${version} is not known here yet, but ${this.#shards.version}`,
      );
    }
  }

  /** Called when a placement was adopted. */
  wake(): void {
    for (const { version, resolve } of this.#versionWaiters) {
      if (version <= this.#shards.version) resolve();
    }
  }
}
