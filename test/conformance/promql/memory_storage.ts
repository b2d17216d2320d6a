/** A storage of a handful of series in memory, behind the same seam as the real one. */
import type {
  Matcher,
  QueryStorage,
  SelectRange,
  SelectResult,
} from '#coordinator/select/storage.ts';
import { compileAnchored } from '#lib/regexp/regexp.ts';
import { encodeRawChunk } from '#engine/codec/chunk.ts';
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { type Tag, type Tags, decodeTags, encodeTags, tagValue } from '#lib/tags.ts';

interface MemorySeries {
  readonly tags: Tags;
  readonly tagsBytes: Uint8Array;
  /** Bits of the value by time; the first value of a time stays. */
  readonly bitsOfMillis: Map<number, bigint>;
  chunk: Uint8Array | null;
}

export class MemoryStorage implements QueryStorage {
  readonly #series: Map<string, MemorySeries>;

  constructor() {
    this.#series = new Map();
  }

  clear(): void {
    this.#series.clear();
  }

  add(tags: readonly Tag[], timeMillis: number, bits: bigint): void {
    const tagsBytes = encodeTags(tags.filter(({ value }) => value !== ''));
    const key = Buffer.from(tagsBytes).toString('latin1');
    let series = this.#series.get(key);
    if (series === undefined) {
      series = { tags: decodeTags(tagsBytes), tagsBytes, bitsOfMillis: new Map(), chunk: null };
      this.#series.set(key, series);
    }
    if (!series.bitsOfMillis.has(timeMillis)) series.bitsOfMillis.set(timeMillis, bits);
    series.chunk = null;
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

function chunkOf(series: MemorySeries): Uint8Array {
  if (series.chunk === null) {
    const times = [...series.bitsOfMillis.keys()].sort((a, b) => a - b);
    const bits = BigUint64Array.from(times, (time) => series.bitsOfMillis.get(time)!);
    series.chunk = encodeRawChunk({
      timestampNanos: BigInt64Array.from(times, (time) => BigInt(time) * 1_000_000n),
      values: new Float64Array(bits.buffer),
      version: 1,
    });
  }
  return series.chunk;
}

function bundleOf(series: readonly MemorySeries[]): SeriesBundle {
  const chunks = series.map((entry) => chunkOf(entry));
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
