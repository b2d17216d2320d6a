/**
 * Rows of a write on their way into batches: one copy of the caller's columns, and for each instance a
 * batch of its rows with the instance's references. Typed arrays throughout; nothing is allocated a row.
 */
import { assert } from '#lib/assert.ts';
import { BatchBuilder, type TimeUnitNanos } from '#engine/batch.ts';
import { copiedRowsKeptMax } from './limits.ts';
import type { References } from './references.ts';
import type { SeriesTable, SessionRows } from './session_types.ts';

/** A copy of the caller's columns, which hold until its next call only. Columns may be longer than the rows. */
export interface RowsCopy {
  readonly rowCount: number;
  readonly slots: Uint32Array;
  /** Generation of the slot when the write began. */
  readonly generations: Uint32Array;
  readonly timestamps: BigInt64Array;
  readonly timeUnitNanos: TimeUnitNanos;
  readonly values: Float64Array;
  readonly slotMax: number;
  /** Rows of series that are refused. */
  readonly refusedCount: number;
}

interface Columns {
  readonly slots: Uint32Array;
  readonly generations: Uint32Array;
  readonly timestamps: BigInt64Array;
  readonly values: Float64Array;
}

/** Rows for which the smallest columns have room. */
const rowsFirst = 1024;

/** Makes copies in columns that are used again: fresh ones cost more than the copying. */
export class RowCopier {
  private readonly free: Columns[] = [];
  private freeRows = 0;

  copy(rows: SessionRows, series: SeriesTable): RowsCopy {
    const { rowCount } = rows;
    const columns = this.take(rowCount);
    const { slots, generations } = columns;
    slots.set(rows.slots.subarray(0, rowCount));
    columns.timestamps.set(rows.timestamps.subarray(0, rowCount));
    columns.values.set(rows.values.subarray(0, rowCount));
    const { generation, refused } = series;
    let slotMax = 0;
    let refusedCount = 0;
    for (let row = 0; row < rowCount; row++) {
      const slot = slots[row]!;
      generations[row] = generation[slot]!;
      if (refused[slot] !== 0) refusedCount++;
      if (slot > slotMax) slotMax = slot;
    }
    const { timeUnitNanos } = rows;
    return { ...columns, rowCount, timeUnitNanos, slotMax, refusedCount };
  }

  /** Takes the columns of a copy back, once nobody reads them any more. */
  release({ slots, generations, timestamps, values }: RowsCopy): void {
    if (this.freeRows + slots.length > copiedRowsKeptMax) return;
    this.freeRows += slots.length;
    this.free.push({ slots, generations, timestamps, values });
  }

  private take(rowCount: number): Columns {
    const at = this.free.findIndex(({ slots }) => slots.length >= rowCount);
    if (at >= 0) {
      const [columns] = this.free.splice(at, 1);
      this.freeRows -= columns!.slots.length;
      return columns!;
    }
    let capacity = rowsFirst;
    while (capacity < rowCount) capacity *= 2;
    return {
      slots: new Uint32Array(capacity),
      generations: new Uint32Array(capacity),
      timestamps: new BigInt64Array(capacity),
      values: new Float64Array(capacity),
    };
  }
}

/** The rows whose slots have not been given to other series since the copy was made. */
export function stillKnown(copy: RowsCopy, picked: Uint32Array, series: SeriesTable): Uint32Array {
  const { generation } = series;
  return picked.filter((row) => generation[copy.slots[row]!] === copy.generations[row]);
}

/** A batch for one instance. */
export interface PackedBatch {
  readonly batch: Uint8Array;
  /** Epoch of the references in it; '' when there are none. */
  readonly referenceEpoch: string;
  /** Slots of the dictionary entries in order, and the generations that they stand for. */
  readonly entrySlots: readonly number[];
  readonly entryGenerations: readonly number[];
}

/** Packs one batch after the other; keeps its buffers. */
export class RowPacker {
  private readonly builder = new BatchBuilder();
  private slots = new Uint32Array(0);
  private generations = new Uint32Array(0);
  private timestamps = new BigInt64Array(0);
  private values = new Float64Array(0);
  private nodeSlots = new Uint32Array(0);
  private nodeGenerations = new Uint32Array(0);
  private unknown = new Uint32Array(0);
  /** By slot: ordinal + 1 of its dictionary entry in the batch that is packed; all 0 in between. */
  private entryOfSlot = new Uint32Array(0);

  /**
   * @param picked rows of the copy, ascending; null for all
   *   Their series are those of the copy still: see `stillKnown`
   * @throws {TsdbError} BAD_REQUEST when the batch would be too large
   */
  pack(
    version: number,
    copy: RowsCopy,
    picked: Uint32Array | null,
    series: SeriesTable,
    references: References,
  ): PackedBatch {
    const rowCount = picked === null ? copy.rowCount : picked.length;
    this.reserve(rowCount, copy.slotMax);
    references.reserve(copy.slotMax);
    if (picked !== null) this.gather(copy, picked);
    const slots = picked === null ? copy.slots : this.slots;
    const generations = picked === null ? copy.generations : this.generations;
    const { nodeSlots, nodeGenerations, unknown } = this;
    const unknownCount = references.resolve(
      rowCount,
      slots,
      generations,
      nodeSlots,
      nodeGenerations,
      unknown,
    );
    this.builder.begin(version);
    const entrySlots: number[] = [];
    const entryGenerations: number[] = [];
    const { generation } = series;
    for (let i = 0; i < unknownCount; i++) {
      const row = unknown[i]!;
      const slot = slots[row]!;
      let entry = this.entryOfSlot[slot]!;
      if (entry === 0) {
        assert(generation[slot] === generations[row], 'the slot has the series of its row');
        const [scheme, id] = [series.idScheme(slot), series.explicitId(slot)];
        entry = this.builder.addSeries(series.tags(slot), scheme, id) + 1;
        this.entryOfSlot[slot] = entry;
        entrySlots.push(slot);
        entryGenerations.push(generations[row]!);
      }
      nodeSlots[row] = entry - 1;
      nodeGenerations[row] = 0;
    }
    for (const slot of entrySlots) this.entryOfSlot[slot] = 0;
    const timestamps = picked === null ? copy.timestamps : this.timestamps;
    const values = picked === null ? copy.values : this.values;
    const { timeUnitNanos } = copy;
    this.builder.setRows(rowCount, nodeSlots, nodeGenerations, timestamps, timeUnitNanos, values);
    return {
      batch: this.builder.finish(),
      referenceEpoch: unknownCount < rowCount ? references.epoch : '',
      entrySlots,
      entryGenerations,
    };
  }

  /** Columns of the picked rows. Values and times are moved as words: numbers lose NaN payloads. */
  private gather(copy: RowsCopy, picked: Uint32Array): void {
    const { slots, generations } = this;
    const fromTimes = wordsOf(copy.timestamps);
    const fromValues = wordsOf(copy.values);
    const toTimes = wordsOf(this.timestamps);
    const toValues = wordsOf(this.values);
    for (let i = 0; i < picked.length; i++) {
      const row = picked[i]!;
      slots[i] = copy.slots[row]!;
      generations[i] = copy.generations[row]!;
      toTimes[2 * i] = fromTimes[2 * row]!;
      toTimes[2 * i + 1] = fromTimes[2 * row + 1]!;
      toValues[2 * i] = fromValues[2 * row]!;
      toValues[2 * i + 1] = fromValues[2 * row + 1]!;
    }
  }

  private reserve(rowCount: number, slotMax: number): void {
    if (rowCount > this.nodeSlots.length) {
      const capacity = Math.max(rowCount, this.nodeSlots.length * 2);
      this.slots = new Uint32Array(capacity);
      this.generations = new Uint32Array(capacity);
      this.timestamps = new BigInt64Array(capacity);
      this.values = new Float64Array(capacity);
      this.nodeSlots = new Uint32Array(capacity);
      this.nodeGenerations = new Uint32Array(capacity);
      this.unknown = new Uint32Array(capacity);
    }
    if (slotMax >= this.entryOfSlot.length) {
      this.entryOfSlot = new Uint32Array(Math.max(slotMax + 1, this.entryOfSlot.length * 2));
    }
  }
}

function wordsOf(column: BigInt64Array | Float64Array): Uint32Array {
  return new Uint32Array(column.buffer, column.byteOffset, column.length * 2);
}
