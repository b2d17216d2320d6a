/** A bundle of series in parts of bounded size, and the parts as a bundle again. */
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';

/** Part of a bundle. */
export interface BundlePart {
  readonly bundle: SeriesBundle;
  /**
   * Chunk bytes of the first series continue those of the last one before; it has no tags and ID
   * here.
   */
  readonly continues: boolean;
}

/** Bytes that a series takes beside its tags, ID and chunks: three offsets and its scheme. */
export const seriesOverheadBytes = 13;

/** What a bundle takes in memory. */
export function bundleBytes({ seriesCount, tagsData, idData, chunkData }: SeriesBundle): number {
  return tagsData.length + idData.length + chunkData.length + seriesOverheadBytes * seriesCount;
}

/** A joined bundle has offsets of 32 bits. */
const joinedBytesMax = 2 ** 32 - 1;

/**
 * Parts of about `bytesMax` bytes; a series whose chunks are larger is cut. At least one part,
 * views of the bundle.
 */
export function* bundleParts(bundle: SeriesBundle, bytesMax: number): Generator<BundlePart> {
  const { seriesCount, chunkOffset } = bundle;
  let first = 0;
  let chunkStart = 0;
  do {
    const continues = first < seriesCount && chunkStart > chunkOffset[first]!;
    let end = first;
    let chunkEnd = chunkStart;
    let left = bytesMax;
    while (end < seriesCount) {
      const head = continues && end === first ? 0 : headBytes(bundle, end);
      const whole = head + chunkOffset[end + 1]! - chunkEnd;
      if (whole <= left) {
        left -= whole;
        chunkEnd = chunkOffset[++end]!;
        continue;
      }
      if (end === first) {
        chunkEnd += Math.min(chunkOffset[end + 1]! - chunkEnd, Math.max(1, left - head));
        end++;
      }
      break;
    }
    yield { bundle: slice(bundle, first, end, chunkStart, chunkEnd, continues), continues };
    const isCut = end > first && chunkEnd < chunkOffset[end]!;
    first = isCut ? end - 1 : end;
    chunkStart = chunkEnd;
  } while (first < seriesCount);
}

function headBytes(bundle: SeriesBundle, series: number): number {
  const tagsBytes = bundle.tagsOffset[series + 1]! - bundle.tagsOffset[series]!;
  const idBytes = bundle.idOffset[series + 1]! - bundle.idOffset[series]!;
  return tagsBytes + idBytes + seriesOverheadBytes;
}

function slice(
  bundle: SeriesBundle,
  first: number,
  end: number,
  chunkStart: number,
  chunkEnd: number,
  continues: boolean,
): SeriesBundle {
  // What continues has given its tags and ID already, so these begin with the series after it.
  const named = continues ? first + 1 : first;
  const offsets = (offset: Uint32Array, start: number, stop: number) =>
    Uint32Array.from(
      { length: end - first + 1 },
      (_, i) => Math.min(stop, Math.max(start, offset[first + i]!)) - start,
    );
  const tagsStart = bundle.tagsOffset[named]!;
  const idStart = bundle.idOffset[named]!;
  const tagsEnd = bundle.tagsOffset[end]!;
  const idEnd = bundle.idOffset[end]!;
  return {
    seriesCount: end - first,
    tagsData: bundle.tagsData.subarray(tagsStart, tagsEnd),
    tagsOffset: offsets(bundle.tagsOffset, tagsStart, tagsEnd),
    idScheme: bundle.idScheme.subarray(first, end),
    idData: bundle.idData.subarray(idStart, idEnd),
    idOffset: offsets(bundle.idOffset, idStart, idEnd),
    chunkData: bundle.chunkData.subarray(chunkStart, chunkEnd),
    chunkOffset: offsets(bundle.chunkOffset, chunkStart, chunkEnd),
  };
}

/** Collects parts in their order. */
export class BundleJoiner {
  readonly #parts: BundlePart[] = [];
  #seriesCount = 0;
  #byteCount = 0;

  /**
   * @param part checked here: it may come from anywhere
   * @throws {TsdbError} BAD_REQUEST when it is malformed, RESOURCE_EXHAUSTED when all are too large
   */
  add(part: BundlePart): void {
    const { bundle, continues } = part;
    checkBundle(bundle);
    if (continues && (bundle.seriesCount === 0 || this.#seriesCount === 0)) {
      throw badRequest('cannot join bundle: there is no series to continue');
    }
    this.#parts.push(part);
    this.#seriesCount += bundle.seriesCount - (continues ? 1 : 0);
    this.#byteCount += bundle.tagsData.length + bundle.idData.length + bundle.chunkData.length;
    if (this.#byteCount > joinedBytesMax) {
      throw new TsdbError('RESOURCE_EXHAUSTED', 'cannot join bundle: it is larger than 4 GiB');
    }
  }

  get partCount(): number {
    return this.#parts.length;
  }

  /** The bundle of all parts so far; begins anew. */
  finish(): SeriesBundle {
    const parts = this.#parts.splice(0);
    const seriesCount = this.#seriesCount;
    this.#seriesCount = 0;
    this.#byteCount = 0;
    const [only] = parts;
    if (parts.length === 1) return only!.bundle;
    const joined: SeriesBundle = {
      seriesCount,
      tagsData: concat(parts.map(({ bundle }) => bundle.tagsData)),
      tagsOffset: new Uint32Array(seriesCount + 1),
      idScheme: new Uint8Array(seriesCount),
      idData: concat(parts.map(({ bundle }) => bundle.idData)),
      idOffset: new Uint32Array(seriesCount + 1),
      chunkData: concat(parts.map(({ bundle }) => bundle.chunkData)),
      chunkOffset: new Uint32Array(seriesCount + 1),
    };
    let series = 0;
    const start = { tags: 0, id: 0, chunk: 0 };
    for (const { bundle, continues } of parts) {
      if (continues) series--;
      for (let i = 0; i < bundle.seriesCount; i++, series++) {
        joined.idScheme[series] = bundle.idScheme[i]!;
        joined.tagsOffset[series + 1] = start.tags + bundle.tagsOffset[i + 1]!;
        joined.idOffset[series + 1] = start.id + bundle.idOffset[i + 1]!;
        joined.chunkOffset[series + 1] = start.chunk + bundle.chunkOffset[i + 1]!;
      }
      start.tags += bundle.tagsData.length;
      start.id += bundle.idData.length;
      start.chunk += bundle.chunkData.length;
    }
    return joined;
  }
}

/** @throws {TsdbError} BAD_REQUEST unless lengths and offsets agree */
function checkBundle(bundle: SeriesBundle): void {
  const { seriesCount, idScheme } = bundle;
  if (idScheme.length !== seriesCount) throw malformed('id_scheme', idScheme.length);
  checkOffsets('tags_offset', bundle.tagsOffset, seriesCount, bundle.tagsData.length);
  checkOffsets('id_offset', bundle.idOffset, seriesCount, bundle.idData.length);
  checkOffsets('chunk_offset', bundle.chunkOffset, seriesCount, bundle.chunkData.length);
}

function checkOffsets(name: string, offsets: Uint32Array, count: number, length: number): void {
  if (offsets.length !== count + 1 || offsets[0] !== 0) throw malformed(name, offsets.length);
  for (let i = 0; i < count; i++) {
    if (offsets[i + 1]! < offsets[i]!) throw malformed(name, offsets[i + 1]!);
  }
  if (offsets[count] !== length) throw malformed(name, offsets[count]!);
}

function malformed(name: string, value: number): Error {
  return badRequest(`cannot read bundle: ${name} does not fit the other columns: ${value}`);
}

function concat(parts: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}
