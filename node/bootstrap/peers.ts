/**
 * Takes a shard from its peers: their streams, each sorted by block and ID, are merged into filesets, and
 * these are loaded into the engine. A block is on disk before it is in memory.
 */
import type { NodeService } from '#cluster/node_service.ts';
import { chunkHeaders } from '#engine/chunk.ts';
import { badRequest } from '#lib/errors.ts';
import { compareBytes } from '#lib/tags.ts';
import { shardFolder } from '../persist/fileset_format.ts';
import { FilesetReader } from '../persist/fileset_reader.ts';
import { FilesetWriter } from '../persist/fileset_writer.ts';
import { makeDurableFolder } from '../persist/folders.ts';
import type { Database } from '../storage/database.ts';
import type { NamespaceState } from '../storage/namespace.ts';
import { checkedId, type SeriesName } from '../storage/series_name.ts';
import { loadFileset, nextVolume, truncatedMeanwhile } from './filesystem.ts';

export interface PeersReport {
  blocks: number;
  series: number;
  bytes: number;
}

/** A series of a stream in one block. */
interface StreamedSeries {
  readonly blockStartNanos: bigint;
  readonly id: Uint8Array;
  readonly name: SeriesName;
  readonly chunks: Uint8Array;
}

/**
 * Streams a shard of a namespace from all of the donors.
 *
 * @param onlyBlocks take only these blocks; null for all
 * @throws {TsdbError} UNAVAILABLE and what the donors reject with: nothing half-done counts, begin again
 */
export async function bootstrapFromPeers(
  database: Database,
  namespace: NamespaceState,
  shard: number,
  donors: readonly NodeService[],
  onlyBlocks: ReadonlySet<bigint> | null,
  signal: AbortSignal,
): Promise<PeersReport> {
  const request = {
    namespace: namespace.name,
    shard,
    placementVersion: database.shards.version,
  };
  const report: PeersReport = { blocks: 0, series: 0, bytes: 0 };
  const { truncations } = namespace;
  const streams = donors.map((donor) => seriesOf(donor, request, namespace, signal));
  const merged = mergeStreams(streams);
  try {
    let next = await merged.next();
    while (next.done !== true) {
      const { blockStartNanos } = next.value;
      const isWanted = onlyBlocks === null || onlyBlocks.has(blockStartNanos);
      const block = isWanted ? await openBlock(database, namespace, shard, blockStartNanos) : null;
      await using writer = block?.writer ?? null;
      while (next.done !== true && next.value.blockStartNanos === blockStartNanos) {
        signal.throwIfAborted();
        const { id, name, chunks } = next.value;
        if (writer !== null) {
          await writer.add(id, name, chunks);
          report.series += 1;
          report.bytes += chunks.length;
        }
        next = await merged.next();
      }
      if (block === null) continue;
      await block.writer.finish();
      signal.throwIfAborted();
      await using reader = await FilesetReader.open(database.env.disk, block.folder, block.key);
      await loadFileset(database, namespace, reader, truncations);
      report.blocks += 1;
    }
  } finally {
    await merged.return();
  }
  if (namespace.truncations !== truncations) throw truncatedMeanwhile(namespace);
  return report;
}

async function openBlock(
  database: Database,
  namespace: NamespaceState,
  shard: number,
  blockStartNanos: bigint,
) {
  const { env, options, shards } = database;
  const folder = shardFolder(options.dataFolder, namespace.name, shard);
  const key = { blockStartNanos, volume: await nextVolume(database, folder, blockStartNanos) };
  await makeDurableFolder(env.disk, options.dataFolder, folder);
  const writer = await FilesetWriter.open(env.disk, folder, {
    ...key,
    namespace: namespace.name,
    namespaceRevision: 0,
    shard,
    shardCount: shards.shardCount,
    blockSizeNanos: namespace.blockSizeNanos,
    createdNanos: env.clock.nowNanos(),
    source: 'peers',
  });
  return { folder, key, writer };
}

/** One donor's series, checked: the order is what the merge and the fileset rely on. */
async function* seriesOf(
  donor: NodeService,
  request: {
    readonly namespace: string;
    readonly shard: number;
    readonly placementVersion: number;
  },
  namespace: NamespaceState,
  signal: AbortSignal,
): AsyncGenerator<StreamedSeries, void, undefined> {
  let last: StreamedSeries | null = null;
  for await (const { bundle } of donor.streamShard(request, signal)) {
    for (let i = 0; i < bundle.seriesCount; i += 1) {
      const chunks = bundle.chunkData.subarray(bundle.chunkOffset[i]!, bundle.chunkOffset[i + 1]!);
      if (chunks.length === 0) continue;
      const name: SeriesName = {
        idScheme: bundle.idScheme[i]!,
        tags: bundle.tagsData.subarray(bundle.tagsOffset[i]!, bundle.tagsOffset[i + 1]!),
        explicitId: bundle.idData.subarray(bundle.idOffset[i]!, bundle.idOffset[i + 1]!),
      };
      const id = checkedId(name);
      if (id === null) throw badRequest('cannot take shard from peer: a series is malformed');
      const series = { blockStartNanos: blockOf(namespace, chunks), id, name, chunks };
      if (last !== null && compareSeries(last, series) >= 0) {
        throw badRequest('cannot take shard from peer: its stream is not sorted by block and ID');
      }
      last = series;
      yield series;
    }
  }
}

/** The block that all of the chunks lie in. */
function blockOf(namespace: NamespaceState, chunks: Uint8Array): bigint {
  let block: bigint | null = null;
  for (const { firstNanos, lastNanos } of chunkHeaders(chunks)) {
    block ??= namespace.blockStartOf(firstNanos);
    if (
      namespace.blockStartOf(firstNanos) !== block ||
      namespace.blockStartOf(lastNanos) !== block
    ) {
      throw badRequest('cannot take shard from peer: chunks of a series lie in two blocks');
    }
  }
  return block!;
}

function compareSeries(a: StreamedSeries, b: StreamedSeries): number {
  if (a.blockStartNanos !== b.blockStartNanos)
    return a.blockStartNanos < b.blockStartNanos ? -1 : 1;
  return compareBytes(a.id, b.id);
}

/** Sorted streams as one; chunks of the same series and block stand one behind the other. */
async function* mergeStreams(
  streams: readonly AsyncGenerator<StreamedSeries, void, undefined>[],
): AsyncGenerator<StreamedSeries, void, undefined> {
  try {
    const heads = await Promise.all(streams.map((stream) => stream.next()));
    for (;;) {
      let least: StreamedSeries | null = null;
      for (const head of heads) {
        if (head.done === true) continue;
        if (least === null || compareSeries(head.value, least) < 0) least = head.value;
      }
      if (least === null) return;
      const parts: Uint8Array[] = [];
      for (let i = 0; i < heads.length; i += 1) {
        const head = heads[i]!;
        if (head.done === true || compareSeries(head.value, least) !== 0) continue;
        parts.push(head.value.chunks);
        heads[i] = await streams[i]!.next();
      }
      const chunks = parts.length === 1 ? parts[0]! : new Uint8Array(Buffer.concat(parts));
      yield { ...least, chunks };
    }
  } finally {
    for (const stream of streams) await stream.return();
  }
}
