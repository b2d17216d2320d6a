/** Series of several steps on one grid. */
import { badRequest } from '#lib/errors.ts';
import { consolidate } from './consolidation.ts';
import type { RowMaker } from './making.ts';
import type { Series } from './series.ts';

/** About 30 000 years. */
const stepSecondsMax = 1e12;

export interface Normalized {
  /** As they were given, on the grid's step. */
  readonly series: readonly Series[];
  readonly startSeconds: number;
  readonly endSeconds: number;
  readonly stepSeconds: number;
  /** Rows of the longest one. */
  readonly length: number;
}

/**
 * Brings series to the least common multiple of their steps, each by its consolidation function. Rows
 * are matched by their place from each series' start: starts that differ by less than a step count as one.
 * @param list not empty
 * @throws {TsdbError} BAD_REQUEST when the steps have no common multiple that is a time
 */
export async function normalize(list: readonly Series[], maker: RowMaker): Promise<Normalized> {
  const stepSeconds = list.map((series) => series.stepSeconds).reduce(leastCommonMultiple);
  if (stepSeconds > stepSecondsMax) {
    throw badRequest(
      `cannot evaluate target: the steps of ${list.length} series have no common multiple below ${stepSecondsMax} s`,
    );
  }
  const startSeconds = list.reduce((start, each) => Math.min(start, each.startSeconds), Infinity);
  const last = list.reduce((end, each) => Math.max(end, each.endSeconds), -Infinity);
  const series: Series[] = [];
  let length = 0;
  for (const each of list) {
    const count = stepSeconds / each.stepSeconds;
    if (count === 1) series.push(each);
    else {
      const columns = await consolidate(each, count, each.consolidation, each.xFilesFactor, maker);
      series.push({ ...each, ...columns, stepSeconds });
      if (maker.work.spend(each.values.length)) await maker.work.pause();
    }
    length = Math.max(length, series.at(-1)!.values.length);
  }
  const endSeconds = last - ((last - startSeconds) % stepSeconds);
  return { series, startSeconds, endSeconds, stepSeconds, length };
}

function leastCommonMultiple(a: number, b: number): number {
  return (a / greatestCommonDivisor(a, b)) * b;
}

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}
