/** Rows of a series of floats, at the protocol's resolution: a slice of time after the other. */
import { chunkHeaders, kindsAll } from '#engine/codec/chunk.ts';
import { emptyBundle } from '#engine/codec/series_bundle.ts';
import type { Decoder } from '#engine/store/decoder.ts';
import { chunkSlices, type SliceLimits } from '#engine/store/read/chunk_slices.ts';

/** Columns hold until the next rows are asked for. */
export interface FloatRows {
  readonly rowCount: number;
  readonly millis: Float64Array;
  readonly values: Float64Array;
  /** Low and high word of each value. */
  readonly valueWords: Uint32Array;
}

interface NanosRange {
  readonly startNanos: bigint;
  readonly endNanos: bigint;
}

const nanosPerMilli = 1_000_000n;

/** Less than a millisecond's work to decode, and some to write. */
const sliceLimits: SliceLimits = { rowsMax: 16_384, bytesMax: 1 << 20 };

/**
 * @param decoder of which nobody else has rows meanwhile
 * @param chunks one after the other
 * @returns slices with rows in ascending time; of several rows within a millisecond the last stays
 * @throws {TsdbError} as `Decoder.decode`
 */
export function* floatSlices(
  decoder: Decoder,
  chunks: Uint8Array,
  range: NanosRange,
): Generator<FloatRows> {
  if (areFew(chunks)) {
    const rows = decodeMillis(decoder, chunks, range);
    if (rows.rowCount > 0) yield rows;
    return;
  }
  for (const { parts, from, to } of chunkSlices(chunks, range, nanosPerMilli, sliceLimits)) {
    const rows = decodeMillis(decoder, Buffer.concat(parts), { startNanos: from, endNanos: to });
    if (rows.rowCount > 0) yield rows;
  }
}

/** Whether they are one slice as they lie. */
function areFew(chunks: Uint8Array): boolean {
  let rows = 0;
  for (const { rowCount } of chunkHeaders(chunks, 0, chunks.length, kindsAll)) {
    rows += rowCount;
    if (rows > sliceLimits.rowsMax) return false;
  }
  return true;
}

function decodeMillis(
  decoder: Decoder,
  chunkData: Uint8Array,
  { startNanos, endNanos }: NanosRange,
): FloatRows {
  const chunkOffset = Uint32Array.of(0, chunkData.length);
  const series = { ...emptyBundle, seriesCount: 1, chunkData, chunkOffset };
  const rows = decoder.decode(series, 0, startNanos, endNanos);
  const { timestampMillis, values, valueWords } = decoder;
  let rowCount = 0;
  for (let row = 0; row < rows; row += 1) {
    if (row + 1 < rows && timestampMillis[row] === timestampMillis[row + 1]) continue;
    if (rowCount !== row) {
      timestampMillis[rowCount] = timestampMillis[row]!;
      valueWords[rowCount * 2] = valueWords[row * 2]!;
      valueWords[rowCount * 2 + 1] = valueWords[row * 2 + 1]!;
    }
    rowCount += 1;
  }
  return { rowCount, millis: timestampMillis, values, valueWords };
}
