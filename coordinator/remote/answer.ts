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
import { type FloatRows, floatSlices } from './float_rows.ts';
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
/** Memory of a series that is larger than this is not kept for the next one. */
const keptBytesMax = 1 << 20;
/** Of a frame, for its checksum: about a millisecond's work. */
const checkedBytes = 1 << 20;
/** What it takes to check and copy so many bytes, in units of work. */
const bytesOfUnit = 4;
/** What is written of a series is joined to a piece, for which both are there. */
const joiningFactor = 2;

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
 * What one query adds to a ReadResponse, in pieces; series without samples in the range are left out.
 * @param pacer counts the samples, which are all held until the answer is sent
 * @throws {PromqlError} over its limit
 */
export async function encodeReadResult(
  bundle: SeriesBundle,
  range: ReadRange,
  pacer: Pacer,
): Promise<readonly Uint8Array[]> {
  using decoder = new Decoder();
  let series = new MessageWriter(1 << 12);
  const histograms = new HistogramMessages();
  const pieces: Uint8Array[] = [];
  let piece = new MessageWriter(piecesBytes);
  for (const { index, tags } of await seriesInOrder(bundle, pacer.work)) {
    const chunks = chunksOf(bundle, index);
    series.clear();
    writeLabels(series, tags);
    const labelsBytes = series.byteLength;
    if (hasTyped([chunks])) {
      await writeMixedRows(series, histograms, protocolSlices(chunks, range), pacer);
    } else await writeFloatRows(series, floatSlices(decoder, chunks, range), pacer);
    const rowsBytes = series.byteLength - labelsBytes;
    if (rowsBytes > 0) piece.bytesField(1, series.finish());
    pacer.give(rowsBytes);
    if (series.byteLength > keptBytesMax) series = new MessageWriter(1 << 12);
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

/** @param series its bytes are taken of the pacer's memory, and once more for the piece that they come into */
async function writeFloatRows(
  series: MessageWriter,
  slices: Iterable<FloatRows>,
  pacer: Pacer,
): Promise<void> {
  const sample = new MessageWriter(32);
  for (const { rowCount, millis, valueWords } of slices) {
    const expectedBytes = joiningFactor * sampleBytes * rowCount;
    if (pacer.hold(rowCount, joiningFactor * sampleBytes)) await pacer.room();
    const before = series.byteLength;
    for (let row = 0; row < rowCount; row += 1) {
      sample.clear();
      sample.doubleField(1, valueWords[row * 2]!, valueWords[row * 2 + 1]!);
      sample.int64Field(2, millis[row]!);
      series.bytesField(2, sample.finish());
    }
    pacer.give(expectedBytes - joiningFactor * (series.byteLength - before));
    if (pacer.spend(rowUnits * rowCount)) await pacer.pause();
  }
}

/** @param series as of `writeFloatRows` */
async function writeMixedRows(
  series: MessageWriter,
  histograms: HistogramMessages,
  slices: Iterable<MixedRow[]>,
  pacer: Pacer,
): Promise<void> {
  const sample = new MessageWriter(32);
  for (const rows of slices) {
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
    if (pacer.take(joiningFactor * (series.byteLength - before))) await pacer.room();
    if (pacer.spend(typedRowUnits * rows.length)) await pacer.pause();
  }
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

/** What comes of a slice of a series. */
interface EncodedSlice {
  readonly chunks: Iterable<EncodedChunk>;
  /** What it takes to make them, in units of work. */
  readonly units: number;
}

function* slicesOfMixed(slices: Iterable<readonly MixedRow[]>): Generator<EncodedSlice> {
  for (const rows of slices) {
    yield { chunks: mixedChunks(rows), units: typedRowUnits * rows.length };
  }
}

function* slicesOfFloats(slices: Iterable<FloatRows>): Generator<EncodedSlice> {
  for (const rows of slices) {
    yield { chunks: floatChunks(rows), units: rowUnits * rows.rowCount };
  }
}

function* floatChunks({ rowCount, millis, valueWords }: FloatRows): Generator<EncodedChunk> {
  for (let row = 0; row < rowCount; row += xorChunkRowsMax) {
    const rowEnd = Math.min(rowCount, row + xorChunkRowsMax);
    const data = encodeXorChunk(millis, valueWords, row, rowEnd);
    const [firstMillis, lastMillis] = [millis[row]!, millis[rowEnd - 1]!];
    yield { firstMillis, lastMillis, encoding: xorEncoding, data };
  }
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
  pacer: Pacer,
): AsyncIterable<Uint8Array> {
  using decoder = new Decoder();
  const frames = new Frames(queryIndex, pacer);
  for (const { index, tags } of await seriesInOrder(bundle, pacer.work)) {
    const chunks = chunksOf(bundle, index);
    const slices = hasTyped([chunks])
      ? slicesOfMixed(protocolSlices(chunks, range))
      : slicesOfFloats(floatSlices(decoder, chunks, range));
    for (const slice of slices) {
      for (const encoded of slice.chunks) if (frames.add(tags, encoded)) await frames.close();
      await frames.takeMemory();
      if (pacer.spend(slice.units)) await pacer.pause();
      if (frames.isPieceFull) yield* frames.piece();
    }
    await frames.close();
    if (frames.isPieceFull) yield* frames.piece();
  }
  yield* frames.piece();
}

/** The frame that is being made, and those before it that are to be sent. */
class Frames {
  readonly #queryIndex: number;
  readonly #pacer: Pacer;
  readonly #chunk = new MessageWriter(1 << 12);
  /** Of the open frame. */
  #series = new MessageWriter(1 << 14);
  #isOpen = false;
  #piece = new MessageWriter(piecesBytes);
  /** Taken of the memory. */
  #heldBytes = 0;

  constructor(queryIndex: number, pacer: Pacer) {
    this.#queryIndex = queryIndex;
    this.#pacer = pacer;
  }

  /** @returns whether the frame is full, and to be closed */
  add(tags: Tags, encoded: EncodedChunk): boolean {
    if (!this.#isOpen) {
      this.#series.clear();
      writeLabels(this.#series, tags);
      this.#isOpen = true;
    }
    this.#series.bytesField(2, writeChunk(this.#chunk, encoded));
    return this.#series.byteLength >= frameBytesMax;
  }

  /** Puts the open frame into the piece, if there is one. */
  async close(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    const series = this.#series.finish();
    const [head, tail] = [new MessageWriter(16), new MessageWriter(16)];
    head.bytesHead(1, series.length);
    if (this.#queryIndex > 0) tail.int64Field(2, this.#queryIndex);
    let checksum = crc32c(head.finish());
    for (let at = 0; at < series.length; at += checkedBytes) {
      const end = Math.min(series.length, at + checkedBytes);
      checksum = crc32c(series, checksum, at, end);
      if (this.#pacer.spend((end - at) / bytesOfUnit)) await this.#pacer.pause();
    }
    this.#piece.uvarint(head.byteLength + series.length + tail.byteLength);
    this.#piece.uint32BigEndian(crc32c(tail.finish(), checksum));
    this.#piece.raw(head.finish());
    this.#piece.raw(series);
    this.#piece.raw(tail.finish());
    if (series.length > keptBytesMax) this.#series = new MessageWriter(1 << 14);
  }

  get isPieceFull(): boolean {
    return this.#piece.byteLength >= piecesBytes;
  }

  /** The open frame is there once more when it has come to a piece. */
  get #openBytes(): number {
    return this.#isOpen ? joiningFactor * this.#series.byteLength : 0;
  }

  /** Of what was added. */
  async takeMemory(): Promise<void> {
    const moreBytes = this.#openBytes + this.#piece.byteLength - this.#heldBytes;
    if (moreBytes <= 0) return;
    this.#heldBytes += moreBytes;
    if (this.#pacer.take(moreBytes)) await this.#pacer.room();
  }

  /** Yields the closed frames, and gives their memory back when they were taken. */
  *piece(): Generator<Uint8Array> {
    if (this.#piece.byteLength === 0) return;
    yield freeWhenSent(this.#piece.finish());
    // It may still be on its way when the next one is made.
    this.#piece = new MessageWriter(piecesBytes);
    const openBytes = this.#openBytes;
    this.#pacer.give(this.#heldBytes - openBytes);
    this.#heldBytes = openBytes;
  }
}
