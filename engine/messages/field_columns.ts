/**
 * Numeric fields of messages as columns, so that each can be read as a series of its own: what is stored by columns is
 * never put together to messages for that.
 */
import { badRequest, shownText } from '#lib/errors.ts';
import { typedDepthMax } from '../codec/layout.ts';
import { type AskedFields, TypedColumnsReader } from '../typed/columns.ts';
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

/** Rows of a field, in ascending time, every time once; never none. */
export interface FieldRows {
  readonly timestampNanos: BigInt64Array;
  readonly values: Float64Array;
}

/** How rows of a schema have a field: not at all, perhaps (zero when it is not there), or when it was set. */
type Presence = 'none' | 'zero' | 'set';

/** A field, and what its columns are called. */
interface AskedField {
  readonly numbers: readonly number[];
  readonly key: string;
  /** Of the message around it; null of the value itself. */
  readonly parentKey: string | null;
}

const keyOf = (numbers: readonly number[]): string => numbers.join('.');
const reader = new TypedColumnsReader();

/** Reads the same fields of many series. */
export class FieldColumns {
  readonly #fields: readonly AskedField[];
  readonly #typeOf: (layout: number) => MessageType | null;
  readonly #asked: AskedFields;
  /** By layout, of each field. */
  readonly #presences = new Map<number, readonly Presence[]>();

  /** @param typeOf the schema of rows with a layout; null when they are not to be read */
  constructor(fields: readonly NumericField[], typeOf: (layout: number) => MessageType | null) {
    this.#fields = fields.map(({ numbers }): AskedField => {
      const parentKey = numbers.length === 1 ? null : keyOf(numbers.slice(0, -1));
      return { numbers, key: keyOf(numbers), parentKey };
    });
    this.#typeOf = typeOf;
    this.#asked = askedOf(fields);
  }

  /**
   * @param chunk of typed rows
   * @throws {TsdbError} BAD_REQUEST when it is malformed
   */
  read(chunk: Uint8Array, [startNanos, endNanos]: readonly [bigint, bigint]): ChunkFields {
    const { timestampNanos, groups, columns } = reader.read(chunk, this.#asked);
    let first = 0;
    while (first < timestampNanos.length && timestampNanos[first]! < startNanos) first++;
    let past = timestampNanos.length;
    while (past > first && timestampNanos[past - 1]! >= endNanos) past--;
    // Copies: the reader goes on with other chunks while this one is looked at.
    const messages = groups.map(
      ({ rows }): GroupFields => ({ rows: rows.slice(), columns: new Map() }),
    );
    for (const { group, path, rows, values } of columns) {
      messages[group]!.columns.set(keyOf(path), { rows: rows.slice(), values: values.slice() });
    }
    const ofMessages = groups.flatMap(({ kind, layout }, group) =>
      kind === valueKind.message
        ? [{ ...messages[group]!, presences: this.#presenceIn(layout) }]
        : [],
    );
    const hasOthers = ofMessages.length < groups.length;
    return new ChunkFields(
      this.#fields,
      timestampNanos.slice(),
      [first, past],
      ofMessages,
      hasOthers,
    );
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

/** Rows of one layout. */
interface GroupFields {
  readonly rows: Uint16Array;
  /** By numbers with dots between them; a message has rows and no values. */
  readonly columns: Map<string, { readonly rows: Uint16Array; readonly values: Float64Array }>;
}

/** Fields of the rows of a chunk, one by one: together they may be many times as large as the chunk. */
export class ChunkFields {
  readonly #fields: readonly AskedField[];
  readonly #timestampNanos: BigInt64Array;
  /** Rows in the range. */
  readonly #range: readonly [first: number, past: number];
  readonly #groups: readonly (GroupFields & { readonly presences: readonly Presence[] })[];
  readonly #isThere: Uint8Array;
  readonly #values: Float64Array;
  /** It has values that are no messages. */
  readonly hasOthers: boolean;

  constructor(
    fields: readonly AskedField[],
    timestampNanos: BigInt64Array,
    range: readonly [first: number, past: number],
    groups: readonly (GroupFields & { readonly presences: readonly Presence[] })[],
    hasOthers: boolean,
  ) {
    this.#fields = fields;
    this.#timestampNanos = timestampNanos;
    this.#range = range;
    this.#groups = groups;
    this.#isThere = new Uint8Array(timestampNanos.length);
    this.#values = new Float64Array(timestampNanos.length);
    this.hasOthers = hasOthers;
  }

  /** @returns the rows that have the field at this place of those that are asked for; null when none has it */
  rowsOf(place: number): FieldRows | null {
    const { key, parentKey } = this.#fields[place]!;
    const isThere = this.#isThere;
    const values = this.#values;
    let isEmpty = true;
    for (const { rows, columns, presences } of this.#groups) {
      const presence = presences[place]!;
      const column = columns.get(key);
      if (presence === 'none' || (presence === 'set' && column === undefined)) continue;
      const within = parentKey === null ? rows : columns.get(parentKey)?.rows;
      if (within === undefined) continue;
      if (isEmpty) {
        isThere.fill(0);
        values.fill(0);
        isEmpty = false;
      }
      if (presence === 'zero') for (const row of within) isThere[row] = 1;
      if (column === undefined) continue;
      for (let i = 0; i < column.rows.length; i++) {
        const row = column.rows[i]!;
        isThere[row] = 1;
        values[row] = column.values[i]!;
      }
    }
    if (isEmpty) return null;
    const [first, past] = this.#range;
    return rowsThere(this.#timestampNanos, values, isThere, first, past);
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
): FieldRows | null {
  let count = 0;
  for (let row = first; row < past; row++) count += isThere[row]!;
  if (count === 0) return null;
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
