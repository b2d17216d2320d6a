/** Rows of stored series whose windows rows beyond their edges have a say in: `anchored` and `smoothed`. */
import type { WindowExtension } from '#engine/histograms/extended_windows.ts';
import type { WindowRequest } from '#engine/window_functions/windows.ts';
import { makeCells } from '../rows/cells.ts';
import type { Context, Fetched } from '../rows/context.ts';
import type { Source } from '../plan/plan.ts';
import { notReady, Rows } from '../rows/rows.ts';
import { ColumnWindows } from './column_windows.ts';
import { readStoredRows } from './stored_rows.ts';
import { noteWindows } from './window_notes.ts';

export class ExtendedRows extends Rows {
  readonly #source: Source;
  readonly #extension: WindowExtension;
  readonly #fetched: Fetched;
  readonly #columns: ColumnWindows;
  readonly #context: Context;
  /** The row that the buffer holds; -1 for none. */
  #prepared: number;

  constructor(
    request: WindowRequest,
    source: Source,
    extension: WindowExtension,
    context: Context,
  ) {
    const fetched = context.fetched[source.fetch]!;
    super(fetched.labels, request.stepCount, makeCells(request.stepCount));
    this.#source = source;
    this.#extension = extension;
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
    const rows = await readStoredRows(this.#fetched, index, pacer);
    const notes = await this.#columns.evaluateExtended(rows, this.#extension, this.buffer);
    noteWindows(notes, this.labels[index]!.name, this.#source.span, annotations);
    stats.decodedSamples += rows.floats.length + rows.histograms.count;
    this.#prepared = index;
  }
}
