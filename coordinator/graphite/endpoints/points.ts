/** Rows of results as points of an answer: times with values, no more than a screen shows. */
import { consolidate } from '../series/consolidation.ts';
import type { Columns, Series } from '../series/series.ts';

/** Rows at `startSeconds + row * stepSeconds`. */
export interface Points extends Columns {
  readonly startSeconds: number;
  readonly stepSeconds: number;
}

/**
 * Points of all series, at most so many each: where there would be more, some of them become one by the series' consolidation
 * function, at times that stay the same while the window moves.
 * @param pointsMax null for as many as there are
 */
export function pointsOf(list: readonly Series[], pointsMax: number | null): Points[] {
  if (pointsMax === null) return list.map((series) => series);
  if (pointsMax === 1) {
    return list.map((series) =>
      joined(series, series.startSeconds, 0, Math.max(1, series.values.length)),
    );
  }
  const start = Math.min(...list.map(({ startSeconds }) => startSeconds));
  const end = Math.max(...list.map(({ endSeconds }) => endSeconds));
  return list.map((series) => {
    const { startSeconds, stepSeconds } = series;
    const count = Math.trunc((end - start) / stepSeconds);
    if (pointsMax >= count) return series;
    const rowsOfPoint = Math.ceil(count / pointsMax);
    const secondsOfPoint = Math.trunc(rowsOfPoint * stepSeconds);
    const nudge = secondsOfPoint + (startSeconds % stepSeconds) - (startSeconds % secondsOfPoint);
    const lost = Math.max(0, Math.trunc(nudge / stepSeconds) - 1);
    return joined(series, startSeconds + nudge, lost, rowsOfPoint);
  });
}

/** @param first row that counts @param count rows that become one */
function joined(series: Series, startSeconds: number, first: number, count: number): Points {
  const { values, present, consolidation, xFilesFactor, stepSeconds } = series;
  const rows = { values: values.subarray(first), present: present.subarray(first) };
  const columns = consolidate(rows, count, consolidation, xFilesFactor);
  return { ...columns, startSeconds, stepSeconds: stepSeconds * count };
}
