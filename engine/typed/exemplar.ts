/**
 * Exemplars as typed values of kind 4 (docs/EXEMPLARS.md): an exact value that was observed, and labels that say where, such
 * as those of a trace. Field 1 is the value, field 2 has the names of the labels and field 3 their values, each text after its
 * length (u16). Labels are sorted by name, then by value; names may come twice, and both may be empty. Names are apart since
 * those of a series are always the same, and a chunk keeps them once.
 */
import { badRequest } from '#lib/errors.ts';
import { murmur3 } from '#lib/hashing/hash.ts';
import type { Tag } from '#lib/tags.ts';
import { nanosPerMilli } from '#lib/time.ts';
import { TypedValueReader, TypedValueWriter, valueKind } from './typed_value.ts';

/** Characters of the names and values of all labels, as OpenMetrics has it. */
export const exemplarRunesMax = 128;
/** Labels of one: as many as have a character in name and value. */
export const exemplarLabelsMax = 64;

const field = { value: 1, names: 2, values: 3 } as const;

export interface Exemplar {
  readonly value: number;
  readonly labels: readonly Tag[];
}

const writer = new TypedValueWriter();

/**
 * @param valueBits of the float64
 * @param labels sorted
 */
export function valueOfExemplar(
  valueBits: bigint,
  labels: readonly { readonly name: Uint8Array; readonly value: Uint8Array }[],
): Uint8Array<ArrayBuffer> {
  writer.begin(valueKind.exemplar, 0);
  if (valueBits !== 0n) writer.doubleBits(field.value, valueBits);
  if (labels.length > 0) {
    writer.bytes(field.names, joined(labels.map(({ name }) => name)));
    writer.bytes(field.values, joined(labels.map(({ value }) => value)));
  }
  return writer.finish();
}

/** @param texts of at most 65,535 bytes each */
function joined(texts: readonly Uint8Array[]): Uint8Array {
  const parts = texts.flatMap((text) => [Uint8Array.of(text.length & 255, text.length >> 8), text]);
  return Buffer.concat(parts);
}

const reader = new TypedValueReader();

/** @throws {TsdbError} BAD_REQUEST when the value is no exemplar */
export function exemplarOfValue(bytes: Uint8Array): Exemplar {
  let value = 0;
  let names: string[] = [];
  let values: string[] = [];
  reader.open(bytes);
  if (reader.kind !== valueKind.exemplar) throw badRequest('cannot read value: it is no exemplar');
  while (reader.next()) {
    if (reader.number === field.value) value = reader.double;
    else if (reader.number === field.names) names = textsOf(bytes, reader.start, reader.end);
    else if (reader.number === field.values) values = textsOf(bytes, reader.start, reader.end);
  }
  if (names.length !== values.length) {
    throw badRequest('cannot read exemplar: its labels are no pairs of names and values');
  }
  return { value, labels: names.map((name, i) => ({ name, value: values[i]! })) };
}

function textsOf(bytes: Uint8Array, start: number, end: number): string[] {
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const texts: string[] = [];
  for (let at = start; at < end; ) {
    const length = end - at < 2 ? end : all.readUInt16LE(at);
    at += 2 + length;
    if (at > end) throw badRequest('cannot read exemplar: a text of its labels is cut off');
    texts.push(all.toString('utf8', at - length, at));
  }
  return texts;
}

/**
 * Time of an exemplar's row: the milliseconds that were sent, and below them a hash of its value, so that a series has a
 * row for each exemplar of a millisecond, and one for those that are equal.
 */
export function exemplarNanos(timestampMillis: bigint, value: Uint8Array): bigint {
  return timestampMillis * nanosPerMilli + BigInt(murmur3(value) % Number(nanosPerMilli));
}
