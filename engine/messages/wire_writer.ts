/** Typed values that are messages, in protobuf's wire form again: fields ascending, lists packed. */
import { badRequest } from '#lib/errors.ts';
import { fieldType, TypedValueReader, valueKind } from '../typed/typed_value.ts';
import { BytesWriter } from './bytes_writer.ts';
import { formOf } from './field_forms.ts';
import type { MessageType, SchemaField } from './schema.ts';
import { WireReader, wireType } from './wire_reader.ts';

/** Of the message that is being written: nothing waits in between. */
const out = new BytesWriter();

/**
 * @param value a typed value of kind message
 * @param type its schema, or a later one: fields that this does not have are left out
 * @throws {TsdbError} BAD_REQUEST when it is malformed
 */
export function messageToWire(value: Uint8Array, type: MessageType): Uint8Array<ArrayBuffer> {
  const reader = new TypedValueReader().open(value);
  if (reader.kind !== valueKind.message) throw badRequest('cannot send value: it is no message');
  out.length = 0;
  writeFields(reader, value, type);
  return out.finish();
}

function writeFields(reader: TypedValueReader, bytes: Uint8Array, type: MessageType): void {
  while (reader.next()) {
    const field = type.field(reader.number);
    if (field === undefined) continue;
    const { number, kind, rule } = field;
    if (rule === 'repeated' || rule === 'map') {
      writeList(field, bytes, reader.start, reader.end);
      continue;
    }
    out.varint(number * 8 + formOf[kind].wire);
    writeSingle(reader, bytes, field);
  }
}

function writeSingle(
  reader: TypedValueReader,
  bytes: Uint8Array,
  { kind, message }: SchemaField,
): void {
  switch (reader.type) {
    case fieldType.double:
      return out.fixed64(reader.low, reader.high);
    case fieldType.float:
      return out.fixed32(reader.low);
    case fieldType.bytes:
      out.varint(reader.end - reader.start);
      return out.copy(bytes, reader.start, reader.end);
    case fieldType.message: {
      const from = out.beginLength();
      writeFields(reader.within(), bytes, message!);
      return out.endLength(from);
    }
    default: {
      const { low, high } = reader;
      if (kind === 'fixed32' || kind === 'sfixed32') out.fixed32(low);
      else if (kind === 'fixed64' || kind === 'sfixed64') out.fixed64(low, high);
      else if (kind === 'sint32' || kind === 'sint64') {
        const sign = (high | 0) >> 31;
        out.varint64((low << 1) ^ sign, (high << 1) ^ (low >>> 31) ^ sign);
      } else out.varint64(low, high);
    }
  }
}

function writeList(
  { number, kind, message }: SchemaField,
  bytes: Uint8Array,
  start: number,
  end: number,
): void {
  if (formOf[kind].wire !== wireType.delimited) {
    out.varint(number * 8 + wireType.delimited);
    out.varint(end - start);
    return out.copy(bytes, start, end);
  }
  for (const [from, past] of itemsOf(bytes, start, end)) {
    out.varint(number * 8 + wireType.delimited);
    if (kind !== 'message') {
      out.varint(past - from);
      out.copy(bytes, from, past);
      continue;
    }
    const at = out.beginLength();
    writeFields(new TypedValueReader().openFields(bytes, from, past), bytes, message!);
    out.endLength(at);
  }
}

/** Where the items of a list are that have a length each. */
export function* itemsOf(
  bytes: Uint8Array,
  start: number,
  end: number,
): Generator<[from: number, past: number]> {
  const reader = new WireReader();
  reader.open(bytes);
  reader.at = start;
  while (reader.at < end) {
    const past = reader.delimited(end);
    const from = reader.at;
    reader.at = past;
    yield [from, past];
  }
}
