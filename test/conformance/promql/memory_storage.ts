/** A storage of a handful of series in memory, behind the same seam as the real one. */
import type {
  AskedColumn,
  Matcher,
  QueryStorage,
  SelectRange,
  SelectResult,
} from '#coordinator/select/storage.ts';
import type { ReadColumn } from '#engine/aggregation/floats.ts';
import { compileAnchored } from '#lib/regexp/regexp.ts';
import { encodeRawChunk } from '#engine/codec/chunk.ts';
import { encodeFloatStartsChunk } from '#engine/codec/codec_twin.ts';
import { counterHint, type FloatHistogram } from '#engine/histograms/float_histogram.ts';
import { encodeTypedRows } from '#engine/typed/codec.ts';
import { valueOfHistogram } from '#engine/typed/histogram.ts';
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { type Tag, type Tags, decodeTags, encodeTags, tagValue } from '#lib/tags.ts';

/** Of a time. */
interface Sample {
  /** Bits of a number, or a histogram as a typed value. */
  readonly value: bigint | Uint8Array;
  /** Unix milliseconds, 0 for none. */
  readonly startMillis: number;
}

interface MemorySeries {
  readonly tags: Tags;
  readonly tagsBytes: Uint8Array;
  /** The first value of a time stays. */
  readonly samples: Map<number, Sample>;
  chunks: Uint8Array | null;
}

export class MemoryStorage implements QueryStorage {
  readonly #series: Map<string, MemorySeries>;

  constructor() {
    this.#series = new Map();
  }

  clear(): void {
    this.#series.clear();
  }

  add(
    tags: readonly Tag[],
    timeMillis: number,
    value: bigint | FloatHistogram,
    startMillis = 0,
  ): void {
    const tagsBytes = encodeTags(tags.filter((tag) => tag.value !== ''));
    const key = Buffer.from(tagsBytes).toString('latin1');
    let series = this.#series.get(key);
    if (series === undefined) {
      series = { tags: decodeTags(tagsBytes), tagsBytes, samples: new Map(), chunks: null };
      this.#series.set(key, series);
    }
    if (!series.samples.has(timeMillis)) {
      const stored = typeof value === 'bigint' ? value : valueOf(value);
      series.samples.set(timeMillis, { value: stored, startMillis });
    }
    series.chunks = null;
  }

  async select(matchers: readonly Matcher[], _range: SelectRange): Promise<SelectResult> {
    const series = [...this.#series.values()].filter(({ tags }) =>
      matchers.every((matcher) => matches(matcher, tagValue(tags, matcher.name) ?? '')),
    );
    return { bundle: bundleOf(series), exhaustive: true, warnings: [] };
  }

  labelNames(): never {
    throw new Error('not part of these tests');
  }

  labelValues(): never {
    throw new Error('not part of these tests');
  }

  series(): never {
    throw new Error('not part of these tests');
  }
}

function matches({ kind, value }: Matcher, text: string): boolean {
  switch (kind) {
    case '=':
      return text === value;
    case '!=':
      return text !== value;
    case '=~':
      return compileAnchored(value).test(text);
    case '!~':
      return !compileAnchored(value).test(text);
  }
}

function valueOf(histogram: FloatHistogram): Uint8Array {
  const { hint, positive, negative, sum } = histogram.copy().compact();
  return valueOfHistogram({
    isFloat: true,
    schema: histogram.schema,
    // What a counter did before it is found when it is read.
    hint: hint === counterHint.notReset ? counterHint.unknown : hint,
    zeroThreshold: histogram.zeroThreshold,
    count: histogram.count,
    zeroCount: histogram.zeroCount,
    sumBits: new BigUint64Array(Float64Array.of(sum).buffer)[0]!,
    customBounds: histogram.customBounds,
    positive,
    negative,
  });
}

const nanosOf = (millis: number): bigint => BigInt(millis) * 1_000_000n;

function chunksOf(series: MemorySeries): Uint8Array {
  if (series.chunks === null) {
    const ascending = [...series.samples].sort(([a], [b]) => a - b);
    const floats = ascending.filter(([, { value }]) => typeof value === 'bigint');
    const histograms = ascending.filter(([, { value }]) => typeof value !== 'bigint');
    series.chunks = Buffer.concat([
      ...(floats.length === 0 ? [] : [floatChunk(floats)]),
      ...(histograms.length === 0 ? [] : [histogramChunk(histograms)]),
    ]);
  }
  return series.chunks;
}

type TimedSample = readonly [timeMillis: number, sample: Sample];

function floatChunk(samples: readonly TimedSample[]): Uint8Array {
  const timestampNanos = BigInt64Array.from(samples, ([millis]) => nanosOf(millis));
  const bits = BigUint64Array.from(samples, ([, { value }]) => value as bigint);
  const rows = { timestampNanos, values: new Float64Array(bits.buffer), version: 1 };
  if (samples.every(([, { startMillis }]) => startMillis === 0)) return encodeRawChunk(rows);
  const rowVersions = new Float64Array(samples.length).fill(1);
  return encodeFloatStartsChunk({ ...rows, rowVersions, startNanos: startsOf(samples) });
}

function histogramChunk(samples: readonly TimedSample[]): Uint8Array {
  const values = samples.map(([, { value }]) => value as Uint8Array);
  let end = 0;
  return encodeTypedRows({
    timestampNanos: BigInt64Array.from(samples, ([millis]) => nanosOf(millis)),
    valueBytes: Buffer.concat(values),
    valueEnds: Uint32Array.from(values, ({ length }) => (end += length)),
    rowVersions: new Float64Array(samples.length).fill(1),
    startNanos: startsOf(samples),
  });
}

function startsOf(samples: readonly TimedSample[]): BigInt64Array {
  return BigInt64Array.from(samples, ([, { startMillis }]) => nanosOf(startMillis));
}

function bundleOf(series: readonly MemorySeries[]): SeriesBundle {
  const chunks = series.map(chunksOf);
  const offsets = (parts: readonly Uint8Array[]) => {
    const result = new Uint32Array(parts.length + 1);
    parts.forEach((part, index) => (result[index + 1] = result[index]! + part.length));
    return result;
  };
  const tags = series.map(({ tagsBytes }) => tagsBytes);
  return {
    seriesCount: series.length,
    tagsData: new Uint8Array(Buffer.concat(tags)),
    tagsOffset: offsets(tags),
    idScheme: new Uint8Array(series.length).fill(1),
    idData: new Uint8Array(0),
    idOffset: new Uint32Array(series.length + 1),
    chunkData: new Uint8Array(Buffer.concat(chunks)),
    chunkOffset: offsets(chunks),
  };
}

/** What is read of windows where no rule says as what. */
export function columnWithoutRules(column: AskedColumn): ReadColumn {
  if (column === 'value') return 'last';
  return column === 'numericValue' ? 'number' : column;
}

/** The same series with other chunks. @param change told a series' chunks and its canonical tags */
export function withChunks(
  result: SelectResult,
  change: (chunks: Uint8Array, tags: Uint8Array) => readonly Uint8Array[],
): SelectResult {
  const { bundle } = result;
  const { seriesCount, chunkData, chunkOffset, tagsData, tagsOffset } = bundle;
  const offsets = new Uint32Array(seriesCount + 1);
  const parts: Uint8Array[] = [];
  for (let i = 0; i < seriesCount; i++) {
    const chunks = chunkData.subarray(chunkOffset[i]!, chunkOffset[i + 1]!);
    const made = change(chunks, tagsData.subarray(tagsOffset[i]!, tagsOffset[i + 1]!));
    parts.push(...made);
    offsets[i + 1] = made.reduce((sum, { length }) => sum + length, offsets[i]!);
  }
  const chunkOffsets = { chunkData: new Uint8Array(Buffer.concat(parts)), chunkOffset: offsets };
  return { ...result, bundle: { ...bundle, ...chunkOffsets } };
}

/** A storage that makes its answers of the rows of another one; nobody asks it for names. */
export abstract class OverMemory implements QueryStorage {
  readonly all: MemoryStorage = new MemoryStorage();

  abstract select(...args: Parameters<QueryStorage['select']>): Promise<SelectResult>;

  labelNames(): never {
    return this.all.labelNames();
  }

  labelValues(): never {
    return this.all.labelValues();
  }

  series(): never {
    return this.all.series();
  }
}
