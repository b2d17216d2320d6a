/**
 * Writes rows of memory to filesets, block by block and shard by shard, and forgets them then
 * (docs/STORAGE.md). A series that gets rows meanwhile keeps all of its rows for the next flush.
 */
import type { Store } from '#engine/store.ts';
import { compareBytes } from '#lib/tags.ts';
import type { UnixNanos } from '#lib/time.ts';
import type { Database } from './database.ts';
import type { NamespaceState } from './namespace.ts';
import type { Pace } from './pace.ts';
import { type VolumeSeries, type VolumeSource, writeVolume } from './volume.ts';

/** Series that are encoded in one stretch of the main loop. */
const seriesAtOnce = 128;

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
 * @throws {TsdbError} UNAVAILABLE when the namespace was truncated meanwhile, CANCELLED when a shard was
 *   dropped; what the disk rejects with: memory keeps what is not safe
 */
export async function flushBlock(
  database: Database,
  namespace: NamespaceState,
  blockStartNanos: UnixNanos,
  options: { readonly pace: Pace; readonly report: FlushReport },
  signal: AbortSignal,
): Promise<void> {
  const { report, pace } = options;
  for (const [shard, members] of membersByShard(database.store, namespace, blockStartNanos)) {
    signal.throwIfAborted();
    if (!namespace.readyShards.has(shard)) {
      report.blocksLeft += 1;
      continue;
    }
    const written = await namespace.files.write(shard, (dropped) => {
      const source = new MemorySource(database.store, namespace, members, blockStartNanos, pace);
      return writeVolume(
        database,
        {
          namespace,
          shard,
          blockStartNanos,
          source: 'flush',
          onSafe: () => database.store.dropFlushed(source.given(), blockStartNanos),
        },
        source,
        AbortSignal.any([signal, dropped]),
      );
    });
    report.blocks += 1;
    report.filesets += written.volumes;
    report.series += written.series;
    report.bytes += written.bytes;
    await pace.rest(signal);
  }
}

/** A series with rows in the block. */
interface Member {
  readonly slot: number;
  readonly generation: number;
  readonly id: Uint8Array;
}

function membersByShard(
  store: Store,
  namespace: NamespaceState,
  blockStartNanos: UnixNanos,
): Map<number, Member[]> {
  const shards = new Map<number, Member[]>();
  const { index } = namespace;
  const { generation } = store;
  for (const slot of store.slotsOfBlock(namespace.ordinal, blockStartNanos)) {
    const shard = index.shard(slot);
    const member = { slot, generation: generation[slot]!, id: index.id(slot) };
    const members = shards.get(shard);
    if (members === undefined) shards.set(shard, [member]);
    else members.push(member);
  }
  return shards;
}

/** Rows of memory, merged and encoded as for a file. */
class MemorySource implements VolumeSource {
  private readonly store: Store;
  private readonly namespace: NamespaceState;
  private readonly members: readonly Member[];
  private readonly blockStartNanos: UnixNanos;
  private readonly pace: Pace;
  private readonly slots: number[] = [];
  private position = 0;

  constructor(
    store: Store,
    namespace: NamespaceState,
    members: Member[],
    blockStartNanos: UnixNanos,
    pace: Pace,
  ) {
    this.store = store;
    this.namespace = namespace;
    this.members = members.sort((a, b) => compareBytes(a.id, b.id));
    this.blockStartNanos = blockStartNanos;
    this.pace = pace;
  }

  async next(): Promise<readonly VolumeSeries[] | null> {
    if (this.position > 0) await this.pace.rest(null);
    const { store, namespace } = this;
    while (this.position < this.members.length) {
      const { generation } = store;
      // A series may have expired since, and its slot may be another's.
      const some = this.members
        .slice(this.position, this.position + seriesAtOnce)
        .filter((member) => generation[member.slot] === member.generation);
      this.position += seriesAtOnce;
      if (some.length === 0) continue;
      const slots = Uint32Array.from(some, ({ slot }) => slot);
      const { chunkData, chunkOffset } = store.flushBlock(slots, this.blockStartNanos);
      this.slots.push(...slots);
      const { index } = namespace;
      return some.map(({ slot, id }, i) => ({
        id,
        name: {
          idScheme: index.idScheme(slot),
          tags: index.tags(slot),
          explicitId: index.explicitId(slot),
        },
        chunks: chunkData.subarray(chunkOffset[i]!, chunkOffset[i + 1]!),
      }));
    }
    return null;
  }

  /** Slots of the series that were given. */
  given(): Uint32Array {
    return Uint32Array.from(this.slots);
  }
}
