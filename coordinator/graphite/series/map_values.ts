/** Each value of a series becomes another one. */
import { inParts, madeColumns, type RowMaker } from './making.ts';
import type { Columns } from './series.ts';

/** As math on numbers; null leaves a row without a value. */
export type OfValue = (value: number) => number | null;

export async function mapValues(columns: Columns, map: OfValue, maker: RowMaker): Promise<Columns> {
  const { length } = columns.values;
  const mapped = await madeColumns(length, maker);
  await inParts(length, maker.work, (first, past) => mapPart(columns, mapped, map, first, past));
  return mapped;
}

function mapPart(
  { values, present }: Columns,
  mapped: Columns,
  map: OfValue,
  first: number,
  past: number,
): void {
  for (let i = first; i < past; i++) {
    if (present[i] === 0) continue;
    const value = map(values[i]!);
    if (value === null) continue;
    mapped.values[i] = value;
    mapped.present[i] = 1;
  }
}
