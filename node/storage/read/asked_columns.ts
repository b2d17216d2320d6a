/** Closed filesets that a read asks, and how it asks their columns. */
import type { TimeRange } from '#cluster/node/service.ts';
import { FilesetCorrupt } from '../../persist/fileset/format.ts';
import type { SeriesColumns } from '../../persist/series_columns/series_columns.ts';
import type { BlockFile } from '../filesets/block_file.ts';
import type { NamespaceFiles } from '../filesets/namespace_files.ts';
import type { NamespaceState } from '../namespace/namespace.ts';

/** What is asked. */
export interface ClosedRequest {
  readonly namespace: NamespaceState;
  readonly range: TimeRange;
  /** Shards that are served; null for all. */
  readonly shards: Uint32Array | null;
  /** How often all had been deleted when the index was asked: of what it was before and after nothing is answered. */
  readonly truncations: number;
}

/** Closed filesets of the range, pinned: of each shard by ascending block. */
export function pinClosed({ namespace, range, shards }: ClosedRequest): BlockFile[] {
  const { files, expiredBeforeNanos } = namespace;
  // The rest of a fileset may be past retention.
  const startNanos = range.startNanos > expiredBeforeNanos ? range.startNanos : expiredBeforeNanos;
  const ids = shards === null ? files.shardIds() : [...shards];
  return ids.flatMap((shard) => files.pinRange(shard, startNanos, range.endNanos, 'closed'));
}

/** @returns false when the fileset is damaged: it is set aside, and what is missing is told as lost */
export async function visitColumns(
  files: NamespaceFiles,
  file: BlockFile,
  visit: (columns: SeriesColumns) => Promise<void>,
): Promise<boolean> {
  try {
    await files.columns.visit(file, visit);
    return true;
  } catch (error) {
    if (!(error instanceof FilesetCorrupt)) throw error;
    // When its folder was removed meanwhile it is not in use any more.
    if (file.retired === null) files.setAside(file, error.message);
    return false;
  }
}
