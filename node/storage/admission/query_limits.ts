/**
 * How much queries may do within a time, over all of them: what is beyond is refused until the time
 * is over.
 */
import {
  type QueryLimitName,
  queryLimitNames,
  type QueryLimits,
} from '#cluster/metadata/runtime_limits.ts';
import type { Clock } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';

interface Recent {
  count: number;
  sinceMillis: number;
  total: number;
  exceeded: number;
}

/** Names in errors and metrics. */
const shownName: Readonly<Record<QueryLimitName, string>> = {
  seriesBlocks: 'series-blocks',
  diskBytesRead: 'disk-bytes-read',
  diskRead: 'disk-series-read',
  metadata: 'metadata-read',
};

export class QueryLimitCounter {
  readonly #clock: Clock;
  /** May be changed at any time. */
  limits: QueryLimits;
  readonly #recent: Readonly<Record<QueryLimitName, Recent>>;

  constructor(clock: Clock, limits: QueryLimits) {
    this.#clock = clock;
    this.limits = limits;
    const fresh = (): Recent => ({ count: 0, sinceMillis: 0, total: 0, exceeded: 0 });
    this.#recent = Object.fromEntries(
      queryLimitNames.map((name) => [name, fresh()]),
    ) as unknown as Record<QueryLimitName, Recent>;
  }

  /**
   * Counts what a query is about to do.
   * @throws {TsdbError} RESOURCE_EXHAUSTED when more than the limit is done within its time
   */
  add(name: QueryLimitName, count: number): void {
    const recent = this.#recent[name];
    recent.total += count;
    const { limit, lookbackMillis, forceExceeded } = this.limits[name];
    if (limit === 0 && !forceExceeded) return;
    const now = this.#clock.monotonicMillis();
    if (now - recent.sinceMillis >= lookbackMillis) {
      recent.sinceMillis = now;
      recent.count = 0;
    }
    recent.count += count;
    if (!forceExceeded && recent.count <= limit) return;
    recent.exceeded += 1;
    const shown = shownName[name];
    const reason = forceExceeded
      ? `forced limit: name=${shown}`
      : `limit: name=${shown}, limit=${limit}, current=${recent.count}, within=${lookbackMillis / 1000}s`;
    throw new TsdbError('RESOURCE_EXHAUSTED', `query aborted due to ${reason}`);
  }

  /** Of this process, for metrics. */
  total(name: QueryLimitName): number {
    return this.#recent[name].total;
  }

  /** Queries that were refused, for metrics. */
  exceeded(name: QueryLimitName): number {
    return this.#recent[name].exceeded;
  }
}
