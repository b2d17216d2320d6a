/**
 * Takes saved indexes into use. What has come since is told by the log and by filesets that they do
 * not name; a saved index that cannot be used is set aside or passed over, and the series come one
 * by one, as without it.
 */
import type { SampleStore } from '#engine/store/sample_store.ts';
import type { Env } from '#lib/env/env.ts';
import { isUnreadable } from '#lib/env/unreadable.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { SavedSeries } from '../index/saved/load.ts';
import { enumerateBits } from '../index/tables/postings.ts';
import { listFilesets, shardFolder } from '../persist/fileset/format.ts';
import type { FilesetHead } from '../persist/fileset/reader.ts';
import { IndexFileCorrupt } from '../persist/index_file/format.ts';
import {
  IndexFile,
  indexFilePath,
  removeIndexFile,
  setIndexFileAside,
} from '../persist/index_file/index_file.ts';
import {
  decodeIndexManifest,
  type IndexManifest,
  type SavedFileset,
} from '../persist/index_file/manifest.ts';
import type { NodeIdentity } from '../identity/node_identity.ts';
import { listSnapshots, snapshotFolder } from '../persist/snapshot_file.ts';
import { savedFilesetKey } from '../storage/flush/saved_index.ts';
import type { NamespaceState } from '../storage/namespace/namespace.ts';
import type { ShardTable } from '../storage/namespace/shards.ts';

/** What it takes to use saved indexes. */
export interface IndexStartParts {
  readonly env: Env;
  readonly log: Log;
  readonly dataFolder: string;
  readonly identity: NodeIdentity;
  readonly store: SampleStore;
  readonly shards: ShardTable;
  readonly namespaces: ReadonlyMap<string, NamespaceState>;
}

/** A saved index that is in use. */
export class LoadedIndex {
  /** Start of the node whose slots the ordinals were. */
  readonly boot: number;
  readonly #store: SampleStore;
  readonly #savedGenerations: Uint32Array;
  /** By saved ordinal: slot of this boot, plus one. */
  readonly #slots: Uint32Array;
  readonly #generations: Uint32Array;
  readonly #filesets: ReadonlyMap<string, number>;

  constructor(store: SampleStore, manifest: IndexManifest, slots: Uint32Array) {
    const { generation } = store;
    this.#store = store;
    this.boot = manifest.boot;
    this.#savedGenerations = manifest.generations;
    this.#slots = slots;
    this.#generations = slots.map((slot) => (slot === 0 ? 0 : generation[slot - 1]!));
    this.#filesets = new Map(
      manifest.filesets.map((fileset) => [savedFilesetKey(fileset), fileset.seriesCount]),
    );
  }

  /** The slot of this boot for a reference of the boot that saved, or -1. */
  slotOf(slot: number, generation: number): number {
    const now = this.#slots[slot] ?? 0;
    if (now === 0 || this.#savedGenerations[slot] !== generation) return -1;
    // It may have been released since, and be another's.
    return this.#store.generation[now - 1] === this.#generations[slot] ? now - 1 : -1;
  }

  /** Series of a fileset that are all in the index, or null when that is not known. */
  seriesCountOf(shard: number, { info, digest }: FilesetHead): number | null {
    const { blockStartNanos, volume } = info;
    const key = { shard, blockStartNanos, volume, indexCrc32c: digest.index.crc32c };
    return this.#filesets.get(savedFilesetKey(key)) ?? null;
  }
}

/** By name of the namespace. Those without a saved index that can be used are not in it. */
export async function loadIndexes(
  parts: IndexStartParts,
  signal: AbortSignal,
): Promise<Map<string, LoadedIndex>> {
  const loaded = new Map<string, LoadedIndex>();
  const { env, dataFolder } = parts;
  const snapshots = await listSnapshots(env.disk, snapshotFolder(dataFolder));
  for (const namespace of parts.namespaces.values()) {
    signal.throwIfAborted();
    const index = await loadIndex(parts, namespace, snapshots[0]?.segment ?? 0);
    if (index !== null) loaded.set(namespace.name, index);
  }
  return loaded;
}

async function loadIndex(
  parts: IndexStartParts,
  namespace: NamespaceState,
  segmentMin: number,
): Promise<LoadedIndex | null> {
  const { env, log, dataFolder, identity, shards } = parts;
  const path = indexFilePath(dataFolder, namespace.name);
  try {
    await using file = await IndexFile.open(env.disk, path);
    if (file === null) return null;
    const manifest = decodeIndexManifest(await file.manifest(), path);
    const isUsable =
      manifest.incarnation === identity.incarnation &&
      manifest.boot < identity.boot &&
      // Records of what was deleted before the snapshot are not in the log any more.
      manifest.segment >= segmentMin &&
      manifest.shardCount === shards.shardCount;
    if (!isUsable) {
      await removeIndexFile(env.disk, path);
      return null;
    }
    return await useIndex(parts, namespace, file, manifest);
  } catch (error) {
    const isFull = error instanceof TsdbError && error.code === 'RESOURCE_EXHAUSTED';
    if (!(error instanceof IndexFileCorrupt || isFull || isUnreadable(error))) throw error;
    log.error({ path, error: messageOf(error) }, 'saved index is not used; the index is made anew');
    if (!isFull) await setIndexFileAside(env.disk, path);
    return null;
  }
}

async function useIndex(
  parts: IndexStartParts,
  namespace: NamespaceState,
  file: IndexFile,
  manifest: IndexManifest,
): Promise<LoadedIndex> {
  const { store, env } = parts;
  const { blockSizeNanos } = namespace;
  let made: Uint32Array = new Uint32Array(0);
  let slots: Uint32Array = new Uint32Array(0);
  const place = ({ seriesCount, ordinalsEnd, present }: SavedSeries) => {
    if (ordinalsEnd > manifest.generations.length) {
      throw new IndexFileCorrupt(file.path, 'manifest has too few generations');
    }
    made = new Uint32Array(seriesCount);
    let count = 0;
    try {
      for (; count < seriesCount; count += 1) made[count] = store.createSeries(namespace.ordinal);
    } finally {
      made = made.subarray(0, count);
    }
    made.sort();
    slots = new Uint32Array(ordinalsEnd);
    const saved = enumerateBits(present, seriesCount);
    for (let i = 0; i < seriesCount; i += 1) slots[saved[i]!] = made[i]! + 1;
    return made;
  };
  try {
    const index = await file.load({ random: env.random, blockSizeNanos }, place);
    namespace.useIndex(index, made, manifest.mayShareIds);
  } catch (error) {
    for (const slot of made) store.releaseSeries(slot);
    throw error;
  }
  // With the generations before some are released.
  const loaded = new LoadedIndex(store, manifest, slots);
  namespace.release(slotsOfOthers(parts, namespace, made));
  await unmarkReplaced(parts, namespace, manifest.filesets, made);
  return loaded;
}

/**
 * Who is live in a block of which the saved fileset was replaced or removed is not known from the
 * index: the fileset that is there now is walked, and memory is asked.
 */
async function unmarkReplaced(
  { env, dataFolder, shards }: IndexStartParts,
  namespace: NamespaceState,
  saved: readonly SavedFileset[],
  slots: Uint32Array,
): Promise<void> {
  const found = new Set<string>();
  for (const id of shards.here()) {
    const folder = shardFolder(dataFolder, namespace.name, id);
    for (const { blockStartNanos, volume, complete } of await listFilesets(env.disk, folder)) {
      if (complete) found.add(`${id} ${blockStartNanos} ${volume}`);
    }
  }
  const shardsOfBlock = new Map<bigint, Set<number>>();
  for (const { shard, blockStartNanos, blockSizeNanos, volume } of saved) {
    if (found.has(`${shard} ${blockStartNanos} ${volume}`)) continue;
    const end = blockStartNanos + blockSizeNanos;
    for (let start = blockStartNanos; start < end; start += namespace.blockSizeNanos) {
      shardsOfBlock.set(start, (shardsOfBlock.get(start) ?? new Set()).add(shard));
    }
  }
  const { index } = namespace;
  for (const [start, replaced] of shardsOfBlock) {
    const others = slots.filter((slot) => index.has(slot) && replaced.has(index.shard(slot)));
    index.unmarkLive(others, start);
  }
}

/** Series of shards that are not here any more. */
function slotsOfOthers(
  { shards }: IndexStartParts,
  { index }: NamespaceState,
  slots: Uint32Array,
): Uint32Array {
  return slots.filter((slot) => !shards.isHere(index.shard(slot)));
}
