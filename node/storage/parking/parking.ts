/**
 * Parks what a placement or a registry has taken away (docs/STORAGE.md, Parked data): its rows go to
 * filesets, these out of use, and memory is freed. Until that is done all of it is still here, and a
 * shard that comes back just stays.
 */
import { namespaceNumber } from '#cluster/namespaces/numbers.ts';
import { BrokenInvariant } from '#lib/assert.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { namespaceFolder } from '../../persist/fileset/format.ts';
import type { ParkedInfo } from '../../persist/parked_folder.ts';
import type { RetentionClock } from '../../clock/retention_clock.ts';
import type { NamespaceRemoval } from '../deletions/namespace_removal.ts';
import { emptyFlushReport, flushBlock, type FlushParts } from '../flush/flush.ts';
import { Pace } from '../flush/pace.ts';
import type { Snapshots } from '../flush/snapshot.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import type { Sequencer } from '../write/sequencer.ts';
import type { Holdings } from './holdings.ts';
import type { ParkedData, ParkedEntry } from './parked_data.ts';

/** Share of the main loop's time for flushes of what is to be parked. */
const share = 0.5;

/** What it takes to park data. */
export interface ParkingParts extends FlushParts {
  readonly sequencer: Sequencer;
  readonly retentionClock: RetentionClock;
  readonly namespaces: ReadonlyMap<string, NamespaceState>;
  readonly removal: Pick<NamespaceRemoval, 'letGo' | 'lost' | 'takeOut'>;
  readonly holdings: Holdings;
  readonly parked: ParkedData;
  readonly snapshots: Pick<Snapshots, 'demand'>;
}

export class Parking {
  readonly #parts: ParkingParts;
  /** Shards that were taken away and are here; changed in steps of the sequencer alone. */
  #leaving: ReadonlySet<number> = new Set();
  #reason = '';
  /** Of these, those whose files were begun to be moved: that has to be ended before they may come back. */
  readonly #moving = new Set<number>();
  #running: Promise<void> | null = null;
  /** So long parked data are kept, while the node runs. */
  keepMillis = 0;

  constructor(parts: ParkingParts) {
    this.#parts = parts;
  }

  /** Whether there is something to park. */
  get isDue(): boolean {
    return this.#leaving.size + this.#moving.size + this.#parts.removal.lost.size > 0;
  }

  /** Whether the disk failed while files of shards were moved: none of them can come back before. */
  get isStuck(): boolean {
    return this.#moving.size > 0;
  }

  /**
   * A step of the sequencer: these are the shards that were taken away, all of them.
   * @param reason in words, for people
   */
  leave(shards: ReadonlySet<number>, reason: string): void {
    this.#leaving = shards;
    this.#reason = reason;
    for (const namespace of this.#parts.namespaces.values()) {
      for (const shard of shards) namespace.readyShards.delete(shard);
    }
  }

  /**
   * Parks all that is to be parked.
   * @throws {TsdbError} UNAVAILABLE when the disk fails, or rows are being deleted: to be called again
   */
  run(signal: AbortSignal): Promise<void> {
    this.#running ??= this.#run(signal).finally(() => {
      this.#running = null;
    });
    return this.#running;
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { removal, holdings, parked, snapshots } = this.#parts;
    if (!this.isDue) return;
    try {
      for (const namespace of removal.lost.values()) await this.#parkNamespace(namespace, signal);
      await this.#parkShards(signal);
      // Not before: what the folder does not hold is not looked for where it was.
      await parked.sync();
      await holdings.save();
      // What is parked is in the log, too, where a start would look at it in vain.
      snapshots.demand();
    } catch (error) {
      const isKnown = error instanceof TsdbError || error instanceof BrokenInvariant;
      if (isKnown || signal.aborted) throw error;
      throw new TsdbError('UNAVAILABLE', `cannot park data: ${messageOf(error)}`, { cause: error });
    }
  }

  async #parkShards(signal: AbortSignal): Promise<void> {
    const { namespaces, removal, holdings, parked } = this.#parts;
    const isLeaving = (shard: number): boolean =>
      this.#leaving.has(shard) || this.#moving.has(shard);
    const shards = this.#leaving.union(this.#moving);
    if (shards.size === 0) return;
    for (const namespace of namespaces.values()) await this.#flush(namespace, isLeaving, signal);
    const entries = new Map<NamespaceState, ParkedEntry>();
    try {
      for (const namespace of namespaces.values()) {
        const withFiles = (await this.#foldersOf(namespace)).filter((shard) => shards.has(shard));
        if (withFiles.length === 0) continue;
        const info = this.#infoOf(namespace, withFiles, this.#reason);
        entries.set(namespace, await parked.create(info));
      }
      await removal.letGo(new Set(shards), {
        isToGo: isLeaving,
        begin: (lot, slots) => {
          for (const [namespace, ofLot] of slots) this.#checkFlushed(namespace, ofLot);
          for (const shard of lot) this.#moving.add(shard);
        },
        moveFiles: (namespace, lot) => this.#take(namespace, entries.get(namespace) ?? null, lot),
        end: (lot) => {
          holdings.removeShards(lot);
          this.#leaving = this.#leaving.difference(new Set(lot));
          for (const shard of lot) this.#moving.delete(shard);
        },
      });
    } finally {
      for (const entry of entries.values()) await parked.finish(entry, this.keepMillis);
    }
  }

  async #parkNamespace(namespace: NamespaceState, signal: AbortSignal): Promise<void> {
    const { removal, holdings, parked, sequencer } = this.#parts;
    const { name } = namespace;
    await this.#flush(namespace, () => true, signal);
    const shards = await this.#foldersOf(namespace);
    const reason = 'the namespace left the registry, and nobody has deleted it';
    const entry =
      shards.length === 0 ? null : await parked.create(this.#infoOf(namespace, shards, reason));
    try {
      await sequencer.exclusive(async () => {
        // It was deleted meanwhile.
        if (removal.lost.get(name) !== namespace) return;
        this.#checkFlushed(namespace, null);
        await removal.takeOut(namespace, (all) => this.#take(namespace, entry, all));
        removal.lost.delete(name);
        holdings.removeNamespace(namespace.definition);
      });
    } finally {
      if (entry !== null) await parked.finish(entry, this.keepMillis);
    }
  }

  /** Shards of which there are folders. */
  async #foldersOf({ name }: NamespaceState): Promise<number[]> {
    const { env, dataFolder } = this.#parts;
    const names = await env.disk.list(namespaceFolder(dataFolder, name));
    return names.filter((each) => /^\d+$/.test(each)).map(Number);
  }

  async #flush(
    namespace: NamespaceState,
    leaving: (shard: number) => boolean,
    signal: AbortSignal,
  ): Promise<void> {
    const { env, store, retentionClock } = this.#parts;
    const pace = new Pace(env.clock, () => share);
    const now = retentionClock.nowNanos();
    const { ordinal, truncations } = namespace;
    for (const { blockStartNanos } of store.blocks(ordinal)) {
      if (namespace.isExpired(blockStartNanos, now)) continue;
      const options = { truncations, pace, report: emptyFlushReport(), leaving };
      await flushBlock(this.#parts, namespace, blockStartNanos, options, signal);
    }
  }

  /** @param slots of series; null for all of the namespace */
  #checkFlushed(namespace: NamespaceState, slots: readonly number[] | null): void {
    const { store, retentionClock } = this.#parts;
    const now = retentionClock.nowNanos();
    const isKept = (start: bigint): boolean => !namespace.isExpired(start, now);
    const isInMemory =
      slots === null
        ? store.blocks(namespace.ordinal).some(({ blockStartNanos }) => isKept(blockStartNanos))
        : slots.some((slot) => store.blockStarts(slot).some(isKept));
    if (!isInMemory) return;
    const what = `rows of the namespace are not in filesets yet: ${namespace.name}`;
    throw new TsdbError('UNAVAILABLE', `cannot park data: ${what}`);
  }

  #infoOf(namespace: NamespaceState, shards: readonly number[], reason: string): ParkedInfo {
    const { env } = this.#parts;
    const { name, definition, blockSizeNanos, retentionNanos, options } = namespace;
    let createdNanos = namespace.filesetTime(env.clock.nowNanos());
    let endNanos: bigint | null = null;
    const bytesByShard = new Map<number, number>();
    for (const shard of shards) {
      let bytes = 0;
      for (const file of namespace.files.all(shard)) {
        bytes += file.dataBytes + file.indexBytes;
        if (file.info.createdNanos > createdNanos) createdNanos = file.info.createdNanos;
        if (endNanos === null || file.endNanos > endNanos) endNanos = file.endNanos;
      }
      bytesByShard.set(shard, bytes);
    }
    return {
      namespace: name,
      number: namespaceNumber(definition),
      blockSizeNanos,
      retentionNanos,
      shardCount: this.#parts.shards.shardCount,
      reason,
      parkedNanos: env.clock.nowNanos(),
      createdNanos,
      endNanos: options.cleanupEnabled ? endNanos : null,
      bytesByShard,
    };
  }

  async #take(
    namespace: NamespaceState,
    entry: ParkedEntry | null,
    shards: readonly number[],
  ): Promise<void> {
    const { parked, dataFolder } = this.#parts;
    try {
      if (entry === null) {
        const left = new Set(await this.#foldersOf(namespace)).intersection(new Set(shards));
        if (left.size > 0) throw new Error(`files came meanwhile: ${namespace.name}`);
      } else {
        await parked.take(entry, shards, namespaceFolder(dataFolder, namespace.name));
      }
    } catch (error) {
      throw new TsdbError('UNAVAILABLE', `cannot park files: ${messageOf(error)}`, {
        cause: error,
      });
    }
  }
}
