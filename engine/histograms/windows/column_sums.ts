/**
 * Sums of blocks of one form, step by step: what adding their histograms one by one to a `HistogramSum` for each step comes
 * to, to the last bit, without an object for any of them.
 */
import { joinedLayouts, type SummedBuckets } from '../buckets.ts';
import { counterHint, FloatHistogram } from '../float_histogram.ts';
import { HistogramSum, type SummedNumber } from '../histogram_sum.ts';
import type { HistogramBlock } from './histogram_block.ts';
import { hasSameForm, type HistogramForm, matrixColumn } from './histogram_rows.ts';

/** Of each step what has been counted, and what that has lost by rounding. */
interface SummedColumn {
  readonly sums: Float64Array;
  readonly lost: Float64Array;
}

export class ColumnSums {
  readonly #form: HistogramForm;
  readonly #stepCount: number;
  readonly #isSeen: Uint8Array;
  /** Those of `matrixColumn` that are no buckets. */
  readonly #counts: readonly SummedColumn[];
  #positive: SummedSide = { indexes: new Int32Array(0), columns: [] };
  #negative: SummedSide = { indexes: new Int32Array(0), columns: [] };

  constructor({ schema, zeroThreshold, customBounds }: HistogramForm, stepCount: number) {
    this.#form = { schema, zeroThreshold, customBounds };
    this.#stepCount = stepCount;
    this.#isSeen = new Uint8Array(stepCount);
    // What is added to -0 is the sum, with its sign.
    this.#counts = [0, 1, 2].map(() => columnOf(stepCount, -0));
  }

  /** How many numbers are kept. */
  get numberCount(): number {
    const columns = this.#counts.length + this.#positive.columns.length;
    return 2 * this.#stepCount * (columns + this.#negative.columns.length);
  }

  /** @returns false, with nothing added, when it is of another form */
  add(block: HistogramBlock): boolean {
    if (!hasSameForm(this.#form, block)) return false;
    const { steps, positive, negative, numbers } = block;
    for (let i = 0; i < steps.length; i++) this.#isSeen[steps[i]!] = 1;
    for (const [i, column] of this.#counts.entries()) {
      addColumn(column, steps, numbers, i * steps.length);
    }
    const at = matrixColumn.buckets * steps.length;
    this.#positive = this.#added(this.#positive, positive, block, at);
    const atNegative = at + positive.length * steps.length;
    this.#negative = this.#added(this.#negative, negative, block, atNegative);
    return true;
  }

  /** @param at where the columns of the side begin in the block's numbers */
  #added(
    own: SummedSide,
    others: Int32Array,
    { steps, numbers }: HistogramBlock,
    at: number,
  ): SummedSide {
    if (others.length === 0) return own;
    const { indexes, places } = joinedLayouts(own.indexes, others);
    const side = indexes === own.indexes ? own : widened(own, indexes, this.#stepCount);
    for (let i = 0; i < places.length; i++) {
      addColumn(side.columns[places[i]!]!, steps, numbers, at + i * steps.length);
    }
    return side;
  }

  /** The sum at a step, as one that goes on; null when nothing was added there. */
  sumAt(step: number): HistogramSum | null {
    if (this.#isSeen[step] === 0) return null;
    const [count, sum, zeroCount] = this.#counts as [SummedColumn, SummedColumn, SummedColumn];
    const form = new FloatHistogram({ ...this.#form, hint: counterHint.gauge, count: 0, sum: 0 });
    const sideOf = ({ indexes, columns }: SummedSide): SummedBuckets => ({
      indexes,
      counts: Float64Array.from(columns, ({ sums }) => sums[step]!),
      lost: Float64Array.from(columns, ({ lost }) => lost[step]!),
    });
    const at = ({ sums, lost }: SummedColumn): SummedNumber => ({
      value: sums[step]!,
      lost: lost[step]!,
    });
    const sides = [sideOf(this.#positive), sideOf(this.#negative)] as const;
    return HistogramSum.of(form, at(count), at(sum), at(zeroCount), ...sides);
  }
}

interface SummedSide {
  readonly indexes: Int32Array;
  /** Of each bucket. */
  readonly columns: readonly SummedColumn[];
}

function columnOf(stepCount: number, first: number): SummedColumn {
  return { sums: new Float64Array(stepCount).fill(first), lost: new Float64Array(stepCount) };
}

/** @param indexes which have all of its own */
function widened(
  { indexes: own, columns }: SummedSide,
  indexes: Int32Array,
  stepCount: number,
): SummedSide {
  let at = 0;
  const wider = Array.from(indexes, (index) =>
    own[at] === index ? columns[at++]! : columnOf(stepCount, 0),
  );
  return { indexes, columns: wider };
}

/** As `addExactly`, of all steps. */
function addColumn(
  { sums, lost }: SummedColumn,
  steps: Int32Array,
  numbers: Float64Array,
  at: number,
): void {
  for (let i = 0; i < steps.length; i++) {
    const step = steps[i]!;
    const value = numbers[at + i]!;
    const sum = sums[step]!;
    const total = sum + value;
    if (total === Infinity || total === -Infinity) lost[step] = 0;
    else if (Math.abs(sum) >= Math.abs(value)) lost[step] = lost[step]! + (sum - total + value);
    else lost[step] = lost[step]! + (value - total + sum);
    sums[step] = total;
  }
}
