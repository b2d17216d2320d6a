/** Series whose sender is slower than their step: a value, then as many rows without one, and again. */
import { bucketCount, reduceBuckets } from './buckets.ts';
import { reducerNamed } from '../math/reducers.ts';
import { type RowMaker, rowsAtOnce } from './making.ts';
import type { Series } from './series.ts';

const last = reducerNamed('last')!;

/**
 * The series with the sender's step, as its first three values tell it; the series itself when they do not.
 * A value of 0 counts as none of these three.
 */
export async function compressPeriodicGaps(series: Series, maker: RowMaker): Promise<Series> {
  const { values, present, stepSeconds } = series;
  const counts = (row: number) => present[row] === 1 && values[row] !== 0;
  const next = async (row: number) => {
    let found = row;
    while (found < values.length && !counts(found)) {
      found += 1;
      if (found % rowsAtOnce === 0 && maker.work.spend(2 * rowsAtOnce)) await maker.work.pause();
    }
    return found;
  };
  const first = await next(0);
  const second = await next(first + 1);
  const period = second - first;
  const third = second + period;
  const isPeriodic =
    period > 1 &&
    third <= values.length - 2 &&
    counts(third) &&
    present[third - 1] === 0 &&
    present[third + 1] === 0;
  if (!isPeriodic) return series;
  const interval = period * stepSeconds;
  const startSeconds = series.startSeconds + first * stepSeconds;
  const count = bucketCount(startSeconds, series.endSeconds, interval);
  return {
    ...series,
    ...(await reduceBuckets(series, last, interval, startSeconds, count, maker)),
    startSeconds,
    endSeconds: startSeconds + interval * (count - 1),
    stepSeconds: interval,
  };
}
