/** Series with floats and typed values, read as what wins at each time. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededNumbers } from '../../codec/samples_testing.ts';
import { encodeFloatStartsChunk } from '../../codec/codec_twin.ts';
import { encodeTypedChunk } from '../../typed/chunk_twin.ts';
import {
  type OrderedTypedRow,
  orderOfTypedRows,
  TypedValueWriter,
  valueKind,
} from '../../typed/typed_value.ts';
import { encodeRawChunk } from '../../codec/chunk.ts';
import { apart, typedInOrder } from '../typed_chunks.ts';
import { FloatsBeside } from './decided.ts';
import { readMixedRows } from './mixed_rows.ts';

const second = 1_000_000_000n;
const begin = 1_700_000_000n * second;
const allTimes = [-(2n ** 63n), 2n ** 63n - 1n] as const;
const staleBits = 0x7ff0000000000002n;

interface Sent {
  readonly nanos: bigint;
  readonly version: number;
  readonly start: bigint;
  /** Bits of a float, or a typed value. */
  readonly value: bigint | Uint8Array;
}

function chunkOf(rows: readonly Sent[]): Uint8Array {
  const sorted = [...rows].sort((a, b) => (a.nanos < b.nanos ? -1 : 1));
  const columns = {
    timestampNanos: BigInt64Array.from(sorted, ({ nanos }) => nanos),
    rowVersions: Float64Array.from(sorted, ({ version }) => version),
    startNanos: BigInt64Array.from(sorted, ({ start }) => start),
  };
  if (typeof sorted[0]!.value !== 'bigint') {
    return encodeTypedChunk({ ...columns, values: sorted.map(({ value }) => value as Uint8Array) });
  }
  const bits = BigUint64Array.from(sorted, ({ value }) => value as bigint);
  const values = new Float64Array(bits.buffer);
  return encodeFloatStartsChunk({ ...columns, values, version: Math.max(...columns.rowVersions) });
}

const kindOf = ({ value }: Sent): number => (typeof value === 'bigint' ? 0 : value[0]!);

const ordered = ({ version, value, start }: Sent): OrderedTypedRow => ({
  version,
  value: value as Uint8Array,
  startNanos: start,
});

/** The order of docs/TYPED_ROWS.md, said once more. */
function wins(a: Sent, b: Sent): boolean {
  const [aIsWindow, bIsWindow] = [a, b].map((row) => kindOf(row) === valueKind.window);
  if (aIsWindow !== bIsWindow) return bIsWindow!;
  if (aIsWindow) return orderOfTypedRows(ordered(a), ordered(b)) > 0;
  if (a.version !== b.version) return a.version > b.version;
  if (kindOf(a) !== kindOf(b)) return kindOf(a) > kindOf(b);
  if (typeof a.value === 'bigint') {
    return a.value === b.value ? a.start > b.start : a.value > (b.value as bigint);
  }
  return orderOfTypedRows(ordered(a), ordered(b)) > 0;
}

test('of each time the row that wins is read, floats, messages and windows', () => {
  const numbers = new SeededNumbers(1);
  const typedOf = (kind: 2 | 3): Uint8Array =>
    new TypedValueWriter()
      .begin(kind, 1)
      .uint(1, BigInt(1 + numbers.below(3)))
      .finish();
  for (let round = 0; round < 300; round++) {
    const rows: Sent[] = [];
    const parts: Uint8Array[] = [];
    for (let part = 0; part < 1 + numbers.below(4); part++) {
      const isFloat = part === 0 || numbers.below(2) === 0;
      const times = new Set(Array.from({ length: 1 + numbers.below(9) }, () => numbers.below(12)));
      const sent = [...times].map((at): Sent => {
        const nanos = begin + BigInt(at) * second;
        const start = numbers.below(2) === 0 ? 0n : nanos - second;
        const float = numbers.below(4) === 0 ? staleBits : BigInt(numbers.below(3));
        return {
          nanos,
          start,
          version: 7e12 + numbers.below(2),
          value: isFloat
            ? float
            : typedOf(numbers.below(2) === 0 ? valueKind.message : valueKind.window),
        };
      });
      rows.push(...sent);
      parts.push(chunkOf(sent));
    }
    const byTime = new Map<bigint, Sent>();
    for (const row of rows) {
      const held = byTime.get(row.nanos);
      if (held === undefined || wins(row, held)) byTime.set(row.nanos, row);
    }
    const [from, end] =
      numbers.below(3) === 0 ? [begin + 3n * second, begin + 9n * second] : allTimes;
    const wanted = [...byTime.values()]
      .filter(({ nanos }) => nanos >= from && nanos < end)
      .sort((a, b) => (a.nanos < b.nanos ? -1 : 1));
    const read = readMixedRows(parts, [from, end]);
    const bits = new BigUint64Array(read.values.buffer, read.values.byteOffset, read.values.length);
    const got = Array.from(read.timestampNanos, (nanos, i) => ({
      nanos,
      start: read.startNanos[i]!,
      value: read.typed[i] ?? bits[i]!,
    }));
    assert.deepEqual(
      got,
      wanted.map(({ nanos, start, value }) => ({ nanos, start, value })),
    );
    // Apart from each other they are the same rows, each kind's.
    const { floats, typed } = apart(parts);
    const beside = new FloatsBeside(floats);
    const typedLeft = typedInOrder(typed, [from, end]).map((chunk) => beside.stayingOf(chunk));
    const left = [[...beside.staying()], typedLeft.filter(({ length }) => length > 0)];
    const rowsOf = (chunks: Uint8Array[]) => {
      const { timestampNanos, values, startNanos } = readMixedRows(chunks, [from, end]);
      const valueBits = new BigUint64Array(values.buffer, values.byteOffset, values.length);
      return Array.from(timestampNanos, (nanos, i) => [nanos, valueBits[i], startNanos[i]]);
    };
    const isTyped = read.typed.map((value) => value !== null);
    const ofKind = (isWanted: boolean) =>
      got
        .filter((_, i) => isTyped[i] === isWanted)
        .map(({ nanos, start, value }) => [nanos, isWanted ? 0n : value, start]);
    assert.deepEqual(left.map(rowsOf), [ofKind(false), ofKind(true)]);
  }
});

test('of floats in a chunk without versions of rows those that typed rows beat go as well', () => {
  const rows = [1n, 2n, 3n].map((value, i) => ({
    ...{ nanos: begin + BigInt(i) * second, start: 0n, version: 5 },
    value: i === 2 ? staleBits : value,
  }));
  const bits = BigUint64Array.from(rows, ({ value }) => value);
  const raw = encodeRawChunk({
    timestampNanos: BigInt64Array.from(rows, ({ nanos }) => nanos),
    values: new Float64Array(bits.buffer),
    version: 5,
  });
  const message = new TypedValueWriter().begin(valueKind.message, 1).uint(1, 1n).finish();
  const beside = new FloatsBeside([raw]);
  const typed = chunkOf([{ ...rows[1]!, version: 6, value: message }]);
  assert.equal(beside.stayingOf(typed), typed);
  const { timestampNanos, values } = readMixedRows([...beside.staying()], allTimes);
  assert.deepEqual([...timestampNanos], [rows[0]!.nanos, rows[2]!.nanos]);
  assert.equal(new BigUint64Array(values.buffer)[1], staleBits);
});

test('a series of one kind, and one of none, are read as well', () => {
  assert.equal(readMixedRows([], allTimes).timestampNanos.length, 0);
  const float = chunkOf([{ nanos: begin, version: 1, start: 0n, value: staleBits }]);
  assert.deepEqual(readMixedRows([float], allTimes).typed, [null]);
  assert.throws(() => readMixedRows([float.subarray(0, -1)], allTimes), { code: 'BAD_REQUEST' });
});
