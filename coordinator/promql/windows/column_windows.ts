/** Windows over rows that have been decoded: of floats alone at once or aside, all others in turns. */
import type { FloatHistogram } from '#engine/histograms/float_histogram.ts';
import type { SeriesRows } from '#engine/histograms/windows/series_rows.ts';
import { HistogramWindows } from '#engine/histograms/windows/windows.ts';
import { absentBits } from '#engine/window_functions/row.ts';
import { tooDear, type WindowRequest } from '#engine/window_functions/windows.ts';
import { bytesOfHistogram, type Cells, setHistogram } from '../rows/cells.ts';
import type { Context } from '../rows/context.ts';
import type { WindowNotes } from './window_notes.ts';

/** Looks at rows that one row of the grid may cost at once: some milliseconds. More is done aside. */
export const rowUnitsMax = 1_000_000;

/** About how many looks at rows all windows together take. */
export function windowWork(request: WindowRequest, rowCount: number): number {
  const { stepCount, referenceStepMillis, rangeMillis } = request;
  const spanMillis = referenceStepMillis * (stepCount - 1) + rangeMillis;
  return rowCount + (stepCount * rowCount * rangeMillis) / spanMillis;
}

/** The windows of one series that is decoded. */
export interface DecodedWindows extends WindowNotes {
  /** About what a step takes, in units of work (lib/turns/turns.ts). */
  stepUnits(step: number): number;
  /** @returns null when nothing comes of it */
  step(step: number): number | FloatHistogram | null;
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

  async evaluateMixed(rows: SeriesRows, target: Cells): Promise<WindowNotes> {
    const windows = new HistogramWindows(this.#request, rows);
    const { floatMillis, floats } = rows;
    if (windows.needsFloats) {
      const done = this.evaluate(floatMillis, floats, floats.length, target);
      if (!done) await this.evaluateAside(floatMillis, floats, floats.length, target);
    } else target.bits.fill(absentBits);
    await this.#fill(target, windows, (step) => windows.step(step, target, 0));
    return windows;
  }

  async evaluateDecoded(windows: DecodedWindows, target: Cells): Promise<void> {
    target.bits.fill(absentBits);
    await this.#fill(target, windows, (step) => {
      const outcome = windows.step(step);
      if (typeof outcome !== 'number') return outcome;
      target.values[step] = outcome;
      return null;
    });
  }

  /** @param make puts the number of a step into the row, or gives its histogram */
  async #fill(
    target: Cells,
    windows: { stepUnits(step: number): number },
    make: (step: number) => FloatHistogram | null,
  ): Promise<void> {
    const { pacer } = this.#context;
    target.histograms = null;
    pacer.give(this.#heldBytes);
    this.#heldBytes = 0;
    for (let step = 0; step < this.#request.stepCount; step++) {
      const histogram = make(step);
      if (histogram !== null) {
        const bytes = bytesOfHistogram(histogram);
        this.#heldBytes += bytes;
        if (pacer.take(bytes)) await pacer.room();
        setHistogram(target, step, histogram);
      }
      if (pacer.spend(windows.stepUnits(step))) await pacer.pause();
    }
  }
}
