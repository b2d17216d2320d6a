/**
 * Loads the filesets of a shard into the engine. What cannot be trusted is set aside by name and
 * reported; its neighbours are loaded.
 */
import { TsdbError } from '#lib/errors.ts';
import {
  FilesetCorrupt,
  type FilesetKey,
  filesetPath,
  listFilesets,
  removeFileset,
  setFilesetAside,
  shardFolder,
} from '../persist/fileset_format.ts';
import { FilesetReader } from '../persist/fileset_reader.ts';
import type { Database } from '../storage/database.ts';
import type { NamespaceState } from '../storage/namespace.ts';

export interface FilesystemReport {
  filesets: number;
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
  const filesets = await listFilesets(env.disk, folder);
  const oldestNanos = env.clock.nowNanos() - namespace.retentionNanos;
  for (const fileset of filesets) {
    signal.throwIfAborted();
    const isReplaced = filesets.some(
      (other) =>
        other.complete &&
        other.blockStartNanos === fileset.blockStartNanos &&
        other.volume > fileset.volume,
    );
    const isExpired = fileset.blockStartNanos + namespace.blockSizeNanos <= oldestNanos;
    if (!fileset.complete || isReplaced || isExpired) {
      await removeFileset(env.disk, folder, fileset);
      continue;
    }
    try {
      await using reader = await FilesetReader.open(env.disk, folder, fileset);
      if (truncatedAtNanos !== null && reader.info.createdNanos <= truncatedAtNanos) {
        await removeFileset(env.disk, folder, fileset);
        continue;
      }
      await reader.verifyData();
      report.series += await loadFileset(database, namespace, reader);
      report.filesets += 1;
    } catch (error) {
      if (!isDamage(error)) throw error;
      const path = filesetPath(folder, fileset, 'info');
      log.error({ path, error: error.message }, 'fileset is corrupt and is set aside');
      await setFilesetAside(env.disk, folder, fileset);
      report.corruptBlocks.add(fileset.blockStartNanos);
    }
  }
  return report;
}

/** Damage of the file, and not a passing failure of the disk or a full memory. */
function isDamage(error: unknown): error is Error {
  if (error instanceof FilesetCorrupt) return true;
  return error instanceof TsdbError && error.code === 'BAD_REQUEST';
}

/**
 * Puts the series of a verified fileset into the engine.
 * @param truncations of the namespace when the fileset was known to be valid
 * @returns how many
 * @throws {TsdbError} UNAVAILABLE when the namespace was truncated since
 */
export async function loadFileset(
  database: Database,
  namespace: NamespaceState,
  reader: FilesetReader,
  truncations: number = namespace.truncations,
): Promise<number> {
  let count = 0;
  for await (const [entry, chunks] of reader.all()) {
    if (chunks.length === 0) continue;
    if (namespace.truncations !== truncations) throw truncatedMeanwhile(namespace);
    const slot = namespace.resolve(entry, Number.POSITIVE_INFINITY);
    if (slot < 0) continue;
    database.store.insertChunks(slot, chunks);
    namespace.index.markLiveOne(slot, reader.info.blockStartNanos);
    count += 1;
  }
  return count;
}

export function truncatedMeanwhile(namespace: NamespaceState): TsdbError {
  return new TsdbError('UNAVAILABLE', `namespace was truncated meanwhile: ${namespace.name}`);
}

/** A volume above all that the block has, complete or not. */
export async function nextVolume(
  database: Database,
  folder: string,
  blockStartNanos: bigint,
): Promise<number> {
  let volume = 0;
  const filesets: readonly FilesetKey[] = await listFilesets(database.env.disk, folder);
  for (const fileset of filesets) {
    if (fileset.blockStartNanos === blockStartNanos) volume = Math.max(volume, fileset.volume + 1);
  }
  return volume;
}
