/** Sums and means of native histograms by group and step, as Prometheus 3.15 has them. */
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
import { bytesOfHistogram, type Cells, setHistogram } from '../rows/cells.ts';
import { noteCollision, noteMixedSchemas, noteReconciled } from '../windows/window_notes.ts';

/** Of a group at a step. */
interface Cell {
  readonly sum: HistogramSum | HistogramMean;
  /** Exponential and custom buckets: nothing comes of it. */
  isMixed: boolean;
  hasReset: boolean;
  hasNotReset: boolean;
}

/** A sum keeps what is lost beside each bucket. */
const sumFactor = 2;

export class HistogramReducer {
  readonly #plan: AggregatePlan;
  readonly #annotations: Annotations;
  readonly #cells = new Map<number, Cell>();

  constructor(plan: AggregatePlan, annotations: Annotations) {
    this.#plan = plan;
    this.#annotations = annotations;
  }

  /** @returns bytes that are held for it from now on */
  add(cell: number, histogram: FloatHistogram, metricName: string): number {
    const { operator, input } = this.#plan;
    const known = this.#cells.get(cell);
    if (known === undefined) {
      const sum = operator === 'avg' ? new HistogramMean(histogram) : new HistogramSum(histogram);
      const first = { sum, isMixed: false, hasReset: false, hasNotReset: false };
      noteHint(first, histogram);
      this.#cells.set(cell, first);
      return sumFactor * bytesOfHistogram(histogram);
    }
    if (known.isMixed) return 0;
    noteHint(known, histogram);
    if (!known.sum.isLike(histogram)) {
      noteMixedSchemas(metricName, input.span, this.#annotations);
      known.isMixed = true;
      return 0;
    }
    if ((known.sum.add(histogram) & reconciled.bounds) !== 0) {
      noteReconciled('aggregation', input.span, this.#annotations);
    }
    return 0;
  }

  /** @param target has what the numbers have come to */
  finish(target: Cells): void {
    const { span } = this.#plan.input;
    for (const [cell, { sum, isMixed, hasReset, hasNotReset }] of this.#cells) {
      if (!isAbsent(target.words, cell)) {
        this.#annotations.warn('encountered a mix of histograms and floats for aggregation', span);
        setAbsent(target.words, cell);
        continue;
      }
      if (isMixed) continue;
      if (hasReset && hasNotReset) noteCollision('aggregation', span, this.#annotations);
      setHistogram(target, cell, sum.result().compact());
    }
  }
}

function noteHint(cell: Cell, { hint }: FloatHistogram): void {
  if (hint === counterHint.reset) cell.hasReset = true;
  else if (hint === counterHint.notReset) cell.hasNotReset = true;
}
