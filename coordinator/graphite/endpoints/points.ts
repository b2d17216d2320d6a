/** Rows of results as points of an answer: times with values, no more than a screen shows. */
import { consolidate } from '../series/consolidation.ts';
import type { RowMaker } from '../series/making.ts';
import type { Columns, Series } from '../series/series.ts';

/** Rows at `startSeconds + row * stepSeconds`. */
export interface Points extends Columns {
  readonly startSeconds: number;
  readonly stepSeconds: number;
}

/** About what it takes to make points of a series, and of each of its rows, in units of work (lib/turns/turns.ts). */
const seriesUnits = 200;
const rowUnits = 2;

/**
 * Points of all series, at most so many each: where there would be more, some of them become one by the series' consolidation
 * function, at times that stay the same while the window moves.
 * @param pointsMax null for as many as there are
 */
export async function pointsOf(
  list: readonly Series[],
  pointsMax: number | null,
  maker: RowMaker,
): Promise<readonly Points[]> {
  if (pointsMax === null) return list;
  const start = list.reduce((least, each) => Math.min(least, each.startSeconds), Infinity);
  const end = list.reduce((most, each) => Math.max(most, each.endSeconds), -Infinity);
  const points: Points[] = [];
  for (const series of list) {
    points.push(await pointsOfSeries(series, end - start, pointsMax, maker));
    if (maker.work.spend(seriesUnits + rowUnits * series.values.length)) await maker.work.pause();
  }
  return points;
}

async function pointsOfSeries(
  series: Series,
  seconds: number,
  pointsMax: number,
  maker: RowMaker,
): Promise<Points> {
  const { startSeconds, stepSeconds } = series;
  if (pointsMax === 1) {
    return await joined(series, startSeconds, 0, Math.max(1, series.values.length), maker);
  }
  const count = Math.trunc(seconds / stepSeconds);
  if (pointsMax >= count) return series;
  const rowsOfPoint = Math.ceil(count / pointsMax);
  const secondsOfPoint = Math.trunc(rowsOfPoint * stepSeconds);
  const nudge = secondsOfPoint + (startSeconds % stepSeconds) - (startSeconds % secondsOfPoint);
  const lost = Math.max(0, Math.trunc(nudge / stepSeconds) - 1);
  return await joined(series, startSeconds + nudge, lost, rowsOfPoint, maker);
}

/** @param first row that counts @param count rows that become one */
async function joined(
  series: Series,
  startSeconds: number,
  first: number,
  count: number,
  maker: RowMaker,
): Promise<Points> {
  const { values, present, consolidation, xFilesFactor, stepSeconds } = series;
  const rows = { values: values.subarray(first), present: present.subarray(first) };
  const columns = await consolidate(rows, count, consolidation, xFilesFactor, maker);
  return { ...columns, startSeconds, stepSeconds: stepSeconds * count };
}
