/** Several rows of a series become one. */
import type { ConsolidationName } from './consolidation_name.ts';
import { type Columns, isEnough, newColumns } from './series.ts';

/**
 * One row for each `count` rows, and one for what is left at the end.
 * @param xFilesFactor least share of `count` that needs a value
 */
export function consolidate(
  { values, present }: Columns,
  count: number,
  name: ConsolidationName,
  xFilesFactor: number,
): Columns {
  const length = Math.ceil(values.length / count);
  const result = newColumns(length);
  for (let row = 0; row < length; row++) {
    const end = Math.min(values.length, (row + 1) * count);
    let valueCount = 0;
    let value = 0;
    for (let i = row * count; i < end; i++) {
      if (present[i] === 0) continue;
      value = valueCount === 0 ? values[i]! : joined(name, value, values[i]!);
      valueCount += 1;
    }
    if (!isEnough(valueCount, count, xFilesFactor)) continue;
    if (name === 'average' || name === 'avg') value /= valueCount;
    else if (name === 'avg_zero') value /= end - row * count;
    result.values[row] = value;
    result.present[row] = 1;
  }
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
