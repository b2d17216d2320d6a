/** Files of which a part is in memory at a time. */
import type { Disk, DiskFile } from '#lib/env/env.ts';
import { badRequest } from '#lib/errors.ts';
import { crc32c } from '#lib/hashing/crc32c.ts';
import { naming } from '../../naming.ts';
import { adler32 } from './adler32.ts';

/**
 * Bytes that are read at a time; of a shorter file no more than it has, for a folder has files by the hundred thousand, and what
 * is made for each of them is garbage at once.
 */
const readBytes = 1 << 20;

/**
 * A small file.
 * @throws {TsdbError} BAD_REQUEST when it is of another length or sum, NOT_FOUND when it is missing
 */
export function readSmallFile(
  disk: Disk,
  path: string,
  expected: { readonly bytesMin: number; readonly bytesMax: number; readonly sum: number | null },
): Promise<Uint8Array> {
  const { bytesMin, bytesMax, sum } = expected;
  return naming(path, async () => {
    await using file = await disk.open(path, 'read');
    const bytes = await file.read(0, Math.min(bytesMax, await file.size()) + 1);
    if (bytes.length > bytesMax) throw badRequest(`file is longer than ${bytesMax} bytes`);
    if (bytes.length < bytesMin) throw badRequest(`file is shorter than ${bytesMin} bytes`);
    if (sum !== null) checkSum(adler32(bytes), sum);
    return bytes;
  });
}

/** @throws {TsdbError} BAD_REQUEST when they are not the same */
export function checkSum(actual: number, expected: number): void {
  if (actual === expected) return;
  throw badRequest(`checksum is not ${hex(expected)}: ${hex(actual)}`);
}

const hex = (sum: number): string => `0x${sum.toString(16)}`;

/** @throws {TsdbError} BAD_REQUEST when the sum of the whole file is another */
export async function checkFile(file: DiskFile, sum: number): Promise<void> {
  let actual = adler32(new Uint8Array());
  const size = await file.size();
  for (let at = 0; at < size; ) {
    const bytes = await file.read(at, Math.min(readBytes, size - at));
    if (bytes.length === 0) break;
    actual = adler32(bytes, actual);
    at += bytes.length;
  }
  checkSum(actual, sum);
}

/** Of each end of a file. */
const endBytes = 1 << 16;

/**
 * A checksum by which files of one name and length are told apart, as those of two replicas are.
 * @param bytes of the file, so many of the first ones
 * @throws {TsdbError} NOT_FOUND when it is not there
 */
export async function sumOfEnds(disk: Disk, path: string, bytes: number): Promise<number> {
  await using file = await naming(path, () => disk.open(path, 'read'));
  const count = Math.min(bytes, endBytes);
  return crc32c(await file.read(bytes - count, count), crc32c(await file.read(0, count)));
}

/** Reads a file from its beginning to its end. */
export class FileBytes {
  readonly #file: DiskFile;
  /** What was read, and how much of it is used up. */
  #bytes: Uint8Array = new Uint8Array();
  #used = 0;
  /** Where `#bytes` begins in the file. */
  #from = 0;
  #isAtEnd = false;

  constructor(file: DiskFile) {
    this.#file = file;
  }

  /** What is next in the file. */
  get position(): number {
    return this.#from + this.#used;
  }

  /** Bytes that are in memory, of those not used up. */
  get next(): Uint8Array {
    return this.#bytes.subarray(this.#used);
  }

  /** Whether so many bytes are in memory. */
  holds(count: number): boolean {
    return count <= this.#bytes.length - this.#used;
  }

  /**
   * Reads until so many bytes are in memory.
   * @returns false when the file ends before
   */
  async reads(count: number): Promise<boolean> {
    if (this.holds(count)) return true;
    if (this.#isAtEnd) return false;
    const rest = this.next;
    const at = this.#from + this.#bytes.length;
    // One more than there is tells that it is the end.
    const left = Math.max(0, (await this.#file.size()) - at) + 1;
    const wanted = Math.max(Math.min(readBytes, left), count - rest.length);
    const read = await this.#file.read(at, wanted);
    this.#isAtEnd = read.length < wanted;
    this.#from += this.#used;
    this.#used = 0;
    const bytes = new Uint8Array(rest.length + read.length);
    bytes.set(rest);
    bytes.set(read, rest.length);
    this.#bytes = bytes;
    return this.holds(count);
  }

  /** Bytes that are in memory become used up. */
  use(count: number): void {
    this.#used += count;
  }
}
