/** Blocks as Prometheus writes them, in memory, for tests. */
import { encodeXorChunk } from '#coordinator/remote/xor_chunk.ts';
import { histogramChunks } from '#coordinator/remote/histogram_chunk.ts';
import type { Histogram } from '#engine/typed/histogram.ts';
import type { Disk, DiskFile } from '#lib/env/env.ts';
import { crc32c } from '#lib/hashing/crc32c.ts';
import type { Tag } from '#lib/tags.ts';
import type { ImportSeries, ImportSource } from '../source.ts';

export interface FloatRow {
  readonly millis: number;
  readonly bits: bigint;
}

export interface ChunkToWrite {
  readonly firstMillis: number;
  readonly lastMillis: number;
  readonly encoding: number;
  readonly data: Uint8Array;
  /** Of the file that it goes to; 0 when it is not given. */
  readonly segment?: number;
}

export interface SeriesToWrite {
  readonly tags: readonly Tag[];
  readonly chunks: readonly ChunkToWrite[];
}

export interface BlockToWrite {
  readonly ulid: string;
  readonly series: readonly SeriesToWrite[];
  /** Of the index; 2 when it is not given. */
  readonly version?: number;
  /** Default: from the first row to the last one. */
  readonly times?: readonly [start: number, end: number];
  readonly parents?: readonly string[];
  readonly sources?: readonly string[];
  /** Place of the series in the list, first and last millisecond. */
  readonly tombstones?: readonly (readonly [series: number, first: bigint, last: bigint])[];
}

export function floatChunk(rows: readonly FloatRow[], segment = 0): ChunkToWrite {
  const times = Float64Array.from(rows, ({ millis }) => millis);
  const words = new Uint32Array(BigUint64Array.from(rows, ({ bits }) => bits).buffer);
  const data = encodeXorChunk(times, words, 0, rows.length);
  return { firstMillis: times[0]!, lastMillis: times.at(-1)!, encoding: 1, data, segment };
}

export function histogramChunksOf(
  rows: readonly { readonly millis: number; readonly histogram: Histogram }[],
): ChunkToWrite[] {
  return Array.from(histogramChunks(rows), ({ encoding, rows: own, data }) => ({
    firstMillis: own[0]!.millis,
    lastMillis: own.at(-1)!.millis,
    encoding,
    data,
  }));
}

class Bytes {
  readonly all: number[] = [];

  get length(): number {
    return this.all.length;
  }

  put(bytes: Iterable<number>): this {
    for (const byte of bytes) this.all.push(byte);
    return this;
  }

  u32(value: number): this {
    return this.put([value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255]);
  }

  u64(value: number): this {
    return this.u32(Math.floor(value / 2 ** 32)).u32(value % 2 ** 32);
  }

  uvarint(value: bigint | number): this {
    let rest = BigInt.asUintN(64, BigInt(value));
    for (; rest >= 128n; rest >>= 7n) this.all.push(Number(rest & 127n) | 128);
    this.all.push(Number(rest));
    return this;
  }

  varint(value: bigint | number): this {
    const whole = BigInt(value);
    return this.uvarint(whole < 0n ? -whole * 2n - 1n : whole * 2n);
  }

  text(text: string): this {
    const bytes = new TextEncoder().encode(text);
    return this.uvarint(bytes.length).put(bytes);
  }

  pad(alignment: number): this {
    while (this.all.length % alignment !== 0) this.all.push(0);
    return this;
  }

  /** The checksum of what was written since. */
  crc(start: number): this {
    return this.u32(crc32c(Uint8Array.from(this.all.slice(start))));
  }
}

/** Files of a block by their names in its folder. */
export function blockFiles(block: BlockToWrite): Map<string, Uint8Array> {
  const { ulid, series, version = 2, parents, sources, tombstones = [] } = block;
  const files = new Map<string, Uint8Array>();
  const segments: Bytes[] = [];
  const references = series.map(({ chunks }) =>
    chunks.map(({ encoding, data, segment = 0 }) => {
      segments[segment] ??= new Bytes().u32(0x85bd40dd).put([1, 0, 0, 0]);
      const file = segments[segment];
      const offset = file.length;
      file.uvarint(data.length);
      const start = file.length;
      file.put([encoding]).put(data).crc(start);
      return segment * 2 ** 32 + offset;
    }),
  );
  for (const [i, file] of segments.entries()) {
    files.set(`chunks/${String(i + 1).padStart(6, '0')}`, Uint8Array.from(file.all));
  }

  const index = new Bytes().u32(0xbaaad700).put([version]);
  const symbolsStart = index.length;
  const texts = [
    ...new Set(['', ...series.flatMap(({ tags }) => tags.flatMap((tag) => [tag.name, tag.value]))]),
  ].sort();
  const symbols = new Bytes().u32(texts.length);
  const symbolOf = new Map<string, number>();
  for (const [i, text] of texts.entries()) {
    symbolOf.set(text, version === 1 ? symbolsStart + 4 + symbols.length : i);
    symbols.text(text);
  }
  index
    .u32(symbols.length)
    .put(symbols.all)
    .crc(symbolsStart + 4);
  const seriesStart = index.length;
  const numbers = series.map(({ tags, chunks }, i) => {
    if (version !== 1) index.pad(16);
    const at = index.length;
    const entry = new Bytes().uvarint(tags.length);
    for (const { name, value } of tags) {
      entry.uvarint(symbolOf.get(name)!).uvarint(symbolOf.get(value)!);
    }
    entry.uvarint(chunks.length);
    for (const [k, { firstMillis, lastMillis }] of chunks.entries()) {
      const reference = references[i]![k]!;
      if (k === 0) entry.varint(firstMillis);
      else entry.uvarint(BigInt(firstMillis - chunks[k - 1]!.lastMillis));
      entry.uvarint(lastMillis - firstMillis);
      if (k === 0) entry.uvarint(reference);
      else entry.varint(reference - references[i]![k - 1]!);
    }
    index.uvarint(entry.length);
    const start = index.length;
    index.put(entry.all).crc(start);
    return version === 1 ? at : at / 16;
  });
  const postingsStart = index.pad(4).length;
  index.u32(4 + 4 * numbers.length);
  const listStart = index.length;
  index.u32(numbers.length);
  for (const number of numbers) index.u32(number);
  index.crc(listStart);
  const tableStart = index.length;
  const table = new Bytes().u32(1).put([2]).text('').text('').uvarint(postingsStart);
  index
    .u32(table.length)
    .put(table.all)
    .crc(tableStart + 4);
  const contentsStart = index.length;
  for (const start of [symbolsStart, seriesStart, postingsStart, 0, postingsStart, tableStart]) {
    index.u64(start);
  }
  index.crc(contentsStart);
  files.set('index', Uint8Array.from(index.all));

  const stones = new Bytes().u32(0x0130ba30).put([1]);
  for (const [place, first, last] of tombstones) {
    stones.uvarint(numbers[place]!).varint(first).varint(last);
  }
  files.set('tombstones', Uint8Array.from(stones.crc(5).all));

  const chunks = series.flatMap((each) => each.chunks);
  const [minTime, maxTime] = block.times ?? [
    Math.min(...chunks.map(({ firstMillis }) => firstMillis)),
    Math.max(...chunks.map(({ lastMillis }) => lastMillis)) + 1,
  ];
  const compaction = {
    level: 1,
    ...(parents === undefined ? {} : { parents: parents.map((each) => ({ ulid: each })) }),
    ...(sources === undefined ? {} : { sources }),
  };
  const meta = JSON.stringify({ ulid, minTime, maxTime, compaction, version: 1 });
  files.set('meta.json', new TextEncoder().encode(meta));
  return files;
}

/** Files that are only read, by their paths. */
export function diskOf(files: ReadonlyMap<string, Uint8Array>): Disk {
  const list = (folder: string): string[] => {
    const inside = [...files.keys()].filter((path) => path.startsWith(`${folder}/`));
    return [...new Set(inside.map((path) => path.slice(folder.length + 1).split('/')[0]!))].sort();
  };
  const disk: Pick<Disk, 'open' | 'readFile' | 'list' | 'size'> = {
    async open(path) {
      const bytes = files.get(path);
      if (bytes === undefined) {
        throw Object.assign(new Error(`no file ${path}`), { code: 'ENOENT' });
      }
      const file: Pick<DiskFile, 'read' | 'size' | 'close'> = {
        read: async (position, length) => bytes.slice(position, position + length),
        size: async () => bytes.length,
        close: async () => {},
      };
      return file as DiskFile;
    },
    readFile: async (path) => files.get(path)!,
    list: async (path) => list(path),
    size: async (path) => files.get(path)?.length ?? (list(path).length > 0 ? 4096 : null),
  };
  return disk as Disk;
}

/** @param folders files of blocks by the folder's path */
export function filesIn(
  folders: Readonly<Record<string, ReadonlyMap<string, Uint8Array>>>,
): Map<string, Uint8Array> {
  return new Map(
    Object.entries(folders).flatMap(([folder, files]) =>
      Array.from(files, ([name, bytes]) => [`${folder}/${name}`, bytes] as const),
    ),
  );
}

/** All series of the parts, values as their bits. */
export async function seriesIn(source: ImportSource): Promise<ReturnType<typeof comparable>[]> {
  const all: ReturnType<typeof comparable>[] = [];
  for (const part of await source.parts()) {
    for await (const series of part.series(0)) all.push(comparable(series));
  }
  return all;
}

export function comparable({ tags, timestampNanos, values, histograms }: ImportSeries): {
  readonly tags: readonly Tag[];
  readonly floats: readonly (readonly [nanos: bigint, bits: bigint])[];
  readonly histograms: NonNullable<ImportSeries['histograms']>;
} {
  const bits = new BigUint64Array(values.slice().buffer);
  const floats = Array.from(timestampNanos, (nanos, row) => [nanos, bits[row]!] as const);
  return { tags, floats, histograms: histograms ?? [] };
}
