/** Typed values in JSON: messages by protobuf's rules, some of their fields where that is asked for; histograms by theirs. */
import { badRequest } from '#lib/errors.ts';
import { type Histogram, histogramOfValue } from '../typed/histogram.ts';
import { valueKind, valueLayout } from '../typed/typed_value.ts';
import { floatJson, type JsonValue, messageToJson } from './json.ts';
import { MessageType, type SchemaField } from './schema.ts';

/** Schemas of a namespace, as far as showing its values goes. */
export interface ShownSchemas {
  /** Whether rows of this layout are read. */
  has(layout: number): boolean;
  /** What they are shown by. */
  readonly shown: MessageType;
}

/** @returns null for what is not shown: windows, and messages whose schema is not there */
export function typedValueJson(value: Uint8Array, schemas: ShownSchemas | null): JsonValue | null {
  const [kind] = value;
  if (kind === valueKind.histogram) return histogramJson(histogramOfValue(value));
  if (kind !== valueKind.message || schemas === null) return null;
  if (!schemas.has(valueLayout(value, 0, value.length))) return null;
  return messageToJson(value, schemas.shown);
}

const hintNames = ['', 'reset', '', 'gauge'] as const;
const words = new DataView(new ArrayBuffer(8));

/** Buckets as pairs of index and count, absolute. */
function histogramJson(histogram: Histogram): JsonValue {
  const { schema, hint, zeroThreshold, zeroCount, count, sumBits, customBounds } = histogram;
  words.setBigUint64(0, sumBits);
  const side = ({ indexes, counts }: Histogram['positive']): JsonValue =>
    Array.from(indexes, (index, i) => [index, floatJson(counts[i]!)]);
  return {
    schema,
    count: floatJson(count),
    sum: floatJson(words.getFloat64(0)),
    zeroThreshold: floatJson(zeroThreshold),
    zeroCount: floatJson(zeroCount),
    positive: side(histogram.positive),
    negative: side(histogram.negative),
    ...(customBounds.length === 0 ? {} : { customBounds: Array.from(customBounds, floatJson) }),
    ...(hintNames[hint] ? { counterReset: hintNames[hint] } : {}),
  };
}

/**
 * The message with these fields alone.
 * @param paths names with dots between them; a message that is named comes whole
 * @throws {TsdbError} BAD_REQUEST naming a field that there is not
 */
export function withFields(type: MessageType, paths: readonly string[]): MessageType {
  const parts = new Map<number, { field: SchemaField; inner: string[]; isWhole: boolean }>();
  for (const path of paths) {
    const [name, ...rest] = path.split('.');
    const field = type.named(name!);
    if (field === undefined) throw noField(type, path);
    const part = parts.get(field.number) ?? { field, inner: [], isWhole: false };
    parts.set(field.number, part);
    if (rest.length === 0) part.isWhole = true;
    else if (field.kind !== 'message' || field.rule === 'map') throw noField(type, path);
    else part.inner.push(rest.join('.'));
  }
  const fields = [...parts.values()].map(({ field, inner, isWhole }): SchemaField => {
    return isWhole ? field : { ...field, message: withFields(field.message!, inner) };
  });
  return new MessageType(type.name).setFields(fields);
}

function noField(type: MessageType, path: string): Error {
  return badRequest(`fields: ${type.name} has no field ${JSON.stringify(path)}`);
}
