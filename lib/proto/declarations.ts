/**
 * What .proto files declare, plainly: messages, fields, enums, and what of the language a caller may not take. With
 * lib/env/proto.ts the only place that knows protobufjs.
 */
import protobuf from 'protobufjs';
import { messageOf, TsdbError } from '../errors.ts';

/**
 * A message forgets which numbers it has with each field that comes, and makes a table of all of them for the next one
 * (protobufjs 8.8): of 4,096 fields that takes a second. Here it goes on with the table.
 */
const add = Reflect.get(protobuf.Type.prototype, 'add') as (
  this: protobuf.Type,
  object: protobuf.ReflectionObject,
) => protobuf.Type;
protobuf.Type.prototype.add = function (
  this: protobuf.Type & { _fieldsById?: Record<number, protobuf.Field> },
  object,
) {
  const { fieldsById } = this;
  add.call(this, object);
  if (Object.hasOwn(this.fields, object.name) && this.fields[object.name] === object) {
    fieldsById[this.fields[object.name]!.id] = this.fields[object.name]!;
  }
  this._fieldsById = fieldsById;
  return this;
};

export interface DeclaredField {
  readonly name: string;
  /** As it is written in protobuf's JSON. */
  readonly jsonName: string;
  readonly number: number;
  /** `int32`, `string`… or the full name of a message or an enum. */
  readonly type: string;
  readonly rule: 'single' | 'optional' | 'repeated' | 'map';
  /** Type of a map's key; null for others. */
  readonly keyType: string | null;
  /** The `oneof` that it is in; null when it is in none. */
  readonly oneof: string | null;
  /** Names of the options that it has. */
  readonly options: readonly string[];
}

export interface DeclaredMessage {
  /** With its package: 'telemetry.v1.Reading' */
  readonly name: string;
  readonly fields: readonly DeclaredField[];
  readonly options: readonly string[];
  /** It has `extensions` or `extend`. */
  readonly isExtended: boolean;
  readonly isProto3: boolean;
}

export interface DeclaredEnum {
  readonly name: string;
  /** Numbers by name, in the order of the file. */
  readonly values: ReadonlyMap<string, number>;
  readonly options: readonly string[];
  readonly isProto3: boolean;
}

export interface Declarations {
  readonly messages: ReadonlyMap<string, DeclaredMessage>;
  readonly enums: ReadonlyMap<string, DeclaredEnum>;
}

/**
 * @param files texts by name, which may import each other
 * @throws {TsdbError} BAD_REQUEST that names file and line
 */
export function readDeclarations(files: Readonly<Record<string, string>>): Declarations {
  const root = new protobuf.Root();
  for (const [file, text] of Object.entries(files)) {
    const { imports = [], weakImports = [] } = parsed(root, file, text);
    const missing = [...imports, ...weakImports].find((name) => !Object.hasOwn(files, name));
    if (missing !== undefined) {
      const isKnown = missing.startsWith('google/protobuf/');
      const why = isKnown ? 'is of types that a schema cannot have' : 'is not among the files';
      throw refused(file, `import "${missing}" ${why}`);
    }
  }
  try {
    root.resolveAll();
  } catch (error) {
    throw refused(Object.keys(files).join(', '), messageOf(error), error);
  }
  const messages = new Map<string, DeclaredMessage>();
  const enums = new Map<string, DeclaredEnum>();
  const collect = (space: protobuf.NamespaceBase): void => {
    for (const nested of space.nestedArray) {
      if (nested instanceof protobuf.Type) messages.set(nameOf(nested), messageFrom(nested));
      if (nested instanceof protobuf.Enum) enums.set(nameOf(nested), enumFrom(nested));
      if (nested instanceof protobuf.Namespace) collect(nested);
    }
  };
  collect(root);
  return { messages, enums };
}

/**
 * Names by which a file imports others.
 * @throws {TsdbError} BAD_REQUEST that names file and line
 */
export function importsOf(file: string, text: string): readonly string[] {
  const { imports = [], weakImports = [] } = parsed(new protobuf.Root(), file, text);
  return [...imports, ...weakImports];
}

function parsed(root: protobuf.Root, file: string, text: string): protobuf.IParserResult {
  try {
    return protobuf.parse(text, root, { keepCase: true });
  } catch (error) {
    throw refused(file, messageOf(error), error);
  }
}

function refused(file: string, reason: string, cause?: unknown): TsdbError {
  return new TsdbError('BAD_REQUEST', `cannot read schema: ${file}: ${reason}`, { cause });
}

const nameOf = (object: protobuf.ReflectionObject): string => object.fullName.replace(/^\./, '');

/** Of its own: what a parser adds to say so is no option of the file. */
function optionsOf({ options }: protobuf.ReflectionObject): string[] {
  return Object.keys(options ?? {}).filter((name) => name !== 'proto3_optional');
}

/** The outermost message or enum of a file that is not proto3 tells its edition. */
const isProto3 = (type: protobuf.Type | protobuf.Enum): boolean => {
  const { parent } = type;
  return parent instanceof protobuf.Type ? isProto3(parent) : type._editionToJSON() === undefined;
};

function messageFrom(type: protobuf.Type): DeclaredMessage {
  return {
    name: nameOf(type),
    fields: type.fieldsArray.map(fieldFrom).sort((a, b) => a.number - b.number),
    options: optionsOf(type),
    isExtended:
      (type.extensions ?? []).length > 0 ||
      type.nestedArray.some((nested) => nested instanceof protobuf.Field),
    isProto3: isProto3(type),
  };
}

function fieldFrom(field: protobuf.Field): DeclaredField {
  const { name, id, type, resolvedType, repeated, map, partOf } = field.resolve();
  const isOptional = field.options?.['proto3_optional'] === true;
  return {
    name,
    jsonName: field.jsonName ?? jsonNameOf(name),
    number: id,
    type: resolvedType === null ? type : nameOf(resolvedType),
    rule: map ? 'map' : repeated ? 'repeated' : isOptional ? 'optional' : 'single',
    keyType: field instanceof protobuf.MapField ? field.keyType : null,
    oneof: isOptional || partOf === null ? null : partOf.name,
    options: optionsOf(field),
  };
}

/** `battery_level` is `batteryLevel`. */
const jsonNameOf = (name: string): string =>
  name.replace(/_+(.?)/g, (_, next: string) => next.toUpperCase());

function enumFrom(type: protobuf.Enum): DeclaredEnum {
  return {
    name: nameOf(type),
    values: new Map(Object.entries(type.values)),
    options: [
      ...optionsOf(type),
      ...Object.values(type.valuesOptions ?? {}).flatMap((options) => Object.keys(options ?? {})),
    ],
    isProto3: isProto3(type),
  };
}
