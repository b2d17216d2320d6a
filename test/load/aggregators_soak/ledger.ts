/** What was written, row by row, and when each was acknowledged. */
import type { TwinSeries } from '#cluster/aggregation_rules/rollups/rollup_twin.ts';
import { allSeries, settleMillis, windowMillis } from './data.ts';

export interface LedgerRow {
  /** Its number among all. */
  readonly series: number;
  readonly millis: number;
  readonly value: number;
  /** It is held back. */
  readonly isLate: boolean;
  /** It is sent once more when it was acknowledged. */
  readonly isTwice: boolean;
  /** Null until then; the first time counts. */
  acknowledgedMillis: number | null;
}

export class Ledger {
  readonly #rows: LedgerRow[][] = allSeries.map(() => []);

  /** Rows of a series come in the order of time. */
  add(row: LedgerRow): void {
    this.#rows[row.series]!.push(row);
  }

  get rows(): readonly LedgerRow[] {
    return this.#rows.flat();
  }

  get unacknowledged(): number {
    return this.rows.filter(({ acknowledgedMillis }) => acknowledgedMillis === null).length;
  }

  /** Rows whose window may have been made for good before they were acknowledged: nobody promises that they are in it. */
  get acknowledgedTooLate(): number {
    return this.rows.filter(({ millis, acknowledgedMillis }) => {
      const endMillis = Math.ceil(millis / windowMillis) * windowMillis;
      return acknowledgedMillis !== null && acknowledgedMillis > endMillis + settleMillis;
    }).length;
  }

  series(): TwinSeries[] {
    return this.#rows.map((rows, series) => ({
      tags: allSeries[series]!.tags,
      rows: rows.map(({ millis, value }) => ({ nanos: BigInt(millis) * 1_000_000n, value })),
    }));
  }
}
