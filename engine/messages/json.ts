/**
 * Messages as JSON, by protobuf's rules: 64-bit integers and bytes are strings, enums their names, NaN and infinities
 * words; a field may come under either of its names, and null is as if it were not there.
 */
import { badRequest } from '#lib/errors.ts';
import {
  doubleOf,
  fieldType,
  TypedValueReader,
  valueKind,
  type TypedField,
} from '../typed/typed_value.ts';
import { typedBytesMax, typedDepthMax, typedFieldsMax } from '../codec/layout.ts';
import { BytesWriter } from './bytes_writer.ts';
import type { MessageType, SchemaField } from './schema.ts';
import { WireReader, wireType } from './wire_reader.ts';
import { itemsOf } from './wire_writer.ts';

/** Large whole numbers are bigints where whoever parsed the text kept their digits. */
export type JsonValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | readonly JsonValue[]
  | { readonly [name: string]: JsonValue };

/**
 * A message that was sent as JSON, in protobuf's wire form.
 * @throws {TsdbError} BAD_REQUEST that names the path of the field, the reason and the value
 */
export function wireFromJson(json: JsonValue, type: MessageType): Uint8Array<ArrayBuffer> {
  const out = new BytesWriter();
  writeMessage(out, json, type, [], 0);
  return out.finish();
}

/** Names of fields, places in lists, and keys of maps: a text is made of them when something is refused. */
type Path = (string | number | readonly [key: string])[];

/** A value in its wire form is at most so long: what has a tag of up to five bytes there may take one byte. */
const wireBytesMax = 6 * typedBytesMax;

function refused(path: Path, reason: string, value: JsonValue): Error {
  const text =
    typeof value === 'number'
      ? String(value)
      : (JSON.stringify(value, (_, each) => (typeof each === 'bigint' ? String(each) : each)) ??
        'undefined');
  const shown = text.length > 100 ? `${text.slice(0, 100)}…` : text;
  const where = path
    .map((each) => {
      if (typeof each === 'string') return `.${each}`;
      return typeof each === 'number' ? `[${each}]` : `[${JSON.stringify(each[0])}]`;
    })
    .join('');
  return badRequest(`cannot take message: ${where.slice(1) || 'value'}: ${reason}: ${shown}`);
}

const tooLong = (): Error =>
  badRequest(`cannot take message: it is longer than ${typedBytesMax} bytes`);

const isObject = (value: JsonValue): value is { readonly [name: string]: JsonValue } =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function writeMessage(
  out: BytesWriter,
  json: JsonValue,
  type: MessageType,
  path: Path,
  depth: number,
): void {
  if (!isObject(json)) throw refused(path, `it must be an object (${type.name})`, json);
  if (depth > typedDepthMax) throw refused(path, `deeper than ${typedDepthMax} messages`, json);
  const given = new Set<number>();
  for (const [name, value] of Object.entries(json)) {
    path.push(name);
    const field = type.named(name);
    if (field === undefined) throw refused(path, `${type.name} has no such field`, value);
    if (given.has(field.number)) throw refused(path, 'the field is given twice', value);
    given.add(field.number);
    if (value !== null) {
      if (field.rule === 'map') writeMap(out, value, field, path, depth);
      else if (field.rule === 'repeated') writeList(out, value, field, path, depth);
      else writeField(out, value, field, path, depth);
    }
    path.pop();
  }
}

function writeList(
  out: BytesWriter,
  json: JsonValue,
  field: SchemaField,
  path: Path,
  depth: number,
): void {
  if (!Array.isArray(json)) throw refused(path, 'it must be an array', json);
  const items = json as readonly JsonValue[];
  if (items.length * leastBytesOf(field.kind) > typedBytesMax) throw tooLong();
  const place = path.push(0) - 1;
  for (let i = 0; i < items.length; i++) {
    path[place] = i;
    writeField(out, items[i]!, field, path, depth);
  }
  path.pop();
}

/** What an element of a list takes at least. */
function leastBytesOf(kind: SchemaField['kind']): number {
  if (kind === 'double' || kind === 'fixed64' || kind === 'sfixed64') return 8;
  return kind === 'float' || kind === 'fixed32' || kind === 'sfixed32' ? 4 : 1;
}

function writeMap(
  out: BytesWriter,
  json: JsonValue,
  { number, message }: SchemaField,
  path: Path,
  depth: number,
): void {
  if (!isObject(json)) throw refused(path, 'it must be an object', json);
  const [key, value] = message!.fields as [SchemaField, SchemaField];
  const names = Object.keys(json);
  // All entries but one have a field.
  if (names.length > typedFieldsMax + 1) {
    const reason = `more than ${typedFieldsMax} fields: ${names.length} keys`;
    throw refused(
      path,
      reason,
      Object.fromEntries(names.slice(0, 3).map((name) => [name, json[name]!])),
    );
  }
  for (const name of names) {
    path.push([name]);
    out.varint(number * 8 + wireType.delimited);
    const from = out.beginLength();
    const isBool = key.kind === 'bool' && (name === 'true' || name === 'false');
    writeField(out, isBool ? name === 'true' : name, key, path, depth + 1);
    writeField(out, json[name]!, value, path, depth + 1);
    out.endLength(from);
    path.pop();
  }
}

function writeField(
  out: BytesWriter,
  json: JsonValue,
  field: SchemaField,
  path: Path,
  depth: number,
): void {
  const { number, kind } = field;
  if (out.length > wireBytesMax) throw tooLong();
  const tag = (wire: number): void => out.varint(number * 8 + wire);
  switch (kind) {
    case 'message': {
      tag(wireType.delimited);
      const from = out.beginLength();
      writeMessage(out, json, field.message!, path, depth + 1);
      return out.endLength(from);
    }
    case 'string': {
      if (typeof json !== 'string') throw refused(path, 'it must be a string', json);
      if (json.length > typedBytesMax) throw tooLong();
      if (!json.isWellFormed()) throw refused(path, 'it is no Unicode text', json);
      return writeBytes(out, number, Buffer.from(json));
    }
    case 'bytes': {
      if (typeof json === 'string' && json.length > 2 * typedBytesMax) throw tooLong();
      if (typeof json !== 'string' || !isBase64(json)) {
        throw refused(path, 'it must be a string of base64', json);
      }
      return writeBytes(out, number, Buffer.from(json, 'base64'));
    }
    case 'bool':
      if (typeof json !== 'boolean') throw refused(path, 'it must be true or false', json);
      tag(wireType.varint);
      return out.varint(json ? 1 : 0);
    case 'double':
    case 'float': {
      const value = floatFrom(json, kind, path);
      numberView.setFloat64(0, value, true);
      if (kind === 'float') numberView.setFloat32(0, value, true);
      tag(kind === 'float' ? wireType.fixed32 : wireType.fixed64);
      const low = numberView.getUint32(0, true);
      if (kind === 'float') out.fixed32(low);
      else out.fixed64(low, numberView.getUint32(4, true));
      return;
    }
    case 'enum': {
      const named = typeof json === 'string' ? field.enumType!.numberOf.get(json) : undefined;
      const isNumber =
        typeof json === 'number' ||
        typeof json === 'bigint' ||
        (typeof json === 'string' && /^-?\d/.test(json));
      if (named === undefined && !isNumber) {
        throw refused(path, `${field.enumType!.name} has no such name`, json);
      }
      return writeInteger(out, number, 'int32', BigInt(named ?? integerFrom(json, 'int32', path)));
    }
    default:
      return writeInteger(out, number, kind, integerFrom(json, kind, path));
  }
}

/** With its padding or without it, of either alphabet; a character alone at the end has no byte. */
function isBase64(text: string): boolean {
  if (!/^[A-Za-z0-9+/_-]*={0,2}$/.test(text)) return false;
  return text.endsWith('=') ? text.length % 4 === 0 : text.length % 4 !== 1;
}

const numberView = new DataView(new ArrayBuffer(8));

function writeBytes(out: BytesWriter, number: number, bytes: Uint8Array): void {
  out.varint(number * 8 + wireType.delimited);
  out.varint(bytes.length);
  out.copy(bytes, 0, bytes.length);
}

function floatFrom(json: JsonValue, kind: 'double' | 'float', path: Path): number {
  const words: Record<string, number> = { NaN, Infinity, '-Infinity': -Infinity };
  if (typeof json === 'string' && Object.hasOwn(words, json)) return words[json]!;
  const isText = typeof json === 'string' && /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(json);
  if (typeof json !== 'number' && typeof json !== 'bigint' && !isText)
    throw refused(path, 'it must be a number', json);
  const value = Number(json);
  const isBeyond = !Number.isFinite(kind === 'float' ? Math.fround(value) : value);
  if (isBeyond) throw refused(path, `it is beyond a ${kind}`, json);
  return value;
}

type IntegerKind = Exclude<
  SchemaField['kind'],
  'double' | 'float' | 'string' | 'bytes' | 'bool' | 'enum' | 'message'
>;

/** Lowest and highest. */
function rangeOf(kind: IntegerKind): [bigint, bigint] {
  const bits = kind.endsWith('64') ? 64n : 32n;
  const isUnsigned = kind.startsWith('u') || kind.startsWith('f');
  return isUnsigned ? [0n, 2n ** bits - 1n] : [-(2n ** (bits - 1n)), 2n ** (bits - 1n) - 1n];
}

function integerFrom(json: JsonValue, kind: IntegerKind, path: Path): bigint {
  let value: bigint | null = typeof json === 'bigint' ? json : null;
  if (typeof json === 'string' && /^-?\d{1,20}$/.test(json)) value = BigInt(json);
  else if (typeof json === 'number' || (typeof json === 'string' && /^-?\d/.test(json))) {
    // `1.0` and `1e3` are integers, too.
    const number = Number(json);
    if (Number.isInteger(number) && !Number.isSafeInteger(number)) {
      throw refused(path, 'from 2^53 on it must be a string of digits, others are not exact', json);
    }
    if (Number.isInteger(number)) value = BigInt(number);
  }
  if (value === null) throw refused(path, `it must be a whole number (${kind})`, json);
  const [lowest, highest] = rangeOf(kind);
  if (value < lowest || value > highest) throw refused(path, `it is beyond ${kind}`, json);
  return value;
}

function writeInteger(out: BytesWriter, number: number, kind: IntegerKind, value: bigint): void {
  const low = Number(BigInt.asUintN(32, value));
  const high = Number(BigInt.asUintN(32, value >> 32n));
  if (kind.includes('fixed')) {
    const isLong = kind.endsWith('64');
    out.varint(number * 8 + (isLong ? wireType.fixed64 : wireType.fixed32));
    if (isLong) out.fixed64(low, high);
    else out.fixed32(low);
    return;
  }
  out.varint(number * 8 + wireType.varint);
  if (!kind.startsWith('s')) return out.varint64(low, high);
  const sign = (high | 0) >> 31;
  out.varint64((low << 1) ^ sign, (high << 1) ^ (low >>> 31) ^ sign);
}

/**
 * @param value a typed value of kind message
 * @param type its schema, or a later one: fields that this does not have are left out
 * @throws {TsdbError} BAD_REQUEST when it is malformed
 */
export function messageToJson(value: Uint8Array, type: MessageType): JsonValue {
  const reader = new TypedValueReader().open(value);
  if (reader.kind !== valueKind.message) throw badRequest('cannot show value: it is no message');
  return objectOf(reader, value, type);
}

function objectOf(reader: TypedValueReader, bytes: Uint8Array, type: MessageType): JsonValue {
  const json: Record<string, JsonValue> = {};
  while (reader.next()) {
    const field = type.field(reader.number);
    if (field === undefined) continue;
    json[field.jsonName] = shown(reader, bytes, field);
  }
  return json;
}

function shown(at: TypedField, bytes: Uint8Array, field: SchemaField): JsonValue {
  const { rule, kind, message } = field;
  const { start, end } = at;
  if (rule === 'map') {
    const entries = [...itemsOf(bytes, start, end)].map(([from, past]) =>
      entryOf(bytes, from, past, message!),
    );
    return Object.fromEntries(entries);
  }
  if (rule === 'repeated') {
    if (kind === 'message' || kind === 'string' || kind === 'bytes') {
      const items = [...itemsOf(bytes, start, end)];
      return items.map(([from, past]) => delimitedOf(bytes, from, past, field));
    }
    return packedOf(bytes, start, end, field);
  }
  switch (at.type) {
    case fieldType.double:
      return floatJson(doubleOf(at.bits));
    case fieldType.float:
      numberView.setUint32(0, Number(at.bits), true);
      return floatJson(numberView.getFloat32(0, true));
    case fieldType.bytes:
    case fieldType.message:
      return delimitedOf(bytes, start, end, field);
    default:
      return integerOf(at.integer, field);
  }
}

/** An entry has neither a key nor a value where these are zero. */
function entryOf(
  bytes: Uint8Array,
  from: number,
  past: number,
  message: MessageType,
): [string, JsonValue] {
  const [key, value] = message.fields as [SchemaField, SchemaField];
  const reader = new TypedValueReader().openFields(bytes, from, past);
  let name: JsonValue = zeroOf(key);
  let json: JsonValue = zeroOf(value);
  while (reader.next()) {
    if (reader.number === key.number) name = shown(reader, bytes, key);
    else json = shown(reader, bytes, value);
  }
  return [typeof name === 'string' ? name : JSON.stringify(name), json];
}

function zeroOf({ kind, enumType }: SchemaField): JsonValue {
  if (kind === 'message') return {};
  if (kind === 'string' || kind === 'bytes') return '';
  if (kind === 'bool') return false;
  if (kind === 'enum') return enumType!.nameOf.get(0) ?? 0;
  return kind.endsWith('64') ? '0' : 0;
}

function delimitedOf(
  bytes: Uint8Array,
  from: number,
  past: number,
  { kind, message }: SchemaField,
): JsonValue {
  if (kind === 'message') {
    return objectOf(new TypedValueReader().openFields(bytes, from, past), bytes, message!);
  }
  const part = Buffer.from(bytes.buffer, bytes.byteOffset + from, past - from);
  return part.toString(kind === 'string' ? 'utf8' : 'base64');
}

/** `JSON.stringify` leaves the sign of a zero out but where it is given the text (ECMAScript 2026). */
const minusZero = (JSON as unknown as { rawJSON(text: string): JsonValue }).rawJSON('-0');

/** A number for `JSON.stringify`, as protobuf's JSON has it: what JSON has no number for is a word. */
export function floatJson(value: number): JsonValue {
  if (value === 0) return Object.is(value, -0) ? minusZero : 0;
  if (Number.isFinite(value)) return value;
  return Number.isNaN(value) ? 'NaN' : value > 0 ? 'Infinity' : '-Infinity';
}

function integerOf(value: bigint, { kind, enumType }: SchemaField): JsonValue {
  if (kind === 'bool') return value !== 0n;
  if (kind === 'enum') return enumType!.nameOf.get(Number(value)) ?? Number(value);
  return kind.endsWith('64') ? String(value) : Number(value);
}

function packedOf(bytes: Uint8Array, start: number, end: number, field: SchemaField): JsonValue {
  const { kind } = field;
  const reader = new WireReader();
  reader.open(bytes);
  reader.at = start;
  const items: JsonValue[] = [];
  while (reader.at < end) {
    if (kind === 'double' || kind === 'fixed64' || kind === 'sfixed64') reader.fixed64(end);
    else if (kind === 'float' || kind === 'fixed32' || kind === 'sfixed32') reader.fixed32(end);
    else reader.varint(end);
    const { low, high } = reader;
    numberView.setUint32(0, low, true);
    numberView.setUint32(4, high, true);
    if (kind === 'double') items.push(floatJson(numberView.getFloat64(0, true)));
    else if (kind === 'float') items.push(floatJson(numberView.getFloat32(0, true)));
    else items.push(integerOf(elementOf(kind, numberView.getBigUint64(0, true)), field));
  }
  return items;
}

/** @param bits as they were sent */
function elementOf(kind: SchemaField['kind'], bits: bigint): bigint {
  switch (kind) {
    case 'sint32':
    case 'sint64':
      return BigInt.asIntN(64, (bits >> 1n) ^ -(bits & 1n));
    case 'sfixed32':
    case 'int32':
    case 'enum':
      return BigInt.asIntN(32, bits);
    case 'int64':
    case 'sfixed64':
      return BigInt.asIntN(64, bits);
    default:
      return bits;
  }
}
