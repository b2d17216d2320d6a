/**
 * The deletions that a node has applied to one namespace: which rows that come late they refuse,
 * and what of older filesets is not to be seen. Memory holds nothing that they delete.
 */
import { rowOutcome } from '#cluster/node/service.ts';
import { deletesAll, type Deletion } from '#cluster/metadata/deletions.ts';
import type { StoreRows } from '#engine/store/rows.ts';
import { blockOverlaps } from '#lib/block_time.ts';
import type { UnixNanos } from '#lib/time.ts';
import { cutChunks } from './chunk_cut.ts';
import { tagMatcher } from './tag_matcher.ts';

/** Of floats or typed rows. */
type RowColumns = Omit<StoreRows, 'values' | 'startNanos'>;

/** A deletion on this node. */
export interface Tombstone {
  readonly deletion: Deletion;
  /** Filesets with a later time have nothing of it. */
  readonly atNanos: UnixNanos;
  /** Whether it is about the series with these canonical tags. */
  readonly matches: (tags: Uint8Array) => boolean;
}

/** What tells whether a deletion concerns a fileset. */
export interface DatedFile {
  readonly blockStartNanos: bigint;
  readonly info: { readonly blockSizeNanos: bigint; readonly createdNanos: bigint };
}

/** The usual case, in which nothing is compared. */
const none: readonly Tombstone[] = [];

export class NamespaceTombstones {
  /** By ascending sequence. */
  #list: readonly Tombstone[] = none;
  /** Highest version of a deletion; below that of every row that is written without any. */
  versionMax = -1;
  /** Of the last deletion of everything; -1 without one. */
  versionOfAll = -1;
  /** Filesets that are begun now have a later time. */
  atNanosMax: UnixNanos = -(2n ** 63n);
  /** Changes with every deletion. */
  revision = 0;
  /**
   * The deletion that is being applied: its record may be in the log, and memory may still have
   * rows of it. Until that is over no fileset of its blocks is made, so that each is wholly before
   * it or wholly after.
   */
  unswept: Tombstone | null = null;
  /** By fileset: that nothing of its series is deleted up to this revision. */
  readonly #cleanAt = new WeakMap<DatedFile, number>();

  get all(): readonly Tombstone[] {
    return this.#list;
  }

  /** @param version tells deletions apart */
  has(version: number): boolean {
    return this.#list.some(({ deletion }) => deletion.version === version);
  }

  /** @throws {TsdbError} BAD_REQUEST when a regular expression of it does not compile */
  add(deletion: Deletion, atNanos: UnixNanos): Tombstone {
    const tombstone = { deletion, atNanos, matches: tagMatcher(deletion.query) };
    this.#list = [...this.#list, tombstone].sort(
      (a, b) => a.deletion.sequence - b.deletion.sequence,
    );
    this.#note();
    this.revision += 1;
    return tombstone;
  }

  /** Forgets the others. @returns whether there were any */
  keepOnly(isWanted: (tombstone: Tombstone) => boolean): boolean {
    const kept = this.#list.filter(isWanted);
    if (kept.length === this.#list.length) return false;
    this.#list = kept.length === 0 ? none : kept;
    if (this.unswept !== null && !kept.includes(this.unswept)) this.unswept = null;
    this.#note();
    return true;
  }

  #note(): void {
    this.versionMax = highestOf(this.#list);
    this.versionOfAll = highestOf(this.#list.filter(({ deletion }) => deletesAll(deletion)));
    for (const { atNanos } of this.#list) {
      if (atNanos > this.atNanosMax) this.atNanosMax = atNanos;
    }
  }

  /** Deletions that the rows of a fileset have not seen. */
  pendingOf(file: DatedFile): readonly Tombstone[] {
    if (this.#list.length === 0) return none;
    const { createdNanos } = file.info;
    if (createdNanos > this.atNanosMax || this.#cleanAt.get(file) === this.revision) return none;
    const pending = this.#list.filter(
      ({ deletion, atNanos }) =>
        createdNanos <= atNanos &&
        blockOverlaps(file.blockStartNanos, file.info.blockSizeNanos, deletion),
    );
    return pending.length === 0 ? none : pending;
  }

  /** Notes that the fileset has no series with deleted rows. @param revision that was looked at */
  noteClean(file: DatedFile, revision: number): void {
    this.#cleanAt.set(file, revision);
  }

  /** Deletions that concern a range. */
  overlapping(startNanos: bigint, endNanos: bigint): readonly Tombstone[] {
    return this.#list.filter(({ deletion }) =>
      blockOverlaps(startNanos, endNanos - startNanos, deletion),
    );
  }

  /** Whether a deletion of a block is being applied. */
  isUnswept(blockStartNanos: bigint, blockSizeNanos: bigint): boolean {
    return (
      this.unswept !== null && blockOverlaps(blockStartNanos, blockSizeNanos, this.unswept.deletion)
    );
  }

  /**
   * Version of the last deletion that concerns a block, or -1; a volume of it that is begun before
   * that is not whole.
   */
  versionOf(blockStartNanos: bigint, blockSizeNanos: bigint): number {
    return this.#list.reduce(
      (max, { deletion }) =>
        deletion.version > max && blockOverlaps(blockStartNanos, blockSizeNanos, deletion)
          ? deletion.version
          : max,
      -1,
    );
  }

  /**
   * Refuses rows that a deletion is behind of already: sent before it and arrived after it. Their
   * writer sends them again, with a later version.
   * @param version of their batch
   * @param outcomes of the rows; those that are not 0 stay
   * @param tagsOf canonical tags of a slot
   * @returns how many rows were refused
   */
  refuse(
    version: number,
    rows: RowColumns,
    outcomes: Uint8Array,
    tagsOf: (slot: number) => Uint8Array,
  ): number {
    const later = this.#list.filter(({ deletion }) => deletion.version >= version);
    if (later.length === 0) return 0;
    const { rowCount, slots, timestamps } = rows;
    const unit = BigInt(rows.timeUnitNanos);
    const known = new Map<number, readonly Tombstone[]>();
    let refused = 0;
    for (let row = 0; row < rowCount; row += 1) {
      if (outcomes[row] !== rowOutcome.written) continue;
      const nanos = timestamps[row]! * unit;
      const slot = slots[row]!;
      let matching = known.get(slot);
      if (matching === undefined) {
        const tags = tagsOf(slot);
        matching = later.filter(({ matches }) => matches(tags));
        known.set(slot, matching);
      }
      const isDeleted = matching.some(
        ({ deletion }) => deletion.startNanos <= nanos && nanos < deletion.endNanos,
      );
      if (!isDeleted) continue;
      outcomes[row] = rowOutcome.resourceExhausted;
      refused += 1;
    }
    return refused;
  }
}

function highestOf(list: readonly Tombstone[]): number {
  return list.reduce((max, { deletion }) => Math.max(max, deletion.version), -1);
}

/**
 * The chunks of a series without what is deleted: the very bytes when nothing is.
 * @param tags canonical
 */
export function cutSeries(
  tags: Uint8Array,
  chunks: Uint8Array,
  tombstones: readonly Tombstone[],
): Uint8Array {
  if (tombstones.length === 0) return chunks;
  const cuts = tombstones.filter(({ matches }) => matches(tags)).map(({ deletion }) => deletion);
  return cuts.length === 0 ? chunks : cutChunks(chunks, cuts);
}
