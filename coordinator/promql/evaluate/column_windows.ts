/** Windows over rows that have been decoded: of floats alone at once or aside, with histograms among them in turns. */
import { SeriesReading, type SeriesRows } from '#engine/histograms/series_rows.ts';
import { HistogramWindows } from '#engine/histograms/windows.ts';
import { absentBits } from '#engine/window_functions/row.ts';
import { tooDear, type WindowRequest } from '#engine/window_functions/windows.ts';
import { bytesOfHistogram, type Cells, setHistogram } from '../rows/cells.ts';
import type { Context } from '../rows/context.ts';
import type { Pacer } from '../rows/pacer.ts';

/** Looks at rows that one row of the grid may cost at once: some milliseconds. More is done aside. */
export const rowUnitsMax = 1_000_000;

/** About what it takes to decode a histogram, in units of work (lib/turns/turns.ts). */
export const histogramUnits = 800;
/** While it is decoded and looked at, about. */
const histogramRowBytes = 640;

/** About how many looks at rows all windows together take. */
export function windowWork(request: WindowRequest, rowCount: number): number {
  const { stepCount, referenceStepMillis, rangeMillis } = request;
  const spanMillis = referenceStepMillis * (stepCount - 1) + rangeMillis;
  return rowCount + (stepCount * rowCount * rangeMillis) / spanMillis;
}

/** Rows of the grid, one at a time, in the cells of who asks. */
export class ColumnWindows {
  readonly #request: WindowRequest;
  readonly #context: Context;
  /** Of the histograms of the row that was made last. */
  #heldBytes = 0;

  constructor(request: WindowRequest, context: Context) {
    this.#request = request;
    this.#context = context;
  }

  /** Of floats alone. @returns whether it was done: else it takes too long */
  evaluate(times: Float64Array, values: Float64Array, count: number, target: Cells): boolean {
    const { windows, pacer } = this.#context;
    target.histograms = null;
    const done = windows.evaluateColumns(
      this.#request,
      times,
      values,
      count,
      target,
      0,
      rowUnitsMax,
    );
    if (done === tooDear) return false;
    pacer.note(Math.min(windowWork(this.#request, count), rowUnitsMax));
    return true;
  }

  async evaluateAside(
    timestampMillis: Float64Array,
    values: Float64Array,
    rowCount: number,
    target: Cells,
  ): Promise<void> {
    const { aside, pacer } = this.#context;
    const columns = { timestampMillis, values, rowCount };
    const job = { kind: 'columnsRow', request: this.#request, ...columns } as const;
    const { bits } = await pacer.work.outside(aside.run(job, pacer.work));
    target.histograms = null;
    target.bits.set(bits);
  }

  /** @returns bits of `windowNote` */
  async evaluateMixed(rows: SeriesRows, target: Cells): Promise<number> {
    const { pacer } = this.#context;
    const windows = new HistogramWindows(this.#request, rows);
    const { floatMillis, floats } = rows;
    if (windows.needsFloats) {
      const done = this.evaluate(floatMillis, floats, floats.length, target);
      if (!done) await this.evaluateAside(floatMillis, floats, floats.length, target);
    } else target.bits.fill(absentBits);
    target.histograms = null;
    pacer.give(this.#heldBytes);
    this.#heldBytes = 0;
    for (let step = 0; step < this.#request.stepCount; step++) {
      const histogram = windows.step(step, target, 0);
      if (histogram !== null) {
        const bytes = bytesOfHistogram(histogram);
        this.#heldBytes += bytes;
        if (pacer.take(bytes)) await pacer.room();
        setHistogram(target, step, histogram);
      }
      if (pacer.spend(windows.stepUnits(step))) await pacer.pause();
    }
    return windows.notes;
  }
}

/** The rows of a series that has typed rows. */
export async function readSeriesRows(
  chunks: Uint8Array,
  range: readonly [startNanos: bigint, endNanos: bigint],
  pacer: Pacer,
): Promise<SeriesRows> {
  const reading = new SeriesReading(chunks, range);
  let bytes = 0;
  for (let count = reading.next(); count >= 0; count = reading.next()) {
    bytes += histogramRowBytes * count;
    if (pacer.take(histogramRowBytes * count)) await pacer.room();
    if (pacer.spend(histogramUnits * count)) await pacer.pause();
  }
  const rows = reading.rows();
  // They are looked at while one row of the grid is made, and gone then.
  pacer.give(bytes);
  return rows;
}
