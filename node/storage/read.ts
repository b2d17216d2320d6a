/** Answers of reads: series of the index with the chunks of the store, as one bundle. */
import type { FetchResponse } from '#cluster/node_service.ts';
import type { SeriesBundle } from '#engine/series_bundle.ts';
import type { Store } from '#engine/store.ts';
import { badRequest } from '#lib/errors.ts';
import type { UnixNanos } from '#lib/time.ts';
import { fetchBytesMax } from '../limits.ts';
import type { NamespaceState } from './namespace.ts';
import type { ShardTable } from './shards.ts';

/** Series that are read in one piece, so that a large answer does not double its memory. */
const seriesAtOnce = 4096;

/** Series with tags and IDs, and with their chunks that overlap the range, or without chunks. */
export function bundleOf(
  namespace: NamespaceState,
  store: Store,
  slots: Uint32Array,
  range: { readonly startNanos: UnixNanos; readonly endNanos: UnixNanos } | null,
): SeriesBundle {
  const chunkOffset = new Uint32Array(slots.length + 1);
  if (range === null) {
    return { ...namespace.index.tagsOf(slots), chunkData: new Uint8Array(0), chunkOffset };
  }
  const parts: Uint8Array[] = [];
  let length = 0;
  for (let first = 0; first < slots.length; first += seriesAtOnce) {
    const some = slots.subarray(first, first + seriesAtOnce);
    const read = store.read(some, range.startNanos, range.endNanos);
    for (let i = 0; i < some.length; i += 1) {
      chunkOffset[first + i + 1] = length + read.chunkOffset[i + 1]!;
    }
    parts.push(read.chunkData);
    length += read.chunkData.length;
    if (length > fetchBytesMax) {
      throw badRequest(
        `cannot read: the answer holds more than ${fetchBytesMax} bytes; ask for fewer series or less time`,
      );
    }
  }
  return { ...namespace.index.tagsOf(slots), chunkData: joined(parts, length), chunkOffset };
}

/** Shards for which an answer of this node is whole. */
export function wholeShards(
  namespace: NamespaceState,
  shards: ShardTable,
  wanted: Uint32Array | null,
): FetchResponse['shards'] {
  const asked = wanted === null ? null : new Set(wanted);
  const whole = shards
    .all()
    .filter(
      ({ id, state }) =>
        state !== 'INITIALIZING' && namespace.readyShards.has(id) && (asked?.has(id) ?? true),
    );
  return Uint32Array.from(whole, ({ id }) => id);
}

function joined(parts: readonly Uint8Array[], length: number): Uint8Array {
  if (parts.length === 1) return parts[0]!;
  const all = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
