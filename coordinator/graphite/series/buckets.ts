/** Rows of a series in buckets of one length, each of which becomes a row. */
import { reduceRows } from './reduce.ts';
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
  const scratch = new Float64Array(present.length);
  const rowsOfBucket = bucketSeconds / stepSeconds;
  let row = 0;
  for (let bucket = 0; bucket < count; bucket++) {
    const bucketStart = startSeconds + bucket * bucketSeconds;
    const bucketEnd = bucketStart + bucketSeconds;
    let first = row;
    let valueCount = 0;
    for (; row < present.length; row++) {
      const time = series.startSeconds + row * stepSeconds;
      if (time >= bucketEnd) break;
      if (time <= bucketStart) first = row;
      if (time >= bucketStart) valueCount += present[row]!;
    }
    if (!isEnough(valueCount, rowsOfBucket, xFilesFactor)) continue;
    setRow(columns, bucket, reduceRows(series, first, row, reducer, scratch));
  }
  return columns;
}
