/**
 * Rows of a write on their way into batches: one copy of the caller's columns, and for each
 * instance a batch of its rows with the instance's references. Typed arrays throughout; nothing is
 * allocated a row.
 */
import { assert } from '#lib/assert.ts';
import { BatchBuilder, type TimeUnitNanos, type TypedBatchView } from '#engine/batch/batch.ts';
import { copiedRowsKeptMax } from '../limits.ts';
import type { References } from './references.ts';
import type { CheckedEntries, SeriesTable, SessionRows, SessionTypedRows } from './types.ts';

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
  /** Null when no row has one. */
  readonly startNanos: BigInt64Array | null;
  /** In the place of `values`; null for floats. */
  readonly typed: TypedValues | null;
}

interface TypedValues {
  readonly valueEnds: Uint32Array;
  readonly valueBytes: Uint8Array;
}

/** Rows for which the smallest columns have room. */
const rowsFirst = 1024;

/** Columns that are used again: fresh ones cost more than what is done with them. */
export class ColumnPool {
  readonly #free: Columns[] = [];
  #freeRows = 0;

  take(rowCount: number): Columns {
    const at = this.#free.findIndex(({ slots }) => slots.length >= rowCount);
    if (at >= 0) {
      const columns = this.#free[at]!;
      const last = this.#free.pop()!;
      if (at < this.#free.length) this.#free[at] = last;
      this.#freeRows -= columns.slots.length;
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
    if (this.#freeRows + slots.length > copiedRowsKeptMax) return;
    this.#freeRows += slots.length;
    this.#free.push({ slots, generations, timestamps, values });
  }
}

/** A copy of rows, in columns of the pool. */
export function copyRows(
  rows: SessionRows | SessionTypedRows,
  series: SeriesTable,
  pool: ColumnPool,
): RowsCopy {
  const { rowCount, timeUnitNanos } = rows;
  const columns = pool.take(rowCount);
  const { slots, generations, timestamps, values } = columns;
  slots.set(rows.slots.subarray(0, rowCount));
  generations.set(rows.generations.subarray(0, rowCount));
  timestamps.set(rows.timestamps.subarray(0, rowCount));
  let typed: TypedValues | null = null;
  if ('values' in rows) values.set(rows.values.subarray(0, rowCount));
  else {
    const valueEnds = rows.valueEnds.slice(0, rowCount);
    typed = { valueEnds, valueBytes: rows.valueBytes.slice(0, valueEnds[rowCount - 1]) };
  }
  const startNanos = rows.startNanos?.slice(0, rowCount) ?? null;
  let slotMax = 0;
  for (let row = 0; row < rowCount; row++) if (slots[row]! > slotMax) slotMax = slots[row]!;
  const refusedCount = rows.mayBeRefused ? countRefused(slots, rowCount, series) : 0;
  return { ...columns, rowCount, timeUnitNanos, slotMax, refusedCount, startNanos, typed };
}

function countRefused(slots: Uint32Array, rowCount: number, { refused }: SeriesTable): number {
  let count = 0;
  for (let row = 0; row < rowCount; row++) if (refused[slots[row]!] !== 0) count++;
  return count;
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
  readonly entrySlots: Uint32Array;
  readonly entryGenerations: Uint32Array;
  readonly byteLength: number;
}

/** A batch for one instance. */
export interface PackedBatch extends Packed {
  readonly batch: Uint8Array;
  readonly columns: null;
}

/** The same for a node of this process: nothing is laid out as bytes. */
export interface PackedColumns extends Packed {
  readonly batch: TypedBatchView;
  /** Columns of the pool that `batch` reads, to be given back. */
  readonly columns: Columns;
}

const noBytes = new Uint8Array(0);
const noSlots = new Uint32Array(0);
const entryBytesFirst = 4096;

/**
 * Dictionary entries with their tags one after the other: a buffer for each of a million would
 * cost more than the rest.
 */
class EntryBytes {
  readonly #entries: Omit<CheckedEntries, 'idHashes'>;
  /** Explicit IDs of the entries that have one. */
  readonly #ids: ReadonlyMap<number, Uint8Array>;
  /** When the tags were checked. */
  readonly idHashes: Uint32Array | undefined;

  constructor(
    entries: Omit<CheckedEntries, 'idHashes'>,
    ids: ReadonlyMap<number, Uint8Array>,
    idHashes: Uint32Array | undefined,
  ) {
    this.#entries = entries;
    this.#ids = ids;
    this.idHashes = idHashes;
  }

  get byteLength(): number {
    return this.#entries.tags.length;
  }

  tags(ordinal: number): Uint8Array {
    const { tags, ends } = this.#entries;
    return tags.subarray(ordinal === 0 ? 0 : ends[ordinal - 1]!, ends[ordinal]!);
  }

  idScheme(ordinal: number): number {
    return this.#entries.idSchemes[ordinal]!;
  }

  id(ordinal: number): Uint8Array {
    return this.#ids.size === 0 ? noBytes : (this.#ids.get(ordinal) ?? noBytes);
  }
}

const noEntries = new EntryBytes(
  { tags: noBytes, ends: noSlots, idSchemes: noBytes },
  new Map(),
  undefined,
);

/** Dictionary entries for these slots of the table. */
function dictionaryOf(series: SeriesTable, slots: Uint32Array): EntryBytes {
  if (slots.length === 0) return noEntries;
  const checked = series.checkedEntries?.(slots) ?? null;
  if (checked !== null) return new EntryBytes(checked, new Map(), checked.idHashes);
  let tags = new Uint8Array(entryBytesFirst);
  const ends = new Uint32Array(slots.length);
  const idSchemes = new Uint8Array(slots.length);
  const ids = new Map<number, Uint8Array>();
  let end = 0;
  for (let i = 0; i < slots.length; i++) {
    const slot = slots[i]!;
    const bytes = series.borrowTags?.(slot) ?? series.tags(slot);
    if (end + bytes.length > tags.length) {
      const larger = new Uint8Array(Math.max(end + bytes.length, 2 * tags.length));
      larger.set(tags.subarray(0, end));
      tags = larger;
    }
    tags.set(bytes, end);
    end += bytes.length;
    ends[i] = end;
    idSchemes[i] = series.idScheme(slot);
    const id = series.explicitId(slot);
    if (id.length > 0) ids.set(i, id);
  }
  return new EntryBytes({ tags: tags.subarray(0, end), ends, idSchemes }, ids, undefined);
}

/** Bytes of a row in a batch, all columns raw. */
const rowBytes = 24;

/** Packs one batch after the other; keeps its buffers. */
export class RowPacker {
  readonly #pool: ColumnPool;
  readonly #builder = new BatchBuilder();
  #unknown = new Uint32Array(0);

  constructor(pool: ColumnPool) {
    this.#pool = pool;
  }

  /**
   * @param derivesVersions as in `BatchView`
   * @param picked rows of the copy, ascending; null for all
   *   Their series are those of the copy still: see `stillKnown`
   * @throws {TsdbError} BAD_REQUEST when the batch would be too large
   */
  pack(
    version: number,
    derivesVersions: boolean,
    copy: RowsCopy,
    picked: Uint32Array | null,
    series: SeriesTable,
    references: References,
  ): PackedBatch {
    const builder = this.#builder;
    const { timeUnitNanos } = copy;
    const rowCount = picked === null ? copy.rowCount : picked.length;
    const columns = this.#pool.take(rowCount);
    const { slots, generations } = columns;
    const { timestamps, values } = this.#rowsOf(copy, picked, columns);
    builder.begin(version, derivesVersions);
    const entries = this.#refer(columns, rowCount, copy, picked, references, series);
    for (const slot of entries.entrySlots) {
      builder.addSeries(
        series.borrowTags?.(slot) ?? series.tags(slot),
        series.idScheme(slot),
        series.explicitId(slot),
      );
    }
    const { startNanos, typed } = contentOf(copy, picked);
    if (typed === null) {
      builder.setRows(rowCount, slots, generations, timestamps, timeUnitNanos, values, startNanos);
    } else {
      const common = { rowCount, slots, generations, timestamps, timeUnitNanos, startNanos };
      builder.setTypedRows({ ...common, ...typed });
    }
    this.#pool.give(columns);
    const batch = builder.finish();
    return { ...entries, batch, columns: null, byteLength: batch.length };
  }

  /** As `pack`; columns that hold for all rows of the copy are the copy's own. */
  packColumns(
    version: number,
    derivesVersions: boolean,
    copy: RowsCopy,
    picked: Uint32Array | null,
    series: SeriesTable,
    references: References,
  ): PackedColumns {
    const { timeUnitNanos } = copy;
    const rowCount = picked === null ? copy.rowCount : picked.length;
    const columns = this.#pool.take(rowCount);
    const { slots, generations } = columns;
    const { timestamps, values } = this.#rowsOf(copy, picked, columns);
    const entries = this.#refer(columns, rowCount, copy, picked, references, series);
    const dictionary = dictionaryOf(series, entries.entrySlots);
    const { startNanos, typed } = contentOf(copy, picked);
    const common = { rowCount, slots, generations, timestamps, timeUnitNanos, startNanos };
    const batch: TypedBatchView = {
      version,
      derivesVersions,
      ...common,
      values,
      ...(typed === null ? {} : { rowCount: 0, typedRows: { ...common, ...typed } }),
      seriesCount: entries.entrySlots.length,
      seriesTags: (i) => dictionary.tags(i),
      seriesIdScheme: (i) => dictionary.idScheme(i),
      seriesId: (i) => dictionary.id(i),
      idHashes: dictionary.idHashes,
    };
    const valueBytes = typed?.valueBytes.length ?? 0;
    const byteLength = rowCount * rowBytes + valueBytes + dictionary.byteLength;
    return { ...entries, batch, columns, byteLength };
  }

  /**
   * Fills in the node's slots and generations of the rows; series without a reference become
   * dictionary entries.
   */
  #refer(
    { slots: nodeSlots, generations: nodeGenerations }: Columns,
    rowCount: number,
    copy: RowsCopy,
    picked: Uint32Array | null,
    references: References,
    series: SeriesTable,
  ): Pick<Packed, 'referenceEpoch' | 'entrySlots' | 'entryGenerations'> {
    this.#reserve(rowCount);
    references.reserve(copy.slotMax);
    const unknown = this.#unknown;
    if (picked === null) {
      nodeSlots.set(copy.slots.subarray(0, rowCount));
      nodeGenerations.set(copy.generations.subarray(0, rowCount));
    }
    const unknownCount = references.resolve(rowCount, nodeSlots, nodeGenerations, unknown);
    if (unknownCount === 0) {
      return { referenceEpoch: references.epoch, entrySlots: noSlots, entryGenerations: noSlots };
    }
    const entrySlots = new Uint32Array(unknownCount);
    const entryGenerations = new Uint32Array(unknownCount);
    let entryCount = 0;
    const { generation } = series;
    for (let i = 0; i < unknownCount; i++) {
      const row = unknown[i]!;
      const slot = nodeSlots[row]!;
      let entry = references.entryOf(slot);
      if (entry < 0) {
        const generationThen = nodeGenerations[row]!;
        assert(generation[slot] === generationThen, 'the slot has the series of its row');
        entry = entryCount++;
        references.setEntry(slot, entry);
        entrySlots[entry] = slot;
        entryGenerations[entry] = generationThen;
      }
      nodeSlots[row] = entry;
      nodeGenerations[row] = 0;
    }
    for (let i = 0; i < entryCount; i++) references.clearEntry(entrySlots[i]!);
    return {
      referenceEpoch: unknownCount < rowCount ? references.epoch : '',
      entrySlots: entrySlots.subarray(0, entryCount),
      entryGenerations: entryGenerations.subarray(0, entryCount),
    };
  }

  /**
   * Times and values of the picked rows, gathered in `columns` with slots and generations; those of
   * the copy when all are picked. Values and times are moved as words: numbers lose NaN payloads.
   */
  #rowsOf(
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

  #reserve(rowCount: number): void {
    if (rowCount > this.#unknown.length) {
      this.#unknown = new Uint32Array(Math.max(rowCount, this.#unknown.length * 2));
    }
  }
}

/** Start times and typed values of the picked rows, null for all. */
function contentOf(
  { startNanos, typed, rowCount }: RowsCopy,
  picked: Uint32Array | null,
): Pick<RowsCopy, 'startNanos' | 'typed'> {
  if (picked === null || (startNanos === null && typed === null)) return { startNanos, typed };
  const starts = startNanos === null ? null : new BigInt64Array(picked.length);
  for (let i = 0; i < picked.length && starts !== null; i++) starts[i] = startNanos![picked[i]!]!;
  if (typed === null) return { startNanos: starts, typed };
  const { valueEnds, valueBytes } = typed;
  assert(valueEnds.length === rowCount, 'each row has its value');
  const parts: Uint8Array[] = [];
  let length = 0;
  const ends = picked.map((row) => {
    const part = valueBytes.subarray(row === 0 ? 0 : valueEnds[row - 1]!, valueEnds[row]!);
    parts.push(part);
    length += part.length;
    return length;
  });
  return {
    startNanos: starts,
    typed: { valueEnds: ends, valueBytes: new Uint8Array(Buffer.concat(parts, length)) },
  };
}

function wordsOf(column: BigInt64Array | Float64Array): Uint32Array {
  return new Uint32Array(column.buffer, column.byteOffset, column.length * 2);
}
