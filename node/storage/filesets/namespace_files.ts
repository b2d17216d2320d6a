/**
 * The filesets of one namespace that are in use: one for each block of each shard, the highest
 * complete volume. A long fileset is that of several blocks (node/storage/flush/compaction.ts). A
 * reader pins what it reads; a fileset that was replaced leaves the disk when its last reader is
 * gone. Whoever writes filesets of a shard does so alone.
 */
import { assert } from '#lib/assert.ts';
import type { Disk } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { SeriesName } from '#lib/series_id/series_name.ts';
import type { UnixNanos } from '#lib/time.ts';
import type { LoopClock } from '#lib/turns/turns.ts';
import {
  encodeInfo,
  type FilesetInfo,
  type FilesetKey,
  filesetPath,
  listShardFolder,
  pathAside,
  removeFileset,
  removeFilesetAside,
  setFilesetAside,
} from '../../persist/fileset/format.ts';
import type { BlockFile, Retirement } from './block_file.ts';
import type { FileCache } from './file_cache.ts';
import { FileColumns } from './file_columns.ts';
import { Directories } from './directories.ts';
import type { NamespaceTombstones } from '../tombstones/tombstones.ts';

/** Blocks of a shard, with those that are gone, before its folder is looked at again. */
const volumesKeptMax = 4096;

/**
 * A damaged fileset that is kept under other names until others gave what it had, or it expires.
 */
export interface FilesetAside extends FilesetKey {
  readonly folder: string;
  readonly shard: number;
  /** End of its last block. */
  readonly endNanos: bigint;
}

interface ShardFiles {
  /** By start of a block; a long one stands at each of its blocks. */
  readonly blocks: Map<bigint, BlockFile>;
  /** Each of those once, by ascending block; null when they have changed since it was asked. */
  files: readonly BlockFile[] | null;
  /** The folder is there, durably. */
  hasFolder: boolean;
  /**
   * By block: the highest volume of which a file may be on disk. Null when the folder was not
   * looked at.
   */
  volumes: Map<bigint, number> | null;
  /** Ends the writers of this shard. */
  stop: AbortController;
  /** When the last of the writers that wait is done. */
  tail: Promise<void>;
}

export interface NamespaceFilesParts {
  readonly clock: LoopClock;
  readonly disk: Disk;
  readonly log: Log;
  readonly cache: FileCache;
  readonly blockSizeNanos: bigint;
  /** Deletions of the namespace. */
  readonly tombstones: NamespaceTombstones;
  /** Slot of a series of this namespace, or a negative number. */
  readonly slotOf: (series: SeriesName) => number;
  /** Called when a fileset was found to be damaged. */
  readonly onDamage: (file: BlockFile) => void;
}

export class NamespaceFiles {
  readonly #parts: NamespaceFilesParts;
  /** What of the filesets is not to be seen. */
  readonly tombstones: NamespaceTombstones;
  readonly #shards = new Map<number, ShardFiles>();
  /** Filesets that are not in use any more and still read. */
  readonly #stillRead = new Set<BlockFile>();
  /** Filesets that are being deleted or renamed. */
  readonly #leaving = new Set<Promise<void>>();
  readonly #asides = new Set<FilesetAside>();

  readonly columns: FileColumns;
  readonly directories: Directories;
  /** Counts filesets that came into use, were closed, and left it. */
  changes = 0;

  constructor(parts: NamespaceFilesParts) {
    this.#parts = parts;
    this.tombstones = parts.tombstones;
    this.columns = new FileColumns(parts);
    this.directories = new Directories(parts, this);
  }

  /** The fileset that has a block, whether it is that of the block alone or a long one. */
  get(shard: number, blockStartNanos: bigint): BlockFile | null {
    return this.#shards.get(shard)?.blocks.get(blockStartNanos) ?? null;
  }

  /** Filesets of a shard by ascending block; of all shards with null. */
  all(shard: number | null): BlockFile[] {
    if (shard !== null) return [...this.#filesOf(shard)];
    return [...this.#shards.keys()].flatMap((id) => this.#filesOf(id)).sort(byBlock);
  }

  /** Shards of which filesets were loaded or written. */
  shardIds(): number[] {
    return [...this.#shards.keys()];
  }

  /**
   * Filesets of a shard whose blocks overlap [startNanos, endNanos), by ascending block, pinned.
   * @param which those that are closed, or the others
   */
  pinRange(
    shard: number,
    startNanos: UnixNanos,
    endNanos: UnixNanos,
    which: 'closed' | 'open',
  ): BlockFile[] {
    const found: BlockFile[] = [];
    for (const file of this.#filesOf(shard)) {
      if (file.isClosed !== (which === 'closed')) continue;
      if (file.blockStartNanos >= endNanos || file.endNanos <= startNanos) continue;
      this.pin(file);
      found.push(file);
    }
    return found;
  }

  #filesOf(shard: number): readonly BlockFile[] {
    const own = this.#shards.get(shard);
    if (own === undefined) return [];
    return (own.files ??= [...new Set(own.blocks.values())].sort(byBlock));
  }

  pin(file: BlockFile): void {
    file.pins += 1;
  }

  unpin(file: BlockFile): void {
    assert(file.pins > 0, 'a fileset is unpinned as often as it was pinned');
    file.pins -= 1;
    if (file.pins > 0 || file.retired === null) return;
    this.#stillRead.delete(file);
    this.#leave(file, file.retired);
  }

  /** Puts a complete fileset in use, in place of those that its blocks had. */
  adopt(file: BlockFile): void {
    const own = this.#shard(file.shard);
    const { blocks } = own;
    own.files = null;
    const replaced = new Set<BlockFile>();
    for (const start of this.blocksOf(file)) {
      const before = blocks.get(start);
      if (before !== undefined) replaced.add(before);
    }
    for (const before of replaced) {
      assert(
        file.blockStartNanos <= before.blockStartNanos && before.endNanos <= file.endNanos,
        'a fileset has all blocks of those that it replaces',
      );
      assert(
        before.blockStartNanos !== file.blockStartNanos || before.volume < file.volume,
        'a higher volume replaces',
      );
    }
    for (const start of this.blocksOf(file)) blocks.set(start, file);
    this.changes += 1;
    for (const before of replaced) {
      this.retire(before, before.damaged.size > 0 ? 'set aside' : 'delete');
    }
  }

  /** Starts of the blocks that a fileset has, ascending. */
  blocksOf(file: { readonly blockStartNanos: bigint; readonly endNanos: bigint }): bigint[] {
    const starts: bigint[] = [];
    const { blockSizeNanos } = this.#parts;
    for (let start = file.blockStartNanos; start < file.endNanos; start += blockSizeNanos) {
      starts.push(start);
    }
    return starts;
  }

  /** Takes a fileset out of use. */
  retire(file: BlockFile, why: Retirement): void {
    const own = this.#shards.get(file.shard);
    for (const start of this.blocksOf(file)) {
      if (own?.blocks.get(start) === file) own.blocks.delete(start);
    }
    if (own !== undefined) own.files = null;
    if (file.retired !== null) return;
    file.retired = why;
    this.changes += 1;
    if (file.pins === 0) this.#leave(file, why);
    else this.#stillRead.add(file);
  }

  #leave(file: BlockFile, why: Retirement): void {
    const { cache, disk } = this.#parts;
    if (why === 'set aside') this.noteAside(file);
    this.#inTheBackground(file, async () => {
      await cache.forget(file);
      if (why === 'delete') await removeFileset(disk, file.folder, file);
      if (why === 'set aside') await setFilesetAside(disk, file.folder, file);
    });
  }

  /**
   * Makes durable what is known of damage in these blocks, before another fileset of them counts: a
   * start takes that one, and removes what it replaces. The info file under its name of a fileset
   * that is set aside says it.
   * @throws what the disk rejects with
   */
  async keepDamage(
    shard: number,
    info: Pick<FilesetInfo, 'blockStartNanos' | 'blockSizeNanos'>,
  ): Promise<void> {
    // Some may be on their way to those names.
    if (this.#asides.size > 0) await Promise.all(this.#leaving);
    const { blockStartNanos } = info;
    const endNanos = blockStartNanos + info.blockSizeNanos;
    const inUse = this.blocksOf({ blockStartNanos, endNanos }).map((at) => this.get(shard, at));
    const left = [...this.#stillRead].filter(
      (file) =>
        file.shard === shard && file.blockStartNanos < endNanos && file.endNanos > blockStartNanos,
    );
    const isWanting = (file: BlockFile) =>
      file.retired === null ? file.damaged.size > 0 : file.retired === 'set aside';
    for (const file of new Set([...inUse, ...left])) {
      if (file === null || !isWanting(file)) continue;
      const path = pathAside(filesetPath(file.folder, file, 'info'));
      await this.#parts.disk.writeFileAtomic(path, encodeInfo(file.info));
      // It may have been repaired meanwhile.
      if (isWanting(file)) this.noteAside(file);
      else await this.#parts.disk.remove(path);
    }
  }

  /**
   * Changes what the disk has of a fileset. A failure is logged: the next start finds what is left
   * of it.
   */
  #inTheBackground(file: FilesetAside, change: () => Promise<void>): void {
    const { log } = this.#parts;
    const leaving = change()
      .catch((error: unknown) => {
        const fields = { path: filesetPath(file.folder, file, 'data'), error: messageOf(error) };
        log.warn(fields, 'fileset could not be removed');
      })
      .finally(() => this.#leaving.delete(leaving));
    this.#leaving.add(leaving);
  }

  /** Knows of a fileset that is set aside. */
  noteAside(file: FilesetAside): void {
    this.#asides.add(file);
  }

  /** Removes filesets that were set aside, or will be when their last reader is gone. */
  removeAsides(isToGo: (file: FilesetAside) => boolean): void {
    for (const file of this.#stillRead) {
      if (file.retired === 'set aside' && isToGo(file)) file.retired = 'delete';
    }
    for (const file of [...this.#asides].filter(isToGo)) {
      this.#asides.delete(file);
      // It may still be on its way there.
      const before = [...this.#leaving];
      this.#inTheBackground(file, async () => {
        await Promise.all(before);
        await removeFilesetAside(this.#parts.disk, file.folder, file);
      });
    }
  }

  /** Waits until all that is to leave the disk has left it. */
  async settled(): Promise<void> {
    while (this.#leaving.size > 0) await Promise.all(this.#leaving);
  }

  /** A fileset in use, with columns, answers for itself from now on: an index that is being saved does not name it. */
  close(file: BlockFile): void {
    file.isClosed = true;
    this.changes += 1;
  }

  /** Notes that the entry at an offset is damaged: it is served no more, its neighbours are. */
  noteDamage(file: BlockFile, offset: number): void {
    // The name of a file whose folder was removed may be another one's, so this says nothing of
    // what is in use.
    if (file.damaged.has(offset) || file.retired === 'folder removed') return;
    file.damaged.add(offset);
    this.directories.noteDamage(file);
    const fields = { path: file.dataPath, offset };
    this.#parts.log.error(fields, 'chunks of a series are damaged and are not served');
    this.#parts.onDamage(file);
  }

  /** Sets a fileset aside that cannot be read at all. */
  setAside(file: BlockFile, reason: string): void {
    if (file.retired !== null) return;
    this.#parts.log.error({ path: file.dataPath, reason }, 'fileset is damaged and is set aside');
    this.retire(file, 'set aside');
    this.#parts.onDamage(file);
  }

  /**
   * Runs the only task that writes filesets of a shard.
   * @param task ends soon when its signal aborts, and never waits for the sequencer
   * @throws {TsdbError} CANCELLED when the shard is dropped
   */
  async write<T>(shard: number, task: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const own = this.#shard(shard);
    const { signal } = own.stop;
    const before = own.tail;
    const { promise, resolve } = Promise.withResolvers<void>();
    own.tail = promise;
    try {
      await before;
      signal.throwIfAborted();
      return await task(signal);
    } finally {
      resolve();
    }
  }

  /**
   * A volume above all that a block has, complete or not. Called by the shard's writer, who writes
   * it then: the folder is looked at once, not for each fileset.
   */
  async nextVolume(shard: number, folder: string, blockStartNanos: bigint): Promise<number> {
    const own = this.#shard(shard);
    if (own.volumes === null || own.volumes.size > volumesKeptMax) {
      const volumes = new Map<bigint, number>();
      const { filesets, asides } = await listShardFolder(this.#parts.disk, folder);
      // Also those that were set aside: theirs would be the names of a new one that is set aside.
      for (const fileset of [...filesets, ...asides]) {
        const before = volumes.get(fileset.blockStartNanos) ?? -1;
        volumes.set(fileset.blockStartNanos, Math.max(before, fileset.volume));
      }
      own.volumes = volumes;
    }
    const next = (own.volumes.get(blockStartNanos) ?? -1) + 1;
    own.volumes.set(blockStartNanos, next);
    return next;
  }

  /** The folder of a shard is another one now. Called by its writer. */
  forgetFolder(shard: number): void {
    const own = this.#shard(shard);
    own.hasFolder = false;
    own.volumes = null;
  }

  /** Makes the folder of a shard, once. Called by its writer. */
  async makeFolder(shard: number, make: () => Promise<void>): Promise<void> {
    const own = this.#shard(shard);
    if (own.hasFolder) return;
    await make();
    own.hasFolder = true;
  }

  /**
   * Ends what is written of these shards and forgets their filesets at once, then removes the
   * files.
   * @param remove removes them from the disk, when nobody writes there
   */
  async drop(shards: readonly number[], remove: () => Promise<void>): Promise<void> {
    for (const id of shards) {
      const own = this.#shard(id);
      own.stop.abort(new TsdbError('CANCELLED', 'the files of the shard are removed'));
      own.stop = new AbortController();
      for (const file of new Set(own.blocks.values())) this.retire(file, 'folder removed');
    }
    // Volumes count from 0 again in an empty folder: what is deleted by name later on would be a
    // new fileset.
    for (const file of this.#stillRead) {
      if (shards.includes(file.shard)) file.retired = 'folder removed';
    }
    const removed = Promise.withResolvers<void>();
    const arrived: Promise<void>[] = [];
    const held = shards.map((id) => {
      const here = Promise.withResolvers<void>();
      arrived.push(here.promise);
      return this.write(id, () => {
        here.resolve();
        return removed.promise;
      });
    });
    try {
      await Promise.all(arrived);
      await this.settled();
      for (const id of shards) {
        this.#shard(id).hasFolder = false;
        this.#shard(id).volumes = null;
      }
      for (const file of this.#asides) if (shards.includes(file.shard)) this.#asides.delete(file);
      await remove();
    } finally {
      removed.resolve();
      await Promise.all(held);
    }
  }

  #shard(id: number): ShardFiles {
    let own = this.#shards.get(id);
    if (own === undefined) {
      own = {
        blocks: new Map(),
        files: null,
        hasFolder: false,
        volumes: null,
        stop: new AbortController(),
        tail: Promise.resolve(),
      };
      this.#shards.set(id, own);
    }
    return own;
  }
}

function byBlock(a: BlockFile, b: BlockFile): number {
  return Number(a.blockStartNanos - b.blockStartNanos);
}
