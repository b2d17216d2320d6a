/**
 * What a node has taken of a shard before it ended, and need not fetch again (docs/STORAGE.md, Moves
 * of shards).
 *
 * From when a donor streams on, writers that do not know this owner are refused: a row that is
 * acknowledged later is in this node's own log, or on so many others that it does without. So a block
 * that came whole stays whole, also while the node is down, as long as the log lost nothing, the
 * folder is the same one, and the shard is to be taken over as it was then.
 */
import { namespaceNumber } from '#cluster/namespaces/numbers.ts';
import type { SampleStore } from '#engine/store/sample_store.ts';
import type { DoubtLedger } from '../doubt/ledger.ts';
import type { NodeIdentity } from '../identity/node_identity.ts';
import type { TakenAs } from '../persist/fileset/format.ts';
import type { BlockFile } from '../storage/filesets/block_file.ts';
import type { NamespaceState } from '../storage/namespace/namespace.ts';
import type { OwnedShard } from '../storage/namespace/shards.ts';

/** What it takes to tell what was taken. */
export interface TakenBlocksParts {
  readonly identity: NodeIdentity;
  readonly store: SampleStore;
  readonly doubts: DoubtLedger;
}

/**
 * What filesets of the shard note that come whole from its donors.
 * @returns null when a later start could not know the assignment again
 */
export function takenAsOf(
  { identity, store }: TakenBlocksParts,
  { definition }: Pick<NamespaceState, 'definition'>,
  { assignment, sourceId }: Pick<OwnedShard, 'assignment' | 'sourceId'>,
): TakenAs | null {
  // Until its upgrade is finished, a cluster may have releases that assign shards without new IDs.
  if (assignment === undefined || !store.keepsRowVersions) return null;
  const { boot } = identity;
  return { namespaceNumber: namespaceNumber(definition), assignment, sourceId, boot };
}

/**
 * Starts of the blocks that are here as the donors gave them.
 * @param now of this start
 * @param sinceBoot as `Announcement.sinceBoot`
 */
export function heldBlocks(
  { doubts }: TakenBlocksParts,
  { name, files }: Pick<NamespaceState, 'name' | 'files'>,
  shard: number,
  now: TakenAs,
  sinceBoot: number,
): Set<bigint> {
  const isHeld = ({ info: { takenAs }, damaged }: BlockFile): boolean =>
    takenAs !== undefined &&
    takenAs.namespaceNumber === now.namespaceNumber &&
    takenAs.assignment === now.assignment &&
    takenAs.sourceId === now.sourceId &&
    takenAs.boot >= sinceBoot &&
    damaged.size === 0;
  const starts = files
    .all(shard)
    .filter(isHeld)
    .map(({ blockStartNanos }) => blockStartNanos);
  return new Set(starts).difference(doubts.blocksOf(name, shard));
}
