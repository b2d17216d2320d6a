/**
 * Prometheus remote write 2.0 (io.prometheus.write.v2.Request): the plain twin of the walk in
 * engine/write_decoder/kernel/write_decoder.kernel.ts and engine/write_decoder/kernel/symbols.ts. A
 * request has one table of texts; a series names its labels by pairs of numbers in it. Exemplars
 * and metadata are passed over.
 */
import { writeDecoderProblem, labelTextBytesMax, symbolsMax } from './core.ts';
import {
  canonicalTags,
  type HistogramAt,
  type Label,
  parseSample,
  type WireRequest,
  type WireSeries,
} from './remote_write_twin.ts';
import { Fields, Malformed, type Range, wireBytes, wireVarint } from './wire_fields.ts';
import { readHistogram } from './wire_histogram.ts';

const field = { symbols: 4, timeseries: 5 } as const;
const seriesField = { labelReferences: 1, samples: 2, histograms: 3 } as const;

/** Reads an uncompressed request; null when it is malformed, or a `writeDecoderProblem`. */
export function parseWriteRequestV2(bytes: Uint8Array): WireRequest | number | null {
  try {
    return readRequest(bytes);
  } catch (error) {
    if (error instanceof Malformed) return null;
    throw error;
  }
}

function readRequest(bytes: Uint8Array): WireRequest | number {
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
  const series = ranges.map((range) => parseSeries(bytes, range, symbols, counts));
  if (counts.textBytes > labelTextBytesMax) return writeDecoderProblem.tooMuchText;
  return { series };
}

function parseSeries(
  bytes: Uint8Array,
  [start, end]: Range,
  symbols: readonly Uint8Array[],
  counts: { textBytes: number },
): WireSeries {
  const texts: Uint8Array[] = [];
  const timestampsMillis: bigint[] = [];
  const valueBits: bigint[] = [];
  const startNanos: (bigint | null)[] = [];
  const histograms: HistogramAt[] = [];
  const takeText = (fields: Fields): void => {
    const reference = fields.varint();
    if (reference >= BigInt(symbols.length)) throw new Malformed('reference');
    const text = symbols[Number(reference)]!;
    counts.textBytes += text.length;
    texts.push(text);
  };
  const fields = new Fields(bytes, start, end);
  while (fields.next()) {
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
    } else fields.skip();
  }
  if (texts.length % 2 === 1) throw new Malformed('a name without a value');
  const labels: Label[] = [];
  for (let i = 0; i < texts.length; i += 2) labels.push({ name: texts[i]!, value: texts[i + 1]! });
  return { tags: canonicalTags(labels), timestampsMillis, valueBits, startNanos, histograms };
}
