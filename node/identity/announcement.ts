/**
 * A data folder before its cluster: the key-value store holds what it saw last of an instance. A
 * new folder under a known instance, or one that was rolled back to a copy, is seen by the
 * difference, and never served as if nothing had happened. While it runs, a process also sees that
 * another one has announced itself as the same instance.
 *
 * The difference may also be the store's, when it was restored from a backup or made anew: then it is
 * older than the folder, which notes the revision at which it was told to the store last.
 */
import type { Compare, KeyValue, Kv } from '#cluster/kv/kv.ts';
import type { Introduction } from '#cluster/node/service.ts';
import { type ClusterName, clusterPrefix } from '#cluster/kv/keys.ts';
import type { StoreLineage } from '#cluster/kv/lineage.ts';
import type { Env } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { noncesMax, type FolderMark, readFolderMark, writeFolderMark } from './folder_mark.ts';
import {
  decodeIdentity,
  encodeIdentity,
  type NodeIdentity,
  type StoredIdentity,
} from './node_identity.ts';

/** How the data folder relates to what the cluster knows of this instance. */
export type FolderHistory =
  /** The instance was never seen, or the folder is the one that was seen last. */
  | 'continued'
  /** Another folder served this instance before. */
  | 'new folder'
  /** The folder is an older copy of itself, or another process went on with a copy. */
  | 'rolled back';

export interface AnnouncementOptions {
  readonly env: Env;
  readonly kv: Kv;
  readonly cluster: ClusterName;
  readonly instanceId: string;
  readonly identity: NodeIdentity;
  readonly dataFolder: string;
  /** The lineage that the store has now (cluster/kv/lineage.ts). */
  readonly storeLineage: () => Pick<StoreLineage, 'id' | 'follows'>;
  /** Called when the store is older than what this instance told it. */
  readonly onOlderStore: (reason: string) => Promise<void>;
}

/** What the store says of an instance. */
interface Seen {
  readonly identity: (NodeIdentity & { readonly others: Record<string, unknown> }) | null;
  /** Of the start that announced it; '' for one of a former release. */
  readonly nonce: string;
  /** Since which boot the folder has gone on; null when nothing says it. */
  readonly sinceBoot: number | null;
  readonly modRevision: number;
  /** '' when there is none. */
  readonly mark: string;
  /** When one of the two was written last; 0 when there is none. */
  readonly revision: number;
  /** The lineage that the store had when the identity was written. */
  readonly lineageId: string;
  /** As `Announcement.hasMissed`. */
  readonly missed: boolean;
}

export function announcementKeys(cluster: ClusterName, instanceId: string) {
  const prefix = clusterPrefix(cluster);
  return {
    identity: `${prefix}tsdb.node.identity/${instanceId}`,
    mark: `${prefix}tsdb.node.mark/${instanceId}`,
  };
}

/** What the store says of the data folder of an instance; null when it does not know it. */
export async function announcedFolder(
  kv: Pick<Kv, 'get'>,
  cluster: ClusterName,
  instanceId: string,
  signal: AbortSignal,
): Promise<Pick<Introduction, 'incarnation' | 'bootCount' | 'mark'> | null> {
  const keys = announcementKeys(cluster, instanceId);
  const known = await kv.get(keys.identity, signal);
  if (known === null) return null;
  const marked = await kv.get(keys.mark, signal);
  const { incarnation, boot } = storedIdentity(known);
  const mark = marked === null ? '' : new TextDecoder().decode(marked.value);
  return { incarnation, bootCount: boot, mark };
}

/** @throws {TsdbError} INTERNAL naming the key: whose folder this is cannot be told before it is right */
function storedIdentity({ key, value }: Pick<KeyValue, 'key' | 'value'>): StoredIdentity {
  try {
    return decodeIdentity(value);
  } catch (error) {
    throw new TsdbError('INTERNAL', `value of key ${key} is damaged: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

/** Told to a process whose instance another one has taken. */
export class InstanceTaken extends TsdbError {
  constructor(instanceId: string) {
    super('CONFLICT', `another process has started as instance ${instanceId}: this one must end`);
  }
}

/** Told to a process that lacks rows which another one of its instance has acknowledged. */
export class RowsMissed extends TsdbError {
  constructor(instanceId: string) {
    super(
      'CONFLICT',
      `another process of instance ${instanceId} has taken writes that may not be here: this one must start again, and take its shards anew`,
    );
  }
}

export class Announcement {
  readonly #options: AnnouncementOptions;
  readonly #identityKey: string;
  readonly #markKey: string;
  /** By this a start knows its own announcement again when the answer was lost. */
  readonly #nonce: string;
  /** Of our announcement. */
  #modRevision = 0;
  #mark: FolderMark | null = null;
  /** When the store was told of this instance last by this process. */
  #revision = 0;
  /**
   * A process that this one has followed has acknowledged rows that its folder may lack: they had one
   * folder, of which one has a copy. The next start is told so by `make`.
   */
  hasMissed = false;
  #sinceBoot: number;

  constructor(options: AnnouncementOptions) {
    this.#options = options;
    this.#sinceBoot = options.identity.boot;
    const keys = announcementKeys(options.cluster, options.instanceId);
    this.#identityKey = keys.identity;
    this.#markKey = keys.mark;
    this.#nonce = options.env.random.bytes(16).toHex();
  }

  /** What the folder says of itself. */
  async folder(): Promise<Pick<Introduction, 'incarnation' | 'bootCount' | 'mark' | 'markBefore'>> {
    const { env, identity, dataFolder } = this.#options;
    this.#mark ??= await readFolderMark(env.disk, dataFolder);
    const { current, confirmed } = this.#mark;
    const { incarnation, boot } = identity;
    return { incarnation, bootCount: boot, mark: current, markBefore: confirmed };
  }

  /**
   * The boot since which the folder has been the one that the cluster saw: what it says that earlier
   * ones did may have been done by a folder that it is a copy of.
   */
  get sinceBoot(): number {
    return this.#sinceBoot;
  }

  /**
   * Compares the folder with what the cluster saw last and notes this start there. To be called
   * again when it failed: what came of that is seen.
   *
   * @param giveUp called when the folder is not the one that was seen, before that is forgotten:
   *   takes from the instance what the placement believes it has
   * @throws {TsdbError} CONFLICT when another process of this instance started meanwhile
   */
  async make(
    giveUp: (history: Exclude<FolderHistory, 'continued'>) => Promise<void>,
    signal: AbortSignal,
  ): Promise<FolderHistory> {
    const { env, kv, identity, dataFolder } = this.#options;
    this.#mark ??= await readFolderMark(env.disk, dataFolder);
    const seen = await this.#seen(signal);
    if (seen.nonce === this.#nonce) {
      this.#sinceBoot = seen.sinceBoot ?? identity.boot;
      await this.#noteTold(seen.modRevision, seen.lineageId);
      return 'continued';
    }
    const lineage = this.#options.storeLineage();
    const lineageId = lineage.id;
    const isOlder = isOlderStore(seen, this.#mark, lineage);
    if (isOlder && seen.lineageId === lineageId) {
      await this.#options.onOlderStore(olderReason(seen, this.#mark));
      if (this.#options.storeLineage().id === lineageId) {
        throw new TsdbError('UNAVAILABLE', 'the key-value store has no lineage of its own yet');
      }
      // Announced by the lineage that the store has from now on.
      return this.make(giveUp, signal);
    }
    const known = isOlder ? 'continued' : historyOf(seen, identity, this.#mark);
    const history = seen.missed && known === 'continued' ? 'rolled back' : known;
    if (history !== 'continued') await giveUp(history);
    else if (!isOlder) this.#sinceBoot = seen.sinceBoot ?? identity.boot;
    const { current } = this.#mark;
    const { succeeded, revision } = await kv.transact(
      [{ key: this.#identityKey, target: 'modRevision', equals: seen.modRevision }],
      [
        this.#identityPut(seen, lineageId, false),
        ...(isOlder || history !== 'continued' ? [this.#markOperation(current)] : []),
      ],
      signal,
    );
    if (!succeeded) {
      throw new TsdbError('CONFLICT', 'cannot start: another process of this instance is starting');
    }
    await this.#noteTold(revision, lineageId);
    return history;
  }

  /** The folder knows now what the store has of it, before anything is served. */
  async #noteTold(revision: number, lineageId: string): Promise<void> {
    const { env, dataFolder } = this.#options;
    this.#modRevision = revision;
    this.#revision = revision;
    const nonces = [...this.#mark!.nonces.filter((one) => one !== this.#nonce), this.#nonce];
    this.#mark = { ...this.#mark!, revision, lineageId, nonces: nonces.slice(-noncesMax) };
    await writeFolderMark(env.disk, dataFolder, this.#mark);
  }

  /**
   * Holds as long as no other process has announced itself as this instance: for transactions that
   * say what this process has.
   */
  get isStanding(): Compare {
    return { key: this.#identityKey, target: 'modRevision', equals: this.#modRevision };
  }

  /**
   * Compares what the store says of this instance with this start.
   * @throws {InstanceTaken} when another process serves as this instance; TsdbError UNAVAILABLE
   */
  async check(signal: AbortSignal): Promise<void> {
    const seen = await this.#seen(signal);
    // A store that was restored may have another one's of the same revision.
    const isOurs = seen.modRevision === this.#modRevision && seen.nonce === this.#nonce;
    if (!isOurs || seen.revision < this.#revision) await this.#announceAgain(signal);
  }

  /**
   * Marks folder and store anew, for data that came since.
   * @throws {InstanceTaken} when another process serves as this instance; TsdbError UNAVAILABLE
   */
  async raiseMark(signal: AbortSignal): Promise<void> {
    const { env, dataFolder } = this.#options;
    const { current, confirmed } = this.#mark!;
    // Of the folder's two marks one is always the store's.
    if (current !== confirmed) await this.#putMark(current, signal);
    const raised = { ...this.#mark!, current: env.random.bytes(8).toHex(), confirmed: current };
    await writeFolderMark(env.disk, dataFolder, raised);
    this.#mark = raised;
    await this.#putMark(raised.current, signal);
  }

  /**
   * For a process whose instance another one has taken: tells it that rows were acknowledged here
   * since the folder was marked, which its copy of the folder may lack.
   * @throws {TsdbError} UNAVAILABLE, to be called again then
   */
  async noteRows(signal: AbortSignal): Promise<void> {
    const { kv } = this.#options;
    for (;;) {
      const seen = await this.#seen(signal);
      const { identity, nonce, lineageId, sinceBoot, missed } = seen;
      if (identity === null || nonce === this.#nonce || missed) return;
      const { others, ...theirs } = identity;
      const said = {
        nonce,
        lineage: lineageId,
        ...(sinceBoot === null ? {} : { since: sinceBoot }),
      };
      const value = encodeIdentity(theirs, { ...others, ...said, missed: true });
      const { succeeded } = await kv.transact(
        [{ key: this.#identityKey, target: 'modRevision', equals: seen.modRevision }],
        [{ kind: 'put', key: this.#identityKey, value }],
        signal,
      );
      if (succeeded) return;
    }
  }

  async #putMark(mark: string, signal: AbortSignal): Promise<void> {
    for (;;) {
      const { succeeded, revision } = await this.#options.kv.transact(
        [this.isStanding],
        [this.#markOperation(mark)],
        signal,
      );
      if (succeeded) {
        if (revision < this.#revision) await this.#announceAgain(signal);
        else this.#revision = revision;
        break;
      }
      await this.#announceAgain(signal);
    }
    this.#mark = { ...this.#mark!, current: mark, confirmed: mark, revision: this.#revision };
  }

  /** The store has forgotten this start, as one does that was restored from a backup. */
  async #announceAgain(signal: AbortSignal): Promise<void> {
    const { kv, identity, instanceId } = this.#options;
    const seen = await this.#seen(signal);
    const lineage = this.#options.storeLineage();
    const told = { ...this.#mark!, revision: this.#revision };
    const isOlder = seen.identity === null || isOlderStore(seen, told, lineage);
    if (isOlder && seen.lineageId === lineage.id) {
      const known = seen.identity === null ? 'it does not know this instance any more' : null;
      await this.#options.onOlderStore(known ?? olderReason(seen, told));
    }
    const { identity: other } = seen;
    // One of this folder, that a restored store has again. Of a copy of the folder that was started less
    // often it could be too, and that process would serve with this one: the folder knows its own.
    const isOwn = seen.nonce === '' || this.#mark!.nonces.includes(seen.nonce);
    const isEarlier =
      isOwn && other?.incarnation === identity.incarnation && other.boot < identity.boot;
    if (seen.nonce !== this.#nonce && !isOlder && !isEarlier) throw new InstanceTaken(instanceId);
    if (seen.nonce === this.#nonce && !isOlder) {
      this.hasMissed = seen.missed;
      this.#modRevision = seen.modRevision;
      return;
    }
    // What the store says now may be as before what this start did.
    this.#sinceBoot = identity.boot + 1;
    const now = this.#options.storeLineage().id;
    const { succeeded, revision } = await kv.transact(
      [{ key: this.#identityKey, target: 'modRevision', equals: seen.modRevision }],
      [this.#identityPut(seen, now, seen.missed), this.#markOperation(this.#mark!.current)],
      signal,
    );
    if (succeeded) await this.#noteTold(revision, now);
  }

  async #seen(signal: AbortSignal): Promise<Seen> {
    const { kv } = this.#options;
    const known = await kv.get(this.#identityKey, signal);
    const marked = await kv.get(this.#markKey, signal);
    const identity = known === null ? null : storedIdentity(known);
    const { nonce, lineage, missed, since, ...others } = identity?.others ?? {};
    return {
      identity: identity === null ? null : { ...identity, others },
      nonce: typeof nonce === 'string' ? nonce : '',
      sinceBoot: typeof since === 'number' ? since : null,
      modRevision: known?.modRevision ?? 0,
      mark: marked === null ? '' : new TextDecoder().decode(marked.value),
      revision: Math.max(known?.modRevision ?? 0, marked?.modRevision ?? 0),
      lineageId: typeof lineage === 'string' ? lineage : '',
      missed: missed === true,
    };
  }

  #identityPut(
    seen: Seen,
    lineageId: string,
    missed: boolean,
  ): { kind: 'put'; key: string; value: Uint8Array } {
    const value = encodeIdentity(this.#options.identity, {
      ...seen.identity?.others,
      nonce: this.#nonce,
      lineage: lineageId,
      since: this.#sinceBoot,
      ...(missed ? { missed } : {}),
    });
    return { kind: 'put', key: this.#identityKey, value };
  }

  #markOperation(
    mark: string,
  ): { kind: 'put'; key: string; value: Uint8Array } | { kind: 'delete'; key: string } {
    if (mark === '') return { kind: 'delete', key: this.#markKey };
    return { kind: 'put', key: this.#markKey, value: new TextEncoder().encode(mark) };
  }
}

/**
 * Whether the store has forgotten what this folder told it. Revisions count within one lineage alone: a backup may have a
 * higher one than a store that was made anew since. Of two lineages that later is which the store names later; one
 * that it does not know came after all that it has.
 */
function isOlderStore(
  seen: Seen,
  mark: FolderMark,
  { id, follows }: Pick<StoreLineage, 'id' | 'follows'>,
): boolean {
  if (seen.identity === null) return false;
  // A folder that never told the store anything knows nothing of it: it is new, whatever lineages came and went.
  if (mark.revision === 0) return false;
  if (seen.lineageId === mark.lineageId) return seen.revision < mark.revision;
  const known = [...follows, id];
  const told = known.lastIndexOf(mark.lineageId);
  const had = known.lastIndexOf(seen.lineageId);
  // Of a lineage that nobody names any more nothing is known: the folder is looked at as one that may be older.
  return told < 0 || (had >= 0 && had < told);
}

type Told = Pick<Seen, 'revision' | 'lineageId'>;

function olderReason(now: Told, before: Told): string {
  const ofLineage = (told: Told): string => {
    return now.lineageId === before.lineageId ? '' : ` of lineage "${told.lineageId}"`;
  };
  return `it has this instance as of revision ${now.revision}${ofLineage(now)}, and had it as of ${before.revision}${ofLineage(before)}`;
}

function historyOf(seen: Seen, identity: NodeIdentity, mark: FolderMark): FolderHistory {
  if (seen.identity === null) return 'continued';
  if (seen.identity.incarnation !== identity.incarnation) return 'new folder';
  if (seen.identity.boot >= identity.boot) return 'rolled back';
  const isOurs = seen.mark === '' || seen.mark === mark.current || seen.mark === mark.confirmed;
  return isOurs ? 'continued' : 'rolled back';
}
