/**
 * Answers of remote read, from the series that a select found: all samples in one message, or
 * chunks in frames that are sent as they are made.
 */
import { sortPaced } from '#lib/turns/paced.ts';
import { Decoder } from '#engine/store/decoder.ts';
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { crc32c } from '#lib/hashing/crc32c.ts';
import { decodeTags, type Tags } from '#lib/tags.ts';
import type { Work } from '#lib/turns/turns.ts';
import { labelsUnits } from '../promql/rows/paced.ts';
import type { Pacer } from '../promql/rows/pacer.ts';
import { MessageWriter, writeLabels } from './messages.ts';
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
    keyed.push({ index, tags: decodeTags(bytes), key: sortKey(bytes) });
    if (work.spend(2 * labelsUnits)) await work.pause();
  }
  return sortPaced(keyed, (a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0), work);
}

/**
 * One character a byte, names and values ended by 0: strings then compare as lists of labels do.
 */
function sortKey(canonical: Uint8Array): string {
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
function decodeMillis(
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
  const pieces: Uint8Array[] = [];
  let piece = new MessageWriter(piecesBytes);
  for (const { index, tags } of await seriesInOrder(bundle, pacer.work)) {
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
    const rows = decodeMillis(decoder, bundle, index, range);
    if (work.spend(rowUnits * rows)) await work.pause();
    const { timestampMillis, valueWords } = decoder;
    for (let row = 0; row < rows; ) {
      series.clear();
      writeLabels(series, tags);
      for (; row < rows && series.byteLength < frameBytesMax; row += xorChunkRowsMax) {
        const rowEnd = Math.min(rows, row + xorChunkRowsMax);
        chunk.clear();
        chunk.int64Field(1, timestampMillis[row]!);
        chunk.int64Field(2, timestampMillis[rowEnd - 1]!);
        chunk.int64Field(3, xorEncoding);
        chunk.bytesField(4, encodeXorChunk(timestampMillis, valueWords, row, rowEnd));
        series.bytesField(2, chunk.finish());
      }
      writeFrame(piece, series.finish(), queryIndex);
      if (piece.byteLength >= piecesBytes) {
        yield piece.finish();
        // The piece may still be on its way when the next one is made.
        piece = new MessageWriter(piecesBytes);
      }
    }
  }
  if (piece.byteLength > 0) yield piece.finish();
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
