/**
 * Walks over a fileset in use, series by series in the order of their IDs, past the damaged ones
 * and without the rows that were deleted.
 */
import type { Disk } from '#lib/env/env.ts';
import type { IndexCursor } from '../../persist/fileset/index.ts';
import { FilesetReader } from '../../persist/fileset/reader.ts';
import type { BlockFile } from './block_file.ts';
import type { NamespaceFiles } from './namespace_files.ts';
import { cutSeries, type Tombstone } from '../tombstones/tombstones.ts';

/** Data that are read at once. */
const windowBytes = 1024 * 1024;

export class VolumeWalk implements AsyncDisposable {
  readonly #reader: FilesetReader | null;
  readonly #files: NamespaceFiles;
  readonly #file: BlockFile | null;
  #cursor: IndexCursor | null;
  #window: Uint8Array = new Uint8Array(0);
  #windowStart = 0;
  /** Deletions that the fileset has not seen. */
  readonly #pending: readonly Tombstone[];
  /** Whether the chunks that were given last lack rows that the fileset has. */
  isCut = false;
  /** ID of the series that it stands on; null after the last one. */
  id: Uint8Array | null = null;

  private constructor(
    reader: FilesetReader | null,
    files: NamespaceFiles,
    file: BlockFile | null,
    afterId: Uint8Array | null,
  ) {
    this.#reader = reader;
    this.#files = files;
    this.#file = file;
    this.#pending = file === null ? [] : files.tombstones.pendingOf(file);
    const index = reader?.index;
    this.#cursor = (afterId === null ? index?.cursor() : index?.cursorAfter(afterId)) ?? null;
    this.step();
  }

  /**
   * @param file pinned by the caller as long as the walk goes on; null walks over nothing
   * @param afterId the walk begins after this ID; null for the first one
   * @throws {FilesetCorrupt} when it cannot be read at all, as all other methods
   */
  static async open(
    disk: Disk,
    files: NamespaceFiles,
    file: BlockFile | null,
    afterId: Uint8Array | null,
  ): Promise<VolumeWalk> {
    const reader = file === null ? null : await FilesetReader.open(disk, file.folder, file);
    return new VolumeWalk(reader, files, file, afterId);
  }

  step(): void {
    this.id = this.#cursor?.next() === true ? this.#cursor.id() : null;
  }

  /** Goes to a series, to read its chunks. @returns whether the fileset has it */
  find(id: Uint8Array): boolean {
    this.#cursor = this.#reader?.index.find(id) ?? null;
    this.id = this.#cursor?.id() ?? null;
    return this.id !== null;
  }

  /** The series that it stands on; borrowed until the next step. */
  get name(): Pick<IndexCursor, 'idScheme' | 'tags' | 'explicitId'> {
    return this.#cursor!;
  }

  /** Chunks of the series that are not deleted, borrowed, or null when they are damaged. */
  async chunks(): Promise<Uint8Array | null> {
    const cursor = this.#cursor;
    const reader = this.#reader;
    const file = this.#file;
    const { dataOffset, dataLength } = cursor!;
    if (file!.damaged.has(dataOffset)) return null;
    const end = dataOffset + dataLength;
    if (dataOffset < this.#windowStart || end > this.#windowStart + this.#window.length) {
      this.#windowStart = dataOffset;
      this.#window = await reader!.readData(dataOffset, Math.max(dataLength, windowBytes));
      // Only some of what was asked for may be unreadable.
      if (this.#window.length === 0) this.#window = await reader!.readData(dataOffset, dataLength);
    }
    const bytes = this.#window.subarray(dataOffset - this.#windowStart, end - this.#windowStart);
    if (reader!.isWhole(cursor!, bytes)) {
      const kept = cutSeries(cursor!.tags, bytes, this.#pending);
      this.isCut = kept !== bytes;
      return kept;
    }
    this.#files.noteDamage(file!, dataOffset);
    return null;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#reader?.[Symbol.asyncDispose]();
  }
}
