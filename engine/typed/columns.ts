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

export interface FieldColumn {
  /** Numbers of the messages around it, then its own. */
  readonly path: readonly number[];
  readonly type: FieldType;
  /** Place of its group. */
  readonly group: number;
  /** Places in the chunk of the rows that have it, ascending. */
  readonly rows: Uint16Array;
  /** Of these rows; numbers of all types as float64s, empty for byte strings and messages. */
  readonly values: Float64Array;
  /** Of byte strings: two words a row, where it begins in `bytes` and how long it is; else empty. */
  readonly places: Uint32Array;
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
    const columns: FieldColumn[] = [];
    for (let i = 0; i < columnCount; i++) {
      columns.push(columnAt(view, columnsAt + i * columnEntryBytes, columns));
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
function columnAt(view: DataView, entry: number, before: readonly FieldColumn[]): FieldColumn {
  const { buffer } = view as { readonly buffer: ArrayBuffer };
  const tag = view.getUint32(entry, true) + view.getUint32(entry + 4, true) * 2 ** 32;
  const type = (tag % typeBits) as FieldType;
  const parent = before[view.getUint32(entry + 8, true) - 1];
  const count = view.getUint32(entry + 16, true);
  const valuesAt = view.getUint32(entry + 24, true);
  return {
    path: [...(parent?.path ?? []), Math.floor(tag / typeBits)],
    type,
    group: view.getUint32(entry + 12, true),
    rows: new Uint16Array(buffer, view.getUint32(entry + 20, true), count),
    values: type < fieldType.bytes ? new Float64Array(buffer, valuesAt, count) : noValues,
    places: type === fieldType.bytes ? new Uint32Array(buffer, valuesAt, 2 * count) : noPlaces,
  };
}
