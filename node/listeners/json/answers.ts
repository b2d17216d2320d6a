/**
 * Answers of the JSON listeners as text: whole numbers of any size, and series as they are decoded.
 */
import { chunkHeaders } from '#engine/codec/chunk.ts';
import { type ShownSchemas, typedValueJson } from '#engine/messages/value_json.ts';
import { Decoder } from '#engine/store/decoder.ts';
import { mixedSlices } from '#engine/store/read/mixed_slices.ts';
import { hasTyped } from '#engine/store/typed_chunks.ts';
import type { JsonFetched } from './backend.ts';
import { m3TagsOf } from './encoded_tags.ts';
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { idOfTags } from '#lib/series_id/from_tags.ts';
import { type IdScheme, idSchemeCode } from '#lib/series_id/scheme.ts';
import { decodeTags, type Tags } from '#lib/tags.ts';
import type { TimeRange } from '#cluster/node/service.ts';
import { timeIn, type TimeType } from './requests.ts';

/** Text that is handed to the connection at once. */
const partLength = 64 * 1024;
/** Rows of a series that are decoded and told in one go. */
const rowsAtOnceMax = 8_192;

const schemeNames = new Map(
  Object.entries(idSchemeCode).map(([name, code]) => [code as number, name]),
);

/** `{"results":[{id, tags, datapoints}],"exhaustive":…}`, in parts. */
export function* queryAnswer(
  bundle: SeriesBundle,
  exhaustive: boolean,
  range: TimeRange,
  options: {
    readonly resultTimeType: TimeType;
    readonly withData: boolean;
    readonly schemas: ShownSchemas | null;
  },
): Generator<Uint8Array, void, undefined> {
  using decoder = new Decoder();
  let text = '{"results":[';
  for (let i = 0; i < bundle.seriesCount; i += 1) {
    const tags = tagsAt(bundle, i);
    text += `${i === 0 ? '' : ','}{"id":${JSON.stringify(idAt(bundle, i, tags))},`;
    text += `"tags":${JSON.stringify(tags)},"datapoints":`;
    let begin = '[';
    for (const part of options.withData ? datapoints(decoder, bundle, i, range, options) : []) {
      text += begin + part;
      begin = ',';
      if (text.length >= partLength) {
        yield Buffer.from(text);
        text = '';
      }
    }
    text += begin === '[' ? 'null}' : ']}';
    if (text.length >= partLength) {
      yield Buffer.from(text);
      text = '';
    }
  }
  yield Buffer.from(`${text}],"exhaustive":${exhaustive}}\n`);
}

/**
 * `{"datapoints":[…]}` of the only series, or of none; with `"exhaustive":false` and `warnings` when
 * fewer replicas answered than were asked for.
 */
export function* fetchAnswer(
  { bundle, warnings }: JsonFetched,
  range: TimeRange,
  resultTimeType: TimeType,
  schemas: ShownSchemas | null,
): Generator<Uint8Array, void, undefined> {
  using decoder = new Decoder();
  let text = '{"datapoints":[';
  let separator = '';
  for (let i = 0; i < bundle.seriesCount; i += 1) {
    for (const part of datapoints(decoder, bundle, i, range, { resultTimeType, schemas })) {
      text += separator + part;
      separator = ',';
      if (text.length >= partLength) {
        yield Buffer.from(text);
        text = '';
      }
    }
  }
  const rest =
    warnings.length === 0 ? '' : `,"exhaustive":false,"warnings":${JSON.stringify(warnings)}`;
  yield Buffer.from(`${text}]${rest}}\n`);
}

/** Datapoints of a series, some thousands at most in one text, with commas between them. */
function* datapoints(
  decoder: Decoder,
  bundle: SeriesBundle,
  index: number,
  range: TimeRange,
  {
    resultTimeType,
    schemas,
  }: { readonly resultTimeType: TimeType; readonly schemas: ShownSchemas | null },
): Generator<string, void, undefined> {
  const { chunkData, chunkOffset } = bundle;
  const chunks = chunkData.subarray(chunkOffset[index]!, chunkOffset[index + 1]!);
  if (hasTyped([chunks]) || hasManyRows(chunks)) {
    yield* slicesOf(chunks, range, resultTimeType, schemas);
    return;
  }
  const rowCount = decoder.decode(bundle, index, range.startNanos, range.endNanos);
  let text = '';
  for (let row = 0; row < rowCount; row += 1) {
    const time = timeIn(decoder.timestampNanos[row]!, resultTimeType);
    text += `${row === 0 ? '' : ','}{"timestamp":${time},"value":${sampleText(decoder.values[row]!)}}`;
  }
  if (rowCount > 0) yield text;
}

/** Whether decoding all of them, and their text, would be a long stretch. */
function hasManyRows(chunks: Uint8Array): boolean {
  let rows = 0;
  for (const { rowCount } of chunkHeaders(chunks)) {
    rows += rowCount;
    if (rows > rowsAtOnceMax) return true;
  }
  return false;
}

/** The same a slice of time after the other. Typed values are objects. */
function* slicesOf(
  chunks: Uint8Array,
  range: TimeRange,
  resultTimeType: TimeType,
  schemas: ShownSchemas | null,
): Generator<string, void, undefined> {
  for (const { timestampNanos, values, typed } of mixedSlices(chunks, range)) {
    let text = '';
    for (const [row, nanos] of timestampNanos.entries()) {
      const value = typed[row] ?? null;
      const json = value === null ? null : typedValueJson(value, schemas);
      if (value !== null && json === null) continue;
      const shown = value === null ? sampleText(values[row]!) : JSON.stringify(json);
      const time = timeIn(nanos, resultTimeType);
      text += `${text === '' ? '' : ','}{"timestamp":${time},"value":${shown}}`;
    }
    if (text !== '') yield text;
  }
}

/** JSON has no words for NaN and the infinities, so they are strings. */
function sampleText(value: number): string {
  if (Number.isFinite(value)) return Object.is(value, -0) ? '-0.0' : String(value);
  if (Number.isNaN(value)) return '"NaN"';
  return value > 0 ? '"+Inf"' : '"-Inf"';
}

export function tagsAt(bundle: SeriesBundle, index: number): Tags {
  return decodeTags(
    bundle.tagsData.subarray(bundle.tagsOffset[index]!, bundle.tagsOffset[index + 1]!),
  );
}

export function idAt(bundle: SeriesBundle, index: number, tags: Tags): string {
  const scheme = bundle.idScheme[index]!;
  if (scheme === idSchemeCode.explicit) {
    return new TextDecoder().decode(
      bundle.idData.subarray(bundle.idOffset[index]!, bundle.idOffset[index + 1]!),
    );
  }
  return idOfTags(tags, schemeNames.get(scheme) as IdScheme);
}

/** `{"elements":[{nameSpace, id, encodedTags, segments}],"exhaustive":…}`, bytes in base64. */
export function* fetchTaggedAnswer(
  namespace: string,
  bundle: SeriesBundle,
  exhaustive: boolean,
): Generator<Uint8Array, void, undefined> {
  const name = Buffer.from(namespace).toString('base64');
  let text = '{"elements":[';
  for (let i = 0; i < bundle.seriesCount; i += 1) {
    const id = Buffer.from(idAt(bundle, i, tagsAt(bundle, i))).toString('base64');
    const tags = m3TagsOf(
      bundle.tagsData.subarray(bundle.tagsOffset[i]!, bundle.tagsOffset[i + 1]!),
    ).toString('base64');
    const segments = segmentsText(bundle, i);
    text += `${i === 0 ? '' : ','}{"nameSpace":"${name}","id":"${id}",`;
    text += `"encodedTags":"${tags}","segments":${segments}}`;
    if (text.length >= partLength) {
      yield Buffer.from(text);
      text = '';
    }
  }
  yield Buffer.from(`${text}],"exhaustive":${exhaustive}}\n`);
}

/** Chunks of a series as they are stored, docs/formats/chunk.md. */
export function segmentsText({ chunkData, chunkOffset }: SeriesBundle, index: number): string {
  const start = chunkOffset[index]!;
  const length = chunkOffset[index + 1]! - start;
  if (length === 0) return '[]';
  const chunks = Buffer.from(chunkData.buffer, chunkData.byteOffset + start, length);
  return `[{"merged":{"head":"${chunks.toString('base64')}"}}]`;
}

/** `{"results":[{tagName, tagValues}],"exhaustive":…}`, in parts; without values where they were not asked for. */
export function* aggregateAnswer(
  tags: readonly { readonly name: string; readonly values: readonly string[] }[],
  namesOnly: boolean,
  exhaustive: boolean,
): Generator<Uint8Array, void, undefined> {
  let text = '{"results":[';
  for (const [i, { name, values }] of tags.entries()) {
    text += `${i === 0 ? '' : ','}{"tagName":${JSON.stringify(name)}`;
    if (!namesOnly) text += ',"tagValues":[';
    for (const [at, value] of namesOnly ? [] : values.entries()) {
      text += `${at === 0 ? '' : ','}{"tagValue":${JSON.stringify(value)}}`;
      if (text.length >= partLength) {
        yield Buffer.from(text);
        text = '';
      }
    }
    text += namesOnly ? '}' : ']}';
  }
  yield Buffer.from(`${text}],"exhaustive":${exhaustive}}\n`);
}
