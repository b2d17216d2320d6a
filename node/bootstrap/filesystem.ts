/**
 * Puts the filesets of a shard in use: their series enter the index, their data stay on disk. What
 * cannot be trusted is set aside by name and reported; its neighbours are served.
 */
import { isOfWindows } from '#cluster/namespaces/samples.ts';
import { blockStartOf } from '#lib/block_time.ts';
import type { Env } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { copyOfName, type SeriesName } from '#lib/series_id/series_name.ts';
import {
  decodeInfo,
  FilesetCorrupt,
  type FilesetKey,
  FilesetUnfinished,
  type FilesetInfo,
  filesetPath,
  listShardFolder,
  pathAside,
  removeFileset,
  removeFilesetAside,
  removeLeftBeside,
  setFilesetAside,
  shardFolder,
} from '../persist/fileset/format.ts';
import { type FilesetHead, FilesetReader } from '../persist/fileset/reader.ts';
import { openSeriesColumns } from '../persist/series_columns/file.ts';
import { SeriesColumnsCorrupt } from '../persist/series_columns/format.ts';
import { Directory } from '../storage/filesets/directory.ts';
import { BlockFile } from '../storage/filesets/block_file.ts';
import { spanNanosMaxOf, spanNanosOf } from '../storage/flush/due_spans.ts';
import type { Flusher } from '../storage/flush/flusher.ts';
import type { RetentionClock } from '../clock/retention_clock.ts';
import type { NamespaceState } from '../storage/namespace/namespace.ts';
import type { LoadedIndex } from './index_start.ts';

/** What it takes to put filesets in use. */
export interface FilesystemParts {
  readonly env: Env;
  readonly log: Log;
  readonly dataFolder: string;
  readonly namespaces: ReadonlyMap<string, NamespaceState>;
  readonly retentionClock: RetentionClock;
  /** Makes room in memory. */
  readonly flusher: Pick<Flusher, 'runDue'>;
}

export interface FilesystemReport {
  filesets: number;
  /** Those whose series were not in a saved index. */
  walked: number;
  /** Entries of filesets. */
  series: number;
  /** Blocks that were on disk and could not be trusted, to be fetched from peers again. */
  readonly corruptBlocks: Set<bigint>;
  /** The same, found by an earlier start or while the node ran, and not fetched since. */
  readonly unrepairedBlocks: Set<bigint>;
}

const retryMillisFirst = 250;
const retryMillisMax = 10_000;

/**
 * Waits as long as memory has no room for the series: without them an answer would count as whole
 * that is not.
 *
 * @param saved the index that was loaded for the namespace: filesets that it names are not walked
 * @param truncatedAtNanos filesets made before this time hold what was deleted, and are removed
 */
export async function loadShard(
  parts: FilesystemParts,
  namespace: NamespaceState,
  shard: number,
  truncatedAtNanos: bigint | null,
  saved: LoadedIndex | undefined,
  signal: AbortSignal,
): Promise<FilesystemReport> {
  const { env, log, dataFolder } = parts;
  const folder = shardFolder(dataFolder, namespace.name, shard);
  const listed = await listShardFolder(env.disk, folder);
  const report: FilesystemReport = {
    filesets: 0,
    walked: 0,
    series: 0,
    corruptBlocks: new Set(),
    unrepairedBlocks: await loadAsides(parts, namespace, shard, listed.asides, truncatedAtNanos),
  };
  const now = parts.retentionClock.nowNanos();
  // Blocks ascend, so that a long fileset comes before those of its blocks that it stands for. The
  // highest volume of a block comes first; a lower one counts only when that is damaged.
  const filesets = listed.filesets.sort(
    (a, b) => Number(a.blockStartNanos - b.blockStartNanos) || b.volume - a.volume,
  );
  for (const fileset of filesets) {
    signal.throwIfAborted();
    const { blockStartNanos } = fileset;
    const isReplaced = namespace.files.get(shard, blockStartNanos) !== null;
    if (!fileset.complete || isReplaced) {
      await removeFileset(env.disk, folder, fileset);
      continue;
    }
    if (namespace.isExpired(blockStartNanos, now)) {
      const info = await infoOf(parts, filesetPath(folder, fileset, 'info'));
      const endNanos = endOf(namespace, fileset, info);
      if (namespace.isExpired(endNanos - namespace.blockSizeNanos, now)) {
        if (namespace.options.cleanupEnabled) await removeFileset(env.disk, folder, fileset);
        continue;
      }
    }
    try {
      const head = await FilesetReader.openHead(env.disk, folder, fileset);
      if (truncatedAtNanos !== null && head.info.createdNanos <= truncatedAtNanos) {
        await removeFileset(env.disk, folder, fileset);
        continue;
      }
      const seriesCount = saved?.seriesCountOf(shard, head) ?? null;
      const closed = await closedOf(parts, namespace, folder, head);
      if (closed !== null) {
        report.series += await useClosed(parts, namespace, folder, head, closed, signal);
      } else if (seriesCount !== null) {
        namespace.files.adopt(new BlockFile(folder, head.info, seriesCount, head.digest));
        report.series += seriesCount;
      } else {
        report.series += await walkFileset(parts, namespace, folder, fileset, signal);
        report.walked += 1;
      }
      report.filesets += 1;
    } catch (error) {
      if (error instanceof FilesetUnfinished) {
        await removeFileset(env.disk, folder, fileset);
        continue;
      }
      if (!isDamage(error)) throw error;
      const info = await infoOf(parts, filesetPath(folder, fileset, 'info'));
      const endNanos = endOf(namespace, fileset, info);
      await setAside(parts, folder, fileset, error);
      namespace.files.noteAside({ ...fileset, folder, shard, endNanos });
      for (const start of namespace.files.blocksOf({ blockStartNanos, endNanos })) {
        if (!namespace.isExpired(start, now)) report.corruptBlocks.add(start);
      }
    }
  }
  await removeLeftBeside(env.disk, folder);
  const { corruptBlocks, unrepairedBlocks } = report;
  if (corruptBlocks.size + unrepairedBlocks.size > 0) {
    const fields = { folder, found: corruptBlocks.size, unrepaired: unrepairedBlocks.size };
    log.warn(fields, 'blocks of a shard are damaged');
  }
  return report;
}

/** What a closed fileset has beside it. */
interface ClosedFileset {
  readonly seriesCount: number;
  /** Series whose ID does not tell their tags. */
  readonly untold: readonly SeriesName[];
}

/** Of a fileset of windows whose columns are there, by which its series are asked. Null for any other. */
async function closedOf(
  { env }: FilesystemParts,
  { definition }: NamespaceState,
  folder: string,
  { info, digest }: FilesetHead,
): Promise<ClosedFileset | null> {
  if (!isOfWindows(definition)) return null;
  const columns = await openSeriesColumns(env.disk, folder, info, digest.index.crc32c);
  if (columns === null) return null;
  const seriesCount = columns.entryCount;
  try {
    const entries = await columns.untold();
    if (entries.length === 0) return { seriesCount, untold: [] };
    const names = await columns.entryNames();
    return { seriesCount, untold: Array.from(entries, (entry) => copyOfName(names.of(entry))) };
  } catch (error) {
    if (error instanceof SeriesColumnsCorrupt) return null;
    throw error;
  }
}

/** Puts a closed fileset in use: the index has those of its series whose ID does not tell their tags. */
async function useClosed(
  parts: FilesystemParts,
  namespace: NamespaceState,
  folder: string,
  { info, digest }: FilesetHead,
  { seriesCount, untold }: ClosedFileset,
  signal: AbortSignal,
): Promise<number> {
  const file = new BlockFile(folder, info, seriesCount, digest);
  file.isClosed = true;
  const slots = await untilThereIsRoom(parts, folder, info, signal, async () =>
    untold.map((name) => namespace.resolveHere(name)).filter((slot) => slot >= 0),
  );
  if (slots.length > 0) {
    for (const start of namespace.files.blocksOf(file)) namespace.index.markLive(slots, start);
  }
  namespace.files.adopt(file);
  return seriesCount;
}

/**
 * Knows of the filesets that were set aside and not repaired, as when the node was stopped before
 * that.
 * @returns their blocks
 */
async function loadAsides(
  parts: FilesystemParts,
  namespace: NamespaceState,
  shard: number,
  asides: readonly FilesetKey[],
  truncatedAtNanos: bigint | null,
): Promise<Set<bigint>> {
  const { env, dataFolder } = parts;
  const folder = shardFolder(dataFolder, namespace.name, shard);
  const now = parts.retentionClock.nowNanos();
  const blocks = new Set<bigint>();
  for (const fileset of asides) {
    const path = filesetPath(folder, fileset, 'info');
    // It keeps its name when the renaming stopped halfway.
    const info = (await infoOf(parts, pathAside(path))) ?? (await infoOf(parts, path));
    const endNanos = endOf(namespace, fileset, info);
    const isTruncated = info !== null && info.createdNanos <= (truncatedAtNanos ?? -1n);
    const isExpired = namespace.isExpired(endNanos - namespace.blockSizeNanos, now);
    if (isTruncated || isExpired) {
      if (isTruncated || namespace.options.cleanupEnabled) {
        await removeFilesetAside(env.disk, folder, fileset);
      }
      continue;
    }
    const aside = { ...fileset, folder, shard, endNanos };
    namespace.files.noteAside(aside);
    for (const start of namespace.files.blocksOf(aside)) {
      if (!namespace.isExpired(start, now)) blocks.add(start);
    }
  }
  return blocks;
}

/**
 * What a fileset says of itself. Null when that is damaged, or not there: whoever reads all of it
 * says so.
 */
async function infoOf({ env }: FilesystemParts, path: string): Promise<FilesetInfo | null> {
  try {
    return decodeInfo(await env.disk.readFile(path));
  } catch {
    return null;
  }
}

/** End of the last block of a fileset, or of what it may have at most when it does not tell. */
function endOf(namespace: NamespaceState, fileset: FilesetKey, info: FilesetInfo | null): bigint {
  const { blockSizeNanos, retentionNanos, definition } = namespace;
  const { blockStartNanos } = fileset;
  const spanNanosMax = spanNanosMaxOf(definition);
  // The span may have been longer when the fileset was written: retention can be changed.
  const saidNanos = info?.blockSizeNanos ?? 0n;
  const isSpan = saidNanos % blockSizeNanos === 0n && saidNanos > 0n;
  if (isSpan && saidNanos <= spanNanosMax) return blockStartNanos + saidNanos;
  const spanNanos = spanNanosOf({ blockSizeNanos, retentionNanos, spanNanosMax });
  const mayBeLong = blockStartOf(blockStartNanos, spanNanos) === blockStartNanos;
  return blockStartNanos + (mayBeLong ? spanNanos : blockSizeNanos);
}

async function setAside(
  parts: FilesystemParts,
  folder: string,
  fileset: FilesetKey,
  error: Error,
): Promise<void> {
  const { env, log } = parts;
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
 * Walks a fileset and puts it in use, again and again until memory has room for its series.
 * @returns how many series it has here
 */
async function walkFileset(
  parts: FilesystemParts,
  namespace: NamespaceState,
  folder: string,
  fileset: FilesetKey,
  signal: AbortSignal,
): Promise<number> {
  return untilThereIsRoom(parts, folder, fileset, signal, async () => {
    await using reader = await FilesetReader.open(parts.env.disk, folder, fileset);
    return useFileset(namespace, folder, reader);
  });
}

async function untilThereIsRoom<T>(
  parts: FilesystemParts,
  folder: string,
  fileset: FilesetKey,
  signal: AbortSignal,
  attempt: () => Promise<T>,
): Promise<T> {
  const { env, log } = parts;
  for (let delay = retryMillisFirst; ; delay = Math.min(retryMillisMax, delay * 2)) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof TsdbError && error.code === 'RESOURCE_EXHAUSTED')) throw error;
      const fields = { path: filesetPath(folder, fileset, 'info'), error: messageOf(error) };
      log.error(fields, 'the start waits: db.memoryMax has no room for the series of a fileset');
    }
    await makeRoom(parts, signal);
    await env.clock.sleep(delay * (0.5 + env.random.fraction()), signal);
  }
}

/** Drops what is past retention, and flushes the rows of shards that are loaded already. */
async function makeRoom(parts: FilesystemParts, signal: AbortSignal): Promise<void> {
  const now = parts.retentionClock.nowNanos();
  for (const namespace of parts.namespaces.values()) namespace.expire(now);
  await parts.flusher.runDue(signal);
}

/**
 * Puts a fileset in use, with its series in the index.
 * @returns how many series it has here
 * @throws {TsdbError} RESOURCE_EXHAUSTED when memory has no room for them: nothing has changed then
 * but for slots
 */
function useFileset(namespace: NamespaceState, folder: string, reader: FilesetReader): number {
  const { info, index, digest } = reader;
  const directory = Directory.of(index, (series) => namespace.resolveHere(series));
  const file = new BlockFile(folder, info, index.seriesCount, digest);
  // Which of a long fileset's blocks a series has rows in is not known: all of them, then.
  for (const start of namespace.files.blocksOf(file)) {
    namespace.index.markLive(directory.slots, start);
  }
  namespace.files.adopt(file);
  namespace.files.directories.keep(file, directory);
  return directory.slots.length;
}
