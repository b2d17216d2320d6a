/** Bodies of Prometheus remote write as a client makes them, for tests, fuzzes and benchmarks. */
import type { Tag } from '#lib/tags.ts';
import type { Buckets, Histogram } from '../typed/histogram.ts';
import { bitsOfDouble } from '../typed/typed_value.ts';
import { encodeSnappy } from './snappy.ts';

/** Wire type of a field that begins with its length. */
const lengthDelimited = 2;
// Fields of version 2.
const symbolsField = 4;
const seriesFieldV2 = 5;
const labelReferencesField = 1;
const histogramField = 4;
const histogramFieldV2 = 3;
const metadataField = 3;
const exemplarField = 3;
const exemplarFieldV2 = 4;
const metadataFieldV2 = 5;

export interface SeriesToWrite {
  /** In the order of the wire; Prometheus sorts them. */
  readonly tags: readonly Tag[];
  readonly samples: readonly {
    /** Unix milliseconds, whole. */
    readonly timestampMillis: number;
    /** A bigint gives the bits, for NaN payloads, which a number does not keep. */
    readonly value: number | bigint;
    /** Unix milliseconds; of version 2. */
    readonly startMillis?: number;
  }[];
  readonly histograms?: readonly HistogramToWrite[];
  readonly exemplars?: readonly ExemplarToWrite[];
  /** Of version 2. */
  readonly metadata?: Omit<FamilyToWrite, 'name'>;
}

export interface ExemplarToWrite {
  readonly labels: readonly Tag[];
  readonly value: number;
  /** Unix milliseconds, whole. */
  readonly timestampMillis: number;
}

/** Metadata of a metric family. */
export interface FamilyToWrite {
  readonly name: string;
  /** By its number: 1 is a counter. */
  readonly type: number;
  readonly help: string;
  readonly unit: string;
}

export interface HistogramToWrite {
  /** Unix milliseconds, whole. */
  readonly timestampMillis: number;
  /** Of version 2. */
  readonly startMillis?: number;
  readonly histogram: Histogram;
}

/** Body of a remote write 1.0 request: a WriteRequest in a snappy block. */
export function encodeRemoteWrite(
  series: readonly SeriesToWrite[],
  families: readonly FamilyToWrite[] = [],
): Uint8Array<ArrayBuffer> {
  return encodeSnappy(encodeWriteRequest(series, families));
}

/** A WriteRequest, not compressed. */
export function encodeWriteRequest(
  series: readonly SeriesToWrite[],
  families: readonly FamilyToWrite[] = [],
): Uint8Array<ArrayBuffer> {
  const request: number[] = [];
  for (const { tags, samples, histograms = [], exemplars = [] } of series) {
    const message: number[] = [];
    putLabels(message, tags);
    putSamples(message, samples);
    for (const { labels, value, timestampMillis } of exemplars) {
      const exemplar: number[] = [];
      putLabels(exemplar, labels);
      putExemplarValue(exemplar, value, timestampMillis);
      putBytes(message, exemplarField, exemplar);
    }
    for (const each of histograms) putBytes(message, histogramField, histogramMessage(each));
    putBytes(request, 1, message);
  }
  for (const { name, type, help, unit } of families) {
    const family: number[] = [8, type];
    putBytes(family, 2, new TextEncoder().encode(name));
    putBytes(family, 4, new TextEncoder().encode(help));
    putBytes(family, 5, new TextEncoder().encode(unit));
    putBytes(request, metadataField, family);
  }
  return new Uint8Array(request);
}

function putLabels(message: number[], labels: readonly Tag[]): void {
  for (const { name, value } of labels) {
    const label: number[] = [];
    putBytes(label, 1, new TextEncoder().encode(name));
    putBytes(label, 2, new TextEncoder().encode(value));
    putBytes(message, 1, label);
  }
}

function putExemplarValue(message: number[], value: number, timestampMillis: number): void {
  message.push(17, ...new Uint8Array(Float64Array.of(value).buffer), 24);
  putVarint(message, BigInt.asUintN(64, BigInt(timestampMillis)));
}

/** Samples of a TimeSeries, which both versions have as field 2. */
function putSamples(message: number[], samples: SeriesToWrite['samples']): void {
  for (const { timestampMillis, value, startMillis } of samples) {
    const bits =
      typeof value === 'bigint' ? new BigUint64Array([value]) : new Float64Array([value]);
    const sample: number[] = [9, ...new Uint8Array(bits.buffer), 16];
    putVarint(sample, BigInt.asUintN(64, BigInt(timestampMillis)));
    if (startMillis !== undefined) {
      sample.push(24);
      putVarint(sample, BigInt.asUintN(64, BigInt(startMillis)));
    }
    putBytes(message, 2, sample);
  }
}

/** As Prometheus sends it: a span for buckets that are next to each other, lists packed. */
function histogramMessage({ timestampMillis, startMillis, histogram }: HistogramToWrite): number[] {
  const { isFloat, schema, hint, zeroThreshold, count, zeroCount, sumBits, customBounds } =
    histogram;
  const message: number[] = [];
  const putDouble = (field: number, bits: bigint): void => {
    message.push(field * 8 + 1, ...new Uint8Array(BigUint64Array.of(bits).buffer));
  };
  const putInteger = (field: number, value: bigint): void => {
    putVarint(message, BigInt(field * 8));
    putVarint(message, BigInt.asUintN(64, value));
  };
  const putCount = (field: number, value: number): void => {
    if (isFloat) putDouble(field + 1, bitsOfDouble(value));
    else putInteger(field, BigInt(value));
  };
  putCount(1, count);
  putDouble(3, sumBits);
  putInteger(4, zigzag(schema));
  putDouble(5, bitsOfDouble(zeroThreshold));
  putCount(6, zeroCount);
  for (const [field, side] of [
    [8, histogram.negative],
    [11, histogram.positive],
  ] as const) {
    for (const { offset, length } of spansOf(side)) {
      const span: number[] = [8];
      putVarint(span, zigzag(offset));
      span.push(16);
      putVarint(span, BigInt(length));
      putBytes(message, field, span);
    }
    const list: number[] = [];
    for (const [i, each] of side.counts.entries()) {
      if (isFloat) list.push(...new Uint8Array(Float64Array.of(each).buffer));
      else putVarint(list, zigzag(each - (side.counts[i - 1] ?? 0)));
    }
    if (list.length > 0) putBytes(message, field + (isFloat ? 2 : 1), list);
  }
  putInteger(14, BigInt(hint));
  putInteger(15, BigInt(timestampMillis));
  if (customBounds.length > 0) {
    putVarint(message, BigInt(16 * 8 + lengthDelimited));
    putVarint(message, BigInt(8 * customBounds.length));
    message.push(...new Uint8Array(customBounds.slice().buffer));
  }
  if (startMillis !== undefined) putInteger(17, BigInt(startMillis));
  return message;
}

function spansOf({ indexes }: Buckets): { offset: number; length: number }[] {
  const spans: { offset: number; length: number }[] = [];
  for (const [i, index] of indexes.entries()) {
    const last = spans.at(-1);
    const before = indexes[i - 1];
    if (last === undefined || before === undefined) spans.push({ offset: index, length: 1 });
    else if (index === before + 1) last.length += 1;
    else spans.push({ offset: index - before - 1, length: 1 });
  }
  return spans;
}

const zigzag = (value: number): bigint =>
  BigInt.asUintN(64, (BigInt(value) << 1n) ^ (BigInt(value) >> 63n));

function putVarint(target: number[], value: bigint): void {
  for (; value > 127n; value >>= 7n) target.push(Number(value & 127n) | 128);
  target.push(Number(value));
}

function putBytes(target: number[], field: number, bytes: ArrayLike<number>): void {
  putVarint(target, BigInt(field * 8 + lengthDelimited));
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
  const referencesOf = (tags: readonly Tag[]): number[] => {
    const references: number[] = [];
    for (const { name, value } of tags) {
      for (const text of [name, value]) putVarint(references, BigInt(referenceOf(text)));
    }
    return references;
  };
  const messages = series.map(({ tags, samples, histograms = [], exemplars = [], metadata }) => {
    const message: number[] = [];
    putBytes(message, labelReferencesField, referencesOf(tags));
    putSamples(message, samples);
    for (const each of histograms) putBytes(message, histogramFieldV2, histogramMessage(each));
    for (const { labels, value, timestampMillis } of exemplars) {
      const exemplar: number[] = [];
      putBytes(exemplar, labelReferencesField, referencesOf(labels));
      putExemplarValue(exemplar, value, timestampMillis);
      putBytes(message, exemplarFieldV2, exemplar);
    }
    if (metadata !== undefined) {
      const said: number[] = [8, metadata.type, 24];
      putVarint(said, BigInt(referenceOf(metadata.help)));
      said.push(32);
      putVarint(said, BigInt(referenceOf(metadata.unit)));
      putBytes(message, metadataFieldV2, said);
    }
    return message;
  });
  const request: number[] = [];
  for (const text of symbols.keys()) {
    putBytes(request, symbolsField, new TextEncoder().encode(text));
  }
  for (const message of messages) putBytes(request, seriesFieldV2, message);
  return encodeSnappy(new Uint8Array(request));
}
