/**
 * How rows of series are read: how far apart they are, and what several of one step come to, by the rules with paths that hold
 * now (docs/GRAPHITE.md, Rows of storage).
 */
import type { WindowType } from '#cluster/aggregation_rules/aggregation_types.ts';
import { pathRulesUnits, type RuleMatcher } from '#cluster/aggregation_rules/match.ts';
import {
  defaultRuleSet,
  type RuleSetsOverTime,
} from '#cluster/aggregation_rules/sets/over_time.ts';
import type { ReadColumn } from '#engine/aggregation/floats.ts';
import { nodeTag, pathOfTags } from '#lib/series_id/from_tags.ts';
import { decodeTags } from '#lib/tags.ts';
import type { UnixNanos } from '#lib/time.ts';
import type { ColumnBySeries } from '../../select/storage.ts';
import type { Reduction } from './rows.ts';

export interface SeriesReading {
  readonly stepSeconds: number;
  /** Null where no rule says it. */
  readonly reduction: Reduction | null;
}

const reductionOf: Readonly<Record<WindowType, Reduction>> = {
  Last: 'last',
  Mean: 'mean',
  Min: 'min',
  Max: 'max',
  Sum: 'sum',
  Count: 'count',
};

/** Graphite and M3 have the mean where nothing is said. */
const defaultReduction: Reduction = 'mean';

/** Of one request, which it remembers of each path. */
export class PathReadings implements ColumnBySeries {
  /** All that series may be read by. */
  readonly stepsSeconds: readonly number[];
  readonly #rulesCount: number;
  readonly #default: SeriesReading;
  readonly #matcher: RuleMatcher | null;
  readonly #known = new Map<string, SeriesReading>();

  /** @param stepSeconds of what no rule says anything of; whole */
  constructor(sets: RuleSetsOverTime, nowNanos: UnixNanos, stepSeconds: number) {
    const stretch = sets.named(defaultRuleSet)?.around(nowNanos) ?? null;
    const rules = (stretch?.rules.mappingRules ?? []).filter(({ path }) => path !== null);
    const steps = rules.flatMap(({ storagePolicies }) => {
      const resolutions = storagePolicies.map(({ resolutionNanos }) => secondsOf(resolutionNanos));
      return resolutions.length === 0 ? [] : [Math.min(...resolutions)];
    });
    this.stepsSeconds = [...new Set([stepSeconds, ...steps])];
    this.#rulesCount = rules.length;
    this.#matcher = rules.length === 0 ? null : stretch!.matcher;
    this.#default = { stepSeconds, reduction: null };
  }

  /** The column of windows. */
  of(tags: Uint8Array): ReadColumn {
    const reading = this.ofPath(pathOfTags(decodeTags(tags)));
    const reduction = reading.reduction ?? defaultReduction;
    return reduction === 'last' ? 'number' : reduction;
  }

  units(tagBytes: number): number {
    return pathRulesUnits(this.#rulesCount, tagBytes);
  }

  /** @param path null for series without one */
  ofPath(path: string | null): SeriesReading {
    if (path === null || this.#matcher === null) return this.#default;
    let reading = this.#known.get(path);
    if (reading === undefined) {
      const nodes = path.split('.').map((value, node) => ({ name: nodeTag(node), value }));
      const { stepNanos, aggregation } = this.#matcher.pathReading(nodes);
      reading = {
        stepSeconds: stepNanos === null ? this.#default.stepSeconds : secondsOf(stepNanos),
        reduction: aggregation === null ? null : reductionOf[aggregation],
      };
      this.#known.set(path, reading);
    }
    return reading;
  }
}

/** Rows are whole seconds apart. */
function secondsOf(nanos: bigint): number {
  return Math.ceil(Number(nanos) / 1e9);
}
