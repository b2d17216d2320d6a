/** The plain twin of the batch encoder: the same bytes by the encoders of columns.ts. */
import { encodeDelta, encodeSlackBytes, encodeWhole } from './columns.ts';
import {
  columnEncoding,
  columnId,
  exponentOfTimeUnit,
  sectionKind,
  type TimeUnitNanos,
} from './format.ts';
import { type PlacedColumn, writeSections } from './write.ts';
import type { BatchRows } from './encoder.ts';

type Columns = Uint32Array | BigInt64Array | Float64Array;

/** Keeps its buffers from batch to batch. */
export class BatchEncoderTwin {
  /** One for each column, since all of them are needed until the batch is put together. */
  readonly #scratch: Uint8Array[] = [0, 1, 2, 3].map(() => new Uint8Array(0));

  /** @returns a fresh buffer (docs/formats/batch.md) */
  encode(
    version: number,
    rows: BatchRows,
    timeUnitNanos: TimeUnitNanos,
    derivesVersions: boolean,
  ): Uint8Array {
    const { rowCount } = rows;
    const slots = rows.slots.subarray(0, rowCount);
    const generations = rows.generations.subarray(0, rowCount);
    const timestamps = rows.timestamps.subarray(0, rowCount);
    const values = rows.values.subarray(0, rowCount);
    const { delta, whole } = columnEncoding;
    const times = new Uint32Array(timestamps.buffer, timestamps.byteOffset, 2 * rowCount);
    const sections = [
      {
        kind: sectionKind.floatSamples,
        timeExponent: exponentOfTimeUnit[timeUnitNanos],
        rowCount,
        columns: [
          this.#column(columnId.slot, delta, slots, 0, (target) => encodeDelta(slots, 1, target)),
          this.#column(columnId.generation, delta, generations, 1, (target) =>
            encodeDelta(generations, 1, target),
          ),
          this.#column(columnId.timestamp, delta, timestamps, 2, (target) =>
            encodeDelta(times, 2, target),
          ),
          this.#column(columnId.value, whole, values, 3, (target) => encodeWhole(values, target)),
        ],
      },
    ];
    return writeSections(version, sections, derivesVersions);
  }

  /** The column in its short encoding, or raw where that is shorter. */
  #column(
    id: number,
    encoding: number,
    raw: Columns,
    index: number,
    encode: (target: Uint8Array) => number,
  ): PlacedColumn {
    const room = raw.byteLength + encodeSlackBytes;
    if (this.#scratch[index]!.length < room) this.#scratch[index] = new Uint8Array(room * 2);
    const target = this.#scratch[index]!;
    const length = encode(target);
    if (length >= 0) return { id, encoding, bytes: target.subarray(0, length) };
    const bytes = new Uint8Array(raw.buffer, raw.byteOffset, raw.byteLength);
    return { id, encoding: columnEncoding.raw, bytes };
  }
}
