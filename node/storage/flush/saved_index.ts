/**
 * The index of a namespace beside a snapshot, so that a start neither walks filesets nor inserts
 * series one by one. It is derived from what else is on the disk: without it, or when it is
 * damaged, a start takes longer and finds the same.
 */
import type { SampleStore } from '#engine/store/sample_store.ts';
import type { Env } from '#lib/env/env.ts';
import { messageOf } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { namespaceFolder } from '../../persist/fileset/format.ts';
import { makeDurableFolder } from '../../persist/folders.ts';
import {
  indexFilePath,
  removeIndexFile,
  writeIndexFile,
} from '../../persist/index_file/index_file.ts';
import { encodeIndexManifest, type SavedFileset } from '../../persist/index_file/manifest.ts';
import type { NodeIdentity } from '../../identity/node_identity.ts';
import type { BlockFile } from '../filesets/block_file.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import type { ShardTable } from '../namespace/shards.ts';

/** What it takes to save an index. */
export interface SavedIndexParts {
  readonly env: Env;
  readonly log: Log;
  readonly dataFolder: string;
  readonly identity: NodeIdentity;
  readonly store: SampleStore;
  readonly shards: ShardTable;
}

/** What a manifest says of a fileset. */
export function savedFilesetOf(file: BlockFile): SavedFileset {
  const { shard, blockStartNanos, volume, indexCrc32c, seriesCount } = file;
  const { blockSizeNanos } = file.info;
  return { shard, blockStartNanos, blockSizeNanos, volume, indexCrc32c, seriesCount };
}

/** Filesets may come and go while an index is saved; then it is saved again. */
const attemptsMax = 3;

/** One string for each fileset that is told apart. */
export function savedFilesetKey(
  fileset: Omit<SavedFileset, 'seriesCount' | 'blockSizeNanos'>,
): string {
  const { shard, blockStartNanos, volume, indexCrc32c } = fileset;
  return `${shard} ${blockStartNanos} ${volume} ${indexCrc32c}`;
}

/**
 * Saves the index of a namespace with all that stands in segments before `segment`. When that fails
 * there is none.
 * @returns bytes of the file, 0 when there is none
 * @throws what the disk rejects with when an older one cannot be removed; the signal's reason
 */
export async function saveIndex(
  parts: SavedIndexParts,
  namespace: NamespaceState,
  segment: number,
  signal: AbortSignal,
): Promise<number> {
  const { env, dataFolder, identity, log, shards } = parts;
  const { truncations } = namespace;
  const path = indexFilePath(dataFolder, namespace.name);
  try {
    const folder = namespaceFolder(dataFolder, namespace.name);
    await makeDurableFolder(env.disk, dataFolder, folder);
    for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
      const { changes } = namespace.files;
      // Nothing is waited for from here to the first step of the save: both are of one moment.
      const manifest = encodeIndexManifest({
        incarnation: identity.incarnation,
        boot: identity.boot,
        segment,
        shardCount: shards.shardCount,
        mayShareIds: namespace.mayShareIds,
        // Without those whose series have left the index: one whose columns are gone is walked.
        filesets: namespace.files
          .all(null)
          .filter(({ isClosed }) => !isClosed)
          .map(savedFilesetOf),
        generations: parts.store.generation.slice(0, namespace.slotsEnd),
      });
      const bytes = await writeIndexFile(env.disk, path, namespace.index, manifest, signal);
      if (namespace.truncations !== truncations) break;
      // Of a fileset that went meanwhile series may have left the index before the save came to
      // them, and the file may be back after a power loss.
      if (namespace.files.changes === changes) return bytes;
    }
  } catch (error) {
    signal.throwIfAborted();
    log.warn({ path, error: messageOf(error) }, 'index could not be saved; a start takes longer');
  }
  await removeIndexFile(env.disk, path);
  return 0;
}
