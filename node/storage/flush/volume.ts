/**
 * Writes the next volume of a block: rows that come, in the order of their series' IDs, merged with
 * the fileset that the block has. One operation serves flushes, peers and the repair of damaged
 * files.
 */
import { mergeChunks } from '#engine/store/chunk_merge.ts';
import type { SampleStore } from '#engine/store/sample_store.ts';
import type { Env } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';
import { copyOfName, type SeriesName } from '#lib/series_id/series_name.ts';
import { compareBytes } from '#lib/tags.ts';
import {
  FilesetCorrupt,
  type FilesetInfo,
  shardFolder,
  type TakenAs,
} from '../../persist/fileset/format.ts';
import { FilesetWriter } from '../../persist/fileset/writer.ts';
import { makeDurableFolder } from '../../persist/folders.ts';
import { BlockFile } from '../filesets/block_file.ts';
import { VolumeWalk } from '../filesets/volume_walk.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import type { ShardTable } from '../namespace/shards.ts';
import { keepRange } from '../tombstones/chunk_cut.ts';
import type { Pace } from './pace.ts';

/** Series that are copied or forgotten in one stretch of the main loop. */
const seriesAtOnce = 64;

/** What it takes to write a volume. */
export interface VolumeParts {
  readonly env: Env;
  readonly dataFolder: string;
  readonly store: SampleStore;
  readonly shards: ShardTable;
}

/** A series with its chunks in the block. */
export interface VolumeSeries {
  readonly id: Uint8Array;
  readonly name: SeriesName;
  readonly chunks: Uint8Array;
}

/** What is to be written, by ascending ID. */
export interface VolumeSource {
  /** More of it; null at the end. Borrowed until the next call. */
  next(): Promise<readonly VolumeSeries[] | null>;
}

export interface VolumeOptions {
  readonly namespace: NamespaceState;
  readonly shard: number;
  readonly blockStartNanos: bigint;
  /** Where the rows come from. */
  readonly source: 'peers' | 'flush';
  /**
   * Called in the step that puts the fileset in use: from here on the rows are safe. Also called
   * when the block's fileset has all of them already.
   */
  readonly onSafe: () => void;
  /** Write it anew although nothing changes: without the entries that are damaged. */
  readonly always?: boolean;
  /**
   * Of the last deletion that the rows which come have seen; that of the block now when it is not
   * said.
   */
  readonly deletionVersion?: number;
  /**
   * Asked when all rows have come: what to note in the fileset of it, when it has this block alone.
   */
  readonly takenAs?: () => TakenAs | undefined;
  /** Of what is copied from the old volume; without it that goes on without a rest. */
  readonly pace?: Pace;
}

export interface VolumeReport {
  /** 0 when the fileset that the block has holds all of it already. */
  readonly volumes: number;
  readonly series: number;
  readonly bytes: number;
}

/**
 * Runs as the shard's only writer of files.
 * @param signal of `NamespaceFiles.write`
 * @throws {TsdbError} UNAVAILABLE when the namespace was truncated or something of the block was
 *   deleted meanwhile or is being deleted; what the disk rejects with
 */
export async function writeVolume(
  parts: VolumeParts,
  options: VolumeOptions,
  source: VolumeSource,
  signal: AbortSignal,
): Promise<VolumeReport> {
  const { namespace, shard, blockStartNanos } = options;
  const { env } = parts;
  const { truncations, files, tombstones } = namespace;
  const folder = shardFolder(parts.dataFolder, namespace.name, shard);
  const current = files.get(shard, blockStartNanos);
  // A long fileset stays one: rows of any of its blocks are merged into it.
  const extent = current?.info ?? { blockStartNanos, blockSizeNanos: namespace.blockSizeNanos };
  const versionOfBlock = (): number =>
    tombstones.versionOf(blockStartNanos, namespace.blockSizeNanos);
  const versionOfExtent = (): number =>
    tombstones.versionOf(extent.blockStartNanos, extent.blockSizeNanos);
  const ofBlockBefore = options.deletionVersion ?? versionOfBlock();
  const ofExtentBefore = versionOfExtent();
  if (tombstones.isUnswept(extent.blockStartNanos, extent.blockSizeNanos)) {
    throw new TsdbError('UNAVAILABLE', `series are being deleted: ${namespace.name}`);
  }
  if (current !== null) files.pin(current);
  try {
    const isLong = extent.blockSizeNanos > namespace.blockSizeNanos;
    await files.makeFolder(shard, () => makeDurableFolder(env.disk, parts.dataFolder, folder));
    const info: FilesetInfo = {
      namespace: namespace.name,
      namespaceRevision: 0,
      shard,
      shardCount: parts.shards.shardCount,
      blockStartNanos: extent.blockStartNanos,
      blockSizeNanos: extent.blockSizeNanos,
      volume: await files.nextVolume(shard, folder, extent.blockStartNanos),
      createdNanos: namespace.filesetTime(env.clock.nowNanos()),
      source: current !== null && options.source === 'flush' ? 'merge' : options.source,
    };
    await using old = await VolumeWalk.open(env.disk, files, current, null);
    await using writer = FilesetWriter.open(env.disk, folder, info);
    const endNanos = blockStartNanos + namespace.blockSizeNanos;
    const block = isLong ? { startNanos: blockStartNanos, endNanos } : null;
    const { keepsRowVersions } = parts.store;
    const isClosed = current?.isClosed === true;
    const merge = new Merge(writer, old, block, options.pace, keepsRowVersions);
    const isChanged = await merge.run(source, signal);
    const endStep = (): void => {
      signal.throwIfAborted();
      if (namespace.truncations !== truncations) {
        throw new TsdbError('UNAVAILABLE', `namespace was truncated meanwhile: ${namespace.name}`);
      }
      if (versionOfBlock() > ofBlockBefore || versionOfExtent() > ofExtentBefore) {
        throw new TsdbError('UNAVAILABLE', `series were deleted meanwhile: ${namespace.name}`);
      }
    };
    if (!isChanged && current !== null && options.always !== true) {
      endStep();
      options.onSafe();
      return { volumes: 0, series: 0, bytes: 0 };
    }
    endStep();
    if (writer.seriesCount === 0) {
      // All of it is deleted; when it comes back after a power loss it is cut again.
      if (current !== null)
        files.retire(current, current.damaged.size > 0 ? 'set aside' : 'delete');
      options.onSafe();
      if (isClosed) await forgetAll(parts, options, current);
      else await forgetInBlocks(parts, options, extent, slotsOf(namespace, merge.emptied));
      return { volumes: 0, series: 0, bytes: 0 };
    }
    const rest = async (): Promise<void> => options.pace?.rest(signal);
    await files.keepDamage(shard, extent);
    const digest = await writer.finish(rest, isLong ? undefined : options.takenAs?.());
    const file = new BlockFile(folder, writer.info, writer.seriesCount, digest);
    file.isClosed = isClosed;
    try {
      if (isClosed) await files.columns.make(file, rest);
      endStep();
    } catch (error) {
      await writer.undo();
      throw error;
    }
    // In use and forgotten in memory in one step, so that a read sees every row.
    files.adopt(file);
    options.onSafe();
    // Those of a closed one leave the index (closing.ts).
    if (isLong && !isClosed) {
      // Its series stay as long as it does, for its directory tells them by their slots.
      const lastBlock = file.endNanos - namespace.blockSizeNanos;
      namespace.index.markLive([...slotsOf(namespace, merge.given)], lastBlock);
    }
    await forgetInBlocks(parts, options, extent, slotsOf(namespace, merge.emptied));
    return {
      volumes: 1,
      series: writer.seriesCount,
      bytes: digest.data.bytes + digest.index.bytes,
    };
  } catch (error) {
    // What comes may lie in files, too, which are not to be mistaken for this one.
    if (error instanceof FilesetCorrupt && current?.retired === null && current.isOf(error.path)) {
      files.setAside(current, error.message);
    }
    throw error;
  } finally {
    if (current !== null) files.unpin(current);
  }
}

/**
 * Takes series of which a fileset has nothing left out of the index of its blocks, unless memory
 * has rows of them. Some at a time: whoever writes files of the shard waits, so what memory has
 * stays there.
 * @param slots as long as they are of these series
 */
export async function forgetInBlocks(
  { store }: VolumeParts,
  { namespace, pace }: Pick<VolumeOptions, 'namespace' | 'pace'>,
  extent: { readonly blockStartNanos: bigint; readonly blockSizeNanos: bigint },
  slots: Iterable<number>,
): Promise<void> {
  const endNanos = extent.blockStartNanos + extent.blockSizeNanos;
  const blocks = namespace.files.blocksOf({ ...extent, endNanos });
  const { truncations } = namespace;
  let done = 0;
  for (const slot of slots) {
    const inMemory = store.blockStarts(slot);
    for (const start of blocks) {
      if (!inMemory.includes(start)) namespace.index.unmarkLive([slot], start);
    }
    done += 1;
    if (done % seriesAtOnce > 0 || pace === undefined) continue;
    await pace.rest(null);
    if (namespace.truncations !== truncations) return;
  }
}

/** The same of all series of a closed fileset that went. It names none of them, and the index may have some. */
export async function forgetAll(
  { store }: VolumeParts,
  { namespace, pace }: Pick<VolumeOptions, 'namespace' | 'pace'>,
  { shard, blockStartNanos, endNanos }: BlockFile,
): Promise<void> {
  const { files, truncations } = namespace;
  for (const start of files.blocksOf({ blockStartNanos, endNanos })) {
    const isToGo = (slot: number): boolean =>
      namespace.index.shard(slot) === shard && !store.blockStarts(slot).includes(start);
    for (let from = 0; from >= 0; ) {
      if (files.get(shard, start) !== null) break;
      from = namespace.index.unmarkSome(start, from, isToGo);
      await pace?.rest(null);
      if (namespace.truncations !== truncations) return;
    }
  }
}

/**
 * Slots of the series that are here. Each when it is asked for, so that it is that of its series.
 */
function* slotsOf(
  namespace: NamespaceState,
  names: readonly SeriesName[],
): Generator<number, void, void> {
  for (const name of names) {
    const slot = namespace.findSeries(name);
    if (slot >= 0) yield slot;
  }
}

class Merge {
  readonly #writer: FilesetWriter;
  readonly #old: VolumeWalk;
  #isChanged = false;
  /** Series of the old volume of which everything is deleted. */
  readonly emptied: SeriesName[] = [];
  /** Series that came, when the old volume is longer than their block. */
  readonly given: SeriesName[] = [];
  readonly #block: BlockRange | null;
  readonly #pace: Pace | undefined;
  readonly #keepsRowVersions: boolean;
  #copied = 0;

  /**
   * @param block in which the rows that come lie, when the old volume is longer
   * @param keepsRowVersions as of the store
   */
  constructor(
    writer: FilesetWriter,
    old: VolumeWalk,
    block: BlockRange | null,
    pace: Pace | undefined,
    keepsRowVersions: boolean,
  ) {
    this.#writer = writer;
    this.#old = old;
    this.#block = block;
    this.#pace = pace;
    this.#keepsRowVersions = keepsRowVersions;
  }

  /** @returns whether the result differs from the old volume */
  async run(source: VolumeSource, signal: AbortSignal): Promise<boolean> {
    const writer = this.#writer;
    const old = this.#old;
    for (let some = await source.next(); some !== null; some = await source.next()) {
      signal.throwIfAborted();
      for (const series of some) {
        if (series.chunks.length === 0) continue;
        while (old.id !== null && compareBytes(old.id, series.id) < 0) await this.#copyOld(signal);
        await this.#add(series);
        if (writer.isFull) await writer.drain();
      }
    }
    while (old.id !== null) await this.#copyOld(signal);
    return this.#isChanged;
  }

  async #add(series: VolumeSeries): Promise<void> {
    const writer = this.#writer;
    const old = this.#old;
    if (this.#block !== null) this.given.push(copyOfName(series.name));
    if (old.id === null || compareBytes(old.id, series.id) !== 0) {
      this.#isChanged = true;
      writer.put(series.id, series.name, series.chunks);
      return;
    }
    const before = await old.chunks();
    const merged =
      before === null || before.length === 0
        ? series.chunks
        : this.#block === null
          ? merge(before, series.chunks, this.#keepsRowVersions)
          : mergeInBlock(before, series.chunks, this.#block, this.#keepsRowVersions);
    if (before === null || old.isCut || !areEqual(before, merged)) this.#isChanged = true;
    // Whoever has the ID first keeps it, also where the index does not know of it any more.
    writer.put(series.id, old.name, merged);
    old.step();
  }

  async #copyOld(signal: AbortSignal): Promise<void> {
    const writer = this.#writer;
    const old = this.#old;
    signal.throwIfAborted();
    const chunks = await old.chunks();
    if (chunks === null) this.#isChanged = true;
    else if (chunks.length > 0) writer.put(old.id!, old.name, chunks);
    else this.emptied.push(copyOfName(old.name));
    if (old.isCut) this.#isChanged = true;
    old.step();
    if (writer.isFull) await writer.drain();
    this.#copied += 1;
    if (this.#copied % seriesAtOnce === 0) await this.#pace?.rest(null);
  }
}

interface BlockRange {
  readonly startNanos: bigint;
  readonly endNanos: bigint;
}

/**
 * Chunks of a volume with more in one block. Merging may give all rows of a chunk the highest version
 * among them, and of its own block the flush has every row: so what a long volume has of other
 * blocks stays apart, with the version that it had. It would stand over rows else that memory has
 * of those blocks.
 */
function mergeInBlock(
  before: Uint8Array,
  more: Uint8Array,
  block: BlockRange,
  keepsRowVersions: boolean,
): Uint8Array {
  const { startNanos, endNanos } = block;
  const inside = keepRange(before, startNanos, endNanos);
  const merged = inside.length === 0 ? more : merge(inside, more, keepsRowVersions);
  if (inside === before) return merged;
  // As after a replay of the log: there is nothing new, and the chunks stay whole.
  if (areEqual(merged, inside)) return before;
  const earlier = keepRange(before, null, startNanos);
  const later = keepRange(before, endNanos, null);
  return new Uint8Array(Buffer.concat([earlier, merged, later]));
}

/** Merged chunks; where there are too many rows for one piece of work, both as they are. */
function merge(before: Uint8Array, more: Uint8Array, keepsRowVersions: boolean): Uint8Array {
  try {
    return mergeChunks([before, more], keepsRowVersions);
  } catch (error) {
    if (!(error instanceof TsdbError && error.code === 'RESOURCE_EXHAUSTED')) throw error;
    const both = new Uint8Array(before.length + more.length);
    both.set(before);
    both.set(more, before.length);
    return both;
  }
}

function areEqual(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && Buffer.compare(a, b) === 0;
}
