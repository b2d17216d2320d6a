/**
 * A shard as pages for a peer that bootstraps: block by block, oldest first, and in a block by the
 * order of the series' IDs, which is the order of a fileset. Rows of memory and of filesets stand
 * one after the other; the peer merges them.
 */
import type { StreamShardPage } from '#cluster/node/service.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import { BlockWalk, type BlockWalkParts } from './block_walk.ts';
import { PageBuilder, streamPageBytesTarget } from './page_builder.ts';

/** Series of a page before their size is known. */
const seriesOfPageFirst = 64;
const seriesOfPageMax = 16_384;

/** @param blocks starts of those that are asked for; null for all */
export async function* streamPages(
  parts: BlockWalkParts,
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
    await using walk = new BlockWalk(parts, namespace, shard, start);
    for (;;) {
      signal.throwIfAborted();
      const page = new PageBuilder();
      while (page.seriesCount < seriesOfPage && page.bytes < streamPageBytesTarget) {
        const series = await walk.next();
        if (series === null) break;
        page.add(series.name, series.chunks);
      }
      if (page.seriesCount === 0) break;
      const bundle = page.finish();
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
