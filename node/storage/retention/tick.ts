/**
 * What the node does every few seconds: it forgets what is past retention, in memory and on disk.
 */
import { type Commitlog, commitlogFolder } from '../../persist/commitlog/commitlog.ts';
import type { RetentionClock } from '../../clock/retention_clock.ts';
import type { DoubtLedger } from '../../doubt/ledger.ts';
import type { NamespaceRemoval } from '../deletions/namespace_removal.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import { expiredSegments } from './expired_segments.ts';
import { expireNamespace, type SeriesRemovalParts } from './series_removal.ts';

/** What a tick takes. */
export interface TickParts extends SeriesRemovalParts {
  readonly dataFolder: string;
  readonly commitlog: Commitlog;
  readonly doubts: Pick<DoubtLedger, 'save'>;
  readonly retentionClock: RetentionClock;
  readonly namespaces: ReadonlyMap<string, NamespaceState>;
  readonly removal: Pick<NamespaceRemoval, 'lost'>;
}

export interface TickReport {
  seriesExpired: number;
  segmentsDeleted: number;
  filesetsDeleted: number;
}

export async function tick(parts: TickParts): Promise<TickReport> {
  const report: TickReport = { seriesExpired: 0, segmentsDeleted: 0, filesetsDeleted: 0 };
  const now = parts.retentionClock.nowNanos();
  for (const namespace of parts.namespaces.values()) {
    const { series, filesets } = await expireNamespace(parts, namespace, now);
    report.seriesExpired += series;
    report.filesetsDeleted += filesets;
    await namespace.files.settled();
    namespace.index.recordChurn(parts.env.clock.monotonicMillis());
  }
  report.segmentsDeleted = await deleteExpiredSegments(parts, now);
  return report;
}

/** As `expiredSegments` says. @returns how many went */
async function deleteExpiredSegments(parts: TickParts, nowNanos: bigint): Promise<number> {
  const { commitlog, sequencer, env, dataFolder, namespaces, removal, doubts } = parts;
  const closed = commitlog.segments().slice(0, -1);
  // Of those that are not parked yet the log may have what no file has.
  const here = new Map([...removal.lost, ...namespaces]);
  const expired = expiredSegments(closed, here, nowNanos);
  if (expired.length === 0) return 0;
  // A segment that is damaged says little of its rows, so it expires at once.
  await doubts.save();
  await sequencer.exclusive(async () => {
    for (const { number } of expired) {
      // So that a power loss does not bring one back whose successor is gone.
      await env.disk.syncFolder(commitlogFolder(dataFolder));
      await commitlog.deleteSegments([number]);
    }
  });
  return expired.length;
}
