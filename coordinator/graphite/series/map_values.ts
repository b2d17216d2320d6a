/** Each value of a series becomes another one. */
import { type Columns, newColumns } from './series.ts';

/** As math on numbers; null leaves a row without a value. */
export type OfValue = (value: number) => number | null;

export function mapValues({ values, present }: Columns, map: OfValue): Columns {
  const columns = newColumns(values.length);
  for (let i = 0; i < values.length; i++) {
    if (present[i] === 0) continue;
    const value = map(values[i]!);
    if (value === null) continue;
    columns.values[i] = value;
    columns.present[i] = 1;
  }
  return columns;
}
