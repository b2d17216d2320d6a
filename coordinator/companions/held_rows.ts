/** Typed rows that outlive the body that they came with. */
import { OneWriteSeries, type SeriesOfWrite } from '#cluster/session/one_write.ts';
import type { SeriesTable } from '#cluster/session/types.ts';
import type { WriteDecoderExemplars } from '#engine/write_decoder/write_decoder.ts';

/** Columns of typed rows with a series for each row. */
export type HeldRows = Pick<
  WriteDecoderExemplars,
  | 'rowCount'
  | 'slots'
  | 'generations'
  | 'mayBeRefused'
  | 'timestamps'
  | 'timeUnitNanos'
  | 'valueEnds'
  | 'valueBytes'
>;

/** A copy of the first rows that are not refused, with their series. */
export function heldRows(
  rows: WriteDecoderExemplars,
  rowCount: number,
  table: SeriesTable,
): { readonly rows: HeldRows; readonly series: SeriesTable } {
  const slotOf = new Map<number, number>();
  const series: SeriesOfWrite[] = [];
  const taken: number[] = [];
  const slots: number[] = [];
  for (let row = 0; row < rowCount; row++) {
    const slot = rows.slots[row]!;
    if (table.refused[slot] !== 0) continue;
    let own = slotOf.get(slot);
    if (own === undefined) {
      slotOf.set(slot, (own = series.length));
      const [idHash, idScheme] = [table.idHash[slot]!, table.idScheme(slot)];
      series.push({ tags: table.tags(slot), idScheme, idHash, explicitId: table.explicitId(slot) });
    }
    taken.push(row);
    slots.push(own);
  }
  const { valueEnds, valueBytes } = rows;
  const valueOf = (row: number): Uint8Array =>
    valueBytes.subarray(row === 0 ? 0 : valueEnds[row - 1]!, valueEnds[row]!);
  let end = 0;
  return {
    series: new OneWriteSeries(series),
    rows: {
      rowCount: taken.length,
      slots: Uint32Array.from(slots),
      generations: new Uint32Array(taken.length).fill(1),
      mayBeRefused: false,
      timestamps: BigInt64Array.from(taken, (row) => rows.timestamps[row]!),
      timeUnitNanos: 1,
      valueEnds: Uint32Array.from(taken, (row) => (end += valueOf(row).length)),
      valueBytes: new Uint8Array(Buffer.concat(taken.map(valueOf))),
    },
  };
}
