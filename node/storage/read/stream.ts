/**
 * A shard as pages for a peer that bootstraps: block by block, oldest first, and in a block by the
 * order of the series' IDs, which is the order of a fileset. Rows of memory and of filesets stand
 * one after the other; the peer merges them.
 */
import type { StreamShardPage } from '#cluster/node/service.ts';
import type { SampleStore } from '#engine/store/sample_store.ts';
import type { Disk } from '#lib/env/env.ts';
import { copyOfName, type SeriesName } from '#lib/series_id/series_name.ts';
import { compareBytes } from '#lib/tags.ts';
import { FilesetCorrupt } from '../../persist/fileset/format.ts';
import { keepRange } from '../tombstones/chunk_cut.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import type { BlockFile } from '../filesets/namespace_files.ts';
import { VolumeWalk } from '../filesets/volume_walk.ts';

/** Bytes of one page of a shard that is streamed to a peer. */
const streamPageBytesTarget = 1024 * 1024;

/** Series of a page before their size is known. */
const seriesOfPageFirst = 64;
const seriesOfPageMax = 16_384;

export interface StreamParts {
  readonly store: SampleStore;
  readonly disk: Disk;
}

/** A series of memory, by the order of IDs. */
interface MemorySeries {
  readonly slot: number;
  readonly generation: number;
  readonly id: Uint8Array;
}

/** @param blocks starts of those that are asked for; null for all */
export async function* streamPages(
  parts: StreamParts,
  namespace: NamespaceState,
  shard: number,
  blocks: ReadonlySet<bigint> | null,
  signal: AbortSignal,
): AsyncGenerator<StreamShardPage, void, undefined> {
  let starts = new Set<bigint>();
  for (const { blockStartNanos } of parts.store.blocks(namespace.ordinal)) {
    starts.add(blockStartNanos);
  }
  for (const file of namespace.files.all(shard)) {
    for (const start of namespace.files.blocksOf(file)) {
      if (start >= namespace.expiredBeforeNanos) starts.add(start);
    }
  }
  if (blocks !== null) starts = starts.intersection(blocks);
  let seriesOfPage = seriesOfPageFirst;
  for (const start of [...starts].sort((a, b) => (a < b ? -1 : 1))) {
    await using block = new StreamedBlock(parts, namespace, shard, start);
    for (;;) {
      signal.throwIfAborted();
      const bundle = await block.page(seriesOfPage);
      if (bundle === null) break;
      yield { bundle };
      const bytes = bundle.chunkData.length + bundle.tagsData.length;
      if (bytes < streamPageBytesTarget / 2) {
        seriesOfPage = Math.min(seriesOfPage * 2, seriesOfPageMax);
      } else if (bytes > streamPageBytesTarget) {
        seriesOfPage = Math.max(seriesOfPage >>> 1, 1);
      }
    }
  }
}

/**
 * One block. Between two pages its fileset may be replaced by one that has rows of memory too, so
 * each page is made of memory and of the fileset that is in use at that moment.
 */
class StreamedBlock implements AsyncDisposable {
  readonly #parts: StreamParts;
  readonly #namespace: NamespaceState;
  readonly #shard: number;
  readonly #blockStartNanos: bigint;
  readonly #memory: readonly MemorySeries[];
  readonly #truncations: number;
  #memoryNext = 0;
  #file: BlockFile | null = null;
  #walk: VolumeWalk | null = null;
  #lastId: Uint8Array | null = null;

  constructor(
    parts: StreamParts,
    namespace: NamespaceState,
    shard: number,
    blockStartNanos: bigint,
  ) {
    this.#parts = parts;
    this.#namespace = namespace;
    this.#shard = shard;
    this.#blockStartNanos = blockStartNanos;
    this.#truncations = namespace.truncations;
    const { generation } = parts.store;
    const slots = parts.store
      .slotsOfBlock(namespace.ordinal, blockStartNanos)
      .filter((slot) => namespace.index.shard(slot) === shard);
    this.#memory = Array.from(slots, (slot) => ({
      slot,
      generation: generation[slot]!,
      id: namespace.index.id(slot),
    })).sort((a, b) => compareBytes(a.id, b.id));
  }

  /** The next series, at most so many; null when there are none. */
  async page(seriesMax: number): Promise<StreamShardPage['bundle'] | null> {
    const page = new PageBuilder();
    while (page.seriesCount < seriesMax && page.bytes < streamPageBytesTarget) {
      await this.#useCurrentFile();
      // No wait from here to the copy of memory: its rows are in the fileset that is in use, or
      // still here.
      if (this.#file !== this.#currentFile()) continue;
      const mine = this.#memory[this.#memoryNext];
      const entryId = this.#walk?.id ?? null;
      if (mine === undefined && entryId === null) break;
      const order = mine === undefined ? 1 : entryId === null ? -1 : compareBytes(mine.id, entryId);
      const fromMemory = order <= 0 ? this.#readMemory(mine!) : noBytes;
      const name = order >= 0 ? copyOfName(this.#walk!.name) : this.#nameOfMemory(mine!);
      const fromFile = order >= 0 ? await this.#chunksOfBlock() : null;
      this.#lastId = order >= 0 ? entryId : mine!.id;
      if (order <= 0) this.#memoryNext += 1;
      if (order >= 0) this.#walk!.step();
      const chunks = [fromFile ?? noBytes, fromMemory];
      if (chunks.some(({ length }) => length > 0)) page.add(name!, chunks);
    }
    return page.seriesCount === 0 ? null : page.finish();
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

const noBytes = new Uint8Array(0);

/** Collects series for one bundle. */
class PageBuilder {
  readonly #tags: Uint8Array[] = [];
  readonly #ids: Uint8Array[] = [];
  readonly #chunks: Uint8Array[] = [];
  readonly #schemes: number[] = [];
  readonly #tagEnds: number[] = [0];
  readonly #idEnds: number[] = [0];
  readonly #chunkEnds: number[] = [0];

  get seriesCount(): number {
    return this.#schemes.length;
  }

  get bytes(): number {
    return this.#tagEnds.at(-1)! + this.#chunkEnds.at(-1)!;
  }

  /** Takes a copy of the chunks. */
  add(name: SeriesName, chunks: readonly Uint8Array[]): void {
    this.#schemes.push(name.idScheme);
    this.#tags.push(name.tags);
    this.#tagEnds.push(this.#tagEnds.at(-1)! + name.tags.length);
    this.#ids.push(name.explicitId);
    this.#idEnds.push(this.#idEnds.at(-1)! + name.explicitId.length);
    let end = this.#chunkEnds.at(-1)!;
    for (const part of chunks) {
      this.#chunks.push(part.slice());
      end += part.length;
    }
    this.#chunkEnds.push(end);
  }

  finish(): StreamShardPage['bundle'] {
    return {
      seriesCount: this.seriesCount,
      tagsData: joined(this.#tags),
      tagsOffset: Uint32Array.from(this.#tagEnds),
      idScheme: Uint8Array.from(this.#schemes),
      idData: joined(this.#ids),
      idOffset: Uint32Array.from(this.#idEnds),
      chunkData: joined(this.#chunks),
      chunkOffset: Uint32Array.from(this.#chunkEnds),
    };
  }
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  return new Uint8Array(Buffer.concat(parts));
}
