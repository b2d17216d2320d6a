/** Windows over rows that have been decoded: of floats alone at once or aside, all others in turns. */
import type { FloatHistogram } from '#engine/histograms/float_histogram.ts';
import type { HistogramBlock } from '#engine/histograms/windows/histogram_block.ts';
import type { SeriesRows } from '#engine/histograms/windows/series_rows.ts';
import { HistogramWindows } from '#engine/histograms/windows/windows.ts';
import { absentBits } from '#engine/window_functions/row.ts';
import { tooDear, type WindowRequest } from '#engine/window_functions/windows.ts';
import { bytesOfBlock, bytesOfHistogram, type Cells, setHistogram } from '../rows/cells.ts';
import type { Context } from '../rows/context.ts';
import type { WindowNotes } from './window_notes.ts';

/** Looks at rows that one row of the grid may cost at once: some milliseconds. More is done aside. */
export const rowUnitsMax = 1_000_000;

/** About how many looks at rows all windows together take. */
export function windowWork(request: WindowRequest, rowCount: number): number {
  const { stepCount, referenceStepMillis, rangeMillis } = request;
  // What came to less than a millisecond has no rows.
  if (rangeMillis === 0) return rowCount;
  const spanMillis = referenceStepMillis * (stepCount - 1) + rangeMillis;
  return rowCount + (stepCount * rowCount * rangeMillis) / spanMillis;
}

/** About what a number of a block takes, in units of work (lib/turns/turns.ts). */
const numberUnits = 1;

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
  #room = new Float64Array(0);

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
    const block = windows.block((length) => this.#roomOf(length));
    if (block !== null) {
      await this.#put(block, target);
      return windows;
    }
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

  async #put(block: HistogramBlock, target: Cells): Promise<void> {
    const { pacer } = this.#context;
    target.putBlock(block);
    pacer.give(this.#heldBytes);
    this.#heldBytes = bytesOfBlock(block);
    if (pacer.take(this.#heldBytes)) await pacer.room();
    if (pacer.spend(numberUnits * block.numbers.length)) await pacer.pause();
  }

  /** For the numbers of the block that is made next, in the place of the one before. */
  #roomOf(length: number): Float64Array {
    if (this.#room.length < length) this.#room = new Float64Array(length);
    return this.#room.subarray(0, length);
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
