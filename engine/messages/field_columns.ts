/**
 * Numeric fields of messages as columns, so that each can be read as a series of its own: what is stored by columns is
 * never put together to messages for that.
 */
import { badRequest, shownText } from '#lib/errors.ts';
import { typedDepthMax } from '../codec/layout.ts';
import { apart, typedInOrder } from '../store/typed_chunks.ts';
import { type AskedFields, type FieldColumn, TypedColumnsReader } from '../typed/columns.ts';
import { valueKind } from '../typed/typed_value.ts';
import type { MessageType, SchemaField } from './schema.ts';

export interface NumericField {
  /** Names with dots between them: 'latency.p99'. */
  readonly path: string;
  /** Numbers of the messages around it, then its own. */
  readonly numbers: readonly number[];
}

/** Fields of a schema with those of messages within, each as often as there are ways to it: a query has a column of each. */
export const fieldPathsMax = 10_000;
/** Longest path: it is the value of a label. */
export const fieldPathCharsMax = 1_024;

/**
 * Fields that are one number, booleans and enums too, of the message and those within; of a message within itself not
 * those of the inner one.
 * @throws {TsdbError} BAD_REQUEST when there are too many ways to fields, or one is too long
 */
export function numericFieldsOf(type: MessageType): readonly NumericField[] {
  const fields: NumericField[] = [];
  let pathCount = 0;
  const walk = (
    within: MessageType,
    prefix: string,
    numbers: readonly number[],
    around: readonly MessageType[],
  ): void => {
    for (const field of within.fields) {
      const { kind, rule, message } = field;
      if (rule === 'repeated' || rule === 'map' || kind === 'string' || kind === 'bytes') continue;
      const own = [...numbers, field.number];
      const path = prefix + field.name;
      if (kind === 'message' && (around.includes(message!) || own.length > typedDepthMax)) continue;
      pathCount += 1;
      if (pathCount > fieldPathsMax) {
        throw refusedType(
          type,
          `more than ${fieldPathsMax} fields, those of messages within counted`,
        );
      }
      if (path.length > fieldPathCharsMax) {
        const shown = shownText(path);
        throw refusedType(
          type,
          `the path of a field is longer than ${fieldPathCharsMax}: ${shown}`,
        );
      }
      if (kind === 'message') walk(message!, `${path}.`, own, [...around, message!]);
      else fields.push({ path, numbers: own });
    }
  };
  walk(type, '', [], [type]);
  return fields;
}

function refusedType({ name }: MessageType, reason: string): Error {
  return badRequest(`cannot take schema: ${name}: ${reason}`);
}

/** Rows of a field, in ascending time, every time once. */
export interface FieldRows {
  readonly timestampNanos: BigInt64Array;
  readonly values: Float64Array;
}

export interface ReadChunk {
  readonly chunk: Uint8Array;
  /** Rows of each field. */
  readonly fields: readonly FieldRows[];
  /** It has values that are no messages. */
  readonly hasOthers: boolean;
}

/** How rows of a schema have a field: not at all, perhaps (zero when it is not there), or when it was set. */
type Presence = 'none' | 'zero' | 'set';

const reader = new TypedColumnsReader();

/** Reads the same fields of many series. */
export class FieldColumns {
  readonly #fields: readonly NumericField[];
  readonly #typeOf: (layout: number) => MessageType | null;
  readonly #asked: AskedFields;
  /** By layout, of each field. */
  readonly #presences = new Map<number, readonly Presence[]>();

  /** @param typeOf the schema of rows with a layout; null when they are not to be read */
  constructor(fields: readonly NumericField[], typeOf: (layout: number) => MessageType | null) {
    this.#fields = fields;
    this.#typeOf = typeOf;
    this.#asked = askedOf(fields);
  }

  /**
   * @param chunks of a series, of typed rows; those of floats are passed over
   * @throws {TsdbError} BAD_REQUEST when a chunk is malformed, RESOURCE_EXHAUSTED as `typedInOrder`
   */
  *read(
    chunks: Uint8Array,
    range: readonly [startNanos: bigint, endNanos: bigint],
  ): Generator<ReadChunk> {
    for (const chunk of typedInOrder(apart([chunks]).typed, range)) {
      yield this.#readChunk(chunk, range);
    }
  }

  #readChunk(chunk: Uint8Array, [startNanos, endNanos]: readonly [bigint, bigint]): ReadChunk {
    const { timestampNanos, groups, columns } = reader.read(chunk, this.#asked);
    const rowCount = timestampNanos.length;
    let first = 0;
    while (first < rowCount && timestampNanos[first]! < startNanos) first++;
    let past = rowCount;
    while (past > first && timestampNanos[past - 1]! >= endNanos) past--;
    const byPath = new Map<string, FieldColumn[]>();
    for (const column of columns) {
      const key = column.path.join('.');
      const same = byPath.get(key);
      if (same === undefined) byPath.set(key, [column]);
      else same.push(column);
    }
    const isThere = new Uint8Array(rowCount);
    const values = new Float64Array(rowCount);
    const columnIn = (path: readonly number[], group: number): FieldColumn | undefined =>
      byPath.get(path.join('.'))?.find((column) => column.group === group);
    const fields = this.#fields.map(({ numbers }, index): FieldRows => {
      isThere.fill(0);
      values.fill(0);
      for (const [group, { kind, layout, rows }] of groups.entries()) {
        if (kind !== valueKind.message) continue;
        const presence = this.#presenceIn(layout)[index]!;
        if (presence === 'none') continue;
        if (presence === 'zero') {
          const parent = numbers.slice(0, -1);
          const within = parent.length === 0 ? rows : columnIn(parent, group)?.rows;
          for (const row of within ?? []) isThere[row] = 1;
        }
        const column = columnIn(numbers, group);
        if (column === undefined) continue;
        for (let i = 0; i < column.rows.length; i++) {
          const row = column.rows[i]!;
          isThere[row] = 1;
          values[row] = column.values[i]!;
        }
      }
      return rowsThere(timestampNanos, values, isThere, first, past);
    });
    return { chunk, fields, hasOthers: groups.some(({ kind }) => kind !== valueKind.message) };
  }

  #presenceIn(layout: number): readonly Presence[] {
    const known = this.#presences.get(layout);
    if (known !== undefined) return known;
    const type = this.#typeOf(layout);
    const presences = this.#fields.map(({ numbers }) =>
      type === null ? 'none' : presenceOf(type, numbers),
    );
    this.#presences.set(layout, presences);
    return presences;
  }
}

function presenceOf(type: MessageType, numbers: readonly number[]): Presence {
  let within: MessageType | null = type;
  let field: SchemaField | undefined;
  for (const number of numbers) {
    field = within?.field(number);
    if (field === undefined) return 'none';
    within = field.message;
  }
  return field!.rule === 'optional' ? 'set' : 'zero';
}

function askedOf(fields: readonly NumericField[]): AskedFields {
  type Asked = Map<number, 'all' | Asked>;
  const asked: Asked = new Map();
  for (const { numbers } of fields) {
    let within = asked;
    for (const number of numbers.slice(0, -1)) {
      const inner = within.get(number) ?? new Map();
      within.set(number, inner);
      within = inner as Asked;
    }
    within.set(numbers.at(-1)!, 'all');
  }
  return asked;
}

function rowsThere(
  timestampNanos: BigInt64Array,
  values: Float64Array,
  isThere: Uint8Array,
  first: number,
  past: number,
): FieldRows {
  let count = 0;
  for (let row = first; row < past; row++) count += isThere[row]!;
  if (count === past - first) {
    return { timestampNanos: timestampNanos.slice(first, past), values: values.slice(first, past) };
  }
  const times = new BigInt64Array(count);
  const some = new Float64Array(count);
  for (let row = first, at = 0; row < past; row++) {
    if (isThere[row] === 0) continue;
    times[at] = timestampNanos[row]!;
    some[at] = values[row]!;
    at++;
  }
  return { timestampNanos: times, values: some };
}
