/**
 * Parked data: what a placement took from this node without a handover, or a registry without a
 * deletion. It lies in folders of its own (persist/parked_folder.ts), neither served nor counted, until
 * it has been kept for a time, is past retention, makes room on a full disk, or comes back into use
 * (node/bootstrap/bring_back.ts).
 */
import type { Deletion } from '#cluster/metadata/deletions.ts';
import { type EndedNamespaces, hasEnded, noneEnded } from '#cluster/namespaces/numbers.ts';
import type { Namespace } from '#cluster/namespaces/namespaces.ts';
import { rangesOf } from '#cluster/placement/shard_ranges.ts';
import type { Env } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import type { Log } from '#lib/log.ts';
import type { UnixNanos } from '#lib/time.ts';
import { makeDurableFolder, setFolderAside } from '../../persist/folders.ts';
import {
  type Kept,
  listParked,
  listParkedShards,
  parkedData,
  parkedFolder,
  type ParkedInfo,
  parkedRoot,
  readKept,
  readParkedInfo,
  writeKept,
  writeParkedInfo,
} from '../../persist/parked_folder.ts';

/** How often it is noted on disk how long they have been kept: so much is counted twice after a crash. */
const notedMillis = 600_000;
/** Clocks of coordinators and nodes are nearer to each other than this. */
const clockSkewNanos = 60_000_000_000n;
const beforeAllTime = -(2n ** 63n);

/** What one namespace lost at one time. */
export interface ParkedEntry {
  readonly number: number;
  /** Null when it cannot be read: nobody knows what the folder holds. */
  readonly info: ParkedInfo | null;
  readonly shards: Set<number>;
  kept: Kept;
  /** It is made, brought back or removed just now. */
  isBusy: boolean;
}

/** What of a namespace that is here decides about its parked data. */
export interface ParkedOwner {
  readonly definition: Namespace;
}

export interface ParkedDataParts {
  readonly env: Env;
  readonly log: Log;
  readonly dataFolder: string;
}

export class ParkedData {
  readonly #parts: ParkedDataParts;
  readonly #entries = new Map<number, ParkedEntry>();
  readonly #byName = new Map<string, Set<ParkedEntry>>();
  /** Folders that are to be synced: what was moved may be where it was after a power loss. */
  readonly #unsynced = new Set<string>();
  #ended: EndedNamespaces = noneEnded;
  #nextNumber = 1;
  /** As of the monotonic clock. */
  #tickedAtMillis: number;
  #notedAtMillis: number;
  #makingRoom: Promise<boolean> | null = null;

  private constructor(parts: ParkedDataParts) {
    this.#parts = parts;
    this.#tickedAtMillis = parts.env.clock.monotonicMillis();
    this.#notedAtMillis = this.#tickedAtMillis;
  }

  static async open(parts: ParkedDataParts): Promise<ParkedData> {
    const { env, log, dataFolder } = parts;
    const parked = new ParkedData(parts);
    let kept = new Map<number, Kept>();
    try {
      kept = await readKept(env.disk, dataFolder);
    } catch (error) {
      log.error(
        { error: messageOf(error) },
        'parked data are kept from now on: it cannot be read since when they are',
      );
    }
    for (const number of await listParked(env.disk, dataFolder)) {
      const shards = new Set(await listParkedShards(env.disk, dataFolder, number));
      parked.#nextNumber = number + 1;
      if (shards.size === 0) {
        await env.disk.removeTree(parkedFolder(dataFolder, number));
        continue;
      }
      const info = await readInfo(parts, number);
      const before = kept.get(number) ?? { millis: 0, expiredBeforeNanos: beforeAllTime };
      parked.#add({ number, info, shards, kept: before, isBusy: false });
    }
    return parked;
  }

  /** In the order in which they were parked. */
  get entries(): readonly ParkedEntry[] {
    return [...this.#entries.values()];
  }

  get bytes(): number {
    let bytes = 0;
    for (const { info, shards } of this.#entries.values()) {
      for (const shard of shards) bytes += info?.bytesByShard.get(shard) ?? 0;
    }
    return bytes;
  }

  /** No fileset that is parked of a namespace of this name was made later; null when there is none. */
  createdNanosOf(name: string): UnixNanos | null {
    let newest: UnixNanos | null = null;
    for (const { info } of this.#byName.get(name) ?? []) {
      if (newest === null || info!.createdNanos > newest) newest = info!.createdNanos;
    }
    return newest;
  }

  /** Whether rows of a shard of this very namespace are parked. */
  holds(definition: Namespace, shardCount: number, shard: number): boolean {
    return this.entriesOf(definition, shardCount).some(({ shards }) => shards.has(shard));
  }

  /** Whether rows of a shard are parked, whichever namespace of the name they are of. */
  has(name: string, shard: number): boolean {
    return (
      this.#byName
        .get(name)
        ?.values()
        .some(({ shards }) => shards.has(shard)) === true
    );
  }

  /**
   * What is parked of a namespace, be it of its shards or all of it, in that order; also of one of its
   * name that was lost, and not deleted, before it was made.
   */
  entriesOf(definition: Namespace, shardCount: number): ParkedEntry[] {
    const known = this.#byName.get(definition.name);
    if (known === undefined || known.size === 0) return [];
    const { blockSizeNanos } = definition.options.retentionOptions;
    return [...known].filter(
      ({ info }) =>
        !hasEnded({ name: definition.name, number: info!.number }, this.#ended) &&
        info!.blockSizeNanos === blockSizeNanos &&
        info!.shardCount === shardCount,
    );
  }

  /**
   * A folder for what a namespace loses now, on disk with what it is.
   * @throws what the disk rejects with
   */
  async create(info: ParkedInfo): Promise<ParkedEntry> {
    const { env, dataFolder } = this.#parts;
    const number = this.#nextNumber;
    this.#nextNumber += 1;
    await makeDurableFolder(env.disk, dataFolder, parkedData(dataFolder, number));
    const kept = { millis: 0, expiredBeforeNanos: beforeAllTime };
    const entry: ParkedEntry = { number, info, shards: new Set(), kept, isBusy: true };
    this.#add(entry);
    try {
      // An earlier one may have had its number.
      await this.note();
      await writeParkedInfo(env.disk, dataFolder, number, info);
    } catch (error) {
      this.#forget(entry);
      throw error;
    }
    return entry;
  }

  #add(entry: ParkedEntry): void {
    this.#entries.set(entry.number, entry);
    if (entry.info === null) return;
    const { namespace } = entry.info;
    const known = this.#byName.get(namespace);
    if (known === undefined) this.#byName.set(namespace, new Set([entry]));
    else known.add(entry);
  }

  #forget(entry: ParkedEntry): void {
    this.#entries.delete(entry.number);
    if (entry.info !== null) this.#byName.get(entry.info.namespace)?.delete(entry);
  }

  /**
   * Moves folders of shards out of use; those that are not there are passed over. After a power loss
   * they are where they were, or here.
   * @param from the folder in which they are
   * @throws what the disk rejects with; what was moved is here, to be called again
   */
  async take(entry: ParkedEntry, shards: readonly number[], from: string): Promise<void> {
    const { env, dataFolder } = this.#parts;
    const into = parkedData(dataFolder, entry.number);
    for (const shard of shards) {
      if ((await env.disk.list(`${from}/${shard}`)).length === 0) continue;
      this.#unsynced.add(into).add(from);
      await env.disk.rename(`${from}/${shard}`, `${into}/${shard}`);
      entry.shards.add(shard);
    }
    await this.sync();
  }

  /**
   * What was taken stays so, also after a power loss.
   * @throws what the disk rejects with
   */
  async sync(): Promise<void> {
    // In the order in which they were added: in neither of two folders it must never be.
    for (const folder of this.#unsynced) {
      await this.#parts.env.disk.syncFolder(folder);
      this.#unsynced.delete(folder);
    }
  }

  /**
   * Moves the folder of a shard back to where it is in use.
   * @param to an empty folder, or none
   * @throws what the disk rejects with
   */
  async giveBack(entry: ParkedEntry, shard: number, to: string): Promise<void> {
    const { env, dataFolder } = this.#parts;
    const into = to.slice(0, to.lastIndexOf('/'));
    await makeDurableFolder(env.disk, dataFolder, into);
    const from = parkedData(dataFolder, entry.number);
    await env.disk.rename(`${from}/${shard}`, to);
    await env.disk.syncFolder(into);
    await env.disk.syncFolder(from);
  }

  /** What was there of a shard is in use, or in other files that are. */
  async forgetShard(entry: ParkedEntry, shard: number): Promise<void> {
    const { env, dataFolder } = this.#parts;
    await env.disk.removeTree(`${parkedData(dataFolder, entry.number)}/${shard}`);
    entry.shards.delete(shard);
    if (entry.shards.size === 0) await this.#removeFolder(entry);
  }

  /** What was to be taken has been taken. @param until an estimate, for the log */
  async finish(entry: ParkedEntry, keepMillis: number): Promise<void> {
    entry.isBusy = false;
    if (entry.shards.size === 0) {
      await this.#removeFolder(entry);
      return;
    }
    const { log, env, dataFolder } = this.#parts;
    const until = new Date(env.clock.nowMillis() + keepMillis).toISOString();
    log.warn(
      { ...this.#fieldsOf(entry), folder: parkedFolder(dataFolder, entry.number), until },
      'data were taken from this node without a handover or a deletion: they are parked',
    );
  }

  #fieldsOf({ number, info, shards }: ParkedEntry): object {
    const ids = [...shards].sort((a, b) => a - b);
    let bytes = 0;
    for (const shard of ids) bytes += info?.bytesByShard.get(shard) ?? 0;
    const of = { namespace: info?.namespace ?? '', reason: info?.reason ?? '' };
    return { parked: number, ...of, shards: rangesOf(ids), bytes };
  }

  /**
   * Time has passed: removes what has been kept for long, or is past retention.
   * @param keepMillis so long parked data are kept, while the node runs
   * @param nowNanos by which rows expire
   */
  async tick(
    keepMillis: number,
    nowNanos: UnixNanos,
    owners: ReadonlyMap<string, ParkedOwner>,
  ): Promise<void> {
    const { clock, disk } = this.#parts.env;
    const now = clock.monotonicMillis();
    const passedMillis = now - this.#tickedAtMillis;
    this.#tickedAtMillis = now;
    for (const entry of this.entries) {
      if (entry.isBusy) continue;
      const { millis, expiredBeforeNanos } = entry.kept;
      const expired = nowNanos - retentionOf(entry.info, owners);
      entry.kept = {
        millis: millis + passedMillis,
        expiredBeforeNanos: expired > expiredBeforeNanos ? expired : expiredBeforeNanos,
      };
      if (entry.kept.millis >= keepMillis)
        await this.#remove(entry, 'they were kept for long enough');
      else if (isExpired(entry)) await this.#remove(entry, 'they are past retention');
      // Somebody has removed them by hand.
      else if ((await disk.list(this.#folderOf(entry))).length === 0) this.#forget(entry);
    }
    if (now - this.#notedAtMillis >= notedMillis) await this.note();
  }

  #folderOf({ number }: ParkedEntry): string {
    return parkedFolder(this.#parts.dataFolder, number);
  }

  /** Notes on disk how long they have been kept. */
  async note(): Promise<void> {
    if (this.#entries.size === 0) return;
    const { env, dataFolder } = this.#parts;
    this.#notedAtMillis = env.clock.monotonicMillis();
    const kept = new Map(this.entries.map((entry) => [entry.number, entry.kept]));
    await makeDurableFolder(env.disk, dataFolder, parkedRoot(dataFolder));
    await writeKept(env.disk, dataFolder, kept);
  }

  /**
   * What was parked before it, a deletion of everything in the namespace takes too.
   * @throws {TsdbError} UNAVAILABLE when the disk fails: to be called again
   */
  async noteDeletion(deletion: Pick<Deletion, 'namespace' | 'version'>): Promise<void> {
    for (const entry of this.entries) {
      const { info } = entry;
      if (info?.namespace !== deletion.namespace || entry.isBusy) continue;
      const isOlder =
        versionAtNanos(info.createdNanos + clockSkewNanos) <= BigInt(deletion.version);
      if (isOlder) await this.#remove(entry, 'everything in their namespace was deleted');
    }
  }

  /** What was parked of namespaces that were deleted since goes with them. */
  async removeEnded(ended: EndedNamespaces): Promise<void> {
    this.#ended = ended;
    if (ended.size === 0) return;
    for (const entry of this.entries) {
      const { info } = entry;
      if (info === null || entry.isBusy) continue;
      const isEnded = hasEnded({ name: info.namespace, number: info.number }, ended);
      if (isEnded) await this.#remove(entry, 'their namespace was deleted');
    }
  }

  /**
   * Removes what was parked first, since the disk is full.
   * @param isWanted of those that are to come back into use: they stay
   * @returns whether there was something to remove
   */
  makeRoom(isWanted: (entry: ParkedEntry) => boolean): Promise<boolean> {
    this.#makingRoom ??= this.#makeRoom(isWanted).finally(() => {
      this.#makingRoom = null;
    });
    return this.#makingRoom;
  }

  async #makeRoom(isWanted: (entry: ParkedEntry) => boolean): Promise<boolean> {
    const first = this.entries.find((entry) => !entry.isBusy && !isWanted(entry));
    if (first === undefined) return false;
    await this.#remove(first, 'the disk is full');
    return true;
  }

  async #remove(entry: ParkedEntry, why: string): Promise<void> {
    const { log } = this.#parts;
    entry.isBusy = true;
    try {
      log.warn({ ...this.#fieldsOf(entry), why }, 'parked data are removed');
      await this.#removeFolder(entry);
    } catch (error) {
      entry.isBusy = false;
      const reason = messageOf(error);
      throw new TsdbError('UNAVAILABLE', `cannot remove parked data: ${reason}`, { cause: error });
    }
  }

  /** In one step; what is left of it goes at the next start. */
  async #removeFolder(entry: ParkedEntry): Promise<void> {
    const { env, dataFolder } = this.#parts;
    const folder = this.#folderOf(entry);
    if ((await env.disk.list(folder)).length > 0) {
      await env.disk.makeFolder(`${dataFolder}/data`);
      const aside = await setFolderAside(env, dataFolder, folder);
      await env.disk.syncFolder(parkedRoot(dataFolder));
      this.#forget(entry);
      await env.disk.removeTree(aside);
    }
    this.#forget(entry);
  }
}

async function readInfo(
  { env, log, dataFolder }: ParkedDataParts,
  number: number,
): Promise<ParkedInfo | null> {
  try {
    return await readParkedInfo(env.disk, dataFolder, number);
  } catch (error) {
    const folder = parkedFolder(dataFolder, number);
    const fields = { folder, error: messageOf(error) };
    log.error(fields, 'it cannot be read what parked data are: they do not come back into use');
    return null;
  }
}

/** As it is now, or was when the namespace was lost. */
function retentionOf(info: ParkedInfo | null, owners: ReadonlyMap<string, ParkedOwner>): bigint {
  if (info === null) return 0n;
  const owner = owners.get(info.namespace)?.definition.options.retentionOptions;
  return owner?.retentionPeriodNanos ?? info.retentionNanos;
}

function isExpired({ info, kept }: ParkedEntry): boolean {
  const endNanos = info?.endNanos ?? null;
  return endNanos !== null && endNanos <= kept.expiredBeforeNanos;
}
