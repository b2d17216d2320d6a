/** Sums and means of native histograms by group and step, as Prometheus 3.15 has them. */
import { assert } from '#lib/assert.ts';
import { ColumnSums } from '#engine/histograms/windows/column_sums.ts';
import {
  counterHint,
  type FloatHistogram,
  reconciled,
} from '#engine/histograms/float_histogram.ts';
import { HistogramMean } from '#engine/histograms/histogram_mean.ts';
import { HistogramSum } from '#engine/histograms/histogram_sum.ts';
import { isAbsent, setAbsent } from '#engine/window_functions/row.ts';
import type { AggregatePlan } from '../plan/plan.ts';
import type { Annotations } from '../rows/annotations.ts';
import type { Pacer } from '../rows/pacer.ts';
import { bytesOfHistogram, type Cells, histogramOf, setHistogram } from '../rows/cells.ts';
import { noteCollision, noteMixedSchemas, noteReconciled } from '../windows/window_notes.ts';

/** Of a group at a step. */
interface Cell {
  readonly sum: HistogramSum | HistogramMean;
  /** Exponential and custom buckets: nothing comes of it. */
  isMixed: boolean;
  hasReset: boolean;
  hasNotReset: boolean;
}

/** What a sum keeps beside what it is, and what comes of it while both are there. */
const sumFactor = 3;
/** Of a bucket of a sum: its index, its count, and what is lost of that. */
const bucketBytes = sumFactor * 20;
/** Of a number of sums by columns. */
const numberBytes = 8;

/** What it takes to add a histogram and each bucket of the sum, in units of work (lib/turns/turns.ts), and to end a sum. */
const addUnits = 150;
const bucketUnits = 2;
const finishUnits = 500;
const finishBucketUnits = 20;

export class HistogramReducer {
  readonly #plan: AggregatePlan;
  readonly #annotations: Annotations;
  readonly #stepCount: number;
  readonly #cells = new Map<number, Cell>();
  /** Of groups, by their first cell, all of whose histograms were blocks of one form so far. */
  readonly #sums = new Map<number, ColumnSums>();
  /** First cells of groups that have others. */
  readonly #oneByOne = new Set<number>();

  constructor(plan: AggregatePlan, stepCount: number, annotations: Annotations) {
    this.#plan = plan;
    this.#stepCount = stepCount;
    this.#annotations = annotations;
  }

  /**
   * Adds what cells have to a group.
   * @param cellStart the first cell of the group
   */
  async addRow(
    cells: Cells,
    at: number,
    cellStart: number,
    metricName: string,
    pacer: Pacer,
  ): Promise<void> {
    if (cells.block !== null && this.#plan.operator === 'sum' && !this.#oneByOne.has(cellStart)) {
      assert(at === 0, 'a block is all that there is');
      const sums = this.#sums.get(cellStart) ?? new ColumnSums(cells.block, this.#stepCount);
      this.#sums.set(cellStart, sums);
      const before = sums.numberCount;
      if (sums.add(cells.block)) {
        const bytes = sumFactor * numberBytes * (sums.numberCount - before);
        if (pacer.take(bytes)) await pacer.room();
        if (pacer.spend(cells.block.numbers.length)) await pacer.pause();
        return;
      }
    }
    await this.#goOnOneByOne(cellStart, pacer);
    for (let step = 0; step < this.#stepCount; step++) {
      const histogram = histogramOf(cells, at + step);
      if (histogram === null) continue;
      const { bytes, units } = this.#add(cellStart + step, histogram, metricName);
      if (pacer.take(bytes)) await pacer.room();
      if (pacer.spend(units)) await pacer.pause();
    }
  }

  async #goOnOneByOne(cellStart: number, pacer: Pacer): Promise<void> {
    this.#oneByOne.add(cellStart);
    const sums = this.#sums.get(cellStart);
    if (sums === undefined) return;
    this.#sums.delete(cellStart);
    for (let step = 0; step < this.#stepCount; step++) {
      const sum = sums.sumAt(step);
      if (sum === null) continue;
      // What was added so far was gauges.
      const cell = { sum, isMixed: false, hasReset: false, hasNotReset: false };
      this.#cells.set(cellStart + step, cell);
      if (pacer.spend(addUnits + bucketUnits * sum.bucketCount)) await pacer.pause();
    }
  }

  /** @returns bytes that are held for it from now on, and about what it took */
  #add(
    cell: number,
    histogram: FloatHistogram,
    metricName: string,
  ): { readonly bytes: number; readonly units: number } {
    const { operator, input } = this.#plan;
    const known = this.#cells.get(cell);
    if (known === undefined) {
      const sum = operator === 'avg' ? new HistogramMean(histogram) : new HistogramSum(histogram);
      const first = { sum, isMixed: false, hasReset: false, hasNotReset: false };
      noteHint(first, histogram);
      this.#cells.set(cell, first);
      const units = addUnits + bucketUnits * sum.bucketCount;
      return { bytes: sumFactor * bytesOfHistogram(histogram), units };
    }
    if (known.isMixed) return { bytes: 0, units: addUnits };
    noteHint(known, histogram);
    if (!known.sum.isLike(histogram)) {
      noteMixedSchemas(metricName, input.span, this.#annotations);
      known.isMixed = true;
      return { bytes: 0, units: addUnits };
    }
    const before = known.sum.bucketCount;
    if ((known.sum.add(histogram) & reconciled.bounds) !== 0) {
      noteReconciled('aggregation', input.span, this.#annotations);
    }
    const { bucketCount } = known.sum;
    const bytes = bucketBytes * Math.max(0, bucketCount - before);
    return { bytes, units: addUnits + bucketUnits * bucketCount };
  }

  /** @param target has what the numbers have come to */
  async finish(target: Cells, pacer: Pacer): Promise<void> {
    const { span } = this.#plan.input;
    for (const cellStart of this.#sums.keys()) await this.#goOnOneByOne(cellStart, pacer);
    for (const [cell, { sum, isMixed, hasReset, hasNotReset }] of this.#cells) {
      // What comes of it takes its place.
      this.#cells.delete(cell);
      if (!isAbsent(target.words, cell)) {
        this.#annotations.warn('encountered a mix of histograms and floats for aggregation', span);
        setAbsent(target.words, cell);
        continue;
      }
      if (isMixed) continue;
      if (hasReset && hasNotReset) noteCollision('aggregation', span, this.#annotations);
      setHistogram(target, cell, sum.result().compact());
      if (pacer.spend(finishUnits + finishBucketUnits * sum.bucketCount)) await pacer.pause();
    }
  }
}

function noteHint(cell: Cell, { hint }: FloatHistogram): void {
  if (hint === counterHint.reset) cell.hasReset = true;
  else if (hint === counterHint.notReset) cell.hasNotReset = true;
}
