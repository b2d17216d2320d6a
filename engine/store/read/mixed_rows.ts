/** Rows of a series that has floats and typed values: of each time the row that wins (docs/TYPED_ROWS.md, Order). */
import { valueKind } from '../../typed/typed_value.ts';
import { readFloats } from '../chunk_merge.ts';
import { apart, readTyped } from '../typed_chunks.ts';

/** In ascending time, every time once. */
export interface MixedRows {
  readonly timestampNanos: BigInt64Array;
  /** Of a typed row 0. */
  readonly values: Float64Array;
  /** Of a float null. */
  readonly typed: readonly (Uint8Array | null)[];
  /** Unix nanoseconds, 0 for none. */
  readonly startNanos: BigInt64Array;
  /** From a row's time to its version, in 1/64 milliseconds. */
  readonly lags: BigInt64Array;
}

/**
 * @param parts chunks of both kinds, which may overlap
 * @throws {TsdbError} BAD_REQUEST when a chunk is malformed, RESOURCE_EXHAUSTED when there are more rows or values than
 *   can be merged
 */
export function readMixedRows(
  parts: readonly Uint8Array[],
  range: readonly [startNanos: bigint, endNanos: bigint],
): MixedRows {
  const chunks = apart(parts);
  const floats = readFloats(chunks.floats, range);
  const typed = readTyped(chunks.typed, range);
  const [floatCount, typedCount] = [floats.timestampNanos.length, typed.timestampNanos.length];
  const timestampNanos = new BigInt64Array(floatCount + typedCount);
  const values = new Float64Array(floatCount + typedCount);
  const startNanos = new BigInt64Array(floatCount + typedCount);
  const lags = new BigInt64Array(floatCount + typedCount);
  const typedValues: (Uint8Array | null)[] = [];
  // By bits: what is a stale marker stays one.
  const [from, to] = [floats.values, values].map(({ buffer }) => new BigUint64Array(buffer)) as [
    BigUint64Array,
    BigUint64Array,
  ];
  let count = 0;
  const takeFloat = (row: number): void => {
    timestampNanos[count] = floats.timestampNanos[row]!;
    to[count] = from[row]!;
    lags[count] = floats.lags[row]!;
    startNanos[count] = floats.startNanos?.[row] ?? 0n;
    typedValues.push(null);
    count++;
  };
  const takeTyped = (row: number): void => {
    timestampNanos[count] = typed.timestampNanos[row]!;
    lags[count] = typed.lags[row]!;
    startNanos[count] = typed.startNanos[row]!;
    typedValues.push(typed.values[row]!);
    count++;
  };
  let a = 0;
  let b = 0;
  while (a < floatCount && b < typedCount) {
    const [aTime, bTime] = [floats.timestampNanos[a]!, typed.timestampNanos[b]!];
    if (aTime < bTime) takeFloat(a++);
    else if (bTime < aTime) takeTyped(b++);
    else {
      if (floatStays(floats.lags[a]!, typed.lags[b]!, typed.values[b]![0]!)) takeFloat(a);
      else takeTyped(b);
      a++;
      b++;
    }
  }
  while (a < floatCount) takeFloat(a++);
  while (b < typedCount) takeTyped(b++);
  return {
    timestampNanos: timestampNanos.subarray(0, count),
    values: values.subarray(0, count),
    typed: typedValues,
    startNanos: startNanos.subarray(0, count),
    lags: lags.subarray(0, count),
  };
}

/** By version, then the higher kind; a window stays before nobody. @param kind of the typed row */
export function floatStays(floatLag: bigint, typedLag: bigint, kind: number): boolean {
  return kind === valueKind.window || floatLag > typedLag;
}
