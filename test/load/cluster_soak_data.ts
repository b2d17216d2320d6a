/**
 * Data of the soak of a cluster: a series has a sample at every step, whose value tells series and
 * step, so that an answer tells which write a sample is of.
 */
import { type LoadData, seriesOfSlice } from './soak_data.ts';

export const metricName = 'cluster_soak';
/** Series that share the label `part`, which is what a random read asks for. */
export const seriesOfPart = 20;
/** Above every count of series, so that no two samples have one value; sums of windows are exact. */
const seriesMax = 2 ** 24;

export const clusterData: LoadData = {
  labelsOf: (series) => [
    ['__name__', metricName],
    ['host', `host_${Math.floor(series / 10)}`],
    ['instance', `10.0.${Math.floor(series / 2500) % 256}.${Math.floor(series / 10) % 250}:9100`],
    ['job', 'node'],
    ['part', String(Math.floor(series / seriesOfPart))],
    ['series', String(series)],
    ['slice', String(Math.floor(series / seriesOfSlice))],
  ],
  valueOf: (series, step) => (step + 1) * seriesMax + series,
};

/** Where the samples lie in time: series and steps are counted from 0. */
export interface Grid {
  readonly seriesCount: number;
  readonly startUnixMillis: number;
  readonly stepMillis: number;
}

export function sliceCount(grid: Grid): number {
  return Math.ceil(grid.seriesCount / seriesOfSlice);
}

export function timeOf(grid: Grid, step: number): number {
  return grid.startUnixMillis + step * grid.stepMillis;
}
