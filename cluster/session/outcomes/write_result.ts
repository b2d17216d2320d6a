/** Outcome of a session's write, by row. */

/**
 * Outcome of a row after all replicas were counted. Below 64 they are the numbers of `rowOutcome`.
 *
 * - `resourceExhausted`: a limit of a node or of this session; retry later
 * - `refused`: the series is refused before it is sent, see `problem` of the series table
 * - `badRequest`: nodes did not understand the request
 * - `clockAhead`: nodes refused the version that our clock gave; retry when it is right
 * - `unavailable`: too few replicas acknowledged, for a passing reason; retry
 */
export const writeOutcome = {
  written: 0,
  tooFarPast: 2,
  tooFarFuture: 3,
  resourceExhausted: 6,
  badSeries: 7,
  otherTags: 9,
  badValue: 10,
  refused: 64,
  badRequest: 65,
  unavailable: 66,
  clockAhead: 67,
} as const;

/** Rows of a write, each column as long as they are many. */
export interface OutcomeRows {
  /** Slot in the series table, and its generation when the write began. */
  readonly slots: Uint32Array;
  readonly generations: Uint32Array;
  readonly timestamps: BigInt64Array;
  readonly timeUnitNanos: number;
}

export interface WriteResult {
  readonly rowCount: number;
  readonly writtenCount: number;
  /** A `writeOutcome` by row; null when all rows were written. */
  readonly outcomes: Uint8Array | null;
  /**
   * What `outcomes` speak of, for texts: copies of the columns; null when all rows were written.
   */
  readonly rows: OutcomeRows | null;
  /** What instances answered that failed, "<instance>: <reason>"; for logs and error texts. */
  readonly errors: readonly string[];
}

/** Whether sending the row again later may succeed. */
export function isRetryable(outcome: number): boolean {
  return (
    outcome === writeOutcome.unavailable ||
    outcome === writeOutcome.resourceExhausted ||
    outcome === writeOutcome.clockAhead
  );
}

/** An outcome in words, for the answer to a client. */
export function describeOutcome(outcome: number): string {
  switch (outcome) {
    case writeOutcome.written:
      return 'written';
    case writeOutcome.tooFarPast:
      return 'datapoint too far in past';
    case writeOutcome.tooFarFuture:
      return 'datapoint too far in future';
    case writeOutcome.badSeries:
      return 'series is malformed';
    case writeOutcome.otherTags:
      return 'the ID of the series is that of one with other tags';
    case writeOutcome.badValue:
      return 'the typed value is not canonical';
    case writeOutcome.resourceExhausted:
      return 'a limit of the storage nodes is reached';
    case writeOutcome.refused:
      return 'series is refused';
    case writeOutcome.clockAhead:
      return 'the clock of this coordinator is ahead of those of the storage nodes';
    case writeOutcome.badRequest:
      return 'storage nodes refused the request';
    default:
      return 'too few replicas acknowledged the write';
  }
}
