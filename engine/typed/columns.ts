/**
 * Columns of typed chunks, those that are asked for: who reads a field of messages, or all buckets of histograms, needs
 * numbers and no values one by one.
 */
import { badRequest } from '#lib/errors.ts';
import { typedRowsMax } from '../codec/layout.ts';
import { TypedMemory } from './codec.ts';
import { fieldType, type FieldType } from './typed_value.ts';

/** Fields by their numbers, ascending: all of one, or some of a message's own. */
export type AskedFields = ReadonlyMap<number, 'all' | AskedFields>;

/** Rows of one kind and layout. */
export interface RowGroup {
  readonly kind: number;
  readonly layout: number;
  /** Places in the chunk, ascending. */
  readonly rows: Uint16Array;
}

/** What was decoded last, as numbers and as the places of rows. */
interface ColumnHeap {
  readonly buffer: ArrayBuffer;
  readonly values: Float64Array;
  readonly rows: Uint16Array;
}

/**
 * A column. A chunk of histograms has fifty of them with a hundred rows each: making views of all would cost as much as
 * what is in them, so that they are made for who asks, and `heap` is for who reads many.
 */
export class FieldColumn {
  /** Numbers of the messages around it, then its own. */
  readonly path: readonly number[];
  readonly type: FieldType;
  /** Place of its group. */
  readonly group: number;
  /** Rows that have it. */
  readonly count: number;
  readonly heap: ColumnHeap;
  /** Where its rows begin in `heap.rows`. */
  readonly rowsAt: number;
  /** Where its numbers begin in `heap.values`. */
  readonly valuesAt: number;

  constructor(
    heap: ColumnHeap,
    path: readonly number[],
    type: FieldType,
    group: number,
    count: number,
    rowsAt: number,
    valuesAt: number,
  ) {
    this.heap = heap;
    this.path = path;
    this.type = type;
    this.group = group;
    this.count = count;
    this.rowsAt = rowsAt;
    this.valuesAt = valuesAt;
  }

  /** Places in the chunk of the rows that have it, ascending. */
  get rows(): Uint16Array {
    return this.heap.rows.subarray(this.rowsAt, this.rowsAt + this.count);
  }

  /** Of these rows; numbers of all types as float64s, empty for byte strings and messages. */
  get values(): Float64Array {
    if (this.type >= fieldType.bytes) return noValues;
    return this.heap.values.subarray(this.valuesAt, this.valuesAt + this.count);
  }

  /** Of byte strings: two words a row, where it begins in `bytes` and how long it is; else empty. */
  get places(): Uint32Array {
    if (this.type !== fieldType.bytes) return noPlaces;
    return new Uint32Array(this.heap.buffer, 8 * this.valuesAt, 2 * this.count);
  }
}

/** Views, until the next call of the reader. */
export interface TypedColumns {
  readonly timestampNanos: BigInt64Array;
  /** From a row's time to its version, in 1/64 milliseconds. */
  readonly lags: BigInt64Array;
  /** Unix nanoseconds, 0 for none; null when no row has any. */
  readonly startNanos: BigInt64Array | null;
  readonly groups: readonly RowGroup[];
  /** Of messages that were asked for in part, too, with the rows that have them. */
  readonly columns: readonly FieldColumn[];
  readonly bytes: Uint8Array;
}

/** `askedAll` of the kernel. */
const askedAll = 1;
const groupEntryBytes = 24;
const columnEntryBytes = 32;
const typeBits = 8;
const noValues = new Float64Array(0);
const noPlaces = new Uint32Array(0);

export class TypedColumnsReader {
  readonly #memory = new TypedMemory();
  #heap: ColumnHeap | null = null;

  /**
   * @param chunk one typed chunk
   * @param asked null for everything; what is not asked for is not looked at, nor checked
   * @throws {TsdbError} BAD_REQUEST when it is malformed
   */
  read(chunk: Uint8Array, asked: AskedFields | null): TypedColumns {
    const m = this.#memory.reset();
    const { kernel } = m;
    const at = m.put(chunk);
    const askedAt = asked === null ? askedAll : this.#putAsked(asked);
    const [times, lags, starts] = [0, 1, 2].map(() => m.room(8 * typedRowsMax)) as [
      number,
      number,
      number,
    ];
    const work = m.room(kernel.decodeBytes());
    const groupsAt = m.room(kernel.groupsBytes());
    const columnsAt = m.room(kernel.columnsBytes());
    const answers = m.room(16);
    const isGood = kernel.decodeColumns(
      m.chunk,
      m.tables,
      at,
      at + chunk.length,
      askedAt,
      times,
      lags,
      starts,
      work,
      groupsAt,
      columnsAt,
      answers,
    );
    if (isGood === 0) throw badRequest('cannot read typed rows: their chunk is malformed');
    const { buffer } = m;
    const [rowCount, columnCount, groupCount, hasStarts] = new Uint32Array(
      buffer,
      answers,
      4,
    ) as unknown as [number, number, number, number];
    const view = new DataView(buffer);
    const groups = Array.from({ length: groupCount }, (_, i): RowGroup => {
      const entry = groupsAt + i * groupEntryBytes;
      const rows = new Uint16Array(
        buffer,
        view.getUint32(entry + 16, true),
        view.getUint32(entry + 12, true),
      );
      return { kind: view.getUint32(entry + 8, true), layout: view.getFloat64(entry, true), rows };
    });
    const heap = this.#heapOf(buffer);
    const columns: FieldColumn[] = [];
    for (let i = 0; i < columnCount; i++) {
      columns.push(columnAt(view, columnsAt + i * columnEntryBytes, columns, heap));
    }
    return {
      timestampNanos: new BigInt64Array(buffer, times, rowCount),
      lags: new BigInt64Array(buffer, lags, rowCount),
      startNanos: hasStarts === 0 ? null : new BigInt64Array(buffer, starts, rowCount),
      groups,
      columns,
      bytes: new Uint8Array(buffer),
    };
  }

  /** Views of the memory, which are made anew when it has grown. */
  #heapOf(buffer: ArrayBuffer): ColumnHeap {
    if (this.#heap?.buffer !== buffer) {
      this.#heap = { buffer, values: new Float64Array(buffer), rows: new Uint16Array(buffer) };
    }
    return this.#heap;
  }

  /** @returns its address */
  #putAsked(asked: AskedFields): number {
    const m = this.#memory;
    const entries = [...asked].sort(([a], [b]) => a - b);
    const words = new BigUint64Array(1 + 2 * entries.length);
    words[0] = BigInt(entries.length);
    for (const [i, [number, what]] of entries.entries()) {
      words[1 + 2 * i] = BigInt(number);
      words[2 + 2 * i] = BigInt(what === 'all' ? askedAll : this.#putAsked(what));
    }
    return m.put(new Uint8Array(words.buffer));
  }
}

/** @param before those that stand before it, its parent among them */
function columnAt(
  view: DataView,
  entry: number,
  before: readonly FieldColumn[],
  heap: ColumnHeap,
): FieldColumn {
  const tag = view.getUint32(entry, true) + view.getUint32(entry + 4, true) * 2 ** 32;
  const number = Math.floor(tag / typeBits);
  const parent = before[view.getUint32(entry + 8, true) - 1];
  return new FieldColumn(
    heap,
    parent === undefined ? [number] : [...parent.path, number],
    (tag % typeBits) as FieldType,
    view.getUint32(entry + 12, true),
    view.getUint32(entry + 16, true),
    view.getUint32(entry + 20, true) / 2,
    view.getUint32(entry + 24, true) / 8,
  );
}
