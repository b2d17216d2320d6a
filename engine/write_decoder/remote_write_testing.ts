/** Bodies of Prometheus remote write as a client makes them, for tests, fuzzes and benchmarks. */
import type { Tag } from '#lib/tags.ts';
import { encodeSnappy } from './snappy.ts';

/** Wire type of a field that begins with its length. */
const lengthDelimited = 2;
// Fields of version 2.
const symbolsField = 4;
const seriesFieldV2 = 5;
const labelReferencesField = 1;

export interface SeriesToWrite {
  /** In the order of the wire; Prometheus sorts them. */
  readonly tags: readonly Tag[];
  readonly samples: readonly {
    /** Unix milliseconds, whole. */
    readonly timestampMillis: number;
    /** A bigint gives the bits, for NaN payloads, which a number does not keep. */
    readonly value: number | bigint;
  }[];
}

/** Body of a remote write 1.0 request: a WriteRequest in a snappy block. */
export function encodeRemoteWrite(series: readonly SeriesToWrite[]): Uint8Array<ArrayBuffer> {
  return encodeSnappy(encodeWriteRequest(series));
}

/** A WriteRequest, not compressed. */
export function encodeWriteRequest(series: readonly SeriesToWrite[]): Uint8Array<ArrayBuffer> {
  const request: number[] = [];
  for (const { tags, samples } of series) {
    const message: number[] = [];
    for (const { name, value } of tags) {
      const label: number[] = [];
      putBytes(label, 1, new TextEncoder().encode(name));
      putBytes(label, 2, new TextEncoder().encode(value));
      putBytes(message, 1, label);
    }
    putSamples(message, samples);
    putBytes(request, 1, message);
  }
  return new Uint8Array(request);
}

/** Samples of a TimeSeries, which both versions have as field 2. */
function putSamples(message: number[], samples: SeriesToWrite['samples']): void {
  for (const { timestampMillis, value } of samples) {
    const bits =
      typeof value === 'bigint' ? new BigUint64Array([value]) : new Float64Array([value]);
    const sample: number[] = [9, ...new Uint8Array(bits.buffer), 16];
    putVarint(sample, BigInt.asUintN(64, BigInt(timestampMillis)));
    putBytes(message, 2, sample);
  }
}

function putVarint(target: number[], value: bigint): void {
  for (; value > 127n; value >>= 7n) target.push(Number(value & 127n) | 128);
  target.push(Number(value));
}

function putBytes(target: number[], field: number, bytes: ArrayLike<number>): void {
  target.push(field * 8 + lengthDelimited);
  putVarint(target, BigInt(bytes.length));
  for (let i = 0; i < bytes.length; i++) target.push(bytes[i]!);
}

/** Body of a remote write 2.0 request: a Request in a snappy block. */
export function encodeRemoteWriteV2(series: readonly SeriesToWrite[]): Uint8Array<ArrayBuffer> {
  const symbols = new Map<string, number>([['', 0]]);
  const referenceOf = (text: string): number => {
    const known = symbols.get(text);
    if (known !== undefined) return known;
    symbols.set(text, symbols.size);
    return symbols.size - 1;
  };
  const messages = series.map(({ tags, samples }) => {
    const references: number[] = [];
    for (const { name, value } of tags) {
      for (const text of [name, value]) putVarint(references, BigInt(referenceOf(text)));
    }
    const message: number[] = [];
    putBytes(message, labelReferencesField, references);
    putSamples(message, samples);
    return message;
  });
  const request: number[] = [];
  for (const text of symbols.keys()) {
    putBytes(request, symbolsField, new TextEncoder().encode(text));
  }
  for (const message of messages) putBytes(request, seriesFieldV2, message);
  return encodeSnappy(new Uint8Array(request));
}
