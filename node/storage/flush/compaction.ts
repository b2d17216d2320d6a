/**
 * Brings filesets of short blocks together to long ones: a series that has some hundred rows a
 * block costs more in its entries and headers than in its rows. Blocks stay what rows, flushes,
 * peers, repair and retention are counted by; a long fileset is only where several of them are
 * (docs/STORAGE.md).
 */
import { mergeChunks } from '#engine/store/chunk_merge.ts';
import { BrokenInvariant } from '#lib/assert.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { compareBytes } from '#lib/tags.ts';
import type { UnixNanos } from '#lib/time.ts';
import { FilesetCorrupt, type FilesetInfo, shardFolder } from '../../persist/fileset/format.ts';
import { FilesetWriter } from '../../persist/fileset/writer.ts';
import type { Database } from '../database.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import { BlockFile } from '../filesets/namespace_files.ts';
import type { Pace } from './pace.ts';
import { copyOfName } from '../series/series_name.ts';
import { VolumeWalk } from '../filesets/volume_walk.ts';

/**
 * Of the time that a namespace keeps its data, and at most: what is past retention stays on disk
 * that much longer.
 */
const spanPartOfRetention = 4n;
export const spanNanosMax: bigint = 12n * 3_600_000_000_000n;
/**
 * Filesets with more bytes of data a series gain little by being brought together: their rows
 * outweigh the rest.
 */
const bytesOfSeriesMax = 512;
/** Series that are merged in one stretch of the main loop. */
const seriesAtOnce = 32;

export interface CompactionReport {
  /** Long filesets that were written, and filesets that they stand for now. */
  written: number;
  replaced: number;
  bytes: number;
}

/** Blocks of one shard that are to be one fileset. */
interface Span {
  readonly shard: number;
  readonly startNanos: bigint;
  readonly files: readonly BlockFile[];
}

/**
 * Nanoseconds of a long fileset: the block size times a power of two, so that spans of different
 * sizes never overlap by half. The block size itself where blocks are long enough.
 */
export function spanNanosOf(blockSizeNanos: bigint, retentionNanos: bigint): bigint {
  const ofRetention = retentionNanos / spanPartOfRetention;
  const most = ofRetention < spanNanosMax ? ofRetention : spanNanosMax;
  let span = blockSizeNanos;
  while (2n * span <= most) span *= 2n;
  return span;
}

/** Start of the span that holds a block. */
export function spanStartOf(blockStartNanos: bigint, spanNanos: bigint): bigint {
  const rest = blockStartNanos % spanNanos;
  return blockStartNanos - (rest < 0n ? rest + spanNanos : rest);
}

/** Spans of a namespace that can be brought together now: all blocks closed, flushed, and small. */
export function dueSpans(
  { store }: Pick<Database, 'store'>,
  namespace: NamespaceState,
  nowNanos: UnixNanos,
): Span[] {
  const { blockSizeNanos, retentionNanos, files, tombstones, options } = namespace;
  const spanNanos = spanNanosOf(blockSizeNanos, retentionNanos);
  if (spanNanos === blockSizeNanos || !options.flushEnabled || !options.cleanupEnabled) return [];
  // A block more than the write window: late rows of its last block have had their time.
  const closedNanos = nowNanos - options.retentionOptions.bufferPastNanos - blockSizeNanos;
  const spans = new Map<string, { shard: number; startNanos: bigint; files: BlockFile[] }>();
  for (const file of files.all(null)) {
    const startNanos = spanStartOf(file.blockStartNanos, spanNanos);
    if (startNanos + spanNanos > closedNanos) continue;
    // What expires soon is not worth it.
    if (startNanos < namespace.expiredBeforeNanos + spanNanos) continue;
    const key = `${file.shard}/${startNanos}`;
    const span = spans.get(key);
    if (span === undefined) spans.set(key, { shard: file.shard, startNanos, files: [file] });
    else span.files.push(file);
  }
  const due = [...spans.values()].filter(({ shard, files: parts }) => {
    const sum = (of: (file: BlockFile) => number) => parts.reduce((n, file) => n + of(file), 0);
    return (
      parts.length > 1 &&
      namespace.readyShards.has(shard) &&
      sum(({ dataBytes }) => dataBytes) <= bytesOfSeriesMax * sum((file) => file.seriesCount) &&
      // Who mends and who deletes goes first.
      parts.every((file) => file.damaged.size === 0 && tombstones.pendingOf(file).length === 0)
    );
  });
  if (due.length === 0) return due;
  // Rows that wait for their flush would have it written again at once.
  const inMemory = new Set<bigint>();
  for (const { blockStartNanos } of store.blocks(namespace.ordinal)) {
    inMemory.add(spanStartOf(blockStartNanos, spanNanos));
  }
  return due.filter(({ startNanos }) => !inMemory.has(startNanos));
}

/**
 * Brings together what is due, one fileset at a time; what fails is logged and tried again.
 * @param mayGoOn asked between two
 * @throws the signal's reason
 */
export async function compactDue(
  database: Database,
  options: { readonly pace: Pace; readonly mayGoOn: () => boolean },
  signal: AbortSignal,
): Promise<CompactionReport> {
  const report: CompactionReport = { written: 0, replaced: 0, bytes: 0 };
  const { env, log, namespaces } = database;
  for (const namespace of namespaces.values()) {
    for (const span of dueSpans(database, namespace, env.clock.nowNanos())) {
      if (!options.mayGoOn()) return report;
      signal.throwIfAborted();
      try {
        const bytes = await namespace.files.write(span.shard, (dropped) =>
          writeLong(database, namespace, span, options.pace, AbortSignal.any([signal, dropped])),
        );
        if (bytes === 0) continue;
        report.written += 1;
        report.replaced += span.files.length;
        report.bytes += bytes;
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof BrokenInvariant) throw error;
        const { startNanos, shard } = span;
        const fields = { namespace: namespace.name, shard, block: String(startNanos) };
        log.warn({ ...fields, error: messageOf(error) }, 'blocks are not brought together yet');
      }
      await options.pace.rest(signal);
    }
  }
  return report;
}

/**
 * As the shard's only writer of files. @returns bytes of the long fileset, 0 when there is nothing
 * to do any more
 */
async function writeLong(
  database: Database,
  namespace: NamespaceState,
  span: Span,
  pace: Pace,
  signal: AbortSignal,
): Promise<number> {
  const { env } = database;
  const { files, tombstones, truncations, blockSizeNanos } = namespace;
  const { shard, startNanos } = span;
  const spanNanos = spanNanosOf(blockSizeNanos, namespace.retentionNanos);
  const blocks = files.blocksOf({ blockStartNanos: startNanos, endNanos: startNanos + spanNanos });
  const isStill = (): boolean =>
    namespace.truncations === truncations &&
    // A flush may have made the fileset of a block that had none: the long one would stand for it
    // without its rows.
    blocks.every((start) => {
      const file = files.get(shard, start);
      return file === null || span.files.includes(file);
    }) &&
    span.files.every(
      (file) =>
        files.get(shard, file.blockStartNanos) === file &&
        file.damaged.size === 0 &&
        tombstones.pendingOf(file).length === 0,
    );
  if (!isStill()) return 0;
  for (const file of span.files) files.pin(file);
  const walks: VolumeWalk[] = [];
  try {
    const folder = shardFolder(database.options.dataFolder, namespace.name, shard);
    const info: FilesetInfo = {
      namespace: namespace.name,
      namespaceRevision: 0,
      shard,
      shardCount: database.shards.shardCount,
      blockStartNanos: startNanos,
      blockSizeNanos: spanNanos,
      volume: await files.nextVolume(shard, folder, startNanos),
      createdNanos: namespace.filesetTime(env.clock.nowNanos()),
      source: 'merge',
    };
    for (const file of span.files) walks.push(await VolumeWalk.open(env.disk, files, file, null));
    await using writer = FilesetWriter.open(env.disk, folder, info);
    await mergeWalks(walks, writer, pace, signal);
    const endStep = (): void => {
      signal.throwIfAborted();
      if (isStill()) return;
      throw new TsdbError('UNAVAILABLE', 'its filesets were changed meanwhile');
    };
    endStep();
    await files.keepDamage(shard, info);
    const digest = await writer.finish();
    const directories = [];
    try {
      for (const file of span.files) directories.push(await files.directory(file));
      endStep();
    } catch (error) {
      await writer.undo();
      throw error;
    }
    files.adopt(new BlockFile(folder, info, writer.seriesCount, digest));
    // Its series stay as long as it does, for its directory tells them by their slots.
    const lastBlock = startNanos + spanNanos - blockSizeNanos;
    for (const { slots } of directories) namespace.index.markLive(slots, lastBlock);
    return digest.data.bytes + digest.index.bytes;
  } catch (error) {
    if (error instanceof FilesetCorrupt) {
      const damaged = span.files.find(({ folder, info }) =>
        error.path.startsWith(`${folder}/fileset-${info.blockStartNanos}-${info.volume}-`),
      );
      if (damaged !== undefined && damaged.retired === null) files.setAside(damaged, error.message);
    }
    throw error;
  } finally {
    for (const walk of walks) await walk[Symbol.asyncDispose]();
    for (const file of span.files) files.unpin(file);
  }
}

/** Writes the series of all walks by the order of their IDs, each once. */
async function mergeWalks(
  walks: readonly VolumeWalk[],
  writer: FilesetWriter,
  pace: Pace,
  signal: AbortSignal,
): Promise<void> {
  for (let count = 1; ; count += 1) {
    const least = leastOf(walks);
    if (least === null) return;
    const id = least.id!;
    const name = copyOfName(least.name);
    const parts: Uint8Array[] = [];
    for (const walk of walks) {
      if (walk.id === null || (walk !== least && compareBytes(walk.id, id) !== 0)) continue;
      const chunks = await walk.chunks();
      if (chunks === null) {
        throw new TsdbError('UNAVAILABLE', 'chunks of a series are damaged');
      }
      parts.push(chunks);
      walk.step();
    }
    writer.put(id, name, parts.length === 1 ? parts[0]! : merged(parts));
    if (writer.isFull) await writer.drain();
    if (count % seriesAtOnce !== 0) continue;
    signal.throwIfAborted();
    await pace.rest(signal);
  }
}

function leastOf(walks: readonly VolumeWalk[]): VolumeWalk | null {
  let least: VolumeWalk | null = null;
  for (const walk of walks) {
    if (walk.id === null) continue;
    if (least === null || compareBytes(walk.id, least.id!) < 0) least = walk;
  }
  return least;
}

/** Merged chunks; where there are too many rows for one piece of work, as they are. */
function merged(parts: readonly Uint8Array[]): Uint8Array {
  try {
    return mergeChunks(parts);
  } catch (error) {
    if (!(error instanceof TsdbError && error.code === 'RESOURCE_EXHAUSTED')) throw error;
    return new Uint8Array(Buffer.concat(parts));
  }
}
