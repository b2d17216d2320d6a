/**
 * The first part of a bootstrap: what is on this disk, for the namespaces and shards of this node, and
 * for those that were taken from it while it was away.
 */
import type { UnixNanos } from '#lib/time.ts';
import { commitlogFolder, listSegments } from '../persist/commitlog/commitlog.ts';
import { readSegmentHeader } from '../persist/commitlog/reader.ts';
import { removeTakenFolders } from '../persist/folders.ts';
import { listSnapshots, snapshotFolder } from '../persist/snapshot_file.ts';
import type { DoubtLedger } from '../doubt/ledger.ts';
import type { Snapshots } from '../storage/flush/snapshot.ts';
import type { NamespaceState } from '../storage/namespace/namespace.ts';
import type { ParkedData } from '../storage/parking/parked_data.ts';
import { type FilesystemParts, loadShard } from './filesystem.ts';
import { type IndexStartParts, loadIndexes } from './index_start.ts';
import { noteDoubts } from './doubts.ts';
import { type ReplayParts, type ReplayReport, replayCommitlog } from './replay.ts';

/** What it takes to load what is on this disk. */
export interface LocalParts extends FilesystemParts, IndexStartParts, ReplayParts {
  readonly parked: Pick<ParkedData, 'holds'>;
  readonly snapshots: Pick<Snapshots, 'noteSaved' | 'demand'>;
  readonly doubts: DoubtLedger;
}

export interface LocalReport {
  readonly replay: ReplayReport;
  readonly filesets: number;
  /** Those of which the series were not in a saved index. */
  readonly filesetsWalked: number;
  /** Namespaces whose saved index was used. */
  readonly indexes: number;
  /** Blocks that were found damaged on disk, by namespace and shard. */
  readonly corrupt: readonly CorruptShard[];
  /** Blocks that were found damaged before, and not repaired since. */
  readonly unrepaired: readonly CorruptShard[];
}

export interface CorruptShard {
  readonly namespace: NamespaceState;
  readonly shard: number;
  readonly blocks: ReadonlySet<bigint>;
}

/** When the newest file of the commit log was begun; what the clock shows when there is none. */
async function lastKnownNanos({ env, dataFolder }: LocalParts): Promise<UnixNanos> {
  const snapshots = await listSnapshots(env.disk, snapshotFolder(dataFolder));
  const segments = await listSegments(env, commitlogFolder(dataFolder));
  let newest: UnixNanos | null = null;
  for (const { path } of [...snapshots, ...segments]) {
    const header = await readSegmentHeader(env.disk, path).catch(() => 'unreadable');
    if (typeof header === 'string') continue;
    if (newest === null || header.createdNanos > newest) newest = header.createdNanos;
  }
  return newest ?? env.clock.nowNanos();
}

/**
 * Loads commit log and filesets. The order of the two does not matter to the result, since rows are
 * merged by their versions; the log goes first because it tells what was deleted.
 */
export async function bootstrapLocal(parts: LocalParts, signal: AbortSignal): Promise<LocalReport> {
  const started = parts.env.clock.monotonicMillis();
  await removeTakenFolders(parts.env.disk, parts.dataFolder);
  parts.retentionClock.startFrom(await lastKnownNanos(parts));
  const indexes = await loadIndexes(parts, signal);
  const replay = await replayCommitlog(parts, indexes, signal);
  await noteDoubts(parts, replay.lost);
  if (replay.lost.length > 0) parts.snapshots.demand();
  let filesets = 0;
  let filesetsWalked = 0;
  const corrupt: CorruptShard[] = [];
  const unrepaired: CorruptShard[] = [];
  for (const namespace of parts.namespaces.values()) {
    let walked = 0;
    const index = indexes.get(namespace.name);
    const truncatedAt = replay.truncatedAtNanos.get(namespace.name) ?? null;
    for (const id of parts.shards.here()) {
      const report = await loadShard(parts, namespace, id, truncatedAt, index, signal);
      filesets += report.filesets;
      walked += report.walked;
      const { corruptBlocks, unrepairedBlocks } = report;
      if (corruptBlocks.size > 0) corrupt.push({ namespace, shard: id, blocks: corruptBlocks });
      if (unrepairedBlocks.size > 0) {
        unrepaired.push({ namespace, shard: id, blocks: unrepairedBlocks });
      }
      const { shards, parked } = parts;
      const isParked = parked.holds(namespace.definition, shards.shardCount, id);
      if (isParked || shards.get(id)?.state === 'INITIALIZING') continue;
      namespace.readyShards.add(id);
      const doubted = parts.doubts.blocksOf(namespace.name, id);
      if (doubted.size > 0) namespace.readyShards.doubt(id, doubted);
    }
    if (walked === 0 && index !== undefined) parts.snapshots.noteSaved(namespace);
    filesetsWalked += walked;
  }
  const now = parts.retentionClock.nowNanos();
  for (const namespace of parts.namespaces.values()) namespace.expire(now);
  parts.log.info(
    {
      millis: Math.round(parts.env.clock.monotonicMillis() - started),
      segments: replay.segments,
      rows: replay.rows,
      snapshotSeries: replay.snapshotSeries,
      rowsPassedOver: replay.rowsPassedOver,
      rowsWithoutSeries: replay.rowsWithoutSeries,
      problems: replay.problems.length,
      filesets,
      filesetsWalked,
      indexes: indexes.size,
      series: parts.store.seriesCount,
      blocksInDoubt: parts.doubts.size,
    },
    'data of this disk loaded',
  );
  return { replay, filesets, filesetsWalked, indexes: indexes.size, corrupt, unrepaired };
}
