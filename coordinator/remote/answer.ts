/**
 * Answers of remote read, from the series that a select found: all samples in one message, or
 * chunks in frames that are sent as they are made.
 */
import { sortPaced } from '#lib/turns/paced.ts';
import { Decoder } from '#engine/store/decoder.ts';
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { hasTyped } from '#engine/store/typed_chunks.ts';
import { freeWhenSent } from '#lib/env/in_flight/freed_bytes.ts';
import { crc32c } from '#lib/hashing/crc32c.ts';
import { decodeTags, type Tags } from '#lib/tags.ts';
import type { Work } from '#lib/turns/turns.ts';
import { labelsUnits } from '../promql/rows/paced.ts';
import type { Pacer } from '../promql/rows/pacer.ts';
import { histogramChunks, type TimedHistogram } from './histogram_chunk.ts';
import { HistogramMessages } from '#engine/prometheus_messages/histogram_message.ts';
import { type MixedRow, protocolSlices } from './mixed_rows.ts';
import { MessageWriter, writeLabels } from '#engine/prometheus_messages/message_writer.ts';
import { encodeXorChunk, xorChunkRowsMax } from './xor_chunk.ts';

/**
 * A series goes on in another frame when its own has grown to this. Clients refuse frames above 50
 * MB, and take two frames with one series for two series, so the limit is one that series do not
 * reach.
 */
const frameBytesMax = 16 << 20;

/** Frames are sent together until they have these bytes. */
const piecesBytes = 1 << 16;

const xorEncoding = 1;
/** What it takes to decode and write a row, in units of work. */
const rowUnits = 8;
/** The same of a histogram. */
const typedRowUnits = 2000;
/** Of a sample in a message. */
const sampleBytes = 24;

export interface ReadRange {
  /** Inclusive. */
  readonly startNanos: bigint;
  /** Exclusive. */
  readonly endNanos: bigint;
}

/** Series of a bundle in the order of their labels, which readers rely on to merge. */
export async function seriesInOrder(
  bundle: SeriesBundle,
  work: Work,
): Promise<{ index: number; tags: Tags }[]> {
  const keyed: { index: number; tags: Tags; key: string }[] = [];
  for (let index = 0; index < bundle.seriesCount; index += 1) {
    const bytes = bundle.tagsData.subarray(
      bundle.tagsOffset[index]!,
      bundle.tagsOffset[index + 1]!,
    );
    keyed.push({ index, tags: decodeTags(bytes), key: labelsSortKey(bytes) });
    if (work.spend(2 * labelsUnits)) await work.pause();
  }
  return sortPaced(keyed, (a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0), work);
}

/**
 * One character a byte, names and values ended by 0: strings then compare as lists of labels do.
 */
export function labelsSortKey(canonical: Uint8Array): string {
  const bytes = Buffer.from(canonical.buffer, canonical.byteOffset, canonical.length);
  let key = '';
  for (let at = 0; at < bytes.length; ) {
    const length = bytes[at]! | (bytes[at + 1]! << 8);
    key += `${bytes.toString('latin1', at + 2, at + 2 + length)}\0`;
    at += 2 + length;
  }
  return key;
}

/**
 * Decodes a series at the protocol's resolution: of several samples within a millisecond the last
 * stays.
 * @returns the row count
 */
export function decodeMillis(
  decoder: Decoder,
  bundle: SeriesBundle,
  index: number,
  range: ReadRange,
): number {
  const rows = decoder.decode(bundle, index, range.startNanos, range.endNanos);
  const { timestampMillis, valueWords } = decoder;
  let kept = 0;
  for (let row = 0; row < rows; row += 1) {
    if (row + 1 < rows && timestampMillis[row] === timestampMillis[row + 1]) continue;
    if (kept !== row) {
      timestampMillis[kept] = timestampMillis[row]!;
      valueWords[kept * 2] = valueWords[row * 2]!;
      valueWords[kept * 2 + 1] = valueWords[row * 2 + 1]!;
    }
    kept += 1;
  }
  return kept;
}

/**
 * What one query adds to a ReadResponse, in pieces; series without samples in the range are left out.
 * @param pacer counts the samples, which are all held until the answer is sent
 * @throws {PromqlError} over its limit
 */
export async function encodeReadResult(
  bundle: SeriesBundle,
  range: ReadRange,
  pacer: Pacer,
): Promise<readonly Uint8Array[]> {
  const decoder = new Decoder();
  const series = new MessageWriter(1 << 12);
  const sample = new MessageWriter(32);
  const histograms = new HistogramMessages();
  const pieces: Uint8Array[] = [];
  let piece = new MessageWriter(piecesBytes);
  for (const { index, tags } of await seriesInOrder(bundle, pacer.work)) {
    const chunks = chunksOf(bundle, index);
    if (hasTyped([chunks])) {
      const slices = protocolSlices(chunks, range);
      await writeMixedSeries(piece, series, histograms, tags, slices, pacer);
      if (piece.byteLength < piecesBytes) continue;
      pieces.push(piece.finish());
      piece = new MessageWriter(piecesBytes);
      continue;
    }
    const rows = decodeMillis(decoder, bundle, index, range);
    if (pacer.hold(rows, sampleBytes)) await pacer.room();
    if (pacer.spend(rowUnits * rows)) await pacer.pause();
    if (rows === 0) continue;
    series.clear();
    writeLabels(series, tags);
    for (let row = 0; row < rows; row += 1) {
      sample.clear();
      sample.doubleField(1, decoder.valueWords[row * 2]!, decoder.valueWords[row * 2 + 1]!);
      sample.int64Field(2, decoder.timestampMillis[row]!);
      series.bytesField(2, sample.finish());
    }
    piece.bytesField(1, series.finish());
    if (piece.byteLength < piecesBytes) continue;
    pieces.push(piece.finish());
    piece = new MessageWriter(piecesBytes);
  }
  pieces.push(piece.finish());
  const head = new MessageWriter(16);
  head.bytesHead(
    1,
    pieces.reduce((sum, { length }) => sum + length, 0),
  );
  return [head.finish(), ...pieces];
}

function chunksOf({ chunkData, chunkOffset }: SeriesBundle, index: number): Uint8Array {
  return chunkData.subarray(chunkOffset[index]!, chunkOffset[index + 1]!);
}

/** Without rows nothing is written. */
async function writeMixedSeries(
  piece: MessageWriter,
  series: MessageWriter,
  histograms: HistogramMessages,
  tags: Tags,
  slices: Iterable<MixedRow[]>,
  pacer: Pacer,
): Promise<void> {
  const sample = new MessageWriter(32);
  series.clear();
  writeLabels(series, tags);
  let rowCount = 0;
  for (const rows of slices) {
    rowCount += rows.length;
    const before = series.byteLength;
    for (const row of rows) {
      if ('histogram' in row) {
        series.bytesField(4, histograms.of(row.histogram, row.millis));
        continue;
      }
      sample.clear();
      sample.doubleField(1, Number(row.valueBits & 0xffff_ffffn), Number(row.valueBits >> 32n));
      sample.int64Field(2, row.millis);
      series.bytesField(2, sample.finish());
    }
    if (pacer.hold(rows.length, 0)) await pacer.room();
    if (pacer.take(series.byteLength - before)) await pacer.room();
    if (pacer.spend(typedRowUnits * rows.length)) await pacer.pause();
  }
  if (rowCount > 0) piece.bytesField(1, series.finish());
}

interface EncodedChunk {
  readonly firstMillis: number;
  readonly lastMillis: number;
  readonly encoding: number;
  readonly data: Uint8Array;
}

/** Chunks of numbers and of histograms as they follow each other. */
function* mixedChunks(rows: readonly MixedRow[]): Generator<EncodedChunk> {
  for (let first = 0, past = 0; first < rows.length; first = past) {
    const isHistogram = 'histogram' in rows[first]!;
    past = first + 1;
    while (past < rows.length && 'histogram' in rows[past]! === isHistogram) past++;
    const some = rows.slice(first, past);
    if (isHistogram) {
      for (const chunk of histogramChunks(some as TimedHistogram[])) {
        const [head, last] = [chunk.rows[0]!, chunk.rows.at(-1)!];
        const { encoding, data } = chunk;
        yield { firstMillis: head.millis, lastMillis: last.millis, encoding, data };
      }
      continue;
    }
    const times = Float64Array.from(some, ({ millis }) => millis);
    const bits = BigUint64Array.from(some, (row) => ('valueBits' in row ? row.valueBits : 0n));
    const words = new Uint32Array(bits.buffer);
    for (let row = 0; row < some.length; row += xorChunkRowsMax) {
      const rowEnd = Math.min(some.length, row + xorChunkRowsMax);
      const data = encodeXorChunk(times, words, row, rowEnd);
      const [firstMillis, lastMillis] = [times[row]!, times[rowEnd - 1]!];
      yield { firstMillis, lastMillis, encoding: xorEncoding, data };
    }
  }
}

function writeChunk(
  chunk: MessageWriter,
  { firstMillis, lastMillis, encoding, data }: EncodedChunk,
): Uint8Array {
  chunk.clear();
  chunk.int64Field(1, firstMillis);
  chunk.int64Field(2, lastMillis);
  chunk.int64Field(3, encoding);
  chunk.bytesField(4, data);
  return chunk.finish();
}

/**
 * One query of a streamed answer, in pieces of whole frames: uvarint length, CRC-32C (big-endian),
 * ChunkedReadResponse. The message could hold several series, but Prometheus reads the first one
 * only, so each series has a frame of its own.
 */
export async function* encodeChunkedFrames(
  bundle: SeriesBundle,
  range: ReadRange,
  queryIndex: number,
  work: Work,
): AsyncIterable<Uint8Array> {
  const decoder = new Decoder();
  const series = new MessageWriter(1 << 14);
  const chunk = new MessageWriter(1 << 12);
  let piece = new MessageWriter(piecesBytes);
  for (const { index, tags } of await seriesInOrder(bundle, work)) {
    const chunks = chunksOf(bundle, index);
    if (hasTyped([chunks])) {
      const frames = new MixedFrames(tags, series, chunk);
      for (const rows of protocolSlices(chunks, range)) {
        for (const frame of frames.of(rows)) writeFrame(piece, frame, queryIndex);
        if (work.spend(typedRowUnits * rows.length)) await work.pause();
        if (piece.byteLength < piecesBytes) continue;
        yield freeWhenSent(piece.finish());
        piece = new MessageWriter(piecesBytes);
      }
      const last = frames.finish();
      if (last !== null) writeFrame(piece, last, queryIndex);
      if (piece.byteLength >= piecesBytes) {
        yield freeWhenSent(piece.finish());
        piece = new MessageWriter(piecesBytes);
      }
      continue;
    }
    const rows = decodeMillis(decoder, bundle, index, range);
    if (work.spend(rowUnits * rows)) await work.pause();
    const { timestampMillis, valueWords } = decoder;
    for (let row = 0; row < rows; ) {
      series.clear();
      writeLabels(series, tags);
      for (; row < rows && series.byteLength < frameBytesMax; row += xorChunkRowsMax) {
        const rowEnd = Math.min(rows, row + xorChunkRowsMax);
        const data = encodeXorChunk(timestampMillis, valueWords, row, rowEnd);
        const [firstMillis, lastMillis] = [timestampMillis[row]!, timestampMillis[rowEnd - 1]!];
        const encoded = { firstMillis, lastMillis, encoding: xorEncoding, data };
        series.bytesField(2, writeChunk(chunk, encoded));
      }
      writeFrame(piece, series.finish(), queryIndex);
      if (piece.byteLength >= piecesBytes) {
        yield freeWhenSent(piece.finish());
        // The piece may still be on its way when the next one is made.
        piece = new MessageWriter(piecesBytes);
      }
    }
  }
  if (piece.byteLength > 0) yield freeWhenSent(piece.finish());
}

/** Frames of a series with histograms, slice by slice. */
class MixedFrames {
  readonly #tags: Tags;
  readonly #series: MessageWriter;
  readonly #chunk: MessageWriter;
  #isEmpty = true;

  constructor(tags: Tags, series: MessageWriter, chunk: MessageWriter) {
    this.#tags = tags;
    this.#series = series;
    this.#chunk = chunk;
  }

  /** Those that are full with it; each is to be taken before the next one. */
  *of(rows: readonly MixedRow[]): Generator<Uint8Array> {
    for (const encoded of mixedChunks(rows)) {
      if (this.#isEmpty) {
        this.#series.clear();
        writeLabels(this.#series, this.#tags);
      }
      this.#series.bytesField(2, writeChunk(this.#chunk, encoded));
      this.#isEmpty = this.#series.byteLength >= frameBytesMax;
      if (this.#isEmpty) yield this.#series.finish();
    }
  }

  /** What is left; null when there is nothing. */
  finish(): Uint8Array | null {
    return this.#isEmpty ? null : this.#series.finish();
  }
}

function writeFrame(piece: MessageWriter, series: Uint8Array, queryIndex: number): void {
  const message = new MessageWriter(series.length + 32);
  message.bytesField(1, series);
  if (queryIndex > 0) message.int64Field(2, queryIndex);
  const body = message.finish();
  piece.uvarint(body.length);
  piece.uint32BigEndian(crc32c(body));
  piece.raw(body);
}
