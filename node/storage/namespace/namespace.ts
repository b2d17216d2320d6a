/**
 * One namespace on this node: its rules, its index, and which of its series stand in the open
 * segment of the commit log. The series themselves are slots of the store.
 */
import { inOneGo } from '#lib/turns/steps.ts';
import { rowOutcome } from '#cluster/node/service.ts';
import { type Namespace, writeRulesOf } from '#cluster/namespaces/namespaces.ts';
import type { SampleStore } from '#engine/store/sample_store.ts';
import {
  blockOverlaps,
  blockStartOf,
  isBlockExpired,
  type WriteWindow,
  writeWindow,
} from '#lib/block_time.ts';
import type { Disk, Random } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';
import { murmur3 } from '#lib/hashing/hash.ts';
import type { Log } from '#lib/log.ts';
import { rightfulName } from '#lib/series_id/claimed_id.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { checkedId, knownIdHash, type SeriesName } from '#lib/series_id/series_name.ts';
import { tellsItsTags } from '#lib/series_id/to_tags.ts';
import type { UnixNanos } from '#lib/time.ts';
import type { LoopClock } from '#lib/turns/turns.ts';
import { NamespaceIndex } from '../../index/namespace_index.ts';
import type { SegmentBuffer } from '../../persist/commitlog/format.ts';
import type { FileCache } from '../filesets/file_cache.ts';
import type { MemoryBudget } from '../admission/memory_budget.ts';
import type { BlockFile } from '../filesets/block_file.ts';
import { NamespaceFiles } from '../filesets/namespace_files.ts';
import { ReadyShards } from './ready_shards.ts';
import { RecordedSeries } from '../series/recorded_series.ts';
import { LeavingSlots } from '../series/leaving_slots.ts';
import type { SeriesRate } from '../admission/series_rate.ts';
import type { ShardTable } from './shards.ts';
import type { NamespaceTombstones } from '../tombstones/tombstones.ts';

/**
 * Why a series was not taken, or its slot: a slot is 0 or more, an outcome is `-1 - rowOutcome`.
 */
type SlotOrRefusal = number;

/** Slots of the store that an expiry looks at in one step of the sequencer. */
const expiredAtOnce = 16_384;

/** What a namespace shares with the others of the node. */
export interface NamespaceParts {
  readonly clock: LoopClock;
  readonly store: SampleStore;
  readonly shards: ShardTable;
  readonly random: Random;
  readonly newSeries: SeriesRate;
  readonly disk: Disk;
  readonly log: Log;
  readonly fileCache: FileCache;
  readonly memory: MemoryBudget;
  /** Deletions of the namespace with this name. */
  readonly tombstonesOf: (name: string) => NamespaceTombstones;
  /** A number of the store that no namespace has. */
  readonly ordinal: number;
  /** Takes a number with all of its series, to be released bit by bit. */
  readonly giveUp: (ordinal: number, slots: Uint32Array) => void;
  /** Called when a fileset of the namespace was found to be damaged. */
  readonly onDamage: (namespace: NamespaceState, file: BlockFile) => void;
}

/** A block when series left the index of it last. */
export interface LeftBlock {
  readonly closed: readonly BlockFile[];
  readonly marks: number;
  readonly rowCount: number;
}

/** What an expiry took away. */
export interface Expired {
  /** Slots of the series that hold nothing any more, ascending. */
  readonly empty: Uint32Array;
  readonly filesets: number;
}

/** Slots that are looked at in one stretch of the main loop: some milliseconds. */
const slotsAtOnce = 16_384;

/** What is past retention when nobody has looked yet. */
export const beforeAllTime: UnixNanos = -(2n ** 63n);

export class NamespaceState {
  readonly name: string;
  /** Number of the namespace in the store; another one after all was deleted. */
  ordinal: number;
  /** Another one after all was deleted. */
  index: NamespaceIndex;
  readonly files: NamespaceFiles;
  readonly tombstones: NamespaceTombstones;
  readonly #store: SampleStore;
  readonly #shards: ShardTable;
  readonly #newSeries: SeriesRate;
  readonly #memory: MemoryBudget;
  readonly #parts: NamespaceParts;
  definition: Namespace;
  /** It is not in the registry any more: nothing is written to it. */
  isDropped = false;
  readonly #recorded = new RecordedSeries();
  /**
   * Series that expired: out of the index, and their references are refused until their slots are
   * free.
   */
  leaving: LeavingSlots = new LeavingSlots();
  /**
   * All deletions that stood when the namespace was taken up are applied, that of a former one of its
   * name among them.
   */
  isFormerEndKnown = false;
  /** How often all was deleted: who reads it elsewhere meanwhile must begin again. */
  truncations = 0;
  /** Filesets made at or before this time hold what was deleted. */
  truncatedAtNanos: UnixNanos = 0n;
  /** What is before this is past retention, also where a long fileset still has it. */
  expiredBeforeNanos: UnixNanos = beforeAllTime;
  /** There may be series whose ID does not tell their tags, so that two can have one ID. */
  mayShareIds = false;
  /** By start of a block what it was when series of its closed filesets left the index of it (node/storage/flush/closing.ts). */
  readonly leftBlocks: Map<UnixNanos, LeftBlock> = new Map();
  /** Counts the series that were made. */
  seriesMade = 0;
  /** All slots are below this. */
  slotsEnd = 0;
  /** Shards whose data of this namespace is here: reads of others are not whole. */
  readonly readyShards: ReadyShards = new ReadyShards();

  constructor(definition: Namespace, parts: NamespaceParts) {
    const { store, shards, newSeries } = parts;
    this.name = definition.name;
    this.ordinal = parts.ordinal;
    this.#parts = parts;
    this.#store = store;
    this.#shards = shards;
    this.#newSeries = newSeries;
    this.#memory = parts.memory;
    this.definition = definition;
    this.tombstones = parts.tombstonesOf(definition.name);
    this.index = this.#emptyIndex();
    this.files = new NamespaceFiles({
      clock: parts.clock,
      disk: parts.disk,
      log: parts.log,
      cache: parts.fileCache,
      blockSizeNanos: this.blockSizeNanos,
      tombstones: this.tombstones,
      slotOf: (series) => this.findSeries(series),
      onDamage: (file) => parts.onDamage(this, file),
    });
    this.#setRules();
  }

  get options(): Namespace['options'] {
    return this.definition.options;
  }

  get blockSizeNanos(): bigint {
    return this.definition.options.retentionOptions.blockSizeNanos;
  }

  get retentionNanos(): bigint {
    return this.definition.options.retentionOptions.retentionPeriodNanos;
  }

  #emptyIndex(): NamespaceIndex {
    const { random } = this.#parts;
    return new NamespaceIndex({ random, blockSizeNanos: this.blockSizeNanos });
  }

  /** Takes changed options; name and block size stay. */
  update(definition: Namespace): void {
    this.definition = definition;
    this.#setRules();
  }

  #setRules(): void {
    this.#store.setNamespace(this.ordinal, {
      blockSizeNanos: this.blockSizeNanos,
      ...writeRulesOf(this.definition.options),
    });
  }

  /** Times [start, end) of rows that are taken now: the rule that the store holds too. */
  writeWindow(nowNanos: UnixNanos): WriteWindow {
    return writeWindow(writeRulesOf(this.definition.options), nowNanos);
  }

  /** Start of the block that holds the time. */
  blockStartOf(nanos: UnixNanos): UnixNanos {
    return blockStartOf(nanos, this.blockSizeNanos);
  }

  /** How many blocks with series the range overlaps; at least 1. */
  blockCount(range: { startNanos: UnixNanos; endNanos: UnixNanos }): number {
    const overlapping = this.index.blockStarts.filter((start) =>
      blockOverlaps(start, this.blockSizeNanos, range),
    );
    return Math.max(1, overlapping.length);
  }

  /**
   * The slot of a series of which this node has data already, made when it is new; a negative
   * number when the series is not its own.
   * @throws {TsdbError} RESOURCE_EXHAUSTED when memory has no room for it: without it, answers
   * would count as whole that are not
   */
  resolveHere(series: SeriesName): SlotOrRefusal {
    const slot = this.resolve(series, Number.POSITIVE_INFINITY);
    if (slot !== -1 - rowOutcome.resourceExhausted) return slot;
    throw new TsdbError(
      'RESOURCE_EXHAUSTED',
      'cannot load all series: db.memoryMax has no room for them',
    );
  }

  /**
   * The slot of a series, made when it is new.
   * @param writerVersion placement version of the writer; Infinity for data that is here already
   * @returns the slot, or -1 - the outcome with which its rows are refused
   */
  resolve(series: SeriesName, writerVersion: number): SlotOrRefusal {
    const known = this.findExactly(series);
    if (known !== -1) return this.#unlessStale(known, writerVersion);
    const fromWriter = writerVersion !== Number.POSITIVE_INFINITY;
    let name = series;
    let idHash = knownIdHash(series);
    const tellsTags = idHash !== -1 || tellsItsTags(series);
    const id = idHash === -1 || this.mayShareIds ? checkedId(series) : null;
    if (id !== null) {
      if (this.mayShareIds || !tellsTags) {
        const sameId = this.index.findById(id);
        if (sameId !== -1) {
          // What is here already goes by its ID, whatever an earlier release let in.
          return fromWriter && !this.#isMeant(sameId, series)
            ? -1 - rowOutcome.otherTags
            : this.#unlessStale(sameId, writerVersion);
        }
      }
      if (!tellsTags) {
        const rightful = rightfulName(series, id);
        if (rightful === null && fromWriter) return -1 - rowOutcome.otherTags;
        name = rightful ?? series;
      }
      idHash = murmur3(id);
    } else if (idHash === -1) {
      return -1 - rowOutcome.badSeries;
    }
    const { shardCount } = this.#shards;
    if (shardCount === 0) return -1 - rowOutcome.shardNotOwned;
    const shard = idHash % shardCount;
    const isTaken = fromWriter ? this.#shards.get(shard) !== undefined : this.#shards.isHere(shard);
    if (!isTaken) return -1 - rowOutcome.shardNotOwned;
    if (this.#shards.writerIsStale(shard, writerVersion)) return -1 - rowOutcome.stalePlacement;
    if (fromWriter && !(this.#memory.admitsSeries() && this.#newSeries.take())) {
      return -1 - rowOutcome.resourceExhausted;
    }
    try {
      return this.#create(name, shard, tellsTags || tellsItsTags(name));
    } catch (error) {
      if (error instanceof TsdbError && error.code === 'RESOURCE_EXHAUSTED') {
        return -1 - rowOutcome.resourceExhausted;
      }
      throw error;
    }
  }

  /**
   * Whether a writer that names a series so means the one with that ID: by these very tags, or by the
   * ID alone.
   */
  #isMeant(slot: number, { idScheme, tags }: SeriesName): boolean {
    const byIdAlone = idScheme === idSchemeCode.explicit && tags.length === 0;
    return byIdAlone || Buffer.compare(this.index.tags(slot), tags) === 0;
  }

  /** The series with these very tags and ID, or -1. */
  findExactly(series: SeriesName): number {
    try {
      return this.index.find(series.tags, series.idScheme, series.explicitId);
    } catch (error) {
      // Tags that are no layout are told apart from unknown ones by whoever checks them next.
      if (error instanceof TsdbError && error.code === 'BAD_REQUEST') return -1;
      throw error;
    }
  }

  /** The series that these tags and this ID stand for, or -1. */
  findSeries(series: SeriesName): number {
    const slot = this.findExactly(series);
    if (slot !== -1 || !(this.mayShareIds || !tellsItsTags(series))) return slot;
    const id = checkedId(series);
    return id === null ? -1 : this.index.findById(id);
  }

  #unlessStale(slot: number, writerVersion: number): SlotOrRefusal {
    if (writerVersion === Number.POSITIVE_INFINITY) return slot;
    const shard = this.index.shard(slot);
    if (this.#shards.hasOthers && this.#shards.get(shard) === undefined) {
      return -1 - rowOutcome.shardNotOwned;
    }
    return this.#shards.writerIsStale(shard, writerVersion) ? -1 - rowOutcome.stalePlacement : slot;
  }

  /**
   * Takes an index that was saved in place of the own one, which is empty.
   * @param slots of its series, ascending: made for them
   */
  useIndex(index: NamespaceIndex, slots: Uint32Array, mayShareIds: boolean): void {
    this.index = index;
    this.mayShareIds ||= mayShareIds;
    this.slotsEnd = Math.max(this.slotsEnd, (slots.at(-1) ?? -1) + 1);
    this.#recorded.reserve(this.slotsEnd);
  }

  #create(series: SeriesName, shard: number, tellsTags: boolean): number {
    const { tags, idScheme, explicitId } = series;
    const slot = this.#store.createSeries(this.ordinal);
    try {
      this.index.insertFound(slot, tags, idScheme, explicitId, shard);
    } catch (error) {
      this.#store.releaseSeries(slot);
      throw error;
    }
    this.#recorded.reserve(slot + 1);
    this.#recorded.forget(slot);
    this.seriesMade += 1;
    if (!tellsTags) this.mayShareIds = true;
    this.slotsEnd = Math.max(this.slotsEnd, slot + 1);
    return slot;
  }

  /**
   * Adds dictionary entries of series that were made from these very tags: those of the index need
   * not be put together again. Slots whose generation is 0 are passed over.
   */
  recordMade(
    buffer: SegmentBuffer,
    entries: readonly number[],
    references: Uint32Array,
    names: readonly SeriesName[],
  ): void {
    const recorded = this.#recorded;
    recorded.begin(buffer.segment);
    const namespaceOrdinal = this.ordinalIn(buffer);
    for (let i = 0; i < entries.length; i += 1) {
      const entry = entries[i]!;
      const slot = references[2 * entry]!;
      const generation = references[2 * entry + 1]!;
      if (generation === 0 || recorded.add(slot)) continue;
      const { idScheme, tags, explicitId } = names[i]!;
      buffer.addSeries(namespaceOrdinal, { slot, generation, idScheme, tags, explicitId });
    }
  }

  /** Adds the dictionary entries that a segment lacks for these slots. */
  recordSeries(buffer: SegmentBuffer, slots: Uint32Array, rowCount: number): void {
    const recorded = this.#recorded;
    recorded.begin(buffer.segment);
    let namespaceOrdinal = -1;
    for (let row = 0; row < rowCount; row += 1) {
      const slot = slots[row]!;
      if (recorded.add(slot)) continue;
      if (namespaceOrdinal === -1) namespaceOrdinal = this.ordinalIn(buffer);
      const { index } = this;
      const head = {
        slot,
        generation: this.#store.generation[slot]!,
        idScheme: index.idScheme(slot),
        explicitId: index.explicitId(slot),
      };
      buffer.addSeriesOf(namespaceOrdinal, head, index.tagsLength(slot), (target, at) =>
        index.copyTags(slot, target, at),
      );
    }
  }

  /** Number of this namespace in a segment. */
  ordinalIn(buffer: SegmentBuffer): number {
    return buffer.namespaceOrdinal(this.name, 0);
  }

  /**
   * Forgets everything in memory, in one step whatever there is: references are refused from here
   * on since the namespace has another number in the store, and what it had is released after it.
   * @param ordinal a number of the store that no namespace has
   * @returns how many series went
   */
  truncate(atNanos: UnixNanos, ordinal: number): number {
    this.truncations += 1;
    this.leftBlocks.clear();
    if (atNanos > this.truncatedAtNanos) this.truncatedAtNanos = atNanos;
    const slots = this.#slotsOfNamespace();
    this.leaving = new LeavingSlots();
    const before = this.ordinal;
    this.ordinal = ordinal;
    this.index = this.#emptyIndex();
    this.mayShareIds = false;
    this.#setRules();
    this.#parts.giveUp(before, slots);
    return slots.length;
  }

  /** Time of a fileset that is made now: later than any deletion, whatever the clock did. */
  filesetTime(nowNanos: UnixNanos): UnixNanos {
    const { truncatedAtNanos, tombstones } = this;
    const { atNanosMax } = tombstones;
    const deletedAtNanos = atNanosMax > truncatedAtNanos ? atNanosMax : truncatedAtNanos;
    return nowNanos > deletedAtNanos ? nowNanos : deletedAtNanos + 1n;
  }

  /** Forgets series with all their samples. */
  release(slots: Uint32Array): void {
    if (slots.length === 0) return;
    this.index.remove(slots);
    for (const slot of slots) this.#store.releaseSeries(slot);
  }

  /** Whether the block is past retention. */
  isExpired(blockStartNanos: UnixNanos, nowNanos: UnixNanos): boolean {
    return isBlockExpired(blockStartNanos, this.blockSizeNanos, this.retentionNanos, nowNanos);
  }

  /**
   * Damaged filesets of a shard go whose blocks others gave. @param blocks null: all that there are
   */
  noteRepaired(shard: number, blocks: ReadonlySet<bigint> | null): void {
    const isHere = (start: bigint) =>
      blocks === null || blocks.has(start) || start < this.expiredBeforeNanos;
    this.files.removeAsides(
      (file) => file.shard === shard && this.files.blocksOf(file).every(isHere),
    );
  }

  /**
   * Whether no block of the series is left anywhere. Rows that are not applied yet do not count.
   */
  isEmpty(slot: number): boolean {
    return this.#store.blockStarts(slot).length === 0 && !this.index.isLiveSomewhere(slot);
  }

  /** As `expireInSteps`, and the series go with it, all in one step: for where nobody waits. */
  expire(nowNanos: UnixNanos): Expired {
    const expired = inOneGo(this.expireInSteps(nowNanos));
    this.release(expired.empty);
    return expired;
  }

  /**
   * Drops what is past retention: filesets in the first step, of memory some series a step, and the
   * blocks of the index in the last. Series of which no block is left anywhere are told, and are to
   * be removed. It must be given up when the namespace is truncated.
   */
  *expireInSteps(nowNanos: UnixNanos): Generator<void, Expired> {
    this.expiredBeforeNanos = this.blockStartOf(nowNanos - this.retentionNanos);
    const expired = this.files
      .all(null)
      .filter(({ endNanos }) => endNanos <= this.expiredBeforeNanos);
    const { cleanupEnabled } = this.definition.options;
    for (const file of expired) this.files.retire(file, cleanupEnabled ? 'delete' : 'keep');
    if (cleanupEnabled) {
      this.files.removeAsides(({ endNanos }) => endNanos <= this.expiredBeforeNanos);
    }
    const empty = yield* this.#store.expireInSteps(this.ordinal, nowNanos, expiredAtOnce);
    this.index.expireBlocks(nowNanos - this.retentionNanos);
    const gone = intersection(empty, this.index.slotsWithoutBlock());
    return { empty: gone, filesets: expired.length };
  }

  /** Slots that the store has given to this namespace, ascending. */
  #slotsOfNamespace(): Uint32Array {
    const slots = new Uint32Array(this.slotsEnd);
    let count = 0;
    for (let slot = 0; slot < slots.length; slot += 1) {
      if (this.index.has(slot) || this.leaving.has(slot)) slots[count++] = slot;
    }
    return slots.subarray(0, count);
  }

  /**
   * Slots of the series of these shards, in steps between which the index may change: a slot may be
   * another series' by then.
   * @returns ascending, of shards that have any
   */
  *slotsByShardInSteps(
    shards: ReadonlySet<number>,
  ): Generator<void, ReadonlyMap<number, readonly number[]>> {
    const slots = new Map<number, number[]>();
    for (let slot = 0; slot < this.slotsEnd; slot += 1) {
      if (slot > 0 && slot % slotsAtOnce === 0) yield;
      const { index } = this;
      if (!index.has(slot)) continue;
      const shard = index.shard(slot);
      if (!shards.has(shard)) continue;
      const known = slots.get(shard);
      if (known === undefined) slots.set(shard, [slot]);
      else known.push(slot);
    }
    return slots;
  }
}

/** What is in both of two ascending columns. */
function intersection(a: Uint32Array, b: Uint32Array): Uint32Array {
  const both = new Uint32Array(Math.min(a.length, b.length));
  let count = 0;
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    if (a[i] === b[j]) both[count++] = a[i]!;
    if (a[i]! <= b[j]!) i += 1;
    else j += 1;
  }
  return both.subarray(0, count);
}
