/**
 * Schemas of values: what a message of a namespace may be, from .proto files (proto3). Scalars, also `optional`,
 * nested messages, repeated and map fields and enums are taken; `oneof`, `Any`, options, extensions and groups are
 * refused by the field's name.
 */
import { badRequest } from '#lib/errors.ts';
import {
  readDeclarations,
  type Declarations,
  type DeclaredField,
  type DeclaredMessage,
} from '#lib/proto/declarations.ts';
import { typedDepthMax, typedFieldsMax } from '../codec/layout.ts';

const scalarKinds = [
  'double',
  'float',
  'int32',
  'int64',
  'uint32',
  'uint64',
  'sint32',
  'sint64',
  'fixed32',
  'fixed64',
  'sfixed32',
  'sfixed64',
  'bool',
  'string',
  'bytes',
] as const;
type ScalarKind = (typeof scalarKinds)[number];

export type FieldKind = ScalarKind | 'enum' | 'message';

export interface EnumType {
  readonly name: string;
  /** Of two names of one number the first in the file. */
  readonly nameOf: ReadonlyMap<number, string>;
  readonly numberOf: ReadonlyMap<string, number>;
}

export interface SchemaField {
  /** In the .proto file, as a query names it. */
  readonly name: string;
  /** In JSON, where the other name is taken as well. */
  readonly jsonName: string;
  readonly number: number;
  readonly kind: FieldKind;
  /** Single fields are absent when they are zero, optional ones when they were not set. */
  readonly rule: 'single' | 'optional' | 'repeated' | 'map';
  /** Of kind message, or a map: then of its entries, with a key (1) and a value (2). */
  readonly message: MessageType | null;
  /** Of kind enum. */
  readonly enumType: EnumType | null;
}

/** Of a message; one may have itself as a field, so fields come after it. */
export class MessageType {
  /** With its package. */
  readonly name: string;
  #fields: readonly SchemaField[] = [];
  #byNumber: ReadonlyMap<number, SchemaField> = new Map();
  #byName: ReadonlyMap<string, SchemaField> = new Map();

  constructor(name: string) {
    this.name = name;
  }

  setFields(fields: readonly SchemaField[]): this {
    this.#fields = fields.toSorted((a, b) => a.number - b.number);
    this.#byNumber = new Map(fields.map((field) => [field.number, field]));
    this.#byName = new Map([
      ...fields.map((field) => [field.jsonName, field] as const),
      ...fields.map((field) => [field.name, field] as const),
    ]);
    return this;
  }

  /** Ascending by number. */
  get fields(): readonly SchemaField[] {
    return this.#fields;
  }

  field(number: number): SchemaField | undefined {
    return this.#byNumber.get(number);
  }

  /** @param name of the field, in the file or in JSON */
  named(name: string): SchemaField | undefined {
    return this.#byName.get(name);
  }
}

/** Numbers that protobuf keeps for itself. */
const reservedFrom = 19_000;
const reservedTo = 19_999;
const fieldNumberMax = 2 ** 29 - 1;
/** Messages that a schema reaches: each costs an answer of a query a table. */
export const schemaMessagesMax = 1000;

/**
 * @param files texts of .proto files by name
 * @param messageName of the values, with its package
 * @throws {TsdbError} BAD_REQUEST that names the file, or the field and what is not supported
 */
export function readSchema(
  files: Readonly<Record<string, string>>,
  messageName: string,
): MessageType {
  const declarations = readDeclarations(files);
  const declared = declarations.messages.get(messageName);
  if (declared === undefined) {
    const known = [...declarations.messages.keys()].slice(0, 10).join(', ');
    throw refused(messageName, `no such message: the files have ${known || 'none'}`);
  }
  return new SchemaReader(declarations).messageOf(declared, 0);
}

function refused(what: string, reason: string): Error {
  return badRequest(`cannot take schema: ${what}: ${reason}`);
}

/** JSON takes a field under both of its names, and shows it under one of them. */
function checkNames({ name: within, fields }: DeclaredMessage): void {
  const known = new Map<string, string>();
  for (const { name, jsonName } of fields) {
    for (const each of new Set([name, jsonName])) {
      const other = known.get(each);
      if (other !== undefined) {
        throw refused(`${within}.${name}`, `JSON calls it as it calls ${other}: ${each}`);
      }
      known.set(each, name);
    }
  }
}

class SchemaReader {
  readonly #declarations: Declarations;
  /** Messages may have themselves as fields: each is known here before its fields are read. */
  readonly #types = new Map<string, MessageType>();

  constructor(declarations: Declarations) {
    this.#declarations = declarations;
  }

  messageOf(declared: DeclaredMessage, depth: number): MessageType {
    const known = this.#types.get(declared.name);
    if (known !== undefined) return known;
    if (!declared.isProto3) throw refused(declared.name, 'only proto3 is supported');
    if (declared.options.length > 0) {
      throw refused(declared.name, `options are not supported: ${declared.options[0]}`);
    }
    if (declared.isExtended) throw refused(declared.name, 'extensions are not supported');
    if (declared.fields.length > typedFieldsMax) {
      throw refused(declared.name, `more than ${typedFieldsMax} fields: ${declared.fields.length}`);
    }
    if (depth > typedDepthMax)
      throw refused(declared.name, `deeper than ${typedDepthMax} messages`);
    if (this.#types.size >= schemaMessagesMax) {
      throw refused(declared.name, `more than ${schemaMessagesMax} messages in a schema`);
    }
    const type = new MessageType(declared.name);
    this.#types.set(declared.name, type);
    checkNames(declared);
    return type.setFields(declared.fields.map((field) => this.#fieldOf(declared, field, depth)));
  }

  #fieldOf(declared: DeclaredMessage, field: DeclaredField, depth: number): SchemaField {
    const where = `${declared.name}.${field.name}`;
    const { name, number, rule, type, keyType } = field;
    if (field.oneof !== null) {
      throw refused(where, `oneof is not supported: it is in ${field.oneof}`);
    }
    // What packs elements and how JSON calls a field changes no value.
    const option = field.options.find((each) => each !== 'packed' && each !== 'json_name');
    if (option !== undefined) throw refused(where, `options are not supported: ${option}`);
    if (number < 1 || number > fieldNumberMax || (number >= reservedFrom && number <= reservedTo)) {
      throw refused(where, `a field cannot have this number: ${number}`);
    }
    const { jsonName } = field;
    if (keyType === null) {
      return { name, jsonName, number, rule, ...this.#kindOf(where, type, depth) };
    }
    const entry = (of: string, at: number, ofType: string): SchemaField => ({
      ...{ name: of, jsonName: of, number: at, rule: 'single' },
      ...this.#kindOf(where, ofType, depth + 1),
    });
    const fields = [entry('key', 1, keyType), entry('value', 2, type)];
    const message = new MessageType(`${where} entry`).setFields(fields);
    return { name, jsonName, number, rule, kind: 'message', message, enumType: null };
  }

  #kindOf(
    where: string,
    type: string,
    depth: number,
  ): Pick<SchemaField, 'kind' | 'message' | 'enumType'> {
    const message = this.#declarations.messages.get(type);
    if (message !== undefined) {
      return { kind: 'message', message: this.messageOf(message, depth + 1), enumType: null };
    }
    const declared = this.#declarations.enums.get(type);
    if (declared === undefined) {
      if (!isScalar(type)) throw refused(where, `a field cannot have this type: ${type}`);
      return { kind: type, message: null, enumType: null };
    }
    const option = declared.options.find((each) => each !== 'allow_alias');
    if (option !== undefined) throw refused(declared.name, `options are not supported: ${option}`);
    const values = [...declared.values];
    if (values[0]?.[1] !== 0) throw refused(declared.name, 'the first value of an enum is 0');
    const nameOf = new Map(values.toReversed().map(([each, number]) => [number, each]));
    const enumType = { name: declared.name, nameOf, numberOf: declared.values };
    return { kind: 'enum', message: null, enumType };
  }
}

const isScalar = (type: string): type is ScalarKind =>
  (scalarKinds as readonly string[]).includes(type);
