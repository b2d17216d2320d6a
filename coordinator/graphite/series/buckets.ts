/** Rows of a series in buckets of one length, each of which becomes a row. */
import { presentValues } from './reduce.ts';
import type { Reducer } from '../math/reducers.ts';
import { type Columns, isEnough, newColumns, type Series, setRow } from './series.ts';

export function bucketCount(
  startSeconds: number,
  endSeconds: number,
  bucketSeconds: number,
): number {
  return Math.max(0, Math.ceil((endSeconds - startSeconds) / bucketSeconds));
}

/**
 * A row for each bucket from `startSeconds` on; rows belong to the bucket in which they begin.
 * @param count of buckets
 */
export function reduceBuckets(
  series: Series,
  reducer: Reducer,
  bucketSeconds: number,
  startSeconds: number,
  count: number,
): Columns {
  const columns = newColumns(count);
  const { present, stepSeconds, xFilesFactor } = series;
  /** The first row at a time or after it. */
  const rowAt = (seconds: number): number => {
    const row = Math.ceil((seconds - series.startSeconds) / stepSeconds);
    return Math.min(present.length, Math.max(0, row));
  };
  const rowsOfBucket = bucketSeconds / stepSeconds;
  const scratch = new Float64Array(Math.min(present.length, Math.ceil(rowsOfBucket)));
  let first = rowAt(startSeconds);
  for (let bucket = 0; bucket < count; bucket++) {
    const past = rowAt(startSeconds + (bucket + 1) * bucketSeconds);
    const valueCount = presentValues(series, first, past, scratch);
    if (isEnough(valueCount, rowsOfBucket, xFilesFactor)) {
      setRow(columns, bucket, reducer(scratch, valueCount, past - first));
    }
    first = past;
  }
  return columns;
}
