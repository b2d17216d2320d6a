/** Exemplars that did not come by remote write, as rows of the series that they belong to. */
import { encodeTags, type Tag } from '#lib/tags.ts';
import { exemplarNanos, valueOfExemplar } from '../typed/exemplar.ts';
import { exemplarsMax } from './core.ts';
import type { WriteDecoder, WriteDecoderExemplars } from './write_decoder.ts';

export interface ToldExemplar {
  /** Of its series, sorted by name. */
  readonly tags: readonly Tag[];
  /** Its own, in any order. */
  readonly labels: readonly Tag[];
  readonly value: number;
  readonly timestampMillis: bigint;
}

/**
 * Null for none. They hold until the decoder reads something else.
 * @throws {TsdbError} RESOURCE_EXHAUSTED when there is no room for series
 */
export function exemplarRowsOf(
  all: readonly ToldExemplar[],
  decoder: WriteDecoder,
): WriteDecoderExemplars | null {
  if (all.length === 0) return null;
  const told = all.slice(0, exemplarsMax);
  decoder.beginRows();
  try {
    const slots = Uint32Array.from(told, ({ tags }) => decoder.slotOf(encodeTags(tags)));
    const values = told.map(({ value, labels }) => valueOfExemplar(bitsOf(value), sorted(labels)));
    let end = 0;
    return {
      rowCount: told.length,
      slots,
      generations: slots.map((slot) => decoder.generation[slot]!),
      mayBeRefused: true,
      timestamps: BigInt64Array.from(told, ({ timestampMillis }, row) =>
        exemplarNanos(timestampMillis, values[row]!),
      ),
      timeUnitNanos: 1,
      valueEnds: Uint32Array.from(values, ({ length }) => (end += length)),
      valueBytes: new Uint8Array(Buffer.concat(values)),
      bad: [],
      badCount: 0,
      leftOutCount: all.length - told.length,
    };
  } finally {
    decoder.endRows();
  }
}

function bitsOf(value: number): bigint {
  return new BigUint64Array(Float64Array.of(value).buffer)[0]!;
}

function sorted(labels: readonly Tag[]): { name: Uint8Array; value: Uint8Array }[] {
  return labels
    .map(({ name, value }) => ({ name: Buffer.from(name), value: Buffer.from(value) }))
    .sort((a, b) => Buffer.compare(a.name, b.name) || Buffer.compare(a.value, b.value));
}
