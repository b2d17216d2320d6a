/** Rows of stored series: each is decoded and put on the grid when it is asked for. */
import { makeRowBuffer } from '#engine/window_functions/row.ts';
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import type {
  WindowEvaluator,
  WindowFunction,
  WindowRequest,
} from '#engine/window_functions/windows.ts';
import type { SelectRange } from '../../select/storage.ts';
import type { Context } from '../rows/context.ts';
import type { Labels } from '../rows/labels.ts';
import type { Grid, Source, SubquerySource } from '../plan/plan.ts';
import { Rows } from '../rows/rows.ts';

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

/** Rows that are looked at for all windows together. */
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
    const rowCount = this.#windows.evaluate(
      this.#request,
      this.#bundle,
      index,
      this.#range.startNanos,
      this.#range.endNanos,
      this.buffer,
      0,
    );
    this.#context.stats.decodedSamples += rowCount;
    this.#context.pacer.note(windowWork(this.#request, rowCount));
    return 0;
  }
}
