/**
 * The first part of a bootstrap: what is on this disk, for the namespaces and shards of this node.
 */
import { removeTakenFolders } from '../persist/folders.ts';
import type { Database } from '../storage/database.ts';
import type { NamespaceState } from '../storage/namespace/namespace.ts';
import { loadShard } from './filesystem.ts';
import { loadIndexes } from './index_start.ts';
import { type ReplayReport, replayCommitlog } from './replay.ts';

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

/**
 * Loads commit log and filesets. The order of the two does not matter to the result, since rows are
 * merged by their versions; the log goes first because it tells what was deleted.
 */
export async function bootstrapLocal(
  database: Database,
  signal: AbortSignal,
): Promise<LocalReport> {
  const started = database.env.clock.monotonicMillis();
  await removeTakenFolders(database.env.disk, database.options.dataFolder);
  const indexes = await loadIndexes(database, signal);
  const replay = await replayCommitlog(database, indexes, signal);
  let filesets = 0;
  let filesetsWalked = 0;
  const corrupt: CorruptShard[] = [];
  const unrepaired: CorruptShard[] = [];
  for (const namespace of database.namespaces.values()) {
    let walked = 0;
    const index = indexes.get(namespace.name);
    const truncatedAt = replay.truncatedAtNanos.get(namespace.name) ?? null;
    for (const { id, state } of database.shards.all()) {
      const report = await loadShard(database, namespace, id, truncatedAt, index, signal);
      filesets += report.filesets;
      walked += report.walked;
      const { corruptBlocks, unrepairedBlocks } = report;
      if (corruptBlocks.size > 0) corrupt.push({ namespace, shard: id, blocks: corruptBlocks });
      if (unrepairedBlocks.size > 0) {
        unrepaired.push({ namespace, shard: id, blocks: unrepairedBlocks });
      }
      if (state !== 'INITIALIZING') namespace.readyShards.add(id);
    }
    if (walked === 0 && index !== undefined) database.snapshots.noteSaved(namespace);
    filesetsWalked += walked;
  }
  const now = database.env.clock.nowNanos();
  for (const namespace of database.namespaces.values()) namespace.expire(now);
  database.log.info(
    {
      millis: Math.round(database.env.clock.monotonicMillis() - started),
      segments: replay.segments,
      rows: replay.rows,
      snapshotSeries: replay.snapshotSeries,
      rowsPassedOver: replay.rowsPassedOver,
      rowsWithoutSeries: replay.rowsWithoutSeries,
      problems: replay.problems.length,
      filesets,
      filesetsWalked,
      indexes: indexes.size,
      series: database.store.seriesCount,
    },
    'data of this disk loaded',
  );
  return { replay, filesets, filesetsWalked, indexes: indexes.size, corrupt, unrepaired };
}
