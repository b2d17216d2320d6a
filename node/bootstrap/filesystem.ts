/**
 * Puts the filesets of a shard in use: their series enter the index, their data stay on disk. What cannot be
 * trusted is set aside by name and reported; its neighbours are served.
 */
import { TsdbError } from '#lib/errors.ts';
import {
  FilesetCorrupt,
  type FilesetKey,
  FilesetUnfinished,
  filesetPath,
  listFilesets,
  removeFileset,
  setFilesetAside,
  shardFolder,
} from '../persist/fileset_format.ts';
import { FilesetReader } from '../persist/fileset_reader.ts';
import type { Database } from '../storage/database.ts';
import { Directory } from '../storage/directory.ts';
import type { NamespaceState } from '../storage/namespace.ts';
import { BlockFile } from '../storage/namespace_files.ts';

export interface FilesystemReport {
  filesets: number;
  /** Entries of filesets. */
  series: number;
  /** Blocks that were on disk and could not be trusted, to be fetched from peers again. */
  readonly corruptBlocks: Set<bigint>;
}

/**
 * @param truncatedAtNanos filesets made before this time hold what was deleted, and are removed
 */
export async function loadShard(
  database: Database,
  namespace: NamespaceState,
  shard: number,
  truncatedAtNanos: bigint | null,
  signal: AbortSignal,
): Promise<FilesystemReport> {
  const { env, log, options } = database;
  const folder = shardFolder(options.dataFolder, namespace.name, shard);
  const report: FilesystemReport = { filesets: 0, series: 0, corruptBlocks: new Set() };
  const now = env.clock.nowNanos();
  // The highest volume of a block comes first; a lower one counts only when that is damaged.
  for (const fileset of (await listFilesets(env.disk, folder)).reverse()) {
    signal.throwIfAborted();
    const { blockStartNanos } = fileset;
    const isReplaced = namespace.files.get(shard, blockStartNanos) !== null;
    if (!fileset.complete || isReplaced) {
      await removeFileset(env.disk, folder, fileset);
      continue;
    }
    if (namespace.isExpired(blockStartNanos, now)) {
      if (namespace.options.cleanupEnabled) await removeFileset(env.disk, folder, fileset);
      continue;
    }
    try {
      await using reader = await FilesetReader.open(env.disk, folder, fileset);
      if (truncatedAtNanos !== null && reader.info.createdNanos <= truncatedAtNanos) {
        await removeFileset(env.disk, folder, fileset);
        continue;
      }
      report.series += useFileset(namespace, folder, reader);
      report.filesets += 1;
    } catch (error) {
      if (error instanceof FilesetUnfinished) {
        await removeFileset(env.disk, folder, fileset);
        continue;
      }
      if (!isDamage(error)) throw error;
      await setAside(database, folder, fileset, error);
      report.corruptBlocks.add(blockStartNanos);
    }
  }
  if (report.corruptBlocks.size > 0) log.warn({ folder }, 'blocks of a shard are damaged');
  return report;
}

async function setAside(
  database: Database,
  folder: string,
  fileset: FilesetKey,
  error: Error,
): Promise<void> {
  const { env, log } = database;
  const path = filesetPath(folder, fileset, 'info');
  log.error({ path, error: error.message }, 'fileset is corrupt and is set aside');
  await setFilesetAside(env.disk, folder, fileset);
}

/** Damage of the file, and not a passing failure of the disk or a full memory. */
function isDamage(error: unknown): error is Error {
  if (error instanceof FilesetCorrupt) return true;
  return error instanceof TsdbError && error.code === 'BAD_REQUEST';
}

/**
 * Puts a fileset in use, with its series in the index.
 * @returns how many series it has here
 */
function useFileset(namespace: NamespaceState, folder: string, reader: FilesetReader): number {
  const { info, index, digest } = reader;
  const directory = Directory.of(index, (series) =>
    namespace.resolve(series, Number.POSITIVE_INFINITY),
  );
  namespace.index.markLive(directory.slots, info.blockStartNanos);
  const file = new BlockFile(folder, info, index.seriesCount, digest);
  namespace.files.adopt(file);
  namespace.files.keepDirectory(file, directory);
  return directory.slots.length;
}
