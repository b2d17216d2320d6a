/** Windows as samples: one column of theirs as chunks of floats, which every function over samples reads. */
import { eachTypedInOrder } from '../store/typed_chunks.ts';
import { allTimes } from '../store/workshop.ts';
import type { WindowColumn } from '../typed/window.ts';
import { WindowColumnsReader, type WindowRows } from './columns.ts';
import { WindowFold } from './fold.ts';

/**
 * What is read of windows: a column, or what a counter is read by: the last values, and before that of a window in which it
 * began again a row of what it had come to and one of 0. Without the 0 a last value above what it had come to would hide that
 * it began again.
 */
export type ReadColumn = WindowColumn | 'counter';

/**
 * From a window's end back to these rows, each in a millisecond of its own, as functions and remote read tell them apart. No
 * resolution is below a second.
 */
const cameToBeforeEndNanos = 2_000_000n;
const zeroBeforeEndNanos = 1_000_000n;

let shared: { readonly reader: WindowColumnsReader; readonly fold: WindowFold } | null = null;

/**
 * @param chunks typed ones of a series, each by itself, of any replicas
 * @param range of the ends of windows
 * @throws {TsdbError} BAD_REQUEST when one is malformed, RESOURCE_EXHAUSTED when there are more than can be merged
 */
export function floatsOfWindows(
  chunks: readonly Uint8Array[],
  column: ReadColumn,
  range: readonly [startNanos: bigint, endNanos: bigint] = allTimes,
): Uint8Array<ArrayBuffer>[] {
  return [...eachFloatsOfWindows(chunks, column, range)];
}

/** As `floatsOfWindows`, for who gives way between two chunks. */
export function* eachFloatsOfWindows(
  chunks: readonly Uint8Array[],
  column: ReadColumn,
  range: readonly [startNanos: bigint, endNanos: bigint],
): Generator<Uint8Array<ArrayBuffer>> {
  const { reader, fold } = (shared ??= {
    reader: new WindowColumnsReader(),
    fold: new WindowFold(),
  });
  for (const chunk of eachTypedInOrder(chunks, range)) {
    const { endNanos, values } =
      column === 'counter'
        ? counterRows(read(reader, chunk, ['last', 'resets'], range))
        : column === 'last'
          ? read(reader, chunk, [column], range)[0]!
          : rowsWithSamples(read(reader, chunk, [column, 'count'], range));
    if (endNanos.length > 0) yield fold.floats(endNanos, values);
  }
}

/** Columns of a chunk, of the windows that end in the range. */
function read(
  reader: WindowColumnsReader,
  chunk: Uint8Array,
  columns: readonly WindowColumn[],
  [startNanos, endNanos]: readonly [bigint, bigint],
): readonly WindowRows[] {
  const all = reader.read(chunk, columns);
  const ends = all[0]!.endNanos;
  let [first, past] = [0, ends.length];
  while (first < past && ends[first]! < startNanos) first++;
  while (past > first && ends[past - 1]! >= endNanos) past--;
  if (first === 0 && past === ends.length) return all;
  return all.map((rows) => ({
    endNanos: rows.endNanos.subarray(first, past),
    values: rows.values.subarray(first, past),
  }));
}

/** Without the windows that have stale markers alone. */
function rowsWithSamples(columns: readonly WindowRows[]): WindowRows {
  const [all, count] = columns as [WindowRows, WindowRows];
  if (!count.values.includes(0)) return all;
  const kept = [...count.values.keys()].filter((i) => count.values[i] !== 0);
  return {
    endNanos: BigInt64Array.from(kept, (i) => all.endNanos[i]!),
    values: Float64Array.from(kept, (i) => all.values[i]!),
  };
}

function counterRows(columns: readonly WindowRows[]): WindowRows {
  const [last, resets] = columns as [WindowRows, WindowRows];
  const count = resets.values.reduce((sum, value) => (value === 0 ? sum : sum + 1), 0);
  if (count === 0) return last;
  const endNanos = new BigInt64Array(last.endNanos.length + 2 * count);
  const values = new Float64Array(endNanos.length);
  // By bits: what is a stale marker stays one.
  const [from, to] = [last.values, values].map(
    ({ buffer, byteOffset, length }) => new BigUint64Array(buffer, byteOffset, length),
  ) as [BigUint64Array, BigUint64Array];
  let at = 0;
  for (const [i, end] of last.endNanos.entries()) {
    if (resets.values[i] !== 0) {
      endNanos[at] = end - cameToBeforeEndNanos;
      values[at++] = resets.values[i]!;
      // Of 0, as all are that nothing is written to.
      endNanos[at++] = end - zeroBeforeEndNanos;
    }
    endNanos[at] = end;
    to[at++] = from[i]!;
  }
  return { endNanos, values };
}
