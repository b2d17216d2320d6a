/** What the node does every few seconds: it forgets what is past retention, in memory and on disk. */
import type { Database } from './database.ts';
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

/** A closed segment goes when the block of its newest row is past retention in every namespace. */
async function deleteExpiredSegments(database: Database, now: bigint): Promise<number> {
  const expired: number[] = [];
  for (const { number, newestMillis } of database.commitlog.segments().slice(0, -1)) {
    const isExpired = [...newestMillis].every(([name, newest]) => {
      const namespace = database.namespaces.get(name);
      if (namespace === undefined) return true;
      const { blockSizeNanos, retentionNanos } = namespace;
      // The time is rounded in a float, so a block more is waited for.
      const newestNanos = BigInt(Math.ceil(newest)) * 1_000_000n;
      return newestNanos + 2n * blockSizeNanos <= now - retentionNanos;
    });
    if (isExpired) expired.push(number);
  }
  if (expired.length > 0) {
    await database.sequencer.exclusive(() => database.commitlog.deleteSegments(expired));
  }
  return expired.length;
}
