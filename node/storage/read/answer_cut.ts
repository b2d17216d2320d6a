/** Takes deleted rows of filesets out of an answer that is about to be given. */
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { keepRange } from '../tombstones/chunk_cut.ts';
import { cutSeries, type DatedFile, type NamespaceTombstones } from '../tombstones/tombstones.ts';

/** Chunks that one fileset has given. */
export interface AnsweredFile {
  readonly file: DatedFile;
  /** Places of the series in the answer. */
  readonly places: Uint32Array;
  /** Where the chunks of each begin in the answer, and their lengths. */
  readonly targets: Uint32Array;
  readonly lengths: Uint32Array;
}

/** A range of the answer, and what stands for it. */
interface Replaced {
  readonly at: number;
  readonly end: number;
  readonly kept: Uint8Array;
}

/** The chunks of a series that may be seen: the very bytes when all may. */
export type Keeper = (tags: Uint8Array, chunks: Uint8Array) => Uint8Array;

/**
 * What may be seen of a fileset; null when all of it may.
 * @param expiredBeforeNanos what is before it is past retention: a long fileset may still have it
 */
export function keeperOf(
  file: DatedFile,
  tombstones: NamespaceTombstones,
  expiredBeforeNanos: bigint,
): Keeper | null {
  const pending = tombstones.pendingOf(file);
  if (file.blockStartNanos >= expiredBeforeNanos) {
    return pending.length === 0 ? null : (tags, chunks) => cutSeries(tags, chunks, pending);
  }
  return (tags, chunks) => cutSeries(tags, keepRange(chunks, expiredBeforeNanos, null), pending);
}

/** The answer itself when nothing in it is deleted. */
export function cutAnswer(
  bundle: SeriesBundle,
  keeperOf: (file: DatedFile) => Keeper | null,
  files: Iterable<AnsweredFile>,
): SeriesBundle {
  const { chunkData, tagsData, tagsOffset } = bundle;
  const replaced: Replaced[] = [];
  for (const { file, places, targets, lengths } of files) {
    const keeper = keeperOf(file);
    if (keeper === null) continue;
    for (let i = 0; i < places.length; i += 1) {
      const place = places[i]!;
      const at = targets[i]!;
      const end = at + lengths[i]!;
      const chunks = chunkData.subarray(at, end);
      const tags = tagsData.subarray(tagsOffset[place]!, tagsOffset[place + 1]!);
      const kept = keeper(tags, chunks);
      if (kept !== chunks) replaced.push({ at, end, kept });
    }
  }
  return replaced.length === 0 ? bundle : withReplaced(bundle, replaced);
}

function withReplaced(bundle: SeriesBundle, replaced: Replaced[]): SeriesBundle {
  const { chunkData, chunkOffset } = bundle;
  replaced.sort((a, b) => a.at - b.at);
  const parts: Uint8Array[] = [];
  const offsets = new Uint32Array(chunkOffset.length);
  let length = 0;
  let next = 0;
  const add = (part: Uint8Array): void => {
    parts.push(part);
    length += part.length;
  };
  for (let i = 0; i + 1 < chunkOffset.length; i += 1) {
    let from = chunkOffset[i]!;
    for (; next < replaced.length && replaced[next]!.at < chunkOffset[i + 1]!; next += 1) {
      const { at, end, kept } = replaced[next]!;
      add(chunkData.subarray(from, at));
      add(kept);
      from = end;
    }
    add(chunkData.subarray(from, chunkOffset[i + 1]!));
    offsets[i + 1] = length;
  }
  return { ...bundle, chunkData: new Uint8Array(Buffer.concat(parts)), chunkOffset: offsets };
}
