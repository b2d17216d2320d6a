/**
 * Brings parked data back into use (docs/STORAGE.md, Parked data) that are this node's again: as what
 * it has on its disk. Whether the shard counts then is for others to say (shard_jobs.ts).
 */
import { BrokenInvariant } from '#lib/assert.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { copyOfName, type SeriesName } from '#lib/series_id/series_name.ts';
import {
  decodeInfo,
  FilesetCorrupt,
  type FilesetKey,
  filesetPath,
  listFilesets,
  removeFileset,
  shardFolder,
} from '../persist/fileset/format.ts';
import { FilesetReader } from '../persist/fileset/reader.ts';
import { parkedData } from '../persist/parked_folder.ts';
import type { Deletions } from '../storage/deletions/deletions.ts';
import { BlockFile } from '../storage/filesets/block_file.ts';
import { VolumeWalk } from '../storage/filesets/volume_walk.ts';
import {
  type VolumeParts,
  type VolumeSeries,
  type VolumeSource,
  writeVolume,
} from '../storage/flush/volume.ts';
import type { NamespaceState } from '../storage/namespace/namespace.ts';
import type { ParkedData, ParkedEntry } from '../storage/parking/parked_data.ts';
import { keepRange } from '../storage/tombstones/chunk_cut.ts';
import { type FilesystemParts, loadShard } from './filesystem.ts';
import type { CorruptShard } from './local.ts';

/** What it takes to bring parked data back. */
export interface BringBackParts extends FilesystemParts, VolumeParts {
  readonly deletions: Pick<Deletions, 'noteFiles'>;
  readonly parked: ParkedData;
  /** As `Database.noteFiles`. */
  noteFiles(blockEndNanos: bigint | null): void;
}

/** A shard of a namespace of which something is parked. */
interface ParkedShard {
  readonly namespace: NamespaceState;
  readonly shard: number;
}

/** Shards of this node of which something is parked. */
export function parkedShards({ namespaces, shards, parked }: BringBackParts): ParkedShard[] {
  return [...namespaces.values()].flatMap((namespace) => {
    const entries = parked.entriesOf(namespace.definition, shards.shardCount);
    const ids = new Set(entries.flatMap((entry) => [...entry.shards]));
    return [...ids].flatMap((shard) =>
      shards.get(shard) === undefined ? [] : [{ namespace, shard }],
    );
  });
}

/**
 * Brings back what is parked of the shards of this node; one at a time, and deletions of the cluster are
 * applied.
 * @returns blocks that are damaged
 * @throws {TsdbError} UNAVAILABLE when the disk fails, or series are deleted meanwhile: to be called
 *   again
 */
export async function bringBack(
  parts: BringBackParts,
  signal: AbortSignal,
): Promise<readonly CorruptShard[]> {
  const corrupt: CorruptShard[] = [];
  const all = parkedShards(parts);
  if (all.length === 0) return corrupt;
  try {
    // Rows that are written from here on and derive their versions may meet them.
    parts.noteFiles(null);
    for (const each of all) {
      signal.throwIfAborted();
      corrupt.push(...(await bringBackShard(parts, each, signal)));
    }
  } catch (error) {
    const isKnown = error instanceof TsdbError || error instanceof BrokenInvariant;
    if (isKnown || signal.aborted) throw error;
    const message = `cannot bring parked data back: ${messageOf(error)}`;
    throw new TsdbError('UNAVAILABLE', message, { cause: error });
  } finally {
    parts.deletions.noteFiles();
  }
  return corrupt;
}

async function bringBackShard(
  parts: BringBackParts,
  { namespace, shard }: ParkedShard,
  signal: AbortSignal,
): Promise<CorruptShard[]> {
  const { parked, shards, env, dataFolder, log } = parts;
  const found = new Set<bigint>();
  for (const entry of parked.entriesOf(namespace.definition, shards.shardCount)) {
    if (!entry.shards.has(shard)) continue;
    entry.isBusy = true;
    try {
      await removeExpired(parts, entry, shard);
      const folder = shardFolder(dataFolder, namespace.name, shard);
      const from = shardOf(parts, entry, shard);
      const isEmpty = (await env.disk.list(folder)).length === 0;
      // Moved by an attempt that failed then.
      const isThere = (await env.disk.list(from)).length === 0;
      const blocks =
        isEmpty || isThere
          ? await useFolder(parts, namespace, entry, shard, signal)
          : await mergeFolder(parts, namespace, entry, shard, signal);
      for (const block of blocks) found.add(block);
      await parked.forgetShard(entry, shard);
    } finally {
      entry.isBusy = false;
    }
    const fields = { parked: entry.number, namespace: namespace.name, shard };
    log.info({ ...fields, damaged: found.size }, 'parked data are in use again');
  }
  return found.size === 0 ? [] : [{ namespace, shard, blocks: found }];
}

function shardOf({ dataFolder }: BringBackParts, { number }: ParkedEntry, shard: number): string {
  return `${parkedData(dataFolder, number)}/${shard}`;
}

/** A retention that became longer meanwhile brings nothing back. */
async function removeExpired(
  parts: BringBackParts,
  entry: ParkedEntry,
  shard: number,
): Promise<void> {
  const { env } = parts;
  const { kept } = entry;
  const folder = shardOf(parts, entry, shard);
  for (const fileset of await listFilesets(env.disk, folder)) {
    if (fileset.blockStartNanos >= kept.expiredBeforeNanos) continue;
    const path = filesetPath(folder, fileset, 'info');
    const info = await env.disk
      .readFile(path)
      .then(decodeInfo)
      .catch(() => null);
    const isExpired =
      info !== null && fileset.blockStartNanos + info.blockSizeNanos <= kept.expiredBeforeNanos;
    if (isExpired) await removeFileset(env.disk, folder, fileset);
  }
}

/** The usual case: the shard has no files in use. @returns blocks that are damaged */
async function useFolder(
  parts: BringBackParts,
  namespace: NamespaceState,
  entry: ParkedEntry,
  shard: number,
  signal: AbortSignal,
): Promise<ReadonlySet<bigint>> {
  const { env, dataFolder, parked } = parts;
  const { files } = namespace;
  return files.write(shard, async (dropped) => {
    if ((await env.disk.list(shardOf(parts, entry, shard))).length > 0) {
      await parked.giveBack(entry, shard, shardFolder(dataFolder, namespace.name, shard));
    }
    // Those of an attempt that failed.
    for (const file of files.all(shard)) files.retire(file, 'keep');
    files.forgetFolder(shard);
    const either = AbortSignal.any([signal, dropped]);
    const report = await loadShard(parts, namespace, shard, null, undefined, either);
    return report.corruptBlocks.union(report.unrepairedBlocks);
  });
}

/**
 * The shard has files: what is parked is merged into them. @returns blocks that are damaged
 */
async function mergeFolder(
  parts: BringBackParts,
  namespace: NamespaceState,
  entry: ParkedEntry,
  shard: number,
  signal: AbortSignal,
): Promise<ReadonlySet<bigint>> {
  const { env, log, retentionClock } = parts;
  const folder = shardOf(parts, entry, shard);
  const damaged = new Set<bigint>();
  const merged = new Set<bigint>();
  const filesets = (await listFilesets(env.disk, folder)).filter(({ complete }) => complete);
  // As at a start: long ones before those that they stand for, the highest volume of a block first.
  filesets.sort((a, b) => Number(a.blockStartNanos - b.blockStartNanos) || b.volume - a.volume);
  for (const fileset of filesets) {
    if (merged.has(fileset.blockStartNanos)) continue;
    try {
      const file = await blockFileOf(parts, folder, fileset);
      for (const start of namespace.files.blocksOf(file)) {
        merged.add(start);
        if (namespace.isExpired(start, retentionClock.nowNanos())) continue;
        await mergeBlock(parts, namespace, file, start, signal);
      }
    } catch (error) {
      if (!(error instanceof FilesetCorrupt)) throw error;
      damaged.add(fileset.blockStartNanos);
      log.error({ path: error.path, error: error.message }, 'parked fileset is corrupt');
    }
  }
  return damaged;
}

async function blockFileOf(
  { env }: BringBackParts,
  folder: string,
  fileset: FilesetKey,
): Promise<BlockFile> {
  await using reader = await FilesetReader.open(env.disk, folder, fileset);
  return new BlockFile(folder, reader.info, reader.seriesCount, reader.digest);
}

async function mergeBlock(
  parts: BringBackParts,
  namespace: NamespaceState,
  file: BlockFile,
  blockStartNanos: bigint,
  signal: AbortSignal,
): Promise<void> {
  const { files, blockSizeNanos, tombstones } = namespace;
  const { shard } = file;
  await files.write(shard, async (dropped) => {
    // What is deleted from here on the walk does not know.
    const deletionVersion = tombstones.versionOf(blockStartNanos, blockSizeNanos);
    await using walk = await VolumeWalk.open(parts.env.disk, files, file, null);
    const source = new ParkedBlock(namespace, walk, blockStartNanos);
    const volume = {
      namespace,
      shard,
      blockStartNanos,
      source: 'flush',
      deletionVersion,
      onSafe: () => source.markLive(),
    } as const;
    await writeVolume(parts, volume, source, AbortSignal.any([signal, dropped]));
  });
}

/** What a parked fileset has of one block. */
class ParkedBlock implements VolumeSource {
  readonly #namespace: NamespaceState;
  readonly #walk: VolumeWalk;
  readonly #startNanos: bigint;
  readonly #names: SeriesName[] = [];

  constructor(namespace: NamespaceState, walk: VolumeWalk, startNanos: bigint) {
    this.#namespace = namespace;
    this.#walk = walk;
    this.#startNanos = startNanos;
  }

  async next(): Promise<readonly VolumeSeries[] | null> {
    const walk = this.#walk;
    const endNanos = this.#startNanos + this.#namespace.blockSizeNanos;
    for (; walk.id !== null; walk.step()) {
      const all = await walk.chunks();
      const chunks = all === null ? null : keepRange(all, this.#startNanos, endNanos);
      if (chunks === null || chunks.length === 0) continue;
      const name = copyOfName(walk.name);
      const id = walk.id.slice();
      this.#names.push(name);
      // They are borrowed until the walk goes on.
      const series = { id, name, chunks: chunks.slice() };
      walk.step();
      return [series];
    }
    // Before the fileset counts: what stays in no index would be missing from answers.
    for (const name of this.#names) this.#namespace.resolveHere(name);
    return null;
  }

  /** The series are live in the block from the step on in which its fileset is in use. */
  markLive(): void {
    for (const name of this.#names) {
      const slot = this.#namespace.resolveHere(name);
      if (slot >= 0) this.#namespace.index.markLiveOne(slot, this.#startNanos);
    }
  }
}
