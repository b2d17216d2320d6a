/**
 * Numeric fields of messages as columns, so that each can be read as a series of its own: what is stored by columns is
 * never put together to messages for that.
 */
import { type AskedFields, TypedColumnsReader } from '../typed/columns.ts';
import { valueKind } from '../typed/typed_value.ts';
import type { NumericField } from './numeric_fields.ts';
import type { MessageType, SchemaField } from './schema.ts';

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
    const groupsOfMessages = groups.map(({ kind, layout, rows }): GroupFields | null => {
      if (kind !== valueKind.message) return null;
      return { rows: rows.slice(), columns: new Map(), presences: this.#presenceIn(layout) };
    });
    // Copies: the reader goes on with other chunks while this one is looked at.
    const rowCount = columns.reduce((sum, column) => sum + column.rows.length, 0);
    const rows = new Uint16Array(rowCount);
    const values = new Float64Array(rowCount);
    let at = 0;
    for (const column of columns) {
      rows.set(column.rows, at);
      values.set(column.values, at);
      const end = at + column.rows.length;
      groupsOfMessages[column.group]?.columns.set(keyOf(column.path), { at, end });
      at = end;
    }
    return new ChunkFields({
      fields: this.#fields,
      timestampNanos: timestampNanos.slice(),
      ...{ first, past, rows, values },
      groups: groupsOfMessages.filter((group) => group !== null),
      hasOthers: groupsOfMessages.includes(null),
    });
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
  /** Places of what it has, by numbers with dots between them; a message has rows and no values. */
  readonly columns: Map<string, { readonly at: number; readonly end: number }>;
  readonly presences: readonly Presence[];
}

interface ChunkColumns {
  readonly fields: readonly AskedField[];
  readonly timestampNanos: BigInt64Array;
  /** Rows [first, past) are in the range. */
  readonly first: number;
  readonly past: number;
  /** Of all columns: places in the chunk, and the values of these rows. */
  readonly rows: Uint16Array;
  readonly values: Float64Array;
  readonly groups: readonly GroupFields[];
  readonly hasOthers: boolean;
}

/** Fields of the rows of a chunk, one by one: together they may be many times as large as the chunk. */
export class ChunkFields {
  readonly #columns: ChunkColumns;
  readonly #isThere: Uint8Array;
  readonly #found: Float64Array;
  /** Rows of the field that was asked for last, in ascending time, every time once: as many as `read` said. */
  readonly timestampNanos: BigInt64Array;
  readonly values: Float64Array;

  constructor(columns: ChunkColumns) {
    this.#columns = columns;
    const rowCount = columns.timestampNanos.length;
    this.#isThere = new Uint8Array(rowCount);
    this.#found = new Float64Array(rowCount);
    this.timestampNanos = new BigInt64Array(rowCount);
    this.values = new Float64Array(rowCount);
  }

  /** It has values that are no messages. */
  get hasOthers(): boolean {
    return this.#columns.hasOthers;
  }

  /**
   * Reads the field at this place of those that are asked for.
   * @returns how many rows have it
   */
  read(place: number): number {
    const { fields, rows, values, groups } = this.#columns;
    const { key, parentKey } = fields[place]!;
    const isThere = this.#isThere;
    const found = this.#found;
    let isEmpty = true;
    for (const group of groups) {
      const presence = group.presences[place]!;
      const column = group.columns.get(key);
      if (presence === 'none' || (presence === 'set' && column === undefined)) continue;
      const parent = parentKey === null ? null : group.columns.get(parentKey);
      if (parent === undefined) continue;
      if (isEmpty) {
        isThere.fill(0);
        found.fill(0);
        isEmpty = false;
      }
      if (presence === 'zero') {
        if (parent === null) for (const row of group.rows) isThere[row] = 1;
        else for (let i = parent.at; i < parent.end; i++) isThere[rows[i]!] = 1;
      }
      if (column === undefined) continue;
      for (let i = column.at; i < column.end; i++) {
        const row = rows[i]!;
        isThere[row] = 1;
        found[row] = values[i]!;
      }
    }
    return isEmpty ? 0 : this.#takeThere();
  }

  #takeThere(): number {
    const { timestampNanos, first, past } = this.#columns;
    let count = 0;
    for (let row = first; row < past; row++) {
      if (this.#isThere[row] === 0) continue;
      this.timestampNanos[count] = timestampNanos[row]!;
      this.values[count] = this.#found[row]!;
      count++;
    }
    return count;
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
