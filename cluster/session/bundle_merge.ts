/**
 * Joins the answers of several nodes: each series once, its chunks one after the other. Chunks
 * that replicas hold in the same bytes are kept once; others may overlap, which decoding resolves.
 */
import { chunkHeaders, kindsAll } from '#engine/codec/chunk.ts';
import { emptyBundle, type SeriesBundle } from '#engine/codec/series_bundle.ts';
import type { Work } from '#lib/turns/turns.ts';
import { TsdbError } from '#lib/errors.ts';
import type { ReadBytes } from '#lib/read_memory/read_memory.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { bundleBytes, seriesOverheadBytes } from '../node/bundle_pages.ts';

export interface MergeLimits {
  /** 0 = no limit; series beyond it are cut off. */
  readonly seriesMax: number;
  /** Of tags, IDs and chunks together, below 4 GiB. */
  readonly bytesMax: number;
}

/** About what it takes to find a series of one replica among those of others, in units of work. */
const partUnits = 200;

export interface MergedBundle {
  readonly bundle: SeriesBundle;
  /** Different series of all answers, those that were cut off too. */
  readonly seriesMatched: number;
}

/**
 * Gives way to others on the way.
 * @param bundles borrowed; the only one is returned itself when nothing has to be cut off
 * @param memory has the bundles, and the outcome in their place afterwards
 * @throws {TsdbError} RESOURCE_EXHAUSTED when the outcome would have more bytes than the limit, and as
 *   `memory`
 */
export async function mergeBundles(
  bundles: readonly SeriesBundle[],
  { seriesMax, bytesMax }: MergeLimits,
  work: Work,
  memory: ReadBytes,
): Promise<MergedBundle> {
  if (bundles.length === 0) return { bundle: emptyBundle, seriesMatched: 0 };
  const [only] = bundles;
  if (bundles.length === 1 && (seriesMax === 0 || only!.seriesCount <= seriesMax)) {
    const { tagsData, idData, chunkData, seriesCount } = only!;
    checkBytes(tagsData.length + idData.length + chunkData.length, bytesMax);
    return { bundle: only!, seriesMatched: seriesCount };
  }
  const parts = await groupParts(bundles, work);
  const seriesMatched = parts.first.length;
  const seriesCount = seriesMax === 0 ? seriesMatched : Math.min(seriesMatched, seriesMax);
  const bundle = await copyParts(bundles, parts, seriesCount, bytesMax, work, memory);
  memory.give(bundles.reduce((sum, each) => sum + bundleBytes(each), 0));
  return { bundle, seriesMatched };
}

/**
 * Which series of which bundles are the same one: a list of parts for each, in order of the
 * bundles.
 */
interface Parts {
  /** First part of each series. */
  readonly first: number[];
  /** Next part of the same series, or -1. */
  readonly next: Int32Array;
  readonly bundleOf: Uint32Array;
  readonly indexOf: Uint32Array;
}

async function groupParts(bundles: readonly SeriesBundle[], work: Work): Promise<Parts> {
  const partCount = bundles.reduce((sum, { seriesCount }) => sum + seriesCount, 0);
  const parts: Parts = {
    first: [],
    next: new Int32Array(partCount).fill(-1),
    bundleOf: new Uint32Array(partCount),
    indexOf: new Uint32Array(partCount),
  };
  const lastOfKey = new Map<string, number>();
  let part = 0;
  for (const [at, bundle] of bundles.entries()) {
    const tags = bufferOf(bundle.tagsData);
    const ids = bufferOf(bundle.idData);
    for (let i = 0; i < bundle.seriesCount; i++, part++) {
      parts.bundleOf[part] = at;
      parts.indexOf[part] = i;
      // Latin-1 is a character a byte: the cheapest key with the same equality as the bytes.
      let key = tags.toString('latin1', bundle.tagsOffset[i]!, bundle.tagsOffset[i + 1]!);
      const scheme = bundle.idScheme[i]!;
      key += String.fromCharCode(scheme);
      if (scheme === idSchemeCode.explicit) {
        key += ids.toString('latin1', bundle.idOffset[i]!, bundle.idOffset[i + 1]!);
      }
      const last = lastOfKey.get(key);
      if (last === undefined) parts.first.push(part);
      else parts.next[last] = part;
      lastOfKey.set(key, part);
      if (work.spend(partUnits)) await work.pause();
    }
  }
  return parts;
}

async function copyParts(
  bundles: readonly SeriesBundle[],
  parts: Parts,
  seriesCount: number,
  bytesMax: number,
  work: Work,
  memory: ReadBytes,
): Promise<SeriesBundle> {
  const chunks = new ChunkRanges(bundles);
  const rangeEnd = new Uint32Array(seriesCount);
  const tagsOffset = new Uint32Array(seriesCount + 1);
  const idOffset = new Uint32Array(seriesCount + 1);
  const chunkOffset = new Uint32Array(seriesCount + 1);
  let byteCount = 0;
  for (let series = 0; series < seriesCount; series++) {
    const part = parts.first[series]!;
    const bundle = bundles[parts.bundleOf[part]!]!;
    const i = parts.indexOf[part]!;
    const tagsBytes = bundle.tagsOffset[i + 1]! - bundle.tagsOffset[i]!;
    const idBytes = bundle.idOffset[i + 1]! - bundle.idOffset[i]!;
    const chunkBytes = chunks.addSeries(parts, part);
    byteCount += tagsBytes + idBytes + chunkBytes;
    checkBytes(byteCount, bytesMax);
    tagsOffset[series + 1] = tagsOffset[series]! + tagsBytes;
    idOffset[series + 1] = idOffset[series]! + idBytes;
    chunkOffset[series + 1] = chunkOffset[series]! + chunkBytes;
    rangeEnd[series] = chunks.count;
    if (work.spend(partUnits + chunkBytes)) await work.pause();
  }
  // As it is given back.
  const heldBytes = byteCount + seriesOverheadBytes * seriesCount;
  if (!memory.tryGrow(heldBytes)) await work.outside(memory.grow(heldBytes, work.signal));
  const tagsData = new Uint8Array(tagsOffset[seriesCount]!);
  const idData = new Uint8Array(idOffset[seriesCount]!);
  const chunkData = new Uint8Array(chunkOffset[seriesCount]!);
  const idScheme = new Uint8Array(seriesCount);
  for (let series = 0; series < seriesCount; series++) {
    const part = parts.first[series]!;
    const bundle = bundles[parts.bundleOf[part]!]!;
    const i = parts.indexOf[part]!;
    idScheme[series] = bundle.idScheme[i]!;
    tagsData.set(
      bundle.tagsData.subarray(bundle.tagsOffset[i]!, bundle.tagsOffset[i + 1]!),
      tagsOffset[series]!,
    );
    idData.set(
      bundle.idData.subarray(bundle.idOffset[i]!, bundle.idOffset[i + 1]!),
      idOffset[series]!,
    );
    const rangeStart = series === 0 ? 0 : rangeEnd[series - 1]!;
    chunks.copy(rangeStart, rangeEnd[series]!, chunkData, chunkOffset[series]!);
    if (work.spend(partUnits)) await work.pause();
  }
  return { seriesCount, tagsData, tagsOffset, idScheme, idData, idOffset, chunkData, chunkOffset };
}

/** Ranges of chunk bytes that are kept, series by series. */
class ChunkRanges {
  readonly #data: readonly Buffer[];
  readonly #offsets: readonly Uint32Array[];
  readonly #bundleOf: number[] = [];
  readonly #start: number[] = [];
  readonly #end: number[] = [];

  constructor(bundles: readonly SeriesBundle[]) {
    this.#data = bundles.map(({ chunkData }) => bufferOf(chunkData));
    this.#offsets = bundles.map(({ chunkOffset }) => chunkOffset);
  }

  get count(): number {
    return this.#start.length;
  }

  /** Keeps the chunks of all parts of a series, equal ones once; returns their bytes. */
  addSeries(parts: Parts, firstPart: number): number {
    const firstRange = this.count;
    let byteCount = 0;
    for (let part = firstPart; part >= 0; part = parts.next[part]!) {
      const bundle = parts.bundleOf[part]!;
      const index = parts.indexOf[part]!;
      const start = this.#offsets[bundle]![index]!;
      const end = this.#offsets[bundle]![index + 1]!;
      if (start === end || this.#holds(firstRange, bundle, start, end)) continue;
      if (part === firstPart) byteCount += this.#keep(bundle, start, end);
      else byteCount += this.#keepNewChunks(firstRange, bundle, start, end);
    }
    return byteCount;
  }

  copy(from: number, to: number, target: Uint8Array, targetOffset: number): void {
    let at = targetOffset;
    for (let range = from; range < to; range++) {
      const data = this.#data[this.#bundleOf[range]!]!;
      target.set(data.subarray(this.#start[range], this.#end[range]), at);
      at += this.#end[range]! - this.#start[range]!;
    }
  }

  /**
   * Of a replica whose chunks differ somewhere, keeps those chunks that no range so far begins with
   * or holds.
   */
  #keepNewChunks(firstRange: number, bundle: number, start: number, end: number): number {
    const known = new Set<string>();
    for (let range = firstRange; range < this.count; range++) {
      const data = this.#data[this.#bundleOf[range]!]!;
      for (const chunk of eachChunk(data, this.#start[range]!, this.#end[range]!)) {
        known.add(data.toString('latin1', chunk.start, chunk.end));
      }
    }
    const data = this.#data[bundle]!;
    let byteCount = 0;
    for (const chunk of eachChunk(data, start, end)) {
      if (known.has(data.toString('latin1', chunk.start, chunk.end))) continue;
      byteCount += this.#keep(bundle, chunk.start, chunk.end);
    }
    return byteCount;
  }

  #holds(firstRange: number, bundle: number, start: number, end: number): boolean {
    const data = this.#data[bundle]!;
    for (let range = firstRange; range < this.count; range++) {
      const other = this.#data[this.#bundleOf[range]!]!;
      const otherStart = this.#start[range]!;
      const otherEnd = this.#end[range]!;
      if (otherEnd - otherStart !== end - start) continue;
      if (data.compare(other, otherStart, otherEnd, start, end) === 0) return true;
    }
    return false;
  }

  #keep(bundle: number, start: number, end: number): number {
    this.#bundleOf.push(bundle);
    this.#start.push(start);
    this.#end.push(end);
    return end - start;
  }
}

/** The chunks of a range; a malformed rest is one piece, for the decoder to report. */
function* eachChunk(
  data: Uint8Array,
  start: number,
  end: number,
): Generator<{ start: number; end: number }> {
  let at = start;
  try {
    for (const header of chunkHeaders(data, start, end, kindsAll)) {
      yield { start: at, end: header.end };
      at = header.end;
    }
  } catch (error) {
    if (!(error instanceof TsdbError)) throw error;
    yield { start: at, end };
  }
}

function checkBytes(byteCount: number, bytesMax: number): void {
  if (byteCount <= bytesMax) return;
  throw new TsdbError(
    'RESOURCE_EXHAUSTED',
    `query exceeded limit: answers of the storage nodes are larger than ${bytesMax} bytes`,
  );
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
