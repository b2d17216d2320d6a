/**
 * Whether this process is the one that serves as its instance, on the folder that served last: said by
 * the key-value store (identity/announcement.ts), or while that is away by those who own shards with it
 * (identity/introductions.ts). It ends when another process has taken the instance.
 */
import type { Compare } from '#cluster/kv/kv.ts';
import type { Introduction } from '#cluster/node/service.ts';
import type { Topology } from '#cluster/topology/topology.ts';
import { untilAborted } from '#lib/env/wait.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { Database } from './storage/database.ts';
import {
  announcedFolder,
  Announcement,
  type AnnouncementOptions,
  InstanceTaken,
  RowsMissed,
} from './identity/announcement.ts';
import { Introductions, type IntroductionsOptions } from './identity/introductions.ts';

/** Time to tell the process that has taken this instance what its folder lacks. */
const lastWordMillisMax = 5_000;

export interface StandingOptions
  extends Omit<AnnouncementOptions, 'identity' | 'storeLineage'>,
    Pick<IntroductionsOptions, 'nodeServiceOf'> {
  readonly database: Pick<
    Database,
    'shards' | 'sequencer' | 'commitlog' | 'identity' | 'log' | 'deletions' | 'witness'
  >;
  readonly topology: Pick<Topology, 'view'>;
  /** Takes from the instance what the placement believes it has. */
  readonly resetShards: () => Promise<void>;
  /** The process must end. */
  readonly onFatal: (error: unknown) => void;
  /** Aborts when the node stops. */
  readonly signal: AbortSignal;
}

export class Standing {
  readonly #options: StandingOptions;
  readonly #announcement: Announcement;
  readonly #introductions: Introductions;
  /** Bytes of the log when the folder was marked last. */
  #markedBytes = 0;
  #raising: Promise<void> = Promise.resolve();
  /** Another process has taken this instance. */
  #isEnding = false;

  constructor(options: StandingOptions) {
    this.#options = options;
    const { database, topology } = options;
    this.#announcement = new Announcement({
      ...options,
      identity: database.identity,
      storeLineage: () => {
        const { storeLineageId, storeFollows } = topology.view;
        return { id: storeLineageId, follows: storeFollows };
      },
    });
    this.#introductions = new Introductions(options);
  }

  /** As `Announcement.isStanding`. */
  get isStanding(): Compare {
    return this.#announcement.isStanding;
  }

  /** As `Announcement.sinceBoot`. */
  get sinceBoot(): number {
    return this.#announcement.sinceBoot;
  }

  /** As `Announcement.hasMissed`. */
  get hasMissed(): boolean {
    return this.#announcement.hasMissed;
  }

  /**
   * A folder that is not the one that the cluster saw last must not count as what the placement
   * says.
   */
  async announce(): Promise<void> {
    const { database, resetShards, signal } = this.#options;
    await this.#announcement.make(async (history) => {
      database.log.error(
        { history },
        'the data folder is not the one that served last: shards are reset',
      );
      await resetShards();
    }, signal);
  }

  /** Ends this process when another one serves as its instance. */
  async check(): Promise<void> {
    await this.#endIfTaken(() => this.#announcement.check(this.#options.signal));
  }

  /**
   * What was written since can be told from an older copy of the folder from now on.
   * @param hasMore than what was written: the log says nothing of what was taken from peers
   */
  raiseMark(hasMore = false): Promise<void> {
    // One at a time: one of the folder's two marks has to be the store's.
    const raising = this.#raising.then(() => this.#raise(hasMore));
    this.#raising = raising.catch(() => {});
    return raising;
  }

  async #raise(hasMore: boolean): Promise<void> {
    const { database, instanceId, onFatal, signal } = this.#options;
    const { bytes } = database.commitlog.counts;
    await this.#endIfTaken(async () => {
      if (bytes === this.#markedBytes && !hasMore) await this.#announcement.check(signal);
      else await this.#announcement.raiseMark(signal);
    });
    this.#markedBytes = bytes;
    // Two processes have served as this instance, each with its own copy of the folder: the next start
    // gives the shards up and takes them anew, those too that this one has begun to take.
    if (this.#announcement.hasMissed) onFatal(new RowsMissed(instanceId));
  }

  /** Only one process may serve as an instance: the one that was announced last. */
  async #endIfTaken(call: () => Promise<void>): Promise<void> {
    try {
      await call();
    } catch (error) {
      if (error instanceof InstanceTaken) await this.#endTaken(error);
      throw error;
    }
  }

  /** The other process is told what it cannot have, and nothing more is taken meanwhile. */
  async #endTaken(error: InstanceTaken): Promise<void> {
    if (this.#isEnding) return;
    this.#isEnding = true;
    const { database, env, onFatal } = this.#options;
    database.shards.counts = false;
    const signal = env.clock.deadline(lastWordMillisMax, this.#options.signal);
    try {
      await untilAborted(
        database.sequencer.exclusive(() => {}),
        signal,
      );
      const { bytes } = database.commitlog.counts;
      if (bytes !== this.#markedBytes) await this.#announcement.noteRows(signal);
    } catch (failure) {
      const fields = { error: messageOf(failure) };
      database.log.error(
        fields,
        'cannot tell the other process of this instance which rows it lacks',
      );
    }
    onFatal(error);
  }

  /**
   * Looks up in the key-value store what it says of those who own shards with this node and have not
   * introduced themselves lately: else this node would vouch for what it heard long ago.
   * @throws {TsdbError} UNAVAILABLE
   */
  async lookUpSilent(): Promise<void> {
    const { witness, shards } = this.#options.database;
    for (const { id: instanceId } of this.#introductions.others(shards.placement)) {
      if (!witness.isSilent(instanceId)) continue;
      const folder = await this.#announcedFolderOf(instanceId);
      if (folder === null || !witness.isSilent(instanceId)) continue;
      const { mark } = folder;
      const unsaid = { placementVersion: 0, lineageId: '', deletionSequence: 0, asks: false };
      witness.note({ ...folder, ...unsaid, instanceId, markBefore: mark });
    }
  }

  /** Null when nothing is announced, or what is is damaged, which is logged: others are looked up all the same. */
  async #announcedFolderOf(instanceId: string): ReturnType<typeof announcedFolder> {
    const { database, kv, cluster, signal } = this.#options;
    try {
      return await announcedFolder(kv, cluster, instanceId, signal);
    } catch (error) {
      if (!(error instanceof TsdbError) || error.code !== 'INTERNAL') throw error;
      const fields = { instance: instanceId, error: error.message };
      database.log.error(fields, 'what an instance has announced of its folder cannot be read');
      return null;
    }
  }

  /** Those who own shards with this node are told again: they may have started since. */
  async introduce(): Promise<void> {
    const { database, signal } = this.#options;
    const { shards } = database;
    if (!shards.counts) return;
    await this.#introductions.tell(shards.placement, await this.#introduction(), signal);
  }

  /** @returns whether so many who own its shards too know the folder that its answers may count */
  async isVouchedFor(signal: AbortSignal): Promise<boolean> {
    const { placement } = this.#options.database.shards;
    const own = await this.#introduction();
    return this.#introductions.isVouchedFor(placement, own, signal);
  }

  /** Its answers count from now on. @returns whether that is new */
  count(reason: string): boolean {
    const { shards, log } = this.#options.database;
    if (shards.counts || this.#isEnding) return false;
    shards.counts = true;
    log.info({ placementVersion: shards.version }, reason);
    return true;
  }

  async #introduction(): Promise<Introduction> {
    const { instanceId, topology, database } = this.#options;
    const folder = await this.#announcement.folder();
    const { lineageId } = topology.view;
    const placementVersion = database.shards.version;
    const deletionSequence = database.deletions.appliedSequence;
    return {
      ...folder,
      instanceId,
      placementVersion,
      lineageId,
      deletionSequence,
      asks: false,
    };
  }
}
