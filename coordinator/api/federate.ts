/** Federation: the newest sample of each series that selectors name, as a Prometheus scrapes it. */
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { Decoder } from '#engine/store/decoder.ts';
import { hasTyped } from '#engine/store/typed_chunks.ts';
import { staleBits } from '#engine/typed/histogram.ts';
import { nanosPerMilli } from '#lib/time.ts';
import { decodeTags } from '#lib/tags.ts';
import { sortPaced } from '#lib/turns/paced.ts';
import { Turns } from '#lib/turns/turns.ts';
import { expositionOf, type Exposition } from '../exposition/accept.ts';
import { type ExpositionWriter, Families, type Sample } from '../exposition/families.ts';
import { ProtobufWriter } from '../exposition/protobuf_writer.ts';
import { TextWriter } from '../exposition/text_writer.ts';
import { withoutTags } from '../forced_tags/forced_tags.ts';
import type { ApiAnswer, ApiRequest } from '../http/http_api.ts';
import { Labels, labelsBytesOf } from '../promql/rows/labels.ts';
import { labelsUnits } from '../promql/rows/paced.ts';
import { Pacer } from '../promql/rows/pacer.ts';
import { labelsSortKey } from '../remote/answer.ts';
import { protocolSlices } from '../remote/mixed_rows.ts';
import type { SelectRange } from '../select/storage.ts';
import type { LabelsApiSetup } from './labels.ts';
import { answerHeaders } from '../reads/answer_headers.ts';
import { lookbackMillisOf, readOptionsOf } from '../reads/options.ts';
import { checkRangeMillis, millisOfNanos, ofParameter, selectorsOf } from '../http/parameters.ts';

/** About what it takes to decode the rows of a series and to write one, in units of work. */
const seriesUnits = 400;
/** The same where a series has histograms. */
const typedSeriesUnits = 4000;

export async function federate(
  { storageFor, settings, clock, parseSelectors, turningOf }: LabelsApiSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
): Promise<ApiAnswer> {
  const selectors = selectorsOf(parameters, 0);
  const exposition = expositionOf(request.header('accept'));
  const { timeoutMillis, limits, rangeMillisMax } = readOptionsOf(request, parameters, settings);
  const nowMillis = millisOfNanos(clock.nowNanos());
  const lookbackMillis = lookbackMillisOf(parameters, null, settings);
  checkRangeMillis(lookbackMillis, rangeMillisMax);
  const range: SelectRange = {
    startNanos: BigInt(nowMillis - lookbackMillis) * nanosPerMilli,
    endNanos: BigInt(nowMillis + 1) * nanosPerMilli,
  };
  const signal = clock.deadline(timeoutMillis, request.signal);
  const work = Turns.of(clock).begin(signal);
  const matcherLists = await ofParameter('match[]', parseSelectors(selectors, turningOf(signal)));
  const headersOf = (more: Parameters<typeof answerHeaders>[0]) => ({
    'Content-Type': exposition.contentType,
    ...answerHeaders(more),
  });
  if (matcherLists.length === 0) {
    const headers = headersOf({ timeoutMillis, seriesLimited: false, warnings: [] });
    return { status: 200, headers, body: '' };
  }
  const storage = storageFor(request);
  const found = await work.outside(storage.selectAny(matcherLists, range, limits, signal));
  const { exhaustive, warnings } = found;
  const bundle = await withoutTags(found.bundle, storage.hidden, work);
  const pacer = new Pacer(work, Number.POSITIVE_INFINITY, request.readMemory);
  return {
    status: 200,
    headers: headersOf({
      timeoutMillis,
      seriesLimited: !exhaustive,
      warnings,
      seriesCount: bundle.seriesCount,
    }),
    body: familiesOf(bundle, range, exposition, pacer),
  };
}

/** Series by their names, and of one name by their labels. */
async function seriesByName(bundle: SeriesBundle, pacer: Pacer): Promise<readonly number[]> {
  const { seriesCount, tagsData, tagsOffset } = bundle;
  if (pacer.take(labelsBytesOf(seriesCount, tagsData.length))) await pacer.room();
  const bytes = Buffer.from(tagsData.buffer, tagsData.byteOffset, tagsData.length);
  const keyed: { readonly index: number; readonly key: string }[] = [];
  for (let index = 0; index < seriesCount; index++) {
    const [start, end] = [tagsOffset[index]!, tagsOffset[index + 1]!];
    const name = Buffer.from(Labels.fromBytes(bytes, start, end).name).toString('latin1');
    keyed.push({ index, key: `${name}\0${labelsSortKey(bytes.subarray(start, end))}` });
    if (pacer.spend(labelsUnits)) await pacer.pause();
  }
  const byKey = (a: { key: string }, b: { key: string }): number =>
    a.key < b.key ? -1 : a.key > b.key ? 1 : 0;
  return (await sortPaced(keyed, byKey, pacer.work)).map(({ index }) => index);
}

/** The answer in parts: families are made one series at a time. */
async function* familiesOf(
  bundle: SeriesBundle,
  range: SelectRange,
  exposition: Exposition,
  pacer: Pacer,
): AsyncIterable<Uint8Array> {
  const writer: ExpositionWriter =
    exposition.format === 'text' ? new TextWriter() : new ProtobufWriter();
  const families = new Families(writer, exposition);
  const { tagsData, tagsOffset } = bundle;
  using decoder = new Decoder();
  const newest = new NewestSamples(bundle, range, decoder);
  let heldBytes = 0;
  for (const index of await seriesByName(bundle, pacer)) {
    const sample = newest.of(index);
    if (pacer.spend(newest.isTyped(index) ? typedSeriesUnits : seriesUnits)) await pacer.pause();
    if (sample === null) continue;
    families.add(decodeTags(tagsData.subarray(tagsOffset[index]!, tagsOffset[index + 1]!)), sample);
    const more = writer.heldBytes - heldBytes;
    heldBytes += more;
    if (more < 0) pacer.give(-more);
    else if (pacer.take(more)) await pacer.room();
    yield* writer.take();
  }
  writer.end();
  pacer.give(heldBytes);
  yield* writer.take();
}

class NewestSamples {
  readonly #bundle: SeriesBundle;
  readonly #range: SelectRange;
  readonly #decoder: Decoder;

  /** @param decoder of which nobody else has rows meanwhile */
  constructor(bundle: SeriesBundle, range: SelectRange, decoder: Decoder) {
    this.#bundle = bundle;
    this.#range = range;
    this.#decoder = decoder;
  }

  #chunksOf(index: number): Uint8Array {
    const { chunkData, chunkOffset } = this.#bundle;
    return chunkData.subarray(chunkOffset[index]!, chunkOffset[index + 1]!);
  }

  isTyped(index: number): boolean {
    return hasTyped([this.#chunksOf(index)]);
  }

  /** Null when the series has none in the range, or ends there with a stale marker. */
  of(index: number): Sample | null {
    const sample = this.isTyped(index) ? this.#mixed(index) : this.#float(index);
    if (sample === null) return null;
    const valueBits = 'histogram' in sample ? sample.histogram.sumBits : sample.valueBits;
    return valueBits === staleBits ? null : sample;
  }

  #float(index: number): Sample | null {
    const { startNanos, endNanos } = this.#range;
    const last = this.#decoder.decode(this.#bundle, index, startNanos, endNanos) - 1;
    if (last < 0) return null;
    const { timestampMillis, valueWords } = this.#decoder;
    const valueBits = (BigInt(valueWords[2 * last + 1]!) << 32n) | BigInt(valueWords[2 * last]!);
    return { millis: timestampMillis[last]!, valueBits };
  }

  #mixed(index: number): Sample | null {
    let newest: Sample | null = null;
    for (const rows of protocolSlices(this.#chunksOf(index), this.#range)) {
      newest = rows.at(-1) ?? newest;
    }
    return newest;
  }
}
