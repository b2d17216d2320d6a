/**
 * How much a session may send again of what nodes could not take: a share of what it sends for the
 * first time, so that retries never multiply the load of a cluster that has too much of it. Who is
 * not retried is told at once that he may come again later.
 */
import { retryRowsSavedMax, retryShareMax } from '../../limits.ts';

export class RetryBudget {
  #rows = retryRowsSavedMax;

  /** Rows are sent for the first time. */
  earn(rowCount: number): void {
    this.#rows = Math.min(retryRowsSavedMax, this.#rows + rowCount * retryShareMax);
  }

  /** Whether so many rows may be sent again; they are paid for then. */
  spend(rowCount: number): boolean {
    // A write that is larger than all that can be saved is not kept from it for ever.
    const price = Math.min(rowCount, retryRowsSavedMax);
    if (price > this.#rows) return false;
    this.#rows -= price;
    return true;
  }
}
