/**
 * Samples that a query reads, as Prometheus counts them for `stats`: by the steps that look at them, whatever was spared on the way.
 *
 *     total   at each step all samples that an instant query at it would load: one of a selector, all of a window
 *     read    at each step those that the step before has not had; of what is the same at all steps, at the first one
 *
 * A histogram counts as many as it is large, by sixteen bytes each. Windows over a subquery count its values in `total`, and what
 * its own steps read in `read`. Counting is a second walk over the rows, for who asks for it alone.
 */
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import type { FloatHistogram } from '#engine/histograms/float_histogram.ts';
import { Decoder } from '#engine/store/decoder.ts';
import { isAbsent } from '#engine/window_functions/row.ts';
import type { SelectRange } from '../../select/storage.ts';
import type { Grid, Plan, Source, SubquerySource } from '../plan/plan.ts';
import { sliced } from '../plan/slice.ts';
import { type Cells, histogramOf } from '../rows/cells.ts';
import type { Evaluator } from '../rows/evaluator.ts';
import type { Pacer } from '../rows/pacer.ts';
import { loadPrepared, notReady, type Rows } from '../rows/rows.ts';
import { selectorRows } from '../windows/selector_rows.ts';
import {
  floatPartsOf,
  floatRowsAtOnce,
  histogramUnits,
  readSeriesRows,
} from '../windows/stored_rows.ts';
import { stepsAtOnce } from '../windows/subquery.ts';

/** By step. */
export interface QuerySamples {
  readonly total: Float64Array;
  readonly read: Float64Array;
}

/** Of a step: two numbers. */
const stepBytes = 16;
/** About what it takes to look for the window of a step, in units of work (lib/turns/turns.ts). */
const stepUnits = 50;
/** Numbers that are added up in one go. */
const rowsAtOnce = floatRowsAtOnce;

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
      case 'stitched': {
        let at = 0;
        for (const part of plan.parts) {
          const past = at + part.grid.stepCount;
          const { total, read } = samples;
          await this.add(part, { total: total.subarray(at, past), read: read.subarray(at, past) });
          at = past;
        }
        return;
      }
      case 'united':
        for (const part of plan.parts) await this.add(part, samples);
        return;
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
        await this.#addRows(source, grid, timedRows(floatMillis, floatMillis.length), samples);
        const sizes = new Float64Array(histograms.count);
        for (let row = 0; row < sizes.length; row++) {
          sizes[row] = sizeOfHistogram(histograms.at(row));
          if (pacer.spend(histogramUnits)) await pacer.pause();
        }
        const rows = timedRows(histogramMillis, sizes.length, await sumsOf(sizes, pacer));
        await this.#addRows(source, grid, rows, samples);
      } else {
        const times = await this.#floatTimes(decoder, bundle, index, fetch.range);
        await this.#addRows(source, grid, timedRows(times, times.length), samples);
        pacer.give(timeBytes * times.length);
      }
    }
  }

  /** Of a series without histograms. */
  async #floatTimes(
    decoder: Decoder,
    bundle: SeriesBundle,
    index: number,
    range: SelectRange,
  ): Promise<Float64Array> {
    const { pacer } = this.#evaluator.context;
    const { rowsMax, ranges } = floatPartsOf(bundle, index, range);
    if (pacer.take(timeBytes * rowsMax)) await pacer.room();
    const times = new Float64Array(rowsMax);
    let count = 0;
    for (const [from, to] of ranges) {
      const rowCount = decoder.decode(bundle, index, from, to);
      const { timestampMillis, valueWords } = decoder;
      for (let row = 0; row < rowCount; row++) {
        if (!isAbsent(valueWords, row)) times[count++] = timestampMillis[row]!;
      }
      if (pacer.spend(2 * rowCount)) await pacer.pause();
    }
    pacer.give(timeBytes * (rowsMax - count));
    return times.subarray(0, count);
  }

  /** Windows over the values of a subquery; what they are made of is read once, by the step that first looks at it. */
  async #addSubquery(source: SubquerySource, grid: Grid, samples: QuerySamples): Promise<void> {
    const { pacer } = this.#evaluator.context;
    const { inner, rangeMillis, referenceStartMillis, referenceStepMillis } = source;
    const { startMillis, stepMillis, stepCount } = inner.grid;
    const ofInner = await makeSamples(stepCount, this.#evaluator);
    await this.add(inner, ofInner);
    const isPinned = referenceStepMillis === 0;
    const offsetMillis = isPinned ? 0 : grid.startMillis - referenceStartMillis;
    const look = { offsetMillis, rangeMillis };
    await mergeRead(ofInner.read, inner.grid, grid, look, samples.read, pacer);
    // From here on they are the values that come of it.
    const sizes = ofInner.total.fill(0);
    for (let from = 0; from < stepCount; from += stepsAtOnce) {
      const part = sliced(inner, from, Math.min(stepsAtOnce, stepCount - from));
      const rows = await this.#evaluator.vector(part);
      await this.#visit(rows, (cells, at) => {
        for (let step = 0; step < part.grid.stepCount; step++) {
          sizes[from + step]! += sizeOfCell(cells, at + step);
        }
      });
    }
    const sums = await sumsOf(sizes, pacer);
    const rows: CountedRows = {
      past: (millis) => {
        const steps = Math.floor((millis - startMillis) / stepMillis) + 1;
        return Math.min(Math.max(0, steps), stepCount);
      },
      sizeOf: (first, past) => sums[past]! - sums[first]!,
    };
    await this.#addRows(source, grid, rows, { total: samples.total, read: null });
    pacer.give(stepBytes * stepCount);
  }

  async #addWholeSubquery({ inner }: SubquerySource, samples: QuerySamples): Promise<void> {
    const ofInner = await makeSamples(inner.grid.stepCount, this.#evaluator);
    await this.add(inner, ofInner);
    const { pacer } = this.#evaluator.context;
    samples.total[0]! += (await sumsOf(ofInner.total, pacer)).at(-1)!;
    samples.read[0]! += (await sumsOf(ofInner.read, pacer)).at(-1)!;
    pacer.give(stepBytes * inner.grid.stepCount);
  }

  /** Adds what the windows of all steps have of rows. */
  async #addRows(
    { referenceStartMillis, referenceStepMillis, rangeMillis, ...source }: Source | SubquerySource,
    { stepMillis, stepCount }: Grid,
    rows: CountedRows,
    { total, read }: { readonly total: Float64Array; readonly read: Float64Array | null },
  ): Promise<void> {
    const { pacer } = this.#evaluator.context;
    const extension = source.kind === 'selector' ? source.extension : null;
    const { beforeMillis = 0, afterMillis = 0 } = extension ?? {};
    for (let step = 0; step < stepCount; step++) {
      const endMillis = referenceStartMillis + step * referenceStepMillis + afterMillis;
      const first = rows.past(endMillis - afterMillis - rangeMillis - beforeMillis);
      const past = rows.past(endMillis);
      total[step]! += rows.sizeOf(first, past);
      if (read !== null && (step === 0 || referenceStepMillis !== 0)) {
        const before = step === 0 ? first : Math.max(first, rows.past(endMillis - stepMillis));
        read[step]! += rows.sizeOf(before, past);
      }
      if (pacer.spend(stepUnits)) await pacer.pause();
    }
  }
}

/** Rows in the order of their times. */
interface CountedRows {
  /** How many are not later. */
  past(millis: number): number;
  /** Of rows [first, past). */
  sizeOf(first: number, past: number): number;
}

/** @param sums as of `sumsOf` their sizes; without them each counts one */
function timedRows(
  times: Float64Array,
  count: number,
  sums: Float64Array | null = null,
): CountedRows {
  return {
    past: (millis) => {
      let first = 0;
      let past = count;
      while (first < past) {
        const middle = (first + past) >>> 1;
        if (times[middle]! <= millis) first = middle + 1;
        else past = middle;
      }
      return first;
    },
    sizeOf: (first, past) => (sums === null ? past - first : sums[past]! - sums[first]!),
  };
}

/** For each number the sum of those before it, and of all. */
async function sumsOf(numbers: Float64Array, pacer: Pacer): Promise<Float64Array> {
  if (pacer.take(timeBytes * numbers.length)) await pacer.room();
  const sums = new Float64Array(numbers.length + 1);
  for (let from = 0; from < numbers.length; from += rowsAtOnce) {
    const past = Math.min(numbers.length, from + rowsAtOnce);
    for (let i = from; i < past; i++) sums[i + 1] = sums[i]! + numbers[i]!;
    if (pacer.spend(past - from)) await pacer.pause();
  }
  return sums;
}

/** What steps of a subquery read, to the first step of the query that looks at them; those between two windows to none. */
async function mergeRead(
  ofInner: Float64Array,
  inner: Grid,
  outer: Grid,
  { offsetMillis, rangeMillis }: { readonly offsetMillis: number; readonly rangeMillis: number },
  read: Float64Array,
  pacer: Pacer,
): Promise<void> {
  for (let innerStep = 0; innerStep < ofInner.length; innerStep++) {
    if (innerStep % rowsAtOnce === 0 && pacer.spend(rowsAtOnce)) await pacer.pause();
    const millis = inner.startMillis + innerStep * inner.stepMillis + offsetMillis;
    let step = 0;
    if (outer.stepCount > 1) {
      const steps = Math.ceil((millis - outer.startMillis) / outer.stepMillis);
      step = Math.min(Math.max(0, steps), outer.stepCount - 1);
      if (millis <= outer.startMillis + step * outer.stepMillis - rangeMillis) continue;
    }
    read[step]! += ofInner[innerStep]!;
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
