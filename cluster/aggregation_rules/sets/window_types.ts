/** As what the windows of a range are read where their values are asked for, by the rules that hold when each begins. */
import { decodeTags } from '#lib/tags.ts';
import type { WindowType } from '../aggregation_types.ts';
import { type RuleMatcher, valueTypeOf } from '../match.ts';
import {
  type MappingRule,
  namesPolicy,
  type Rules,
  type StoragePolicy,
  windowTypeOf,
} from '../rules.ts';
import { type EndsRange, partsByRules } from './kept_windows.ts';
import type { RulesOverTime, RuleSetsOverTime } from './over_time.ts';

/** Windows that are read as one type. */
export interface WindowsOfType extends EndsRange {
  readonly type: WindowType;
}

/** Windows up to the next part, or to the end of the range, of which rules say the same. */
interface Part {
  /** Of ends. */
  readonly startNanos: bigint;
  readonly deciding: readonly MappingRule[];
  /** Null where it need not be asked: all are read as their last values. */
  readonly matcher: RuleMatcher | null;
}

export class TypesOfWindows {
  readonly #sets: RuleSetsOverTime;
  readonly #policy: StoragePolicy;
  readonly #range: EndsRange;
  readonly #parts = new Map<RulesOverTime, readonly Part[]>();

  /** @param policy of the windows */
  constructor(sets: RuleSetsOverTime, policy: StoragePolicy, range: EndsRange) {
    this.#sets = sets;
    this.#policy = policy;
    this.#range = range;
  }

  /**
   * All windows of the range, the first ones first; those that touch are of two types.
   * @param tags canonical
   */
  of(tags: Uint8Array): readonly WindowsOfType[] {
    const decoded = decodeTags(tags);
    const rules = this.#sets.of(decoded);
    if (rules === null) return [{ ...this.#range, type: 'Last' }];
    const found: { readonly startNanos: bigint; readonly type: WindowType }[] = [];
    for (const { startNanos, matcher } of this.#partsOf(rules)) {
      const type =
        matcher === null ? 'Last' : valueTypeOf(matcher.matchMappings(decoded), this.#policy);
      if (found.at(-1)?.type !== type) found.push({ startNanos, type });
    }
    return found.map((part, at) => ({
      ...part,
      endNanos: found[at + 1]?.startNanos ?? this.#range.endNanos,
    }));
  }

  /** About what that takes at most, in units of work (lib/turns/turns.ts). @param tagBytes of the series */
  units(tagBytes: number): number {
    const all = this.#sets.all.map((rules) =>
      this.#partsOf(rules).reduce(
        (sum, { matcher }) => sum + (matcher?.mappingUnits(tagBytes) ?? 0),
        0,
      ),
    );
    return Math.max(0, ...all);
  }

  #partsOf(rules: RulesOverTime): readonly Part[] {
    const known = this.#parts.get(rules);
    if (known !== undefined) return known;
    const parts: Part[] = [];
    const { resolutionNanos } = this.#policy;
    for (const { startNanos, stretch } of partsByRules(rules, resolutionNanos, this.#range)) {
      const deciding = decidingOf(stretch.rules, this.#policy);
      const before = parts.at(-1);
      if (before !== undefined && areSame(before.deciding, deciding)) continue;
      parts.push({
        startNanos: before === undefined ? this.#range.startNanos : startNanos,
        deciding,
        matcher: deciding.length === 0 ? null : stretch.matcher,
      });
    }
    this.#parts.set(rules, parts);
    return parts;
  }
}

/** Rules without which windows of a policy might be read as something else, in their order; none where all are read as `Last`. */
function decidingOf({ mappingRules }: Rules, policy: StoragePolicy): readonly MappingRule[] {
  const typed = new Set(
    mappingRules.filter((rule) => windowTypeOf(rule) !== null && namesPolicy(rule, policy)),
  );
  if ([...typed].every((rule) => windowTypeOf(rule) === 'Last')) return [];
  // One that must drop is in the way of all, and of those with paths one that matches of others.
  const deciding = mappingRules.filter((rule) => typed.has(rule) || rule.drop === 'must');
  if (deciding.every(({ path }) => path === null)) return deciding;
  const known = new Set(deciding);
  return mappingRules.filter((rule) => rule.path !== null || known.has(rule));
}

function areSame(some: readonly MappingRule[], others: readonly MappingRule[]): boolean {
  return some.length === others.length && some.every((rule, at) => rule === others[at]);
}
