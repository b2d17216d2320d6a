/**
 * Where the evaluation of Graphite's language meets storage: paths are found by the tags of their nodes, other series by the
 * conditions of `seriesByTag`, and their rows are put on steps.
 */
import { bundleBytes } from '#cluster/node/bundle_pages.ts';
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { Decoder } from '#engine/store/decoder.ts';
import { decodeTags } from '#lib/tags.ts';
import { compareTexts } from '#lib/text_order.ts';
import { sortPaced } from '#lib/turns/paced.ts';
import type { Pacer } from '../../promql/rows/pacer.ts';
import type {
  Matcher,
  QueryStorage,
  SelectLimits,
  SelectRange,
  ThroughoutStorage,
} from '../../select/storage.ts';
import { dividedRange } from '../../select/throughout_source.ts';
import type { FetchedSeries, FetchRequest } from '../evaluate/context.ts';
import { parsePathPattern, pathMatchers, pathTest } from './path_pattern.ts';
import { rowsBySteps, type Steps, stepsOf } from './rows.ts';
import { type NamedSeries, namedSeries } from './series_names.ts';
import { tagMatchers } from './tag_matchers.ts';

export type GraphiteStorage = QueryStorage & ThroughoutStorage;

export interface ReaderSetup {
  readonly storage: GraphiteStorage;
  readonly limits: SelectLimits;
  /** Of its work, and the rows that it holds. */
  readonly pacer: Pacer;
  /** Step of samples. */
  readonly stepSeconds: number;
}

/** About what it takes to name a series, and to place a row, in units of work (lib/turns/turns.ts). */
const seriesUnits = 500;
const rowUnits = 6;
/** Value and mark of a row. */
const rowBytes = 9;

/** Tags of a series and where it stands in its bundle. */
interface FoundSeries extends NamedSeries {
  readonly index: number;
}

export class GraphiteReader {
  readonly #setup: ReaderSetup;
  /** Nothing keeps events yet. */
  readonly findEvents: null = null;
  /** What was not whole in what was read. */
  readonly warnings: Set<string> = new Set();
  isExhaustive = true;

  constructor(setup: ReaderSetup) {
    this.#setup = setup;
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
    const { pacer, storage, limits } = this.#setup;
    const { matchers, takes } = selectionOf(request);
    const { steps, isMean, windowsBeforeMillis } = this.#stepsOf(request);
    const range = rangeOf(steps);
    const found = await storage.selectThroughout(matchers, range, 'number', limits, signal);
    this.isExhaustive &&= found.exhaustive;
    for (const warning of found.warnings) this.warnings.add(warning);
    const series = await this.#inOrder(found.bundle, takes);
    using decoder = new Decoder();
    const list: FetchedSeries[] = [];
    for (const { index, name, tags } of series) {
      if (pacer.hold(steps.length, rowBytes)) await pacer.room();
      const count = decoder.decode(found.bundle, index, range.startNanos, range.endNanos);
      const { timestampMillis, values } = decoder;
      const rows = rowsBySteps(
        { count, timestampMillis, values },
        steps,
        windowsBeforeMillis,
        isMean,
      );
      list.push({
        name,
        tags,
        startSeconds: steps.startSeconds,
        stepSeconds: steps.stepSeconds,
        consolidation: 'average',
        values: rows.values,
        present: rows.present,
      });
      if (pacer.spend(rowUnits * (count + steps.length))) await pacer.pause();
    }
    pacer.give(bundleBytes(found.bundle));
    return list;
  }

  /** Series that `takes` takes, in the order of their names. */
  async #inOrder(
    bundle: SeriesBundle,
    takes: (series: NamedSeries) => boolean,
  ): Promise<FoundSeries[]> {
    const { pacer } = this.#setup;
    const found: FoundSeries[] = [];
    for (let index = 0; index < bundle.seriesCount; index++) {
      const [start, end] = [bundle.tagsOffset[index]!, bundle.tagsOffset[index + 1]!];
      const named = namedSeries(decodeTags(bundle.tagsData.subarray(start, end)));
      if (takes(named)) found.push({ index, ...named });
      if (pacer.spend(seriesUnits)) await pacer.pause();
    }
    return await sortPaced(found, (a, b) => compareTexts(a.name, b.name), pacer.work);
  }

  /** Where samples do not have all of a window, its rows are as far apart as the windows that do. */
  #stepsOf({ fromSeconds, untilSeconds }: FetchRequest): {
    readonly steps: Steps;
    readonly isMean: boolean;
    readonly windowsBeforeMillis: number;
  } {
    const { storage, stepSeconds } = this.#setup;
    const steps = stepsOf(fromSeconds, untilSeconds, stepSeconds);
    const divided = dividedRange(storage.timeline?.() ?? null, rangeOf(steps));
    if (divided === null) return { steps, isMean: false, windowsBeforeMillis: -Infinity };
    const coarse = Math.max(stepSeconds, Math.ceil(divided.of.resolutionMillis / 1000));
    const samplesFrom = divided.samples?.startNanos;
    return {
      steps: stepsOf(fromSeconds, untilSeconds, coarse),
      isMean: true,
      windowsBeforeMillis: samplesFrom === undefined ? Infinity : Number(samplesFrom / 1_000_000n),
    };
  }
}

/** Of all rows of the steps; a window that ends with the last one is among them. */
function rangeOf({ startSeconds, stepSeconds, length }: Steps): SelectRange {
  const endSeconds = startSeconds + stepSeconds * length;
  return {
    startNanos: BigInt(startSeconds) * 1_000_000_000n,
    endNanos: BigInt(endSeconds) * 1_000_000_000n,
  };
}

function selectionOf({ pathExpression, tagExpressions }: FetchRequest): {
  readonly matchers: readonly Matcher[];
  readonly takes: (series: NamedSeries) => boolean;
} {
  if (tagExpressions !== null) {
    return { matchers: tagMatchers(tagExpressions), takes: ({ isPath }) => !isPath };
  }
  const pattern = parsePathPattern(pathExpression);
  const test = pathTest(pattern);
  return {
    matchers: pathMatchers(pattern),
    takes: ({ isPath, name }) => isPath && (test === null || test(name)),
  };
}
