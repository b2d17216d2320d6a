/**
 * Which namespace a series is read from, by the rules of the time (docs/AGGREGATION.md, Series that are not everywhere):
 * samples and what takes all have each one that no rule drops, an aggregated one those that rules name its policy for.
 */
import type { Filter, TagValues } from '#cluster/aggregation_rules/filter.ts';
import { keepsWindows, rollupTag, ruleTagPrefix } from '#cluster/aggregation_rules/match.ts';
import {
  metricNameTemplate,
  type MappingRule,
  type RollupRule,
  type RollupTarget,
  type Rules,
} from '#cluster/aggregation_rules/rules.ts';
import type {
  RulesOverTime,
  RuleSetsOverTime,
  RulesStretch,
} from '#cluster/aggregation_rules/rules_over_time.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import { decodeTags, metricNameTag, type Tags } from '#lib/tags.ts';
import { nanosPerMilli } from '#lib/time.ts';
import type {
  Matcher,
  Resolution,
  Restriction,
  SeriesPart,
  SeriesPlaces,
  StoragePolicy,
} from './storage.ts';

/** A query is cut at so many changes of rules at most: the last ones. */
const changesMax = 16;
/** Drop rules that a query is narrowed by; with more it is asked for all that its matchers take. */
const narrowingFiltersMax = 64;

/** A resolution as rules name it. */
export interface PlacedResolution extends Resolution {
  readonly policy: StoragePolicy;
}

type Source = PlacedResolution | null;

export class PlacesByRules implements SeriesPlaces {
  readonly #sets: RuleSetsOverTime;
  readonly #byName: ReadonlyMap<string, PlacedResolution>;

  constructor(sets: RuleSetsOverTime, resolutions: readonly PlacedResolution[]) {
    this.#sets = sets;
    this.#byName = new Map(resolutions.map((each) => [each.namespace, each]));
  }

  changes(
    matcherLists: readonly (readonly Matcher[])[],
    fromMillis: number,
    toMillis: number,
  ): readonly number[] {
    const changes = new Set<number>();
    for (const rules of this.#sets.all) {
      const stretches = rules.between(nanosOf(fromMillis), nanosOf(toMillis));
      let before = stretches[0]?.rules;
      for (const { startNanos, rules: after } of stretches.slice(1)) {
        if (isChangeFor(before!, after, matcherLists)) {
          changes.add(Number(startNanos / nanosPerMilli));
        }
        before = after;
      }
    }
    return [...changes].sort((a, b) => a - b).slice(-changesMax);
  }

  parts(
    matcherLists: readonly (readonly Matcher[])[],
    sources: readonly (Resolution | null)[],
    fromMillis: number,
    toMillis: number,
  ): readonly SeriesPart[] {
    const [only, ...others] = sources;
    if (only !== undefined && others.length === 0) return [{ of: only, restriction: null }];
    const rules = this.#relevant(matcherLists, nanosOf(fromMillis), nanosOf(toMillis) + 1n);
    const placed = sources.map((of) => (of === null ? null : this.#byName.get(of.namespace)!));
    const base = placed.findIndex(takesAll);
    // Others than rules may have put something into one that does not take all.
    const needed = placed.filter(
      (source, at) => at === base || (source !== null && (!source.takesAll || rules.names(source))),
    );
    if (needed.length === 1) return [{ of: needed[0]!, restriction: null }];
    const chosen = new ChosenSources(needed, this.#sets, rules.stretches);
    const key = `${fromMillis}-${toMillis} ${needed.map((source) => source?.namespace ?? '').join()}`;
    const basePlace = needed.findIndex(takesAll);
    return needed.map((of, place): SeriesPart => {
      const restriction: Restriction = {
        key: `${place} of ${key}`,
        takes: (tags) => chosen.of(tags) === place,
        within: basePlace >= 0 && place > basePlace ? rules.exceptions : null,
      };
      return { of, restriction };
    });
  }

  kept({ namespace }: Resolution, atMillis: number): Restriction {
    const source = this.#byName.get(namespace)!;
    const atNanos = nanosOf(atMillis);
    return {
      key: `kept in ${namespace} at ${atMillis}`,
      takes: (tags) => {
        const decoded = decodeTags(tags);
        const matcher = this.#sets.of(decoded)?.at(atNanos) ?? null;
        if (matcher === null) return source.takesAll;
        return keepsWindows(matcher.matchMappings(decoded), source);
      },
      within: null,
    };
  }

  #relevant(
    matcherLists: readonly (readonly Matcher[])[],
    fromNanos: bigint,
    toNanos: bigint,
  ): RelevantRules {
    const stretches = new Map<RulesOverTime, readonly RulesStretch[]>();
    for (const rules of this.#sets.all) stretches.set(rules, rules.between(fromNanos, toNanos));
    return new RelevantRules(stretches, matcherLists);
  }
}

function nanosOf(millis: number): bigint {
  return BigInt(Math.floor(millis)) * nanosPerMilli;
}

const takesAll = (source: Source): boolean => source === null || source.takesAll;

/** Rules of a range of time that may be about series that matchers take. */
class RelevantRules {
  readonly stretches: ReadonlyMap<RulesOverTime, readonly RulesStretch[]>;
  readonly #policies = new Set<string>();
  readonly #drops: MappingRule[] = [];

  constructor(
    stretches: ReadonlyMap<RulesOverTime, readonly RulesStretch[]>,
    matcherLists: readonly (readonly Matcher[])[],
  ) {
    this.stretches = stretches;
    const seen = new Set<MappingRule | RollupRule>();
    for (const { rules } of [...stretches.values()].flat()) {
      for (const rule of rules.mappingRules) {
        if (seen.has(rule)) continue;
        seen.add(rule);
        if (!mayTake(rule.filter, matcherLists)) continue;
        if (rule.drop !== 'none') this.#drops.push(rule);
        for (const policy of rule.storagePolicies) this.#policies.add(keyOf(policy));
      }
      for (const rule of rules.rollupRules) {
        if (seen.has(rule)) continue;
        seen.add(rule);
        for (const target of rule.targets) {
          if (!mayMake(target, matcherLists)) continue;
          for (const policy of target.storagePolicies) this.#policies.add(keyOf(policy));
        }
      }
    }
  }

  /** Whether one of them names the policy of a namespace. */
  names({ policy }: PlacedResolution): boolean {
    return this.#policies.has(keyOf(policy));
  }

  /** Series that are not wherever all are; null when they cannot be told by few conditions. */
  get exceptions(): IndexQuery | null {
    if (this.#drops.length > narrowingFiltersMax) return null;
    const rollups: IndexQuery = { kind: 'term', field: rollupTag, term: 'true' };
    const drops = this.#drops.map(({ filter }) => queryOf(filter));
    return drops.length === 0 ? rollups : { kind: 'disjunction', queries: [rollups, ...drops] };
  }
}

function keyOf({ resolutionNanos, retentionNanos }: StoragePolicy): string {
  return `${resolutionNanos}:${retentionNanos}`;
}

/** Series that a filter may match, and others. */
function queryOf(filter: Filter): IndexQuery {
  const queries = filter.flatMap(({ name, pattern }): IndexQuery[] => {
    const { values } = pattern;
    if (values !== null) {
      const terms = values.map((term): IndexQuery => ({ kind: 'term', field: name, term }));
      return terms.length === 1 ? terms : [{ kind: 'disjunction', queries: terms }];
    }
    // The pattern of a metric's name may match one that is not there.
    return name === metricNameTag ? [] : [{ kind: 'field', field: name }];
  });
  if (queries.length === 0) return { kind: 'all' };
  return queries.length === 1 ? queries[0]! : { kind: 'conjunction', queries };
}

/** Whether a filter may match what one of the lists takes. */
function mayTake(filter: Filter, matcherLists: readonly (readonly Matcher[])[]): boolean {
  if (matcherLists.length === 0) return true;
  return matcherLists.some((matchers) =>
    filter.every(({ name, pattern }) =>
      matchers.every((matcher) => {
        if (matcher.name !== name || matcher.kind !== '=') return true;
        // What a series has not got no pattern matches, but for the metric's name.
        if (matcher.value === '' && name !== metricNameTag) return false;
        return pattern.matches(matcher.value);
      }),
    ),
  );
}

/** Whether what a target makes may be what one of the lists takes. */
function mayMake(target: RollupTarget, matcherLists: readonly (readonly Matcher[])[]): boolean {
  if (matcherLists.length === 0) return true;
  const output = outputOf(target);
  if (output === null) return true;
  return matcherLists.some((matchers) =>
    matchers.every(({ name, kind, value }) => {
      if (kind !== '=') return true;
      if (name === metricNameTag) return isNameOf(output.metricName, value);
      return name !== rollupTag || value === 'true';
    }),
  );
}

/** What is stored is made by the last rollup of a target. */
function outputOf({ operations }: RollupTarget) {
  return operations.findLast((operation) => operation.type === 'rollup') ?? null;
}

function isNameOf(template: string, name: string): boolean {
  const at = template.indexOf(metricNameTemplate);
  if (at < 0) return template === name;
  const [before, after] = [template.slice(0, at), template.slice(at + metricNameTemplate.length)];
  const isLongEnough = name.length >= before.length + after.length;
  return isLongEnough && name.startsWith(before) && name.endsWith(after);
}

function isChangeFor(
  before: Rules,
  after: Rules,
  matcherLists: readonly (readonly Matcher[])[],
): boolean {
  const mappings = changed(before.mappingRules, after.mappingRules);
  if (mappings.some(({ filter }) => mayTake(filter, matcherLists))) return true;
  const rollups = changed(before.rollupRules, after.rollupRules);
  return rollups.some(({ targets }) => targets.some((target) => mayMake(target, matcherLists)));
}

/** Those that are in one of two lists alone. */
function changed<Rule>(before: readonly Rule[], after: readonly Rule[]): Rule[] {
  const [a, b] = [new Set(before), new Set(after)];
  return [...a.symmetricDifference(b)];
}

/** Which of some sources each series is read from. */
class ChosenSources {
  readonly #sources: readonly Source[];
  readonly #sets: RuleSetsOverTime;
  readonly #stretches: ReadonlyMap<RulesOverTime, readonly RulesStretch[]>;

  constructor(
    sources: readonly Source[],
    sets: RuleSetsOverTime,
    stretches: ReadonlyMap<RulesOverTime, readonly RulesStretch[]>,
  ) {
    this.#sources = sources;
    this.#sets = sets;
    this.#stretches = stretches;
  }

  /** Its place. */
  of(tags: Uint8Array): number {
    const decoded = decodeTags(tags);
    const values: TagValues = new Map(decoded.map(({ name, value }) => [name, value]));
    if (values.get(rollupTag) === 'true') return this.#ofRollup(values);
    const rules = this.#sets.of(decoded);
    const stretches = rules === null ? [] : this.#stretches.get(rules)!;
    return this.#firstThroughout(stretches, (stretch, source) => has(stretch, decoded, source));
  }

  #ofRollup(values: TagValues): number {
    // They may be of any set: those of a set are not told from others.
    const sets = [...this.#stretches.values()].filter((stretches) =>
      stretches.some(({ rules }) => rules.rollupRules.some((rule) => makes(rule, values, null))),
    );
    const stretches = sets[0] ?? [];
    if (stretches.length === 0) {
      // Of no rule that is known: others have put it where not all are.
      return Math.max(
        0,
        this.#sources.findIndex((source) => source !== null && !source.takesAll),
      );
    }
    return this.#firstThroughout(
      stretches,
      ({ rules }, source) =>
        source !== null && rules.rollupRules.some((rule) => makes(rule, values, source.policy)),
    );
  }

  /** The first that has it in all stretches, else in the last one, else the first that takes all. */
  #firstThroughout(
    stretches: readonly RulesStretch[],
    isIn: (stretch: RulesStretch, source: Source) => boolean,
  ): number {
    const throughout = this.#sources.findIndex((source) =>
      stretches.length === 0
        ? takesAll(source)
        : stretches.every((stretch) => isIn(stretch, source)),
    );
    if (throughout >= 0) return throughout;
    const last = stretches.at(-1);
    const atEnd = last === undefined ? -1 : this.#sources.findIndex((source) => isIn(last, source));
    return atEnd >= 0 ? atEnd : Math.max(0, this.#sources.findIndex(takesAll));
  }
}

function has({ matcher }: RulesStretch, tags: Tags, source: Source): boolean {
  const match = matcher.matchMappings(tags);
  return source === null ? match.drops.length === 0 : keepsWindows(match, source);
}

/** Whether a rule makes the series. @param policy where; null for anywhere */
function makes(rule: RollupRule, values: TagValues, policy: StoragePolicy | null): boolean {
  return rule.targets.some((target) => {
    if (policy !== null && !target.storagePolicies.some((each) => keyOf(each) === keyOf(policy))) {
      return false;
    }
    const output = outputOf(target);
    if (output === null || !isNameOf(output.metricName, values.get(metricNameTag) ?? '')) {
      return false;
    }
    const ofRule = rule.tags.filter(
      ({ name, value }) => value !== '' && !name.startsWith(ruleTagPrefix),
    );
    if (!ofRule.every(({ name, value }) => values.get(name) === value)) return false;
    if (output.by === 'exclude')
      return output.tags.every(
        (name) => !values.has(name) || ofRule.some((tag) => tag.name === name),
      );
    const expected = new Set([
      metricNameTag,
      rollupTag,
      ...output.tags,
      ...ofRule.map(({ name }) => name),
    ]);
    return values.size === expected.size && [...values.keys()].every((name) => expected.has(name));
  });
}
