/** Several rows of a series become one. */
import type { ConsolidationName } from './consolidation_name.ts';
import { inParts, madeColumns, type RowMaker } from './making.ts';
import { type Columns, isEnough } from './series.ts';

/**
 * One row for each `count` rows, and one for what is left at the end.
 * @param xFilesFactor least share of `count` that needs a value
 */
export async function consolidate(
  { values, present }: Columns,
  count: number,
  name: ConsolidationName,
  xFilesFactor: number,
  maker: RowMaker,
): Promise<Columns> {
  const { length } = values;
  const result = await madeColumns(Math.ceil(length / count), maker);
  const isAverage = name === 'average' || name === 'avg';
  /** That the next rows belong to, and what it has of those before them: a part may end within it. */
  let row = 0;
  let valueCount = 0;
  let value = 0;
  await inParts(length, maker.work, (first, past) => {
    for (let i = first; i < past; ) {
      const end = Math.min(length, (row + 1) * count);
      const until = Math.min(end, past);
      let [counted, joinedSoFar] = [valueCount, value];
      for (; i < until; i++) {
        if (present[i] === 0) continue;
        joinedSoFar = counted === 0 ? values[i]! : joined(name, joinedSoFar, values[i]!);
        counted += 1;
      }
      [valueCount, value] = [counted, joinedSoFar];
      if (i < end) return;
      if (isEnough(valueCount, count, xFilesFactor)) {
        if (isAverage) value /= valueCount;
        else if (name === 'avg_zero') value /= end - row * count;
        result.values[row] = value;
        result.present[row] = 1;
      }
      row += 1;
      valueCount = 0;
      value = 0;
    }
  });
  return result;
}

function joined(name: ConsolidationName, value: number, next: number): number {
  switch (name) {
    case 'sum':
    case 'average':
    case 'avg':
    case 'avg_zero':
      return value + next;
    case 'min':
      return next < value ? next : value;
    case 'max':
      return next > value ? next : value;
    case 'first':
      return value;
    case 'last':
      return next;
    default:
      return name satisfies never;
  }
}
