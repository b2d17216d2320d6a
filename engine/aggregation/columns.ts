/** One column of windows, as rows of floats: what a function over them reads (docs/AGGREGATION.md). */
import { TypedColumnsReader, type AskedFields, type TypedColumns } from '../typed/columns.ts';
import { histogramWindowLayout } from '../typed/histogram_window.ts';
import { valueKind } from '../typed/typed_value.ts';
import { type WindowColumn, windowField } from '../typed/window.ts';

/** Windows of a chunk, in ascending order of their ends; fresh arrays. */
export interface WindowRows {
  readonly endNanos: BigInt64Array;
  /** By their bits: the last value of a window may be a stale marker. */
  readonly values: Float64Array;
}

export class WindowColumnsReader {
  readonly #reader = new TypedColumnsReader();
  /** The chunk that was read last has windows of histograms. */
  hasHistograms = false;

  /**
   * @param chunk one typed chunk; its rows that are no windows of floats are left out
   * @returns one for each column that is asked for, of the same windows
   * @throws {TsdbError} BAD_REQUEST when it is malformed
   */
  read(chunk: Uint8Array, columns: readonly WindowColumn[]): WindowRows[] {
    const asked: AskedFields = new Map(columns.flatMap(fieldsOf).map((number) => [number, 'all']));
    const read = this.#reader.read(chunk, asked);
    this.hasHistograms = read.groups.some(
      ({ kind, layout }) => kind === valueKind.window && layout === histogramWindowLayout,
    );
    const group = read.groups.findIndex(
      ({ kind, layout }) => kind === valueKind.window && layout === 0,
    );
    const rows = read.groups[group]?.rows ?? new Uint16Array(0);
    const isWhole = rows.length === read.timestampNanos.length;
    const endNanos = isWhole
      ? read.timestampNanos.slice()
      : BigInt64Array.from(rows, (row) => read.timestampNanos[row]!);
    return columns.map((name) => {
      const [values, less] = fieldsOf(name).map((number) => columnOf(read, group, rows, number));
      for (let i = 0; less !== undefined && i < rows.length; i++) values![i]! -= less[i]!;
      return { endNanos, values: values! };
    });
  }
}

/** Where there are two, a column is the first one less the second. */
function fieldsOf(column: WindowColumn): readonly number[] {
  return column === 'count' ? [windowField.rows, windowField.others] : [windowField[column]];
}

/** Of each of the group's rows; zero where the field is not there. */
function columnOf(
  { columns, timestampNanos }: TypedColumns,
  group: number,
  rows: Uint16Array,
  number: number,
): Float64Array {
  const column = columns.find(({ group: of, path }) => of === group && path[0] === number);
  if (column === undefined) return new Float64Array(rows.length);
  // In one go, which keeps bits.
  if (column.count === rows.length) return column.values.slice();
  const values = new Float64Array(rows.length);
  const [from, to] = [wordsOf(column.values), wordsOf(values)];
  const places = new Uint16Array(timestampNanos.length);
  for (const [place, row] of rows.entries()) places[row] = place;
  for (const [i, row] of column.rows.entries()) {
    const at = 2 * places[row]!;
    to[at] = from[2 * i]!;
    to[at + 1] = from[2 * i + 1]!;
  }
  return values;
}

function wordsOf({ buffer, byteOffset, length }: Float64Array): Uint32Array {
  return new Uint32Array(buffer, byteOffset, 2 * length);
}
