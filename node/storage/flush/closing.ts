/**
 * Closes filesets of windows that are as long as they become and old enough: their series are asked of their columns from then
 * on, and leave the index of the namespace where it has them of nothing else (docs/INDEX.md, Closed spans).
 */
import { isOfWindows } from '#cluster/namespaces/samples.ts';
import { BrokenInvariant } from '#lib/assert.ts';
import type { Env } from '#lib/env/env.ts';
import { messageOf } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { UnixNanos } from '#lib/time.ts';
import { FilesetCorrupt } from '../../persist/fileset/format.ts';
import type { BlockFile } from '../filesets/block_file.ts';
import type { LeftBlock, NamespaceState } from '../namespace/namespace.ts';
import { spanNanosMaxOf, spanNanosOf } from './due_spans.ts';
import type { Pace } from './pace.ts';
import { type StoreWalkParts, sumsOfBlocks } from './store_walks.ts';

/** What it takes to close filesets. */
export interface ClosingParts extends StoreWalkParts {
  readonly env: Env;
  readonly log: Log;
  readonly namespaces: ReadonlyMap<string, NamespaceState>;
}

/** Spans that queries ask of the index, and not each for itself: the youngest ones. */
const spansOfIndex = 2n;
/** Whether a fileset is asked for itself: it is as long as it becomes, or nothing makes it longer any more. */
export function isToBeClosed(
  { definition, blockSizeNanos, retentionNanos, options }: NamespaceState,
  file: Pick<BlockFile, 'blockStartNanos' | 'endNanos'>,
  nowNanos: UnixNanos,
): boolean {
  if (!isOfWindows(definition)) return false;
  const spanNanosMax = spanNanosMaxOf(definition);
  const spanNanos = spanNanosOf({ blockSizeNanos, retentionNanos, spanNanosMax });
  const { bufferPastNanos } = options.retentionOptions;
  const isLong = file.endNanos - file.blockStartNanos >= spanNanos;
  const spans = isLong ? spansOfIndex : 2n * spansOfIndex;
  return file.endNanos + spans * spanNanos + bufferPastNanos <= nowNanos;
}

/**
 * Closes what is due, one fileset at a time, then series leave the index that it has of closed ones alone; what fails is logged and
 * tried again.
 * @param mayGoOn asked between two
 * @returns how many were closed
 * @throws the signal's reason, a broken invariant
 */
export async function closeDue(
  parts: ClosingParts,
  { pace, mayGoOn }: { readonly pace: Pace; readonly mayGoOn: () => boolean },
  signal: AbortSignal,
): Promise<number> {
  let closed = 0;
  for (const namespace of parts.namespaces.values()) {
    if (namespace.isDropped || !isOfWindows(namespace.definition)) continue;
    const { truncations } = namespace;
    for (const file of dueOf(parts, namespace)) {
      if (!mayGoOn()) break;
      if (await tryToClose(parts, namespace, file, pace, signal)) closed += 1;
      await pace.rest(signal);
    }
    // Its number in the store may be nobody's by now.
    if (namespace.truncations !== truncations || !mayGoOn()) continue;
    await leaveIndex(parts, namespace, pace, signal);
  }
  return closed;
}

function dueOf({ env, store }: ClosingParts, namespace: NamespaceState): BlockFile[] {
  const { files, tombstones } = namespace;
  const nowNanos = env.clock.nowNanos();
  const inMemory = new Set(
    store.blocks(namespace.ordinal).map(({ blockStartNanos }) => blockStartNanos),
  );
  return files.all(null).filter((file) => {
    if (file.isClosed || !isToBeClosed(namespace, file, nowNanos)) return false;
    // What is deleted leaves the index when the fileset is written anew.
    if (tombstones.pendingOf(file).length > 0) return false;
    return !files.blocksOf(file).some((start) => inMemory.has(start));
  });
}

async function tryToClose(
  { log }: ClosingParts,
  namespace: NamespaceState,
  file: BlockFile,
  pace: Pace,
  signal: AbortSignal,
): Promise<boolean> {
  signal.throwIfAborted();
  try {
    return await namespace.files.write(file.shard, (dropped) =>
      close(namespace, file, pace, AbortSignal.any([signal, dropped])),
    );
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof BrokenInvariant) throw error;
    log.warn({ path: file.dataPath, error: messageOf(error) }, 'fileset is not closed yet');
    return false;
  }
}

/** As the shard's only writer of files. */
async function close(
  { files }: NamespaceState,
  file: BlockFile,
  pace: Pace,
  signal: AbortSignal,
): Promise<boolean> {
  if (file.retired !== null || files.get(file.shard, file.blockStartNanos) !== file) return false;
  files.pin(file);
  try {
    await files.columns.make(file, () => pace.rest(signal));
    if (file.retired !== null) return false;
    files.close(file);
    return true;
  } catch (error) {
    if (error instanceof FilesetCorrupt && file.retired === null) {
      files.setAside(file, error.message);
    }
    throw error;
  } finally {
    files.unpin(file);
  }
}

/**
 * Series are live in a block by their rows in memory alone where the fileset of their shard is closed: whatever made them live there
 * (the fileset before it was closed, a slice that came to the same, a peer, rows that were deleted), they leave it. But for those whose
 * ID does not tell their tags: the index alone knows who has it.
 */
async function leaveIndex(
  parts: ClosingParts,
  namespace: NamespaceState,
  pace: Pace,
  signal: AbortSignal,
): Promise<void> {
  const { store } = parts;
  const { files, truncations, leftBlocks } = namespace;
  const pastNanos = closedUntil(namespace);
  for (const start of leftBlocks.keys()) {
    if (namespace.index.marksOf(start) === null) leftBlocks.delete(start);
  }
  // Blocks in which something is live: those of closed spans are few once their series have left.
  const isPast = (start: UnixNanos): boolean => start < pastNanos;
  if (!namespace.index.blockStarts.some(isPast)) return;
  const sums = await sumsOfBlocks(parts, namespace, pace, signal);
  if (sums === null) return;
  const rowCounts = new Map(sums.map((block) => [block.blockStartNanos, block.rowCount]));
  for (const start of namespace.index.blockStarts.filter(isPast)) {
    const filesets = closedOf(namespace, start);
    if (filesets.length === 0) continue;
    const { index } = namespace;
    const marks = index.marksOf(start);
    if (marks === null) continue;
    const left = { closed: filesets, marks, rowCount: rowCounts.get(start) ?? 0 };
    // Nothing has come to it, or left it, since the last time.
    if (isSame(leftBlocks.get(start), left)) continue;
    const shards = new Set(filesets.map(({ shard }) => shard));
    const isToGo = (slot: number): boolean => {
      const shard = index.shard(slot);
      if (!shards.has(shard) || files.get(shard, start)?.isClosed !== true) return false;
      return index.tellsItsTags(slot) && !store.blockStarts(slot).includes(start);
    };
    for (let from = 0; from >= 0; ) {
      from = index.unmarkSome(start, from, isToGo);
      await pace.rest(signal);
      if (namespace.truncations !== truncations) return;
    }
    leftBlocks.set(start, left);
  }
}

function isSame(before: LeftBlock | undefined, { closed, marks, rowCount }: LeftBlock): boolean {
  if (before === undefined || before.marks !== marks || before.rowCount !== rowCount) return false;
  if (before.closed.length !== closed.length) return false;
  return closed.every((file, i) => file === before.closed[i]);
}

/** Where the last block of a closed fileset ends; 0 without any. */
function closedUntil({ files }: NamespaceState): UnixNanos {
  return files
    .all(null)
    .reduce((end, file) => (file.isClosed && file.endNanos > end ? file.endNanos : end), 0n);
}

/** Closed filesets that have a block. */
function closedOf({ files }: NamespaceState, start: UnixNanos): BlockFile[] {
  const all = files.shardIds().map((shard) => files.get(shard, start));
  return all.filter((file): file is BlockFile => file?.isClosed === true);
}
