/**
 * Closes filesets of windows that are as long as they become and old enough: their series are asked of their columns from then
 * on, and leave the index of the namespace where it has them of nothing else (docs/INDEX.md, Closed spans).
 */
import { isOfWindows } from '#cluster/namespaces/samples.ts';
import { BrokenInvariant } from '#lib/assert.ts';
import { messageOf } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { UnixNanos } from '#lib/time.ts';
import { FilesetCorrupt } from '../../persist/fileset/format.ts';
import { readFilesetIndex } from '../../persist/fileset/reader.ts';
import type { BlockFile } from '../filesets/namespace_files.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import { spanNanosMaxOf, spanNanosOf } from './due_spans.ts';
import type { Pace } from './pace.ts';
import { forgetInBlocks, type VolumeParts } from './volume.ts';

/** What it takes to close filesets. */
export interface ClosingParts extends VolumeParts {
  readonly log: Log;
  readonly namespaces: ReadonlyMap<string, NamespaceState>;
}

/** Spans that queries ask of the index, and not each for itself: the youngest ones. */
const spansOfIndex = 2n;
/** Series that are looked up in one stretch of the main loop. */
const seriesAtOnce = 256;

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
 * Closes what is due, one fileset at a time; what fails is logged and tried again.
 * @param mayGoOn asked between two
 * @returns how many
 * @throws the signal's reason, a broken invariant
 */
export async function closeDue(
  parts: ClosingParts,
  { pace, mayGoOn }: { readonly pace: Pace; readonly mayGoOn: () => boolean },
  signal: AbortSignal,
): Promise<number> {
  const { env, log, namespaces, store } = parts;
  let closed = 0;
  for (const namespace of namespaces.values()) {
    if (namespace.isDropped || !isOfWindows(namespace.definition)) continue;
    const nowNanos = env.clock.nowNanos();
    const inMemory = new Set(
      store.blocks(namespace.ordinal).map(({ blockStartNanos }) => blockStartNanos),
    );
    const { files } = namespace;
    const due = files.all(null).filter((file) => {
      if (file.isClosed || !isToBeClosed(namespace, file, nowNanos)) return false;
      return !files.blocksOf(file).some((start) => inMemory.has(start));
    });
    for (const file of due) {
      if (!mayGoOn()) return closed;
      signal.throwIfAborted();
      try {
        const isDone = await files.write(file.shard, (dropped) =>
          close(parts, namespace, file, pace, AbortSignal.any([signal, dropped])),
        );
        if (isDone) closed += 1;
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof BrokenInvariant) throw error;
        log.warn({ path: file.dataPath, error: messageOf(error) }, 'fileset is not closed yet');
      }
      await pace.rest(signal);
    }
  }
  return closed;
}

/** As the shard's only writer of files. */
async function close(
  parts: ClosingParts,
  namespace: NamespaceState,
  file: BlockFile,
  pace: Pace,
  signal: AbortSignal,
): Promise<boolean> {
  const { files } = namespace;
  if (file.retired !== null || files.get(file.shard, file.blockStartNanos) !== file) return false;
  files.pin(file);
  try {
    await files.makeColumns(file, () => pace.rest(signal));
    if (file.retired !== null) return false;
    // From here on it is asked for itself; until its series have left the index they may be found twice.
    file.isClosed = true;
    await leaveIndex(parts, namespace, file, pace, signal);
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

/** Its series are not live in its blocks any more, but for those of which memory has rows. */
async function leaveIndex(
  parts: ClosingParts,
  namespace: NamespaceState,
  file: BlockFile,
  pace: Pace,
  signal: AbortSignal,
): Promise<void> {
  const index = await readFilesetIndex(parts.env.disk, file.folder, file, {
    bytes: file.indexBytes,
    crc32c: file.indexCrc32c,
  });
  const { truncations } = namespace;
  const options = { namespace, pace };
  const slots: number[] = [];
  for (const cursor = index.cursor(); cursor.next(); ) {
    const slot = namespace.findSeries(cursor);
    if (slot >= 0) slots.push(slot);
    if (slots.length < seriesAtOnce) continue;
    // In the same step, for a slot may be another series' after a wait.
    await forgetInBlocks(parts, { namespace }, file.info, slots.splice(0));
    await pace.rest(signal);
    if (namespace.truncations !== truncations) return;
  }
  await forgetInBlocks(parts, options, file.info, slots);
}
