/** Rows of stored series: each is decoded and put on the grid when it is asked for. */
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import {
  tooDear,
  type WindowEvaluator,
  type WindowFunction,
  type WindowRequest,
} from '#engine/window_functions/windows.ts';
import { looksAtStarts, StartWindows } from '#engine/histograms/windows/start_windows.ts';
import type { SeriesRows } from '#engine/histograms/windows/series_rows.ts';
import type { SelectRange } from '../../select/storage.ts';
import { makeCells } from '../rows/cells.ts';
import type { Context } from '../rows/context.ts';
import type { Fetched } from '../rows/reads.ts';
import type { Grid, Reference, Source } from '../plan/plan.ts';
import { notReady, Rows } from '../rows/rows.ts';
import type { Span } from '../words/position.ts';
import { ColumnWindows, rowUnitsMax, windowWork } from './column_windows.ts';
import { extendedRows } from './decoded_rows.ts';
import { readSeriesRows } from './stored_rows.ts';
import { noteWindows, type WindowNotes } from './window_notes.ts';

export function windowRequest(
  windowFunction: WindowFunction,
  reference: Reference,
  grid: Grid,
  parameters: readonly Float64Array[],
): WindowRequest {
  return {
    function: windowFunction,
    stepCount: grid.stepCount,
    referenceStartMillis: reference.referenceStartMillis,
    referenceStepMillis: reference.referenceStepMillis,
    rangeMillis: reference.rangeMillis,
    evaluationStartMillis: grid.startMillis,
    evaluationStepMillis: grid.stepMillis,
    parameters,
  };
}

/** Of windows, or, with the function `instant` or `instantTime`, of an instant selector. */
export function selectorRows(
  windowFunction: WindowFunction,
  source: Source,
  grid: Grid,
  parameters: readonly Float64Array[],
  context: Context,
): Rows {
  if (source.extension !== null) {
    return extendedRows(windowRequest(windowFunction, source, grid, parameters), source, context);
  }
  const fetched = context.fetched[source.fetch]!;
  return SelectorRows.of(windowFunction, fetched, source, grid, parameters, context);
}

type SelectorReference = Reference & Partial<Pick<Source, 'isOfStats'>>;

export class SelectorRows extends Rows {
  readonly #request: WindowRequest;
  readonly #span: Span;
  readonly #isOfStats: boolean;
  readonly #fetched: Fetched;
  readonly #bundle: SeriesBundle;
  readonly #range: SelectRange;
  readonly #windows: WindowEvaluator;
  readonly #columns: ColumnWindows;
  readonly #context: Context;
  /** The function looks at start times. */
  readonly #asksStarts: boolean;
  /** The row that the buffer holds because it was made aside; -1 for none. */
  #prepared: number;

  private constructor(
    request: WindowRequest,
    fetched: Fetched,
    { span, isOfStats = false }: SelectorReference,
    context: Context,
  ) {
    super(fetched.labels, request.stepCount, makeCells(request.stepCount));
    this.#request = request;
    this.#span = span;
    this.#isOfStats = isOfStats;
    this.#fetched = fetched;
    this.#bundle = fetched.bundle;
    this.#range = fetched.fetch.range;
    this.#windows = context.windows;
    this.#columns = new ColumnWindows(request, context);
    this.#context = context;
    this.#asksStarts = context.features.startTimestamps && looksAtStarts(request.function);
    this.#prepared = -1;
  }

  static of(
    windowFunction: WindowFunction,
    fetched: Fetched,
    reference: SelectorReference,
    grid: Grid,
    parameters: readonly Float64Array[],
    context: Context,
  ): SelectorRows {
    const request = windowRequest(windowFunction, reference, grid, parameters);
    return new SelectorRows(request, fetched, reference, context);
  }

  load(index: number): number {
    if (index === this.#prepared) return 0;
    this.#prepared = -1;
    if (this.#isDecoded(index)) return notReady;
    this.buffer.histograms = null;
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

  #isDecoded(index: number): boolean {
    const { isTyped, hasStarts } = this.#fetched;
    return isTyped?.[index] === 1 || (this.#asksStarts && hasStarts?.[index] === 1);
  }

  async prepare(index: number): Promise<void> {
    const { chunkData, chunkOffset } = this.#bundle;
    const [start, end] = [chunkOffset[index]!, chunkOffset[index + 1]!];
    if (this.#isDecoded(index)) {
      await this.#prepareMixed(index, chunkData.subarray(start, end));
    } else await this.#prepareAside(chunkData.slice(start, end));
    this.#prepared = index;
  }

  async #prepareAside(chunks: Uint8Array): Promise<void> {
    const { aside, pacer, stats } = this.#context;
    const { startNanos, endNanos } = this.#range;
    const job = {
      kind: 'seriesRow',
      request: this.#request,
      chunks,
      startNanos,
      endNanos,
    } as const;
    const { bits, rowCount } = await pacer.work.outside(aside.run(job, pacer.work));
    this.buffer.histograms = null;
    this.buffer.bits.set(bits);
    stats.decodedSamples += rowCount;
  }

  async #prepareMixed(index: number, chunks: Uint8Array): Promise<void> {
    const { pacer, stats, annotations } = this.#context;
    const { startNanos, endNanos } = this.#range;
    using held = await readSeriesRows(chunks, [startNanos, endNanos], pacer, this.#isOfStats);
    const { rows } = held;
    const notes = await this.#notesOf(rows);
    noteWindows(notes, this.labels[index]!.name, this.#span, annotations);
    stats.decodedSamples += rows.floats.length + rows.histograms.count;
  }

  async #notesOf(rows: SeriesRows): Promise<WindowNotes> {
    const hasStarts = rows.floatStarts !== null || rows.histogramStarts !== null;
    if (!this.#asksStarts || !hasStarts) return this.#columns.evaluateMixed(rows, this.buffer);
    const windows = new StartWindows(this.#request, rows);
    await this.#columns.evaluateDecoded(windows, this.buffer);
    return windows;
  }
}
