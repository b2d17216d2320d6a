/** A typed value as text: its kind, its layout, and its fields by their numbers. */
import { fieldType, TypedValueReader, valueKind } from '#engine/typed/typed_value.ts';

const kindNames = new Map<number, string>(
  Object.entries(valueKind).map(([name, code]) => [code, name]),
);
/** Bytes of a string of bytes that are shown. */
const bytesShownMax = 64;

/**
 * As in `message of layout 1: 1=7 2="up" 3={1=0.5}`.
 * @throws {TsdbError} BAD_REQUEST when it is not canonical
 */
export function typedText(value: Uint8Array): string {
  const reader = new TypedValueReader().open(value);
  const kind = kindNames.get(reader.kind) ?? `kind ${reader.kind}`;
  return `${kind} of layout ${reader.layout}: ${fieldsText(reader, value)}`;
}

function fieldsText(reader: TypedValueReader, value: Uint8Array): string {
  const fields: string[] = [];
  while (reader.next()) fields.push(`${reader.number}=${fieldText(reader, value)}`);
  return fields.join(' ');
}

function fieldText(field: TypedValueReader, value: Uint8Array): string {
  switch (field.type) {
    case fieldType.int:
    case fieldType.uint:
      return String(field.integer);
    case fieldType.double:
      return String(field.double);
    case fieldType.float:
      return String(floatOf(field.bits));
    case fieldType.bytes:
      return bytesText(value.subarray(field.start, field.end));
    case fieldType.message: {
      const { start, end } = field;
      return `{${fieldsText(new TypedValueReader().openFields(value, start, end), value)}}`;
    }
    default:
      return field.type satisfies never;
  }
}

function floatOf(bits: bigint): number {
  return new Float32Array(Uint32Array.of(Number(bits)).buffer)[0]!;
}

/** In quotes when it is text, else in hexadecimal digits. */
function bytesText(bytes: Uint8Array): string {
  const shown = Buffer.from(bytes.subarray(0, bytesShownMax));
  const more = bytes.length > bytesShownMax ? `… ${bytes.length} bytes` : '';
  const text = shown.toString('utf8');
  if (!Buffer.from(text).equals(shown)) return `0x${shown.toString('hex')}${more}`;
  return JSON.stringify(text) + more;
}
