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

/** One time series of a request. */
export interface WireSeries {
  /**
   * Canonical layout; null when there are more than `tagsCountMax` tags or `tagsBytesMax` bytes.
   */
  readonly tags: Uint8Array | null;
  readonly timestampsMillis: bigint[];
  readonly valueBits: bigint[];
}

export interface WireRequest {
  readonly series: WireSeries[];
  /** Native histograms that were passed over. */
  readonly histogramCount: number;
}

export const wireVarint = 0;
const wireFixed64 = 1;
export const wireBytes = 2;
const wireFixed32 = 5;
const fieldNumberMax = 2 ** 29 - 1;

export class Malformed extends Error {}

/** Reads fields between two offsets. */
export class Fields {
  readonly #bytes: Uint8Array;
  #at: number;
  readonly #end: number;
  number: number = 0;
  wireType: number = 0;

  constructor(bytes: Uint8Array, start: number, end: number) {
    this.#bytes = bytes;
    this.#at = start;
    this.#end = end;
  }

  /** All bytes were read. */
  get isAtEnd(): boolean {
    return this.#at === this.#end;
  }

  /** Moves to the next field; false at the end. */
  next(): boolean {
    if (this.#at === this.#end) return false;
    const key = this.varint();
    if (key > 0xffff_ffffn) throw new Malformed('field key');
    this.number = Number(key >> 3n);
    this.wireType = Number(key & 7n);
    if (this.number === 0 || this.number > fieldNumberMax) throw new Malformed('field number');
    return true;
  }

  expect(wireType: number): void {
    if (this.wireType !== wireType) throw new Malformed('wire type');
  }

  /** The low 64 bits of at most ten bytes. */
  varint(): bigint {
    let value = 0n;
    for (let i = 0n; i < 10n; i++) {
      if (this.#at === this.#end) throw new Malformed('cut off');
      const byte = this.#bytes[this.#at++]!;
      value |= BigInt(byte & 127) << (7n * i);
      if (byte < 128) return BigInt.asUintN(64, value);
    }
    throw new Malformed('varint');
  }

  #take(length: number): number {
    if (length > this.#end - this.#at) throw new Malformed('cut off');
    this.#at += length;
    return this.#at - length;
  }

  /** Start and end of a field of bytes. */
  range(): [start: number, end: number] {
    const length = this.varint();
    if (length > 0xffff_ffffn) throw new Malformed('length');
    const start = this.#take(Number(length));
    return [start, this.#at];
  }

  fixed64(): bigint {
    const at = this.#take(8);
    return new DataView(this.#bytes.buffer, this.#bytes.byteOffset + at, 8).getBigUint64(0, true);
  }

  skip(): void {
    if (this.wireType === wireVarint) this.varint();
    else if (this.wireType === wireFixed64) this.#take(8);
    else if (this.wireType === wireBytes) this.range();
    else if (this.wireType === wireFixed32) this.#take(4);
    else throw new Malformed('group');
  }
}

/** Reads an uncompressed WriteRequest; null when it is malformed. */
export function parseWriteRequest(bytes: Uint8Array): WireRequest | null {
  const series: WireSeries[] = [];
  const counts = { histograms: 0 };
  try {
    const fields = new Fields(bytes, 0, bytes.length);
    while (fields.next()) {
      if (fields.number !== 1) fields.skip();
      else {
        fields.expect(wireBytes);
        series.push(parseSeries(bytes, fields.range(), counts));
      }
    }
  } catch (error) {
    if (error instanceof Malformed) return null;
    throw error;
  }
  return { series, histogramCount: counts.histograms };
}

export type Range = readonly [start: number, end: number];

function parseSeries(
  bytes: Uint8Array,
  [start, end]: Range,
  counts: { histograms: number },
): WireSeries {
  const labels: Label[] = [];
  const timestampsMillis: bigint[] = [];
  const valueBits: bigint[] = [];
  const fields = new Fields(bytes, start, end);
  while (fields.next()) {
    if (fields.number === 1) {
      fields.expect(wireBytes);
      labels.push(parseLabel(bytes, fields.range()));
    } else if (fields.number === 2) {
      fields.expect(wireBytes);
      const [timestamp, bits] = parseSample(bytes, fields.range());
      timestampsMillis.push(timestamp);
      valueBits.push(bits);
    } else {
      if (fields.number === 4) counts.histograms++;
      fields.skip();
    }
  }
  return { tags: canonicalTags(labels), timestampsMillis, valueBits };
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
): [timestamp: bigint, bits: bigint] {
  let timestamp = 0n;
  let bits = 0n;
  const fields = new Fields(bytes, start, end);
  while (fields.next()) {
    if (fields.number === 1) {
      fields.expect(wireFixed64);
      bits = fields.fixed64();
    } else if (fields.number === 2) {
      fields.expect(wireVarint);
      timestamp = BigInt.asIntN(64, fields.varint());
    } else fields.skip();
  }
  return [timestamp, bits];
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
