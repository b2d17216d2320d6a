/** Rows of stored series: each is decoded and put on the grid when it is asked for. */
import { makeRowBuffer } from '#engine/window_functions/row.ts';
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import {
  tooDear,
  type WindowEvaluator,
  type WindowFunction,
  type WindowRequest,
} from '#engine/window_functions/windows.ts';
import type { SelectRange } from '../../select/storage.ts';
import type { Context } from '../rows/context.ts';
import type { Labels } from '../rows/labels.ts';
import type { Grid, Source, SubquerySource } from '../plan/plan.ts';
import { notReady, Rows } from '../rows/rows.ts';

export function windowRequest(
  windowFunction: WindowFunction,
  source: Source | SubquerySource,
  grid: Grid,
  parameters: readonly Float64Array[],
): WindowRequest {
  return {
    function: windowFunction,
    stepCount: grid.stepCount,
    referenceStartMillis: source.referenceStartMillis,
    referenceStepMillis: source.referenceStepMillis,
    rangeMillis: source.rangeMillis,
    evaluationStartMillis: grid.startMillis,
    evaluationStepMillis: grid.stepMillis,
    parameters,
  };
}

/** Looks at rows that one row of the grid may cost at once: some milliseconds. More is done aside. */
export const rowUnitsMax = 1_000_000;

/** About how many looks at rows all windows together take. */
export function windowWork(request: WindowRequest, rowCount: number): number {
  const { stepCount, referenceStepMillis, rangeMillis } = request;
  const spanMillis = referenceStepMillis * (stepCount - 1) + rangeMillis;
  return rowCount + (stepCount * rowCount * rangeMillis) / spanMillis;
}

export class SelectorRows extends Rows {
  readonly #request: WindowRequest;
  readonly #bundle: SeriesBundle;
  readonly #range: SelectRange;
  readonly #windows: WindowEvaluator;
  readonly #context: Context;
  /** The row that the buffer holds because it was made aside; -1 for none. */
  #prepared: number;

  private constructor(
    request: WindowRequest,
    bundle: SeriesBundle,
    labels: readonly Labels[],
    range: SelectRange,
    context: Context,
  ) {
    super(labels, request.stepCount, makeRowBuffer(request.stepCount));
    this.#request = request;
    this.#bundle = bundle;
    this.#range = range;
    this.#windows = context.windows;
    this.#context = context;
    this.#prepared = -1;
  }

  static of(
    windowFunction: WindowFunction,
    source: Source,
    grid: Grid,
    parameters: readonly Float64Array[],
    context: Context,
  ): SelectorRows {
    const { fetch, result, labels } = context.fetched[source.fetch]!;
    const request = windowRequest(windowFunction, source, grid, parameters);
    return new SelectorRows(request, result.bundle, labels, fetch.range, context);
  }

  load(index: number): number {
    if (index === this.#prepared) return 0;
    this.#prepared = -1;
    const rowCount = this.#windows.evaluate(
      this.#request,
      this.#bundle,
      index,
      this.#range.startNanos,
      this.#range.endNanos,
      this.buffer,
      0,
      rowUnitsMax,
    );
    if (rowCount === tooDear) return notReady;
    this.#context.stats.decodedSamples += rowCount;
    this.#context.pacer.note(Math.min(windowWork(this.#request, rowCount), rowUnitsMax));
    return 0;
  }

  async prepare(index: number): Promise<void> {
    const { aside, pacer, stats } = this.#context;
    const { chunkData, chunkOffset } = this.#bundle;
    const { startNanos, endNanos } = this.#range;
    const chunks = chunkData.slice(chunkOffset[index], chunkOffset[index + 1]);
    const job = {
      kind: 'seriesRow',
      request: this.#request,
      chunks,
      startNanos,
      endNanos,
    } as const;
    const { bits, rowCount } = await pacer.work.outside(aside.run(job, pacer.work));
    this.buffer.bits.set(bits);
    this.#prepared = index;
    stats.decodedSamples += rowCount;
  }
}
