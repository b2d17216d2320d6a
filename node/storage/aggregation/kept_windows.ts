/** Which windows of a slice a series has, by the rules that hold when each of them begins. */
import {
  keepsWindows,
  type MappingTarget,
  type RuleMatcher,
} from '#cluster/aggregation_rules/match.ts';
import type {
  RulesOverTime,
  RuleSetsOverTime,
} from '#cluster/aggregation_rules/rules_over_time.ts';
import { decodeTags } from '#lib/tags.ts';
import type { Slice } from './slices.ts';

/** An aggregated namespace. */
export interface KeptTarget extends MappingTarget {
  readonly resolutionNanos: bigint;
}

/** Windows of the slice of which the same rules of a set say whether a series has them. */
interface Part extends Slice {
  readonly matcher: RuleMatcher;
}

export class KeptWindows {
  readonly #sets: RuleSetsOverTime;
  readonly #target: KeptTarget;
  readonly #slice: Slice;
  readonly #all: readonly Slice[];
  readonly #parts = new Map<RulesOverTime, readonly Part[]>();

  constructor(sets: RuleSetsOverTime, target: KeptTarget, slice: Slice) {
    this.#sets = sets;
    this.#target = target;
    this.#slice = slice;
    this.#all = target.takesAll ? [slice] : [];
  }

  /**
   * Ranges of ends of windows, ascending; those that touch are one.
   * @param tags canonical
   */
  of(tags: Uint8Array): readonly Slice[] {
    if (this.#sets.isEmpty) return this.#all;
    const decoded = decodeTags(tags);
    const rules = this.#sets.of(decoded);
    if (rules === null) return this.#all;
    const kept: Slice[] = [];
    for (const { startNanos, endNanos, matcher } of this.#partsOf(rules)) {
      if (!keepsWindows(matcher.matchMappings(decoded), this.#target)) continue;
      const last = kept.at(-1);
      if (last?.endNanos === startNanos) kept[kept.length - 1] = { ...last, endNanos };
      else kept.push({ startNanos, endNanos });
    }
    return kept;
  }

  #partsOf(rules: RulesOverTime): readonly Part[] {
    const known = this.#parts.get(rules);
    if (known !== undefined) return known;
    const { resolutionNanos } = this.#target;
    const { startNanos, endNanos } = this.#slice;
    // A window is of the rules of its begin, whatever comes to hold before its end; times are after 1970.
    const begins = rules.between(startNanos - resolutionNanos, endNanos - resolutionNanos);
    const endOf = (beginNanos: bigint): bigint => {
      const windows = (beginNanos + resolutionNanos - 1n) / resolutionNanos;
      return (windows + 1n) * resolutionNanos;
    };
    const parts = begins
      .map((stretch) => ({
        startNanos: endOf(stretch.startNanos),
        endNanos: endOf(stretch.endNanos),
        matcher: stretch.matcher,
      }))
      .filter((part) => part.startNanos < part.endNanos);
    this.#parts.set(rules, parts);
    return parts;
  }
}

/** Tells the rules by which the windows of a slice are kept from others; '' when there are none. */
export function rulesDigestOf(
  sets: RuleSetsOverTime,
  { resolutionNanos }: KeptTarget,
  { startNanos, endNanos }: Slice,
): string {
  return sets.mappingDigest(startNanos - resolutionNanos, endNanos - resolutionNanos);
}
