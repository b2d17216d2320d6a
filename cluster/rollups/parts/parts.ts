/**
 * What rows come to in windows of rollups, before it is added up and made values (docs/AGGREGATION.md, Rollups): a function of
 * stored rows, whoever computes it.
 */
import { queryOfFilter } from '../../aggregation_rules/filter_query.ts';
import type { WindowPart } from '../../aggregation_rules/rollups/accumulators.ts';
import {
  lookBackNanos,
  RollupMap,
  type WindowsRange,
} from '../../aggregation_rules/rollups/map.ts';
import type { Output } from '../../aggregation_rules/rollups/outputs.ts';
import { SeriesRoutes } from '../../aggregation_rules/rollups/series_routes.ts';
import {
  changeTransforms,
  hasTransform,
  isSamePolicy,
  type StoragePolicy,
} from '../../aggregation_rules/rules.ts';
import type { RuleSetsOverTime } from '../../aggregation_rules/sets/over_time.ts';
import type { Random } from '#lib/env/env.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import type { FloatsOfSeries, RowsRange } from './rows.ts';

/** Filters that series are looked for by; with more all series are. */
const filtersMax = 64;

/** Windows of one policy. */
export interface PartsAsked {
  readonly windows: WindowsRange;
  /** All rules that hold in them. */
  readonly sets: RuleSetsOverTime;
  /** Whether rows come late no longer; else only that they are on their way no longer. */
  readonly isFinal: boolean;
}

/** @param window its place */
export type PartsOfWindows = (window: number) => Iterable<readonly [Output, WindowPart]>;

/** An output may be given several times, by the parts that several series have in it. */
export interface RollupParts {
  /** @throws {TsdbError} when some are missing: nothing is left out */
  of(asked: PartsAsked, signal: AbortSignal): Promise<PartsOfWindows>;
}

/** Rows of series. */
export interface SeriesRows {
  /**
   * Each series that the query finds, once.
   * @param visit told a series' canonical tags, and how to have its rows, for as long as it runs
   * @param shards of storage, those whose series are meant; null for all
   */
  each(
    query: IndexQuery,
    range: RowsRange,
    visit: (tags: Uint8Array, rows: () => FloatsOfSeries) => void,
    signal: AbortSignal,
    shards: ReadonlySet<number> | null,
  ): Promise<void>;
}

/** Of rows that this process reads. */
export class StoredParts implements RollupParts {
  readonly #policy: StoragePolicy;
  readonly #rows: SeriesRows;
  readonly #shards: ReadonlySet<number> | null;
  readonly #routes: SeriesRoutes;

  /** @param shards of storage, whose series are meant; null for all */
  constructor(
    policy: StoragePolicy,
    rows: SeriesRows,
    random: Pick<Random, 'u32'>,
    shards: ReadonlySet<number> | null = null,
  ) {
    this.#policy = policy;
    this.#rows = rows;
    this.#shards = shards;
    this.#routes = new SeriesRoutes(policy, random);
  }

  async of({ windows, sets }: PartsAsked, signal: AbortSignal): Promise<PartsOfWindows> {
    const { resolutionNanos, firstEndNanos, windowCount } = windows;
    const fromNanos = firstEndNanos - resolutionNanos;
    const toNanos = fromNanos + BigInt(windowCount) * resolutionNanos;
    const map = new RollupMap(sets, windows, this.#routes);
    const targets = this.#targets(sets, fromNanos, toNanos);
    if (targets.size === 0) return () => [];
    const query = queryOf(targets);
    // Of more than is needed some may not be there to be read, and no window would be made.
    const looksBack = [...targets.values()].some(({ looksBack }) => looksBack);
    const backNanos = looksBack ? lookBackNanos(resolutionNanos) : 0n;
    // A window has its end, and not its begin.
    const range = { startNanos: fromNanos - backNanos + 1n, endNanos: toNanos + 1n };
    const visit = (tags: Uint8Array, rows: () => FloatsOfSeries): void => {
      const routes = map.routesOf(tags);
      if (routes === null) return;
      const { timestampNanos, values } = rows();
      if (timestampNanos.length > 0) map.add(routes, timestampNanos, values);
    };
    await this.#rows.each(query, range, visit, signal, this.#shards);
    return (window) => map.partsOf(window);
  }

  /** Filters of the rules of a time that roll series up for this policy. */
  #targets(
    sets: RuleSetsOverTime,
    fromNanos: bigint,
    toNanos: bigint,
  ): ReadonlyMap<string, FilterOfTargets> {
    const { resolutionNanos } = this.#policy;
    const filters = new Map<string, FilterOfTargets>();
    for (const rules of sets.all) {
      for (const stretch of rules.between(fromNanos, toNanos - resolutionNanos + 1n)) {
        for (const { targets, filter, filterText } of stretch.rules.rollupRules) {
          const ours = targets.filter(({ storagePolicies }) =>
            storagePolicies.some((policy) => isSamePolicy(policy, this.#policy)),
          );
          if (ours.length === 0) continue;
          const looksBack =
            filters.get(filterText)?.looksBack === true ||
            ours.some((target) => hasTransform(target, changeTransforms));
          filters.set(filterText, { query: queryOfFilter(filter), looksBack });
        }
      }
    }
    return filters;
  }
}

interface FilterOfTargets {
  readonly query: IndexQuery;
  /** By how much something has changed is told by what was before. */
  readonly looksBack: boolean;
}

/** Series that they may take, and others. */
function queryOf(filters: ReadonlyMap<string, FilterOfTargets>): IndexQuery {
  const queries = [...filters.values()].map(({ query }) => query);
  if (queries.length > filtersMax || queries.some(({ kind }) => kind === 'all')) {
    return { kind: 'all' };
  }
  return queries.length === 1 ? queries[0]! : { kind: 'disjunction', queries };
}
