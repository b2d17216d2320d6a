/** Two series row by row. */
import { type Columns, newColumns } from './series.ts';

/** Rows of both by a function of two values; null leaves a row without. */
export function joinRows(
  a: Columns,
  b: Columns,
  length: number,
  join: (a: number, b: number) => number | null,
): Columns {
  const columns = newColumns(length);
  for (let i = 0; i < length; i++) {
    if (a.present[i] !== 1 || b.present[i] !== 1) continue;
    const value = join(a.values[i]!, b.values[i]!);
    if (value === null) continue;
    columns.values[i] = value;
    columns.present[i] = 1;
  }
  return columns;
}
