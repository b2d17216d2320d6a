/**
 * How namespaces and shards go while the node runs: out of the log, of the index and of the files
 * in use in one short step; their memory is released and their files are removed after it, bit by
 * bit.
 */
import { withRests } from '#lib/turns/steps.ts';
import type { NamespaceRegistry } from '#cluster/namespaces/namespaces.ts';
import { type EndedNamespaces, hasEnded, isSameNamespace } from '#cluster/namespaces/numbers.ts';
import type { SampleStore } from '#engine/store/sample_store.ts';
import type { Env } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { Commitlog } from '../../persist/commitlog/commitlog.ts';
import { namespaceFolder, shardFolder } from '../../persist/fileset/format.ts';
import { setFolderAside } from '../../persist/folders.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import type { ShardTable } from '../namespace/shards.ts';
import type { Sequencer } from '../write/sequencer.ts';

/**
 * Namespaces in the memory of a store, with those that are being released; the kernel has a table
 * of so many.
 */
export const namespaceOrdinalsMax = 1024;

/** Series that are released in one stretch of the main loop: some milliseconds. */
const seriesAtOnce = 4096;

/** No fileset was made before that. */
const beforeAllTime = 0n;

/** Shards that are dropped in one step: each costs some calls of the disk. */
const shardsAtOnce = 32;

/** What it takes to remove namespaces and shards. */
export interface RemovalParts {
  readonly env: Env;
  readonly log: Log;
  readonly dataFolder: string;
  readonly store: SampleStore;
  readonly shards: ShardTable;
  readonly commitlog: Commitlog;
  readonly sequencer: Sequencer;
  /** Those that are dropped are taken out of it. */
  readonly namespaces: Map<string, NamespaceState>;
  /** Whether what is on this disk is in memory. */
  readonly isLoaded: () => boolean;
}

/** What becomes of shards that leave this node. */
export interface ShardsLeave {
  /** Asked in the step in which they go. */
  readonly isToGo: (shard: number) => boolean;
  /**
   * Called in that step, before their series are forgotten.
   * @param slots of these, by namespace
   * @throws {TsdbError} when they cannot go now: nothing has changed
   */
  readonly begin: (
    shards: readonly number[],
    slots: ReadonlyMap<NamespaceState, readonly number[]>,
  ) => void;
  /** Takes their folders out of use. @throws {TsdbError} UNAVAILABLE when the disk fails */
  readonly moveFiles: (namespace: NamespaceState, shards: readonly number[]) => Promise<void>;
  /** Called in that step, when nothing of them is left. */
  readonly end: (shards: readonly number[]) => void;
}

export class NamespaceRemoval implements AsyncDisposable {
  readonly #parts: RemovalParts;
  #slotsEnd = 0;
  readonly #freeOrdinals: number[] = [];
  /** Filesets were deleted, and may come back with a power loss. */
  #hasDeletedFiles = false;
  #cannotDelete = false;
  /** Out of the registry, and to be deleted: where log or disk fail, it is tried again. */
  readonly #dropping = new Set<NamespaceState>();
  /**
   * By name: out of the registry, and nobody has deleted them. They are to be parked (../parking/), and
   * another one of the name is not made before.
   */
  readonly lost: Map<string, NamespaceState> = new Map();
  /** What goes on after the steps. */
  readonly #running = new Set<Promise<void>>();

  constructor(parts: RemovalParts) {
    this.#parts = parts;
  }

  /**
   * A number of the store that no namespace has. One is left when namespaces are added, so that
   * each of them can be dropped.
   * @throws {TsdbError} RESOURCE_EXHAUSTED when all are in use
   */
  takeOrdinal(use: 'add' | 'delete'): number {
    const freeCount = this.#freeOrdinals.length + namespaceOrdinalsMax - this.#slotsEnd;
    if (freeCount <= (use === 'add' ? 1 : 0)) {
      const inMemory = namespaceOrdinalsMax - freeCount;
      const message = `cannot ${use} a namespace: ${inMemory} are in memory`;
      throw new TsdbError('RESOURCE_EXHAUSTED', message);
    }
    const free = this.#freeOrdinals.pop();
    if (free !== undefined) return free;
    this.#slotsEnd += 1;
    return this.#slotsEnd - 1;
  }

  /** Takes over a number with its series, which nothing else names any more. */
  giveUp(ordinal: number, slots: Uint32Array): void {
    const steps = this.#releaseSteps(ordinal, slots);
    if (this.#parts.isLoaded()) {
      this.#inBackground(this.#runInBackground(steps));
      return;
    }
    // Nobody waits during a start, and a log may have more truncations than there are numbers.
    for (const _ of steps) continue;
  }

  *#releaseSteps(ordinal: number, slots: Uint32Array): Generator<void, void, void> {
    const { store } = this.#parts;
    for (let first = 0; first < slots.length; first += seriesAtOnce) {
      // Also before the first one: the step that gave them up is short.
      yield;
      for (const slot of slots.subarray(first, first + seriesAtOnce)) store.releaseSeries(slot);
    }
    store.forgetNamespace(ordinal);
    this.#freeOrdinals.push(ordinal);
  }

  async #runInBackground(steps: Generator<void, void, void>): Promise<void> {
    const never = new AbortController().signal;
    for (const _ of steps) await this.#parts.env.clock.sleep(0, never);
  }

  /** Waits until everything that was given up is released and removed. */
  async settled(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  #inBackground(work: Promise<void>): void {
    const running = work.finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  /**
   * A step of the sequencer: takes the namespaces out of use that are not in the registry. All of them
   * are refused from here on. Those that were deleted are dropped: at once where another one of the name is
   * to be made, the others by `dropDeleted`.
   * @throws {TsdbError} when log or disk fail; to be called again then
   */
  async takeOutOfUse(registry: NamespaceRegistry, ended: EndedNamespaces): Promise<void> {
    const { namespaces } = this.#parts;
    for (const [name, namespace] of this.lost) {
      if (!hasEnded(namespace.definition, ended)) continue;
      this.lost.delete(name);
      this.#dropping.add(namespace);
    }
    for (const [name, namespace] of namespaces) {
      const { definition } = namespace;
      if (isSameNamespace(definition, registry.get(name), ended)) continue;
      namespaces.delete(name);
      namespace.isDropped = true;
      if (hasEnded(definition, ended)) this.#dropping.add(namespace);
      else this.lost.set(name, namespace);
    }
    for (const namespace of this.#dropping) {
      if (registry.has(namespace.name)) await this.#drop(namespace);
    }
  }

  /** There is something for `dropDeleted` to do. */
  get isDropping(): boolean {
    return this.#dropping.size > 0;
  }

  /**
   * Drops those that were deleted, each in a step of its own: it waits for the disk several times, and
   * writes go on in between.
   * @throws {TsdbError} when log or disk fail; to be called again then
   */
  async dropDeleted(): Promise<void> {
    const { sequencer } = this.#parts;
    for (const namespace of this.#dropping) {
      await sequencer.exclusive(() => this.#drop(namespace));
    }
  }

  async #drop(namespace: NamespaceState): Promise<void> {
    const series = await this.deleteAll(namespace);
    this.#dropping.delete(namespace);
    this.giveUp(namespace.ordinal, new Uint32Array(0));
    this.#parts.log.info({ namespace: namespace.name, series }, 'namespace dropped');
  }

  /**
   * Removes the files of a namespace that was deleted while this node was away, unless it was made
   * again.
   */
  async removeUnknown(name: string): Promise<void> {
    const { sequencer, namespaces, dataFolder } = this.#parts;
    await sequencer.exclusive(async () => {
      // One that is being dropped takes its files with it, when nobody writes there.
      const isDropping = this.#dropping.values().some((namespace) => namespace.name === name);
      if (namespaces.has(name) || this.lost.has(name) || isDropping) return;
      await this.#removeFolder(namespaceFolder(dataFolder, name));
    });
  }

  /**
   * Forgets shards of all namespaces, which others have, and removes their files.
   * @param shards those that are gone are taken out of it
   * @throws {TsdbError} UNAVAILABLE when the disk fails; to be called again then
   */
  dropShards(shards: Set<number>): Promise<void> {
    const { dataFolder } = this.#parts;
    return this.letGo(shards, {
      isToGo: () => true,
      begin: () => {},
      end: () => {},
      moveFiles: async ({ name }, lot) => {
        for (const shard of lot) await this.#removeFolder(shardFolder(dataFolder, name, shard));
      },
    });
  }

  /**
   * Forgets shards of all namespaces, which this node does not own any more, some in each step of
   * the sequencer: writes go on in between.
   * @param shards those that are gone are taken out of it
   * @throws {TsdbError} as those of `leave`; to be called again then
   */
  async letGo(shards: Set<number>, leave: ShardsLeave): Promise<void> {
    if (shards.size === 0) return;
    const { namespaces, env } = this.#parts;
    const never = new AbortController().signal;
    // They get no series any more, but one of another shard may get the slot of one that left.
    const slotsOf = new Map<NamespaceState, ReadonlyMap<number, readonly number[]>>();
    for (const namespace of namespaces.values()) {
      const steps = namespace.slotsByShardInSteps(shards);
      slotsOf.set(namespace, await withRests(steps, () => env.clock.sleep(0, never)));
    }
    let lot: number[] = [];
    let series = 0;
    for (const shard of [...shards]) {
      lot.push(shard);
      for (const byShard of slotsOf.values()) series += byShard.get(shard)?.length ?? 0;
      if (lot.length < shardsAtOnce && series < seriesAtOnce) continue;
      await this.#letLotGo(lot, slotsOf, leave);
      for (const gone of lot) shards.delete(gone);
      lot = [];
      series = 0;
    }
    await this.#letLotGo(lot, slotsOf, leave);
    for (const gone of lot) shards.delete(gone);
  }

  async #letLotGo(
    candidates: readonly number[],
    slotsOf: ReadonlyMap<NamespaceState, ReadonlyMap<number, readonly number[]>>,
    leave: ShardsLeave,
  ): Promise<void> {
    const { namespaces, sequencer } = this.#parts;
    await sequencer.exclusive(async () => {
      const lot = candidates.filter(leave.isToGo);
      const slots = new Map<NamespaceState, number[]>();
      for (const namespace of namespaces.values()) {
        const { index } = namespace;
        const ofLot = lot.flatMap((shard) =>
          (slotsOf.get(namespace)?.get(shard) ?? []).filter(
            (slot) => index.has(slot) && index.shard(slot) === shard,
          ),
        );
        slots.set(namespace, ofLot);
      }
      leave.begin(lot, slots);
      for (const [namespace, ofLot] of slots) {
        for (const shard of lot) namespace.readyShards.delete(shard);
        namespace.release(Uint32Array.from(ofLot).sort());
        await namespace.files.drop(lot, () => leave.moveFiles(namespace, lot));
      }
      leave.end(lot);
    });
  }

  /**
   * A step of the sequencer: deletes all of a namespace, in the log, in memory and on disk.
   * @returns how many series went
   * @throws {TsdbError} RESOURCE_EXHAUSTED: nothing has changed; UNAVAILABLE when log or disk fail
   */
  async deleteAll(namespace: NamespaceState): Promise<number> {
    const { env, shards, dataFolder } = this.#parts;
    const atNanos = namespace.filesetTime(env.clock.nowNanos());
    // Before the record: what is refused must not be found in the log by the next start.
    const ordinal = this.takeOrdinal('delete');
    try {
      await this.#logTruncate(namespace, atNanos);
    } catch (error) {
      this.#freeOrdinals.push(ordinal);
      throw error;
    }
    const count = namespace.truncate(atNanos, ordinal);
    this.#hasDeletedFiles = true;
    // Its shards without a placement too.
    const all = new Set([...shards.here(), ...namespace.files.shardIds()]);
    await namespace.files.drop([...all], () =>
      this.#removeFolder(namespaceFolder(dataFolder, namespace.name)),
    );
    await this.syncDeletions();
    return count;
  }

  /**
   * A step of the sequencer: takes all of a namespace out of memory whose rows are in filesets, and
   * these out of use. What the log holds of it so far is void; the filesets are not, which may come
   * back.
   * @param moveFiles takes the folders of its shards out of use, when nobody writes there
   * @throws {TsdbError} RESOURCE_EXHAUSTED, UNAVAILABLE; to be called again then
   */
  async takeOut(
    namespace: NamespaceState,
    moveFiles: (shards: readonly number[]) => Promise<void>,
  ): Promise<void> {
    const { shards, dataFolder } = this.#parts;
    const ordinal = this.takeOrdinal('delete');
    const all = [...new Set([...shards.here(), ...namespace.files.shardIds()])];
    try {
      // Before the record: what is not moved yet is found by the next start, with its rows in the log.
      await namespace.files.drop(all, async () => {
        await moveFiles(all);
        await this.#removeFolder(namespaceFolder(dataFolder, namespace.name));
      });
      await this.#logTruncate(namespace, beforeAllTime);
    } catch (error) {
      this.#freeOrdinals.push(ordinal);
      throw error;
    }
    namespace.truncate(beforeAllTime, ordinal);
    this.giveUp(ordinal, new Uint32Array(0));
  }

  async #removeFolder(folder: string): Promise<void> {
    const { env, dataFolder } = this.#parts;
    let aside: string;
    try {
      if ((await env.disk.list(folder)).length === 0) return;
      aside = await setFolderAside(env, dataFolder, folder);
    } catch (error) {
      this.#cannotDelete = true;
      throw new TsdbError('UNAVAILABLE', `cannot delete files: ${messageOf(error)}`, {
        cause: error,
      });
    }
    this.#cannotDelete = false;
    // What is left of it goes at the next start.
    this.#inBackground(env.disk.removeTree(aside).catch(() => {}));
  }

  /**
   * Makes sure that deleted filesets stay away without the record of their deletion, which goes
   * with the log.
   * @throws {TsdbError} UNAVAILABLE when the disk fails
   */
  async syncDeletions(): Promise<void> {
    if (!this.#hasDeletedFiles) return;
    const { env, dataFolder } = this.#parts;
    const folder = `${dataFolder}/data`;
    try {
      if (this.#cannotDelete) throw new Error('files of a truncated namespace are left');
      if ((await env.disk.size(folder)) !== null || (await env.disk.list(folder)).length > 0) {
        await env.disk.syncFolder(folder);
      }
    } catch (error) {
      throw new TsdbError('UNAVAILABLE', `cannot delete files for good: ${messageOf(error)}`, {
        cause: error,
      });
    }
    this.#hasDeletedFiles = false;
  }

  /**
   * Notes in the log that what it holds of a namespace so far is gone.
   * @param atNanos filesets that were made then or before are gone, too
   */
  async #logTruncate(namespace: NamespaceState, atNanos: bigint): Promise<void> {
    const { commitlog, env } = this.#parts;
    const nowNanos = env.clock.nowNanos();
    const neededNanos = atNanos > nowNanos ? atNanos : nowNanos;
    // Synced in any case: the removal of the folder, which is durable, must not be ahead of the
    // log.
    await commitlog.write((buffer) => {
      buffer.addTruncate(namespace.ordinalIn(buffer), atNanos);
      commitlog.noteNeeded(buffer.segment, namespace.name, Number(neededNanos / 1_000_000n));
    }, true);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { files } of this.#dropping) await files.settled();
    for (const { files } of this.lost.values()) await files.settled();
    await this.settled();
  }
}
