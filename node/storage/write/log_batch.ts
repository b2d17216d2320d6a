/** Rows as a batch for the commit log: without a dictionary, since each segment has one of its own. */
import { BatchBuilder, compactBatch, type TimeUnitNanos } from '#engine/batch/batch.ts';
import { BatchEncoder } from '#engine/batch/encoder.ts';
import type { RowsOfKind } from '#engine/store/rows.ts';

/** Lays out one batch after the other. */
export class LogBatches {
  readonly #encoder = new BatchEncoder();
  readonly #builder = new BatchBuilder();

  /**
   * @param parts at least one row; floats before typed ones
   * @returns borrowed until the next one
   */
  encode(version: number, derivesVersions: boolean, parts: readonly RowsOfKind[]): Uint8Array {
    const [only] = parts;
    if (parts.length === 1 && only!.kind === 'float' && only!.rows.startNanos === undefined) {
      const { rows } = only!;
      const unit = rows.timeUnitNanos as TimeUnitNanos;
      return this.#encoder.encode(version, rows, unit, derivesVersions);
    }
    const builder = this.#builder;
    builder.begin(version, derivesVersions);
    for (const { kind, rows } of parts) {
      const timeUnitNanos = rows.timeUnitNanos as TimeUnitNanos;
      if (kind === 'typed') builder.setTypedRows({ ...rows, timeUnitNanos });
      else {
        const { rowCount, slots, generations, timestamps, values, startNanos = null } = rows;
        builder.setRows(
          rowCount,
          slots,
          generations,
          timestamps,
          timeUnitNanos,
          values,
          startNanos,
        );
      }
    }
    return compactBatch(builder.finish());
  }
}
