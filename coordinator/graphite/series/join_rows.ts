/** Two series row by row. */
import { inParts, madeColumns, type RowMaker } from './making.ts';
import type { Columns } from './series.ts';

/** Of two values; null leaves a row without. */
export type JoinValues = (a: number, b: number) => number | null;

/** Rows of both by a function of two values. */
export async function joinRows(
  a: Columns,
  b: Columns,
  length: number,
  join: JoinValues,
  maker: RowMaker,
): Promise<Columns> {
  const columns = await madeColumns(length, maker);
  await inParts(length, maker.work, (first, past) => joinPart(a, b, columns, join, first, past));
  return columns;
}

function joinPart(
  a: Columns,
  b: Columns,
  columns: Columns,
  join: JoinValues,
  first: number,
  past: number,
): void {
  for (let i = first; i < past; i++) {
    if (a.present[i] !== 1 || b.present[i] !== 1) continue;
    const value = join(a.values[i]!, b.values[i]!);
    if (value === null) continue;
    columns.values[i] = value;
    columns.present[i] = 1;
  }
}
