/**
 * Samples that a query reads, as Prometheus counts them for `stats`: by the steps that look at them, whatever was spared on the way.
 *
 *     total   at each step all samples that an instant query at it would load: one of a selector, all of a window
 *     read    at each step those that the step before has not had; of what is the same at all steps, at the first one
 *
 * A histogram counts as many as it is large, by sixteen bytes each. Windows over a subquery count its values in `total`, and what
 * its own steps read in `read`. Counting is a second walk over the rows, for who asks for it alone.
 */
import type { FloatHistogram } from '#engine/histograms/float_histogram.ts';
import { Decoder } from '#engine/store/decoder.ts';
import { isAbsent } from '#engine/window_functions/row.ts';
import type { Grid, Plan, Source, SubquerySource } from '../plan/plan.ts';
import { sliced } from '../plan/slice.ts';
import { type Cells, histogramOf } from '../rows/cells.ts';
import type { Evaluator } from '../rows/evaluator.ts';
import { loadPrepared, notReady, type Rows } from '../rows/rows.ts';
import { selectorRows } from '../windows/selector_rows.ts';
import { readSeriesRows } from '../windows/stored_rows.ts';
import { stepsAtOnce } from '../windows/subquery.ts';

/** By step. */
export interface QuerySamples {
  readonly total: Float64Array;
  readonly read: Float64Array;
}

/** Of a step: two numbers. */
const stepBytes = 16;

/** @throws as the evaluation of the plan */
export async function countSamples(root: Plan, evaluator: Evaluator): Promise<QuerySamples> {
  const samples = await makeSamples(root.grid.stepCount, evaluator);
  await new Counter(evaluator).add(root, samples);
  return samples;
}

async function makeSamples(stepCount: number, { context }: Evaluator): Promise<QuerySamples> {
  const { pacer } = context;
  if (pacer.take(stepBytes * stepCount)) await pacer.room();
  return { total: new Float64Array(stepCount), read: new Float64Array(stepCount) };
}

class Counter {
  readonly #evaluator: Evaluator;

  constructor(evaluator: Evaluator) {
    this.#evaluator = evaluator;
  }

  /** Adds what a plan reads to steps of its own grid. */
  async add(plan: Plan, samples: QuerySamples): Promise<void> {
    switch (plan.kind) {
      case 'number':
      case 'string':
        return;
      case 'select':
        // What is computed between two samples is not counted there.
        if (plan.source.extension !== null) return;
        return this.#addSelector(plan.source, plan.grid, plan.output !== 'value', samples);
      case 'window':
        for (const parameter of plan.parameters) await this.add(parameter, samples);
        return this.#addWindows(plan.source, plan.grid, samples);
      case 'rangeVector':
        if (plan.source.kind === 'selector') {
          return this.#addWindows(plan.source, plan.grid, samples);
        }
        return this.#addWholeSubquery(plan.source, samples);
      case 'call':
        for (const argument of plan.args) await this.add(argument, samples);
        return;
      case 'aggregate':
        await this.add(plan.input, samples);
        if (plan.parameter !== null) await this.add(plan.parameter, samples);
        return;
      case 'binary':
        await this.add(plan.left, samples);
        return this.add(plan.right, samples);
      case 'info':
      case 'negate':
        return this.add(plan.input, samples);
      case 'repeat': {
        const once = await makeSamples(1, this.#evaluator);
        await this.add(plan.input, once);
        for (let step = 0; step < samples.total.length; step++)
          samples.total[step]! += once.total[0]!;
        samples.read[0]! += once.read[0]!;
        return;
      }
    }
  }

  /** @param countsTimes each sample counts one, whatever it is */
  async #addSelector(
    source: Source,
    grid: Grid,
    countsTimes: boolean,
    { total, read }: QuerySamples,
  ): Promise<void> {
    const { context } = this.#evaluator;
    const rows = selectorRows(countsTimes ? 'instantTime' : 'instant', source, grid, [], context);
    await this.#visit(rows, (cells, at) => {
      for (let step = 0; step < grid.stepCount; step++) {
        const size = sizeOfCell(cells, at + step);
        total[step]! += size;
        read[step]! += size;
      }
    });
  }

  async #visit(rows: Rows, visit: (cells: Cells, at: number) => void): Promise<void> {
    const { pacer } = this.#evaluator.context;
    for (let index = 0; index < rows.count; index++) {
      let at = rows.load(index);
      if (at === notReady) at = await loadPrepared(rows, index);
      visit(rows.buffer, at);
      if (pacer.spend(2 * rows.stepCount)) await pacer.pause();
    }
  }

  async #addWindows(
    source: Source | SubquerySource,
    grid: Grid,
    samples: QuerySamples,
  ): Promise<void> {
    if (source.kind === 'subquery') return this.#addSubquery(source, grid, samples);
    const { pacer, fetched } = this.#evaluator.context;
    const { fetch, bundle, labels, isTyped } = fetched[source.fetch]!;
    const { startNanos, endNanos } = fetch.range;
    using decoder = new Decoder();
    for (let index = 0; index < labels.length; index++) {
      if (isTyped?.[index] === 1) {
        const { chunkData, chunkOffset } = bundle;
        const chunks = chunkData.subarray(chunkOffset[index]!, chunkOffset[index + 1]!);
        using held = await readSeriesRows(chunks, [startNanos, endNanos], pacer, source.isOfStats);
        const { floatMillis, histogramMillis, histograms } = held.rows;
        addWindowsOf(source, grid, floatMillis, floatMillis.length, null, samples);
        const sizes = new Float64Array(histograms.count);
        for (let row = 0; row < sizes.length; row++)
          sizes[row] = sizeOfHistogram(histograms.at(row));
        addWindowsOf(source, grid, histogramMillis, sizes.length, sizes, samples);
      } else {
        const rowCount = decoder.decode(bundle, index, startNanos, endNanos);
        const { timestampMillis, valueWords } = decoder;
        let count = 0;
        for (let row = 0; row < rowCount; row++) {
          if (!isAbsent(valueWords, row)) timestampMillis[count++] = timestampMillis[row]!;
        }
        addWindowsOf(source, grid, timestampMillis, count, null, samples);
        pacer.note(rowCount);
      }
      if (pacer.spend(4 * grid.stepCount)) await pacer.pause();
    }
  }

  /** Windows over the values of a subquery; what they are made of is read once, by the step that first looks at it. */
  async #addSubquery(source: SubquerySource, grid: Grid, samples: QuerySamples): Promise<void> {
    const { inner, rangeMillis, referenceStartMillis, referenceStepMillis } = source;
    const ofInner = await makeSamples(inner.grid.stepCount, this.#evaluator);
    await this.add(inner, ofInner);
    const isPinned = referenceStepMillis === 0;
    const offsetMillis = isPinned ? 0 : grid.startMillis - referenceStartMillis;
    mergeRead(ofInner.read, inner.grid, grid, offsetMillis, rangeMillis, samples.read);
    // From here on they are the values that come of it.
    const sizes = ofInner.total.fill(0);
    for (let from = 0; from < sizes.length; from += stepsAtOnce) {
      const part = sliced(inner, from, Math.min(stepsAtOnce, sizes.length - from));
      const rows = await this.#evaluator.vector(part);
      await this.#visit(rows, (cells, at) => {
        for (let step = 0; step < part.grid.stepCount; step++) {
          sizes[from + step]! += sizeOfCell(cells, at + step);
        }
      });
    }
    const { startMillis, stepMillis } = inner.grid;
    const times = sizes.map((_, step) => startMillis + step * stepMillis);
    addWindowsOf(source, grid, times, times.length, sizes, { total: samples.total, read: null });
    this.#evaluator.context.pacer.give(stepBytes * sizes.length);
  }

  async #addWholeSubquery({ inner }: SubquerySource, samples: QuerySamples): Promise<void> {
    const ofInner = await makeSamples(inner.grid.stepCount, this.#evaluator);
    await this.add(inner, ofInner);
    samples.total[0]! += sumOf(ofInner.total);
    samples.read[0]! += sumOf(ofInner.read);
  }
}

const sumOf = (numbers: Float64Array): number => numbers.reduce((sum, each) => sum + each, 0);

interface WindowsOf {
  readonly referenceStartMillis: number;
  readonly referenceStepMillis: number;
  readonly rangeMillis: number;
  readonly extension?: Source['extension'];
}

/**
 * Adds what the windows of all steps have of rows.
 * @param times of `count` rows, ascending
 * @param sizes of these rows; null where each counts one
 */
function addWindowsOf(
  { referenceStartMillis, referenceStepMillis, rangeMillis, extension = null }: WindowsOf,
  { stepMillis, stepCount }: Grid,
  times: Float64Array,
  count: number,
  sizes: Float64Array | null,
  { total, read }: { readonly total: Float64Array; readonly read: Float64Array | null },
): void {
  if (count === 0) return;
  const { beforeMillis = 0, afterMillis = 0 } = extension ?? {};
  let first = 0;
  let past = 0;
  let sizeOfWindow = 0;
  for (let step = 0; step < stepCount; step++) {
    const endMillis = referenceStartMillis + step * referenceStepMillis + afterMillis;
    const startMillis = endMillis - afterMillis - rangeMillis - beforeMillis;
    for (; past < count && times[past]! <= endMillis; past++) sizeOfWindow += sizes?.[past] ?? 1;
    for (; first < past && times[first]! <= startMillis; first++) {
      sizeOfWindow -= sizes?.[first] ?? 1;
    }
    total[step]! += sizeOfWindow;
    if (read === null) continue;
    if (step === 0) read[0]! += sizeOfWindow;
    else if (referenceStepMillis !== 0) {
      for (let row = past - 1; row >= first && times[row]! > endMillis - stepMillis; row--) {
        read[step]! += sizes?.[row] ?? 1;
      }
    }
  }
}

/** What steps of a subquery read, to the first step of the query that looks at them; those between two windows to none. */
function mergeRead(
  ofInner: Float64Array,
  inner: Grid,
  outer: Grid,
  offsetMillis: number,
  rangeMillis: number,
  read: Float64Array,
): void {
  for (const [innerStep, count] of ofInner.entries()) {
    const millis = inner.startMillis + innerStep * inner.stepMillis + offsetMillis;
    let step = 0;
    if (outer.stepCount > 1) {
      const steps = Math.ceil((millis - outer.startMillis) / outer.stepMillis);
      step = Math.min(Math.max(0, steps), outer.stepCount - 1);
      if (millis <= outer.startMillis + step * outer.stepMillis - rangeMillis) continue;
    }
    read[step]! += count;
  }
}

function sizeOfCell(cells: Cells, cell: number): number {
  if (isAbsent(cells.words, cell)) return 0;
  const histogram = histogramOf(cells, cell);
  return histogram === null ? 1 : sizeOfHistogram(histogram);
}

/** Of a sample with a number, to which Prometheus compares the size of a histogram. */
const sampleBytes = 16;
const timeBytes = 8;
/** Of a histogram in Prometheus without its buckets, spans and bounds, and for each of these. */
const histogramBytes = 168;
const partBytes = 8;

/** Buckets that follow each other are one. */
function spanCountOf(indexes: Int32Array): number {
  let count = 0;
  for (let i = 0; i < indexes.length; i++)
    if (i === 0 || indexes[i] !== indexes[i - 1]! + 1) count++;
  return count;
}

function sizeOfHistogram({ customBounds, positive, negative }: FloatHistogram): number {
  const parts =
    customBounds.length +
    positive.counts.length +
    negative.counts.length +
    spanCountOf(positive.indexes) +
    spanCountOf(negative.indexes);
  return Math.trunc((histogramBytes + partBytes * parts + timeBytes) / sampleBytes);
}
