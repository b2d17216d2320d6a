/**
 * Writes rows of memory to filesets, block by block and shard by shard, and forgets them then
 * (docs/STORAGE.md). A series that gets rows meanwhile keeps all of its rows for the next flush.
 */
import type { SampleStore } from '#engine/store/sample_store.ts';
import { assert } from '#lib/assert.ts';
import { TsdbError } from '#lib/errors.ts';
import { seriesIdOf } from '#lib/series_id/from_tags.ts';
import type { SeriesName } from '#lib/series_id/series_name.ts';
import { compareBytes } from '#lib/tags.ts';
import type { UnixNanos } from '#lib/time.ts';
import { sortPaced } from '#lib/turns/paced.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import type { Pace } from './pace.ts';
import { seriesWithRows, type StoreWalkParts } from './store_walks.ts';
import { type VolumeParts, type VolumeSeries, type VolumeSource, writeVolume } from './volume.ts';

/**
 * Series that are encoded before the pace is asked whether to rest, 2 ms of those with 7,200 rows.
 * With 128, long ones hold the main loop for longer than the pace allows; fewer cost nothing that
 * can be measured.
 */
const seriesAtOnce = 16;
/** Series whose names are made before the pace is asked. */
const namesAtOnce = 128;
/** Shards of a block that are written at a time. */
const shardsAtOnce = 4;

/** Deletions that are on their way through memory. */
export interface Sweeps {
  /** Waits until no deletion is being applied. */
  swept(): Promise<void>;
}

/** What it takes to flush. */
export interface FlushParts extends VolumeParts, StoreWalkParts {
  readonly deletions: Sweeps;
}

export interface FlushReport {
  /** Blocks of shards whose rows are in filesets now. */
  blocks: number;
  /** Filesets that were written for them. */
  filesets: number;
  /** Series and bytes of these. */
  series: number;
  bytes: number;
  /** Blocks of shards that are not ready, and were left as they are. */
  blocksLeft: number;
}

export function emptyFlushReport(): FlushReport {
  return { blocks: 0, filesets: 0, series: 0, bytes: 0, blocksLeft: 0 };
}

/**
 * Flushes one block of all shards that are ready.
 * @param options.truncations of the namespace when it was seen that it has the block: nothing is flushed of one of which all went since
 * @param options.leaving flushes these shards and no others, ready or not, also of a namespace that is
 *   not in the registry any more: what is in memory of them must not be lost with that
 * @throws {TsdbError} UNAVAILABLE when the namespace was truncated or series were deleted
 *   meanwhile; what the disk rejects with: memory keeps what is not safe. A shard or namespace that
 *   was dropped meanwhile is passed over
 */
export async function flushBlock(
  parts: FlushParts,
  namespace: NamespaceState,
  blockStartNanos: UnixNanos,
  options: {
    readonly truncations: number;
    readonly pace: Pace;
    readonly report: FlushReport;
    readonly leaving?: (shard: number) => boolean;
  },
  signal: AbortSignal,
): Promise<void> {
  const { leaving, truncations } = options;
  // Its number in the store may be nobody's by now, or another one's, and slots those of others.
  const hasAllGone = (): boolean =>
    namespace.truncations !== truncations || (namespace.isDropped && leaving === undefined);
  if (hasAllGone()) return;
  const shards = await slotsByShard(parts, namespace, blockStartNanos, options.pace, signal);
  const waiting = [...shards].filter(([shard]) => leaving?.(shard) ?? true);
  // Several at a time, since most of the time of a small one is waiting for the disk.
  const worker = async (): Promise<void> => {
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      if (hasAllGone()) return;
      const [shard, slots] = next;
      try {
        await flushShard(parts, { namespace, shard, blockStartNanos, slots, ...options }, signal);
      } catch (error) {
        // The shard, or its namespace, was taken from this node meanwhile: nothing is left to flush.
        const isGone = error instanceof TsdbError && error.code === 'CANCELLED' && !signal.aborted;
        if (!isGone) throw error;
      }
    }
  };
  const outcomes = await Promise.allSettled(Array.from({ length: shardsAtOnce }, worker));
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
}

async function flushShard(
  parts: FlushParts,
  options: {
    readonly namespace: NamespaceState;
    readonly shard: number;
    readonly blockStartNanos: UnixNanos;
    readonly slots: SlotsOfShard;
    readonly truncations: number;
    readonly pace: Pace;
    readonly report: FlushReport;
    readonly leaving?: (shard: number) => boolean;
  },
  signal: AbortSignal,
): Promise<void> {
  const { namespace, shard, blockStartNanos, slots, truncations, pace, report, leaving } = options;
  signal.throwIfAborted();
  const mayFlush = (): boolean =>
    leaving !== undefined || namespace.readyShards.mayFlush(shard, blockStartNanos);
  if (!mayFlush()) {
    report.blocksLeft += 1;
    return;
  }
  await parts.deletions.swept();
  const written = await namespace.files.write(shard, async (dropped) => {
    // Who takes the shard away waits for this one, and all writes for them.
    const either = AbortSignal.any([signal, dropped]);
    const members = await membersOf(parts.store, namespace, slots, truncations, pace, either);
    // Its files may have been found to be damaged, or all of it may have gone, while others wrote, or names were made.
    if (namespace.truncations !== truncations || !mayFlush()) return null;
    const source = new MemorySource(parts, members, blockStartNanos, pace);
    return writeVolume(
      parts,
      {
        namespace,
        shard,
        blockStartNanos,
        source: 'flush',
        onSafe: () => parts.store.dropFlushed(source.given(), blockStartNanos),
        pace,
      },
      source,
      either,
    );
  });
  if (written === null) {
    report.blocksLeft += 1;
    return;
  }
  report.blocks += 1;
  report.filesets += written.volumes;
  report.series += written.series;
  report.bytes += written.bytes;
  await pace.rest(signal);
}

/** Series of a shard with rows in a block. */
interface SlotsOfShard {
  readonly slots: number[];
  readonly generations: number[];
}

async function slotsByShard(
  parts: StoreWalkParts,
  namespace: NamespaceState,
  blockStartNanos: UnixNanos,
  pace: Pace,
  signal: AbortSignal,
): Promise<Map<number, SlotsOfShard>> {
  const shards = new Map<number, SlotsOfShard>();
  const { index } = namespace;
  const found = seriesWithRows(parts, namespace, blockStartNanos, pace, signal);
  for await (const { slots, generations } of found) {
    slots.forEach((slot, i) => {
      const shard = index.shard(slot);
      let members = shards.get(shard);
      if (members === undefined) shards.set(shard, (members = { slots: [], generations: [] }));
      members.slots.push(slot);
      members.generations.push(generations[i]!);
    });
  }
  return shards;
}

/** One of them with its name, for the time of its flush. */
interface Member {
  readonly slot: number;
  readonly generation: number;
  readonly id: Uint8Array;
  readonly name: SeriesName;
}

/** By the order of their IDs, without those that have expired meanwhile; none of a namespace of which all went. */
async function membersOf(
  store: SampleStore,
  namespace: NamespaceState,
  shard: SlotsOfShard,
  truncations: number,
  pace: Pace,
  signal: AbortSignal,
): Promise<Member[]> {
  const { index } = namespace;
  const members: Member[] = [];
  for (const [i, slot] of shard.slots.entries()) {
    if (i % namesAtOnce === 0) {
      await pace.rest(signal);
      signal.throwIfAborted();
    }
    if (namespace.truncations !== truncations) return [];
    const generation = shard.generations[i]!;
    // One that leaves with its shard is out of the index before its slot is given back.
    if (store.generation[slot] !== generation || !index.has(slot)) continue;
    const name: SeriesName = {
      idScheme: index.idScheme(slot),
      tags: index.tags(slot),
      explicitId: index.explicitId(slot).slice(),
    };
    const id = seriesIdOf(name.idScheme, name.tags, name.explicitId);
    assert(id !== null, 'a series of the index has an ID');
    members.push({ slot, generation, id, name });
  }
  const pausing = pace.pausing(signal);
  return await sortPaced(members, (a, b) => compareBytes(a.id, b.id), pausing);
}

/** Rows of memory, merged and encoded as for a file. */
class MemorySource implements VolumeSource {
  readonly #parts: FlushParts;
  readonly #members: readonly Member[];
  readonly #blockStartNanos: UnixNanos;
  readonly #pace: Pace;
  readonly #slots: number[] = [];
  #position = 0;

  constructor(
    parts: FlushParts,
    members: readonly Member[],
    blockStartNanos: UnixNanos,
    pace: Pace,
  ) {
    this.#parts = parts;
    this.#members = members;
    this.#blockStartNanos = blockStartNanos;
    this.#pace = pace;
  }

  async next(): Promise<readonly VolumeSeries[] | null> {
    if (this.#position > 0) await this.#pace.rest(null);
    const { store } = this.#parts;
    while (this.#position < this.#members.length) {
      const { generation } = store;
      // A series may have expired since, and its slot may be another's.
      const some = this.#members
        .slice(this.#position, this.#position + seriesAtOnce)
        .filter((member) => generation[member.slot] === member.generation);
      this.#position += seriesAtOnce;
      if (some.length === 0) continue;
      const slots = Uint32Array.from(some, ({ slot }) => slot);
      const { chunkData, chunkOffset } = store.flushBlock(slots, this.#blockStartNanos);
      this.#slots.push(...slots);
      return some.map(({ id, name }, i) => ({
        id,
        name,
        chunks: chunkData.subarray(chunkOffset[i]!, chunkOffset[i + 1]!),
      }));
    }
    return null;
  }

  /** Slots of the series that were given. */
  given(): Uint32Array {
    return Uint32Array.from(this.#slots);
  }
}
