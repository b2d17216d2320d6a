/**
 * A shard as pages for a peer that bootstraps: block by block, oldest first, and in a block by the
 * order of the series' IDs, which is the order of a fileset. Rows of memory and of filesets stand
 * one after the other; the peer merges them.
 */
import type { StreamShardPage } from '#cluster/node/service.ts';
import { TsdbError } from '#lib/errors.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import type { Work } from '#lib/turns/turns.ts';
import { BlockWalk, type BlockWalkParts, everySeries } from './block_walk.ts';
import { PageBuilder, streamPageBytesTarget } from './page_builder.ts';

/** Series of a page before their size is known. */
const seriesOfPageFirst = 64;
const seriesOfPageMax = 16_384;
/** Of a series, in units of work: about five microseconds. */
const seriesUnits = 1000;
/** Of what is done between two rests of a walk, at least: enough for a look at the clock. */
const restUnits = 50_000;

/** Which blocks are asked for. */
export interface WantedBlocks {
  readonly isWanted: (blockStartNanos: bigint) => boolean;
  /** Blocks of which there are rows, after which there are no more pages; 0 = no limit. */
  readonly blocksMax: number;
}

export async function* streamPages(
  parts: BlockWalkParts,
  namespace: NamespaceState,
  shard: number,
  { isWanted, blocksMax }: WantedBlocks,
  work: Work,
): AsyncGenerator<StreamShardPage, void, undefined> {
  const { signal } = work;
  // Many may come at once, and each looks at all series of a namespace.
  await work.pause();
  // Its number in the store may be nobody's by now, or another one's.
  if (namespace.isDropped) {
    throw new TsdbError('NOT_FOUND', `cannot stream: namespace was deleted: ${namespace.name}`);
  }
  const starts = new Set<bigint>();
  for (const { blockStartNanos } of parts.store.blocks(namespace.ordinal)) {
    starts.add(blockStartNanos);
  }
  for (const file of namespace.files.all(shard)) {
    for (const start of namespace.files.blocksOf(file)) {
      if (start >= namespace.expiredBeforeNanos) starts.add(start);
    }
  }
  let seriesOfPage = seriesOfPageFirst;
  let blocks = 0;
  for (const start of [...starts].filter(isWanted).sort((a, b) => (a < b ? -1 : 1))) {
    let isEmpty = true;
    await using walk = new BlockWalk(parts, namespace, shard, start, {
      wants: everySeries,
      rest: async () => {
        if (work.spend(restUnits)) await work.pause();
      },
    });
    for (;;) {
      signal.throwIfAborted();
      const page = new PageBuilder();
      while (page.seriesCount < seriesOfPage && page.bytes < streamPageBytesTarget) {
        const series = await walk.next();
        if (series === null) break;
        page.add(series.name, series.chunks);
        if (work.spend(seriesUnits)) await work.pause();
      }
      if (page.seriesCount === 0) break;
      const bundle = page.finish();
      isEmpty = false;
      yield { bundle };
      const bytes = bundle.chunkData.length + bundle.tagsData.length;
      if (bytes < streamPageBytesTarget / 2) {
        seriesOfPage = Math.min(seriesOfPage * 2, seriesOfPageMax);
      } else if (bytes > streamPageBytesTarget) {
        seriesOfPage = Math.max(seriesOfPage >>> 1, 1);
      }
    }
    if (!isEmpty) blocks += 1;
    if (blocks === blocksMax && blocksMax > 0) return;
  }
}
