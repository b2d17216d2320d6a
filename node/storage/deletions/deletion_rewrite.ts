/**
 * Writes the filesets that hold deleted rows anew, and removes those of which everything is
 * deleted.
 */
import { allTime } from '#cluster/metadata/deletions.ts';
import { BrokenInvariant } from '#lib/assert.ts';
import { messageOf } from '#lib/errors.ts';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import type { Log } from '#lib/log.ts';
import { FilesetCorrupt } from '../../persist/fileset/format.ts';
import type { BlockFile } from '../filesets/namespace_files.ts';
import type { Pace } from '../flush/pace.ts';
import {
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
}

/** @returns whether the fileset went */
function rewriteFile(
  parts: RewriteParts,
  namespace: NamespaceState,
  file: BlockFile,
  pace: Pace,
  signal: AbortSignal,
): Promise<boolean> {
  const { files, tombstones, index } = namespace;
  return files.write(file.shard, async (dropped) => {
    const { blockStartNanos, shard } = file;
    // A flush may have replaced it meanwhile.
    if (files.get(shard, blockStartNanos) !== file) return false;
    const { revision } = tombstones;
    const pending = tombstones.pendingOf(file);
    const found = await slotsOf(namespace, file, pending);
    if (files.get(shard, blockStartNanos) !== file) return false;
    // What only memory had of the block is gone already.
    await forgetInBlocks(parts, { namespace, pace }, file.info, hereOf(index, found.absent));
    if (found.deleted === 0 && found.unknown === 0) {
      tombstones.noteClean(file, revision);
      return false;
    }
    if (pending.some((tombstone) => coversAll(tombstone, file))) {
      files.retire(file, file.damaged.size > 0 ? 'set aside' : 'delete');
      const { store } = parts;
      const here = function* (): Generator<number, void, void> {
        for (let i = 0; i < found.slots.length; i += 1) {
          if (store.generation[found.slots[i]!] === found.generations[i]) yield found.slots[i]!;
        }
      };
      await forgetInBlocks(parts, { namespace, pace }, file.info, here());
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
  ): Promise<FoundSlots> {
    files.pin(of);
    try {
      const directory = await files.directory(of);
      let deleted = 0;
      const absent: number[] = [];
      for (const { deletion } of pending) {
        // A series of which all is deleted in this block may not be live in it any more, and be so
        // in others.
        const { slots } = index.query(deletion.query, allTime, { limit: 0, shards: null });
        let next = 0;
        directory.match(slots, (position) => {
          deleted += 1;
          for (; next < position; next += 1) absent.push(slots[next]!);
          next = position + 1;
        });
        for (; next < slots.length; next += 1) absent.push(slots[next]!);
      }
      const { generation } = parts.store;
      const { slots, unknown } = directory;
      const generations = slots.map((slot) => generation[slot]!);
      // Those that are in the fileset may have come to the index since the directory was made.
      const ofShard = unknown > 0 ? [] : absent.filter((slot) => index.shard(slot) === of.shard);
      return { slots, generations, deleted, unknown, absent: ofShard };
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

/** Those that are still in the index when it is their turn. */
function* hereOf(index: NamespaceState['index'], slots: readonly number[]): Generator<number> {
  for (const slot of slots) if (index.has(slot)) yield slot;
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
