/** What is asked of an expression, and what it gives. */
import type { Series, SeriesGroups } from '../series/series.ts';

export type Result = readonly Series[] | SeriesGroups;

/** Half-open towards the past, as storage answers it: rows behind `from`, up to `until`. Unix seconds. */
export interface Window {
  readonly fromSeconds: number;
  readonly untilSeconds: number;
}
