/** Rows of storage on the steps of a request. */
import { type Columns, newColumns } from '../../graphite/series/series.ts';
import type { Steps, StoredRows } from '../../graphite/storage/rows.ts';

/** Rows of some time, which may be older than others where they are taken. */
export interface OlderRows {
  /** Unix milliseconds. */
  readonly fromMillis: number;
  /** Exclusive. */
  readonly beforeMillis: number;
  readonly lookbackMillis: number;
}

/**
 * The newest row at or before each step and younger than the lookback. A NaN, as a stale marker is one, leaves the step without a
 * value.
 * @param stored in ascending time
 * @param older none for where all are of one kind
 */
export function rowsAtSteps(
  { count, timestampMillis, values }: StoredRows,
  { startSeconds, stepSeconds, length }: Steps,
  lookbackMillis: number,
  older: readonly OlderRows[],
): Columns {
  const columns = newColumns(length);
  let next = 0;
  for (let step = 0; step < length; step++) {
    const atMillis = (startSeconds + step * stepSeconds) * 1_000;
    while (next < count && timestampMillis[next]! <= atMillis) next += 1;
    if (next === 0) continue;
    const millis = timestampMillis[next - 1]!;
    const value = values[next - 1]!;
    const ageMillisMax =
      older.find(({ fromMillis, beforeMillis }) => millis >= fromMillis && millis < beforeMillis)
        ?.lookbackMillis ?? lookbackMillis;
    if (atMillis - millis >= ageMillisMax || Number.isNaN(value)) continue;
    columns.values[step] = value;
    columns.present[step] = 1;
  }
  return columns;
}
