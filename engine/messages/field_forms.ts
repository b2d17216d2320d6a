/** How fields of each kind are sent, and kept in typed values. */
import { fieldType, type FieldType } from '../typed/typed_value.ts';
import type { FieldKind } from './schema.ts';
import { wireType } from './wire_reader.ts';

export const formOf: Readonly<
  Record<FieldKind, { readonly wire: number; readonly type: FieldType }>
> = {
  double: { wire: wireType.fixed64, type: fieldType.double },
  float: { wire: wireType.fixed32, type: fieldType.float },
  int32: { wire: wireType.varint, type: fieldType.int },
  int64: { wire: wireType.varint, type: fieldType.int },
  uint32: { wire: wireType.varint, type: fieldType.uint },
  uint64: { wire: wireType.varint, type: fieldType.uint },
  sint32: { wire: wireType.varint, type: fieldType.int },
  sint64: { wire: wireType.varint, type: fieldType.int },
  fixed32: { wire: wireType.fixed32, type: fieldType.uint },
  fixed64: { wire: wireType.fixed64, type: fieldType.uint },
  sfixed32: { wire: wireType.fixed32, type: fieldType.int },
  sfixed64: { wire: wireType.fixed64, type: fieldType.int },
  bool: { wire: wireType.varint, type: fieldType.uint },
  enum: { wire: wireType.varint, type: fieldType.int },
  string: { wire: wireType.delimited, type: fieldType.bytes },
  bytes: { wire: wireType.delimited, type: fieldType.bytes },
  message: { wire: wireType.delimited, type: fieldType.message },
};
