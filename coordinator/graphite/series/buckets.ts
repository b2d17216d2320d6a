/** Rows of a series in buckets of one length, each of which becomes a row. */
import { presentCount, presentValues, reduceAll } from './reduce.ts';
import type { Reducer } from '../math/reducers.ts';
import { madeColumns, type RowMaker, rowsAtOnce } from './making.ts';
import { type Columns, isEnough, type Series, setRow } from './series.ts';

/** About what it takes to find a bucket's rows, and for each of these, in units of work (lib/turns/turns.ts). */
const bucketUnits = 10;
const rowUnits = 4;

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
export async function reduceBuckets(
  series: Series,
  reducer: Reducer,
  bucketSeconds: number,
  startSeconds: number,
  count: number,
  maker: RowMaker,
): Promise<Columns> {
  const columns = await madeColumns(count, maker);
  const { values, present, stepSeconds, xFilesFactor } = series;
  /** The first row at a time or after it. */
  const rowAt = (seconds: number): number => {
    const row = Math.ceil((seconds - series.startSeconds) / stepSeconds);
    return Math.min(present.length, Math.max(0, row));
  };
  const rowsOfBucket = bucketSeconds / stepSeconds;
  const scratch = new Float64Array(Math.min(present.length, Math.ceil(rowsOfBucket), rowsAtOnce));
  let first = rowAt(startSeconds);
  for (let bucket = 0; bucket < count; bucket++) {
    const past = rowAt(startSeconds + (bucket + 1) * bucketSeconds);
    if (past - first <= scratch.length) {
      const valueCount = presentValues(series, first, past, scratch);
      if (isEnough(valueCount, rowsOfBucket, xFilesFactor)) {
        setRow(columns, bucket, reducer(scratch, valueCount, past - first));
      }
    } else {
      const rows = { values: values.subarray(first, past), present: present.subarray(first, past) };
      const valueCount = await presentCount(rows, maker.work);
      if (isEnough(valueCount, rowsOfBucket, xFilesFactor)) {
        setRow(columns, bucket, await reduceAll(rows, reducer, maker));
      }
    }
    if (maker.work.spend(bucketUnits + rowUnits * (past - first))) await maker.work.pause();
    first = past;
  }
  return columns;
}
