/**
 * What the node does every few seconds: it forgets what is past retention, in memory and on disk.
 */
import { commitlogFolder, type SegmentInfo } from '../../persist/commitlog/commitlog.ts';
import type { Database } from '../database.ts';
import { expireNamespace } from './series_removal.ts';

export interface TickReport {
  seriesExpired: number;
  segmentsDeleted: number;
  filesetsDeleted: number;
}

export async function tick(database: Database): Promise<TickReport> {
  const report: TickReport = { seriesExpired: 0, segmentsDeleted: 0, filesetsDeleted: 0 };
  const now = database.env.clock.nowNanos();
  for (const namespace of database.namespaces.values()) {
    const { series, filesets } = await expireNamespace(database, namespace, now);
    report.seriesExpired += series;
    report.filesetsDeleted += filesets;
    await namespace.files.settled();
    namespace.index.recordChurn(database.env.clock.monotonicMillis());
  }
  report.segmentsDeleted = await deleteExpiredSegments(database, now);
  return report;
}

/**
 * A closed segment goes when the block of its newest row is past retention in every namespace, and
 * all segments before it have gone: it may say what of their rows was truncated or deleted.
 */
async function deleteExpiredSegments(database: Database, now: bigint): Promise<number> {
  const { commitlog, env, options } = database;
  const closed = commitlog.segments().slice(0, -1);
  const needed = closed.findIndex((segment) => !isExpired(database, segment, now));
  const expired = needed === -1 ? closed : closed.slice(0, needed);
  if (expired.length === 0) return 0;
  await database.sequencer.exclusive(async () => {
    for (const { number } of expired) {
      // So that a power loss does not bring one back whose successor is gone.
      await env.disk.syncFolder(commitlogFolder(options.dataFolder));
      await commitlog.deleteSegments([number]);
    }
  });
  return expired.length;
}

function isExpired(database: Database, { newestMillis }: SegmentInfo, now: bigint): boolean {
  return [...newestMillis].every(([name, newest]) => {
    const namespace = database.namespaces.get(name);
    if (namespace === undefined) return true;
    const { blockSizeNanos, retentionNanos } = namespace;
    // The time is rounded in a float, so a block more is waited for.
    const newestNanos = BigInt(Math.ceil(newest)) * 1_000_000n;
    return newestNanos + 2n * blockSizeNanos <= now - retentionNanos;
  });
}
