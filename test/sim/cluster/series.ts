/** The series of a simulation as a session takes them: metrics `m{s="…"}`. */
import type { SeriesTable, SessionRows, SessionTypedRows } from '#cluster/session/types.ts';
import { staleBits } from '#engine/typed/histogram.ts';
import { murmur3 } from '#lib/hashing/hash.ts';
import { idOfTags } from '#lib/series_id/from_tags.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { encodeTags } from '#lib/tags.ts';
import { messageColumns, messageOf } from '#node/storage/typed_rows_testing.ts';

export interface SimulatedRow {
  readonly series: number;
  readonly timeMillis: number;
  /** NaN is a stale marker. */
  readonly value: number;
}

/** As `samplesOfBundle` names it. */
export function seriesName(series: number): string {
  return `__name__=m,s=${series}`;
}

export class SimulatedSeries implements SeriesTable {
  readonly idHash: Uint32Array;
  readonly generation: Uint32Array;
  readonly refused: Uint8Array;
  readonly #tags: Uint8Array[];

  constructor(count: number) {
    const tags = Array.from({ length: count }, (_, series) => [
      { name: '__name__', value: 'm' },
      { name: 's', value: `${series}` },
    ]);
    this.#tags = tags.map((each) => encodeTags(each));
    this.idHash = Uint32Array.from(tags, (each) => murmur3(Buffer.from(idOfTags(each, 'quoted'))));
    this.generation = new Uint32Array(count).fill(1);
    this.refused = new Uint8Array(count);
  }

  rows(rows: readonly SimulatedRow[]): SessionRows {
    return {
      rowCount: rows.length,
      slots: Uint32Array.from(rows, ({ series }) => series),
      generations: new Uint32Array(rows.length).fill(1),
      mayBeRefused: false,
      timestamps: BigInt64Array.from(rows, ({ timeMillis }) => BigInt(timeMillis)),
      timeUnitNanos: 1_000_000,
      values: valuesOf(rows),
    };
  }

  /** As messages that have the values in them, every other one with a start time. */
  typedRows(rows: readonly SimulatedRow[]): SessionTypedRows {
    const { rowCount, slots, generations, mayBeRefused, timestamps, timeUnitNanos } =
      this.rows(rows);
    const { valueEnds, valueBytes } = messageColumns(rows.map(({ value }) => messageOf(value)));
    return {
      ...{ rowCount, slots, generations, mayBeRefused, timestamps, timeUnitNanos },
      startNanos: BigInt64Array.from(rows, ({ value }) => BigInt(value % 2)),
      valueEnds,
      valueBytes,
    };
  }

  problem(): string {
    return '';
  }

  tags(slot: number): Uint8Array {
    return this.#tags[slot]!;
  }

  borrowTags(slot: number): Uint8Array {
    return this.tags(slot);
  }

  idScheme(): number {
    return idSchemeCode.quoted;
  }

  explicitId(): Uint8Array {
    return new Uint8Array(0);
  }
}

function valuesOf(rows: readonly SimulatedRow[]): Float64Array {
  const values = Float64Array.from(rows, ({ value }) => value);
  const bits = new BigUint64Array(values.buffer);
  for (const [at, { value }] of rows.entries()) if (Number.isNaN(value)) bits[at] = staleBits;
  return values;
}
