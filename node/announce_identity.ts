/**
 * A data folder before its cluster: the key-value store holds what it saw last of an instance. A
 * new folder under a known instance, or one that was rolled back to a copy, is seen by the
 * difference, and never served as if nothing had happened.
 */
import type { Kv } from '#cluster/kv/kv.ts';
import { type ClusterName, clusterPrefix } from '#cluster/kv/keys.ts';
import { TsdbError } from '#lib/errors.ts';
import { decodeIdentity, encodeIdentity, type NodeIdentity } from './persist/node_identity.ts';

/** How the data folder relates to what the cluster knows of this instance. */
export type FolderHistory =
  /** The instance was never seen, or the folder is the one that was seen last. */
  | 'continued'
  /** Another folder served this instance before. */
  | 'new folder'
  /** The folder is an older copy of itself. */
  | 'rolled back';

/**
 * Compares the folder with what the cluster saw last and notes this start there.
 *
 * @param giveUp called when the folder is not the one that was seen, before that is forgotten:
 *   takes from the instance what the placement believes it has
 * @throws {TsdbError} CONFLICT when another process of this instance started meanwhile
 */
export async function announceIdentity(
  kv: Kv,
  cluster: ClusterName,
  instanceId: string,
  identity: NodeIdentity,
  giveUp: (history: Exclude<FolderHistory, 'continued'>) => Promise<void>,
  signal: AbortSignal,
): Promise<FolderHistory> {
  const key = `${clusterPrefix(cluster)}tsdb.node.identity/${instanceId}`;
  const known = await kv.get(key, signal);
  const seen = known === null ? null : decodeIdentity(known.value);
  const history = seen === null ? 'continued' : historyOf(seen, identity);
  if (history !== 'continued') await giveUp(history);
  const { succeeded } = await kv.transact(
    [{ key, target: 'modRevision', equals: known?.modRevision ?? 0 }],
    [{ kind: 'put', key, value: encodeIdentity(identity, seen?.others ?? {}) }],
    signal,
  );
  if (!succeeded) {
    throw new TsdbError('CONFLICT', 'cannot start: another process of this instance is starting');
  }
  return history;
}

function historyOf(seen: NodeIdentity, identity: NodeIdentity): FolderHistory {
  if (seen.incarnation !== identity.incarnation) return 'new folder';
  return seen.boot >= identity.boot ? 'rolled back' : 'continued';
}
