/**
 * Writes the filesets that hold deleted rows anew, and removes those of which everything is
 * deleted.
 */
import { allTime } from '#cluster/metadata/deletions.ts';
import type { Aside, Turning } from '#engine/aside/aside.ts';
import type { SampleStore } from '#engine/store/sample_store.ts';
import { BrokenInvariant } from '#lib/assert.ts';
import { messageOf } from '#lib/errors.ts';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import type { Log } from '#lib/log.ts';
import { Turns } from '#lib/turns/turns.ts';
import { popCount } from '../../index/query/slot_set.ts';
import { FilesetCorrupt } from '../../persist/fileset/format.ts';
import { ColumnsQuery } from '../../persist/series_columns/columns_query.ts';
import type { BlockFile } from '../filesets/block_file.ts';
import type { Pace } from '../flush/pace.ts';
import {
  forgetAll,
  forgetInBlocks,
  type VolumeParts,
  type VolumeSource,
  writeVolume,
} from '../flush/volume.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import type { Tombstone } from '../tombstones/tombstones.ts';

/** What it takes to rewrite filesets. */
export interface RewriteParts extends VolumeParts {
  readonly log: Log;
  readonly aside: Aside;
}

export interface RewriteReport {
  /** Filesets that were replaced or removed. */
  filesets: number;
  /** Filesets that are to be tried again. */
  failures: number;
}

/** Clocks of coordinators and nodes are nearer to each other than this. */
const clockSkewNanos = 60_000_000_000n;
/** Nothing comes besides what the block has. */
const emptySource: VolumeSource = { next: () => Promise.resolve(null) };

/**
 * Rewrites all filesets of a namespace that deletions concern.
 * @throws the signal's reason
 */
export async function rewriteFiles(
  parts: RewriteParts,
  namespace: NamespaceState,
  pace: Pace,
  signal: AbortSignal,
): Promise<RewriteReport> {
  const report: RewriteReport = { filesets: 0, failures: 0 };
  const { files, tombstones } = namespace;
  for (const file of files.all(null)) {
    signal.throwIfAborted();
    if (tombstones.pendingOf(file).length === 0) continue;
    try {
      const { blockStartNanos, blockSizeNanos } = file.info;
      const isUnswept = tombstones.isUnswept(blockStartNanos, blockSizeNanos);
      // A shard that is not whole is written by who brings its data.
      if (isUnswept || !namespace.readyShards.has(file.shard)) report.failures += 1;
      else if (await rewriteFile(parts, namespace, file, pace, signal)) report.filesets += 1;
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof BrokenInvariant) throw error;
      report.failures += 1;
      const fields = { path: file.dataPath, error: messageOf(error) };
      parts.log.warn(fields, 'deleted rows are not taken out of the fileset yet');
    }
    await pace.rest(signal);
  }
  return report;
}

/** Series of a fileset that deletions concern. */
interface FoundSlots {
  readonly slots: Uint32Array;
  readonly generations: Uint32Array;
  /** How many of them match a deletion. */
  readonly deleted: number;
  /**
   * How many others are in the fileset and not in the index: whether they match is told by their
   * tags alone.
   */
  readonly unknown: number;
  /** Series of its shard that match and are not in it. */
  readonly absent: readonly number[];
  readonly absentGenerations: readonly number[];
}

/** @returns whether the fileset went */
function rewriteFile(
  parts: RewriteParts,
  namespace: NamespaceState,
  file: BlockFile,
  pace: Pace,
  signal: AbortSignal,
): Promise<boolean> {
  const { files, tombstones } = namespace;
  return files.write(file.shard, async (dropped) => {
    const { blockStartNanos, shard } = file;
    // A flush may have replaced it meanwhile.
    if (files.get(shard, blockStartNanos) !== file) return false;
    const { revision } = tombstones;
    const pending = tombstones.pendingOf(file);
    const found = await slotsOf(namespace, file, pending, AbortSignal.any([signal, dropped]));
    if (files.get(shard, blockStartNanos) !== file) return false;
    // What only memory had of the block is gone already.
    const absent = sameOf(parts, found.absent, found.absentGenerations);
    await forgetInBlocks(parts, { namespace, pace }, file.info, absent);
    if (found.deleted === 0 && found.unknown === 0) {
      tombstones.noteClean(file, revision);
      return false;
    }
    if (pending.some((tombstone) => coversAll(tombstone, file))) {
      files.retire(file, file.damaged.size > 0 ? 'set aside' : 'delete');
      if (file.isClosed) {
        await forgetAll(parts, { namespace, pace }, file);
        return true;
      }
      const here = sameOf(parts, found.slots, found.generations);
      await forgetInBlocks(parts, { namespace, pace }, file.info, here);
      return true;
    }
    await writeVolume(
      parts,
      { namespace, shard, blockStartNanos, source: 'flush', onSafe: () => {}, pace },
      emptySource,
      AbortSignal.any([signal, dropped]),
    );
    if (files.get(shard, blockStartNanos) !== file) return true;
    tombstones.noteClean(file, revision);
    return false;
  });

  async function slotsOf(
    { index }: NamespaceState,
    of: BlockFile,
    pending: readonly Tombstone[],
    until: AbortSignal,
  ): Promise<FoundSlots> {
    const { store, env, aside } = parts;
    files.pin(of);
    try {
      const turning = { work: Turns.of(env.clock).begin(until), aside };
      if (of.isClosed) return await closedSlots(store, namespace, of, pending, turning);
      const directory = await files.directories.of(of);
      const { slots, unknown } = directory;
      const generations = slots.map((slot) => store.generation[slot]!);
      let deleted = 0;
      const absent: number[] = [];
      const absentGenerations: number[] = [];
      const note = (slot: number): void => {
        // Those that are in the fileset may have come to the index since the directory was made.
        if (unknown > 0 || index.shard(slot) !== of.shard) return;
        absent.push(slot);
        absentGenerations.push(store.generation[slot]!);
      };
      for (const { deletion } of pending) {
        await index.inTurns(turning, (attempts) => {
          // A series of which all is deleted in this block may not be live in it any more, and be so
          // in others.
          const limits = { limit: 0, shards: null };
          const matching = index.query(deletion.query, allTime, limits, attempts).slots;
          let next = 0;
          directory.match(matching, (position) => {
            deleted += 1;
            for (; next < position; next += 1) note(matching[next]!);
            next = position + 1;
          });
          for (; next < matching.length; next += 1) note(matching[next]!);
        });
      }
      return { slots, generations, deleted, unknown, absent, absentGenerations };
    } catch (error) {
      if (error instanceof FilesetCorrupt && of.retired === null) {
        files.setAside(of, error.message);
      }
      throw error;
    } finally {
      files.unpin(of);
    }
  }
}

/** Of a closed fileset, of whose series the index has those alone whose ID does not tell their tags. */
async function closedSlots(
  store: SampleStore,
  namespace: NamespaceState,
  of: BlockFile,
  pending: readonly Tombstone[],
  turning: Turning,
): Promise<FoundSlots> {
  let deleted = 0;
  const inFile = new Set<number>();
  await namespace.files.columns.visit(of, async (columns) => {
    deleted = 0;
    for (const { deletion } of pending) {
      const asked = await ColumnsQuery.of(deletion.query, turning);
      deleted += popCount(await asked.entries(columns));
    }
    const untold = await columns.untold();
    if (untold.length === 0) return;
    const names = await columns.entryNames();
    for (const entry of untold) inFile.add(namespace.findSeries(names.of(entry)));
  });
  const absent: number[] = [];
  const absentGenerations: number[] = [];
  if (namespace.mayShareIds) {
    const { index } = namespace;
    for (const { deletion } of pending) {
      await index.inTurns(turning, (attempts) => {
        const limits = { limit: 0, shards: null };
        for (const slot of index.query(deletion.query, allTime, limits, attempts).slots) {
          const isOfFile = index.shard(slot) === of.shard && !index.tellsItsTags(slot);
          if (!isOfFile || inFile.has(slot)) continue;
          absent.push(slot);
          absentGenerations.push(store.generation[slot]!);
        }
      });
    }
  }
  const none = new Uint32Array(0);
  return { slots: none, generations: none, deleted, unknown: 0, absent, absentGenerations };
}

/** Those that are of the same series still when it is their turn. */
function* sameOf(
  { store }: RewriteParts,
  slots: ArrayLike<number>,
  generations: ArrayLike<number>,
): Generator<number, void, void> {
  for (let i = 0; i < slots.length; i += 1) {
    if (store.generation[slots[i]!] === generations[i]) yield slots[i]!;
  }
}

/**
 * Whether nothing of the fileset can be newer than the deletion, which is about all that it may
 * hold.
 */
function coversAll({ deletion }: Tombstone, { info }: BlockFile): boolean {
  const { blockStartNanos, blockSizeNanos, createdNanos } = info;
  return (
    deletion.query.kind === 'all' &&
    deletion.startNanos <= blockStartNanos &&
    deletion.endNanos >= blockStartNanos + blockSizeNanos &&
    versionAtNanos(createdNanos + clockSkewNanos) <= BigInt(deletion.version)
  );
}
