/**
 * Brings filesets of short blocks together to long ones: a series that has some hundred rows a
 * block costs more in its entries and headers than in its rows. Blocks stay what rows, flushes,
 * peers, repair and retention are counted by; a long fileset is only where several of them are
 * (docs/STORAGE.md).
 *
 * What it brings, measured with a day of 2-hour blocks of 500 series: a third of the files; of a
 * sample a minute 66 % of the bytes of constant series, 17 % of counters and 7 % of gauges; of a
 * sample every 15 s 67 %, 1 % and nothing (the data of these gauges are too long to be tried).
 */
import { isUnaggregated } from '#cluster/namespaces/namespaces.ts';
import { mergeChunks } from '#engine/store/chunk_merge.ts';
import { BrokenInvariant } from '#lib/assert.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { FilesetCorrupt, type FilesetInfo, shardFolder } from '../../persist/fileset/format.ts';
import { FilesetWriter } from '../../persist/fileset/writer.ts';
import { BlockFile } from '../filesets/block_file.ts';
import { MergedWalk } from '../filesets/merged_walk.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import { dueSpans, type Span, spanNanosMaxOf, spanNanosOf, type SpanState } from './due_spans.ts';
import type { Pace } from './pace.ts';
import type { VolumeParts } from './volume.ts';

/** Series that are merged in one stretch of the main loop. */
const seriesAtOnce = 32;

export interface CompactionReport {
  /** Long filesets that were written, and filesets that they stand for now. */
  written: number;
  replaced: number;
  bytes: number;
}

/** What it takes to bring blocks together. */
export interface CompactionParts extends VolumeParts {
  readonly log: Log;
  readonly namespaces: ReadonlyMap<string, NamespaceState>;
}

/** What decides about the long filesets of a namespace; null where there are none. */
function spanStateOf(
  { store }: CompactionParts,
  namespace: NamespaceState,
): SpanState<BlockFile> | null {
  const { blockSizeNanos, retentionNanos, expiredBeforeNanos, readyShards, options } = namespace;
  if (!options.flushEnabled || !options.cleanupEnabled) return null;
  return {
    blockSizeNanos,
    retentionNanos,
    spanNanosMax: spanNanosMaxOf(namespace.definition),
    waitsForAllBlocks: !isUnaggregated(namespace.definition),
    bufferPastNanos: options.retentionOptions.bufferPastNanos,
    expiredBeforeNanos,
    files: namespace.files.all(null),
    readyShards,
    isClean: (file) => isClean(namespace, file),
    blocksInMemory: () =>
      // Of one that was dropped since, the number in the store may be another one's.
      namespace.isDropped
        ? []
        : store.blocks(namespace.ordinal).map(({ blockStartNanos }) => blockStartNanos),
  };
}

function isClean({ tombstones }: NamespaceState, file: BlockFile): boolean {
  return file.damaged.size === 0 && tombstones.pendingOf(file).length === 0;
}

/**
 * Brings together what is due, one fileset at a time; what fails is logged and tried again.
 * @param mayGoOn asked between two
 * @throws the signal's reason
 */
export async function compactDue(
  parts: CompactionParts,
  options: { readonly pace: Pace; readonly mayGoOn: () => boolean },
  signal: AbortSignal,
): Promise<CompactionReport> {
  const report: CompactionReport = { written: 0, replaced: 0, bytes: 0 };
  const { env, log, namespaces } = parts;
  for (const namespace of namespaces.values()) {
    const state = spanStateOf(parts, namespace);
    if (state === null) continue;
    for (const span of dueSpans(state, env.clock.nowNanos())) {
      if (!options.mayGoOn()) return report;
      signal.throwIfAborted();
      try {
        const bytes = await namespace.files.write(span.shard, (dropped) =>
          writeLong(parts, namespace, span, options.pace, AbortSignal.any([signal, dropped])),
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
  parts: CompactionParts,
  namespace: NamespaceState,
  span: Span<BlockFile>,
  pace: Pace,
  signal: AbortSignal,
): Promise<number> {
  const { env } = parts;
  const { files, truncations, blockSizeNanos, retentionNanos, definition } = namespace;
  const { shard, startNanos } = span;
  const spanNanosMax = spanNanosMaxOf(definition);
  const spanNanos = spanNanosOf({ blockSizeNanos, retentionNanos, spanNanosMax });
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
      (file) => files.get(shard, file.blockStartNanos) === file && isClean(namespace, file),
    );
  const isClosed = span.files.every((file) => file.isClosed);
  if (!isStill() || (!isClosed && span.files.some((file) => file.isClosed))) return 0;
  for (const file of span.files) files.pin(file);
  try {
    const folder = shardFolder(parts.dataFolder, namespace.name, shard);
    const info: FilesetInfo = {
      namespace: namespace.name,
      namespaceRevision: 0,
      shard,
      shardCount: parts.shards.shardCount,
      blockStartNanos: startNanos,
      blockSizeNanos: spanNanos,
      volume: await files.nextVolume(shard, folder, startNanos),
      createdNanos: namespace.filesetTime(env.clock.nowNanos()),
      source: 'merge',
    };
    const walked = span.files.map((file) => ({ files, file }));
    await using walk = await MergedWalk.open(env.disk, walked);
    await using writer = FilesetWriter.open(env.disk, folder, info);
    await mergeWalks(walk, writer, parts.store.keepsRowVersions, pace, signal);
    const endStep = (): void => {
      signal.throwIfAborted();
      if (isStill()) return;
      throw new TsdbError('UNAVAILABLE', 'its filesets were changed meanwhile');
    };
    endStep();
    await files.keepDamage(shard, info);
    const rest = (): Promise<void> => pace.rest(signal);
    const digest = await writer.finish(rest);
    const directories = [];
    const long = new BlockFile(folder, info, writer.seriesCount, digest);
    try {
      if (isClosed) await files.columns.make(long, rest);
      else for (const file of span.files) directories.push(await files.directories.of(file));
      endStep();
    } catch (error) {
      await writer.undo();
      throw error;
    }
    long.standsFor = span.files;
    long.isClosed = isClosed;
    files.adopt(long);
    // Its series stay as long as it does, for its directory tells them by their slots.
    const lastBlock = startNanos + spanNanos - blockSizeNanos;
    for (const { slots } of directories) namespace.index.markLive(slots, lastBlock);
    return digest.data.bytes + digest.index.bytes;
  } catch (error) {
    if (error instanceof FilesetCorrupt) {
      const damaged = span.files.find((file) => file.isOf(error.path));
      if (damaged !== undefined && damaged.retired === null) files.setAside(damaged, error.message);
    }
    throw error;
  } finally {
    for (const file of span.files) files.unpin(file);
  }
}

/** Writes the series of all filesets by the order of their IDs, each once. */
async function mergeWalks(
  walk: MergedWalk,
  writer: FilesetWriter,
  keepsRowVersions: boolean,
  pace: Pace,
  signal: AbortSignal,
): Promise<void> {
  for (let count = 1; ; count += 1) {
    const series = await walk.next();
    if (series === null) return;
    const { id, name, parts } = series;
    writer.put(id, name, parts.length === 1 ? parts[0]! : merged(parts, keepsRowVersions));
    if (writer.isFull) await writer.drain();
    if (count % seriesAtOnce !== 0) continue;
    signal.throwIfAborted();
    await pace.rest(signal);
  }
}

/** Merged chunks; where there are too many rows for one piece of work, as they are. */
function merged(parts: readonly Uint8Array[], keepsRowVersions: boolean): Uint8Array {
  try {
    return mergeChunks(parts, keepsRowVersions);
  } catch (error) {
    if (!(error instanceof TsdbError && error.code === 'RESOURCE_EXHAUSTED')) throw error;
    return new Uint8Array(Buffer.concat(parts));
  }
}
