/**
 * Prometheus remote write 1.0 (lib/proto/remote.proto): the plain twin of the walk in
 * engine/write_decoder/kernel/write_decoder.kernel.ts.
 *
 * The walk is tolerant where protobuf is: fields in any order, the last one of a kind wins, unknown
 * ones are passed over, varints need not be short. It refuses what cannot be read: cut-off fields,
 * field number 0, a known field of another wire type, groups.
 */
import { tagsBytesMax } from '#lib/tags.ts';
import { tagsCountMax } from './core.ts';
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
}

/** Where it stands in the request, too. */
export interface HistogramAt {
  readonly range: Range;
  readonly histogram: WireHistogram;
}

export interface WireRequest {
  readonly series: WireSeries[];
}

/** Reads an uncompressed WriteRequest; null when it is malformed. */
export function parseWriteRequest(bytes: Uint8Array): WireRequest | null {
  const series: WireSeries[] = [];
  try {
    const fields = new Fields(bytes, 0, bytes.length);
    while (fields.next()) {
      if (fields.number !== 1) fields.skip();
      else {
        fields.expect(wireBytes);
        series.push(parseSeries(bytes, fields.range()));
      }
    }
  } catch (error) {
    if (error instanceof Malformed) return null;
    throw error;
  }
  return { series };
}

function parseSeries(bytes: Uint8Array, [start, end]: Range): WireSeries {
  const labels: Label[] = [];
  const timestampsMillis: bigint[] = [];
  const valueBits: bigint[] = [];
  const histograms: HistogramAt[] = [];
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
    } else if (fields.number === 4) {
      fields.expect(wireBytes);
      const range = fields.range();
      histograms.push({ range, histogram: readHistogram(bytes, range, false) });
    } else fields.skip();
  }
  const startNanos = timestampsMillis.map(() => null);
  return { tags: canonicalTags(labels), timestampsMillis, valueBits, startNanos, histograms };
}

export interface Label {
  name: Uint8Array;
  value: Uint8Array;
}

function parseLabel(bytes: Uint8Array, [start, end]: Range): Label {
  const label: Label = { name: new Uint8Array(0), value: new Uint8Array(0) };
  const fields = new Fields(bytes, start, end);
  while (fields.next()) {
    if (fields.number > 2) {
      fields.skip();
      continue;
    }
    fields.expect(wireBytes);
    const text = bytes.subarray(...fields.range());
    if (fields.number === 1) label.name = text;
    else label.value = text;
  }
  return label;
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

/**
 * Sorted by name, then by value, so that a name that appears twice is the same series in any order.
 */
export function canonicalTags(labels: Label[]): Uint8Array | null {
  if (labels.length > tagsCountMax) return null;
  let size = 0;
  for (const { name, value } of labels) size += 4 + name.length + value.length;
  if (size > tagsBytesMax) return null;
  labels.sort((a, b) => Buffer.compare(a.name, b.name) || Buffer.compare(a.value, b.value));
  const tags = new Uint8Array(size);
  let at = 0;
  for (const { name, value } of labels) {
    for (const text of [name, value]) {
      tags[at] = text.length & 255;
      tags[at + 1] = text.length >> 8;
      tags.set(text, at + 2);
      at += 2 + text.length;
    }
  }
  return tags;
}
