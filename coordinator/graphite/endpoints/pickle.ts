/**
 * Python's pickle, protocol 2, of plain values: what servers of Graphite answer each other. A value is an opcode with its bytes;
 * lists and dictionaries are filled behind a mark.
 */
export type Picklable =
  | string
  | number
  | boolean
  | null
  | readonly Picklable[]
  | { readonly [key: string]: Picklable };

/** In the place of a list: numbers, of which some are None. */
export interface PickledColumn {
  readonly values: Float64Array;
  readonly present: Uint8Array;
}

const protocol: Uint8Array = Uint8Array.of(0x80, 2);
const opcode = {
  emptyList: 0x5d,
  emptyDictionary: 0x7d,
  mark: 0x28,
  appends: 0x65,
  setItems: 0x75,
  text: 0x58,
  float: 0x47,
  int32: 0x4a,
  long: 0x8a,
  none: 0x4e,
  true: 0x88,
  false: 0x89,
  stop: 0x2e,
} as const;

/** Rows of a column that are pickled in one go. */
const rowsAtOnce = 4096;

/** A list of values that are pickled one by one, each of them in parts. */
export function* pickledList(items: Iterable<Iterable<Uint8Array>>): Iterable<Uint8Array> {
  yield Buffer.concat([protocol, Uint8Array.of(opcode.emptyList, opcode.mark)]);
  for (const item of items) yield* item;
  yield Uint8Array.of(opcode.appends, opcode.stop);
}

/** A dictionary, to be an item of a list. @param column under that name */
export function* pickledDictionary(
  fields: { readonly [key: string]: Picklable },
  column: { readonly name: string; readonly of: PickledColumn } | null = null,
): Iterable<Uint8Array> {
  const parts: Uint8Array[] = [Uint8Array.of(opcode.emptyDictionary, opcode.mark)];
  for (const [key, value] of Object.entries(fields)) parts.push(...pickled(key), ...pickled(value));
  if (column !== null) parts.push(...pickled(column.name));
  yield Buffer.concat(parts);
  if (column !== null) yield* pickledColumn(column.of);
  yield Uint8Array.of(opcode.setItems);
}

function pickled(value: Picklable): Uint8Array[] {
  if (value === null) return [Uint8Array.of(opcode.none)];
  if (typeof value === 'boolean') return [Uint8Array.of(value ? opcode.true : opcode.false)];
  if (typeof value === 'number') return [pickledNumber(value)];
  if (typeof value === 'string') {
    const bytes = Buffer.from(value);
    const head = Buffer.alloc(5);
    head[0] = opcode.text;
    head.writeUInt32LE(bytes.length, 1);
    return [head, bytes];
  }
  if (Array.isArray(value)) {
    const items = (value as readonly Picklable[]).flatMap(pickled);
    return [Uint8Array.of(opcode.emptyList, opcode.mark), ...items, Uint8Array.of(opcode.appends)];
  }
  return [...pickledDictionary(value as { readonly [key: string]: Picklable })];
}

/** Whole ones as int, others as float. */
function pickledNumber(value: number): Uint8Array {
  if (!Number.isSafeInteger(value) || Object.is(value, -0)) return pickledFloat(value);
  const bytes = Buffer.alloc(10);
  if (value >= -(2 ** 31) && value < 2 ** 31) {
    bytes[0] = opcode.int32;
    bytes.writeInt32LE(value, 1);
    return bytes.subarray(0, 5);
  }
  bytes[0] = opcode.long;
  bytes[1] = 8;
  bytes.writeBigInt64LE(BigInt(value), 2);
  return bytes;
}

function pickledFloat(value: number): Uint8Array {
  const bytes = Buffer.alloc(9);
  bytes[0] = opcode.float;
  bytes.writeDoubleBE(value, 1);
  return bytes;
}

/** All of its numbers are floats. */
function* pickledColumn(column: PickledColumn): Iterable<Uint8Array> {
  yield Uint8Array.of(opcode.emptyList, opcode.mark);
  yield* floatsOrNone(column, opcode);
  yield Uint8Array.of(opcode.appends);
}

/** Rows of a column, each as a byte and the float with its highest byte first, or as a byte where there is none. */
export function* floatsOrNone(
  { values, present }: PickledColumn,
  { float, none }: { readonly float: number; readonly none: number },
): Iterable<Uint8Array> {
  for (let first = 0; first < values.length; first += rowsAtOnce) {
    const past = Math.min(values.length, first + rowsAtOnce);
    const bytes = Buffer.alloc(9 * (past - first));
    let at = 0;
    for (let row = first; row < past; row++) {
      if (present[row] === 0) bytes[at++] = none;
      else {
        bytes[at] = float;
        bytes.writeDoubleBE(values[row]!, at + 1);
        at += 9;
      }
    }
    yield bytes.subarray(0, at);
  }
}
