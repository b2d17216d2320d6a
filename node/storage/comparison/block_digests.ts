/**
 * Digests of the blocks that this node has (docs/REPAIR.md). That of a fileset is made when it is
 * first asked for, kept beside it and, under a limit, in memory. Rows of memory are not in
 * filesets: where a block has some, the digests of just these series are made anew.
 */
import { digestSeries } from '#engine/store/row_digest.ts';
import type { SampleStore } from '#engine/store/sample_store.ts';
import { BrokenInvariant } from '#lib/assert.ts';
import type { Env } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { compareBytes } from '#lib/tags.ts';
import { FilesetCorrupt, rowDigestPath } from '../../persist/fileset/format.ts';
import { readRowDigests, writeRowDigests } from '../../persist/fileset/row_digest_file.ts';
import type { BlockFile } from '../filesets/block_file.ts';
import { VolumeWalk } from '../filesets/volume_walk.ts';
import { Pace } from '../flush/pace.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import { MemoryRows, type MemoryMember } from './memory_rows.ts';
import { RangeDigests, rangeBitsFor } from './range_digests.ts';

/** Digests of filesets that are kept in memory: those of 64 million series in one block each. */
const keptBytesMax = 16 * 1024 * 1024;
/** Share of the main loop's time in which digests are made. */
export const comparisonShare = 0.1;
/** Series that are digested at a stretch. */
const seriesAtOnce = 16;
/** A block whose fileset is replaced each time that it is digested is left for later. */
const attemptsMax = 3;

export interface BlockDigestsParts {
  readonly env: Env;
  readonly log: Log;
  readonly store: SampleStore;
}

/** Of one fileset, by the starts of its blocks. */
interface FileDigests {
  readonly blocks: ReadonlyMap<bigint, RangeDigests>;
  /** Of the deletions that cut the fileset when it is read; null when none does. */
  readonly revision: number | null;
  readonly bytes: number;
}

export class BlockDigests implements AsyncDisposable {
  readonly #parts: BlockDigestsParts;
  readonly #memoryRows: MemoryRows;
  /** The least recently used first. */
  readonly #kept = new Map<BlockFile, FileDigests>();
  #keptBytes = 0;
  readonly #making = new Map<BlockFile, Promise<FileDigests | null>>();
  readonly #stop = new AbortController();
  /** When the last one that is being made is done: one at a time. */
  #tail: Promise<void> = Promise.resolve();
  /** Counts of this process, for metrics. */
  readonly counts: { made: number; seconds: number } = { made: 0, seconds: 0 };

  constructor(parts: BlockDigestsParts) {
    this.#parts = parts;
    this.#memoryRows = new MemoryRows(parts.store, parts.env.clock);
  }

  get memoryBytes(): number {
    return this.#keptBytes;
  }

  /** Whether rows of the block are in memory, as it was a second ago at most. */
  hasMemoryRows(namespace: NamespaceState, shard: number, blockStartNanos: bigint): boolean {
    return this.#memoryRows.of(namespace, shard, blockStartNanos).length > 0;
  }

  /** As `of`, for blocks that have no rows in memory and are added up already; null for others. */
  known(namespace: NamespaceState, shard: number, blockStartNanos: bigint): RangeDigests | null {
    if (this.hasMemoryRows(namespace, shard, blockStartNanos)) return null;
    const file = namespace.files.get(shard, blockStartNanos);
    if (file === null) return new RangeDigests(rangeBitsFor(0));
    return this.#knownOf(namespace, file)?.blocks.get(blockStartNanos) ?? null;
  }

  /**
   * What all rows of a block add up to, those of memory with it; borrowed.
   * @returns null when it cannot be told now: rows are damaged, or files change all the time
   */
  async of(
    namespace: NamespaceState,
    shard: number,
    blockStartNanos: bigint,
  ): Promise<RangeDigests | null> {
    const current = (): BlockFile | null => namespace.files.get(shard, blockStartNanos);
    for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
      const file = current();
      const { truncations } = namespace;
      const members = this.#memoryRows.of(namespace, shard, blockStartNanos);
      if (file !== null) namespace.files.pin(file);
      try {
        const ofFile = file === null ? null : await this.#ofFile(namespace, file);
        if (file !== null && ofFile === null) continue;
        const digests =
          ofFile?.blocks.get(blockStartNanos) ?? new RangeDigests(rangeBitsFor(members.length));
        const all =
          members.length === 0
            ? digests
            : await this.#withMemory(namespace, blockStartNanos, file, digests.copy(), members);
        // A flush has put rows of memory in a fileset meanwhile, or all is gone.
        const isSame = current() === file && namespace.truncations === truncations;
        if (isSame && all !== null) return all;
      } finally {
        if (file !== null) namespace.files.unpin(file);
      }
    }
    return null;
  }

  /** Puts the rows of memory in: each series as it is with them in place of as its fileset has it. */
  async #withMemory(
    namespace: NamespaceState,
    blockStartNanos: bigint,
    file: BlockFile | null,
    digests: RangeDigests,
    members: readonly MemoryMember[],
  ): Promise<RangeDigests | null> {
    const { env, store } = this.#parts;
    const { index, truncations } = namespace;
    const endNanos = blockStartNanos + namespace.blockSizeNanos;
    const pace = this.#pace();
    const sorted = members
      .filter(({ slot, generation }) => store.generation[slot] === generation)
      .map((member) => ({ ...member, id: index.id(member.slot) }))
      .sort((a, b) => compareBytes(a.id, b.id));
    await using walk = await VolumeWalk.open(env.disk, namespace.files, file, null);
    let done = 0;
    for (const { slot, generation, id } of sorted) {
      if (namespace.isDropped || namespace.truncations !== truncations) return null;
      if (store.generation[slot] !== generation) continue;
      const inMemory = store.read(Uint32Array.of(slot), blockStartNanos, endNanos).chunkData;
      const inFile = walk.find(id) ? await walk.chunks() : noBytes;
      if (inFile === null) return null;
      const before = digestSeries(id, [inFile], blockStartNanos, endNanos);
      digests.remove(before);
      digests.add(digestSeries(id, [inFile, inMemory], blockStartNanos, endNanos));
      done += 1;
      if (done % seriesAtOnce === 0) await pace.rest(this.#stop.signal);
    }
    return digests;
  }

  /** @returns null when it is damaged, or something of it is deleted meanwhile */
  async #ofFile(namespace: NamespaceState, file: BlockFile): Promise<FileDigests | null> {
    if (file.damaged.size > 0) return null;
    const known = this.#knownOf(namespace, file);
    if (known !== null) return known;
    const making =
      this.#making.get(file) ??
      this.#alone(() => this.#load(namespace, file)).finally(() => this.#making.delete(file));
    this.#making.set(file, making);
    return making;
  }

  /** Those that are kept and still true; they go last when room is made. */
  #knownOf(namespace: NamespaceState, file: BlockFile): FileDigests | null {
    if (file.damaged.size > 0) return null;
    const known = this.#kept.get(file);
    if (known === undefined || known.revision !== revisionOf(namespace, file)) return null;
    this.#kept.delete(file);
    this.#kept.set(file, known);
    return known;
  }

  async #load(namespace: NamespaceState, file: BlockFile): Promise<FileDigests | null> {
    const { env, log } = this.#parts;
    const revision = revisionOf(namespace, file);
    namespace.files.pin(file);
    try {
      const stored =
        revision === null
          ? await readRowDigests(env.disk, file.folder, file, file.indexCrc32c)
          : null;
      let blocks: Map<bigint, RangeDigests> | null;
      if (stored !== null && stored.length === namespace.files.blocksOf(file).length) {
        blocks = new Map(
          stored.map((each) => [each.blockStartNanos, new RangeDigests(each.rangeBits, each.sums)]),
        );
      } else {
        blocks = await this.#make(namespace, file);
        if (blocks === null || revisionOf(namespace, file) !== revision) return null;
        if (revision === null) await this.#save(namespace, file, blocks);
      }
      return this.#keep(namespace, file, blocks, revision);
    } catch (error) {
      // Its shard may have been dropped meanwhile, and its files be gone.
      this.#stop.signal.throwIfAborted();
      if (error instanceof BrokenInvariant) throw error;
      // Else it would never be compared, nor made good by others.
      if (error instanceof FilesetCorrupt && file.isOf(error.path) && file.retired === null) {
        namespace.files.setAside(file, error.message);
        return null;
      }
      log.warn({ path: file.dataPath, error: messageOf(error) }, 'rows cannot be digested now');
      return null;
    } finally {
      namespace.files.unpin(file);
    }
  }

  async #make(
    namespace: NamespaceState,
    file: BlockFile,
  ): Promise<Map<bigint, RangeDigests> | null> {
    const { env } = this.#parts;
    const started = env.clock.monotonicMillis();
    const pace = this.#pace();
    const { blockSizeNanos } = namespace;
    const starts = namespace.files.blocksOf(file);
    const rangeBits = rangeBitsFor(file.seriesCount);
    const blocks = new Map(starts.map((start) => [start, new RangeDigests(rangeBits)]));
    await using walk = await VolumeWalk.open(env.disk, namespace.files, file, null);
    for (let done = 1; walk.id !== null; done += 1) {
      const chunks = await walk.chunks();
      if (chunks === null) return null;
      for (const [start, digests] of blocks) {
        digests.add(digestSeries(walk.id, [chunks], start, start + blockSizeNanos));
      }
      walk.step();
      if (done % seriesAtOnce > 0) continue;
      await pace.rest(this.#stop.signal);
      if (file.retired !== null) return null;
    }
    this.counts.made += 1;
    this.counts.seconds += (env.clock.monotonicMillis() - started) / 1000;
    return blocks;
  }

  async #save(
    namespace: NamespaceState,
    file: BlockFile,
    blocks: ReadonlyMap<bigint, RangeDigests>,
  ): Promise<void> {
    const { env, log } = this.#parts;
    const stored = [...blocks].map(([blockStartNanos, { rangeBits, sums }]) => ({
      blockStartNanos,
      rangeBits,
      sums,
    }));
    try {
      // Who removes the shard's folder waits for its writer.
      await namespace.files.write(file.shard, async () => {
        if (file.retired !== null) return;
        await writeRowDigests(env.disk, file.folder, file, file.indexCrc32c, stored);
      });
    } catch (error) {
      if (error instanceof BrokenInvariant) throw error;
      const path = rowDigestPath(file.folder, file);
      log.warn({ path, error: messageOf(error) }, 'digests of rows are not kept on disk');
    }
  }

  #keep(
    namespace: NamespaceState,
    file: BlockFile,
    blocks: ReadonlyMap<bigint, RangeDigests>,
    revision: number | null,
  ): FileDigests {
    this.#forget(file);
    const bytes = blocks.values().reduce((sum, { memoryBytes }) => sum + memoryBytes, 0);
    const digests = { blocks, revision, bytes };
    // What is not in use any more is not asked for again.
    if (namespace.files.get(file.shard, file.blockStartNanos) !== file) return digests;
    this.#kept.set(file, digests);
    this.#keptBytes += bytes;
    for (const other of this.#kept.keys()) {
      if (this.#keptBytes <= keptBytesMax && other.retired === null) break;
      this.#forget(other);
    }
    return digests;
  }

  #forget(file: BlockFile): void {
    const digests = this.#kept.get(file);
    if (digests === undefined) return;
    this.#kept.delete(file);
    this.#keptBytes -= digests.bytes;
  }

  #pace(): Pace {
    return new Pace(this.#parts.env.clock, () => comparisonShare);
  }

  async #alone<T>(work: () => Promise<T>): Promise<T> {
    const before = this.#tail;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#tail = promise;
    try {
      await before;
      this.#stop.signal.throwIfAborted();
      return await work();
    } finally {
      resolve();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new TsdbError('CANCELLED', 'the node is stopping'));
    await this.#tail;
  }
}

const noBytes = new Uint8Array(0);

/**
 * Of the deletions that cut a fileset when it is read: its digests are those of what is left, and
 * not kept beside it. Null when none does.
 */
function revisionOf({ tombstones }: NamespaceState, file: BlockFile): number | null {
  return tombstones.pendingOf(file).length === 0 ? null : tombstones.revision;
}
