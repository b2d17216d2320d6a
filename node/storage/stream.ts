/**
 * A shard as pages for a peer that bootstraps: block by block, oldest first, and in a block by the order
 * of the series' IDs, which is the order of a fileset.
 */
import type { StreamShardPage } from '#cluster/node_service.ts';
import type { Store } from '#engine/store.ts';
import { compareBytes } from '#lib/tags.ts';
import { streamPageBytesTarget } from '../limits.ts';
import type { NamespaceState } from './namespace.ts';

/** Series of a page before their size is known. */
const seriesOfPageFirst = 64;
const seriesOfPageMax = 16_384;

interface StreamedSeries {
  readonly slot: number;
  readonly generation: number;
  readonly id: Uint8Array;
  readonly blockStarts: readonly bigint[];
}

export async function* streamPages(
  namespace: NamespaceState,
  store: Store,
  shard: number,
  signal: AbortSignal,
): AsyncGenerator<StreamShardPage, void, undefined> {
  const all = seriesOf(namespace, store, shard);
  const blocks = new Map<bigint, StreamedSeries[]>();
  for (const series of all) {
    for (const start of series.blockStarts) {
      const members = blocks.get(start);
      if (members === undefined) blocks.set(start, [series]);
      else members.push(series);
    }
  }
  const starts = [...blocks.keys()].sort((a, b) => (a < b ? -1 : 1));
  let seriesOfPage = seriesOfPageFirst;
  for (const start of starts) {
    const members = blocks.get(start)!;
    for (let first = 0; first < members.length; ) {
      signal.throwIfAborted();
      const some = members.slice(first, first + seriesOfPage);
      first += some.length;
      // A series may have expired since, and its slot may be another's.
      const slots = Uint32Array.from(
        some.filter(({ slot, generation }) => store.generation[slot] === generation),
        ({ slot }) => slot,
      );
      const chunks = store.read(slots, start, start + namespace.blockSizeNanos);
      const bundle = { ...namespace.index.tagsOf(slots), ...chunks };
      yield { bundle };
      const bytes = chunks.chunkData.length + bundle.tagsData.length;
      if (bytes < streamPageBytesTarget / 2) {
        seriesOfPage = Math.min(seriesOfPage * 2, seriesOfPageMax);
      } else if (bytes > streamPageBytesTarget) {
        seriesOfPage = Math.max(seriesOfPage >>> 1, 1);
      }
    }
  }
}

/** By the order of their IDs. */
function seriesOf(namespace: NamespaceState, store: Store, shard: number): StreamedSeries[] {
  const all = Array.from(namespace.slotsOfShard(shard), (slot) => ({
    slot,
    generation: store.generation[slot]!,
    id: namespace.index.id(slot),
    blockStarts: store.blockStarts(slot),
  }));
  return all.sort((a, b) => compareBytes(a.id, b.id));
}
