/** Which windows of a range a series has, by the rules that hold when each of them begins. */
import { decodeTags } from '#lib/tags.ts';
import { keepsWindows, type MappingTarget, type RuleMatcher } from '../match.ts';
import type { RulesOverTime, RuleSetsOverTime } from './over_time.ts';

/** Of ends of windows. */
export interface EndsRange {
  readonly startNanos: bigint;
  /** Exclusive. */
  readonly endNanos: bigint;
}

/** An aggregated namespace. */
export interface KeptTarget extends MappingTarget {
  readonly resolutionNanos: bigint;
}

/** Windows of the range of which the same rules of a set say whether a series has them. */
interface Part extends EndsRange {
  readonly matcher: RuleMatcher;
}

export class KeptWindows {
  readonly #sets: RuleSetsOverTime;
  readonly #target: KeptTarget;
  readonly #range: EndsRange;
  readonly #all: readonly EndsRange[];
  readonly #parts = new Map<RulesOverTime, readonly Part[]>();

  constructor(sets: RuleSetsOverTime, target: KeptTarget, range: EndsRange) {
    this.#sets = sets;
    this.#target = target;
    this.#range = range;
    this.#all = target.takesAll ? [range] : [];
  }

  /**
   * Ranges of ends of windows, ascending; those that touch are one.
   * @param tags canonical
   */
  of(tags: Uint8Array): readonly EndsRange[] {
    const steps = this.steps(tags);
    for (;;) {
      const step = steps.next();
      if (step.done === true) return step.value;
    }
  }

  /** The same, a set of rules at a time: they may have many conditions, and change often. */
  *steps(tags: Uint8Array): Generator<undefined, readonly EndsRange[]> {
    if (this.#sets.isEmpty) return this.#all;
    const decoded = decodeTags(tags);
    const rules = this.#sets.of(decoded);
    if (rules === null) return this.#all;
    const kept: EndsRange[] = [];
    for (const { startNanos, endNanos, matcher } of this.#partsOf(rules)) {
      yield;
      if (!keepsWindows(matcher.matchMappings(decoded), this.#target)) continue;
      const last = kept.at(-1);
      if (last?.endNanos === startNanos) kept[kept.length - 1] = { ...last, endNanos };
      else kept.push({ startNanos, endNanos });
    }
    return kept;
  }

  /** About what `of` takes at most, in units of work (lib/turns/turns.ts). @param tagBytes of the series */
  units(tagBytes: number): number {
    const all = this.#sets.all.map((rules) =>
      this.#partsOf(rules).reduce((sum, part) => sum + part.matcher.mappingUnits(tagBytes), 0),
    );
    return Math.max(0, ...all);
  }

  #partsOf(rules: RulesOverTime): readonly Part[] {
    const known = this.#parts.get(rules);
    if (known !== undefined) return known;
    const { resolutionNanos } = this.#target;
    const { startNanos, endNanos } = this.#range;
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

/** Tells the rules by which the windows of a range are kept from others; '' when there are none. */
export function rulesDigestOf(
  sets: RuleSetsOverTime,
  { resolutionNanos }: KeptTarget,
  { startNanos, endNanos }: EndsRange,
): string {
  return sets.mappingDigest(startNanos - resolutionNanos, endNanos - resolutionNanos);
}
