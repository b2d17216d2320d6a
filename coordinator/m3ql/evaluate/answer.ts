/** Series of a script as the rows of an answer, in the shape that answers to PromQL have. */
import type { Series } from '../../graphite/series/series.ts';
import type { Grid } from '../../promql/plan/plan.ts';
import { Labels } from '../../promql/rows/labels.ts';
import type { Pacer } from '../../promql/rows/pacer.ts';
import { Matrix } from '../../promql/rows/rows.ts';
import type { ScriptGrid } from './evaluate.ts';

/** Of labels and of a cell, in units of work. */
const seriesUnits = 500;
const cellUnits = 2;

export function gridInMillis({ startSeconds, stepSeconds, rowCount }: ScriptGrid): Grid {
  return {
    startMillis: startSeconds * 1_000,
    stepMillis: stepSeconds * 1_000,
    stepCount: rowCount,
  };
}

/** Series with a value on the grid, in their order; their labels are their tags. */
export async function matrixOf(
  list: readonly Series[],
  grid: ScriptGrid,
  pacer: Pacer,
): Promise<Matrix> {
  const { rowCount } = grid;
  if (pacer.hold(list.length * rowCount)) await pacer.room();
  const matrix = await Matrix.makePaced(list.map(labelsOf), rowCount, pacer);
  let count = 0;
  const labels: Labels[] = [];
  for (const [index, series] of list.entries()) {
    const hasValues = writeRows(series, grid, matrix, count * rowCount);
    if (hasValues) {
      labels.push(matrix.labels[index]!);
      count += 1;
    }
    if (pacer.spend(seriesUnits + cellUnits * rowCount)) await pacer.pause();
  }
  return new Matrix(labels, rowCount, matrix.buffer);
}

function labelsOf({ tags }: Series): Labels {
  return Labels.of([...tags].map(([name, value]) => ({ name, value })));
}

/**
 * A row of a series counts until its step is over, so that one of another step stands in each row of the grid that is in it.
 * @returns whether there is a value
 */
function writeRows(series: Series, grid: ScriptGrid, { buffer }: Matrix, at: number): boolean {
  const { values, present, startSeconds, stepSeconds } = series;
  let hasValues = false;
  for (let i = 0; i < grid.rowCount; i++) {
    const seconds = grid.startSeconds + i * grid.stepSeconds;
    const row = Math.floor((seconds - startSeconds) / stepSeconds);
    if (row < 0 || row >= present.length || present[row] === 0) continue;
    buffer.values[at + i] = values[row]!;
    hasValues = true;
  }
  return hasValues;
}
