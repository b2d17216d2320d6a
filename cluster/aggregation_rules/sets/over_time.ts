/** Which rules hold when: those of one set, and from when on a change of them can. */
import { digest128 } from '#lib/hashing/digest128.ts';
import type { Tags } from '#lib/tags.ts';
import { RuleMatcher } from '../match.ts';
import { cutoversOf, type RuleHistory, rulesAt, type RuleSet } from './set.ts';
import {
  hasTransform,
  isException,
  isSamePolicy,
  type MappingRule,
  type RollupRule,
  type Rules,
  saysWhere,
  type StoragePolicy,
  type TransformType,
  windowTypeOf,
} from '../rules.ts';
import { mappingRuleToJson } from './json.ts';

/** Until a change holds at least, so that every process has heard of it before. */
export const cutoverNoticeNanos: bigint = 60_000_000_000n;
/** Of that: clocks of who writes rules and who reads them may be so far apart. */
const clockDoubtNanos = cutoverNoticeNanos / 2n;
const aDayNanos = 86_400_000_000_000n;

/**
 * When a change that is made now comes to hold: where windows of all resolutions end, so that each is
 * of the rules that held when it began. Where that is further apart than a day, it is where those of
 * the coarsest do.
 * @param resolutions of the aggregated namespaces
 * @param aheadNanos of the clock, rows may be: they are written before they are of their time
 */
export function nextCutoverNanos(
  nowNanos: bigint,
  resolutions: Iterable<bigint>,
  aheadNanos: bigint = 0n,
): bigint {
  let coarsest = cutoverNoticeNanos;
  let common = cutoverNoticeNanos;
  for (const resolution of resolutions) {
    if (resolution > coarsest) coarsest = resolution;
    common = (common / commonDivisor(common, resolution)) * resolution;
  }
  const step = common <= aDayNanos ? common : coarsest;
  const earliest = nowNanos + cutoverNoticeNanos + aheadNanos;
  return ((earliest + step - 1n) / step) * step;
}

/**
 * Up to when rules are known to whom all are that were written before a time.
 * @param writtenNanos by this machine's clock
 */
export function rulesKnownUntil(writtenNanos: bigint): bigint {
  return writtenNanos + cutoverNoticeNanos - clockDoubtNanos;
}

function commonDivisor(a: bigint, b: bigint): bigint {
  return b === 0n ? a : commonDivisor(b, a % b);
}

/** A part of a range in which the same rules hold. */
export interface RulesStretch {
  readonly startNanos: bigint;
  readonly endNanos: bigint;
  readonly rules: Rules;
  readonly matcher: RuleMatcher;
}

/** A version of a rule, and when it holds. */
export interface HeldRule<R> {
  readonly rule: R;
  readonly startNanos: bigint;
  /** Exclusive. */
  readonly endNanos: bigint;
}

/** The rules of one set between its cut-overs; an index is made when it is first asked for. */
export class RulesOverTime {
  readonly #set: RuleSet;
  /** Ascending. */
  readonly #cutovers: readonly bigint[];
  /** By the number of cut-overs that were before. */
  readonly #matchers: (RuleMatcher | undefined)[] = [];
  readonly #rules: (Rules | undefined)[] = [];
  readonly #digests: (string | undefined)[] = [];
  #hasValueTypes: boolean | undefined;

  constructor(set: RuleSet) {
    this.#set = set;
    this.#cutovers = cutoversOf(set);
  }

  /** Whether one of them has ever dropped. */
  get hasDrops(): boolean {
    return this.#hasEver(({ drop }) => drop !== 'none');
  }

  /** Whether one of them has ever kept a series from where all are of which no rule says something else. */
  get hasExceptions(): boolean {
    return this.#hasEver(isException);
  }

  /** Whether windows have ever been something else than their last values where these are asked for. Every read asks. */
  get hasValueTypes(): boolean {
    return (this.#hasValueTypes ??= this.#hasEver(
      (rule) => rule.storagePolicies.length > 0 && (windowTypeOf(rule) ?? 'Last') !== 'Last',
    ));
  }

  #hasEver(is: (rule: MappingRule) => boolean): boolean {
    return this.#set.mappingRules.some(({ versions }) =>
      versions.some(({ rule }) => rule !== null && is(rule)),
    );
  }

  /** Policies that rollup rules name, or have named. */
  get rollupPolicies(): readonly StoragePolicy[] {
    return this.#set.rollupRules.flatMap(({ versions }) =>
      versions.flatMap(({ rule }) =>
        (rule?.targets ?? []).flatMap(({ storagePolicies }) => storagePolicies),
      ),
    );
  }

  /** Whether one of them has such a transform on its way to a policy's windows, or has had one. */
  hasTransform(policy: StoragePolicy, types: readonly TransformType[]): boolean {
    return this.#set.rollupRules.some(({ versions }) =>
      versions.some(({ rule }) =>
        (rule?.targets ?? []).some(
          (target) =>
            hasTransform(target, types) &&
            target.storagePolicies.some((each) => isSamePolicy(each, policy)),
        ),
      ),
    );
  }

  /** @param nanos when a window begins, which all of it is of the rules of */
  at(nanos: bigint): RuleMatcher {
    return this.#matcherOf(this.#numberOf(nanos));
  }

  /** Whether the same rules hold at two times. */
  isSame(a: bigint, b: bigint): boolean {
    return this.#numberOf(a) === this.#numberOf(b);
  }

  /** The rules of a time, from when on and how long they hold. */
  around(nanos: bigint): RulesStretch {
    const number = this.#numberOf(nanos);
    const startNanos = number === 0 ? beforeAllRules : this.#cutovers[number - 1]!;
    return this.#stretch(number, startNanos, this.#cutovers[number] ?? afterAllRules);
  }

  /** The rules of a range, the oldest first; the stretches have all of it between them. */
  between(startNanos: bigint, endNanos: bigint): RulesStretch[] {
    const stretches: RulesStretch[] = [];
    for (let at = startNanos; at < endNanos; at = stretches.at(-1)!.endNanos) {
      const number = this.#numberOf(at);
      const cutover = this.#cutovers[number] ?? endNanos;
      const end = cutover < endNanos ? cutover : endNanos;
      stretches.push(this.#stretch(number, at, end));
    }
    return stretches;
  }

  /** Versions of rules that hold somewhere in a range: for who asks when a few of many changed. */
  mappingRulesWithin(startNanos: bigint, endNanos: bigint): Generator<HeldRule<MappingRule>> {
    return heldWithin(this.#set.mappingRules, startNanos, endNanos);
  }

  /** As `mappingRulesWithin`. */
  rollupRulesWithin(startNanos: bigint, endNanos: bigint): Generator<HeldRule<RollupRule>> {
    return heldWithin(this.#set.rollupRules, startNanos, endNanos);
  }

  /** Tells the mapping rules of a range from others; '' when there are none in it. */
  mappingDigest(startNanos: bigint, endNanos: bigint): string {
    const parts: string[] = [];
    let isNone = true;
    for (let at = startNanos; at < endNanos; ) {
      const number = this.#numberOf(at);
      const digest = (this.#digests[number] ??= digestOf(this.#rulesOf(number)));
      if (digest !== '') isNone = false;
      parts.push(`${at}:${digest}`);
      at = this.#cutovers[number] ?? endNanos;
    }
    return isNone ? '' : digest128(parts.join(' '));
  }

  /** What it has is made when it is first asked for: there may be hundreds of stretches, of which a few are looked at. */
  #stretch(number: number, startNanos: bigint, endNanos: bigint): RulesStretch {
    const rulesOf = (): Rules => this.#rulesOf(number);
    const matcherOf = (): RuleMatcher => this.#matcherOf(number);
    return {
      startNanos,
      endNanos,
      get rules() {
        return rulesOf();
      },
      get matcher() {
        return matcherOf();
      },
    };
  }

  #matcherOf(number: number): RuleMatcher {
    return (this.#matchers[number] ??= new RuleMatcher(this.#rulesOf(number)));
  }

  #rulesOf(number: number): Rules {
    const nanos = number === 0 ? beforeAllRules : this.#cutovers[number - 1]!;
    return (this.#rules[number] ??= rulesAt(this.#set, nanos));
  }

  /** How many cut-overs were before. */
  #numberOf(nanos: bigint): number {
    let low = 0;
    for (let high = this.#cutovers.length; low < high; ) {
      const middle = (low + high) >> 1;
      if (this.#cutovers[middle]! <= nanos) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

const beforeAllRules = -(2n ** 63n);
const afterAllRules = 2n ** 63n - 1n;

function* heldWithin<R>(
  histories: readonly RuleHistory<R>[],
  startNanos: bigint,
  endNanos: bigint,
): Generator<HeldRule<R>> {
  for (const { versions } of histories) {
    for (const [at, { rule, cutoverNanos }] of versions.entries()) {
      const pastNanos = versions[at + 1]?.cutoverNanos ?? afterAllRules;
      if (rule === null || cutoverNanos >= endNanos || pastNanos <= startNanos) continue;
      yield { rule, startNanos: cutoverNanos, endNanos: pastNanos };
    }
  }
}

function digestOf({ mappingRules }: Rules): string {
  const places = mappingRules.filter(saysWhere);
  if (places.length === 0) return '';
  return digest128(JSON.stringify(places.map(mappingRuleToJson)));
}

/** Names the set of a series, of which it is a tag like others, and may be written; without it that is `defaultRuleSet`. */
export const ruleSetTag = '__m3_namespace__';
export const defaultRuleSet = 'default';

/** All sets, by their names. */
export class RuleSetsOverTime {
  readonly #sets: ReadonlyMap<string, RulesOverTime>;

  constructor(sets: ReadonlyMap<string, RulesOverTime>) {
    this.#sets = sets;
  }

  get isEmpty(): boolean {
    return this.#sets.size === 0;
  }

  get all(): readonly RulesOverTime[] {
    return [...this.#sets.values()];
  }

  /** Null where there is none for a series. */
  of(tags: Tags): RulesOverTime | null {
    return this.named(tags.find((tag) => tag.name === ruleSetTag)?.value ?? defaultRuleSet);
  }

  named(name: string): RulesOverTime | null {
    return this.#sets.get(name) ?? null;
  }

  /** As that of one set; '' when none has mapping rules in the range. */
  mappingDigest(startNanos: bigint, endNanos: bigint): string {
    const parts = [...this.#sets].flatMap(([name, rules]) => {
      const digest = rules.mappingDigest(startNanos, endNanos);
      return digest === '' ? [] : [`${name} ${digest}`];
    });
    return parts.length === 0 ? '' : digest128(parts.sort().join('\n'));
  }
}

export const noRuleSets: RuleSetsOverTime = new RuleSetsOverTime(new Map());
