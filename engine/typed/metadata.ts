/**
 * Metadata of a metric family as typed values of kind 5 (docs/EXEMPLARS.md): field 1 its type by the numbers of remote write,
 * field 2 the help text, field 3 the unit.
 */
import { badRequest } from '#lib/errors.ts';
import { murmur3 } from '#lib/hashing/hash.ts';
import { nanosPerMilli } from '#lib/time.ts';
import { TypedValueReader, TypedValueWriter, valueKind } from './typed_value.ts';

/** By the numbers of remote write 1 and 2. */
export const metricTypes = [
  'unknown',
  'counter',
  'gauge',
  'histogram',
  'gaugehistogram',
  'summary',
  'info',
  'stateset',
] as const;
export type MetricType = (typeof metricTypes)[number];

export interface FamilyMetadata {
  readonly type: MetricType;
  readonly help: string;
  readonly unit: string;
}

const field = { type: 1, help: 2, unit: 3 } as const;

const writer = new TypedValueWriter();

export function valueOfMetadata({ type, help, unit }: FamilyMetadata): Uint8Array<ArrayBuffer> {
  writer.begin(valueKind.metadata, 0);
  if (type !== 'unknown') writer.uint(field.type, BigInt(metricTypes.indexOf(type)));
  if (help !== '') writer.bytes(field.help, Buffer.from(help));
  if (unit !== '') writer.bytes(field.unit, Buffer.from(unit));
  return writer.finish();
}

const reader = new TypedValueReader();

/** @throws {TsdbError} BAD_REQUEST when the value is no metadata */
export function metadataOfValue(bytes: Uint8Array): FamilyMetadata {
  let type: MetricType = 'unknown';
  let help = '';
  let unit = '';
  reader.open(bytes);
  if (reader.kind !== valueKind.metadata) throw badRequest('cannot read value: it is no metadata');
  while (reader.next()) {
    const text = (): string => Buffer.from(bytes.subarray(reader.start, reader.end)).toString();
    if (reader.number === field.type) type = metricTypes[Number(reader.integer)] ?? 'unknown';
    else if (reader.number === field.help) help = text();
    else if (reader.number === field.unit) unit = text();
  }
  return { type, help, unit };
}

/**
 * Time of a row of metadata: the start of the interval in which it was sent, and below its millisecond a hash of the value,
 * so that whoever writes the same in one interval writes the same row.
 */
export function metadataNanos(intervalStartNanos: bigint, value: Uint8Array): bigint {
  return intervalStartNanos + BigInt(murmur3(value) % Number(nanosPerMilli));
}
