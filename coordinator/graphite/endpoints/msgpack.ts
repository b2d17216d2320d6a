/** MessagePack of plain values, each kind in its longest form: what servers of Graphite answer each other, too. */
import { floatsOrNone, type Picklable, type PickledColumn } from './pickle.ts';

const code = {
  none: 0xc0,
  false: 0xc2,
  true: 0xc3,
  float: 0xcb,
  int64: 0xd3,
  text: 0xdb,
  list: 0xdd,
  dictionary: 0xdf,
} as const;

/** A list of values that are packed one by one, each of them in parts. @param count of them */
export function* packedList(
  count: number,
  items: Iterable<Iterable<Uint8Array>>,
): Iterable<Uint8Array> {
  yield headed(code.list, count);
  for (const item of items) yield* item;
}

/** A dictionary, to be an item of a list. @param column under that name */
export function* packedDictionary(
  fields: { readonly [key: string]: Picklable },
  column: { readonly name: string; readonly of: PickledColumn } | null = null,
): Iterable<Uint8Array> {
  const entries = Object.entries(fields);
  const parts = [headed(code.dictionary, entries.length + (column === null ? 0 : 1))];
  for (const [key, value] of entries) parts.push(...packed(key), ...packed(value));
  if (column !== null) parts.push(...packed(column.name));
  yield Buffer.concat(parts);
  if (column !== null) yield* packedColumn(column.of);
}

function packed(value: Picklable): Uint8Array[] {
  if (value === null) return [Uint8Array.of(code.none)];
  if (typeof value === 'boolean') return [Uint8Array.of(value ? code.true : code.false)];
  if (typeof value === 'number') return [packedNumber(value)];
  if (typeof value === 'string') {
    const bytes = Buffer.from(value);
    return [headed(code.text, bytes.length), bytes];
  }
  if (Array.isArray(value)) {
    const items = value as readonly Picklable[];
    return [headed(code.list, items.length), ...items.flatMap(packed)];
  }
  return [...packedDictionary(value as { readonly [key: string]: Picklable })];
}

/** Whole ones as integers, others as floats. */
function packedNumber(value: number): Uint8Array {
  const bytes = Buffer.alloc(9);
  const isWhole = Number.isSafeInteger(value) && !Object.is(value, -0);
  bytes[0] = isWhole ? code.int64 : code.float;
  if (isWhole) bytes.writeBigInt64BE(BigInt(value), 1);
  else bytes.writeDoubleBE(value, 1);
  return bytes;
}

/** All of its numbers are floats. */
function* packedColumn(column: PickledColumn): Iterable<Uint8Array> {
  yield headed(code.list, column.values.length);
  yield* floatsOrNone(column, code);
}

function headed(kind: number, count: number): Uint8Array {
  const head = Buffer.alloc(5);
  head[0] = kind;
  head.writeUInt32BE(count, 1);
  return head;
}
