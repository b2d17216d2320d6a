/** Ranges of a file, out of pieces that are read ahead, since most of them follow each other. */
import type { Disk, DiskFile } from '#lib/env/env.ts';
import { crc32c } from '#lib/hashing/crc32c.ts';
import { naming } from '../naming.ts';
import { type Damage, damageOf } from './damage.ts';

/** Read at once after a range that does not follow the one before. */
const pieceBytesMin = 64 << 10;
/** Pieces double up to this while ranges follow each other. */
const pieceBytesMax = 1 << 20;

export class FileRanges implements AsyncDisposable {
  readonly size: number;
  readonly damage: Damage;
  readonly #file: DiskFile;
  #piece: Uint8Array = new Uint8Array(0);
  #pieceStart = 0;
  #pieceBytes = pieceBytesMin;

  private constructor(file: DiskFile, size: number, path: string) {
    this.#file = file;
    this.size = size;
    this.damage = damageOf(path);
  }

  /** @throws {TsdbError} NOT_FOUND when it is not there */
  static async open(disk: Disk, path: string): Promise<FileRanges> {
    const file = await naming(path, () => disk.open(path, 'read'));
    return new FileRanges(file, await file.size(), path);
  }

  /**
   * Bytes at the position; they stay as they are.
   * @throws {TsdbError} BAD_REQUEST when the file ends before
   */
  async bytes(position: number, length: number): Promise<Uint8Array> {
    const start = position - this.#pieceStart;
    if (start >= 0 && length <= this.#piece.length - start) {
      return this.#piece.subarray(start, start + length);
    }
    if (position > this.size || length > this.size - position) {
      throw this.damage(`${length} bytes are beyond its end, ${this.size}:`, position);
    }
    const follows = start >= 0 && start <= this.#piece.length;
    this.#pieceBytes = follows ? Math.min(2 * this.#pieceBytes, pieceBytesMax) : pieceBytesMin;
    const wanted = Math.max(length, Math.min(this.#pieceBytes, this.size - position));
    this.#piece = await this.#file.read(position, wanted);
    this.#pieceStart = position;
    if (length > this.#piece.length) throw this.damage('file was cut while it was read', position);
    return this.#piece.subarray(0, length);
  }

  /** At most so many bytes at a position in the file, fewer at its end alone. */
  bytesUpTo(position: number, lengthMax: number): Promise<Uint8Array> {
    return this.bytes(position, Math.min(lengthMax, Math.max(0, this.size - position)));
  }

  /** Four bytes, the most significant one first. */
  async u32(position: number): Promise<number> {
    return u32At(await this.bytes(position, 4), 0);
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

export function u32At(bytes: Uint8Array, at: number): number {
  return new DataView(bytes.buffer, bytes.byteOffset + at, 4).getUint32(0);
}

/**
 * Checks bytes that are followed by their CRC-32C.
 * @param start where the checked ones begin; they end four bytes before the last one
 * @throws {TsdbError} BAD_REQUEST
 */
export function checkCrc(bytes: Uint8Array, start: number, what: string, damage: Damage): void {
  const end = bytes.length - 4;
  if (crc32c(bytes, 0, start, end) !== u32At(bytes, end)) {
    throw damage(`checksum of ${what} is not that of its bytes`, end);
  }
}
