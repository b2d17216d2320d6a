/** Rows of the series that a select found, series by series in the order of their labels, at the resolution of milliseconds. */
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { Decoder } from '#engine/store/decoder.ts';
import { hasTyped } from '#engine/store/typed_chunks.ts';
import type { Tags } from '#lib/tags.ts';
import { labelsBytesOf } from '../promql/rows/labels.ts';
import type { Pacer } from '../promql/rows/pacer.ts';
import { type ReadRange, seriesInOrder } from '../remote/answer.ts';
import { type FloatRows, floatSlices } from '../remote/float_rows.ts';
import { protocolSlices } from '../remote/mixed_rows.ts';

/** Text that is handed to the connection at once, about. */
export const pieceCharacters: number = 64 << 10;
/** Most rows at once: what is made of them is some 100 KiB of text. */
const rowsAtOnce = 4096;
/** What it takes to decode a row and write it as text, in units of work. */
const rowUnits = 50;
/** The same of a row of a series that has histograms. */
const typedRowUnits = 2000;
/** Of a series. */
const seriesUnits = 400;

/** Columns hold until the next rows are asked for. */
export interface ExportRows extends FloatRows {
  readonly tags: Tags;
  /** The first rows of the series in the range. */
  readonly isFirst: boolean;
}

/** What was exported so far. */
export interface ExportCounts {
  series: number;
  samples: number;
  /** Native histograms: the formats have no place for them, and they are left out. */
  histogramsLeftOut: number;
}

/**
 * Of several rows of a series within a millisecond the last stays.
 * @param counts is kept up to date
 */
export async function* exportRows(
  bundle: SeriesBundle,
  range: ReadRange,
  counts: ExportCounts,
  pacer: Pacer,
): AsyncGenerator<ExportRows> {
  if (pacer.take(2 * labelsBytesOf(bundle.seriesCount, bundle.tagsData.length))) await pacer.room();
  using decoder = new Decoder();
  for (const { index, tags } of await seriesInOrder(bundle, pacer.work)) {
    const { chunkData, chunkOffset } = bundle;
    const chunks = chunkData.subarray(chunkOffset[index]!, chunkOffset[index + 1]!);
    let isFirst = true;
    const note = (rowCount: number): void => {
      counts.samples += rowCount;
      if (isFirst) counts.series += 1;
      isFirst = false;
    };
    if (pacer.spend(seriesUnits)) await pacer.pause();
    if (hasTyped([chunks])) {
      for (const rows of protocolSlices(chunks, range)) {
        const floats = rows.flatMap((row) => ('valueBits' in row ? [row] : []));
        counts.histogramsLeftOut += rows.length - floats.length;
        if (pacer.spend(typedRowUnits * rows.length)) await pacer.pause();
        if (floats.length === 0) continue;
        const { buffer } = BigUint64Array.from(floats, ({ valueBits }) => valueBits);
        const millis = Float64Array.from(floats, (row) => row.millis);
        const [values, valueWords] = [new Float64Array(buffer), new Uint32Array(buffer)];
        yield { tags, isFirst, rowCount: floats.length, millis, values, valueWords };
        note(floats.length);
      }
      continue;
    }
    for (const { rowCount: rows, ...columns } of floatSlices(decoder, chunks, range)) {
      for (let first = 0; first < rows; first += rowsAtOnce) {
        const rowCount = Math.min(rowsAtOnce, rows - first);
        const past = first + rowCount;
        yield {
          tags,
          isFirst,
          rowCount,
          millis: columns.millis.subarray(first, past),
          values: columns.values.subarray(first, past),
          valueWords: columns.valueWords.subarray(2 * first, 2 * past),
        };
        note(rowCount);
        if (pacer.spend(rowUnits * rowCount)) await pacer.pause();
      }
    }
  }
}
