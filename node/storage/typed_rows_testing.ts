/** Typed rows for tests of rows that are floats: each value has the number in it, and is of a kind that needs no schema. */
import type { TypedBatchRows } from '#engine/batch/batch.ts';
import { TypedValueReader, TypedValueWriter, valueKind } from '#engine/typed/typed_value.ts';

const writer = new TypedValueWriter();
const reader = new TypedValueReader();
const text = new TextEncoder();

/** A value of two fields, or three where the number is odd, so that chunks have rows without one. */
export function messageOf(value: number): Uint8Array {
  writer.begin(valueKind.histogram, 1).double(1, value === 0 ? -0 : value);
  writer.bytes(2, text.encode(`value ${value % 10}`));
  if (value % 2 === 1) writer.uint(7, BigInt(Math.floor(value)));
  return writer.finish();
}

/** The number in it. */
export function numberIn(message: Uint8Array): number {
  reader.open(message);
  reader.next();
  return reader.double + 0;
}

/** A row whose slot is an ordinal of the dictionary, in nanoseconds. */
export interface TypedTestRow {
  readonly slot: number;
  readonly generation: number;
  readonly nanos: bigint;
  readonly message: Uint8Array;
  readonly startNanos?: bigint;
}

export function typedColumns(rows: readonly TypedTestRow[]): TypedBatchRows {
  return {
    rowCount: rows.length,
    slots: Uint32Array.from(rows, ({ slot }) => slot),
    generations: Uint32Array.from(rows, ({ generation }) => generation),
    timestamps: BigInt64Array.from(rows, ({ nanos }) => nanos),
    timeUnitNanos: 1,
    startNanos: BigInt64Array.from(rows, ({ startNanos = 0n }) => startNanos),
    ...messageColumns(rows.map(({ message }) => message)),
  };
}

export function messageColumns(
  messages: readonly Uint8Array[],
): Pick<TypedBatchRows, 'valueEnds' | 'valueBytes'> {
  let length = 0;
  return {
    valueEnds: Uint32Array.from(messages, (message) => (length += message.length)),
    valueBytes: new Uint8Array(Buffer.concat(messages)),
  };
}
