/**
 * Walks over what this node has of one block of a shard, series by series in the order of their
 * IDs. While it rests, the block's fileset may be replaced by one that has rows of memory too, so
 * each series is read from memory and from the fileset that is in use at that moment.
 */
import type { SampleStore } from '#engine/store/sample_store.ts';
import type { Disk } from '#lib/env/env.ts';
import { copyOfName, type SeriesName } from '#lib/series_id/series_name.ts';
import { compareBytes } from '#lib/tags.ts';
import { type Pausing, sortPaced } from '#lib/turns/paced.ts';
import { FilesetCorrupt } from '../../persist/fileset/format.ts';
import type { BlockFile } from '../filesets/block_file.ts';
import { VolumeWalk } from '../filesets/volume_walk.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import { keepRange } from '../tombstones/chunk_cut.ts';

export interface BlockWalkParts {
  readonly store: SampleStore;
  readonly disk: Disk;
}

/** Which of the series are read. */
export interface BlockWalkOptions {
  readonly wants: (id: Uint8Array) => boolean;
  /** Called now and then while series are looked for, sorted, or passed over: others get their turn. */
  readonly rest: () => Promise<void>;
}

export const everySeries = (): boolean => true;
/** Series that are passed over at a stretch. */
const seriesAtOnce = 256;
/** Slots that are looked at in one stretch: a millisecond or two. */
const slotsOfStretch = 16_384;
/** Units of work, of a few nanoseconds each, between two rests. */
const unitsOfStretch = 200_000;

/** A series with all rows that this node has of it in the block. */
export interface WalkedSeries {
  readonly id: Uint8Array;
  readonly name: SeriesName;
  /** Of the fileset and of memory, not merged, one of them with rows at least; borrowed. */
  readonly chunks: readonly Uint8Array[];
}

/** A series of memory, by the order of IDs. */
interface MemorySeries {
  readonly slot: number;
  readonly generation: number;
  readonly id: Uint8Array;
}

const noBytes = new Uint8Array(0);

export class BlockWalk implements AsyncDisposable {
  readonly #parts: BlockWalkParts;
  readonly #namespace: NamespaceState;
  readonly #shard: number;
  readonly #blockStartNanos: bigint;
  readonly #options: BlockWalkOptions;
  /** Null until it is looked for. */
  #memory: readonly MemorySeries[] | null = null;
  readonly #truncations: number;
  #memoryNext = 0;
  #passedOver = 0;
  #file: BlockFile | null = null;
  #walk: VolumeWalk | null = null;
  #lastId: Uint8Array | null = null;
  /** Whether series of the fileset were passed over, since their chunks are damaged. */
  hasMetDamage = false;

  constructor(
    parts: BlockWalkParts,
    namespace: NamespaceState,
    shard: number,
    blockStartNanos: bigint,
    options: BlockWalkOptions,
  ) {
    this.#parts = parts;
    this.#namespace = namespace;
    this.#shard = shard;
    this.#blockStartNanos = blockStartNanos;
    this.#options = options;
    this.#truncations = namespace.truncations;
  }

  /**
   * Series of the shard with rows of the block in memory, by their IDs, found and sorted a part at a time. Rows that were
   * here when the walk began and leave memory meanwhile are in the fileset that it goes on in.
   */
  async #findMemory(): Promise<readonly MemorySeries[]> {
    const namespace = this.#namespace;
    const { store } = this.#parts;
    const { wants, rest } = this.#options;
    const found: MemorySeries[] = [];
    // The number of a namespace that was dropped may be nobody's by now, or another one's.
    if (namespace.isDropped) return found;
    const start = this.#blockStartNanos;
    const blocks = store.blocks(namespace.ordinal);
    if (!blocks.some(({ blockStartNanos }) => blockStartNanos === start)) return found;
    for (const slots of store.slotsInSteps(namespace.ordinal, start, slotsOfStretch)) {
      const { generation } = store;
      for (const slot of slots) {
        if (namespace.index.shard(slot) !== this.#shard) continue;
        const id = namespace.index.id(slot);
        if (wants(id)) found.push({ slot, generation: generation[slot]!, id });
      }
      await rest();
      if (namespace.isDropped || namespace.truncations !== this.#truncations) break;
    }
    // A series whose slot went to another one meanwhile may have come again, and be found twice.
    const here = found.filter((series) => this.#isHere(series));
    let units = 0;
    const pausing: Pausing = {
      spend: (more) => (units += more) >= unitsOfStretch,
      pause: async () => {
        units = 0;
        await rest();
      },
    };
    return sortPaced(here, (a, b) => compareBytes(a.id, b.id), pausing);
  }

  /** The next series that has rows; null when there is none. */
  async next(): Promise<WalkedSeries | null> {
    this.#memory ??= await this.#findMemory();
    for (;;) {
      await this.#useCurrentFile();
      // No wait from here to the copy of memory: its rows are in the fileset that is in use, or
      // still here.
      if (this.#file !== this.#currentFile()) continue;
      const mine = this.#memory[this.#memoryNext];
      const walk = this.#walk;
      const entryId = walk?.id ?? null;
      if (mine === undefined && entryId === null) return null;
      const order = mine === undefined ? 1 : entryId === null ? -1 : compareBytes(mine.id, entryId);
      if (order > 0 && !this.#options.wants(entryId!)) {
        this.#lastId = entryId;
        walk!.step();
        this.#passedOver += 1;
        if (this.#passedOver % seriesAtOnce === 0) await this.#options.rest();
        continue;
      }
      const fromMemory = order <= 0 ? this.#readMemory(mine!) : noBytes;
      const name = order >= 0 ? copyOfName(walk!.name) : this.#nameOfMemory(mine!);
      const id = order >= 0 ? entryId! : mine!.id;
      const fromFile = order >= 0 ? await this.#chunksOfBlock() : noBytes;
      if (fromFile === null) this.hasMetDamage = true;
      this.#lastId = id;
      if (order <= 0) this.#memoryNext += 1;
      if (order >= 0) walk!.step();
      const chunks = [fromFile ?? noBytes, fromMemory];
      if (chunks.some(({ length }) => length > 0)) return { id, name: name!, chunks };
    }
  }

  /** Of the series that the walk stands on; a long fileset has rows of other blocks too. */
  async #chunksOfBlock(): Promise<Uint8Array | null> {
    const chunks = await this.#walk!.chunks();
    const { blockSizeNanos } = this.#namespace;
    if (chunks === null || this.#file!.info.blockSizeNanos === blockSizeNanos) return chunks;
    return keepRange(chunks, this.#blockStartNanos, this.#blockStartNanos + blockSizeNanos);
  }

  #currentFile(): BlockFile | null {
    return this.#namespace.files.get(this.#shard, this.#blockStartNanos);
  }

  /** It may have expired since, and its slot may be another's; or all was truncated. */
  #isHere({ slot, generation }: MemorySeries): boolean {
    return (
      !this.#namespace.isDropped &&
      this.#parts.store.generation[slot] === generation &&
      this.#namespace.truncations === this.#truncations
    );
  }

  #readMemory(series: MemorySeries): Uint8Array {
    const { store } = this.#parts;
    if (!this.#isHere(series)) return noBytes;
    const start = this.#blockStartNanos;
    const end = start + this.#namespace.blockSizeNanos;
    return store.read(Uint32Array.of(series.slot), start, end).chunkData;
  }

  /** Null when the series has expired. */
  #nameOfMemory(series: MemorySeries): SeriesName | null {
    if (!this.#isHere(series)) return null;
    const { slot } = series;
    const { index } = this.#namespace;
    return {
      idScheme: index.idScheme(slot),
      tags: index.tags(slot),
      explicitId: index.explicitId(slot).slice(),
    };
  }

  /** Goes on in the fileset that is in use, after the last series that was given. */
  async #useCurrentFile(): Promise<void> {
    const namespace = this.#namespace;
    const parts = this.#parts;
    for (let file = this.#currentFile(); file !== this.#file; file = this.#currentFile()) {
      await this.#leaveFile();
      if (file === null || file !== this.#currentFile()) continue;
      namespace.files.pin(file);
      this.#file = file;
      try {
        this.#walk = await VolumeWalk.open(parts.disk, namespace.files, file, this.#lastId);
      } catch (error) {
        if (!(error instanceof FilesetCorrupt)) throw error;
        this.hasMetDamage = true;
        namespace.files.setAside(file, error.message);
      }
    }
  }

  async #leaveFile(): Promise<void> {
    const file = this.#file;
    const walk = this.#walk;
    this.#file = null;
    this.#walk = null;
    await walk?.[Symbol.asyncDispose]();
    if (file !== null) this.#namespace.files.unpin(file);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#leaveFile();
  }
}
