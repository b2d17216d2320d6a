/**
 * The file `index` of a block: its series, and where their chunks are. Big-endian:
 *
 *     u32 magic | u8 version | symbols | series | indexes of labels, postings, tables | where these sections begin: 6 u64, CRC-32C
 *
 *     series   uvarint length | uvarint labels: uvarint name, uvarint value | uvarint chunks | u32 CRC-32C of what `length` counts
 *     chunk 0  varint first ms | uvarint last - first | uvarint reference
 *     chunk n  uvarint first - last of the one before | uvarint last - first | varint reference - that of the one before
 *
 * In version 2 each series begins at a multiple of 16; its number is the multiple. In version 1 it is where it begins.
 */
import type { Disk } from '#lib/env/env.ts';
import type { Tag } from '#lib/tags.ts';
import { damageFrom, type Damage } from './damage.ts';
import { checkCrc, FileRanges, u32At } from './file_ranges.ts';
import { readSymbols, type Symbols } from './symbols.ts';
import { Varints } from './varints.ts';

const magic = 0xbaaad700;
const headerBytes = 5;
const sections = 6;
const contentsBytes = 8 * sections + 4;
const seriesAlignment = 16;
const seriesBytesMax = 16 << 20;
const lengthBytesMax = 10;

/** Where a chunk is. */
export interface ChunkPlace {
  /** Times of its rows lie in it, Unix milliseconds, both inclusive. */
  readonly firstMillis: number;
  readonly lastMillis: number;
  /** Of the files of chunks, from 0. */
  readonly segment: number;
  readonly offset: number;
}

export interface IndexedSeries {
  /** By which tombstones name it. */
  readonly number: number;
  /** In the order of the index, which is that of their times but where they overlap. */
  readonly chunks: readonly ChunkPlace[];
  /** Decoded by each call. @throws {TsdbError} BAD_REQUEST */
  readonly tags: () => Tag[];
}

export class IndexFile implements AsyncDisposable {
  readonly #file: FileRanges;
  readonly #version: number;
  readonly #symbols: Symbols;
  readonly #seriesStart: number;
  readonly #seriesEnd: number;

  private constructor(
    file: FileRanges,
    version: number,
    symbols: Symbols,
    [seriesStart, seriesEnd]: readonly [number, number],
  ) {
    this.#file = file;
    this.#version = version;
    this.#symbols = symbols;
    this.#seriesStart = seriesStart;
    this.#seriesEnd = seriesEnd;
  }

  /** @throws {TsdbError} BAD_REQUEST */
  static async open(disk: Disk, path: string): Promise<IndexFile> {
    const file = await FileRanges.open(disk, path);
    try {
      if (file.size < headerBytes + contentsBytes) throw file.damage('file is cut off', file.size);
      const header = await file.bytes(0, headerBytes);
      if (u32At(header, 0) !== magic) throw file.damage('this is no index:', 0);
      const version = header[4]!;
      if (version !== 1 && version !== 2) {
        throw file.damage(`version of the index is not 1 or 2: ${version}`, 4);
      }
      const { symbols, series } = await readContents(file);
      return new IndexFile(file, version, await readSymbols(file, symbols, version), series);
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** All of them. @throws {TsdbError} BAD_REQUEST */
  async *series(): AsyncGenerator<IndexedSeries> {
    const file = this.#file;
    let at = this.#seriesStart;
    for (;;) {
      if (this.#version !== 1) at = Math.ceil(at / seriesAlignment) * seriesAlignment;
      if (at >= this.#seriesEnd) return;
      const head = await file.bytesUpTo(at, Math.min(lengthBytesMax, this.#seriesEnd - at));
      if (head[0] === 0) {
        await this.#checkPadding(at);
        return;
      }
      const reader = new Varints(head, 0, head.length, damageFrom(file.damage, at));
      const length = reader.unsigned();
      const start = at + reader.at;
      if (length > seriesBytesMax) {
        throw file.damage(`series takes more than ${seriesBytesMax} bytes`, at);
      }
      if (length > this.#seriesEnd - start - 4) throw file.damage('series is cut off', at);
      const bytes = await file.bytes(start, length + 4);
      const damage = damageFrom(file.damage, start);
      checkCrc(bytes, 0, 'series', damage);
      const number = this.#version === 1 ? at : at / seriesAlignment;
      yield seriesOf(bytes, start, number, this.#symbols, damage);
      at = start + length + 4;
    }
  }

  /** After the last series; a hole in the file would look the same, but for its length. */
  async #checkPadding(at: number): Promise<void> {
    const length = this.#seriesEnd - at;
    const isPadding =
      length < seriesAlignment && (await this.#file.bytes(at, length)).every((byte) => byte === 0);
    if (!isPadding) throw this.#file.damage('series has no bytes', at);
  }
}

/** Where sections begin and end. */
async function readContents(file: FileRanges): Promise<{
  readonly symbols: number;
  readonly series: readonly [start: number, end: number];
}> {
  const start = file.size - contentsBytes;
  const bytes = await file.bytes(start, contentsBytes);
  checkCrc(bytes, 0, 'the table of contents', damageFrom(file.damage, start));
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const starts = Array.from({ length: sections }, (_, i) => Number(view.getBigUint64(8 * i)));
  const [symbols, series] = starts as [number, number];
  for (const [i, each] of starts.entries()) {
    // Sections that are not there are at 0.
    const isThere = each !== 0 || i < 2;
    if (isThere && (each < headerBytes || each > start)) {
      throw file.damage(`section ${i} begins outside of the file, at ${each}:`, start + 8 * i);
    }
  }
  // Without any it begins where the next one does.
  const end = Math.min(start, ...starts.slice(2).filter((each) => each >= series));
  return { symbols, series: [series, end] };
}

/** @param start of the bytes in the file */
function seriesOf(
  bytes: Uint8Array,
  start: number,
  number: number,
  symbols: Symbols,
  damage: Damage,
): IndexedSeries {
  const reader = new Varints(bytes, 0, bytes.length - 4, damage);
  const labelCount = reader.unsigned();
  if (labelCount > reader.left / 2) throw damage(`there is no room for ${labelCount} labels`, 0);
  const labels = Array.from({ length: 2 * labelCount }, () => reader.unsigned());
  return {
    number,
    chunks: chunksOf(reader, damage),
    tags: () => {
      const values = new Map<string, string>();
      for (let i = 0; i < labels.length; i += 2) {
        const name = symbols.text(labels[i]!, start);
        if (values.has(name)) throw damage(`label appears twice: ${name}`, 0);
        values.set(name, symbols.text(labels[i + 1]!, start));
      }
      return Array.from(values, ([name, value]) => ({ name, value }));
    },
  };
}

function chunksOf(reader: Varints, damage: Damage): ChunkPlace[] {
  const start = reader.at;
  const count = reader.unsigned();
  if (count > reader.left / 3) throw damage(`there is no room for ${count} chunks`, start);
  const chunks: ChunkPlace[] = [];
  let [lastMillis, reference] = [0, 0];
  for (let i = 0; i < count; i++) {
    const at = reader.at;
    const firstMillis = i === 0 ? reader.signed() : lastMillis + reader.wrapped();
    lastMillis = firstMillis + reader.unsigned();
    reference = i === 0 ? reader.unsigned() : reference + reader.signed();
    if (!Number.isSafeInteger(lastMillis) || !Number.isSafeInteger(reference) || reference < 0) {
      throw damage('place of a chunk is out of range', at);
    }
    const segment = Math.floor(reference / 2 ** 32);
    chunks.push({ firstMillis, lastMillis, segment, offset: reference - segment * 2 ** 32 });
  }
  if (reader.left > 0) throw damage('series has bytes after its chunks', reader.at);
  return chunks;
}
