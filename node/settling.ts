/**
 * Parks what a placement or a registry has taken from this node, and brings back what is its own
 * again, beside everything else that it does.
 */
import { bringBack, parkedShards } from './bootstrap/bring_back.ts';
import type { CorruptShard } from './bootstrap/local.ts';
import type { DeletionFollower } from './deletion_follower.ts';
import { TsdbError } from '#lib/errors.ts';
import { retrying, type RetryingOptions } from './retrying.ts';
import type { Database } from './storage/database.ts';

export interface SettlingOptions extends RetryingOptions {
  readonly database: Database;
  readonly deletions: Pick<DeletionFollower, 'isCurrent'>;
  /** Shards are back. @param damaged of them, to be repaired */
  readonly onBack: (damaged: readonly CorruptShard[]) => void;
  /** Called with a broken invariant; the process must end. */
  readonly onFatal: (error: unknown) => void;
}

export class Settling {
  readonly #options: SettlingOptions;
  #running: Promise<void> | null = null;

  constructor(options: SettlingOptions) {
    this.#options = options;
  }

  /** Begins when something is due, and goes on until nothing is. */
  begin(): void {
    const { database, signal, onFatal } = this.#options;
    const { isLoaded, parking } = database;
    const isDue = (): boolean => parking.isDue || parkedShards(database).length > 0;
    if (!isLoaded || this.#running !== null || signal.aborted || !isDue()) return;
    this.#running = retrying(this.#options, 'data are not parked, or brought back, yet', () =>
      this.#once(),
    )
      .catch((error: unknown) => {
        if (!signal.aborted) onFatal(error);
      })
      .finally(() => {
        this.#running = null;
        // A placement may have come meanwhile.
        this.begin();
      });
  }

  /** What is under way has ended. */
  async ended(): Promise<void> {
    await this.#running;
  }

  async #once(): Promise<void> {
    const { database, deletions, onBack, signal } = this.#options;
    await database.parking.run(signal);
    if (parkedShards(database).length === 0) return;
    // Else what was deleted meanwhile would be served.
    if (!(await deletions.isCurrent(signal))) {
      throw new TsdbError('UNAVAILABLE', 'deletions are not applied yet');
    }
    onBack(await bringBack(database, signal));
  }
}
