/** As what the windows of a range are read where their values are asked for, by the rules that hold when each begins. */
import { decodeTags } from '#lib/tags.ts';
import type { WindowType } from '../aggregation_types.ts';
import { RuleMatcher, valueTypeOf } from '../match.ts';
import {
  type MappingRule,
  namesPolicy,
  saysWhere,
  type StoragePolicy,
  windowTypeOf,
} from '../rules.ts';
import { type EndsRange, firstEndFrom } from './kept_windows.ts';
import type { HeldRule, RulesOverTime, RuleSetsOverTime } from './over_time.ts';

/** Windows that are read as one type. */
export interface WindowsOfType extends EndsRange {
  readonly type: WindowType;
}

/** Whether a rule may be about series that are asked for. */
export type IsAbout = (rule: MappingRule) => boolean;

/** Windows up to the next part, or to the end of the range, of which rules say the same. */
interface Part {
  /** Of ends. */
  readonly startNanos: bigint;
  /** When its first window begins. */
  readonly beginNanos: bigint;
  /** Rules without which its windows might be read as something else; none where all are read as their last values. */
  readonly deciding: readonly MappingRule[];
  matcher: RuleMatcher | null;
}

/** About what it takes to find the rules of a series, in units of work (lib/turns/turns.ts). */
const seriesUnits = 1_000;
/** Rules that are looked at between two turns, of some ten nanoseconds each, but for those that patterns are tried of. */
const rulesOfStep = 4_096;
/** So few rules have an index of their own, for one reading; that of all rules of a time is kept for all. */
const ownIndexMax = 256;

export class TypesOfWindows {
  readonly #policy: StoragePolicy;
  readonly #range: EndsRange;
  readonly #sets: RuleSetsOverTime;
  /** Without sets whose windows are all read as their last values. */
  readonly #parts: ReadonlyMap<RulesOverTime, readonly Part[]>;

  private constructor(
    sets: RuleSetsOverTime,
    policy: StoragePolicy,
    range: EndsRange,
    parts: ReadonlyMap<RulesOverTime, readonly Part[]>,
  ) {
    this.#sets = sets;
    this.#policy = policy;
    this.#range = range;
    this.#parts = parts;
  }

  /**
   * In steps, for there may be many rules, which change often.
   * @param policy of the windows
   * @returns null where all are read as their last values
   */
  static *inSteps(
    sets: RuleSetsOverTime,
    policy: StoragePolicy,
    range: EndsRange,
    isAbout: IsAbout,
  ): Generator<void, TypesOfWindows | null> {
    const all = new Map<RulesOverTime, readonly Part[]>();
    for (const rules of sets.all) {
      if (!rules.hasValueTypes) continue;
      const relevant = yield* relevantOf(rules, policy, range, isAbout);
      const parts = yield* partsOf(relevant, policy, range);
      if (parts.some(({ deciding }) => deciding.length > 0)) all.set(rules, parts);
    }
    return all.size === 0 ? null : new TypesOfWindows(sets, policy, range, all);
  }

  /**
   * All windows of the range, the first ones first; those that touch are of two types. In steps, each of which says about what
   * the next one takes, in units of work.
   * @param tags canonical
   */
  *of(tags: Uint8Array): Generator<number, readonly WindowsOfType[]> {
    yield seriesUnits;
    const decoded = decodeTags(tags);
    const rules = this.#sets.of(decoded);
    const parts = rules === null ? undefined : this.#parts.get(rules);
    if (parts === undefined) return [{ ...this.#range, type: 'Last' }];
    const found: { readonly startNanos: bigint; readonly type: WindowType }[] = [];
    for (const part of parts) {
      let type: WindowType = 'Last';
      if (part.deciding.length > 0) {
        const matcher = (part.matcher ??= matcherOf(part, rules!));
        yield matcher.mappingUnits(tags.length);
        type = valueTypeOf(matcher.matchMappings(decoded), this.#policy);
      }
      if (found.at(-1)?.type !== type) found.push({ startNanos: part.startNanos, type });
    }
    return found.map((part, at) => ({
      ...part,
      endNanos: found[at + 1]?.startNanos ?? this.#range.endNanos,
    }));
  }
}

function matcherOf({ deciding, beginNanos }: Part, rules: RulesOverTime): RuleMatcher {
  if (deciding.length > ownIndexMax) return rules.at(beginNanos);
  return new RuleMatcher({ mappingRules: deciding, rollupRules: [] });
}

/** Begins of the windows that end in a range. */
function beginsOf({ resolutionNanos }: StoragePolicy, { startNanos, endNanos }: EndsRange) {
  return { fromNanos: startNanos - resolutionNanos, pastNanos: endNanos - resolutionNanos };
}

/** Rules that may decide about windows of the policy; none where none of them has another type than `Last`. */
function* relevantOf(
  rules: RulesOverTime,
  policy: StoragePolicy,
  range: EndsRange,
  isAbout: IsAbout,
): Generator<void, readonly HeldRule<MappingRule>[]> {
  const { fromNanos, pastNanos } = beginsOf(policy, range);
  const relevant: HeldRule<MappingRule>[] = [];
  let [hasTypes, count] = [false, 0];
  for (const held of rules.mappingRulesWithin(fromNanos, pastNanos)) {
    const { rule } = held;
    if (++count % rulesOfStep === 0) yield;
    const isTyped = isTypedFor(rule, policy);
    // One that must drop is in the way of all, and of those with paths one that matches of others.
    const mayDecide = isTyped || rule.drop === 'must' || (rule.path !== null && saysWhere(rule));
    if (!mayDecide || !isAbout(rule)) continue;
    relevant.push(held);
    hasTypes ||= isTyped && windowTypeOf(rule) !== 'Last';
  }
  return hasTypes ? relevant : [];
}

function* partsOf(
  relevant: readonly HeldRule<MappingRule>[],
  policy: StoragePolicy,
  range: EndsRange,
): Generator<void, readonly Part[]> {
  const { resolutionNanos } = policy;
  const { fromNanos, pastNanos } = beginsOf(policy, range);
  const changes = new Set([fromNanos]);
  for (const held of relevant) {
    for (const nanos of [held.startNanos, held.endNanos]) {
      if (nanos > fromNanos && nanos < pastNanos) changes.add(nanos);
    }
  }
  const begins = [...changes].sort((a, b) => (a < b ? -1 : 1));
  const parts: Part[] = [];
  for (const [at, beginNanos] of begins.entries()) {
    if (at > 0) yield;
    const startNanos = firstEndFrom(beginNanos, resolutionNanos);
    // Rules that held for so short a time that no window began in it.
    if (startNanos >= firstEndFrom(begins[at + 1] ?? pastNanos, resolutionNanos)) continue;
    const active = relevant.filter(
      (held) => held.startNanos <= beginNanos && held.endNanos > beginNanos,
    );
    const deciding = decidingOf(
      active.map(({ rule }) => rule),
      policy,
    );
    const before = parts.at(-1);
    if (before !== undefined && areSame(before.deciding, deciding)) continue;
    parts.push({
      startNanos: before === undefined ? range.startNanos : startNanos,
      beginNanos,
      deciding,
      matcher: null,
    });
  }
  return parts;
}

function isTypedFor(rule: MappingRule, policy: StoragePolicy): boolean {
  return windowTypeOf(rule) !== null && namesPolicy(rule, policy);
}

/** Of rules that may decide those without which windows might be read as something else; none where all are read as `Last`. */
function decidingOf(rules: readonly MappingRule[], policy: StoragePolicy): readonly MappingRule[] {
  const typed = rules.filter((rule) => isTypedFor(rule, policy));
  if (typed.every((rule) => windowTypeOf(rule) === 'Last')) return [];
  // Rules with paths are in the way of each other alone.
  const deciding = rules.filter((rule) => isTypedFor(rule, policy) || rule.drop === 'must');
  return deciding.every(({ path }) => path === null) ? deciding : rules;
}

function areSame(some: readonly MappingRule[], others: readonly MappingRule[]): boolean {
  return some.length === others.length && some.every((rule, at) => rule === others[at]);
}
