/** Answers of several sources as one. */
import { bundleBytes } from '#cluster/node/bundle_pages.ts';
import { mergeBundles } from '#cluster/session/bundle_merge.ts';
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { unlimitedReadBytes } from '#lib/read_memory/read_memory.ts';
import { compareTexts } from '#lib/text_order.ts';
import { unitePaced } from '#lib/turns/paced.ts';
import type { Work } from '#lib/turns/turns.ts';
import { partialWarning, type SourceSetup } from './namespace_source.ts';
import { cutTo, pickedSeries, refuseCut } from './picked_series.ts';
import type { LabelResult, ReadScales, SelectLimits, SelectResult } from './storage.ts';

/** Of tags, IDs and chunks together. */
const bytesMax = 2 ** 32 - 1;

/**
 * A series that several have is one, with the rows of all.
 * @throws {TsdbError} BAD_REQUEST over the limit on series, when the answer has to be exhaustive
 */
export async function joinedRows(
  results: readonly SelectResult[],
  { seriesMax, requireExhaustive, memory = unlimitedReadBytes }: SelectLimits,
  workOf: () => Work,
): Promise<SelectResult> {
  const [only, ...others] = results;
  if (only !== undefined && others.length === 0) return only;
  // The series of one that has all of them stay where they are.
  const { bundle, seriesMatched } = await mergeBundles(
    results.map((result) => result.bundle).filter(({ seriesCount }) => seriesCount > 0),
    { seriesMax, bytesMax },
    workOf(),
    memory,
  );
  const isCut = bundle.seriesCount < seriesMatched;
  if (isCut && requireExhaustive) refuseCut(seriesMax, seriesMatched);
  const warnings = results.flatMap((result) => result.warnings);
  if (isCut) warnings.push(partialWarning);
  return {
    bundle,
    exhaustive: !isCut && results.every(({ exhaustive }) => exhaustive),
    warnings: [...new Set(warnings)],
    ...joinedScales(results),
  };
}

/** What the rows of a result are for who asked for values. */
export function scalesOf({ bundle, scales }: SelectResult): ReadScales {
  if (scales !== undefined) return scales;
  return { ofSamples: new Set(hasRows(bundle) ? ['samples'] : []), others: new Set() };
}

export function hasRows({ seriesCount, chunkOffset }: SeriesBundle): boolean {
  return chunkOffset[seriesCount]! > chunkOffset[0]!;
}

/** Nothing where values of windows were asked for in none of them. */
function joinedScales(results: readonly SelectResult[]): Pick<SelectResult, 'scales'> {
  if (results.every(({ scales }) => scales === undefined)) return {};
  const all = results.map(scalesOf);
  return {
    scales: {
      ofSamples: new Set(all.flatMap(({ ofSamples }) => [...ofSamples])),
      others: new Set(all.flatMap(({ others }) => [...others])),
    },
  };
}

/**
 * No series is in two of them.
 * @throws {TsdbError} BAD_REQUEST over the limit on series, when the answer has to be exhaustive
 */
export async function joinedSeries(
  results: readonly SelectResult[],
  { seriesMax, requireExhaustive, memory }: SelectLimits,
  signal: AbortSignal,
): Promise<SelectResult> {
  const [only, ...others] = results;
  if (only !== undefined && others.length === 0) return only;
  const parts = results.map(({ bundle }) => bundle).filter(({ seriesCount }) => seriesCount > 0);
  const bytes = parts.reduce((sum, part) => sum + bundleBytes(part), 0);
  // What was taken for the parts goes on as what is taken for the whole.
  await memory?.grow(bytes, signal);
  const whole = joinedBundles(parts);
  memory?.give(bytes);
  const cut = cutTo(whole, seriesMax, requireExhaustive);
  const isCut = cut.seriesCount < whole.seriesCount;
  const warnings = results.flatMap((result) => result.warnings);
  return {
    bundle: cut,
    exhaustive: !isCut && results.every(({ exhaustive }) => exhaustive),
    warnings: isCut ? [...new Set([...warnings, partialWarning])] : [...new Set(warnings)],
    ...joinedScales(results),
  };
}

/** Each series once: those with equal tags are the same. */
export async function distinctSeries(result: SelectResult, work: Work): Promise<SelectResult> {
  const { bundle } = result;
  const { seriesCount, tagsData, tagsOffset } = bundle;
  const tags = Buffer.from(tagsData.buffer, tagsData.byteOffset, tagsData.length);
  const seen = new Set<string>();
  const kept: number[] = [];
  for (let i = 0; i < seriesCount; i++) {
    const key = tags.toString('latin1', tagsOffset[i], tagsOffset[i + 1]);
    if (!seen.has(key)) {
      seen.add(key);
      kept.push(i);
    }
    if (work.spend(keyUnits)) await work.pause();
  }
  return kept.length === seriesCount ? result : { ...result, bundle: pickedSeries(bundle, kept) };
}

/** About what it takes to look tags up, in units of work (lib/turns/turns.ts). */
const keyUnits = 100;

function joinedBundles(parts: readonly SeriesBundle[]): SeriesBundle {
  if (parts.length === 1) return parts[0]!;
  const seriesCount = parts.reduce((sum, part) => sum + part.seriesCount, 0);
  const joined = (
    data: (part: SeriesBundle) => Uint8Array,
    offset: (part: SeriesBundle) => Uint32Array,
  ): { data: Uint8Array; offset: Uint32Array } => {
    const offsets = new Uint32Array(seriesCount + 1);
    let at = 0;
    let bytes = 0;
    for (const part of parts) {
      const own = offset(part);
      for (let i = 0; i < part.seriesCount; i++) {
        bytes += own[i + 1]! - own[i]!;
        offsets[++at] = bytes;
      }
    }
    const all = parts.map((part) => data(part).subarray(0, offset(part)[part.seriesCount]));
    return { data: new Uint8Array(Buffer.concat(all)), offset: offsets };
  };
  const tags = joined(
    (part) => part.tagsData,
    (part) => part.tagsOffset,
  );
  const ids = joined(
    (part) => part.idData,
    (part) => part.idOffset,
  );
  const chunks = joined(
    (part) => part.chunkData,
    (part) => part.chunkOffset,
  );
  const idScheme = new Uint8Array(seriesCount);
  let at = 0;
  for (const part of parts) {
    idScheme.set(part.idScheme.subarray(0, part.seriesCount), at);
    at += part.seriesCount;
  }
  return {
    seriesCount,
    tagsData: tags.data,
    tagsOffset: tags.offset,
    idScheme,
    idData: ids.data,
    idOffset: ids.offset,
    chunkData: chunks.data,
    chunkOffset: chunks.offset,
  };
}

/** @param results values of each sorted */
export async function joinedLabels(
  results: readonly LabelResult[],
  workOf: () => Work,
): Promise<LabelResult> {
  const [first, ...others] = results;
  if (first !== undefined && others.length === 0) return first;
  const work = workOf();
  let values: readonly string[] = first?.values ?? [];
  for (const other of others) values = await unitePaced(values, other.values, compareTexts, work);
  return {
    values,
    exhaustive: results.every(({ exhaustive }) => exhaustive),
    warnings: [...new Set(results.flatMap(({ warnings }) => warnings))],
  };
}

/**
 * The same series with other chunks.
 * @param change of one series after the other; it says what work that is, and gives way
 */
export async function withChunks(
  { turningOf }: Pick<SourceSetup, 'turningOf'>,
  result: SelectResult,
  { memory }: SelectLimits,
  signal: AbortSignal,
  change: (chunks: Uint8Array, work: Work, tags: Uint8Array) => Promise<readonly Uint8Array[]>,
): Promise<SelectResult> {
  const { seriesCount, chunkData, chunkOffset, tagsData, tagsOffset } = result.bundle;
  const { work } = turningOf(signal);
  const offsets = new Uint32Array(seriesCount + 1);
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for (let i = 0; i < seriesCount; i++) {
    const chunks = chunkData.subarray(chunkOffset[i]!, chunkOffset[i + 1]!);
    const tags = tagsData.subarray(tagsOffset[i]!, tagsOffset[i + 1]!);
    for (const part of await change(chunks, work, tags)) {
      parts.push(part);
      bytes += part.length;
    }
    offsets[i + 1] = bytes;
  }
  const bundle: SeriesBundle = {
    ...result.bundle,
    chunkData: new Uint8Array(Buffer.concat(parts)),
    chunkOffset: offsets,
  };
  await memory?.grow(bundleBytes(bundle), signal);
  memory?.give(bundleBytes(result.bundle));
  return { ...result, bundle };
}
