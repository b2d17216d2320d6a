/**
 * What is done with the data of a node now and then: expiry, flushes, snapshots, syncs, and notes of
 * what a crash must not forget.
 */
import type { Env } from '#lib/env/env.ts';
import { messageOf } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { NodeMetrics } from './metrics.ts';
import type { Aggregator } from './storage/aggregation/aggregator.ts';
import type { Database } from './storage/database.ts';
import { tick } from './storage/retention/tick.ts';

export interface UpkeepOptions {
  readonly env: Env;
  readonly log: Log;
  readonly database: Database;
  readonly aggregator: Aggregator;
  readonly metrics: Pick<NodeMetrics, 'seriesExpired' | 'tickSeconds'>;
  /** Between two looks at what has expired. */
  readonly tickMillis: number;
  /** Tells the cluster which deletions are applied. */
  readonly publishDeletions: (signal: AbortSignal) => Promise<void>;
  readonly onError: (what: string) => (error: unknown) => void;
  readonly signal: AbortSignal;
}

const syncCheckMillis = 100;
/** How often it is looked which blocks are to be flushed. */
const flushMillis = 5_000;
/** How often it is looked which windows are to be made. */
const aggregateMillis = 10_000;
/** Share of the main loop's time for a snapshot. */
const snapshotShare = 0.2;
/** Time for the snapshot at a clean stop; the log stays when it does not do. */
const lastSnapshotMillisMax = 15_000;
/** What is forgotten of ended doubts is fetched again after a crash, and harms nobody. */
const doubtsMillis = 10_000;
/** How often it is counted how long parked data have been kept. */
const parkedMillis = 60_000;

export class Upkeep {
  readonly #options: UpkeepOptions;
  #flushing: Promise<void> = Promise.resolve();
  #aggregating: Promise<void> = Promise.resolve();

  constructor(options: UpkeepOptions) {
    this.#options = options;
  }

  /** The data are loaded. */
  begin(): void {
    const { database, aggregator, env, tickMillis, onError, signal } = this.#options;
    const { clock } = env;
    clock.every(tickMillis, () => this.#tick(), onError('background tick failed'), signal);
    const flush = (): Promise<void> => {
      this.#flushing = this.#flush();
      return this.#flushing;
    };
    clock.every(flushMillis, flush, onError('background flush failed'), signal);
    const aggregate = (): Promise<void> => {
      this.#aggregating = aggregator.runDue(signal);
      return this.#aggregating;
    };
    clock.every(aggregateMillis, aggregate, onError('windows are not made'), signal);
    const onUnsaved = onError('cannot write the ledger of doubt');
    clock.every(doubtsMillis, () => database.doubts.save(), onUnsaved, signal);
    const onUncounted = onError('cannot look after parked data');
    clock.every(parkedMillis, () => this.#tickParked(), onUncounted, signal);
    clock.every(syncCheckMillis, () => this.#sync(), onError('cannot sync'), signal);
  }

  /** The signal has been aborted, and nobody writes any more: what the next start is to find. */
  async end(): Promise<void> {
    await Promise.allSettled([this.#flushing, this.#aggregating]);
    await this.#lastSnapshot();
    const { database, log } = this.#options;
    const warning = (what: string) => (error: unknown) => {
      log.warn({ error: messageOf(error) }, what);
    };
    await database.parked
      .note()
      .catch(warning('cannot note how long parked data have been kept: some of it counts again'));
    await database.doubts
      .save()
      .catch(warning('cannot write the ledger of doubt: some is doubted again'));
  }

  async #tick(): Promise<void> {
    const { database, env, metrics } = this.#options;
    const started = env.clock.monotonicMillis();
    const { seriesExpired } = await tick(database);
    metrics.seriesExpired(seriesExpired);
    metrics.tickSeconds((env.clock.monotonicMillis() - started) / 1000);
  }

  async #flush(): Promise<void> {
    const { database, publishDeletions, signal } = this.#options;
    await database.flusher.runDue(signal);
    await database.cacheKeeper.run(signal);
    await database.deletions.rewriteDue(signal);
    await publishDeletions(signal);
    if (await database.snapshots.isDue()) await database.snapshot(snapshotShare, signal);
  }

  async #tickParked(): Promise<void> {
    const { parked, parking, retentionClock, namespaces } = this.#options.database;
    await parked.tick(parking.keepMillis, retentionClock.nowNanos(), namespaces);
  }

  /**
   * With `commitlog.sync: interval`, a log that nobody writes to is synced too; and it notes that.
   */
  async #sync(): Promise<void> {
    const { commitlog, sequencer } = this.#options.database;
    if (commitlog.syncIsDue()) await sequencer.exclusive(() => {});
    if (commitlog.markIsDue()) await sequencer.exclusive(() => commitlog.mark());
  }

  /** A clean stop leaves a snapshot in place of the log, which is read faster. */
  async #lastSnapshot(): Promise<void> {
    const { database, env, log } = this.#options;
    if (!database.isLoaded) return;
    const { commitlog, snapshots } = database;
    if (commitlog.segments().length === 0 && !snapshots.isIndexOld) return;
    const signal = env.clock.deadline(lastSnapshotMillisMax, new AbortController().signal);
    try {
      await database.snapshot(1, signal);
    } catch (error) {
      log.warn({ error: messageOf(error) }, 'no snapshot at the end; the commit log stays');
    }
  }
}
