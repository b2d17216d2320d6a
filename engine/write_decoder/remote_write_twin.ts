/**
 * Prometheus remote write 1.0 (lib/proto/remote.proto): the plain twin of the walk in
 * engine/write_decoder/kernel/write_decoder.kernel.ts.
 *
 * The walk is tolerant where protobuf is: fields in any order, the last one of a kind wins, unknown
 * ones are passed over, varints need not be short. It refuses what cannot be read: cut-off fields,
 * field number 0, a known field of another wire type, groups.
 */
import { oversizeSlot } from './core.ts';
import { readExemplar, type WireExemplar } from './exemplar_twin.ts';
import { canonicalTags, type Label, parseLabel } from './label_twin.ts';
import { readFamily, type WireMetadata } from './metadata_twin.ts';
import {
  Fields,
  Malformed,
  type Range,
  wireBytes,
  wireFixed64,
  wireVarint,
} from './wire_fields.ts';
import { readHistogram, startNanosOf, type WireHistogram } from './wire_histogram.ts';

/** One time series of a request. */
export interface WireSeries {
  /**
   * Canonical layout; null when there are more than `tagsCountMax` tags or `tagsBytesMax` bytes.
   */
  readonly tags: Uint8Array | null;
  readonly timestampsMillis: bigint[];
  readonly valueBits: bigint[];
  /** Null where a sample has none. */
  readonly startNanos: (bigint | null)[];
  readonly histograms: readonly HistogramAt[];
  readonly exemplars: readonly WireExemplar[];
  /** Of version 2; null for none. */
  readonly metadata: readonly WireMetadata[];
  /** The slot of series that are not kept, else null. */
  readonly refusedSlot: number | null;
  /** Anything but labels is there. */
  readonly hasContent: boolean;
}

/** Where it stands in the request, too. */
export interface HistogramAt {
  readonly range: Range;
  readonly histogram: WireHistogram;
}

export interface WireRequest {
  readonly series: WireSeries[];
  /** Of version 1. */
  readonly families: WireMetadata[];
}

/** Reads an uncompressed WriteRequest; null when it is malformed. */
export function parseWriteRequest(bytes: Uint8Array): WireRequest | null {
  const series: WireSeries[] = [];
  const families: WireMetadata[] = [];
  try {
    const fields = new Fields(bytes, 0, bytes.length);
    while (fields.next()) {
      if (fields.number === 3) {
        fields.expect(wireBytes);
        families.push(readFamily(bytes, fields.range()));
      } else if (fields.number !== 1) fields.skip();
      else {
        fields.expect(wireBytes);
        series.push(parseSeries(bytes, fields.range()));
      }
    }
  } catch (error) {
    if (error instanceof Malformed) return null;
    throw error;
  }
  return { series, families };
}

function parseSeries(bytes: Uint8Array, [start, end]: Range): WireSeries {
  const labels: Label[] = [];
  const timestampsMillis: bigint[] = [];
  const valueBits: bigint[] = [];
  const histograms: HistogramAt[] = [];
  const exemplars: WireExemplar[] = [];
  const fields = new Fields(bytes, start, end);
  while (fields.next()) {
    if (fields.number === 1) {
      fields.expect(wireBytes);
      labels.push(parseLabel(bytes, fields.range()));
    } else if (fields.number === 2) {
      fields.expect(wireBytes);
      const [timestamp, bits] = parseSample(bytes, fields.range(), false);
      timestampsMillis.push(timestamp);
      valueBits.push(bits);
    } else if (fields.number === 3) {
      fields.expect(wireBytes);
      exemplars.push(readExemplar(bytes, fields.range(), null));
    } else if (fields.number === 4) {
      fields.expect(wireBytes);
      const range = fields.range();
      histograms.push({ range, histogram: readHistogram(bytes, range, false) });
    } else fields.skip();
  }
  const startNanos = timestampsMillis.map(() => null);
  const tags = canonicalTags(labels);
  return {
    tags,
    timestampsMillis,
    valueBits,
    startNanos,
    histograms,
    exemplars,
    metadata: [],
    refusedSlot: tags === null ? oversizeSlot : null,
    hasContent: timestampsMillis.length + histograms.length + exemplars.length > 0,
  };
}

export function parseSample(
  bytes: Uint8Array,
  [start, end]: Range,
  hasStart: boolean,
): [timestamp: bigint, bits: bigint, startNanos: bigint | null] {
  let timestamp = 0n;
  let bits = 0n;
  let startNanos: bigint | null = null;
  const fields = new Fields(bytes, start, end);
  while (fields.next()) {
    if (fields.number === 1) {
      fields.expect(wireFixed64);
      bits = fields.fixed64();
    } else if (fields.number === 2) {
      fields.expect(wireVarint);
      timestamp = BigInt.asIntN(64, fields.varint());
    } else if (fields.number === 3 && hasStart) {
      fields.expect(wireVarint);
      startNanos = startNanosOf(BigInt.asIntN(64, fields.varint()));
    } else fields.skip();
  }
  return [timestamp, bits, startNanos];
}
