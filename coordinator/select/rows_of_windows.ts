/**
 * Rows of which windows are made, as one source: samples, and those that rules drop, which are kept for windows alone. A row
 * that both have counts once.
 */
import { joinedRows } from './join.ts';
import { NamespaceSource, type SourceSetup } from './namespace_source.ts';
import type { SamplesSource } from './samples_source.ts';
import type {
  Matcher,
  Restriction,
  SelectLimits,
  SelectRange,
  SelectResult,
  SeriesSource,
} from './storage.ts';

export class RowsOfWindows implements Pick<SeriesSource, 'selectAny'> {
  readonly #setup: SourceSetup;
  readonly #samples: SamplesSource;
  /** Null where there is none. */
  readonly dropped: NamespaceSource | null;

  /** @param droppedNamespace null where there is none */
  constructor(
    setup: SourceSetup,
    samples: SamplesSource,
    droppedNamespace: string | null,
    restriction: Restriction | null,
  ) {
    this.#setup = setup;
    this.#samples = samples.restrictedTo(restriction);
    this.dropped =
      droppedNamespace === null
        ? null
        : new NamespaceSource(setup, droppedNamespace, 'samples', restriction);
  }

  async selectAny(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    const sources = this.dropped === null ? [this.#samples] : [this.#samples, this.dropped];
    const results = await Promise.all(
      sources.map((source) => source.selectAny(matcherLists, range, limits, signal)),
    );
    return joinedRows(results, limits, () => this.#setup.turningOf(signal).work);
  }
}
