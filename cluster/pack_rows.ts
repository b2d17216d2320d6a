/**
 * Rows of a write on their way into batches: one copy of the caller's columns, and for each instance a
 * batch of its rows with the instance's references. Typed arrays throughout; nothing is allocated a row.
 */
import { assert } from '#lib/assert.ts';
import { BatchBuilder, type BatchView, type TimeUnitNanos } from '#engine/batch.ts';
import { copiedRowsKeptMax } from './limits.ts';
import type { References } from './references.ts';
import type { SeriesTable, SessionRows } from './session_types.ts';

/** Columns of one length, which may be longer than the rows in them. */
export interface Columns {
  readonly slots: Uint32Array;
  readonly generations: Uint32Array;
  readonly timestamps: BigInt64Array;
  readonly values: Float64Array;
}

/** A copy of the caller's columns, which hold until its next call only. */
export interface RowsCopy extends Columns {
  readonly rowCount: number;
  /** Generations of the slots when the write began. */
  readonly generations: Uint32Array;
  readonly timeUnitNanos: TimeUnitNanos;
  readonly slotMax: number;
  /** Rows of series that are refused. */
  readonly refusedCount: number;
}

/** Rows for which the smallest columns have room. */
const rowsFirst = 1024;

/** Columns that are used again: fresh ones cost more than what is done with them. */
export class ColumnPool {
  private readonly free: Columns[] = [];
  private freeRows = 0;

  take(rowCount: number): Columns {
    const at = this.free.findIndex(({ slots }) => slots.length >= rowCount);
    if (at >= 0) {
      const columns = this.free[at]!;
      const last = this.free.pop()!;
      if (at < this.free.length) this.free[at] = last;
      this.freeRows -= columns.slots.length;
      return columns;
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

  /** Takes columns back, once nobody reads them any more. */
  give({ slots, generations, timestamps, values }: Columns): void {
    if (this.freeRows + slots.length > copiedRowsKeptMax) return;
    this.freeRows += slots.length;
    this.free.push({ slots, generations, timestamps, values });
  }
}

/** A copy of rows with the generations of their slots, in columns of the pool. */
export function copyRows(rows: SessionRows, series: SeriesTable, pool: ColumnPool): RowsCopy {
  const { rowCount, timeUnitNanos } = rows;
  const { slots, generations, timestamps, values } = pool.take(rowCount);
  slots.set(rows.slots.subarray(0, rowCount));
  timestamps.set(rows.timestamps.subarray(0, rowCount));
  values.set(rows.values.subarray(0, rowCount));
  const { generation, refused } = series;
  let slotMax = 0;
  let refusedCount = 0;
  for (let row = 0; row < rowCount; row++) {
    const slot = slots[row]!;
    generations[row] = generation[slot]!;
    refusedCount += refused[slot] === 0 ? 0 : 1;
    if (slot > slotMax) slotMax = slot;
  }
  return { slots, generations, timestamps, values, rowCount, timeUnitNanos, slotMax, refusedCount };
}

/** The rows whose slots have not been given to other series since the copy was made. */
export function stillKnown(copy: RowsCopy, picked: Uint32Array, series: SeriesTable): Uint32Array {
  const { generation } = series;
  return picked.filter((row) => generation[copy.slots[row]!] === copy.generations[row]);
}

/** What one request to an instance holds, beside its columns. */
interface Packed {
  /** Epoch of the references in it; '' when there are none. */
  readonly referenceEpoch: string;
  /** Slots of the dictionary entries in order, and the generations that they stand for. */
  readonly entrySlots: readonly number[];
  readonly entryGenerations: readonly number[];
  readonly byteLength: number;
}

/** A batch for one instance. */
export interface PackedBatch extends Packed {
  readonly batch: Uint8Array;
  readonly columns: null;
}

/** The same for a node of this process: nothing is laid out as bytes. */
export interface PackedColumns extends Packed {
  readonly batch: BatchView;
  /** Columns of the pool that `batch` reads, to be given back. */
  readonly columns: Columns;
}

const noBytes = new Uint8Array(0);
const entryBytesFirst = 4096;

/** Dictionary entries with their tags one behind the other: a buffer for each of a million would cost more than the rest. */
class EntryBytes {
  private bytes = noBytes;
  private readonly ends: number[] = [];
  private readonly idSchemes: number[] = [];
  /** Explicit IDs of the entries that have one. */
  private readonly ids = new Map<number, Uint8Array>();

  get count(): number {
    return this.ends.length;
  }

  get byteLength(): number {
    return this.bytes.length;
  }

  /** @returns the ordinal of the entry */
  add(series: SeriesTable, slot: number): number {
    const tags = series.borrowTags?.(slot) ?? series.tags(slot);
    const ordinal = this.ends.length;
    const start = ordinal === 0 ? 0 : this.ends[ordinal - 1]!;
    const end = start + tags.length;
    if (end > this.bytes.length) {
      const larger = new Uint8Array(Math.max(end, 2 * this.bytes.length, entryBytesFirst));
      larger.set(this.bytes.subarray(0, start));
      this.bytes = larger;
    }
    this.bytes.set(tags, start);
    this.ends.push(end);
    this.idSchemes.push(series.idScheme(slot));
    const id = series.explicitId(slot);
    if (id.length > 0) this.ids.set(ordinal, id);
    return ordinal;
  }

  tags(ordinal: number): Uint8Array {
    return this.bytes.subarray(ordinal === 0 ? 0 : this.ends[ordinal - 1]!, this.ends[ordinal]!);
  }

  idScheme(ordinal: number): number {
    return this.idSchemes[ordinal]!;
  }

  id(ordinal: number): Uint8Array {
    return this.ids.get(ordinal) ?? noBytes;
  }
}

/** Bytes of a row in a batch, all columns raw. */
const rowBytes = 24;

/** Packs one batch after the other; keeps its buffers. */
export class RowPacker {
  private readonly pool: ColumnPool;
  private readonly builder = new BatchBuilder();
  private unknown = new Uint32Array(0);
  /** By slot: ordinal + 1 of its dictionary entry in the batch that is packed; all 0 in between. */
  private entryOfSlot = new Uint32Array(0);

  constructor(pool: ColumnPool) {
    this.pool = pool;
  }

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
    const { builder } = this;
    const { timeUnitNanos } = copy;
    const rowCount = picked === null ? copy.rowCount : picked.length;
    const columns = this.pool.take(rowCount);
    const { slots, generations } = columns;
    const { timestamps, values } = this.rowsOf(copy, picked, columns);
    builder.begin(version);
    const entries = this.refer(columns, rowCount, copy, picked, references, series, (slot) =>
      builder.addSeries(
        series.borrowTags?.(slot) ?? series.tags(slot),
        series.idScheme(slot),
        series.explicitId(slot),
      ),
    );
    builder.setRows(rowCount, slots, generations, timestamps, timeUnitNanos, values);
    this.pool.give(columns);
    const batch = builder.finish();
    return { ...entries, batch, columns: null, byteLength: batch.length };
  }

  /** As `pack`; columns that hold for all rows of the copy are the copy's own. */
  packColumns(
    version: number,
    copy: RowsCopy,
    picked: Uint32Array | null,
    series: SeriesTable,
    references: References,
  ): PackedColumns {
    const { timeUnitNanos } = copy;
    const rowCount = picked === null ? copy.rowCount : picked.length;
    const columns = this.pool.take(rowCount);
    const { slots, generations } = columns;
    const { timestamps, values } = this.rowsOf(copy, picked, columns);
    const dictionary = new EntryBytes();
    const entries = this.refer(columns, rowCount, copy, picked, references, series, (slot) =>
      dictionary.add(series, slot),
    );
    const batch: BatchView = {
      version,
      rowCount,
      slots,
      generations,
      timestamps,
      timeUnitNanos,
      values,
      seriesCount: dictionary.count,
      seriesTags: (i) => dictionary.tags(i),
      seriesIdScheme: (i) => dictionary.idScheme(i),
      seriesId: (i) => dictionary.id(i),
    };
    const byteLength = rowCount * rowBytes + dictionary.byteLength;
    return { ...entries, batch, columns, byteLength };
  }

  /**
   * Fills in the node's slots and generations of the rows; series without a reference become dictionary entries.
   * @param addEntry gives the ordinal of a new entry
   */
  private refer(
    { slots: nodeSlots, generations: nodeGenerations }: Columns,
    rowCount: number,
    copy: RowsCopy,
    picked: Uint32Array | null,
    references: References,
    series: SeriesTable,
    addEntry: (slot: number) => number,
  ): Pick<Packed, 'referenceEpoch' | 'entrySlots' | 'entryGenerations'> {
    this.reserve(rowCount, copy.slotMax);
    references.reserve(copy.slotMax);
    const { unknown } = this;
    if (picked === null) {
      nodeSlots.set(copy.slots.subarray(0, rowCount));
      nodeGenerations.set(copy.generations.subarray(0, rowCount));
    }
    const unknownCount = references.resolve(rowCount, nodeSlots, nodeGenerations, unknown);
    const entrySlots: number[] = [];
    const entryGenerations: number[] = [];
    const { generation } = series;
    for (let i = 0; i < unknownCount; i++) {
      const row = unknown[i]!;
      const slot = nodeSlots[row]!;
      let entry = this.entryOfSlot[slot]!;
      if (entry === 0) {
        const generationThen = nodeGenerations[row]!;
        assert(generation[slot] === generationThen, 'the slot has the series of its row');
        entry = addEntry(slot) + 1;
        this.entryOfSlot[slot] = entry;
        entrySlots.push(slot);
        entryGenerations.push(generationThen);
      }
      nodeSlots[row] = entry - 1;
      nodeGenerations[row] = 0;
    }
    for (const slot of entrySlots) this.entryOfSlot[slot] = 0;
    const referenceEpoch = unknownCount < rowCount ? references.epoch : '';
    return { referenceEpoch, entrySlots, entryGenerations };
  }

  /**
   * Times and values of the picked rows, gathered in `columns` with slots and generations; those of the copy when all are
   * picked. Values and times are moved as words: numbers lose NaN payloads.
   */
  private rowsOf(
    copy: RowsCopy,
    picked: Uint32Array | null,
    columns: Columns,
  ): Pick<Columns, 'timestamps' | 'values'> {
    if (picked === null) return copy;
    const { slots, generations } = columns;
    const fromTimes = wordsOf(copy.timestamps);
    const fromValues = wordsOf(copy.values);
    const toTimes = wordsOf(columns.timestamps);
    const toValues = wordsOf(columns.values);
    for (let i = 0; i < picked.length; i++) {
      const row = picked[i]!;
      slots[i] = copy.slots[row]!;
      generations[i] = copy.generations[row]!;
      toTimes[2 * i] = fromTimes[2 * row]!;
      toTimes[2 * i + 1] = fromTimes[2 * row + 1]!;
      toValues[2 * i] = fromValues[2 * row]!;
      toValues[2 * i + 1] = fromValues[2 * row + 1]!;
    }
    return columns;
  }

  private reserve(rowCount: number, slotMax: number): void {
    if (rowCount > this.unknown.length) {
      this.unknown = new Uint32Array(Math.max(rowCount, this.unknown.length * 2));
    }
    if (slotMax >= this.entryOfSlot.length) {
      this.entryOfSlot = new Uint32Array(Math.max(slotMax + 1, this.entryOfSlot.length * 2));
    }
  }
}

function wordsOf(column: BigInt64Array | Float64Array): Uint32Array {
  return new Uint32Array(column.buffer, column.byteOffset, column.length * 2);
}
