/**
 * Who this node is over its restarts: the data folder holds an incarnation id, made with the
 * folder, and a boot counter; the key-value store holds what it saw last. A new folder under a
 * known instance, or one that was rolled back to a copy, is seen by the difference, and never
 * served as if nothing had happened.
 */
import type { Kv } from '#cluster/kv/kv.ts';
import { type ClusterName, clusterPrefix } from '#cluster/kv/keys.ts';
import type { Env } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { makeDurableFolder } from './persist/folders.ts';

export interface NodeIdentity {
  /** 32 hexadecimal digits, made with the data folder. */
  readonly incarnation: string;
  /** Counts the starts on this folder, from 1. */
  readonly boot: number;
}

/** How the data folder relates to what the cluster knows of this instance. */
export type FolderHistory =
  /** The instance was never seen, or the folder is the one that was seen last. */
  | 'continued'
  /** Another folder served this instance before. */
  | 'new folder'
  /** The folder is an older copy of itself. */
  | 'rolled back';

export function referenceEpochOf(identity: NodeIdentity): string {
  return `${identity.incarnation}.${identity.boot}`;
}

const fileName = 'node_identity.json';

/**
 * Reads the identity of the data folder, making one when there is none, and counts this start.
 * @throws {TsdbError} INTERNAL when the file is there but unreadable: it is never replaced by guess
 */
export async function openIdentity(env: Env, dataFolder: string): Promise<NodeIdentity> {
  const path = `${dataFolder}/${fileName}`;
  const parent = dataFolder.slice(0, dataFolder.lastIndexOf('/'));
  if (parent === '') await env.disk.makeFolder(dataFolder);
  else await makeDurableFolder(env.disk, parent, dataFolder);
  let before: NodeIdentity;
  if ((await env.disk.size(path)) === null) {
    before = { incarnation: env.random.bytes(16).toHex(), boot: 0 };
  } else {
    try {
      before = decodeIdentity(await env.disk.readFile(path));
    } catch (error) {
      throw new TsdbError('INTERNAL', `cannot read ${path}: ${messageOf(error)}`, { cause: error });
    }
  }
  const identity = { incarnation: before.incarnation, boot: before.boot + 1 };
  await env.disk.writeFileAtomic(path, encodeIdentity(identity));
  return identity;
}

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
  const history = known === null ? 'continued' : historyOf(decodeIdentity(known.value), identity);
  if (history !== 'continued') await giveUp(history);
  const { succeeded } = await kv.transact(
    [{ key, target: 'modRevision', equals: known?.modRevision ?? 0 }],
    [{ kind: 'put', key, value: encodeIdentity(identity) }],
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

function encodeIdentity(identity: NodeIdentity): Uint8Array {
  return new TextEncoder().encode(`${JSON.stringify(identity)}\n`);
}

function decodeIdentity(bytes: Uint8Array): NodeIdentity {
  const plain = JSON.parse(new TextDecoder().decode(bytes)) as Partial<NodeIdentity>;
  const { incarnation, boot } = plain;
  if (typeof incarnation !== 'string' || !/^[0-9a-f]{32}$/.test(incarnation)) {
    throw new Error(`incarnation is not 32 hexadecimal digits: ${String(incarnation)}`);
  }
  if (typeof boot !== 'number' || !Number.isSafeInteger(boot) || boot < 0) {
    throw new Error(`boot is not a whole number: ${String(boot)}`);
  }
  return { incarnation, boot };
}
