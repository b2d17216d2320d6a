/**
 * A data folder before its cluster: the key-value store holds what it saw last of an instance. A
 * new folder under a known instance, or one that was rolled back to a copy, is seen by the
 * difference, and never served as if nothing had happened. While it runs, a process also sees that
 * another one has announced itself as the same instance.
 */
import type { Compare, Kv } from '#cluster/kv/kv.ts';
import { type ClusterName, clusterPrefix } from '#cluster/kv/keys.ts';
import type { Env } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';
import { type FolderMark, readFolderMark, writeFolderMark } from './folder_mark.ts';
import { decodeIdentity, encodeIdentity, type NodeIdentity } from './node_identity.ts';

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
}

/** What the store says of an instance. */
interface Seen {
  readonly identity: (NodeIdentity & { readonly others: Record<string, unknown> }) | null;
  /** Of the start that announced it; '' for one of a former release. */
  readonly nonce: string;
  readonly modRevision: number;
  /** '' when there is none. */
  readonly mark: string;
}

/** Told to a process whose instance another one has taken. */
export class InstanceTaken extends TsdbError {
  constructor(instanceId: string) {
    super('CONFLICT', `another process has started as instance ${instanceId}: this one must end`);
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

  constructor(options: AnnouncementOptions) {
    this.#options = options;
    const prefix = clusterPrefix(options.cluster);
    this.#identityKey = `${prefix}tsdb.node.identity/${options.instanceId}`;
    this.#markKey = `${prefix}tsdb.node.mark/${options.instanceId}`;
    this.#nonce = options.env.random.bytes(16).toHex();
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
      this.#modRevision = seen.modRevision;
      return 'continued';
    }
    const history = historyOf(seen, identity, this.#mark);
    if (history !== 'continued') await giveUp(history);
    const { current } = this.#mark;
    const { succeeded, revision } = await kv.transact(
      [{ key: this.#identityKey, target: 'modRevision', equals: seen.modRevision }],
      [
        this.#identityPut(seen),
        ...(history === 'continued' || seen.mark === current ? [] : [this.#markOperation(current)]),
      ],
      signal,
    );
    if (!succeeded) {
      throw new TsdbError('CONFLICT', 'cannot start: another process of this instance is starting');
    }
    this.#modRevision = revision;
    return history;
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
    const known = await this.#options.kv.get(this.#identityKey, signal);
    if (known?.modRevision !== this.#modRevision) await this.#announceAgain(signal);
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
    const raised = { current: env.random.bytes(8).toHex(), confirmed: current };
    await writeFolderMark(env.disk, dataFolder, raised);
    this.#mark = raised;
    await this.#putMark(raised.current, signal);
  }

  async #putMark(mark: string, signal: AbortSignal): Promise<void> {
    for (;;) {
      const { succeeded } = await this.#options.kv.transact(
        [this.isStanding],
        [this.#markOperation(mark)],
        signal,
      );
      if (succeeded) break;
      await this.#announceAgain(signal);
    }
    this.#mark = { current: mark, confirmed: mark };
  }

  /** The store has forgotten this start, as one does that was restored from a backup. */
  async #announceAgain(signal: AbortSignal): Promise<void> {
    const { kv, identity, instanceId } = this.#options;
    const seen = await this.#seen(signal);
    if (seen.nonce === this.#nonce) {
      this.#modRevision = seen.modRevision;
      return;
    }
    const isOlder =
      seen.identity === null ||
      (seen.identity.incarnation === identity.incarnation && seen.identity.boot < identity.boot);
    if (!isOlder) throw new InstanceTaken(instanceId);
    const { succeeded, revision } = await kv.transact(
      [{ key: this.#identityKey, target: 'modRevision', equals: seen.modRevision }],
      [this.#identityPut(seen)],
      signal,
    );
    if (succeeded) this.#modRevision = revision;
  }

  async #seen(signal: AbortSignal): Promise<Seen> {
    const { kv } = this.#options;
    const known = await kv.get(this.#identityKey, signal);
    const marked = await kv.get(this.#markKey, signal);
    const identity = known === null ? null : decodeIdentity(known.value);
    const { nonce, ...others } = identity?.others ?? {};
    return {
      identity: identity === null ? null : { ...identity, others },
      nonce: typeof nonce === 'string' ? nonce : '',
      modRevision: known?.modRevision ?? 0,
      mark: marked === null ? '' : new TextDecoder().decode(marked.value),
    };
  }

  #identityPut(seen: Seen): { kind: 'put'; key: string; value: Uint8Array } {
    const others = { ...seen.identity?.others, nonce: this.#nonce };
    const value = encodeIdentity(this.#options.identity, others);
    return { kind: 'put', key: this.#identityKey, value };
  }

  #markOperation(
    mark: string,
  ): { kind: 'put'; key: string; value: Uint8Array } | { kind: 'delete'; key: string } {
    if (mark === '') return { kind: 'delete', key: this.#markKey };
    return { kind: 'put', key: this.#markKey, value: new TextEncoder().encode(mark) };
  }
}

function historyOf(seen: Seen, identity: NodeIdentity, mark: FolderMark): FolderHistory {
  if (seen.identity === null) return 'continued';
  if (seen.identity.incarnation !== identity.incarnation) return 'new folder';
  if (seen.identity.boot >= identity.boot) return 'rolled back';
  const isOurs = seen.mark === '' || seen.mark === mark.current || seen.mark === mark.confirmed;
  return isOurs ? 'continued' : 'rolled back';
}
