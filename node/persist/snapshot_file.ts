/**
 * Files of snapshots, `snapshots/snapshot-<n>.db`: the memory of a node in the form of a commit log
 * segment, in place of all segments before n (docs/formats/commitlog.md).
 */
import type { Disk, DiskFile, Env } from '#lib/env/env.ts';
import { encodeSegmentHeader, SegmentBuffer, segmentHeaderBytes } from './commitlog/format.ts';

export interface SnapshotInfo {
  /** The first segment that it does not replace. */
  readonly segment: number;
  readonly path: string;
  readonly bytes: number;
}

const snapshotName = /^snapshot-(\d+)\.db$/;
/** Records are written when so much is collected. */
const writeBytes = 1024 * 1024;

export function snapshotFolder(dataFolder: string): string {
  return `${dataFolder}/snapshots`;
}

/** Complete snapshots, the newest first. */
export async function listSnapshots(disk: Disk, folder: string): Promise<SnapshotInfo[]> {
  const found: SnapshotInfo[] = [];
  for (const name of await disk.list(folder)) {
    const match = snapshotName.exec(name);
    if (match === null) continue;
    const path = `${folder}/${name}`;
    found.push({ segment: Number(match[1]), path, bytes: (await disk.size(path)) ?? 0 });
  }
  return found.sort((a, b) => b.segment - a.segment);
}

/** Removes all snapshots but one, and what is left of one that was not finished. */
export async function removeOtherSnapshots(
  disk: Disk,
  folder: string,
  kept: number,
): Promise<void> {
  for (const name of await disk.list(folder)) {
    const isKept = name === `snapshot-${kept}.db`;
    if (!isKept && name.startsWith('snapshot-')) await disk.remove(`${folder}/${name}`);
  }
}

/** Writes one snapshot. It counts when `finish` has resolved. */
export class SnapshotWriter implements AsyncDisposable {
  readonly buffer: SegmentBuffer = new SegmentBuffer();
  readonly #disk: Disk;
  readonly #folder: string;
  readonly #path: string;
  readonly #segment: number;
  readonly #salt: number;
  readonly #file: DiskFile;
  #position = segmentHeaderBytes;
  #finished = false;

  private constructor(disk: Disk, folder: string, segment: number, salt: number, file: DiskFile) {
    this.#disk = disk;
    this.#folder = folder;
    this.#path = temporaryPath(folder, segment);
    this.#segment = segment;
    this.#salt = salt;
    this.#file = file;
    this.buffer.reset(segment, salt);
  }

  static async open(
    env: Env,
    folder: string,
    options: { readonly segment: number; readonly incarnation: string; readonly boot: number },
  ): Promise<SnapshotWriter> {
    const { segment, incarnation, boot } = options;
    const path = temporaryPath(folder, segment);
    await env.disk.remove(path);
    const file = await env.disk.open(path, 'create');
    const salt = env.random.u32();
    const writer = new SnapshotWriter(env.disk, folder, segment, salt, file);
    const createdNanos = env.clock.nowNanos();
    const header = { salt, incarnation, boot, segment, createdNanos, hasMarks: true };
    await writer.#write(0, encodeSegmentHeader(header));
    return writer;
  }

  /** Writes what is collected when it is much. */
  async drain(): Promise<void> {
    if (this.buffer.byteLength >= writeBytes) await this.#writeBuffer();
  }

  /** Writes the end record and makes the snapshot count. @returns its length */
  async finish(seriesCount: number, chunkBytes: number): Promise<number> {
    this.buffer.addEnd(seriesCount, chunkBytes);
    await this.#writeBuffer();
    await this.#file.sync();
    await this.#file.close();
    this.#finished = true;
    await this.#disk.rename(this.#path, `${this.#folder}/snapshot-${this.#segment}.db`);
    await this.#disk.syncFolder(this.#folder);
    return this.#position;
  }

  async #writeBuffer(): Promise<void> {
    const bytes = this.buffer.bytes();
    await this.#write(this.#position, bytes);
    this.#position += bytes.length;
    this.buffer.reset(this.#segment, this.#salt);
  }

  async #write(position: number, bytes: Uint8Array): Promise<void> {
    try {
      await this.#file.write(position, [bytes]);
    } catch (error) {
      await this[Symbol.asyncDispose]();
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#finished) return;
    this.#finished = true;
    await this.#file.close();
    await this.#disk.remove(this.#path);
  }
}

function temporaryPath(folder: string, segment: number): string {
  return `${folder}/snapshot-${segment}.db.tmp`;
}
