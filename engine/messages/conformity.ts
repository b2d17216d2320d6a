/** Whether a typed value, canonical already, is a message of a schema: fields, their types, and what lies in lists. */
import { isUtf8 } from 'node:buffer';
import { TsdbError } from '#lib/errors.ts';
import { typedDepthMax } from '../codec/layout.ts';
import { fieldType, TypedValueReader } from '../typed/typed_value.ts';
import { formOf } from './field_forms.ts';
import type { MessageType, SchemaField } from './schema.ts';
import { WireReader, wireType } from './wire_reader.ts';

/** Readers of the messages around and within: nothing waits in between. */
const readers: TypedValueReader[] = [];
const items = new WireReader();

/** @param value [at, past) of the bytes, of kind message and canonical */
export function isMessageOf(
  type: MessageType,
  bytes: Uint8Array,
  at: number,
  past: number,
): boolean {
  try {
    return areFieldsOf(type, readerAt(0).open(bytes, at, past), bytes, 0);
  } catch (error) {
    // A list that ends too early.
    if (error instanceof TsdbError) return false;
    throw error;
  }
}

function readerAt(depth: number): TypedValueReader {
  return (readers[depth] ??= new TypedValueReader());
}

function areFieldsOf(
  type: MessageType,
  reader: TypedValueReader,
  bytes: Uint8Array,
  depth: number,
): boolean {
  // Items of lists are bytes for whoever checked the value before.
  if (depth > typedDepthMax) return false;
  while (reader.next()) {
    const field = type.field(reader.number);
    if (field === undefined) return false;
    const { start, end } = reader;
    if (field.rule === 'repeated' || field.rule === 'map') {
      if (reader.type !== fieldType.bytes || start === end) return false;
      if (!isListOf(field, bytes, start, end, depth)) return false;
    } else if (reader.type !== formOf[field.kind].type) return false;
    else if (field.kind === 'message') {
      if (!isMessageIn(field.message!, bytes, start, end, depth)) return false;
    } else if (reader.type === fieldType.bytes) {
      if (start === end && field.rule === 'single') return false;
      if (field.kind === 'string' && !isText(bytes, start, end)) return false;
    } else if (!isNumberOf(field, reader)) return false;
  }
  return true;
}

/** A single number is absent when it is zero, and none is wider than its kind. */
function isNumberOf({ kind, rule }: SchemaField, { low, high }: TypedValueReader): boolean {
  if (low === 0 && high === 0) return rule === 'optional';
  switch (kind) {
    case 'bool':
      return low === 1 && high === 0;
    case 'uint32':
    case 'fixed32':
      return high === 0;
    case 'int32':
    case 'sint32':
    case 'sfixed32':
    case 'enum':
      return high === (low >>> 31 === 1 ? 0xffff_ffff : 0);
    default:
      return true;
  }
}

function isListOf(
  { kind, message }: SchemaField,
  bytes: Uint8Array,
  start: number,
  end: number,
  depth: number,
): boolean {
  const { wire } = formOf[kind];
  if (wire !== wireType.delimited) {
    items.open(bytes);
    items.at = start;
    while (items.at < end) items.skip(wire, end);
    return true;
  }
  for (let at = start; at < end; ) {
    items.open(bytes);
    items.at = at;
    const past = items.delimited(end);
    const from = items.at;
    if (kind === 'message') {
      if (!isMessageIn(message!, bytes, from, past, depth)) return false;
    } else if (kind === 'string' && !isText(bytes, from, past)) return false;
    at = past;
  }
  return true;
}

function isMessageIn(
  type: MessageType,
  bytes: Uint8Array,
  from: number,
  past: number,
  depth: number,
): boolean {
  if (from === past) return depth < typedDepthMax;
  return areFieldsOf(type, readerAt(depth + 1).openFields(bytes, from, past), bytes, depth + 1);
}

/** So many bytes are looked at one by one sooner than a view of them is made. */
const shortBytes = 32;

function isText(bytes: Uint8Array, from: number, past: number): boolean {
  if (past - from > shortBytes) return isUtf8(bytes.subarray(from, past));
  for (let at = from; at < past; at++) {
    if (bytes[at]! >= 128) return isUtf8(bytes.subarray(from, past));
  }
  return true;
}
