/**
 * The files `chunks/000001`, … of a block. Big-endian:
 *
 *     u32 magic | u8 version | 3 bytes | chunks: uvarint length | u8 encoding | `length` bytes | u32 CRC-32C of both
 */
import type { Disk } from '#lib/env/env.ts';
import { damageFrom } from './damage.ts';
import { checkCrc, FileRanges, u32At } from './file_ranges.ts';
import { floatRows } from './float_chunk.ts';
import { histogramRows } from './histogram_chunk.ts';
import type { ChunkPlace } from './index_file.ts';
import type { ChunkRows } from './rows.ts';
import { Varints } from './varints.ts';

const magic = 0x85bd40dd;
const version = 1;
const headerBytes = 8;
const chunkBytesMax = 8 << 20;
const lengthBytesMax = 5;

const encoding = { floats: 1, histograms: 2, floatHistograms: 3 } as const;

const otherEncodings: Readonly<Record<number, string>> = {
  4: 'XOR2',
  5: 'histograms with start times',
  6: 'float histograms with start times',
  255: "Thanos' downsampled aggregates",
};

export class Segments implements AsyncDisposable {
  readonly #disk: Disk;
  readonly #folder: string;
  #open: { readonly segment: number; readonly file: FileRanges } | null = null;

  /** @param folder `chunks` of a block */
  constructor(disk: Disk, folder: string) {
    this.#disk = disk;
    this.#folder = folder;
  }

  /** @throws {TsdbError} BAD_REQUEST when it is damaged, or in an encoding that is not read */
  async rowsOf({ segment, offset, firstMillis, lastMillis }: ChunkPlace): Promise<ChunkRows> {
    const file = await this.#fileOf(segment);
    if (offset < headerBytes) throw file.damage('there is no chunk', offset);
    const head = await file.bytesUpTo(offset, lengthBytesMax);
    const length = new Varints(head, 0, head.length, damageFrom(file.damage, offset));
    const dataBytes = length.unsigned();
    if (dataBytes > chunkBytesMax) {
      throw file.damage(`chunk takes more than ${chunkBytesMax} bytes`, offset);
    }
    const start = offset + length.at;
    const bytes = await file.bytes(start, 1 + dataBytes + 4);
    checkCrc(bytes, 0, 'chunk', damageFrom(file.damage, start));
    const data = bytes.subarray(1, 1 + dataBytes);
    const damage = damageFrom(file.damage, start + 1);
    const kind = bytes[0]!;
    let rows: ChunkRows;
    if (kind === encoding.floats) rows = floatRows(data, damage);
    else if (kind === encoding.histograms) rows = histogramRows(data, false, damage);
    else if (kind === encoding.floatHistograms) rows = histogramRows(data, true, damage);
    else {
      const name = otherEncodings[kind] ?? 'not known';
      throw file.damage(`encoding of a chunk is not one that is read, ${kind} (${name}):`, start);
    }
    const { millis } = rows;
    if (millis[0]! < firstMillis || millis.at(-1)! > lastMillis) {
      throw file.damage('rows of a chunk are outside of the times that the index has', offset);
    }
    return rows;
  }

  /** One is open at a time: series follow each other in them. */
  async #fileOf(segment: number): Promise<FileRanges> {
    if (this.#open?.segment === segment) return this.#open.file;
    await this.close();
    const path = `${this.#folder}/${String(segment + 1).padStart(6, '0')}`;
    const file = await FileRanges.open(this.#disk, path);
    this.#open = { segment, file };
    if (file.size < headerBytes) throw file.damage('file is cut off', file.size);
    const header = await file.bytes(0, headerBytes);
    if (u32At(header, 0) !== magic) throw file.damage('this is no file of chunks:', 0);
    if (header[4] !== version) throw file.damage(`version is not ${version}: ${header[4]}`, 4);
    return file;
  }

  async close(): Promise<void> {
    const open = this.#open;
    this.#open = null;
    await open?.file.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** Bytes of the files. */
export async function segmentsBytes(disk: Disk, folder: string): Promise<number> {
  const names = (await disk.list(folder)).filter((name) => /^\d{6,}$/.test(name));
  const sizes = await Promise.all(names.map((name) => disk.size(`${folder}/${name}`)));
  return sizes.reduce<number>((sum, size) => sum + (size ?? 0), 0);
}
