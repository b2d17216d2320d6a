/**
 * Rows of stored series whose windows look at more than the rows within their edges, or at more than values: `anchored` and
 * `smoothed`, and start times.
 */
import { ExtendedWindows } from '#engine/histograms/windows/extended_windows.ts';
import type { SeriesRows } from '#engine/histograms/windows/series_rows.ts';
import { NewestStarts } from '#engine/histograms/windows/start_windows.ts';
import type { WindowRequest } from '#engine/window_functions/windows.ts';
import { makeCells } from '../rows/cells.ts';
import type { Context } from '../rows/context.ts';
import type { Fetched } from '../rows/reads.ts';
import type { Source } from '../plan/plan.ts';
import { notReady, Rows } from '../rows/rows.ts';
import { ColumnWindows, type DecodedWindows } from './column_windows.ts';
import { readStoredRows } from './stored_rows.ts';
import { noteWindows } from './window_notes.ts';

export class DecodedRows extends Rows {
  readonly #source: Source;
  readonly #windowsOf: (rows: SeriesRows) => DecodedWindows;
  readonly #fetched: Fetched;
  readonly #columns: ColumnWindows;
  readonly #context: Context;
  /** The row that the buffer holds; -1 for none. */
  #prepared: number;

  /** @param windowsOf of the rows of one series */
  constructor(
    request: WindowRequest,
    source: Source,
    windowsOf: (rows: SeriesRows) => DecodedWindows,
    context: Context,
  ) {
    const fetched = context.fetched[source.fetch]!;
    super(fetched.labels, request.stepCount, makeCells(request.stepCount));
    this.#source = source;
    this.#windowsOf = windowsOf;
    this.#fetched = fetched;
    this.#columns = new ColumnWindows(request, context);
    this.#context = context;
    this.#prepared = -1;
  }

  load(index: number): number {
    return index === this.#prepared ? 0 : notReady;
  }

  async prepare(index: number): Promise<void> {
    this.#prepared = -1;
    const { pacer, stats, annotations } = this.#context;
    using held = await readStoredRows(this.#fetched, index, pacer);
    const { rows } = held;
    const windows = this.#windowsOf(rows);
    await this.#columns.evaluateDecoded(windows, this.buffer);
    noteWindows(windows, this.labels[index]!.name, this.#source.span, annotations);
    stats.decodedSamples += rows.floats.length + rows.histograms.count;
    this.#prepared = index;
  }
}

/** Of `anchored` and `smoothed`. */
export function extendedRows(request: WindowRequest, source: Source, context: Context): Rows {
  const extension = source.extension!;
  const { startTimestamps } = context.features;
  const windowsOf = (rows: SeriesRows) =>
    new ExtendedWindows(request, extension, rows, startTimestamps);
  return new DecodedRows(request, source, windowsOf, context);
}

/** Of an instant selector: when the counter of the newest row started, Unix seconds, 0 when nobody said. */
export function startRows(request: WindowRequest, source: Source, context: Context): Rows {
  return new DecodedRows(request, source, (rows) => new NewestStarts(request, rows), context);
}
