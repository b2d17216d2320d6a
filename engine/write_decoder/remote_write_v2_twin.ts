/**
 * Prometheus remote write 2.0 (io.prometheus.write.v2.Request): the plain twin of the walk in
 * engine/write_decoder/kernel/write_decoder.kernel.ts and engine/write_decoder/kernel/remote_write/symbols.ts. A
 * request has one table of texts; a series names its labels by pairs of numbers in it.
 */
import { tagsCountMax } from '#lib/tags.ts';
import {
  labelTextBytesMax,
  namelessSlot,
  oversizeSlot,
  symbolsMax,
  unresolvedSlot,
  writeDecoderProblem,
} from './core.ts';
import { metricTypes } from '../typed/metadata.ts';
import { readExemplar, type WireExemplar } from './exemplar_twin.ts';
import { readMetadata, type WireMetadata } from './metadata_twin.ts';
import { canonicalTags, type Label } from './label_twin.ts';
import {
  type HistogramAt,
  parseSample,
  type WireRequest,
  type WireSeries,
} from './remote_write_twin.ts';
import { Fields, Malformed, type Range, wireBytes, wireVarint } from './wire_fields.ts';
import { readHistogram } from './wire_histogram.ts';

const field = { symbols: 4, timeseries: 5 } as const;
const seriesField = {
  labelReferences: 1,
  samples: 2,
  histograms: 3,
  exemplars: 4,
  metadata: 5,
} as const;

/**
 * Reads an uncompressed request; null when it is malformed, or a `writeDecoderProblem`.
 * @param typeAndUnit those of the metadata of a series become labels of it
 */
export function parseWriteRequestV2(
  bytes: Uint8Array,
  typeAndUnit: boolean,
): WireRequest | number | null {
  try {
    return readRequest(bytes, typeAndUnit);
  } catch (error) {
    if (error instanceof Malformed) return null;
    throw error;
  }
}

function readRequest(bytes: Uint8Array, typeAndUnit: boolean): WireRequest | number {
  const symbols: Uint8Array[] = [];
  const ranges: Range[] = [];
  const fields = new Fields(bytes, 0, bytes.length);
  while (fields.next()) {
    if (fields.number === field.symbols) {
      fields.expect(wireBytes);
      const range = fields.range();
      if (symbols.length === symbolsMax) return writeDecoderProblem.tooManySymbols;
      symbols.push(bytes.subarray(...range));
    } else if (fields.number === field.timeseries) {
      fields.expect(wireBytes);
      ranges.push(fields.range());
    } else fields.skip();
  }
  const counts = { textBytes: 0 };
  const series = ranges.map((range) => parseSeries(bytes, range, symbols, counts, typeAndUnit));
  if (counts.textBytes > labelTextBytesMax) return writeDecoderProblem.tooMuchText;
  return { series, families: [] };
}

function parseSeries(
  bytes: Uint8Array,
  [start, end]: Range,
  symbols: readonly Uint8Array[],
  counts: { textBytes: number },
  typeAndUnit: boolean,
): WireSeries {
  const texts: (Uint8Array | null)[] = [];
  const timestampsMillis: bigint[] = [];
  const valueBits: bigint[] = [];
  const startNanos: (bigint | null)[] = [];
  const histograms: HistogramAt[] = [];
  const exemplars: WireExemplar[] = [];
  const metadata: WireMetadata[] = [];
  const said = { type: 0n, unit: 0n };
  let hasContent = false;
  const takeText = (fields: Fields): void => {
    const text = symbols[Number(fields.varint())] ?? null;
    counts.textBytes += text?.length ?? 0;
    texts.push(text);
  };
  const fields = new Fields(bytes, start, end);
  while (fields.next()) {
    hasContent ||= fields.number >= seriesField.samples && fields.number <= seriesField.metadata;
    if (fields.number === seriesField.labelReferences) {
      if (fields.wireType === wireVarint) takeText(fields);
      else {
        fields.expect(wireBytes);
        const packed = new Fields(bytes, ...fields.range());
        while (!packed.isAtEnd) takeText(packed);
      }
    } else if (fields.number === seriesField.samples) {
      fields.expect(wireBytes);
      const [timestamp, bits, start] = parseSample(bytes, fields.range(), true);
      timestampsMillis.push(timestamp);
      valueBits.push(bits);
      startNanos.push(start);
    } else if (fields.number === seriesField.histograms) {
      fields.expect(wireBytes);
      const range = fields.range();
      histograms.push({ range, histogram: readHistogram(bytes, range, true) });
    } else if (fields.number === seriesField.exemplars) {
      fields.expect(wireBytes);
      exemplars.push(readExemplar(bytes, fields.range(), symbols));
    } else if (fields.number === seriesField.metadata) {
      fields.expect(wireBytes);
      const range = fields.range();
      const read = readMetadata(bytes, range, symbols);
      if (read !== null) metadata.push(read);
      noteTypeAndUnit(bytes, range, said);
    } else fields.skip();
  }
  const unit = symbols[Number(said.unit)];
  if (typeAndUnit && unit !== undefined && !texts.includes(null) && texts.length % 2 === 0) {
    labelTypeAndUnit(texts as Uint8Array[], Number(said.type), unit);
  }
  const { tags, refusedSlot } = tagsOfTexts(texts);
  return {
    tags,
    timestampsMillis,
    valueBits,
    startNanos,
    histograms,
    exemplars,
    metadata,
    refusedSlot,
    hasContent,
  };
}

/** What was said last counts, field by field. */
function noteTypeAndUnit(
  bytes: Uint8Array,
  [start, end]: Range,
  said: { type: bigint; unit: bigint },
): void {
  const fields = new Fields(bytes, start, end);
  while (fields.next()) {
    if (fields.number === 1) said.type = fields.varint();
    else if (fields.number === 4) said.unit = fields.varint();
    else fields.skip();
  }
}

/** In the place of what the labels themselves say. */
function labelTypeAndUnit(texts: Uint8Array[], type: number, unit: Uint8Array): void {
  if (texts.length / 2 > tagsCountMax) return;
  const typeName = type >= 1 ? (metricTypes[type] ?? '') : '';
  if (typeName === '' && unit.length === 0) return;
  const isOne = (name: Uint8Array): boolean =>
    ['__type__', '__unit__'].includes(Buffer.from(name).toString('latin1'));
  const kept = texts.filter((_, i) => !isOne(texts[i - (i % 2)]!));
  texts.splice(0, texts.length, ...kept);
  if (typeName !== '') texts.push(Buffer.from('__type__'), Buffer.from(typeName));
  if (unit.length > 0) texts.push(Buffer.from('__unit__'), unit);
}

function tagsOfTexts(
  texts: readonly (Uint8Array | null)[],
): Pick<WireSeries, 'tags' | 'refusedSlot'> {
  if (texts.includes(null) || texts.length % 2 === 1) {
    return { tags: null, refusedSlot: unresolvedSlot };
  }
  const labels: Label[] = [];
  for (let i = 0; i < texts.length; i += 2) labels.push({ name: texts[i]!, value: texts[i + 1]! });
  const isName = ({ name }: Label): boolean => Buffer.from(name).toString('latin1') === '__name__';
  if (labels.length <= tagsCountMax && !labels.some(isName)) {
    return { tags: canonicalTags(labels), refusedSlot: namelessSlot };
  }
  const tags = canonicalTags(labels);
  return { tags, refusedSlot: tags === null ? oversizeSlot : null };
}
