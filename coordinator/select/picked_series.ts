/** Some of the series of an answer. */
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { badRequest } from '#lib/errors.ts';
import type { Work } from '#lib/turns/turns.ts';
import type { Restriction, SelectResult } from './storage.ts';

/** Those that a restriction takes. */
export async function restricted(
  result: SelectResult,
  restriction: Restriction,
  work: Work,
): Promise<SelectResult> {
  const { bundle } = result;
  const { seriesCount, tagsData, tagsOffset } = bundle;
  const kept: number[] = [];
  for (let i = 0; i < seriesCount; i++) {
    const tags = tagsData.subarray(tagsOffset[i]!, tagsOffset[i + 1]!);
    if (restriction.takes(tags)) kept.push(i);
    if (work.spend(restriction.units(tags.length))) await work.pause();
  }
  return kept.length === seriesCount ? result : { ...result, bundle: pickedSeries(bundle, kept) };
}

export function pickedSeries(bundle: SeriesBundle, places: readonly number[]): SeriesBundle {
  const picked = (
    data: Uint8Array,
    offset: Uint32Array,
  ): { data: Uint8Array; offset: Uint32Array } => {
    const offsets = new Uint32Array(places.length + 1);
    const parts = places.map((place, i) => {
      const part = data.subarray(offset[place]!, offset[place + 1]!);
      offsets[i + 1] = offsets[i]! + part.length;
      return part;
    });
    return { data: new Uint8Array(Buffer.concat(parts)), offset: offsets };
  };
  const tags = picked(bundle.tagsData, bundle.tagsOffset);
  const ids = picked(bundle.idData, bundle.idOffset);
  const chunks = picked(bundle.chunkData, bundle.chunkOffset);
  return {
    seriesCount: places.length,
    tagsData: tags.data,
    tagsOffset: tags.offset,
    idScheme: Uint8Array.from(places, (place) => bundle.idScheme[place]!),
    idData: ids.data,
    idOffset: ids.offset,
    chunkData: chunks.data,
    chunkOffset: chunks.offset,
  };
}

/** The first series of a bundle. @param seriesMax 0 = no limit @throws {TsdbError} BAD_REQUEST */
export function cutTo(
  bundle: SeriesBundle,
  seriesMax: number,
  requireExhaustive: boolean,
): SeriesBundle {
  if (seriesMax === 0 || bundle.seriesCount <= seriesMax) return bundle;
  if (requireExhaustive) refuseCut(seriesMax, bundle.seriesCount);
  return { ...bundle, seriesCount: seriesMax };
}

/** @throws {TsdbError} BAD_REQUEST */
export function refuseCut(seriesMax: number, seriesMatched: number | 'more'): never {
  throw badRequest(
    `query exceeded limit: series_limit=${seriesMax}, series_matched=${seriesMatched}; the limit is that of the request, or limits.perQuery.maxFetchedSeries of the coordinator`,
  );
}
