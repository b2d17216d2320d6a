/**
 * OTLP as JSON, in the wire form of the same message: fields in lowerCamelCase, 64-bit integers as texts or numbers, enums as
 * numbers, IDs as hexadecimal digits. Fields that nobody knows are passed over.
 */
import { badRequest, shownText } from '#lib/errors.ts';
import { BytesWriter } from '../../messages/bytes_writer.ts';
import { type FieldShape, type IntegerKind, type MessageShape, request } from './shapes.ts';
import { wireType } from './wire.ts';

/** @throws {TsdbError} BAD_REQUEST that names the path of the field, the reason and the value */
export function wireFromOtlpJson(value: unknown): Uint8Array {
  const out = new BytesWriter();
  writeMessage(out, value, request, []);
  return out.finish();
}

/** Names of fields and places in lists. */
type Path = (string | number)[];

function refused(path: Path, reason: string, value: unknown): Error {
  const where = path
    .map((part) => (typeof part === 'number' ? `[${part}]` : `.${part}`))
    .join('')
    .slice(1);
  const shown = shownText(JSON.stringify(value) ?? 'undefined');
  return badRequest(`cannot read OTLP body: ${where || 'body'}: ${reason}: ${shown}`);
}

function writeMessage(out: BytesWriter, value: unknown, shape: MessageShape, path: Path): void {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw refused(path, 'not an object', value);
  }
  for (const [name, member] of Object.entries(value)) {
    const field = shape.byName.get(name);
    if (field === undefined || member === null) continue;
    path.push(name);
    if (field.isList) writeList(out, member, field, path);
    else writeField(out, member, field, path);
    path.pop();
  }
}

function writeList(out: BytesWriter, value: unknown, field: FieldShape, path: Path): void {
  if (!Array.isArray(value)) throw refused(path, 'not a list', value);
  const isPacked = field.kind !== 'message';
  if (isPacked && value.length === 0) return;
  let from = 0;
  if (isPacked) {
    out.varint(field.number * 8 + wireType.bytes);
    from = out.beginLength();
  }
  for (const [index, item] of value.entries()) {
    path.push(index);
    if (isPacked) writeValue(out, item, field, path);
    else writeField(out, item, field, path);
    path.pop();
  }
  if (isPacked) out.endLength(from);
}

function writeField(out: BytesWriter, value: unknown, field: FieldShape, path: Path): void {
  out.varint(field.number * 8 + field.wireType);
  writeValue(out, value, field, path);
}

function writeValue(out: BytesWriter, value: unknown, field: FieldShape, path: Path): void {
  switch (field.kind) {
    case 'message': {
      const from = out.beginLength();
      writeMessage(out, value, field.shape!, path);
      out.endLength(from);
      return;
    }
    case 'string':
      return writeText(out, textOf(value, path));
    case 'id': {
      const text = textOf(value, path);
      if (!/^(?:[0-9a-f]{2})*$/i.test(text)) throw refused(path, 'not hexadecimal digits', value);
      return writeBytes(out, Buffer.from(text));
    }
    case 'bytes': {
      const text = textOf(value, path);
      if (!isBase64(text)) throw refused(path, 'not base64', value);
      return writeBytes(out, Buffer.from(text, 'base64'));
    }
    case 'bool':
      if (typeof value !== 'boolean') throw refused(path, 'neither true nor false', value);
      return out.varint(value ? 1 : 0);
    case 'double':
      return writeDouble(out, doubleOf(value, path));
    case 'enum':
      if (typeof value !== 'number') throw refused(path, 'not the number of an enum', value);
      return writeInteger(out, integerOf(value, field.kind, path), false);
    case 'sint32': {
      const integer = integerOf(value, field.kind, path);
      return writeInteger(out, integer < 0n ? -2n * integer - 1n : 2n * integer, false);
    }
    default: {
      const isFixed = field.wireType === wireType.fixed64 || field.isWords;
      return writeInteger(out, integerOf(value, field.kind, path), isFixed);
    }
  }
}

/** In either alphabet, filled up or not. */
const isBase64 = (text: string): boolean =>
  /^[\w+/-]*={0,2}$/.test(text) && text.replace(/=+$/, '').length % 4 !== 1;

function writeBytes(out: BytesWriter, bytes: Uint8Array): void {
  out.varint(bytes.length);
  out.copy(bytes, 0, bytes.length);
}

/** Most texts are short, and ASCII: no buffer is made for them. */
function writeText(out: BytesWriter, text: string): void {
  if (text.length > shortCharacters) return writeBytes(out, Buffer.from(text));
  const start = out.length;
  out.varint(text.length);
  out.reserve(text.length);
  const { bytes } = out;
  let at = out.length;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code > 127) {
      out.length = start;
      return writeBytes(out, Buffer.from(text));
    }
    bytes[at++] = code;
  }
  out.length = at;
}

const shortCharacters = 64;

const double = new Float64Array(1);
const doubleWords = new Uint32Array(double.buffer);

function writeDouble(out: BytesWriter, value: number): void {
  double[0] = value;
  out.fixed64(doubleWords[0]!, doubleWords[1]!);
}

function writeInteger(out: BytesWriter, value: bigint, isFixed: boolean): void {
  const low = Number(BigInt.asUintN(32, value));
  const high = Number(BigInt.asUintN(32, value >> 32n));
  if (isFixed) out.fixed64(low, high);
  else out.varint64(low, high);
}

function textOf(value: unknown, path: Path): string {
  if (typeof value !== 'string') throw refused(path, 'not a string', value);
  if (!value.isWellFormed()) throw refused(path, 'not Unicode', value);
  return value;
}

function doubleOf(value: unknown, path: Path): number {
  if (value === 'NaN') return Number.NaN;
  if (value === 'Infinity') return Infinity;
  if (value === '-Infinity') return -Infinity;
  const isNumber =
    typeof value === 'number' ||
    (typeof value === 'string' && /^[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?$/i.test(value));
  if (!isNumber) throw refused(path, 'not a number', value);
  const double = Number(value);
  if (!Number.isFinite(double)) throw refused(path, 'beyond float64', value);
  return double;
}

/** Least and greatest. */
const rangeOf: Readonly<Record<IntegerKind, readonly [bigint, bigint]>> = {
  enum: [-(2n ** 31n), 2n ** 31n - 1n],
  sint32: [-(2n ** 31n), 2n ** 31n - 1n],
  uint32: [0n, 2n ** 32n - 1n],
  int64: [-(2n ** 63n), 2n ** 63n - 1n],
  sfixed64: [-(2n ** 63n), 2n ** 63n - 1n],
  uint64: [0n, 2n ** 64n - 1n],
  fixed64: [0n, 2n ** 64n - 1n],
};

function integerOf(value: unknown, kind: IntegerKind, path: Path): bigint {
  const isWhole =
    typeof value === 'number'
      ? Number.isInteger(value)
      : typeof value === 'string' && /^-?\d{1,20}$/.test(value);
  if (!isWhole) throw refused(path, 'not a whole number', value);
  const integer = BigInt(value as number | string);
  const [least, most] = rangeOf[kind];
  if (integer < least || integer > most) {
    throw refused(path, `not in ${least} to ${most}`, value);
  }
  return integer;
}
