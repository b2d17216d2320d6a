/**
 * Where evaluation meets storage: paths are found by the tags of their nodes, other series by the conditions of `seriesByTag`
 * or of another language, and their rows are put on steps.
 */
import { bundleBytes } from '#cluster/node/bundle_pages.ts';
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { Decoder } from '#engine/store/decoder.ts';
import { decodeTags, type Tags } from '#lib/tags.ts';
import { compareTexts } from '#lib/text_order.ts';
import { sortPaced } from '#lib/turns/paced.ts';
import { markedRowBytes, type Pacer } from '../../promql/rows/pacer.ts';
import type {
  AskedColumn,
  ChosenStorage,
  ColumnBySeries,
  Matcher,
  QueryStorage,
  SelectLimits,
  SelectRange,
  SelectResult,
  ThroughoutStorage,
} from '../../select/storage.ts';
import type { FetchedSeries, FetchRequest } from '../evaluate/context.ts';
import type { Window } from '../calls/window.ts';
import type { Selection } from '../parse/tree.ts';
import type { Columns } from '../series/series.ts';
import { parsePathPattern, pathMatchers, pathTest } from './path_pattern.ts';
import type { Steps, StoredRows } from './rows.ts';
import type { NamedSeries } from './series_names.ts';
import { type StoredTagName, tagMatchers } from './tag_matchers.ts';
import { matchersOfPath, taggedPath } from './tagged_path.ts';

export type GraphiteStorage = QueryStorage & ThroughoutStorage & Pick<ChosenStorage, 'hidden'>;

export interface ReaderSetup {
  readonly storage: GraphiteStorage;
  readonly limits: SelectLimits;
  /** Of its work, and the rows that it holds. */
  readonly pacer: Pacer;
  readonly reading: Reading;
}

/** How a language sees what is stored. */
export interface Reading {
  /** What a series is called, and its tags. @param tags sorted by name */
  readonly named: (tags: Tags) => NamedSeries;
  readonly storedTag: StoredTagName;
  /** Whether a series of the index counts that has no value in any row of a window. */
  readonly takesEmpty: boolean;
  readonly gridOf: (
    storage: GraphiteStorage,
    window: Window,
    matchers: readonly Matcher[],
  ) => ReadGrid;
}

/** The rows of a window. */
export interface ReadGrid {
  /** All that they are made of. */
  readonly range: SelectRange;
  /** Of windows in the place of samples. */
  readonly column: AskedColumn | ColumnBySeries;
  readonly gridOfSeries: (series: FoundSeries) => SeriesGrid;
  /** About what it takes to say that of a series, in units of work. @param tagBytes of it */
  readonly units: (tagBytes: number) => number;
}

/** The rows of one series. */
export interface SeriesGrid {
  readonly steps: Steps;
  readonly rowsOf: (stored: StoredRows) => Columns;
}

/** About what it takes to name a series, and to place a row, in units of work (lib/turns/turns.ts). */
const seriesUnits = 500;
const rowUnits = 6;

/** Tags of a series and where it stands in its bundle. */
export interface FoundSeries extends NamedSeries {
  readonly index: number;
  /** Canonical. */
  readonly tagBytes: Uint8Array;
}

export class SeriesReader {
  readonly #setup: ReaderSetup;
  /** What was not whole in what was read. */
  readonly warnings: Set<string> = new Set();
  isExhaustive = true;

  constructor(setup: ReaderSetup) {
    this.#setup = setup;
  }

  get hidden(): ReadonlySet<string> {
    return this.#setup.storage.hidden;
  }

  /** As of `Fetch`. */
  async fetch(
    requests: readonly FetchRequest[],
    signal: AbortSignal,
  ): Promise<readonly (readonly FetchedSeries[])[]> {
    const lists: (readonly FetchedSeries[])[] = [];
    for (const request of requests) lists.push(await this.#read(request, signal));
    return lists;
  }

  async #read(request: FetchRequest, signal: AbortSignal): Promise<readonly FetchedSeries[]> {
    const { pacer, storage, limits, reading } = this.#setup;
    const selections = request.selections ?? [selectionOf(request, reading.storedTag)];
    const answers = await Promise.all(
      selections.map(async (selection) => {
        const { matchers } = selection;
        const grid = reading.gridOf(storage, request, matchers);
        const { range, column } = grid;
        const found = await storage.selectThroughout(matchers, range, column, limits, signal);
        return { found, selection, grid };
      }),
    );
    const list: FetchedSeries[] = [];
    for (const { found, selection, grid } of answers) {
      for (const series of await this.#decode(found, selection, grid)) list.push(series);
    }
    if (selections.length === 1) return list;
    return await sortPaced(list, (a, b) => compareTexts(a.name, b.name), pacer.work);
  }

  async #decode(
    found: SelectResult,
    selection: Selection,
    { range, units, gridOfSeries }: ReadGrid,
  ): Promise<readonly FetchedSeries[]> {
    const { pacer, reading } = this.#setup;
    this.isExhaustive &&= found.exhaustive;
    for (const warning of found.warnings) this.warnings.add(warning);
    const series = await this.#inOrder(found.bundle, selection);
    using decoder = new Decoder();
    const list: FetchedSeries[] = [];
    for (const one of series) {
      const { index, name, tags } = one;
      const { steps, rowsOf } = gridOfSeries(one);
      if (pacer.hold(steps.length, markedRowBytes)) await pacer.room();
      const count = decoder.decode(found.bundle, index, range.startNanos, range.endNanos);
      const { timestampMillis, values } = decoder;
      const rows = rowsOf({ count, timestampMillis, values });
      const spent = units(one.tagBytes.length) + rowUnits * (count + steps.length);
      if (pacer.spend(spent)) await pacer.pause();
      if (!reading.takesEmpty && !rows.present.includes(1)) continue;
      list.push({
        name,
        tags,
        startSeconds: steps.startSeconds,
        stepSeconds: steps.stepSeconds,
        consolidation: 'average',
        values: rows.values,
        present: rows.present,
      });
    }
    pacer.give(bundleBytes(found.bundle));
    return list;
  }

  /** Series that the selection takes, in the order of their names. */
  async #inOrder(bundle: SeriesBundle, { takes, takesUnits }: Selection): Promise<FoundSeries[]> {
    const { pacer, reading } = this.#setup;
    const found: FoundSeries[] = [];
    for (let index = 0; index < bundle.seriesCount; index++) {
      const [start, end] = [bundle.tagsOffset[index]!, bundle.tagsOffset[index + 1]!];
      const tagBytes = bundle.tagsData.subarray(start, end);
      const named = reading.named(decodeTags(tagBytes));
      const units = seriesUnits + (takesUnits?.(named.name.length) ?? 0);
      if (pacer.spend(units)) await pacer.pause();
      if (takes(named)) found.push({ index, tagBytes, ...named });
    }
    return await sortPaced(found, (a, b) => compareTexts(a.name, b.name), pacer.work);
  }
}

function selectionOf(
  { pathExpression, tagExpressions }: FetchRequest,
  storedTag: StoredTagName,
): Selection {
  if (tagExpressions !== null) {
    return { matchers: tagMatchers(tagExpressions, storedTag), takes: ({ isPath }) => !isPath };
  }
  if (pathExpression.includes(';')) return selectionOfTagged(pathExpression, storedTag);
  const pattern = parsePathPattern(pathExpression);
  const test = pathTest(pattern);
  return {
    matchers: pathMatchers(pattern),
    takes: ({ isPath, name }) => isPath && (test === null || test.takes(name)),
    takesUnits: (length) => test?.units(length) ?? 0,
  };
}

/** The one series of that name, as answers tell it. */
function selectionOfTagged(text: string, storedTag: StoredTagName): Selection {
  const path = taggedPath(text, storedTag);
  return {
    matchers: matchersOfPath(path),
    // Its tags are these and the name.
    takes: ({ tags, isPath }) => !isPath && tags.size === path.tags.size + 1,
  };
}
