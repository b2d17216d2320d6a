/** Series with their points, as bodies of JSON and others have them, as rows by what is written at once. */
import type { WriteDecoder, WriteDecoderRows } from '#engine/write_decoder/write_decoder.ts';
import { rowsAtOnce, tagBytesAtOnce } from './writing/parts.ts';

export interface Point {
  /** Whole, within 64 bits of nanoseconds. */
  readonly seconds: number;
  /** On top of them, below a second. */
  readonly nanos: number;
  readonly value: number;
}

export interface PointSeries {
  /** Canonical, and checked. */
  readonly tags: Uint8Array;
  /** One at least. */
  readonly points: readonly Point[];
}

/** What a body has. */
export interface PointBody {
  readonly series: readonly PointSeries[];
  /** Of points that were left out, one each. */
  readonly problems: readonly string[];
}

/** Rows of all series in their order, a part when it is asked for. */
export class PointRows {
  readonly #decoder: WriteDecoder;
  readonly #series: readonly PointSeries[];
  #place = 0;
  #point = 0;

  constructor(decoder: WriteDecoder, series: readonly PointSeries[]) {
    this.#decoder = decoder;
    this.#series = series;
  }

  /**
   * Rows that hold until the decoder reads something else; null at the end.
   * @throws {TsdbError} RESOURCE_EXHAUSTED when there is no room for series
   */
  next(): WriteDecoderRows | null {
    const decoder = this.#decoder;
    let rowCount = 0;
    let tagBytes = 0;
    decoder.beginRows();
    try {
      while (this.#place < this.#series.length) {
        const { tags, points } = this.#series[this.#place]!;
        const slot = decoder.slotOf(tags);
        tagBytes += tags.length;
        const end = Math.min(points.length, this.#point + rowsAtOnce - rowCount);
        rowCount += end - this.#point;
        for (; this.#point < end; this.#point++) {
          const { seconds, nanos, value } = points[this.#point]!;
          decoder.addSampleAt(slot, seconds, nanos, value);
        }
        if (this.#point < points.length) break;
        this.#place += 1;
        this.#point = 0;
        if (rowCount >= rowsAtOnce || tagBytes >= tagBytesAtOnce) break;
      }
    } catch (error) {
      decoder.dropRows();
      throw error;
    }
    if (rowCount > 0) return decoder.endRowsInNanos();
    decoder.dropRows();
    return null;
  }
}
