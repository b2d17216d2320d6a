/** Which windows of a range a series has, by the rules that hold when each of them begins. */
import { decodeTags } from '#lib/tags.ts';
import { keepsWindows, type MappingTarget } from '../match.ts';
import type { RulesOverTime, RuleSetsOverTime, RulesStretch } from './over_time.ts';

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

/** Windows that are of the same rules of a set. */
interface RulesPart extends EndsRange {
  readonly stretch: RulesStretch;
}

/** The end of the first window that begins at a time or behind it, which is after 1970. */
export function firstEndFrom(nanos: bigint, resolutionNanos: bigint): bigint {
  const windows = (nanos + resolutionNanos - 1n) / resolutionNanos;
  return (windows + 1n) * resolutionNanos;
}

/** The windows of a range by the rules that hold when they begin, the first ones first. */
function partsByRules(
  rules: RulesOverTime,
  resolutionNanos: bigint,
  { startNanos, endNanos }: EndsRange,
): RulesPart[] {
  // A window is of the rules of its begin, whatever comes to hold before its end.
  const begins = rules.between(startNanos - resolutionNanos, endNanos - resolutionNanos);
  return begins
    .map((stretch) => ({
      startNanos: firstEndFrom(stretch.startNanos, resolutionNanos),
      endNanos: firstEndFrom(stretch.endNanos, resolutionNanos),
      stretch,
    }))
    .filter((part) => part.startNanos < part.endNanos);
}

export class KeptWindows {
  readonly #sets: RuleSetsOverTime;
  readonly #target: KeptTarget;
  readonly #range: EndsRange;
  readonly #all: readonly EndsRange[];
  readonly #parts = new Map<RulesOverTime, readonly RulesPart[]>();

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
    for (const { startNanos, endNanos, stretch } of this.#partsOf(rules)) {
      yield;
      if (!keepsWindows(stretch.matcher.matchMappings(decoded), this.#target)) continue;
      const last = kept.at(-1);
      if (last?.endNanos === startNanos) kept[kept.length - 1] = { ...last, endNanos };
      else kept.push({ startNanos, endNanos });
    }
    return kept;
  }

  /** About what `of` takes at most, in units of work (lib/turns/turns.ts). @param tagBytes of the series */
  units(tagBytes: number): number {
    const all = this.#sets.all.map((rules) =>
      this.#partsOf(rules).reduce(
        (sum, { stretch }) => sum + stretch.matcher.mappingUnits(tagBytes),
        0,
      ),
    );
    return Math.max(0, ...all);
  }

  #partsOf(rules: RulesOverTime): readonly RulesPart[] {
    let parts = this.#parts.get(rules);
    if (parts === undefined) {
      parts = partsByRules(rules, this.#target.resolutionNanos, this.#range);
      this.#parts.set(rules, parts);
    }
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
